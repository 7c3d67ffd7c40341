"""What the tests of the firmware share: a board, and a session in that board's own time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
from emulated_board_parts import need

from hitl.boards import open_board
from hitl.boards.emulated import EmulatedBoard
from hitl.firmware import Firmware
from hitl.protocol.session import Connected, Event, Session, Started, Stepped
from rtsim.core.signals import Signals, Vector
from rtsim.core.tag import NS_PER_S, Tag

ROOT = Path(__file__).parents[2]
F16 = "firmware/core/f16_control.toml:single"


with_avr_gcc = pytest.mark.system("avr-gcc")


@dataclass
class Talk:
    """A session with an emulated board, in the board's own time."""

    board: EmulatedBoard
    session: Session
    heard: list[tuple[int, bytes]] = field(default_factory=list)
    """What the board sent: the cycle at the end of each frame, and its bytes."""
    sent_at: int = 0

    @property
    def now_ns(self) -> int:
        return self.board.cycles * NS_PER_S // self.board.clock_hz

    def event(self) -> Event:
        """Bytes to and fro until something has happened."""
        while True:
            if data := self.session.outgoing():
                self.sent_at = self.board.cycles
                self.board.send(data)
            self.board.wait(0.1)
            arrived = self.board.take()
            for stamped in arrived:
                if not self.heard or self.heard[-1][1].endswith(b"\0"):
                    self.heard.append((0, b""))
                self.heard[-1] = stamped.cycle, self.heard[-1][1] + bytes([stamped.value])
            events = self.session.receive(bytes(s.value for s in arrived), self.now_ns)
            events += self.session.poll(self.now_ns)
            if events:
                assert len(events) == 1, events
                return events[0]

    def connect(self) -> Event:
        self.session.connect(self.now_ns)
        return self.event()

    def start(self, parameters: Vector) -> Event:
        self.session.start(parameters, self.now_ns)
        return self.event()

    def step(self, k: int, inputs: Vector) -> Event:
        self.session.step(Tag(k * 20_000_000), inputs, self.now_ns)
        return self.event()

    def stepped(self, k: int, inputs: Vector) -> Stepped:
        event = self.step(k, inputs)
        assert isinstance(event, Stepped), event
        return event


@contextmanager
def talk(made: Firmware, backend: str = "", path: Path | None = None) -> Iterator[Talk]:
    """On the first emulator of the firmware's board, if ``backend`` names none."""
    backend = backend or next(iter(made.board.emulators))
    need(backend)
    url = f"{made.board.url}?backend={backend}&baud={made.baud}"
    board = open_board(url, path or made.path)
    try:
        yield Talk(board, Session(made.interface, build=made.build))
    finally:
        board.close()


@contextmanager
def started(made: Firmware, backend: str = "", path: Path | None = None) -> Iterator[Talk]:
    """Connected, and the controller started with its own parameters."""
    with talk(made, backend, path) as out:
        event = out.connect()
        assert isinstance(event, Connected), event
        event = out.start(made.interface.parameters.initial({}))
        assert isinstance(event, Started), event
        yield out


def random_inputs(signals: Signals, count: int, seed: int = 1) -> list[Vector]:
    """Within their ranges, where they have one; else of some size."""
    chance = np.random.default_rng(seed)
    lows = np.concatenate([np.full(s.size, max(s.low, -40.0)) for s in signals])
    highs = np.concatenate([np.full(s.size, min(s.high, 40.0)) for s in signals])
    return [chance.uniform(lows, highs) for _ in range(count)]
