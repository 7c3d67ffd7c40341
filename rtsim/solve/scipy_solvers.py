"""SciPy's solvers DOP853, and Radau, BDF and LSODA for stiff equations.

SciPy's solver objects cannot undo a step, so rtsim creates a new object at each tag. A new object
begins with the last step length, but without the Jacobian and the history of the previous object.
Stiff models therefore run faster with few tags.

The function ``project`` is called only at tags.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Any, ClassVar

import numpy as np

from rtsim.core.errors import ScenarioError
from rtsim.core.extras import needs
from rtsim.core.raised import own_frames
from rtsim.core.signals import Vector
from rtsim.core.tag import NS_PER_S
from rtsim.equations.calls import first_not_finite
from rtsim.equations.model import BoundModel
from rtsim.solve.adaptive import Adaptive, StepTolerance
from rtsim.solve.base import GOOD, TOO_MANY, TOO_SMALL, Stall, Stepper
from rtsim.solve.internal_steps import (
    BEGAN,
    LAST,
    NOTES,
    PHASE,
    SPENT,
    STEP_LAYOUT,
    TAKEN,
    TRIED,
    InternalSteps,
    model_sizes,
    nothing,
)
from rtsim.solve.jacobians import TAKERS, Jacobian, wanted

STEP, EVALUATIONS, STEPS, RECENT = range(4)
"""Elements of the memory:

- ``STEP``: first step length of the next advance (s).
- ``EVALUATIONS``, ``STEPS``: numbers of evaluations and of steps in the whole run.
- ``RECENT``: number of steps in the last advance; 0 if unknown.
"""
START_AT_ORDER_1 = ("BDF", "LSODA", "CVODE", "IDA")
"""Multistep methods, which begin each advance with steps of order 1.

The errors of these first steps are about as large as the tolerance and have the same sign in each
advance.
"""
SHORT_ADVANCE, FINER = 50, 0.01
"""After an advance of fewer than ``SHORT_ADVANCE`` steps, a multistep method uses a tolerance that
is ``FINER`` times the given one. The first steps of 100 advances then cause the error of one
ordinary step.
"""
_LEAST_RTOL = 100 * 2.3e-16


@dataclass(frozen=True)
class LibrarySolver(StepTolerance):
    """Base class of adaptive solvers from other libraries.

    ``method`` is one of the names in :attr:`orders`.  ``most`` is the longest step (s).  Raises
    :class:`ScenarioError` for an unknown method or a value outside its range.
    """

    orders: ClassVar[Mapping[str, int]]
    """The methods of the library, with their highest order."""
    method: str = ""
    most: float = math.inf

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.method not in self.orders:
            raise ScenarioError(
                f"method = {self.method!r} is unknown; give one of {', '.join(self.orders)}"
            )
        if not self.most > 0:
            raise ScenarioError(f"most = {self.most} is not valid; give a longest step > 0 s")

    @property
    def method_name(self) -> str:
        return self.method.lower()

    @property
    def order(self) -> int:
        return self.orders[self.method]

    @property
    def implicit(self) -> bool:
        return self.method != "DOP853"

    def maker(self) -> Callable[..., Any]:
        """Return a function that creates objects with the interface of SciPy's solvers."""
        raise NotImplementedError

    def stepper(self, bound: BoundModel) -> Stepper:
        if not bound.model.states.size:  # these libraries do not accept empty vectors
            return Adaptive(self.rtol, self.atol, most=self.most).stepper(bound)
        return SciPyStepper(self, bound)


@dataclass(frozen=True)
class SciPy(LibrarySolver):
    """An adaptive solver of ``scipy.integrate``; ``method`` is the name of SciPy's class.

    A step takes about a hundred times as long as a compiled step, so ``most_steps`` has a lower
    default. Raises :class:`ScenarioError` for an unknown method or a value outside its range.
    """

    orders: ClassVar[Mapping[str, int]] = {"DOP853": 8, "Radau": 5, "BDF": 5, "LSODA": 12}
    method: str = "LSODA"
    most_steps: int = field(default=10_000, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.rtol < _LEAST_RTOL:
            raise ScenarioError(
                f"rtol = {self.rtol} is too small; SciPy's solvers need at least {_LEAST_RTOL}"
            )

    def maker(self) -> Callable[..., Any]:
        with needs("scipy", f"the solver {self.method.lower()}"):
            import scipy.integrate

        found: Callable[..., Any] = getattr(scipy.integrate, self.method)
        return found


class SciPyStepper:
    """A stepper that uses objects with the interface of SciPy's solvers.

    ``solver.maker`` returns the function that creates these objects.
    """

    def __init__(self, solver: LibrarySolver, bound: BoundModel) -> None:
        self.interrupt_check: Callable[[], object] = nothing
        self._most_steps = solver.most_steps
        self._make = solver.maker()
        self._options: dict[str, Any] = {
            "rtol": solver.rtol,
            "atol": solver.of_states(bound),
            "max_step": solver.most,
        }
        self._method = solver.method
        self._jacobian: Jacobian | None = None
        if solver.method in TAKERS and wanted(bound):
            self._jacobian = Jacobian(bound, solver.of_states(bound) / solver.rtol)
        self._native, self._project = bound.derivative, bound.project
        self._derivative: Any = None
        self._sizes = model_sizes(bound)
        n = bound.model.states.size
        self._at, self._slope, self._zeros = np.zeros(n), np.zeros(n), np.zeros(n)
        self._bad = GOOD
        """Index of the first derivative that was not finite in the present step, else GOOD."""
        self._multistep = solver.method in START_AT_ORDER_1
        self._memory, self._after = [0.0] * 4, [0.0] * 4
        self._now, self._notes = np.zeros(n), np.zeros(NOTES)
        self._vectors: tuple[Vector, ...] = ()
        self._solver: Any = None
        self._dense: Any = None
        self._at_once = False
        self._took = 0.0
        """Length of the internal step before the last one (s)."""

    def advance(
        self, from_ns: int, to_ns: int, x: Vector, z: Vector, u: Vector, p: Vector, out: Vector
    ) -> int:
        self._settle((x, z, u, p, out))
        start, end = from_ns / NS_PER_S, to_ns / NS_PER_S
        self._at_once = True
        answer = self._steps(start, end)
        if answer != GOOD and hasattr(self._solver, "finish"):
            self._at_once = False  # single steps show where and why the solver fails
            answer = self._steps(start, end)
        return answer

    def _steps(self, start: float, end: float) -> int:
        notes = self._notes
        notes[PHASE] = notes[TRIED] = 0.0
        done = start
        while True:
            answer = self._internal_step(None, done, end - done)
            if answer != GOOD or notes[LAST] != 0.0:
                return answer
            done += notes[TAKEN]
            self.interrupt_check()

    def internal_steps(
        self, x: Vector, z: Vector, u: Vector, p: Vector, out: Vector
    ) -> InternalSteps:
        """Return functions and arrays for the internal steps.

        SciPy's dense output gives the state at an event.
        """
        vectors = (x, z, u, p, out)

        def internal_step(_: Any, t: float, rest: float) -> int:
            self._settle(vectors)
            self._at_once = False
            return self._internal_step(_, t, rest)

        def retake(_: Any, t: float, h: float) -> int:
            out[:] = self._between(t + h)
            return self._finish(ends=True)

        def between(look: Any, part: float, _: float) -> int:
            solver = self._solver
            look.y[:] = self._between(solver.t_old + part * (solver.t - solver.t_old))
            return GOOD

        k, dense = (
            np.zeros((1, x.size)),
            np.zeros((1, 0)),
        )  # not None, because SciPy's solvers have a dense output
        return InternalSteps(
            internal_step, retake, between, None, self._now, False, self._notes, k, dense
        )

    def _settle(self, vectors: tuple[Vector, ...]) -> None:
        if any(a is not b for a, b in zip_longest(vectors, self._vectors)):
            given = zip(("x", "z", "u", "p", "out"), vectors, strict=True)
            memory = {"memory": np.zeros(0), "after": np.zeros(0), "notes": self._notes}
            STEP_LAYOUT.check(
                (0,) * len(STEP_LAYOUT.functions), {**dict(given), **memory}, self._sizes
            )
            self._derivative = self._native.on(self._at, *vectors[1:-1], self._slope)
            if self._jacobian is not None:
                self._jacobian.bind(*vectors[1:-1])
        self._vectors = vectors

    def _between(self, t: float) -> Vector:
        if t == self._solver.t:
            return self._solver.y  # type: ignore[no-any-return]
        if self._dense is None:
            self._dense = self._solver.dense_output()
        return self._dense(t)  # type: ignore[no-any-return]

    def _internal_step(self, _: Any, t: float, rest: float) -> int:
        remembered: float | None = None
        self._notes[BEGAN] = t
        if self._notes[TRIED] >= self._most_steps:
            return TOO_MANY
        self._notes[TRIED] += 1
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")  # the return value reports errors
            answer = GOOD
            if self._notes[PHASE] == 0.0:
                self._after[:] = self._memory
                self._after[RECENT] = 0.0
                self._now[:] = self._vectors[0]
                longest = (t + rest) - t  # rounding makes this differ from rest
                remembered = min(self._memory[STEP], longest) or None
                answer = self._begin(t, t + rest, remembered)
            else:
                self._now[:] = self._solver.y
            if answer == GOOD:
                answer = self._step()
            if answer != GOOD and self._memory[STEP] and first_not_finite(self._now) == GOOD:
                # BDF and LSODA fail if this first step is far too long
                answer = self._begin(t, t + rest, None)
                answer = self._step() if answer == GOOD else answer
        self._vectors[-1][:] = self._now if answer != GOOD else self._solver.y
        if answer != GOOD:
            return answer
        return self._finish(ends=self._notes[LAST] != 0.0)

    def _slope_at(self, t: float, y: Vector) -> Vector:
        self._after[EVALUATIONS] += 1
        self._notes[SPENT] += 1
        self._at[:] = y  # a column of a matrix, which y can be, is not contiguous
        self._derivative(float(t))
        # The product is NaN if an element is not finite; testing each element takes longer.
        if self._slope.dot(self._zeros) != 0.0:
            self._bad = first_not_finite(self._slope)
        return self._slope.copy()

    def _begin(self, start: float, end: float, first: float | None) -> int:
        self._bad = first_not_finite(self._now)
        if self._bad == GOOD:
            self._slope_at(start, self._now)
        if self._bad != GOOD:
            return self._bad
        self._notes[PHASE] = 1.0
        self._took = self._memory[STEP] if first else 0.0
        if self._solver is not None:
            # The object's functions refer back to it, which would delay freeing its memory.
            vars(self._solver).clear()
        try:
            given = {**self._options, **self._tolerances(), **self._matrices(start)}
            self._solver = self._make(
                self._slope_at, start, self._now.copy(), end, first_step=first, **given
            )
        except (ValueError, ArithmeticError) as error:
            return self._refused(error)
        return GOOD

    def _matrices(self, start: float) -> dict[str, Any]:
        if self._jacobian is None:
            return {}
        return self._jacobian.options(self._method, self._slope_at, start, self._now)

    def _refused(self, error: Exception) -> int:
        if own_frames(error):
            raise error
        return TOO_SMALL if self._bad == GOOD else self._bad

    def _tolerances(self) -> dict[str, Any]:
        if not (self._multistep and 0 < self._memory[RECENT] < SHORT_ADVANCE):
            return {}
        rtol, atol = self._options["rtol"], self._options["atol"]
        return {"rtol": max(rtol * FINER, _LEAST_RTOL), "atol": atol * FINER}

    def _step(self) -> int:
        solver, self._dense = self._solver, None
        self._bad = GOOD
        try:
            (getattr(solver, "finish", solver.step) if self._at_once else solver.step)()
        except (ValueError, ArithmeticError) as error:
            return self._refused(error)
        if solver.status == "failed" or not solver.t > solver.t_old:
            return TOO_SMALL if self._bad == GOOD else self._bad
        bad = first_not_finite(solver.y)
        if bad != GOOD:
            return bad
        taken, last = float(solver.t - solver.t_old), solver.status == "finished"
        self._notes[TAKEN], self._notes[LAST] = taken, 1.0 if last else 0.0
        self._after[STEPS] += 1
        self._after[RECENT] += max(1, getattr(solver, "taken", 1)) if self._at_once else 1
        # If the tag shortened the step, its length does not limit the next step.
        self._after[STEP] = max(self._took, taken)
        self._took = taken
        return GOOD

    def _finish(self, ends: bool) -> int:
        out = self._vectors[-1]
        if ends and self._project.handle != 0:
            self._project.call(out)
        return first_not_finite(out)

    def stall(self) -> Stall | None:
        solver, notes = self._solver, self._notes
        if solver is None:
            return None
        length = getattr(solver, "h_abs", None) or float(solver.step_size or 0.0)
        return Stall(float(notes[BEGAN]), length, self._now.copy(), int(notes[TRIED]))

    def accept(self) -> None:
        self._memory[:] = self._after
        if self._jacobian is not None:
            self._jacobian.accept()

    def forget(self) -> None:
        self._memory[STEP] = self._memory[RECENT] = 0.0

    def save(self) -> dict[str, Any]:
        found = {} if self._jacobian is None else self._jacobian.save()
        return {"memory": list(self._memory), **({"sparsity": found} if found else {})}

    def restore(self, saved: dict[str, Any]) -> None:
        kept = saved["memory"]
        self._memory[:] = [*kept, 0.0] if len(kept) == RECENT else kept
        if self._jacobian is not None:
            self._jacobian.restore(saved.get("sparsity", {}))


DOP853 = SciPy(method="DOP853")
"""The explicit Runge-Kutta method of order 8 by Dormand and Prince, computed by SciPy.

Source: Hairer, Norsett, Wanner, Solving Ordinary Differential Equations I, section II.5.
"""
RADAU = SciPy(method="Radau")
"""The implicit Runge-Kutta method Radau IIA of order 5, for stiff equations, computed by SciPy.

Source: Hairer, Wanner, Solving Ordinary Differential Equations II, section IV.8.
"""
BDF = SciPy(method="BDF")
"""Backward differentiation formulas of order 1 to 5, for stiff equations, computed by SciPy.

Source: Shampine, Reichelt, SIAM J. Sci. Comput. 18, 1997, p. 1.
"""
LSODA = SciPy(method="LSODA")
"""Adams methods that switch to BDF where the equations are stiff: ODEPACK's LSODA, in SciPy.

Source: Petzold, SIAM J. Sci. Stat. Comput. 4, 1983, p. 136.
"""
