"""What the person at the viewer tells the run, as numbers in shared memory."""

from __future__ import annotations

from typing import Any

PAUSE, RESUME, STEP, RATE, MARK, CHECKPOINT, QUIT = range(1, 8)
"""RATE takes its float."""


def order_to_command(kind: int, value: float) -> dict[str, Any] | None:
    """The command of :mod:`rtsim.control.commands` that it is; ``None`` for none that is known."""
    told: dict[int, dict[str, Any]] = {
        PAUSE: {"kind": "pause"},
        RESUME: {"kind": "resume"},
        STEP: {"kind": "step", "tags": 1.0},
        RATE: {"kind": "rate", "rate": value},
        MARK: {"kind": "mark", "text": "pilot"},
        CHECKPOINT: {"kind": "checkpoint"},
        QUIT: {"kind": "quit"},
    }
    return told.get(kind)
