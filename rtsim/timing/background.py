"""Lower the scheduling priority of a process that runs beside the loop."""

from __future__ import annotations

import contextlib
import os

from rtsim.timing.slices import set_slice

_NICER = 5


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
