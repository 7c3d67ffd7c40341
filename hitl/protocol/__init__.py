"""Protocol between a board and its host, without input, output or clock.

The functions process bytes and return events.  ``docs/protocol.md`` defines the bytes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rtsim.core.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from hitl.protocol.codec import Codec
    from hitl.protocol.framing import Parser, decode_message, encode_message, wire_size
    from hitl.protocol.line import BaudRate, offered, wire_ns
    from hitl.protocol.messages import Ping

__all__ = [
    "BaudRate",
    "Codec",
    "Parser",
    "Ping",
    "decode_message",
    "encode_message",
    "offered",
    "wire_ns",
    "wire_size",
]

__getattr__, __dir__ = lazy_exports(__name__)
