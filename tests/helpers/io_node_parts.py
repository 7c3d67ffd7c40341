"""The I/O node on an emulated board, text_message to by a session in lockstep."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from emulated_board_parts import need

from hitl.boards import open_board
from hitl.boards.emulated import EmulatedBoard
from hitl.boards.known import board_named
from hitl.firmware import firmware
from hitl.interface import Interface, load_interface
from hitl.protocol.session import Connected, Event, Failed, Session, Started, Stepped, Stopped
from hitl.rigs.rig import CLOCK_HZ, INTERFACE, NUMBER, PINS, NodeKind
from rtsim.core.tag import NS_PER_S, Tag

MS = 16_000
Read = dict[str, list[int]]


def image(name: str = "uno") -> Path:
    """The I/O node's on the board ``name``."""
    board = board_named(name)
    assert board.io_node is not None
    return firmware(load_interface(board.io_node.interface), board=board).path


class Node:
    """One conversation; ``events`` end with the one that was waited for."""

    def __init__(self, board: EmulatedBoard) -> None:
        self.board = board
        self.interface: Interface = load_interface(INTERFACE)
        self.session = Session(self.interface, patience_ns=10 * NS_PER_S)
        self._tag = 0

    @property
    def ns(self) -> int:
        return self.board.cycles * NS_PER_S // CLOCK_HZ

    def _until(self, kind: type[Event], looked: Callable[[], None] | None = None) -> Event:
        for _ in range(200):
            self.board.send(self.session.outgoing())
            self._advance(looked)
            for event in self.session.receive(self.board.receive(), self.ns):
                if isinstance(event, Failed):
                    raise event.error
                if isinstance(event, kind):
                    return event
            self.session.poll(self.ns)
        raise AssertionError(f"no {kind.__name__}")

    def _advance(self, looked: Callable[[], None] | None) -> None:
        """A quarter of a ms; with ``looked`` in steps of some instructions."""
        step = MS // 4 if looked is None else 8
        for _ in range(MS // 4 // step):
            self.board.advance(step)
            if looked is not None:
                looked()

    def connect(self) -> None:
        self.session.connect(self.ns)
        self._until(Connected)

    def start(
        self, kinds: Mapping[str, NodeKind], safe: Mapping[str, int] | None = None,
        pulses: tuple[str, ...] = (), watchdog: int = 100,
        looked: Callable[[], None] | None = None,
    ) -> None:  # fmt: skip
        """What each pin is; all others are unused."""
        values = {
            "kinds": [int(kinds.get(pin, 0)) for pin in PINS],
            "safe": [(safe or {}).get(pin, 0) for pin in PINS],
            "pulses": [NUMBER[p] for p in pulses] + [255] * (4 - len(pulses)),
            "watchdog": watchdog,
        }
        self.session.start(self.interface.parameters.initial(values), self.ns)
        self._until(Started, looked)

    def step(self, **drive: int) -> Read:
        """Drive pins, the others with 0, and read."""
        values = np.zeros(len(PINS))
        for pin, value in drive.items():
            values[NUMBER[pin]] = value
        self._tag += 1
        self.session.step(Tag(self._tag), values, self.ns)
        event = self._until(Stepped)
        assert isinstance(event, Stepped)
        out = self.interface.outputs
        return {s.name: event.outputs[out.slice(s.name)].astype(int).tolist() for s in out}

    def stop(self) -> None:
        self.session.stop(self.ns)
        self._until(Stopped)

    def level(self, pin: str) -> bool | float:
        """What the node drives ``pin`` with: a level, or a duty."""
        pwm = self.board.pins.pwm(pin)
        return self.board.pins.read(pin) if pwm is None else pwm.duty

    def is_input(self, pin: str) -> bool:
        """Its data direction register says so."""
        number = NUMBER[pin]
        address = (0x2A, 0x24, 0x27)[number // 6]
        bit = number % 6 + (2 if number < 6 else 0)
        return not self.board.peek(address, 1)[0] >> bit & 1


@contextmanager
def node(backend: str = "avr8js", connected: bool = True, name: str = "uno") -> Iterator[Node]:
    """A node that has just been powered up."""
    need(backend)
    board = open_board(f"board:{name}?backend={backend}&baud=500000", image(name))
    try:
        out = Node(board)
        if connected:
            out.connect()
        yield out
    finally:
        board.close()
