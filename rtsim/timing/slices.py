"""Time slices of Linux's fair scheduler: how long a thread may run without interruption.

Since Linux 6.12, a waking thread with a shorter slice than the running thread gets the CPU at once.
Otherwise it waits some ms until the other's slice ends.  A slice does not change a thread's share
of the CPU and needs no privileges: see ``sched_setattr(2)`` and ``Documentation/scheduler``.
"""

from __future__ import annotations

import ctypes
import os
import platform
import sys

_CALLS = {"x86_64": (314, 315), "aarch64": (274, 275), "riscv64": (274, 275)}
"""System call numbers of sched_setattr and sched_getattr, which the C library does not wrap."""


class Attributes(ctypes.Structure):
    """The first version of ``struct sched_attr``."""

    _fields_ = (
        ("size", ctypes.c_uint32),
        ("policy", ctypes.c_uint32),
        ("flags", ctypes.c_uint64),
        ("nice", ctypes.c_int32),
        ("priority", ctypes.c_uint32),
        ("runtime", ctypes.c_uint64),
        ("deadline", ctypes.c_uint64),
        ("period", ctypes.c_uint64),
    )


def slice_ns() -> int:
    """Return the time slice of the calling thread [ns]; 0 for the system default.

    The result is 0 before Linux 6.12 and in other scheduling classes. Raises :class:`OSError` if
    the system has no time slices.
    """
    return int(_attributes().runtime)


def set_slice(ns: int) -> None:
    """Request time slices of ``ns`` (0: system default); Linux accepts 100 us to 100 ms unchanged.

    Raises :class:`OSError` if the system has no time slices, or if the thread's scheduling class
    has none.
    """
    libc, (number, _) = _here()
    attributes = _attributes()
    if attributes.policy not in (os.SCHED_OTHER, os.SCHED_BATCH):
        raise OSError("only threads of the classes SCHED_OTHER and SCHED_BATCH have time slices")
    attributes.runtime = ns
    if libc.syscall(number, 0, ctypes.byref(attributes), 0) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def _attributes() -> Attributes:
    libc, (_, number) = _here()
    found = Attributes()
    if libc.syscall(number, 0, ctypes.byref(found), ctypes.sizeof(found), 0) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return found


def _here() -> tuple[ctypes.CDLL, tuple[int, int]]:
    calls = _CALLS.get(platform.machine()) if sys.platform == "linux" else None
    if calls is None:
        raise OSError(f"not available on {sys.platform} {platform.machine()}")
    return ctypes.CDLL(None, use_errno=True), calls
