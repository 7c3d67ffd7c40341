"""Convert protocol messages to frames and back."""

from __future__ import annotations

from hitl.protocol.framing import ProtocolFrame, encode
from hitl.protocol.messages import KINDS, LAYOUTS, Message


def encode_message(message: Message, sequence: int) -> bytes:
    """Return the bytes of ``message`` on the line; raises struct.error if a field does not fit."""
    kind = KINDS[type(message)]
    _, layout, tailed = LAYOUTS[kind]
    if not tailed:
        return encode(kind, sequence, layout.pack(*message))
    values: tuple[int | bytes, ...] = message
    tail = values[-1]
    assert isinstance(tail, bytes)
    return encode(kind, sequence, layout.pack(*values[:-1]) + tail)


def decode_message(frame: ProtocolFrame) -> Message | None:
    """Return the message in ``frame``; ``None`` if its kind is unknown or its length wrong."""
    known = LAYOUTS.get(frame.kind)
    if known is None:
        return None
    build, layout, tailed = known
    if tailed:
        if len(frame.payload) < layout.size:
            return None
        return build(*layout.unpack_from(frame.payload), frame.payload[layout.size :])
    return build(*layout.unpack(frame.payload)) if len(frame.payload) == layout.size else None
