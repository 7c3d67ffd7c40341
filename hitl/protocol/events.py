"""What a session tells its caller."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from hitl.protocol.clocks import RoundTrip
from hitl.protocol.errors import BoardFailure
from hitl.protocol.messages import HelloReply, Why
from rtsim.core.errors import ControllerError
from rtsim.core.signals import Vector
from rtsim.core.tag import Tag


class Connected(NamedTuple):
    """It is the right firmware with the right controller."""

    board: HelloReply


class Started(NamedTuple):
    """The parameters are set, the controller is initialised."""

    round_trip_ns: int


class Stepped(NamedTuple):
    """An answer; ``cycles`` and ``stack`` (bytes) were measured by the board.

    ``unanswered`` steps before it were taken by the board though their replies never came.
    """

    tag: Tag
    outputs: Vector
    cycles: int
    stack: int
    counter: int
    unanswered: int
    round_trip_ns: int


class Ponged(NamedTuple):
    """A sample for :func:`hitl.protocol.clocks.fit`."""

    trip: RoundTrip


class Stopped(NamedTuple):
    """The controller was terminated after ``counter`` steps."""

    counter: int


class Failed(NamedTuple):
    """The session is over: raise ``error``, or connect again where a policy says so."""

    error: BoardFailure | ControllerError


Event: TypeAlias = Connected | Started | Stepped | Ponged | Stopped | Failed


@dataclass
class EventCounts:
    """What came besides answers."""

    frames: int = 0
    garbage: dict[Why, int] = field(default_factory=lambda: dict.fromkeys(Why, 0))
    booting: int = 0
    """Pieces of garbage before the board was known: what boots says something, or half of it."""
    duplicate: int = 0
    """Replies to what was answered already."""
    stale: int = 0
    """Replies to what nobody waits for any more, and repeated notices."""
    meaningless: int = 0
    """Whole frames of an unknown kind, of a wrong length, or that boards do not send."""
    abandoned: int = 0
    """Requests whose replies were given up."""
    repeated: int = 0
    """Requests that were sent again."""
