"""The one request in flight: its sequence, its bytes, and which frame is its answer; no I/O."""

from __future__ import annotations

from typing import NamedTuple

from hitl.protocol.events import EventCounts
from hitl.protocol.framing import ProtocolFrame
from hitl.protocol.messages import KINDS, Message, MessageKind, Ping, Pong
from hitl.protocol.wire import encode_message
from rtsim.core.signals import Vector
from rtsim.core.tag import Tag

REPLY = 0x80
"""Set in the kind of whatever a board sends."""


class PendingRequest(NamedTuple):
    """What was asked, and all that its answer will be held against."""

    message: Message
    sequence: int
    sent_ns: int
    data: bytes
    tag: Tag
    values: Vector

    @property
    def name(self) -> str:
        """Of its kind."""
        return KINDS[type(self.message)].name

    def answered_by(self, frame: ProtocolFrame, message: Message) -> bool:
        """Whether ``frame``, which means ``message``, is the reply to it."""
        reply = KINDS[type(self.message)] | REPLY
        if frame.sequence != self.sequence or frame.kind not in (reply, MessageKind.ERROR):
            return False
        asked = self.message
        return not (isinstance(message, Pong) and isinstance(asked, Ping)) or (
            message.nonce == asked.nonce
        )


class InFlight:
    """``pending`` is ``None`` where nothing is awaited; what comes besides is counted."""

    def __init__(self) -> None:
        self.counts = EventCounts()
        self.pending: PendingRequest | None = None
        self._out = bytearray()
        self.sequence = 0
        """Of the latest request, modulo 256."""
        self._answered: tuple[int, int] = (-1, -1)
        self._left: PendingRequest | None = None
        self._repeated = False

    def outgoing(self) -> bytes:
        """What is to be sent now; it is handed out once."""
        data = bytes(self._out)
        self._out.clear()
        return data

    def begin(self) -> None:
        """A connection: nothing is awaited, and what the board may have half received ends here."""
        self.pending = None
        self._out += b"\0"

    def fail(self) -> None:
        """Nothing is awaited, and nothing more is to be sent."""
        self.pending = None
        self._out.clear()

    def ask(self, message: Message, now_ns: int, tag: Tag, values: Vector) -> None:
        """Send ``message`` with the next sequence."""
        self.sequence = (self.sequence + 1) % 256
        if self.sequence == self._answered[1]:  # the board would take it for that one, repeated
            self.sequence = (self.sequence + 1) % 256
        data = encode_message(message, self.sequence)
        self.pending = PendingRequest(message, self.sequence, now_ns, data, tag, values)
        if self._repeated:
            # Its end may have found the board's receiver full: what is left there ends here.
            self._out += b"\0"
            self._repeated = False
        self._out += data

    def repeat(self, request: PendingRequest) -> None:
        """Send it again, with its sequence."""
        self.counts.repeated += 1
        self._repeated = True
        self._out += b"\0" + request.data

    def abandon(self) -> None:
        """Wait no longer; the reply, should it come, is stale."""
        if self.pending is not None:
            self.pending = None
            self.counts.abandoned += 1

    def leave(self) -> None:
        """As :meth:`abandon`, where nothing went wrong: nothing is counted."""
        self._left, self.pending = self.pending, None

    def answered(self, frame: ProtocolFrame, message: Message) -> PendingRequest | None:
        """The request that ``frame`` answers, which is in flight no more; ``None``: it is counted
        as what it is."""
        pending, left = self.pending, self._left
        if pending is not None and pending.answered_by(frame, message):
            self.pending, self._answered = None, (frame.kind, frame.sequence)
            return pending
        if left is not None and left.answered_by(frame, message):
            self._left = None
            return None
        again = (frame.kind, frame.sequence) == self._answered
        self.counts.duplicate += again
        self.counts.stale += not again
        return None
