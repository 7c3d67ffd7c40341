"""SciPy's solvers behind the contract: DOP853, and Radau, BDF and LSODA for stiff equations.

SciPy's objects cannot be copied, and a step that is thrown away must leave no trace: each tag is
therefore a new start.  What outlives it is how long the last steps were, which is the first step of
the next advance; the Jacobian, its factors and the history of the multistep methods, with their
order, are built anew.  Stiff models want few tags.

``project`` is applied at the end of an advance, and not between the steps inside.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from rtsim.compiling import first_not_finite
from rtsim.errors import ScenarioError
from rtsim.model import BoundModel
from rtsim.signals import Vector
from rtsim.solve.adaptive import Tolerance
from rtsim.solve.base import GOOD, TOO_SMALL, Stepper
from rtsim.tag import NS_PER_S

STEP, EVALUATIONS, STEPS = range(3)
"""In the memory: the next advance's first step (s), counts of the whole run."""
ORDERS = {"DOP853": 8, "Radau": 5, "BDF": 5, "LSODA": 12}
"""Of ``scipy.integrate``; where the order varies, the highest."""
_LEAST_RTOL = 100 * 2.3e-16
"""SciPy works with no smaller one."""


@dataclass(frozen=True)
class SciPy(Tolerance):
    """An adaptive solver of ``scipy.integrate``, by its class name.

    ``most``: no step is longer (s).
    """

    method: str = "LSODA"
    most: float = math.inf

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.method not in ORDERS:
            raise ScenarioError(f"method = {self.method!r}; give one of {', '.join(ORDERS)}")
        if self.rtol < _LEAST_RTOL:
            raise ScenarioError(f"rtol = {self.rtol}; SciPy's solvers need {_LEAST_RTOL} or more")
        if not self.most > 0:
            raise ScenarioError(f"most = {self.most}; give a step above 0 (s)")

    @property
    def name(self) -> str:
        said = [
            f"{f.name}={getattr(self, f.name)}"
            for f in fields(self)
            if f.name != "method" and getattr(self, f.name) != f.default
        ]
        return self.method.lower() + (f"({', '.join(said)})" if said else "")

    @property
    def order(self) -> int:
        return ORDERS[self.method]

    def stepper(self, bound: BoundModel) -> Stepper:
        return _Stepper(self, bound)


class _Stepper:
    def __init__(self, solver: SciPy, bound: BoundModel) -> None:
        import scipy.integrate

        self._make = getattr(scipy.integrate, solver.method)
        self._options = {
            "rtol": solver.rtol,
            "atol": solver.of_states(bound),
            "max_step": solver.most,
        }
        self._derivative, self._project = bound.derivative.call, bound.project
        n = bound.model.states.size
        self._at, self._slope = np.zeros(n), np.zeros(n)
        self._bad = GOOD
        """Element of the derivative that was not finite in the step under way."""
        self._memory, self._after = [0.0] * 3, [0.0] * 3

    def advance(
        self, from_ns: int, to_ns: int, x: Vector, z: Vector, u: Vector, p: Vector, out: Vector
    ) -> int:
        def slope(t: float, y: Vector) -> Vector:
            self._after[EVALUATIONS] += 1
            self._at[:] = y  # a column of a matrix, it may be
            self._derivative(float(t), self._at, z, u, p, self._slope)
            bad = first_not_finite(self._slope)
            if bad != GOOD:
                self._bad = bad
            return self._slope.copy()

        start, end = from_ns / NS_PER_S, to_ns / NS_PER_S
        self._after[:] = self._memory
        self._bad = GOOD
        bad = first_not_finite(x)
        if bad == GOOD:
            slope(start, x)
            bad = self._bad
        out[:] = x
        if bad != GOOD:
            return bad
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")  # what went wrong is in the answer
            remembered = min(self._memory[STEP], end - start)
            answer = self._solve(slope, start, end, x, out, remembered or None)
            if answer != GOOD and remembered:  # BDF and LSODA give up where it is far too long
                answer = self._solve(slope, start, end, x, out, None)
        if answer == GOOD and self._project.handle != 0:
            self._project.call(out)
        return answer if answer != GOOD else first_not_finite(out)

    def _solve(
        self, slope: Any, start: float, end: float, x: Vector, out: Vector, first: float | None
    ) -> int:
        self._bad = GOOD
        try:
            solver = self._make(slope, start, x.copy(), end, first_step=first, **self._options)
            before, last = 0.0, self._memory[STEP] if first else 0.0
            while solver.status == "running":
                solver.step()
                if solver.status == "failed" or not solver.t > solver.t_old:
                    return TOO_SMALL if self._bad == GOOD else self._bad
                bad = first_not_finite(solver.y)
                if bad != GOOD:
                    return bad
                before, last = last, solver.t - solver.t_old
                self._bad = GOOD
                self._after[STEPS] += 1
        except ValueError:  # of the linear algebra, which refuses what is not finite
            if self._bad == GOOD:
                raise
            return self._bad
        # the last one was cut to end at the tag and says little of how long it might have been
        self._after[STEP] = float(max(before, last))
        out[:] = solver.y
        return GOOD

    def accept(self) -> None:
        self._memory[:] = self._after

    def forget(self) -> None:
        self._memory[STEP] = 0.0

    def save(self) -> dict[str, Any]:
        return {"memory": list(self._memory)}

    def restore(self, saved: dict[str, Any]) -> None:
        self._memory[:] = saved["memory"]


DOP853, RADAU, BDF, LSODA = (SciPy(method=name) for name in ORDERS)
