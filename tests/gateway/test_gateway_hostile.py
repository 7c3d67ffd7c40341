"""Clients that mean ill, against a real gateway: the run's trace is that of a run without them."""

from __future__ import annotations

import itertools
import os
import random
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import pytest
from checkpoint_parts import SEED, noisy

from rtsim.core.net.messagepack import pack
from rtsim.core.net.sockets import MOST_BYTES, Caller
from rtsim.gateway.client import VERSION, Run, connect
from rtsim.gateway.loop import Gateway
from rtsim.gateway.registry import find
from rtsim.record.reading import Recording
from rtsim.record.recorders import MemoryRecorder
from rtsim.record.replay_comparison import compare_exact
from rtsim.runs.simulation import Progress, simulate
from rtsim.testing import FakeClock

MS = 1_000_000
TURNS = 12
"""Tags of the run at which the client has its turn; the loop goes on in between."""
KEEPING = 4


class Hostile(Protocol):
    """One that is let loose at an endpoint; ``turn`` counts from 0."""

    def act(self, turn: int) -> None: ...

    def close(self) -> None: ...


class Flood:
    """Requests and commands that are refused, faster than they can be answered; never reads."""

    def __init__(self, endpoint: str) -> None:
        self._callers = [Caller(endpoint) for _ in range(KEEPING)]
        self._numbers = itertools.count()

    def act(self, turn: int) -> None:  # noqa: ARG002
        for number in itertools.islice(self._numbers, 600):
            for what in self._said(number):
                self._callers[number % KEEPING].send(pack({"v": VERSION, "id": number, **what}))

    def _said(self, number: int) -> Iterator[dict[str, Any]]:
        yield {"do": "get", "names": ["fast.x"] * 40}
        yield {"do": "watch", "names": ["fast.x"] * 40, "rate": 200.0}
        for command in (
            {"kind": "set", "target": "fast.none", "value": 1.0},
            {"kind": "set", "target": "pilot.u", "value": [1.0, 2.0]},
            {"kind": "inject", "topic": "nobody", "value": 1.0},
            {"kind": "fault", "name": "none", "do": "start"},
            {"kind": "restore"},
            {"kind": "rate", "rate": -number},
        ):
            yield {"do": "command", "command": command, "initiated": number}

    def close(self) -> None:
        for caller in self._callers:
            caller.close()


class Garbage:
    """Bytes of every length, and some longer than is taken."""

    def __init__(self, endpoint: str) -> None:
        self._endpoint = endpoint
        self._chance = random.Random(1)
        self._length = 0
        self._caller = Caller(endpoint)

    def act(self, turn: int) -> None:
        for _ in range(200):
            self._caller.send(self._chance.randbytes(self._length))
            self._length += 1
        if turn % 3 == 2:
            self._caller.send(bytes(MOST_BYTES + 1))  # the other end hangs up on who sends this
            self._caller.close()
            self._caller = Caller(self._endpoint)

    def close(self) -> None:
        self._caller.close()


GREETING = b"\xff" + bytes(8) + b"\x7f\x03\x00" + b"NULL".ljust(20, b"\0") + bytes(32)
_PROPERTIES = b"\x0bSocket-Type\x00\x00\x00\x06DEALER\x08Identity\x00\x00\x00\x00"
READY = b"\x04" + bytes([6 + len(_PROPERTIES)]) + b"\x05READY" + _PROPERTIES
LONG = b"\x02" + (1 << 40).to_bytes(8, "big")
"""The head of a message of a terabyte."""


class Hanging:
    """Stops in the midst of a greeting, of a head, of a message; and keeps the line open."""

    def __init__(self, endpoint: str) -> None:
        self._path = endpoint.removeprefix("ipc://")
        self._lines: list[socket.socket] = []

    def act(self, turn: int) -> None:
        said = (
            b"", GREETING[:1], GREETING[:40], GREETING, GREETING + READY[:9],
            GREETING + READY + b"\x00", GREETING + READY + b"\x00\x64half of it",
            GREETING + READY + b"\x01\x04more", GREETING + READY + LONG, b"GET / HTTP/1.1\r\n\r\n",
        )  # fmt: skip
        for piece in (said[turn % len(said)], said[-1 - turn % len(said)]):
            line = socket.socket(socket.AF_UNIX)
            line.connect(self._path)
            line.sendall(piece)
            self._lines.append(line)

    def close(self) -> None:
        for line in self._lines:
            line.close()


class Killed:
    """A process that talks without end, and is killed; another takes its place."""

    def __init__(self, endpoint: str) -> None:
        self._endpoint = endpoint
        self._process = self._begin()

    def _begin(self) -> subprocess.Popen[bytes]:
        code = (
            "import sys; from rtsim.core.net.sockets import Caller; "
            "from rtsim.core.net.messagepack import pack\n"
            "caller = Caller(sys.argv[1]); caller.send(b''); print('on', flush=True)\n"
            f"ask = pack({{'v': {VERSION}, 'id': 1, 'do': 'watch', 'names': ['fast.x'], "
            "'rate': 200.0})\n"
            "while True: caller.send(ask)\n"
        )
        process = subprocess.Popen(
            [sys.executable, "-c", code, self._endpoint], stdout=subprocess.PIPE
        )
        assert process.stdout is not None
        assert process.stdout.readline() == b"on\n"
        return process

    def act(self, turn: int) -> None:
        if turn % 4 == 2:
            self.close()
            self._process = self._begin()

    def close(self) -> None:
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()


class Stopped(Killed):
    """The same, but it is stopped, and nobody takes what it is sent."""

    def act(self, turn: int) -> None:
        if turn == 2:
            self._process.send_signal(signal.SIGSTOP)


def flown(**more: Any) -> Recording:
    recorder = MemoryRecorder()
    simulate(noisy(Path()), seed=SEED, recorder=recorder, **more)
    return recorder.recording()


@pytest.fixture(scope="module")
def calm() -> Recording:
    return flown()


@contextmanager
def reached() -> Iterator[Run]:
    """A client that means well; the gateway is there as soon as it answers."""
    with connect("noisy", wait=60) as run:
        yield run


class Turns:
    """Lets a client act while the loop runs: at so many of its tags, in the slack of the frame."""

    def __init__(self, make: Callable[[str], Hostile]) -> None:
        self._make = make
        self.client: Hostile | None = None
        self.taken = 0

    def __call__(self, progress: Progress) -> None:
        if progress.ns < self.taken * progress.until_ns // (TURNS + 1):
            return
        if self.taken < TURNS:
            with reached():  # it is heard, whatever the other did before
                if self.client is None:
                    self.client = self._make(find("noisy").endpoint)
                self.client.act(self.taken)
                self.taken += 1


def flown_with(make: Callable[[str], Hostile], clock: FakeClock | None = None) -> Recording:
    """The run that is reached, with a client; both are gone afterwards."""
    turns = Turns(make)
    gateway = Gateway({"scenario": "noisy"})
    try:
        with gateway as inbox:
            run = flown(inbox=inbox, observe=turns, clock=clock)
            assert inbox.trouble == ""
    finally:
        if turns.client is not None:
            turns.client.close()
    assert turns.taken == TURNS
    with pytest.raises(ProcessLookupError):
        os.kill(gateway.pid, 0)
    return run


@pytest.mark.long
@pytest.mark.parametrize("clock", [None, FakeClock], ids=["max", "paced"])
@pytest.mark.parametrize("hostile", [Flood, Garbage, Hanging, Killed, Stopped])
def test_the_trace_is_that_of_a_run_without_the_client(
    hostile: Callable[[str], Hostile], clock: Callable[[], FakeClock] | None, calm: Recording
) -> None:
    run = flown_with(hostile, None if clock is None else clock())
    assert compare_exact(calm, run) is None
    assert run.digest() == calm.digest()
    assert run.events == calm.events, "nothing was told it, nothing went wrong"


class Knowing(Flood):
    """One that knows what it does."""

    def _said(self, number: int) -> Iterator[dict[str, Any]]:
        command = {"kind": "set", "target": "pilot.u", "value": 1.0}
        if number == 0:
            yield {"do": "command", "command": command, "initiated": 0}


def test_a_change_by_a_client_shows_in_the_trace(calm: Recording) -> None:
    assert flown_with(Knowing).events != calm.events
