"""Runs that begin with plain Python, and continue with machine code only if they take long.

Compiling a model takes 1 to 14 s of processor time, and many runs are over before that.  A run on
no clock therefore begins with plain Python, if that gives the bits of machine code
(:mod:`rtsim.equations.same_bits`).  If it has used up the allowance of this process, it compiles
its functions between two tags and continues.  So no run takes longer than with compilation at its
start, plus the allowance, and many runs in one process compile once.
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
"""A run with more steps of its plants compiles at its start: plain Python would take over 1 s."""
ALLOWED_NS = 3 * NS_PER_S // 2
"""Processor time (ns) that the runs of one process may spend in plain Python."""
GUARDS_NS = 6 * NS_PER_S
"""The same for runs with guards whose machine code is not in the cache: compiling it takes 6 s."""


class _Spent:
    """The processor time that plain Python has taken in this process."""

    def __init__(self) -> None:
        self.ns = 0


@cache
def _spent() -> _Spent:
    return _Spent()


def _allowed_ns(guards: bool) -> int:
    return GUARDS_NS if guards and not guards_kept() else ALLOWED_NS


def begins_plain(steps: float, guards: bool) -> bool:
    """Return whether a run with this number of ``steps`` of plants may begin with plain Python.

    ``guards``: a plant has guards.
    """
    return steps <= MOST_STEPS and _spent().ns < _allowed_ns(guards)


class PlainStart:
    """The plain part of one run."""

    def __init__(self, system: System) -> None:
        self._system = system
        self._seen = processor_time()
        self._allowed_ns = _allowed_ns(any(plant.watch is not None for plant in system.plants))

    @staticmethod
    def of(system: System) -> PlainStart | None:
        """Return the plain part of a run; ``None`` if nothing in it is to be compiled later."""
        later = any(plant.bound.later for plant in system.plants)
        later = later or any(controller.later for controller in _controllers(system))
        return PlainStart(system) if later else None

    def resume(self) -> None:
        """Do not count the processor time since the last look: the run did not go on."""
        self._seen = processor_time()

    @property
    def over(self) -> bool:
        """True if the allowance is used up."""
        now, spent = processor_time(), _spent()
        spent.ns += now - self._seen
        self._seen = now
        return spent.ns >= self._allowed_ns

    def end(self) -> None:
        """Compile what ran as plain Python; call this between two tags."""
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
