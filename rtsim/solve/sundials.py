"""The solvers CVODE and IDA of SUNDIALS, from the package scikit-sundae (extra ``sundae``).

CVODE solves ordinary differential equations by backward differentiation formulas. IDA solves
differential-algebraic equations, with the algebraic variables as additional unknowns. All other
solvers solve the constraints at each evaluation of the derivative.

An object of scikit-sundae cannot undo a step, so rtsim creates a new object at each tag. SciPy's
solvers do the same (:mod:`rtsim.solve.scipy_solvers`).

Source: Hindmarsh et al., ACM Transactions on Mathematical Software 31, 2005, p. 363.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping
from contextlib import redirect_stdout
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any, ClassVar

import numpy as np

from rtsim.core.extras import extra
from rtsim.core.signals import Vector
from rtsim.equations.addresses import EQUATION
from rtsim.equations.compiling import prepared
from rtsim.equations.constraints import SMALL, coupled, typical
from rtsim.equations.model import BoundModel
from rtsim.solve.base import Stepper
from rtsim.solve.scipy_solvers import EVALUATIONS, STEP, LibrarySolver, SciPyStepper

_STEPS = 100_000
_STANDING = 100
"""Limit on the number of Jacobians that SUNDIALS computes without a change of time."""


@dataclass(frozen=True)
class Sundials(LibrarySolver):
    """An adaptive solver of SUNDIALS; ``method`` is ``"CVODE"`` or ``"IDA"``.

    Raises :class:`ScenarioError` for an unknown method or a value outside its range. ``stepper``
    raises ``ScenarioError`` if scikit-sundae is missing.
    """

    orders: ClassVar[Mapping[str, int]] = {"CVODE": 5, "IDA": 5}
    method: str = "IDA"

    def maker(self) -> Callable[..., Any]:
        return _Steps

    def stepper(self, bound: BoundModel) -> Stepper:
        origin = bound.model.origin
        extra("sksundae", "sundae", f"the solver {self.method.lower()}")
        # SUNDIALS would write warnings to stderr; the error of the run is more precise.
        os.environ.setdefault("SUNLOGGER_WARNING_FILENAME", os.devnull)
        constrained = origin is not None and origin.algebraic.size and bound.model.states.size
        if self.method == "IDA" and constrained:
            return _ConstrainedStepper(self, bound)
        return super().stepper(bound)


class _Stuck(Exception):
    """The steps of SUNDIALS have become so short that the time does not change.

    SUNDIALS takes such steps near a point that it cannot pass, and gives up only after
    :data:`_STEPS` steps.
    """


class _Steps:
    """CVODE with the interface of SciPy's solvers."""

    def __init__(
        self,
        slope_at: Callable[[float, Vector], Vector],
        start: float,
        y: Vector,
        end: float,
        *,
        first_step: float | None,
        rtol: float,
        atol: Vector,
        max_step: float,
        **matrices: Any,
    ) -> None:
        self._slope_at, self._end = slope_at, end
        self.t, self.t_old, self.status = start, start, "running"
        self.y = self.whole = y
        self.step_size = first_step
        self._looked_back = False
        self.taken = 0
        """Approximate number of steps, estimated from the times of the evaluations."""
        self._latest, self._gaps = start, (0.0, 0.0)
        """The latest time of an evaluation (s), and the last two gaps between such times (s)."""
        self._moved_to, self._standing = start, 0
        """The time (s) that the solver reached, and the number of evaluations at this time."""
        self._most_standing = _STANDING * (len(y) + _STANDING)
        options = {
            "rtol": rtol,
            "atol": atol,
            "first_step": first_step or 0.0,
            "max_step": 0.0 if max_step == math.inf else max_step,
            "max_num_steps": _STEPS,
            **matrices,
        }
        with redirect_stdout(None):  # SUNDIALS prints its errors
            self._solver = self._begun(start, y, options)

    def _begun(self, start: float, y: Vector, options: dict[str, Any]) -> Any:
        from sksundae.cvode import CVODE

        solver = CVODE(self._slopes, **options)
        solver.init_step(start, y)
        return solver

    def _slopes(self, t: float, y: Vector, slopes: Vector) -> None:
        self._check_time(t)
        if t > self._latest:
            self.taken += 1
            self._gaps, self._latest = (self._gaps[1], t - self._latest), t
        slopes[:] = self._slope_at(t, y)

    def _check_time(self, t: float) -> None:
        self._standing += 1
        # After a failure, SUNDIALS goes back in time and takes smaller steps.
        if abs(t - self._moved_to) > 4.0 * math.ulp(t):
            self._standing, self._moved_to = 0, t
        elif self._standing > self._most_standing:
            raise _Stuck

    def _solve(self, to: float, how: str) -> None:
        try:
            with redirect_stdout(None):  # SUNDIALS prints its errors
                found = self._solver.step(to, how, self._end)
        except _Stuck:
            self.status = "failed"
            return
        self.t_old, self.t = self.t, float(found.t)
        if not found.success:
            self.status = "failed"
        elif self.t >= self._end:
            self.status = "finished"
        self._keep(found.y)

    def step(self) -> None:
        if self._looked_back:  # otherwise the step would end where the last step ended
            with redirect_stdout(None):
                self._solver.step(self.t, "normal")
            self._looked_back = False
        self._solve(self._end, "onestep")
        self.step_size = self.t - self.t_old

    def finish(self) -> None:
        self._solve(self._end, "normal")
        self.t_old = self.t - (max(self._gaps) or self.t - self.t_old)

    def dense_output(self) -> Callable[[float], Vector]:
        def between(t: float) -> Vector:
            self._looked_back = True
            self._keep(self._solver.step(t, "normal").y)
            return self.y

        return between

    def _keep(self, whole: Vector) -> None:
        self.whole = whole
        self.y = whole[: len(self.y)]


class _ConstrainedStepper(SciPyStepper):
    """A stepper that uses IDA, for a model with algebraic variables."""

    def __init__(self, solver: Sundials, bound: BoundModel) -> None:
        super().__init__(solver, bound)
        origin = bound.model.origin
        assert origin is not None
        n, self._first = bound.model.states.size, origin.discrete.size
        self._both = np.zeros(n + origin.algebraic.size)
        self._out = np.zeros_like(self._both)
        what = f"the coupled equations of model {bound.model.name}"
        self._native_both = prepared(coupled(origin), EQUATION, what, bound.compiled)
        self._equations: Any = None
        self._algebraic = range(n, self._both.size)
        states = self._options["atol"]
        unknowns = np.maximum(np.max(states), solver.rtol * SMALL * typical(origin))
        self._options["atol"] = np.concatenate((states, unknowns))
        self._make = self._constrained

    def _settle(self, vectors: tuple[Vector, ...]) -> None:
        if any(a is not b for a, b in zip_longest(vectors, self._vectors)):
            self._equations = self._native_both.on(self._both, *vectors[1:-1], self._out)
        super()._settle(vectors)

    def equations_at(self, t: float, both: Vector) -> Vector:
        self._after[EVALUATIONS] += 1
        self._both[:] = both
        self._equations(float(t))
        return self._out

    def _constrained(self, _: Any, start: float, y: Vector, end: float, **options: Any) -> Any:
        z = self._vectors[1]
        return _ConstrainedSteps(
            self.equations_at, start, y, end, guess=z[self._first :], **options
        )

    def accept(self) -> None:
        super().accept()
        # At the tag, rtsim solves the constraints, starting from IDA's values.
        if self._solver is not None:
            self._vectors[1][self._first :] = self._solver.whole[len(self._now) :]

    def forget(self) -> None:
        super().forget()
        self._memory[STEP] = 0.0


class _ConstrainedSteps(_Steps):
    """IDA with the interface of SciPy's solvers, with algebraic variables as unknowns."""

    def __init__(
        self, equations: Callable[[float, Vector], Vector], start: float, y: Vector, end: float,
        *, guess: Vector, **options: Any,
    ) -> None:  # fmt: skip
        self._n = len(y)
        self._guess = guess
        super().__init__(equations, start, y, end, **options)

    def _begun(self, start: float, y: Vector, options: dict[str, Any]) -> Any:
        from sksundae.ida import IDA

        whole = np.concatenate((y, self._guess))
        algebraic = list(range(self._n, whole.size))
        slopes = self._slope_at(start, whole).copy()
        slopes[self._n :] = 0.0
        solver = IDA(self._residuals, algebraic_idx=algebraic, **options)
        solver.init_step(start, whole, slopes)
        self.whole = whole
        return solver

    def _residuals(self, t: float, both: Vector, slopes: Vector, out: Vector) -> None:
        self._check_time(t)
        out[:] = self._slope_at(t, both)
        out[: self._n] -= slopes[: self._n]


CVODE = Sundials(method="CVODE")
"""Backward differentiation formulas of order 1 to 5, computed by SUNDIALS."""
IDA = Sundials(method="IDA")
"""Backward differentiation formulas of order 1 to 5 for differential-algebraic equations."""
