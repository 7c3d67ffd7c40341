"""What a session reports: events, their counts, and the errors of a board."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from hitl.protocol.clocks import RoundTrip
from hitl.protocol.messages import HelloReply, Why
from rtsim.core.errors import ControllerError
from rtsim.core.signals import Vector
from rtsim.core.tag import Tag


class BoardFailure(ControllerError):
    """The board failed, or it runs other firmware than the session expects."""


class SilentBoard(BoardFailure):
    """The board sent no readable frame within the timeout."""


class OldFirmware(BoardFailure):
    """The board's firmware has another version of the protocol, or is another build."""


class WrongController(BoardFailure):
    """The board's controller, or its signals, differ from the interface file."""


class BoardReset(BoardFailure):
    """The board restarted during a run."""


class BoardRefused(BoardFailure):
    """The board answered a request with an error."""


class Connected(NamedTuple):
    """The board answered, and runs the expected firmware with the expected controller."""

    board: HelloReply


class Started(NamedTuple):
    """The board has set the parameters and initialised the controller."""

    round_trip_ns: int


class Stepped(NamedTuple):
    """The answer to a step.

    The board measured ``cycles`` (execution time) and ``stack`` (bytes).  Before this step the
    board carried out ``unanswered`` steps whose replies never arrived.
    """

    tag: Tag
    outputs: Vector
    cycles: int
    stack: int
    counter: int
    unanswered: int
    round_trip_ns: int


class Ponged(NamedTuple):
    """The answer to a ping, an input of :func:`hitl.protocol.clocks.fit`."""

    trip: RoundTrip


class Stopped(NamedTuple):
    """The controller was terminated after ``counter`` steps."""

    counter: int


class Failed(NamedTuple):
    """The session has failed; raise ``error``, or connect again if a policy allows this."""

    error: BoardFailure | ControllerError


Event: TypeAlias = Connected | Started | Stepped | Ponged | Stopped | Failed


@dataclass
class EventCounts:
    """Counters of received frames, and of everything else that was received."""

    frames: int = 0
    """All frames with a valid checksum."""
    garbage: dict[Why, int] = field(default_factory=lambda: dict.fromkeys(Why, 0))
    """Malformed frames after the connection, by cause."""
    booting: int = 0
    """Malformed frames while connecting; a booting board may send text or parts of frames."""
    duplicate: int = 0
    """Replies to a request that was already answered."""
    stale: int = 0
    """Replies to a request that was abandoned, and repeated reset notices."""
    meaningless: int = 0
    """Valid frames of an unknown kind, of a wrong length, or of a kind that boards never send."""
    abandoned: int = 0
    """Requests for whose replies the host stopped waiting."""
    repeated: int = 0
    """Requests that were sent again."""
