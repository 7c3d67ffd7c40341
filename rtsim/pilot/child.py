"""Common parts of the processes beside a simulation: how they report readiness, when they end."""

from __future__ import annotations

import os
import sys
import threading

READY = "ready"
"""The first line of output if the process is ready; otherwise the line is an error message."""


def input_closed() -> threading.Event:
    """Return an event that is set when the standard input closes.

    The input closes when the simulation ends, also if it is killed.  Nothing is written to it.
    """
    over = threading.Event()
    threading.Thread(target=_await_end, args=(over,), daemon=True).start()
    return over


def _await_end(over: threading.Event) -> None:
    while os.read(sys.stdin.fileno(), 4096):
        pass
    over.set()
