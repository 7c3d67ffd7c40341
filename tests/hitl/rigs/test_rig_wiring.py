"""Emulated boards wired pin to pin: the delay of a wire, a low pass; cuts change nothing.

Between the signals of a rig and the pins of its node: scales, limits, times.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from emulated_board_parts import IMAGES, need, on_each, running
from rig_parts import EXAMPLE, RIG, changed

from hitl.boards import open_board
from hitl.interface import InterfaceError, load_interface
from hitl.rigs.controller import NodeReader, NodeWriter, delay_ns
from hitl.rigs.file import load_rig
from hitl.rigs.rig import CLOCK_HZ, INTERFACE, PINS, LowPass, Rig, RigEnd, RigWire
from hitl.rigs.wiring import Capacitor, WiredBoards
from rtsim.core.errors import ControllerError, ScenarioError
from rtsim.core.signals import Vector
from rtsim.core.tag import Period, Tag

MS = 16_000
SLICE = 3200
PWM = RigWire(RigEnd("node", "D6"), RigEnd("switch", "A0"), LowPass(10e3, 1e-6))
BACK = RigWire(RigEnd("switch", "D8"), RigEnd("node", "D2"))
Volts = list[tuple[int, str, float]]


@contextmanager
def wired(
    wires: Sequence[RigWire], volts: Volts | None = None, backend: str = "avr8js",
    device: Path = EXAMPLE / "illumination.hex",
) -> Iterator[WiredBoards]:  # fmt: skip
    """``pins.hex`` as the node, and the example's switch."""
    need(backend)
    url = f"board:uno?backend={backend}"
    boards = {"node": open_board(url, IMAGES / "pins.hex"), "switch": open_board(url, device)}
    told = [] if volts is None else volts
    out = WiredBoards(boards, wires, SLICE, lambda at, end, v: told.append((at, str(end), v)))
    try:
        yield out
    finally:
        out.close()


def test_a_capacitor_is_charged_as_the_equation_says() -> None:
    part = Capacitor(LowPass(10e3, 1e-6), 16_000_000)
    part.drive(0, 5.0)
    assert part.volts(160_000) == pytest.approx(5.0 * (1.0 - math.exp(-1.0)), rel=1e-12)
    part.drive(160_000, 0.0)
    assert part.volts(480_000) == pytest.approx(
        5.0 * (1.0 - math.exp(-1.0)) * math.exp(-2.0), rel=1e-12
    )
    often = Capacitor(LowPass(10e3, 1e-6), 16_000_000)
    for cycle in range(0, 160_000, 7):
        often.drive(cycle, 5.0)
        assert often.volts(cycle) == pytest.approx(5.0 * (1.0 - math.exp(-cycle / 160_000)))


@on_each
def test_pwm_through_a_low_pass_settles_as_the_analytic_answer(backend: str) -> None:
    volts: Volts = []
    with wired([PWM, BACK], volts, backend) as boards:
        boards.advance(60 * MS)
        assert boards.pins.pwm("D6") is not None
    found = [(at, v) for at, end, v in volts if end == "switch.A0"]
    begun = SLICE  # the PWM is there from the first instructions on, and seen at a slice's end
    for at, v in found[1:]:
        expected = 1.25 * (1.0 - math.exp(-max(0, at - begun) / 160_000))
        assert v == pytest.approx(expected, abs=1e-9), at
    assert len(found) == 1 + 60 * MS // SLICE, "once a slice"


def test_an_edge_arrives_one_slice_later_to_the_cycle() -> None:
    """D12 of ``pins.hex`` toggles each 1000 cycles or so: the far end sees the same edges."""
    with running("pins", "avr8js") as alone:
        alone.advance(4 * MS)
        edges = [e for e in alone.pins.edges() if e.pin == "D12" and e.cycle < 4 * MS]
    volts: Volts = []
    with wired([RigWire(RigEnd("node", "D12"), RigEnd("switch", "A1"))], volts) as boards:
        boards.advance(5 * MS)
    arrived = [(at, v) for at, end, v in volts if end == "switch.A1"][1:]
    sent = [(e.cycle + SLICE, 5.0 * e.level) for e in edges]
    assert len(sent) > 50
    assert arrived[: len(sent)] == sent


def test_a_device_answers_a_pin_through_two_wires() -> None:
    """1.25 V are dark: the switch raises D8, and D13 of the node follows its D2."""
    with wired([PWM, BACK]) as boards:
        assert boards.node.pins.read("D13") is False
        boards.advance(4 * MS)
        assert boards.node.pins.read("D13") is True


def cut(sizes: Sequence[int], bytes_at: int) -> tuple[Volts, list[tuple[int, int]], int]:
    """A run of 20 ms in pieces of ``sizes``, in turn, with a byte to the node on its way."""
    volts: Volts = []
    with wired(
        [PWM, BACK, RigWire(RigEnd("node", "D12"), RigEnd("switch", "A1"))], volts
    ) as boards:
        boards.advance(bytes_at)
        boards.send(b"\x00")
        k = 0
        while boards.cycles < 20 * MS:
            boards.advance(min(sizes[k % len(sizes)], 20 * MS - boards.cycles))
            k += 1
        answer = [(b.cycle, b.value) for b in boards.take()]
        return volts, answer, boards.node.cycles


def test_how_a_run_is_cut_changes_nothing() -> None:
    whole = cut([20 * MS], 5000)
    assert len(whole[1]) == 2, "the ADC's value of channel 0"
    assert cut([1, 777, SLICE, 12_345], 5000) == whole
    assert cut([SLICE // 2], 5000) == whole


def test_waiting_for_a_byte_ends_with_it() -> None:
    with wired([PWM, BACK]) as boards:
        boards.advance(MS)
        assert boards.wait(0.0) is False
        assert boards.wait(0.001) is False
        assert boards.cycles == 2 * MS
        boards.send(b"\x00")
        assert boards.wait(0.1) is True
        (stamped,) = boards.take()
        assert boards.cycles == stamped.cycle


def test_a_reset_lets_the_wires_go() -> None:
    volts: Volts = []
    device = IMAGES / "pins.hex"  # D13 follows D2
    wires = [
        RigWire(RigEnd("switch", "D13"), RigEnd("node", "D2")),
        RigWire(RigEnd("node", "D13"), RigEnd("switch", "A1")),
    ]
    with wired(wires, volts, device=device) as boards:
        boards._boards["switch"].pins.write("D2", True)
        boards.advance(3 * MS)
        assert volts[-1][1:] == ("switch.A1", 5.0)
        boards.advance(100)  # off the grid
        at = boards.cycles
        boards.reset()
        boards.advance(2 * SLICE)
        levels = [(cycle - at, v) for cycle, _, v in volts if cycle > at]
        assert levels[0] == (SLICE, 0.0), "no later than the wire's delay"
        assert levels[1][1] == 5.0, "and driven again by the program that began anew"


def test_a_digital_pin_through_a_low_pass_is_exact_between_its_edges() -> None:
    with running("pins", "avr8js") as alone:
        alone.advance(4 * MS)
        edges = [e for e in alone.pins.edges() if e.pin == "D12"]
    volts: Volts = []
    with wired(
        [RigWire(RigEnd("node", "D12"), RigEnd("switch", "A1"), LowPass(1e3, 1e-7))], volts
    ) as boards:
        boards.advance(4 * MS)
    found = [(at, v) for at, end, v in volts if end == "switch.A1"][1:]
    assert len(found) == 20
    for at, v in found:
        expected, since, held = 0.0, 0, 0.0
        for edge in (e for e in edges if e.cycle < at):
            expected = held + (expected - held) * math.exp(-(edge.cycle - since) / 1600)
            since, held = edge.cycle, 5.0 * edge.level
        expected = held + (expected - held) * math.exp(-(at - since) / 1600)
        assert v == pytest.approx(expected, abs=1e-9), at
    assert max(v for _, v in found) > 2.0


OUTPUTS = load_interface(INTERFACE).outputs
LAMP = 'lamp = { pin = "D2", kind = "digital_in" }'


def answer(**values: object) -> Vector:
    """What the node's firmware sends."""
    return OUTPUTS.initial(values)


def reader(rig: Rig) -> NodeReader:
    return NodeReader(rig, OUTPUTS, 1_000_000)


def test_a_value_is_driven_as_the_nearest_duty() -> None:
    writer = NodeWriter(load_rig(RIG))
    for light, raw in ((0.0, 0), (1000.0, 255), (500.0, 128), (501.0, 128), (499.9, 127)):
        drive = writer.drive(np.array([light]))
        assert drive.tolist() == [0.0, raw] + 16 * [0.0]


def test_a_value_beyond_its_limits_saturates_or_is_refused(tmp_path: Path) -> None:
    assert NodeWriter(load_rig(RIG)).drive(np.array([1e6]))[1] == 255
    strict = NodeWriter(load_rig(changed(tmp_path, ', overflow = "saturate"', "")))
    assert strict.drive(np.array([1000.0]))[1] == 255
    with pytest.raises(ControllerError, match=r"light = 1000.5 lx is outside its limits at D3"):
        strict.drive(np.array([1000.5]))
    for writer in (strict, NodeWriter(load_rig(RIG))):
        with pytest.raises(ControllerError, match=r"light = nan lx"):
            writer.drive(np.array([np.nan]))


def test_without_limits_a_duty_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    row = 'low = 0, high = 1000, safe = 1000, overflow = "saturate"'
    writer = NodeWriter(load_rig(changed(tmp_path, row, "safe = 1000")))
    with pytest.raises(ControllerError, match=r"light = 1003.0 of illumination does not fit"):
        writer.drive(np.array([1003.0]))


def test_times_of_edges_are_the_simulations(tmp_path: Path) -> None:
    width = '{ pin = "D2", kind = "pulse_in", measure = "width" }'
    rig = load_rig(changed(tmp_path, LAMP, f"{LAMP}\nlit = {width}"))
    it = reader(rig)
    none = it.values(Tag(0), answer(now=[0]))
    assert none.tolist() == [0.0, 0.0, -1.0, -1.0, 0.0], "no edge yet: the initial values"
    now = 20 * CLOCK_HZ // 1000
    found = it.values(
        Tag(20_000_000),
        answer(now=[now], levels=[1, 0, 0], rise=[now - 160, 0, 0, 0], rises=[1, 0, 0, 0]),
    )
    assert found.tolist() == [1.0, 0.0, pytest.approx(0.020 + 0.001 - 1e-5), -1.0, 1.0]
    held = it.values(
        Tag(40_000_000), answer(now=[5], levels=[1, 0, 0], rise=[9, 0, 0, 0], rises=[1, 0, 0, 0])
    )
    assert held[2] == found[2], "without a new edge the time holds"
    last = it.values(
        Tag(60_000_000),
        answer(now=[100], rise=[9, 0, 0, 0], rises=[1, 0, 0, 0], fall=[2**32 - 60, 0, 0, 0],
               falls=[1, 0, 0, 0], width=[3200, 0, 0, 0]),
    )  # fmt: skip
    assert last.tolist() == pytest.approx([0.0, 0.0002, found[2], 0.061 - 1e-5, 2.0]), "a wrap"


def test_an_edge_that_came_after_the_stamp_of_its_request_is_later_than_it(tmp_path: Path) -> None:
    it = reader(load_rig(changed(tmp_path, LAMP, LAMP)))
    it.values(Tag(0), answer())
    found = it.values(Tag(0), answer(now=[100], rise=[116, 0, 0, 0], rises=[1, 0, 0, 0]))
    assert found[1] == pytest.approx(0.001 + 1e-6)


def test_which_copy_of_a_request_was_taken_is_for_the_nodes_clock_to_say(tmp_path: Path) -> None:
    """An edge 10 us before the stamp of a request that was sent at once and again after 4 ms."""
    for late, taken in ((0, 0.021), (40, 0.021), (64_000, 0.025), (63_900, 0.025)):
        it = reader(load_rig(changed(tmp_path, LAMP, LAMP)))
        it.values(Tag(0), answer(now=[2**32 - 100]))
        now = 320_000 - 100 + late
        edge = {"rise": [now - 160, 0, 0, 0], "rises": [1, 0, 0, 0]}
        found = it.values(Tag(20_000_000), answer(now=[now], **edge), [0, 4_000_000])
        assert found[1] == pytest.approx(taken - 1e-5), late


def test_edges_are_counted_beyond_16_bits() -> None:
    it = reader(load_rig(RIG))
    for rises, falls in ((65_000, 3), (400, 30_000), (60_000, 60_000), (10, 0)):
        found = it.values(Tag(0), answer(rises=[rises, 0, 0, 0], falls=[falls, 0, 0, 0]))
    assert found[3] == 2 * 65_536 + 10 - 65_000 + 65_536 - 3


def test_edges_before_the_run_are_none_of_its() -> None:
    it = reader(load_rig(RIG))
    before = {"rise": [7, 0, 0, 0], "rises": [3, 0, 0, 0], "falls": [2, 0, 0, 0]}
    first = it.values(Tag(0), answer(now=[100], levels=[1, 0, 0], **before))
    assert first.tolist() == [1.0, -1.0, -1.0, 0.0]
    again = it.values(
        Tag(20_000_000),
        answer(now=[320_100], fall=[320_100, 0, 0, 0], **{**before, "falls": [3, 0, 0, 0]}),
    )
    assert again.tolist() == pytest.approx([0.0, -1.0, 0.021, 1.0])


def test_volts_become_values(tmp_path: Path) -> None:
    row = 'lamp = { pin = "A3", kind = "adc_in", unit = "degC", per_volt = 100, offset = -50 }'
    rig = load_rig(changed(tmp_path, LAMP, row))
    found = reader(rig).values(Tag(0), answer(analog=[0, 0, 0, 512, 0, 0]))
    assert found[0] == pytest.approx(2.5 * 100 - 50)


def test_the_level_of_each_pin_is_its_own(tmp_path: Path) -> None:
    for number, pin in enumerate(PINS):
        if pin == "D3":  # is driven
            continue
        rig = load_rig(changed(tmp_path, LAMP, LAMP.replace("lamp", "it").replace("D2", pin)))
        for other in range(len(PINS)):
            levels = [0, 0, 0]
            levels[other // 6] = 1 << other % 6
            found = reader(rig).values(Tag(0), answer(levels=levels))
            assert found[0] == float(other == number), (pin, other)


def test_silences_are_counted_beyond_a_byte() -> None:
    it = reader(load_rig(RIG))
    for told in (0, 200, 255, 3):
        it.values(Tag(0), answer(silences=[told]))
    assert it.silences == 259


def test_a_request_is_stamped_when_its_last_byte_has_been_taken() -> None:
    assert delay_ns(34, 250_000) - delay_ns(34, 500_000) == 680_000
    assert 680_000 < delay_ns(34, 500_000) < 780_000


@pytest.mark.parametrize(
    ("board", "hold", "asked", "pace", "said"),
    [
        ("board:uno", False, None, "max", ""),
        ("board:uno", False, "max", "max", ""),
        ("board:uno", False, "1", "", "is emulated and runs in lockstep"),
        ("serial:///dev/ttyACM0", False, None, "1", ""),
        ("serial:///dev/ttyACM0", False, "1.0", "1.0", ""),
        ("serial:///dev/ttyACM0", False, "max", "", "can neither run faster nor wait"),
        ("serial:///dev/ttyACM0", False, "0.5", "", "runs by its own clock, at rate 1"),
        ("serial:///dev/ttyACM0", False, "fast", "", "give 'max' or a rate"),
        ("serial:///dev/ttyACM0", True, "max", "max", ""),
        ("serial:///dev/ttyACM0", True, "0.5", "0.5", ""),
        ("serial:///dev/ttyACM0", True, None, "1", ""),
    ],
)
def test_a_free_running_rig_is_flown_at_rate_one(
    tmp_path: Path, board: str, hold: bool, asked: str | None, pace: str, said: str
) -> None:
    path = changed(tmp_path, '"board:uno"', f'"{board}"')
    if hold:
        path = changed(tmp_path, "watchdog = 0.1", "hold = true\nwatchdog = 0.1")
        path.write_text(path.read_text().replace('"board:uno"', f'"{board}"', 1))
    rig = load_rig(path)
    if not said:
        assert rig.pace_for(asked) == pace
        return
    with pytest.raises(ScenarioError, match=said):
        rig.pace_for(asked)


def test_another_board_may_bring_its_own_rate() -> None:
    rig = load_rig(RIG)
    assert rig.on("serial:///dev/ttyACM0").url == "serial:///dev/ttyACM0?baud=500000"
    assert rig.on("serial:///dev/ttyACM0?baud=250000").url == "serial:///dev/ttyACM0?baud=250000"
    other = rig.on("board:uno?baud=250000&backend=simavr")
    assert (other.url, other.baud) == ("board:uno?backend=simavr&baud=250000", 250_000)


def test_a_watchdog_within_the_period_is_refused() -> None:
    rig = load_rig(RIG)
    rig.check_watchdog(Period.of(0.099))
    with pytest.raises(
        InterfaceError, match=r":3: watchdog = 0.1 s is not longer than the controller's period"
    ):
        rig.check_watchdog(Period.of(0.1))
