"""Orders from the viewer to the run, and the reasons of refusals, encoded as numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rtsim.core.tag import NS_PER_S

PAUSE, RESUME, STEP, RATE, MARK, CHECKPOINT, QUIT, RESET, REWIND, RETURN = range(1, 11)
"""Kinds of orders.

The argument of RATE is the rate, and that of REWIND the seconds to go back. RETURN goes back to the
last CHECKPOINT.
"""
REASON_WORDS = 64
_REASON_BYTES = 8 * REASON_WORDS


def order_to_command(
    kind: int, value: float, began_ns: int = 0, kept_ns: int = 0
) -> dict[str, Any] | None:
    """Return the command of :mod:`rtsim.engine.commands.commands` for an order.

    Returns ``None`` if the order is unknown.  RESET goes back to ``began_ns``, the simulated time
    at which the run began.  RETURN goes back to ``kept_ns``, the time of the last CHECKPOINT.
    """
    told: dict[int, dict[str, Any]] = {
        PAUSE: {"kind": "pause"},
        RESUME: {"kind": "resume"},
        STEP: {"kind": "step", "tags": 1.0},
        RATE: {"kind": "rate", "rate": value},
        MARK: {"kind": "mark", "text": "pilot"},
        CHECKPOINT: {"kind": "checkpoint"},
        QUIT: {"kind": "quit"},
        RESET: {"kind": "restore", "at": began_ns / NS_PER_S},
        REWIND: {"kind": "restore", "back": value},
        RETURN: {"kind": "restore", "at": kept_ns / NS_PER_S},
    }
    return told.get(kind)


def reason_to_words(text: str) -> tuple[int, list[int]]:
    """Return the length of ``text`` in bytes of UTF-8, and the text as 64-bit integers.

    If the text is too long, its end is left out.
    """
    data = text.encode()[:_REASON_BYTES]
    filled = data.ljust(_REASON_BYTES, b"\0")
    words = [
        int.from_bytes(filled[k : k + 8], "little", signed=True) for k in range(0, len(filled), 8)
    ]
    return len(data), words


def words_to_reason(length: int, words: Sequence[int]) -> str:
    """Return the printable text that :func:`reason_to_words` encoded, also for invalid words."""
    data = b"".join(int(word).to_bytes(8, "little", signed=True) for word in words)
    text = data[: max(0, min(length, _REASON_BYTES))].decode(errors="replace")
    return "".join(c if c.isprintable() else " " for c in text)
