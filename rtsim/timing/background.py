"""What a process beside the loop does first, so that the loop has the better share."""

from __future__ import annotations

import contextlib
import os

from rtsim.timing.slices import set_slice

_NICER = 5


def step_back(nicer: int = _NICER) -> None:
    """Normal class, any processor, usual slices, a little nicer.

    A process inherits what the loop was granted.  What the system refuses stays as it was.
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
