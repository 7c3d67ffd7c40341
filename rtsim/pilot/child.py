"""What the processes beside a simulation have in common: their first word, and when they end."""

from __future__ import annotations

import os
import sys
import threading

READY = "ready"
"""The first line of output, where all is well; else that line says what is missing."""


def ends_with_input() -> threading.Event:
    """Set when the standard input closes, which the simulation's end does however it comes about.

    Nobody writes to it.
    """
    over = threading.Event()
    threading.Thread(target=_await_end, args=(over,), daemon=True).start()
    return over


def _await_end(over: threading.Event) -> None:
    while os.read(sys.stdin.fileno(), 4096):
        pass
    over.set()
