"""How long a thread stood in line for a processor: late because of others, or of the machine.

A loop that wakes late was kept by another program that ran where it would have run, which a higher
priority cures; or it was woken late, by a host that took the whole machine away, by firmware or by
a slow timer, which no priority cures.  Linux knows: ``/proc/thread-self/schedstat`` has the ns for
which a thread could have run and did not (*run delay*).  In a container with a quota of processor
time, what it waits for its quota counts too.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress

_FILE = "/proc/thread-self/schedstat"
_LONG = 96  # three numbers of 64 bits, and what is between them


class RunQueue:
    """Of the thread that opened it, until it is closed.  ``read`` is for tests."""

    def __init__(self, read: Callable[[], int] | None = None) -> None:
        self._file = -1
        self._read = read or self._run_delay
        self._before: int | None = None
        if read is None:
            with suppress(OSError):
                self._file = os.open(_FILE, os.O_RDONLY)

    def note(self) -> None:
        """Count from here on; some 1 us."""
        try:
            self._before = self._read()
        except (OSError, ValueError):  # no such system
            self._before = None

    def stood_ns(self) -> int | None:
        """Since the latest :meth:`note`; None where the system does not say."""
        before = self._before
        if before is None:
            return None
        self.note()
        return None if self._before is None else self._before - before

    def close(self) -> None:
        if self._file >= 0:
            os.close(self._file)
        self._file = -1
        self._before = None

    def _run_delay(self) -> int:
        ran, stood, _ = map(int, os.pread(self._file, _LONG, 0).split())
        if not ran:  # nothing is counted here: this thread runs
            raise ValueError
        return stood
