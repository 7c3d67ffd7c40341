"""Reads single keys from the terminal and restores the terminal's settings afterwards."""

from __future__ import annotations

import os
import select
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rtsim.core.clock import WallClock

Read = Callable[[float], list[str]]
"""Function that waits at most the given seconds for keys, and returns the list of pressed keys."""


def is_terminal() -> bool:
    """Return True if standard input and standard output are a terminal."""
    return sys.stdin.isatty() and sys.stdout.isatty()


@contextmanager
def keyboard() -> Iterator[Read]:
    """Context that gives a function to read single keys, Ctrl-C (``"\\x03"``) included.

    An escape sequence counts as one key.
    """
    if sys.platform == "win32":
        yield _read_console
        return
    import termios
    import tty

    number = sys.stdin.fileno()
    before = termios.tcgetattr(number)

    def read(seconds: float) -> list[str]:
        if not select.select([number], [], [], seconds)[0]:
            return []
        data = os.read(number, 1024)
        if not data:
            raise KeyboardInterrupt  # the terminal is gone
        return split(data.decode(errors="replace"))

    try:
        tty.setcbreak(number, termios.TCSANOW)
        mode = termios.tcgetattr(number)
        mode[3] &= ~termios.ISIG
        termios.tcsetattr(number, termios.TCSANOW, mode)
        yield read
    finally:
        termios.tcsetattr(number, termios.TCSADRAIN, before)


def _read_console(seconds: float) -> list[str]:
    """Read keys from a Windows console, which does not support ``select``."""
    if sys.platform == "win32":
        import msvcrt

        clock, step = WallClock(spin_ns=0), 5_000_000
        for k in range(1 + round(seconds * 1e9 / step)):
            if msvcrt.kbhit():
                return [msvcrt.getwch()]
            clock.wait_until(k * step)
    return []


def split(text: str) -> list[str]:
    """Split ``text`` into keys; an escape sequence is one key."""
    keys, at = [], 0
    while at < len(text):
        end = at + 1
        if text[at : at + 2] == "\x1b[":
            end = at + 2
            while end < len(text) and not ("@" <= text[end] <= "~"):
                end += 1
            end += 1
        keys.append(text[at:end])
        at = end
    return keys
