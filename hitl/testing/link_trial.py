"""Test a link to a board: identity, clock, lost messages and round-trip times."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar, cast

import numpy as np

from hitl.boards.contract import Board, BoardLink
from hitl.interface import Interface
from hitl.protocol.clocks import FEWEST, ClockFit, RoundTrip, fit
from hitl.protocol.framing import wire_size
from hitl.protocol.line import wire_ns
from hitl.protocol.messages import LAYOUTS, HelloReply, MessageKind
from hitl.protocol.session import Connected, Event, EventCounts, Failed, Ponged, Session
from rtsim.core.clock import stopwatch
from rtsim.core.outcome import Judged, Outcome
from rtsim.core.signals import Vector
from rtsim.core.tag import NS_PER_S

Now = Callable[[], int]
Watch = Callable[[int, int], None]
"""Function that is called after each request with the numbers of finished and of all requests."""

_LOOK_S = 0.05
_PATIENCE_NS = NS_PER_S // 4
_NEVER_NS = 2**62
_Wanted = TypeVar("_Wanted", bound=Event)


def clock_of(link: BoardLink) -> Now:
    """Return a function that reads the board's clock in lockstep, otherwise the wall clock (ns)."""
    if not hasattr(link, "cycles"):
        return stopwatch
    board = cast(Board, link)
    return lambda: board.cycles * NS_PER_S // board.clock_hz


@dataclass(frozen=True)
class LinkTrial(Judged):
    """Result of a link test. Times are in ns of the clock that ``clock_of`` selects."""

    board: HelloReply
    baud: int
    sent: int
    trips: tuple[RoundTrip, ...]
    counts: EventCounts
    clock: ClockFit | None
    """Fitted clock of the board; None if there were too few answers."""

    @property
    def lost(self) -> int:
        return self.sent - len(self.trips)

    @property
    def repeated(self) -> int:
        """Number of answers that arrived twice or too late.

        Repeated answers during the start of the board do not count.
        """
        return max(0, self.counts.duplicate + self.counts.stale - self.counts.repeated)

    @property
    def garbage(self) -> int:
        return sum(self.counts.garbage.values()) + self.counts.meaningless

    def _judge(self) -> Outcome:
        if self.lost or self.repeated or self.garbage:
            return Outcome.FAILED
        return Outcome.PASSED if self.sent else Outcome.UNDECIDED

    @property
    def in_words(self) -> str:
        return (
            f"{len(self.trips)} of {self.sent} requests were answered; answers repeated: "
            f"{self.repeated}, malformed frames: {self.garbage}"
        )

    @property
    def wire_ns(self) -> int:
        """Transmission time (ns) of a PING and its answer."""
        both = wire_size(LAYOUTS[MessageKind.PING][1].size) + wire_size(
            LAYOUTS[MessageKind.PONG][1].size
        )
        return wire_ns(both, self.baud)

    @property
    def delays_ns(self) -> Vector:
        """Sorted round-trip times (ns), one for each answer.

        A round trip begins before a PING is sent, and ends when its answer is complete.
        """
        return np.sort(np.array([trip.delay_ns for trip in self.trips], float))


def meet(
    link: BoardLink, interface: Interface | None = None, build: int | None = None
) -> tuple[Session, HelloReply]:
    """Request the identity of a board; return the session and the answer.

    Without ``interface``, any board is accepted, and without ``build`` any build of the firmware.
    Raises an error of ``hitl.protocol.session`` if no board or the wrong board answers.
    """
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
    """Send ``count`` PINGs, one after another, to the board in ``met``.

    ``met`` is the return value of :func:`meet`. ``baud`` is the bit rate of the line, bit/s. A PING
    counts as lost after 0.25 s plus four times its transmission time.
    """
    (session, board), now = met, clock_of(link)
    # Answers to an earlier test must not count.  In lockstep there is no earlier test.
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
