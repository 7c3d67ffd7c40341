"""How long a thread may run at a stretch by Linux's fair scheduler: who asks for less waits less.

Since 6.12 a thread that wakes and has asked for a shorter slice than the one that runs takes the
processor from it at once; else it waits for the other's slice to end, some ms.  A slice is no
larger share, and needs no rights: see ``sched_setattr(2)`` and ``Documentation/scheduler``.
"""

from __future__ import annotations

import ctypes
import os
import platform
import sys

_CALLS = {"x86_64": (314, 315), "aarch64": (274, 275), "riscv64": (274, 275)}
"""Numbers of sched_setattr and sched_getattr; the C library has no name for them."""


class Attributes(ctypes.Structure):
    """``struct sched_attr``, as of its first version."""

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
    """Of the calling thread; 0 where it is a matter of the system (its class, or before 6.12).

    Raises :class:`OSError` where the system has no such thing.
    """
    return int(_attributes().runtime)


def set_slice(ns: int) -> None:
    """Ask for slices of ``ns`` (100 us to 100 ms are taken as they are; 0: the system's own).

    Raises :class:`OSError` where the system has no such thing, or the thread is of another class.
    """
    libc, (number, _) = _here()
    attributes = _attributes()
    if attributes.policy not in (os.SCHED_OTHER, os.SCHED_BATCH):
        raise OSError("slices are of the normal class")
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
