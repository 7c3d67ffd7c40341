"""How well a link carries: who is at its far end, what gets lost, how long it takes, its clock."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar, cast

import numpy as np

from hitl.boards.contract import Board, BoardLink
from hitl.interface import Interface
from hitl.protocol.clocks import FEWEST, ClockFit, RoundTrip, fit
from hitl.protocol.events import Connected, Event, EventCounts, Failed, Ponged
from hitl.protocol.framing import wire_size
from hitl.protocol.line import wire_ns
from hitl.protocol.messages import LAYOUTS, HelloReply, MessageKind
from hitl.protocol.session import Session
from rtsim.core.clock import stopwatch
from rtsim.core.signals import Vector
from rtsim.core.tag import NS_PER_S

Now = Callable[[], int]
Watch = Callable[[int, int], None]
"""Told how many of how many requests were made."""

_LOOK_S = 0.05
_PATIENCE_NS = NS_PER_S // 4
_NEVER_NS = 2**62
_Wanted = TypeVar("_Wanted", bound=Event)


def clock_of(link: BoardLink) -> Now:
    """ns: a board in lockstep lives in its own time, everything else by the wall."""
    if not hasattr(link, "cycles"):
        return stopwatch
    board = cast(Board, link)
    return lambda: board.cycles * NS_PER_S // board.clock_hz


@dataclass(frozen=True)
class LinkTrial:
    """What came of it.  Times are ns, of the clock of :func:`clock_of`."""

    board: HelloReply
    baud: int
    sent: int
    """Requests, PING; each has one answer, or is lost."""
    trips: tuple[RoundTrip, ...]
    counts: EventCounts
    clock: ClockFit | None
    """``None`` where too few came back."""

    @property
    def lost(self) -> int:
        return self.sent - len(self.trips)

    @property
    def repeated(self) -> int:
        """Answers that came once more, or after they were given up.

        Not those to a HELLO that was itself repeated while the board booted.
        """
        return max(0, self.counts.duplicate + self.counts.stale - self.counts.repeated)

    @property
    def garbage(self) -> int:
        """Pieces between two delimiters that are no frame, or a frame that means nothing."""
        return sum(self.counts.garbage.values()) + self.counts.meaningless

    @property
    def ok(self) -> bool:
        """Every request had its one answer, and nothing else came."""
        return not (self.lost or self.repeated or self.garbage)

    @property
    def wire_ns(self) -> int:
        """Of a PING and its answer, 10 bits a byte; the least that a round trip can take."""
        both = wire_size(LAYOUTS[MessageKind.PING][1].size) + wire_size(
            LAYOUTS[MessageKind.PONG][1].size
        )
        return wire_ns(both, self.baud)

    @property
    def delays_ns(self) -> Vector:
        """Shape (answers,), sorted: from before a PING is sent until its answer is whole."""
        return np.sort(np.array([trip.delay_ns for trip in self.trips], float))


def meet(
    link: BoardLink, interface: Interface | None = None, build: int | None = None
) -> tuple[Session, HelloReply]:
    """Ask who is there.  Raises the error of :mod:`hitl.protocol.errors` that names what is wrong;
    without ``interface`` any board will do."""
    session = Session(interface, build=build, patience_ns=_NEVER_NS)
    now = clock_of(link)
    session.connect(now())
    while True:
        found = _next(session, link, now, Connected)
        if found is not None:
            return session, found.board


def try_link(
    link: BoardLink,
    met: tuple[Session, HelloReply],
    baud: int,
    count: int,
    watch: Watch | None = None,
) -> LinkTrial:
    """PING who was met ``count`` times, each after the answer to the one before.

    One that is not answered within 0.25 s, and four times what it takes on the wire, is lost.
    """
    (session, board), now = met, clock_of(link)
    # An answer of another trial must not pass as one of this; in lockstep there is none.
    first = secrets.randbits(32) if now is stopwatch else 0
    trips: list[RoundTrip] = []
    patience = _PATIENCE_NS + 4 * LinkTrial(board, baud, 0, (), session.counts, None).wire_ns
    for k in range(count):
        asked = now()
        session.ping((first + k) % 2**32, asked)
        ponged = None
        while ponged is None and (rest := asked + patience - now()) > 0:
            ponged = _next(session, link, now, Ponged, rest / NS_PER_S)
        if ponged is None:
            session.abandon()
        else:
            trips.append(ponged.trip)
        if watch is not None:
            watch(k + 1, count)
    clock = fit(trips) if len(trips) >= FEWEST else None
    return LinkTrial(board, baud, count, tuple(trips), session.counts, clock)


def _next(
    session: Session, link: BoardLink, now: Now, wanted: type[_Wanted], most_s: float = _LOOK_S
) -> _Wanted | None:
    """What comes of the next bytes, or of a moment without any, ``most_s`` at most."""
    if data := session.outgoing():
        link.send(data)
    events: list[Event] = []
    if link.wait(min(most_s, _LOOK_S)):
        data = link.receive()
        events = session.receive(data, now())
    events += session.poll(now())
    for event in events:
        if isinstance(event, Failed):
            raise event.error
        if isinstance(event, wanted):
            return event
    return None
