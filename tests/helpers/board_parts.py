"""Boards in memory around FakeBoard: one whose cycles are counted, and it at a serial port."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from protocol_parts import FakeBoard
from sil_parts import faulty_interface

from hitl.boards.contract import BoardError as LinkError
from hitl.boards.contract import Pins, Stamped
from hitl.controllers.board import BoardController
from hitl.interface import Interface
from hitl.protocol.framing import encode_message
from hitl.protocol.messages import Message, Reset, StepMessage, StepReply
from rtsim.components.latency import Fixed
from rtsim.core.errors import RtsimError
from rtsim.core.signals import Signals
from rtsim.record.reading import Recording
from rtsim.record.recorders import MemoryRecorder
from rtsim.record.replay_comparison import compare_exact
from rtsim.runs.replay import rerun
from rtsim.runs.simulation import simulate
from rtsim.scenario.scenario import Scenario
from rtsim.testing import FakeClock

HZ = 16_000_000
MS_CYCLES = HZ // 1000
BYTE = 320
"""Cycles of a byte at 500,000 baud."""
RING = 63
BOOT = 1000
MS = 1_000_000


class Timed(FakeBoard):
    """Its k-th step takes ``takes[k]`` cycles, or 1000 where that is not told."""

    takes: Sequence[int] = ()
    spent = 0

    def _said(self, message: Message) -> Message:
        self.spent = 10
        said = super()._said(message)
        if isinstance(said, StepReply):
            k = self.steps - 1
            self.spent = self.takes[k] if k < len(self.takes) else 1000
            return said._replace(cycles=self.spent)
        return said


class Memory:
    """An emulated board: a :class:`hitl.boards.contract.Board` whose bytes take their time.

    The first reply to each step in ``lost`` is lost; what is in ``noise`` comes before the reply
    to that step; at cycle ``resets_at`` it resets, and its notice is sent where ``notice``.  It is
    silent from step ``silent_from`` on.  Its link breaks at step ``breaks_at``.
    """

    clock_hz = HZ
    baud = 500_000
    pins: Pins

    def __init__(
        self, board: Timed, takes: Sequence[int] = (), lost: Sequence[int] = (),
        noise: dict[int, bytes] | None = None, resets_at: int | None = None, notice: bool = True,
        silent_from: int = 10**9, breaks_at: int = 10**9, stop_lost: int = 0,
    ) -> None:  # fmt: skip
        self.board, board.takes = board, takes
        self.cycles = 0
        self.lost, self.noise = set(lost), noise or {}
        self.resets_at, self.notice = resets_at, notice
        self.silent_from, self.breaks_at = silent_from, breaks_at
        self.stop_lost = stop_lost
        self.dropped = 0
        self.closed = False
        self._busy = BOOT
        self._line_free = 0
        self._ring: deque[int] = deque()
        self._coming: deque[tuple[int, int]] = deque()
        self._going: deque[Stamped] = deque()
        self._sent_free = BOOT
        self._speak(b"\0" + encode_message(Reset(board.nonce, 1), 0), BOOT)

    def send(self, data: bytes) -> None:
        self._check()
        for value in data:
            self._line_free = max(self._line_free, self.cycles) + BYTE
            self._coming.append((self._line_free, value))

    def advance(self, cycles: int) -> None:
        self._check()
        assert cycles >= 0, "time does not run backwards"
        self._run(self.cycles + cycles)

    def wait(self, timeout: float) -> bool:
        self._check()
        end = self.cycles + round(timeout * HZ)
        while not self._there() and self.cycles < end:
            first = self._going[0].cycle if self._going else end
            due = self._coming[0][0] if self._coming else end
            self._run(max(self.cycles, min(end, first, max(due, self._busy if self._ring else 0))))
            if not self._going and not self._coming and not self._ring:
                self._run(end)
        return self._there()

    def take(self) -> list[Stamped]:
        self._check()
        out = []
        while self._there():
            out.append(self._going.popleft())
        return out

    def receive(self) -> bytes:
        return bytes(s.value for s in self.take())

    def reset(self) -> None:
        self._ring.clear()
        notice = self.board.reset(self.board.nonce + 1)
        self._going = deque(s for s in self._going if s.cycle <= self.cycles)
        self._busy = self._sent_free = self.cycles + BOOT
        if self.notice:
            self._speak(notice, self._busy)

    def close(self) -> None:
        self.closed = True

    def _check(self) -> None:
        if self.closed or self.board.steps >= self.breaks_at:
            raise LinkError("the line is gone")

    def _there(self) -> bool:
        return bool(self._going) and self._going[0].cycle <= self.cycles

    def _run(self, end: int) -> None:
        """Bytes reach the ring, and are worked off while it is not busy."""
        while True:
            at = min(
                self._coming[0][0] if self._coming else end + 1,
                self._busy if self._ring else end + 1,
                self.resets_at if self.resets_at is not None else end + 1,
            )
            if at > end:
                break
            self.cycles = max(self.cycles, at)
            if self.resets_at is not None and self.resets_at <= at:
                self.resets_at = None
                self.reset()
            elif self._coming and self._coming[0][0] <= at:
                self._arrive(self._coming.popleft()[1])
            elif self._ring:
                self._work(self._ring.popleft())
        self.cycles = max(self.cycles, end)

    def _arrive(self, value: int) -> None:
        if self._busy <= self.cycles and not self._ring:
            self._work(value)
        elif len(self._ring) < RING:
            self._ring.append(value)
        else:
            self.dropped += 1

    def _work(self, value: int) -> None:
        before = self.board.steps
        if before >= self.silent_from:
            return
        self.board.spent = 0
        reply = self.board.feed(bytes([value]))
        self._busy = self.cycles + self.board.spent
        step = self.board.steps - 1
        if (
            isinstance(self.board.requests[-1] if reply else None, StepMessage)
            and step in self.lost
        ):
            self.lost.discard(step)
            return
        if reply and reply[1:2] and self.stop_lost and self.board.requests[-1:] == [()]:
            self.stop_lost -= 1
            return
        if self.board.steps > before:
            reply = self.noise.get(step, b"") + reply
        self._speak(reply, self._busy)

    def _speak(self, data: bytes, at: int) -> None:
        self._sent_free = max(self._sent_free, at)
        for value in data:
            self._sent_free += BYTE
            self._going.append(Stamped(self._sent_free, value))


class Wall:
    """The same board at a serial port: its time is that of ``clock``, which waiting moves."""

    def __init__(self, memory: Memory, clock: FakeClock) -> None:
        self.memory, self.clock = memory, clock
        self._began, self._ran = clock.now(), 0

    @property
    def baud(self) -> int:
        return self.memory.baud

    @property
    def closed(self) -> bool:
        return self.memory.closed

    def send(self, data: bytes) -> None:
        self._catch_up()
        self.memory.send(data)

    def receive(self) -> bytes:
        self._catch_up()
        return self.memory.receive()

    def wait(self, timeout: float) -> bool:
        self._catch_up()
        before = self.memory.cycles
        there = self.memory.wait(timeout)
        passed = (self.memory.cycles - before) * 1_000_000_000 // HZ
        self.clock.advance(passed + (timeout > 0))
        self._catch_up()
        return there

    def close(self) -> None:
        self.memory.close()

    def _catch_up(self) -> None:
        due = (self.clock.now() - self._began) * HZ // 1_000_000_000
        self.memory.advance(max(0, due - self.memory.cycles))


class Rig:
    """A controller whose every fresh one has a board in memory of its own; the latest is kept."""

    def __init__(
        self, folder: Path, clock: FakeClock | None = None, paced: bool = False,
        hello: dict[str, int] | None = None, controller: dict[str, Any] | None = None,
        **faults: Any,
    ) -> None:  # fmt: skip
        self.interface: Interface = faulty_interface(folder)
        self.hello = {"double_bytes": 8} | (hello or {})
        self.faults, self.clock = faults, clock
        self.memory: Memory | None = None
        self.flown: BoardController | None = None
        options: dict[str, Any] = {"cases": folder / "cases", "patience": 0.5} | (controller or {})
        self.controller = BoardController(self.interface, link=self._link, paced=paced, **options)
        make = self.controller.fresh

        def fresh() -> BoardController:
            self.flown = make()
            return self.flown

        self.controller.fresh = fresh  # type: ignore[method-assign]

    @property
    def board(self) -> Memory:
        assert self.memory is not None
        return self.memory

    @property
    def on_board(self) -> BoardController:
        assert self.flown is not None
        return self.flown

    def _link(self) -> Memory | Wall:
        self.memory = Memory(Timed(self.interface, **self.hello), **self.faults)
        return self.memory if self.clock is None else Wall(self.memory, self.clock)

    def scenario(self, allowed_ms: float = 0, **policies: Any) -> Scenario:
        """Asked each 10 ms for 60 ms; its first input, which it answers, is the tick's number."""
        scenario = Scenario("board", until=0.06)
        scenario.source("set", Signals("fault [1]", "x [1] = 0.25"))
        for k in range(7):
            scenario.at(k / 100, "set.fault", float(k))
        inputs = {"fault": "set.fault", "x": "set.x"}
        compute = Fixed(allowed_ms / 1000)
        scenario.controller(
            "c", self.controller, period=0.01, inputs=inputs, compute=compute, **policies
        )
        return scenario

    def fly(self, allowed_ms: float = 0, **policies: Any) -> tuple[Recording, RtsimError | None]:
        """The recording, whose replay agrees, and what ended the run; the line is closed."""
        scenario = self.scenario(allowed_ms, **policies)
        recorder, error = MemoryRecorder(), None
        try:
            simulate(
                scenario, recorder=recorder, clock=self.clock if self.controller.paced else None
            )
        except RtsimError as problem:
            error = problem
        assert self.board.closed, "the line is left open"
        recording = recorder.recording()
        assert compare_exact(recording, rerun(recording, scenario)) is None
        return recording, error


def told(recording: Recording) -> list[tuple[int, str]]:
    """(ms, kind) of what happened besides the scenario's own changes."""
    return [(e.tag.ns // MS, e.kind) for e in recording.events if e.kind != "Change"]


def answers(recording: Recording) -> list[tuple[int, float]]:
    """(ms of the request, answer)."""
    rows = recording.track("messages/c").rows
    track = recording.track("messages/c")
    at = [int(ns) // MS for ns in track.integer("initiated")]
    return list(zip(at, rows.floats[:, 0].tolist(), strict=True))


def patch_clock(monkeypatch: Any, clock: FakeClock) -> Callable[[], int]:
    """The lines' wall clock is ``clock``."""
    monkeypatch.setattr("hitl.controllers.retrying_session.stopwatch", clock.now)
    return clock.now


def ticks(*ms: int) -> list[tuple[int, float]]:
    """The answers to requests of these ms: the tick's number."""
    return [(at, at / 10) for at in ms]


def steps(*ms: float) -> list[int]:
    """Cycles of steps that take so long."""
    return [round(one * MS_CYCLES) for one in ms]
