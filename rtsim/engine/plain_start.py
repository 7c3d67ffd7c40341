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

MOST_STEPS = 20_000
"""A run with more steps of its plants compiles at its start: plain Python would take over 1 s."""
ALLOWED_NS = 3 * NS_PER_S // 2
"""Processor time (ns) that the runs of one process may spend in plain Python."""


class _Allowance:
    """What is left of the processor time for plain Python in this process."""

    def __init__(self) -> None:
        self.left_ns = ALLOWED_NS


@cache
def _allowance() -> _Allowance:
    return _Allowance()


def begins_plain(steps: float) -> bool:
    """Return whether a run with this number of ``steps`` of plants may begin with plain Python."""
    return steps <= MOST_STEPS and _allowance().left_ns > 0


class PlainStart:
    """The plain part of one run."""

    def __init__(self, system: System) -> None:
        self._system = system
        self._seen = processor_time()

    @staticmethod
    def of(system: System) -> PlainStart | None:
        """Return the plain part of a run; ``None`` if nothing in it is to be compiled later."""
        later = any(plant.bound.later for plant in system.plants)
        later = later or any(controller.later for controller in _controllers(system))
        return PlainStart(system) if later else None

    @property
    def over(self) -> bool:
        """True if the allowance is used up."""
        now, allowance = processor_time(), _allowance()
        allowance.left_ns -= now - self._seen
        self._seen = now
        return allowance.left_ns <= 0

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
