"""A served board keeps to the wall clock, and a round trip through its port costs little more."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from hitl.boards.paced import SLICE_NS, PacedBoard, Status
from hitl.boards.serial_port import SerialLink
from rtsim.core.clock import stopwatch
from rtsim.core.signals import Vector

pytestmark = [
    pytest.mark.realtime,
    pytest.mark.usefixtures("emulator"),
    pytest.mark.skipif(os.name != "posix", reason="pseudo-terminals are of POSIX"),
]

IMAGES = Path(__file__).resolve().parents[2] / "firmware" / "tests"
BYTE_NS = 20_000
SIZE = 14
TURNS = 3
"""One of them has to keep a bound on time; the machine may spoil the others."""


def round_trips(count: int, image: str = "interrupt_echo") -> tuple[Vector, Status]:
    """Wall ns, each of SIZE bytes to an echo and back, and what the server says of itself."""
    took = []
    with PacedBoard("board:uno", IMAGES / f"{image}.hex") as board:
        port = SerialLink(board.port, 500_000)
        try:
            for k in range(count):
                sent = bytes((k + j) % 256 for j in range(SIZE))
                start, got = stopwatch(), b""
                port.send(sent)
                while len(got) < SIZE:
                    assert port.wait(20.0), f"{len(got)} bytes of {SIZE} came back"
                    got += port.receive()
                took.append(stopwatch() - start)
                assert got == sent
            return np.array(took[1:], float), board.status()  # the first one waited for the boot
        finally:
            port.close()


def test_no_answer_is_faster_than_its_line_and_the_median_little_slower() -> None:
    on_the_wire = (SIZE + 1) * BYTE_NS
    medians = []
    for _ in range(TURNS):
        took, _ = round_trips(300)
        assert took.min() > on_the_wire - BYTE_NS, "the echo begins when the first byte is there"
        medians.append(float(np.median(took)) - on_the_wire)
        if medians[-1] <= 2 * SLICE_NS:
            return
    raise AssertionError(f"medians of {medians} ns above the wire; two slices are {2 * SLICE_NS}")


def test_time_that_passes_is_the_boards_or_has_slipped() -> None:
    _, status = round_trips(300)
    timing = status.timing
    assert timing.rate <= 1.0 + 1e-3, "ahead by what is computed before it is due at most"
    assert abs(timing.rate + timing.slipped_share - 1.0) < 0.05
    assert timing.slipped_ns == 0 or timing.slips > 0
    assert timing.received == timing.sent + (status.lost + status.garbled)
