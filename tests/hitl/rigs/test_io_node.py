"""The I/O node's firmware on an emulated Uno: pins, edges, silence, and what is safe when.

The I/O node on a Nano and a Mega: the same pins by name, and what they can do there.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from emulated_board_parts import need, on_each
from io_node_parts import MS, node
from rig_parts import changed

from hitl.boards.known import board_named
from hitl.interface import InterfaceError
from hitl.rigs.controller import RigController
from hitl.rigs.file import load_rig
from hitl.rigs.rig import PINS, NodeKind
from rtsim.core.tag import Period, Tag

OUT, PWM = NodeKind.DIGITAL_OUT, NodeKind.PWM_OUT
IN, UP, ADC = NodeKind.DIGITAL_IN, NodeKind.PULLED_UP, NodeKind.ADC_IN


@on_each
def test_every_pin_is_driven(backend: str) -> None:
    with node(backend) as it:
        it.start(dict.fromkeys(PINS, OUT))
        for pin in PINS:
            it.step(**{pin: 1})
            driven = [p for p in PINS if it.board.pins.read(p)]
            assert driven == [pin]


def test_every_pin_is_read() -> None:
    with node() as it:
        it.start(dict.fromkeys(PINS, IN))
        for pin in PINS:
            it.board.pins.write(pin, True)
            levels = it.step()["levels"]
            assert levels[0] | levels[1] << 6 | levels[2] << 12 == 1 << PINS.index(pin)
            it.board.pins.write(pin, False)


@on_each
def test_a_pulled_up_input_is_high_until_it_is_driven(backend: str) -> None:
    with node(backend) as it:
        it.start({"D7": UP, "D6": IN})
        assert it.step()["levels"][0] == 1 << 5
        it.board.pins.write("D7", False)
        assert it.step()["levels"][0] == 0


@on_each
@pytest.mark.parametrize("pin", ["D3", "D11"])
def test_a_duty_is_driven_exactly(backend: str, pin: str) -> None:
    with node(backend) as it:
        it.start({pin: PWM})
        for raw in (0, 1, 51, 128, 254, 255):
            it.step(**{pin: raw})
            made = it.board.pins.pwm(pin)
            assert made is not None
            assert made.duty == pytest.approx(raw / 255, abs=1e-12)
            assert made.frequency == pytest.approx(16e6 / 510)


@on_each
def test_volts_are_converted_where_the_rig_wants_them(backend: str) -> None:
    with node(backend) as it:
        it.start({"A0": ADC, "A3": ADC, "A5": ADC, "A1": IN})
        for pin, volts in (("A0", 1.234), ("A1", 3.0), ("A3", 2.5), ("A5", 5.0)):
            it.board.pins.set_volts(pin, volts)
        assert it.step()["analog"] == [252, 0, 0, 512, 0, 1023]


@on_each
@pytest.mark.parametrize("pin", ["D2", "D8", "A2"])
def test_edges_are_stamped_in_cycles(backend: str, pin: str) -> None:
    """One port each.  Late by 40 to 160 cycles, as the interrupt's entry and others' take."""
    with node(backend) as it:
        it.start({pin: IN}, pulses=(pin,))
        before = it.step()
        assert (before["rises"][0], before["falls"][0]) == (0, 0)
        edges = []
        for level, after in ((True, 5 * MS), (False, 12_345), (True, 9 * MS), (False, 777)):
            it.board.advance(after)
            it.board.pins.write(pin, level)
            edges.append(it.board.cycles)
        it.board.advance(MS)
        found = it.step()
        assert (found["rises"][0], found["falls"][0]) == (2, 2)
        # the board's own count of cycles began some time after power came on
        late = [found["fall"][0] - edges[3], found["rise"][0] - edges[2]]
        assert abs(late[0] - late[1]) <= 120
        assert found["width"][0] == pytest.approx(777, abs=120)
        assert found["width"][0] == found["fall"][0] - found["rise"][0]


def test_a_pin_that_is_not_watched_leaves_no_stamp() -> None:
    with node() as it:
        it.start({"D4": IN, "D5": IN}, pulses=("D4",))
        it.board.pins.write("D5", True)
        it.board.advance(MS)
        found = it.step()
        assert found["rises"] == [0, 0, 0, 0]
        assert found["levels"][0] == 1 << 3


def test_edges_of_one_port_are_none_of_another() -> None:
    """D2 and D10 have the same bit of their ports."""
    with node() as it:
        it.start({"D2": IN, "D10": IN}, pulses=("D2", "D10"))
        it.board.pins.write("D2", True)
        it.board.advance(MS)
        found = it.step()
        assert (found["rises"][:2], found["falls"][:2]) == ([1, 0], [0, 0])
        it.board.pins.write("D10", True)
        it.board.advance(MS)
        found = it.step()
        assert (found["rises"][:2], found["falls"][:2]) == ([1, 1], [0, 0])


def test_a_pin_that_is_high_at_the_start_has_no_edge_and_no_width() -> None:
    with node() as it:
        it.board.pins.write("D4", True)
        it.start({"D4": IN}, pulses=("D4",))
        assert it.step()["rises"][0] == 0
        it.board.pins.write("D4", False)
        it.board.advance(MS)
        found = it.step()
        assert (found["rises"][0], found["falls"][0], found["width"][0]) == (0, 1, 0)


SAFE = {"D4": 1, "D5": 0, "D3": 200}
KINDS = {"D4": OUT, "D5": OUT, "D3": PWM}
SAFELY = [True, False, 200 / 255]
DRIVEN = [False, True, 10 / 255]


@on_each
def test_silence_brings_the_safe_values_after_the_stated_time(backend: str) -> None:
    with node(backend) as it:
        it.start(KINDS, SAFE, watchdog=50)
        found = it.step(D5=1, D3=10)
        stepped = it.board.cycles
        assert [it.level(p) for p in SAFE] == DRIVEN
        it.board.pins.edges()
        it.board.advance(30 * MS)
        assert [it.level(p) for p in SAFE] == DRIVEN
        it.board.advance(30 * MS)
        assert [it.level(p) for p in SAFE] == SAFELY
        edges = it.board.pins.edges()
        assert {(e.pin, e.level) for e in edges} == {("D4", True), ("D5", False)}
        began = it.board.cycles - 60 * MS
        for edge in edges:
            after = (edge.cycle - began) / MS
            assert 40 < after < 50, "within 50 ms of the step, whose reply took some of them"
        assert found["silences"] == [0]
        again = it.step(D5=1, D3=10)
        assert again["silences"] == [1], "it is told"
        assert [it.level(p) for p in SAFE] == DRIVEN
        assert stepped < it.board.cycles


def test_the_watchdog_is_exact() -> None:
    """From the driving of the pins to the safe values: the stated time and at most 20 us."""
    with node() as it:
        it.start({"D4": OUT}, {"D4": 0}, watchdog=50)
        it.board.pins.edges()
        it.step(D4=1)
        it.board.advance(60 * MS)
        up, down = it.board.pins.edges()
        assert (up.level, down.level) == (True, False)
        assert 0 <= down.cycle - up.cycle - 50 * MS <= 320


def test_it_is_safe_before_the_first_step_however_long_that_takes() -> None:
    with node() as it:
        assert all(it.is_input(pin) for pin in PINS), "before START nothing is driven"
        it.start(KINDS, SAFE, watchdog=5)
        assert [p for p in PINS if not it.is_input(p)] == ["D3", "D4", "D5"]
        assert [it.level(p) for p in SAFE] == SAFELY
        it.board.advance(20 * MS)
        assert [it.level(p) for p in SAFE] == SAFELY
        assert it.step(D5=1, D3=10)["silences"] == [0], "waiting for the first step is no silence"


def test_it_is_safe_after_stop_and_driven_by_nobody_after_a_reset() -> None:
    with node() as it:
        it.start(KINDS, SAFE)
        it.step(D5=1, D3=10)
        it.stop()
        assert [it.level(p) for p in SAFE] == SAFELY
        it.board.advance(200 * MS)
        assert [it.level(p) for p in SAFE] == SAFELY
        it.start(KINDS, SAFE)
        it.step(D5=1, D3=10)
        it.board.reset()
        assert all(it.is_input(pin) for pin in PINS)
        it.board.advance(50 * MS)
        assert all(it.is_input(pin) for pin in PINS), "and it stays so until it is started again"


@on_each
def test_pins_keep_their_safe_values_from_one_start_to_the_next(backend: str) -> None:
    """No glitch on the way: neither an edge at a digital output nor a moment without PWM."""
    with node(backend) as it:
        it.start(KINDS, SAFE)
        it.step(D4=1, D3=200)
        it.board.pins.edges()
        it.start(KINDS, SAFE)
        assert it.board.pins.edges() == []
        assert [it.level(p) for p in SAFE] == SAFELY


def test_a_duty_is_held_through_a_start_to_some_cycles() -> None:
    with node() as it:
        it.start({"D3": PWM}, {"D3": 200})
        duties = set()

        def looked() -> None:
            made = it.board.pins.pwm("D3")
            duties.add(None if made is None else round(255 * made.duty))

        it.start({"D3": PWM}, {"D3": 200}, looked=looked)
        assert duties == {200}


def test_a_pin_that_was_driven_is_an_input_for_the_next_rig() -> None:
    with node() as it:
        it.start({"D4": OUT, "D3": PWM}, {"D4": 1, "D3": 255})
        it.stop()
        it.start({"D4": IN, "D3": IN})
        assert it.is_input("D4")
        assert it.is_input("D3")
        assert it.board.pins.pwm("D3") is None
        it.board.pins.write("D4", False)
        assert it.step()["levels"][0] == 0, "no pull-up is left either"


MEGA_OUT, MEGA_PWM, MEGA_IN, MEGA_ADC = (
    NodeKind.DIGITAL_OUT, NodeKind.PWM_OUT, NodeKind.DIGITAL_IN, NodeKind.ADC_IN,
)  # fmt: skip
each = pytest.mark.parametrize("name", ["nano", "mega2560"])


@pytest.mark.long
def test_every_pin_of_a_mega_is_driven_and_read() -> None:
    with node(name="mega2560") as it:
        it.start(dict.fromkeys(PINS, MEGA_OUT))
        for pin in PINS:
            it.step(**{pin: 1})
            assert [p for p in PINS if it.board.pins.read(p)] == [pin]
        it.start(dict.fromkeys(PINS, MEGA_IN))
        for pin in PINS:
            it.board.pins.write(pin, True)
            levels = it.step()["levels"]
            assert levels[0] | levels[1] << 6 | levels[2] << 12 == 1 << PINS.index(pin)
            it.board.pins.write(pin, False)


@each
def test_duties_voltages_edges_and_silence(name: str) -> None:
    io = board_named(name).io_node
    assert io is not None
    first, second = io.pwm
    with node(name=name) as it:
        kinds = {
            first: MEGA_PWM,
            second: MEGA_PWM,
            "D4": MEGA_OUT,
            "D12": MEGA_IN,
            "A2": MEGA_ADC,
            "A5": MEGA_ADC,
        }
        it.start(kinds, {first: 51, "D4": 1}, pulses=("D12",), watchdog=20)
        assert (it.level(first), it.level(second), it.level("D4")) == (0.2, 0.0, True)
        it.board.pins.set_volts("A2", 2.5)
        it.board.pins.set_volts("A5", 1.234)
        before = it.step(**{first: 204, second: 255})
        assert (it.level(first), it.level(second), it.level("D4")) == (0.8, 1.0, False)
        assert before["analog"] == [0, 0, 512, 0, 0, 252]
        edges = []
        for level in (True, False):
            it.board.advance(2 * MS)
            it.board.pins.write("D12", level)
            edges.append(it.board.cycles)
        it.board.advance(MS)
        begun = it.board.cycles
        after = it.step()
        assert (after["rises"][0], after["falls"][0]) == (1, 1)
        assert after["width"][0] == pytest.approx(edges[1] - edges[0], abs=80)
        age = (after["now"][0] - after["rise"][0]) % 2**32
        assert 0 < age - (begun - edges[0]) < MS, "the request takes 0.68 ms on the line"
        it.board.advance(25 * MS)
        assert (it.level(first), it.level("D4")) == (0.2, True)
        assert it.step()["silences"] == [1]


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "light", "lamp"), [("nano", "D3", "D2"), ("mega2560", "D9", "D10")]
)
def test_the_example_rig_at_another_node(tmp_path: Path, name: str, light: str, lamp: str) -> None:
    """The lamp's switch sees 200 lx, and 0.2 s later it has switched the lamp on."""
    need("avr8js")
    path = changed(tmp_path, '"board:uno"', f'"board:{name}"')
    text = path.read_text(encoding="utf-8")
    path.write_text(
        text.replace('"D3"', f'"{light}"').replace("node.D3", f"node.{light}")
        .replace('"D2"', f'"{lamp}"').replace("node.D2", f"node.{lamp}"), encoding="utf-8",
    )  # fmt: skip
    rig = load_rig(path)
    controller = RigController(rig, Period.of(0.02)).fresh()
    try:
        answers = []
        for tick in range(5):
            tag = Tag(tick * 20_000_000)
            controller.send(tag, np.array([200.0]))
            found = controller.receive(tag, 0.02)
            assert found is not None
            answers.append(dict(zip(controller.outputs.names, found.tolist(), strict=True)))
    finally:
        controller.close()
    assert answers[0]["lamp"] == 0.0
    assert answers[-1]["lamp"] == 1.0
    # from 1000 lx (safe) to 200 lx: 293 lx after 21.5 ms with RC = 10 ms; delays of up to 2.5 ms
    assert 0.0222 < answers[-1]["lamp_on_at"] < 0.0247


WRONG = [
    (
        '"D3", kind',
        '"D3", kind',
        "D3 cannot make PWM: the I/O node does not use Timer 3; choose D9",
    ),
    ('"D3", kind', '"D11", kind', "D11 cannot make PWM: its Timer 1 times edges"),
]


@pytest.mark.parametrize(("old", "new", "said"), WRONG)
def test_what_a_mega_cannot_do(tmp_path: Path, old: str, new: str, said: str) -> None:
    path = changed(tmp_path, '"board:uno"', '"board:mega2560"')
    path.write_text(path.read_text(encoding="utf-8").replace(old, new), encoding="utf-8")
    with pytest.raises(InterfaceError, match=said):
        load_rig(path)


def test_edges_that_a_mega_cannot_stamp(tmp_path: Path) -> None:
    path = changed(tmp_path, '"board:uno"', '"board:mega2560"')
    text = path.read_text(encoding="utf-8").replace('"D3", kind', '"D9", kind')
    path.write_text(text, encoding="utf-8")
    said = "lamp_on_at: D2 gets no time stamps on this board; choose D10 to D13"
    with pytest.raises(InterfaceError, match=said):
        load_rig(path)
