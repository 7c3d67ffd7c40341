"""Lower the scheduling priority of a process that runs beside the loop."""

from __future__ import annotations

import contextlib
import os

from rtsim.core.clock import stopwatch
from rtsim.timing.scheduling import set_slice

ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
"""Environment of a process that runs beside the loop and calls no linear algebra.

Otherwise numpy's OpenBLAS starts a thread for each CPU, and these threads busy-wait for the first
70 ms.  On two CPUs they took half of the time of the process that writes the recording.
"""
_NICER = 5
_LOOK_NS = 1_000_000_000
_PROCESSOR = 36
"""The last CPU of a thread, among the fields behind its name in /proc (proc(5))."""


def step_back(nicer: int = _NICER) -> None:
    """Give this process the normal class, any CPU, default time slices and a higher nice value.

    A child process inherits the loop's scheduling; this function undoes the inheritance.  Changes
    that the system refuses are ignored.
    """
    with contextlib.suppress(OSError, AttributeError):
        if os.sched_getscheduler(0) != os.SCHED_OTHER:
            os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
    with contextlib.suppress(OSError, AttributeError):
        os.sched_setaffinity(0, range(os.cpu_count() or 1))
    with contextlib.suppress(OSError, AttributeError):
        os.nice(nicer)
    with contextlib.suppress(OSError, AttributeError):
        set_slice(0)


def keep_off(process: int) -> None:
    """Let ``process`` run on every CPU but the one that the calling thread uses now.

    Linux tends to wake a process on the CPU of the process that sends to it.  A loop that never
    sleeps then shares its CPU for some 10 ms, while others are idle.
    """
    with contextlib.suppress(OSError, AttributeError, ValueError, IndexError):
        others = set(range(os.cpu_count() or 1)) - {_used("thread-self")}
        if others:
            os.sched_setaffinity(process, others)


def _used(thread: str) -> int:
    """Return the CPU that a thread used last; ``thread`` is its path in /proc."""
    with open(f"/proc/{thread}/stat", "rb") as file:
        return int(file.read().rpartition(b")")[2].split()[_PROCESSOR])


class OffTheLoop:
    """Keeps the threads of this process off the CPU of a loop, which is a thread of ``process``.

    A process that the loop's data wake computes in bursts of a millisecond.  A loop that wakes on
    the same CPU waits for their end, whatever the nice values: the page in the browser caused two
    thirds of the overruns of a loop at 1 kHz.  If the user placed the loop on several CPUs, but not
    on all, this class changes nothing.
    """

    def __init__(self, process: int) -> None:
        self._process = process
        self._allowed: set[int] = set()
        """The CPUs of this process before the first change."""
        self._due = 0
        self._thread = process

    def follow(self, thread: int) -> None:
        """Note that the loop is this thread; without a call, it is the main thread."""
        self._thread = thread

    def look(self) -> None:
        """Leave the CPU of the loop; once a second at most."""
        now = stopwatch()
        if now < self._due:
            return
        self._due = now + _LOOK_NS
        with contextlib.suppress(OSError, AttributeError, ValueError, IndexError):
            self._allowed = self._allowed or os.sched_getaffinity(0)
            wanted = self._allowed - self._loops()
            for thread in map(int, os.listdir("/proc/self/task") if wanted else ()):
                with contextlib.suppress(OSError):  # it has ended
                    if os.sched_getaffinity(thread) != wanted:
                        os.sched_setaffinity(thread, wanted)

    def _loops(self) -> set[int]:
        """Return the CPU of the loop; none if the loop was placed on several ones."""
        mask = os.sched_getaffinity(self._thread)
        if len(mask) == 1:
            return mask
        if mask != set(range(os.cpu_count() or 1)):
            return set()
        return {_used(f"{self._process}/task/{self._thread}")}


def allow_all(process: int) -> None:
    """Let ``process`` run on every CPU again."""
    with contextlib.suppress(OSError, AttributeError):
        os.sched_setaffinity(process, range(os.cpu_count() or 1))
