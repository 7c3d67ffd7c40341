"""Begin runs in plain Python, and continue in machine code if they take long.

Compiling a model takes 1 to 14 s of processor time, and many runs end sooner. This requires that
plain Python gives exactly the results of machine code (``rtsim.equations.same_bits``). All runs of
a process together have a limited processor time in plain Python. At the limit, the present run
compiles its functions between two tags and continues. Compared with compilation at the start, a run
takes longer by at most this limit. A process with many runs compiles each function only once.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from rtsim.components.controller import PythonController
from rtsim.components.tasks import TimerTask, UpdateTask
from rtsim.core.clock import processor_time
from rtsim.core.tag import NS_PER_S
from rtsim.engine.system import System
from rtsim.solve.guarded import guards_kept

MOST_STEPS = 20_000
"""Limit of plant steps of a run that begins in plain Python; more would take over 1 s."""
ALLOWED_NS = 3 * NS_PER_S // 2
"""Processor time that all runs of one process may spend in plain Python, ns."""
GUARDS_NS = 6 * NS_PER_S
"""Allowance for runs with guards that are not in the cache, ns; their compilation takes 6 s."""


class _Spent:
    """Processor time that this process has used for plain Python."""

    def __init__(self) -> None:
        self.ns = 0


@cache
def _spent() -> _Spent:
    return _Spent()


def _allowed_ns(guards: bool) -> int:
    return GUARDS_NS if guards and not guards_kept() else ALLOWED_NS


def begins_plain(steps: float, guards: bool) -> bool:
    """Return whether a run with this number of plant steps may begin in plain Python.

    ``guards`` is True if a plant has guards.
    """
    return steps <= MOST_STEPS and _spent().ns < _allowed_ns(guards)


class PlainStart:
    """The first part of a run, in plain Python."""

    def __init__(self, system: System) -> None:
        self._system = system
        self._seen = processor_time()
        self._allowed_ns = _allowed_ns(any(plant.watch is not None for plant in system.plants))

    @staticmethod
    def of(system: System) -> PlainStart | None:
        """Return a ``PlainStart``, or ``None`` if nothing can be compiled later."""
        later = any(plant.bound.later for plant in system.plants)
        later = later or any(controller.later for controller in _controllers(system))
        return PlainStart(system) if later else None

    def resume(self) -> None:
        """Ignore the time since the last measurement, in which the run was paused."""
        self._seen = processor_time()

    @property
    def over(self) -> bool:
        now, spent = processor_time(), _spent()
        spent.ns += now - self._seen
        self._seen = now
        return spent.ns >= self._allowed_ns

    def end(self) -> None:
        """Compile the functions that ran in plain Python, between two tags."""
        for plant in self._system.plants:
            plant.to_machine_code()
        for task in self._system.tasks:
            if isinstance(task, UpdateTask | TimerTask):
                task.bind()
        for controller in _controllers(self._system):
            controller.to_machine_code()


def _controllers(system: System) -> Sequence[PythonController]:
    found = (task.controller for task in system.controllers)
    return [controller for controller in found if isinstance(controller, PythonController)]
