"""Measure how long a thread was ready to run but waited for a CPU (Linux's *run delay*).

There are two causes of a late wake.  Either another program used the CPU; then a higher priority
helps.  Or the machine itself woke the loop late, because of a virtual machine's host, the firmware
or a slow timer; then no priority helps.  To distinguish the two causes, this module reads from
``/proc/thread-self/schedstat`` for how many ns the thread was ready but did not run.  In a
container with a CPU quota, waiting for the quota counts too.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress

_FILE = "/proc/thread-self/schedstat"
_LONG = 96  # three numbers of 64 bits, and the spaces between them


class RunQueue:
    """The run delay of the thread that creates the object; :meth:`close` ends the measurement.

    ``read`` replaces the system's counter in tests.
    """

    def __init__(self, read: Callable[[], int] | None = None) -> None:
        self._file = -1
        self._read = read or self._run_delay
        self._before: int | None = None
        if read is None:
            with suppress(OSError):
                self._file = os.open(_FILE, os.O_RDONLY)

    def note(self) -> None:
        """Start a measurement of the run delay now; this takes about 1 us."""
        try:
            self._before = self._read()
        except (OSError, ValueError):  # this system does not report the run delay
            self._before = None

    def stood_ns(self) -> int | None:
        """Return the run delay since the latest :meth:`note` [ns]; None if it is not reported."""
        before = self._before
        if before is None:
            return None
        self.note()
        return None if self._before is None else self._before - before

    @property
    def file(self) -> int:
        """The open file with the counter; -1 if this system has none, or a test reads for it."""
        return self._file

    def close(self) -> None:
        if self._file >= 0:
            os.close(self._file)
        self._file = -1
        self._before = None

    def _run_delay(self) -> int:
        ran, stood, _ = map(int, os.pread(self._file, _LONG, 0).split())
        if not ran:  # this system counts nothing, because this thread has run
            raise ValueError
        return stood
