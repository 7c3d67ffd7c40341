"""What compiled code needs to wait on the wall clock: functions of the C library, and numbers."""

from __future__ import annotations

import ctypes
import sys
from dataclasses import dataclass
from functools import cache

_NAMES = ("clock_gettime", "clock_nanosleep", "pread", "recv")
MONOTONIC = 1
"""``CLOCK_MONOTONIC`` of Linux, which :func:`time.monotonic_ns` reads."""


@dataclass(frozen=True)
class Calls:
    """Addresses of C functions.  A clock of a test puts functions of its own here."""

    clock_gettime: int
    """``int (int clock, int64_t time[2])``"""
    clock_nanosleep: int
    """``int (int clock, int flags, int64_t until[2], int64_t rest[2])``"""
    pread: int
    """``ssize_t (int file, void *into, size_t count, off_t from)``"""
    recv: int
    """``ssize_t (int socket, void *into, size_t count, int flags)``"""


@dataclass(frozen=True)
class Wait:
    """How a clock waits: simulated ``s`` [ns] is due at
    ``own - (simulated - s) * denominator / numerator``, in ns of ``CLOCK_MONOTONIC``.

    All times are in ns.  ``offset`` is the own time of the clock minus ``CLOCK_MONOTONIC``.
    """

    calls: Calls
    offset: int
    simulated: int
    own: int
    numerator: int
    denominator: int
    spin: int
    """The busy-wait window: the sleep ends this long before the due time."""
    least_spin: int
    most_spin: int
    bound: int
    """No late sleep lengthens the window beyond this."""


@cache
def system_calls() -> Calls | None:
    """The functions of this system; None on a system other than Linux with 64-bit times."""
    if sys.platform != "linux" or ctypes.sizeof(ctypes.c_long) != 8:
        return None
    library = ctypes.CDLL(None)
    found = (ctypes.cast(getattr(library, name), ctypes.c_void_p).value for name in _NAMES)
    return Calls(*(address or 0 for address in found))
