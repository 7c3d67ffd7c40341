"""The firmware on an emulated Uno: the real Session, the host's bits, cycles, resets, the stack."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from emulated_board_parts import BACKENDS, need, with_simavr
from firmware_parts import F16, Talk, random_inputs, started, talk, with_avr_gcc

from hitl.controllers.in_process import InProcess
from hitl.firmware import Firmware, firmware
from hitl.protocol.framing import decode_message, encode_message, wire_size
from hitl.protocol.messages import LAYOUTS, Reset
from hitl.protocol.session import (
    BoardRefused,
    BoardReset,
    Connected,
    Failed,
    Ponged,
    Started,
    Stepped,
    Stopped,
)
from rtsim.core.signals import Vector
from rtsim.core.tag import Tag

PERIOD = 320_000
"""Cycles of 20 ms."""
SLOTS = {500_000: 320, 115_200: 1360}
"""Cycles of a byte on the line: what the board's divider makes of the rate."""
MOST = 1.3
"""Round trip of an exchange to its wire time and execution time."""


def flight(t: Talk, inputs: list[Vector]) -> list[Stepped]:
    """One step a period; what is sent is sent at cycles that no reply decides."""
    start = t.board.cycles
    out = []
    for k, u in enumerate(inputs):
        t.board.advance(start + k * PERIOD - t.board.cycles)
        out.append(t.stepped(k, u))
    return out


@pytest.fixture(scope="module")
def f16() -> Firmware:
    return firmware(F16)


def test_a_conversation(f16: Firmware) -> None:
    with talk(f16) as t:
        event = t.connect()
        assert isinstance(event, Connected)
        board = event.board
        assert (board.double_bytes, board.clock_hz, board.max_payload) == (4, 16_000_000, 90)
        assert isinstance(t.start(f16.interface.parameters.initial({})), Started)
        first = t.stepped(0, np.zeros(20))
        assert 0 < first.stack < 2048 - f16.ram_bytes
        t.session.stop(t.now_ns)
        assert t.event() == Stopped(1)
        assert isinstance(t.start(f16.interface.parameters.initial({})), Started)
        again = t.stepped(0, np.zeros(20))
        assert again.counter == 1
        assert again.outputs.tolist() == first.outputs.tolist()


def test_its_clock_is_that_of_its_cycles(f16: Firmware) -> None:
    """Between the stamps of two pings, to what a board may be busy with when one ends."""
    trips = []
    with talk(f16) as t:
        t.connect()
        for nonce in range(3):
            t.board.advance(16_000_000)
            t.session.ping(nonce, t.now_ns)
            ponged = t.event()
            assert isinstance(ponged, Ponged)
            trips.append(ponged.trip)
    for a, b in pairwise(trips):
        passed = b.sent_ns - a.sent_ns
        assert abs((b.micros - a.micros) * 1000 - passed) <= 40_000
        assert b.received_ns - b.sent_ns < 1_000_000


def test_commands_are_the_hosts_to_the_bit(f16: Firmware) -> None:
    inputs = random_inputs(f16.interface.inputs, 300)
    host = InProcess(F16).fresh()
    with started(f16) as t:
        steps = flight(t, inputs)
    for k, (step, u) in enumerate(zip(steps, inputs, strict=True)):
        host.send(Tag(k), u)
        commands = host.receive(Tag(k), 1.0)
        assert commands is not None
        assert step.outputs.tobytes() == commands.tobytes(), f"step {k}"
    host.close()
    assert t.board.lost == len(encode_message(LAYOUTS[1][0](1), 1)) + 1  # HELLO, while it booted


def test_a_second_run_is_the_same_to_the_cycle(f16: Firmware) -> None:
    inputs = random_inputs(f16.interface.inputs, 40)
    runs = []
    for _ in range(2):
        with started(f16) as t:
            flight(t, inputs)
            runs.append(t.heard)
    assert runs[0] == runs[1]


@with_simavr
@pytest.mark.parametrize("baud", SLOTS)
def test_avr8js_and_simavr_agree_on_replies_and_on_execution_time(baud: int) -> None:
    """Times of bytes may differ by a cycle, where two interrupts meet."""
    need("avr8js")
    made = firmware(F16, baud=baud)
    inputs = random_inputs(made.interface.inputs, 100, seed=2)
    heard, cycles, ends = [], [], []
    for backend in BACKENDS:
        with started(made, backend) as t:
            cycles.append([step.cycles for step in flight(t, inputs)])
            heard.append([data for _, data in t.heard])
            ends.append(np.array([cycle for cycle, _ in t.heard]))
    assert cycles[0] == cycles[1]
    assert heard[0] == heard[1]
    assert np.abs(ends[0] - ends[1]).max() <= 1


def test_a_reset_in_a_run_is_named(f16: Firmware) -> None:
    with started(f16) as t:
        before = t.session.board
        assert before is not None
        for k in range(3):
            t.stepped(k, np.zeros(20))
        t.board.reset()
        event = t.step(3, np.zeros(20))
        assert isinstance(event, Failed)
        assert isinstance(event.error, BoardReset)
        assert "after step 3" in str(event.error)
        event = t.connect()
        assert isinstance(event, Connected)
        assert event.board.boot_nonce != before.boot_nonce


def test_a_reset_is_noticed_behind_a_zero(f16: Firmware) -> None:
    nonces = set()
    with talk(f16) as t:
        for _ in range(4):
            t.board.advance(PERIOD)
            said = t.board.receive()
            assert said[0] == 0
            (frame,) = t.session._parser.feed(said)
            assert len(frame) == 3
            notice = decode_message(frame)
            assert isinstance(notice, Reset)
            nonces.add(notice.boot_nonce)
            t.board.reset()
    assert len(nonces) == 4


def ratio(t: Talk, step: Stepped, request: int, reply: int, slot: int) -> float:
    wire = (wire_size(request) + wire_size(reply)) * slot
    return (t.heard[-1][0] - t.sent_at) / (wire + step.cycles)


@pytest.mark.sample(1)
@pytest.mark.parametrize("baud", SLOTS)
def test_an_exchange_takes_little_more_than_wire_and_execution(baud: int) -> None:
    """Of the F-16: 90 bytes and 28.  Each request follows the reply before at once."""
    made = firmware(F16, baud=baud)
    with started(made) as t:
        for k, u in enumerate(random_inputs(made.interface.inputs, 50)):
            assert ratio(t, t.stepped(k, u), 90, 28, SLOTS[baud]) <= MOST


@with_avr_gcc
@pytest.mark.parametrize("baud", SLOTS)
def test_an_exchange_of_32_bytes_and_16(tmp_path: Path, baud: int) -> None:
    made = firmware(small(tmp_path, "last = values[10]", "float last;"), baud=baud)
    with started(made) as t:
        for k, u in enumerate(random_inputs(made.interface.inputs, 50)):
            assert ratio(t, t.stepped(k, u), 32, 16, SLOTS[baud]) <= MOST


def test_requests_follow_the_reply_at_once_and_none_is_lost(f16: Firmware) -> None:
    with started(f16) as t:
        lost = t.board.lost
        for k in range(100):
            t.stepped(k, np.full(20, k))
        assert t.board.lost == lost
        assert sum(t.session.counts.garbage.values()) == 0


def small(folder: Path, step: str, header: str) -> str:
    """An interface of 22 bytes in and 4 out around one statement."""
    (folder / "small.h").write_text(header)
    (folder / "small.toml").write_text(
        'name = "small"\nperiod = "1/100"\nsources = []\nheaders = ["small.h"]\n'
        f'[code]\nstep = "{step}"\n'
        '[inputs]\nvalues = { type = "int16", shape = [11], low = -40, high = 40 }\n'
        '[outputs]\nlast = { type = "float32", c = "last" }\n'
    )
    return str(folder / "small.toml")


DEEP = """\
static float last;
static float __attribute__((noinline)) deep(int left)
{
    volatile char frame[100];
    for (int k = 0; k < 100; k++) frame[k] = (char)left;
    return left > 0 ? deep(left - 1) + frame[0] : frame[0];
}
"""


@with_avr_gcc
def test_the_stack_of_a_step_is_told(tmp_path: Path) -> None:
    with started(firmware(small(tmp_path, "last = deep(values[0])", DEEP))) as t:
        u = np.zeros(11)
        stacks = []
        for k, depth in enumerate((0, 1, 2, 5, 2)):
            u[0] = depth
            stacks.append(t.stepped(k, u).stack)
    grown = np.diff(stacks)
    assert (grown[:3] > 100 * np.array([1, 1, 3])).all()
    assert grown[3] == 0


SPARSE = DEEP.replace("for (int k = 0; k < 100; k++) frame[k]", "frame[0]")


@with_avr_gcc
def test_bytes_that_a_frame_reserves_and_does_not_write_are_found_while_it_is_idle(
    tmp_path: Path,
) -> None:
    with started(firmware(small(tmp_path, "last = deep(values[0])", SPARSE))) as t:
        u = np.zeros(11)
        stacks = []
        for k, depth in enumerate((0, 3, 3, 3, 3)):
            u[0] = depth
            stacks.append(t.stepped(k, u).stack)
    assert stacks[-1] > 400


@with_avr_gcc
def test_a_stack_that_meets_the_data_is_named(tmp_path: Path) -> None:
    data = "static char data[1200];\n" + DEEP
    made = firmware(small(tmp_path, "last = deep(values[0]) + data[values[1]]", data))
    with started(made) as t:
        u = np.zeros(11)
        t.stepped(0, u)
        u[0] = (2048 - made.ram_bytes) // 100
        event = t.step(1, u)
        assert isinstance(event, Failed)
        assert isinstance(event.error, BoardRefused)
        assert f"stack of {2048 - made.ram_bytes} bytes overflowed" in str(event.error)
