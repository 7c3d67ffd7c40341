"""What the person at the viewer tells the run, as numbers; and why it was refused, as well."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rtsim.core.tag import NS_PER_S

PAUSE, RESUME, STEP, RATE, MARK, CHECKPOINT, QUIT, RESET, REWIND, RETURN = range(1, 11)
"""RATE takes its float, REWIND the seconds to go back by; RETURN goes to the last CHECKPOINT."""
REASON_WORDS = 64
_REASON_BYTES = 8 * REASON_WORDS


def order_to_command(
    kind: int, value: float, began_ns: int = 0, kept_ns: int = 0
) -> dict[str, Any] | None:
    """The command of :mod:`rtsim.engine.commands.commands` that it is; ``None`` for none that is
    known.

    ``began_ns``: where the flight began, which is what RESET goes back to; ``kept_ns``: when the
    CHECKPOINT was kept that RETURN goes back to.
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
    """Its length in bytes of UTF-8, and as 64-bit integers; cut off where it is too long."""
    data = text.encode()[:_REASON_BYTES]
    filled = data.ljust(_REASON_BYTES, b"\0")
    words = [
        int.from_bytes(filled[k : k + 8], "little", signed=True) for k in range(0, len(filled), 8)
    ]
    return len(data), words


def words_to_reason(length: int, words: Sequence[int]) -> str:
    """The text again; whatever the numbers are, it is one that can be printed."""
    data = b"".join(int(word).to_bytes(8, "little", signed=True) for word in words)
    text = data[: max(0, min(length, _REASON_BYTES))].decode(errors="replace")
    return "".join(c if c.isprintable() else " " for c in text)
