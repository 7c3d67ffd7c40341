"""Emulated boards wired pin to pin: the delay of a wire, a low pass; cuts change nothing."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
from emulated_board_parts import IMAGES, need, on_each, running
from rig_parts import EXAMPLE

from hitl.boards import open_board
from hitl.rigs.rig import LowPass, RigEnd, RigWire
from hitl.rigs.wiring import Capacitor, WiredBoards

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
