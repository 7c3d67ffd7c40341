"""Scheduling of processes beside a real-time loop."""

from __future__ import annotations

import contextlib
import os

from rtsim.core.clock import stopwatch
from rtsim.timing.scheduling import set_slice

ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
"""Environment of a helper process of the loop, for processes that need no linear algebra.

Without these variables, numpy's OpenBLAS starts a thread per CPU, and each thread busy-waits for
its first 70 ms. On two CPUs, these threads took half the time of the process that writes the
recording.
"""
_NICER = 5
_LOOK_NS = 1_000_000_000
_PROCESSOR = 36
"""Position of a thread's last CPU among the fields after its name in /proc (proc(5))."""


def step_back(nicer: int = _NICER) -> None:
    """Give this process the default scheduling, a low priority and all CPUs.

    A child process inherits the real-time scheduling of the loop, which it does not need. Changes
    that the system does not permit are ignored.
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
    """Allow ``process`` to run on every CPU except the present CPU of the calling thread.

    Linux tends to wake a process on the CPU of the process that sends data to it. A loop without
    sleep would then share its CPU for some 10 ms, although other CPUs are idle.
    """
    with contextlib.suppress(OSError, AttributeError, ValueError, IndexError):
        others = set(range(os.cpu_count() or 1)) - {_used("thread-self")}
        if others:
            os.sched_setaffinity(process, others)


def _used(thread: str) -> int:
    with open(f"/proc/{thread}/stat", "rb") as file:
        return int(file.read().rpartition(b")")[2].split()[_PROCESSOR])


class OffTheLoop:
    """Keep the threads of this process away from the CPU of the real-time loop.

    The loop is a thread of ``process``. This process computes for about 1 ms at a time. A loop that
    wakes on the same CPU would wait for this time, even with a higher priority. If the user
    assigned several CPUs to the loop, no thread is moved.
    """

    def __init__(self, process: int) -> None:
        self._process = process
        self._allowed: set[int] = set()
        """CPUs of this process before the first move."""
        self._due = 0
        self._thread = process

    def follow(self, thread: int) -> None:
        """Set the thread of the loop. By default, the loop is the main thread of ``process``."""
        self._thread = thread

    def look(self) -> None:
        """Move the threads of this process, at most once per second."""
        now = stopwatch()
        if now < self._due:
            return
        self._due = now + _LOOK_NS
        with contextlib.suppress(OSError, AttributeError, ValueError, IndexError):
            self._allowed = self._allowed or os.sched_getaffinity(0)
            wanted = self._allowed - self._loops()
            for thread in map(int, os.listdir("/proc/self/task") if wanted else ()):
                with contextlib.suppress(OSError):  # the thread has ended
                    if os.sched_getaffinity(thread) != wanted:
                        os.sched_setaffinity(thread, wanted)

    def _loops(self) -> set[int]:
        mask = os.sched_getaffinity(self._thread)
        if len(mask) == 1:
            return mask
        if mask != set(range(os.cpu_count() or 1)):
            return set()
        return {_used(f"{self._process}/task/{self._thread}")}


def allow_all(process: int) -> None:
    """Allow ``process`` to run on every CPU again."""
    with contextlib.suppress(OSError, AttributeError):
        os.sched_setaffinity(process, range(os.cpu_count() or 1))
