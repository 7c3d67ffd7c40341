"""Keep the one pending request: its sequence, its bytes and how to recognise its reply.  No I/O."""

from __future__ import annotations

from typing import NamedTuple

from hitl.protocol.events import EventCounts
from hitl.protocol.framing import ProtocolFrame
from hitl.protocol.messages import KINDS, Message, MessageKind, Ping, Pong
from hitl.protocol.wire import encode_message
from rtsim.core.signals import Vector
from rtsim.core.tag import Tag

REPLY = 0x80
"""Bit that is set in the kind of every frame that a board sends."""


class PendingRequest(NamedTuple):
    """A request that was sent, with all data that its answer will be compared with."""

    message: Message
    sequence: int
    sent_ns: int
    data: bytes
    tag: Tag
    values: Vector

    @property
    def name(self) -> str:
        """Name of the request's kind."""
        return KINDS[type(self.message)].name

    def answered_by(self, frame: ProtocolFrame, message: Message) -> bool:
        """Return True if ``frame``, decoded as ``message``, is the reply to this request."""
        reply = KINDS[type(self.message)] | REPLY
        if frame.sequence != self.sequence or frame.kind not in (reply, MessageKind.ERROR):
            return False
        asked = self.message
        return not (isinstance(message, Pong) and isinstance(asked, Ping)) or (
            message.nonce == asked.nonce
        )


class InFlight:
    """The state of the one request that may be pending, and the bytes to send.

    ``pending`` is ``None`` if no answer is expected.  Frames that are not the answer are counted in
    ``counts``.
    """

    def __init__(self) -> None:
        self.counts = EventCounts()
        self.pending: PendingRequest | None = None
        self._out = bytearray()
        self.sequence = 0
        """Sequence of the latest request, modulo 256."""
        self._answered: tuple[int, int] = (-1, -1)
        self._left: PendingRequest | None = None
        self._repeated = False

    def outgoing(self) -> bytes:
        """Return the bytes to send now, and remove them from the queue."""
        data = bytes(self._out)
        self._out.clear()
        return data

    def begin(self) -> None:
        """Begin a connection: forget the pending request, and end a partly sent frame."""
        self.pending = None
        self._out += b"\0"

    def fail(self) -> None:
        """Forget the pending request and the bytes to send."""
        self.pending = None
        self._out.clear()

    def ask(self, message: Message, now_ns: int, tag: Tag, values: Vector) -> None:
        """Send ``message`` with the next sequence."""
        self.sequence = (self.sequence + 1) % 256
        if self.sequence == self._answered[1]:  # the board would take the message for a repetition
            self.sequence = (self.sequence + 1) % 256
        data = encode_message(message, self.sequence)
        self.pending = PendingRequest(message, self.sequence, now_ns, data, tag, values)
        if self._repeated:
            # The board may have lost the end of a repeated frame; this zero ends the frame.
            self._out += b"\0"
            self._repeated = False
        self._out += data

    def repeat(self, request: PendingRequest) -> None:
        """Send ``request`` again, with the same sequence."""
        self.counts.repeated += 1
        self._repeated = True
        self._out += b"\0" + request.data

    def abandon(self) -> None:
        """Stop waiting for the pending request; a reply that arrives later is stale."""
        if self.pending is not None:
            self.pending = None
            self.counts.abandoned += 1

    def leave(self) -> None:
        """Stop waiting as :meth:`abandon` does, but count nothing, since nothing went wrong."""
        self._left, self.pending = self.pending, None

    def answered(self, frame: ProtocolFrame, message: Message) -> PendingRequest | None:
        """Return the request that ``frame`` answers, which is then no longer pending.

        Returns ``None`` and counts ``frame`` as duplicate or stale if it answers no request.
        """
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
