"""Common code of the processes beside a simulation: they report readiness, and end with it."""

from __future__ import annotations

import os
import sys
import threading

READY = "ready"
"""The first line of a process's output if the process is ready; else the line is an error."""


def input_closed() -> threading.Event:
    """Return an event that is set when the standard input closes.

    The simulation holds the other end of the input and writes nothing. The input therefore closes
    when the simulation ends, also if the simulation is killed.
    """
    over = threading.Event()
    threading.Thread(target=_await_end, args=(over,), daemon=True).start()
    return over


def _await_end(over: threading.Event) -> None:
    while os.read(sys.stdin.fileno(), 4096):
        pass
    over.set()
