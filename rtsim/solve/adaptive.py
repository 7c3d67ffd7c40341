"""Adaptive solvers, whose step length follows from an estimate of the error.

An embedded pair of Runge-Kutta methods estimates the error. From one tag to the next, an adaptive
solver takes as many internal steps as the tolerance requires. The last internal step ends at the
next tag. The step length follows Hairer, Norsett, Wanner, Solving Ordinary Differential Equations
I, section II.4.

``budget`` limits the evaluations of the derivative during one step of the plant. If the budget is
used up, the option ``fallback`` determines what happens.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from rtsim.core.errors import ScenarioError, UnknownName
from rtsim.core.signals import Vector
from rtsim.equations.calls import call_at, first_not_finite
from rtsim.equations.compiling import in_both
from rtsim.equations.model import BoundModel
from rtsim.solve.base import (
    OUT_OF_BUDGET,
    TOO_MANY,
    TOO_SMALL,
    EmbeddedTableau,
    Stepper,
    lower_triangle,
    weights,
)
from rtsim.solve.internal_steps import BEGAN as LEG_BEGAN
from rtsim.solve.internal_steps import (
    LAST,
    PHASE,
    SPENT,
    STEP_LAYOUT,
    TAKEN,
    TRIED,
    Inner,
    Method,
    all_steps,
    projected,
    within,
)
from rtsim.solve.linear_algebra import assign, error_norm, moved, weighted
from rtsim.solve.resident import stepper


def _row(*terms: str) -> tuple[Fraction, ...]:
    return tuple(map(Fraction, terms))


BS32_TABLEAU = EmbeddedTableau(
    name="bs32",
    order=3,
    a=((), _row("1/2"), _row("0", "3/4"), _row("2/9", "1/3", "4/9")),
    b=_row("2/9", "1/3", "4/9", "0"),
    c=_row("0", "1/2", "3/4", "1"),
    source="Bogacki, Shampine, Applied Mathematics Letters 2, 1989, p. 321",
    hat=_row("7/24", "1/4", "1/3", "1/8"),
    lower=2,
    dense=(  # the cubic with the states and the derivatives at both ends
        _row("1", "-4/3", "5/9"),
        _row("0", "1", "-2/3"),
        _row("0", "4/3", "-8/9"),
        _row("0", "-1", "1"),
    ),
)

DP54_TABLEAU = EmbeddedTableau(
    name="dp54",
    order=5,
    a=(
        (),
        _row("1/5"),
        _row("3/40", "9/40"),
        _row("44/45", "-56/15", "32/9"),
        _row("19372/6561", "-25360/2187", "64448/6561", "-212/729"),
        _row("9017/3168", "-355/33", "46732/5247", "49/176", "-5103/18656"),
        _row("35/384", "0", "500/1113", "125/192", "-2187/6784", "11/84"),
    ),
    b=_row("35/384", "0", "500/1113", "125/192", "-2187/6784", "11/84", "0"),
    c=_row("0", "1/5", "3/10", "4/5", "8/9", "1", "1"),
    source="Dormand, Prince, J. Comp. Appl. Math. 6, 1980, p. 19; dense output of fourth order: "
    "Shampine, Mathematics of Computation 46, 1986, p. 135",
    hat=_row(
        "5179/57600", "0", "7571/16695", "393/640", "-92097/339200", "187/2100", "1/40"
    ),
    lower=4,
    dense=(
        _row("1", "-8048581381/2820520608", "8663915743/2820520608", "-12715105075/11282082432"),
        _row("0", "0", "0", "0"),
        _row("0", "131558114200/32700410799", "-68118460800/10900136933",
             "87487479700/32700410799"),
        _row("0", "-1754552775/470086768", "14199869525/1410260304", "-10690763975/1880347072"),
        _row("0", "127303824393/49829197408", "-318862633887/49829197408",
             "701980252875/199316789632"),
        _row("0", "-282668133/205662961", "2019193451/616988883", "-1453857185/822651844"),
        _row("0", "40617522/29380423", "-110615467/29380423", "69997945/29380423"),
    ),
)  # fmt: skip


STEP, STEPS, REJECTED, BEGAN, KNOWN, SLOPE = 0, 2, 3, 5, 6, 7
"""Elements of the solver memory:

- ``STEP``: length of the next step (s), or 0 if unknown.
- ``STEPS``, ``REJECTED``: numbers of accepted and of rejected steps in the whole run.
- ``BEGAN``: number of evaluations before the present frame.
- ``KNOWN``: 1 if the memory contains the derivative at the end of the last step, from ``SLOPE`` on.
"""
EVALUATIONS = 1
"""Element of the solver memory: the number of evaluations of the derivative in the whole run."""
UNBOUNDED = 4
"""Element of the solver memory: the number of steps in the whole run that ignored the tolerance,
because the budget was used up.
"""
RTOL, SAFETY, LEAST, MOST, EXPONENT, BUDGET, FIRST, MOST_STEPS, STOPS = range(9)
"""Elements of the array ``settings``; most are fields of :class:`Adaptive`.

``EXPONENT`` is 1 divided by the order of the error.  ``STOPS`` is 1 for ``fallback="stop"``.
"""

LAYOUT = STEP_LAYOUT.extended(
    "an adaptive step",
    memory=(f"{SLOPE} + states",),
    after=(f"{SLOPE} + states",),
    a=("stages", "stages"),
    c=("stages",),
    error=("stages",),
    atol=("states",),
    settings=(STOPS + 1,),
    k=("stages", "states"),
    now=("states",),
    work=("states",),
    dense=("stages", "degree"),
)
"""The arrays of an adaptive step.

- ``a``, ``c``, ``dense``: the tableau.
- ``error``: weights of the stages in the error estimate.
- ``atol``: absolute tolerance of each state.
- ``k``: derivatives at the stages.
- ``now``: state at the beginning of the internal step.
"""
_SHRINK, _GROW = 0.2, 10.0
"""Smallest and largest ratio of the lengths of two consecutive steps."""
CLOSE = 1.01
"""A step ends at the tag if the remaining time is at most this multiple of the step length."""


@in_both
def first_step(words: Any, t: float) -> float:
    """Return an estimate of the first step length (s); ``k[0]`` contains the derivative at ``now``.

    Source: Hairer, Norsett, Wanner, Solving Ordinary Differential Equations I, section II.4.
    """
    x, k, y, e, atol = words.now, words.k, words.work, words.out, words.atol
    rtol = words.settings[RTOL]
    size = error_norm(x, x, x, atol, rtol)
    slope = error_norm(k[0], x, x, atol, rtol)
    h = 1e-6 if size < 1e-5 or slope < 1e-5 else 0.01 * size / slope
    for j in range(x.size):
        y[j] = x[j] + h * k[0, j]
    call_at(words, words.f, t + h, y, k[1])
    for j in range(x.size):
        e[j] = (k[1, j] - k[0, j]) / h
    bend = max(slope, error_norm(e, x, x, atol, rtol))
    exponent = words.settings[EXPONENT]
    other = max(1e-6, 1e-3 * h) if bend <= 1e-15 else (0.01 / bend) ** exponent
    return min(100.0 * h, other)


@in_both
def embedded_step(words: Any, t: float, h: float) -> None:
    """Compute one step of length ``h`` s from ``now`` to ``out``, and all its stages.

    The derivative at ``now`` must already be in ``k[0]``.
    """
    now, out, c, a, k, f = words.now, words.out, words.c, words.a, words.k, words.f
    for i in range(1, c.size):
        moved(out, now, h, a[i], k, i)
        call_at(words, f, t + c[i] * h, out, k[i])


@in_both
def begin(words: Any, t: float) -> None:
    """Prepare the first internal step from the state ``x`` and the solver memory."""
    f, now, k, memory, after = words.f, words.now, words.k, words.memory, words.after
    settings = words.settings
    assign(now, words.x)
    for j in range(KNOWN):
        after[j] = memory[j]
    if memory[KNOWN] != 0.0:
        assign(k[0], memory[SLOPE:])
    else:
        call_at(words, f, t, now, k[0])
        after[EVALUATIONS] += 1
    if after[STEP] == 0.0:
        after[STEP] = settings[FIRST]
        if after[STEP] == 0.0:
            after[STEP] = first_step(words, t)
            after[EVALUATIONS] += 1


@in_both
def go_on(words: Any, t: float) -> None:
    """Prepare the next internal step from the end of the previous one."""
    k, now = words.k, words.now
    assign(now, words.out)
    assign(k[0], k[k.shape[0] - 1])
    if words.project != 0:
        call_at(words, words.f, t, now, k[0])
        words.after[EVALUATIONS] += 1


@in_both
def adaptive_internal_step(words: Any, t: float, rest: float) -> int:
    """Take one internal step that meets the tolerance.

    The step starts at time ``t`` (s) and is at most ``rest`` s long. Returns :data:`GOOD`, an error
    code, or the index of a state that is not finite.
    """
    notes = words.notes
    if notes[PHASE] == 0.0:
        notes[PHASE] = 1.0
        begin(words, t)
    else:
        go_on(words, t)
    out, after, now, settings, atol = words.out, words.after, words.now, words.settings, words.atol
    weights, work, k = words.error, words.work, words.k
    stages, rtol = weights.size, settings[RTOL]
    smallest = max(settings[LEAST], 16 * 2.3e-16 * (abs(t) + rest))
    cost = stages - 1 if words.project == 0 else stages
    enough = after[BEGAN] + settings[BUDGET]
    step, rejected = after[STEP], False
    notes[LEG_BEGAN] = t
    while True:
        taken = min(settings[MOST], max(step, smallest))
        # Two steps must fit into the budget, because this one can be rejected and repeated.
        spent = after[EVALUATIONS] + 2 * cost > enough
        if spent and settings[STOPS] != 0.0 and after[EVALUATIONS] + stages - 1 > enough:
            return failed(out, OUT_OF_BUDGET) if rejected else OUT_OF_BUDGET
        last = spent or CLOSE * taken >= rest
        if last:
            taken = rest
        notes[TAKEN] = taken
        if notes[TRIED] >= settings[MOST_STEPS]:
            return TOO_MANY
        notes[TRIED] += 1.0
        embedded_step(words, t, taken)
        after[EVALUATIONS] += stages - 1
        notes[SPENT] += stages - 1
        weighted(work, taken, weights, k, stages)
        error = error_norm(work, now, out, atol, rtol)
        if not math.isfinite(error):
            error = 1e30
        growth = _GROW if error == 0.0 else settings[SAFETY] * error ** (-settings[EXPONENT])
        growth = min(1.0 if rejected else _GROW, max(_SHRINK, growth))
        rejected = error > 1.0
        if not rejected or spent:
            break
        after[REJECTED] += 1
        step = taken * growth
        if not step >= smallest:  # also true for NaN
            return failed(out, TOO_SMALL)
    # If the tag shortened the step, its error does not limit the next step.
    after[STEP] = max(taken * growth, step) if last and not rejected else taken * growth
    after[STEPS] += 1
    if rejected or after[EVALUATIONS] > enough:
        if settings[STOPS] != 0.0:
            return failed(out, OUT_OF_BUDGET)
        after[UNBOUNDED] += 1
    notes[LAST] = 1.0 if last else 0.0
    return finish(words)


@in_both
def failed(out: Any, why: int) -> int:
    """Return the index of the first state that is not finite, or ``why``."""
    bad: int = first_not_finite(out)
    return bad if bad >= 0 else why


@in_both
def finish(words: Any) -> int:
    """Complete an internal step: store its last derivative, and project the state."""
    out, after, k = words.out, words.after, words.k
    after[KNOWN] = 0.0 if words.project != 0 else 1.0
    assign(after[SLOPE:], k[k.shape[0] - 1])
    return projected(words, out)


def resident_retake(words: Any, t: float, h: float) -> int:
    """Repeat the last internal step from time ``t`` (s) with a shorter length ``h`` (s).

    The search for an event repeats a step many times. A solver with a ``budget`` interpolates
    instead, which needs no evaluations.
    """
    k, after, now, out = words.k, words.after, words.now, words.out
    if words.settings[BUDGET] == math.inf:
        embedded_step(words, t, h)
        after[EVALUATIONS] += k.shape[0] - 1
        return finish(words)
    taken = words.notes[TAKEN]
    within(out, now, k, words.dense, h / taken, taken)
    answer = finish(words)
    if h != taken:  # this derivative is at the end of the longer step
        after[KNOWN] = 0.0
    return answer


def new_frame(memory: Any) -> None:
    """Begin a new step of the plant with the full budget of evaluations."""
    memory[BEGAN] = memory[EVALUATIONS]


@dataclass(frozen=True)
class StepTolerance:
    """The allowed error of a step: ``rtol`` times the size of a state, plus ``atol``.

    ``atol`` is one number for all states, or a mapping from names of states to numbers in their
    units. ``most_steps`` limits the internal steps between two tags; beyond this limit, the run
    ends with an error.

    Raises ``ScenarioError`` for a tolerance that is not a finite positive number, or for
    ``most_steps`` below 1.
    """

    rtol: float = 1e-6
    atol: float | Mapping[str, float] = 1e-9
    most_steps: int = field(default=100_000, kw_only=True)

    @property
    def implicit(self) -> bool:
        """Return whether the method is suitable for stiff equations."""
        return False

    @property
    def method_name(self) -> str:
        return ""

    @property
    def name(self) -> str:
        """The name of the method and all settings that differ from their defaults."""
        said = [
            f"{f.name}={getattr(self, f.name)}"
            for f in fields(self)
            if f.name not in ("tableau", "method") and getattr(self, f.name) != f.default
        ]
        return self.method_name + (f"({', '.join(said)})" if said else "")

    def __post_init__(self) -> None:
        if not self.most_steps >= 1:
            raise ScenarioError(
                f"most_steps = {self.most_steps} is not valid; give a number of steps >= 1, or "
                "math.inf for no limit"
            )
        for name, value in (("rtol", self.rtol), *self._absolute().items()):
            if not (math.isfinite(value) and value > 0):
                raise ScenarioError(
                    f"{name} = {value} is not a valid tolerance; give a finite number > 0"
                )

    def _absolute(self) -> dict[str, float]:
        given = self.atol
        return dict(given) if isinstance(given, Mapping) else {"atol": given}

    def of_states(self, bound: BoundModel) -> Vector:
        """Return ``atol`` for each element of the state, shape (n,).

        States that are missing in a mapping get 1e-9. Raises :class:`UnknownName` for a name that
        is not a state of the model.
        """
        states = bound.model.states
        if not isinstance(self.atol, Mapping):
            return np.full(states.size, float(self.atol))
        out = np.full(states.size, 1e-9)
        for name, value in self.atol.items():
            if name not in states:
                raise UnknownName("state", name, states.names, f"model {bound.model.name}")
            out[states.slice(name)] = value
        return out


@dataclass(frozen=True)
class StepControl(StepTolerance):
    """Base class of rtsim's adaptive solvers.

    - ``first`` is the length of the first step (s); 0 means an automatic choice.
    - ``least`` is the shortest step length (s); if the tolerance needs a shorter step, the run ends
      with an error. Only the last step before a tag may be shorter.
    - ``most``: longest step (s).
    - ``safety`` is a factor between 0 and 1 for the length of the next step.

    Raises :class:`ScenarioError` for a value outside its range.
    """

    tableau: Any = None
    first: float = 0.0
    least: float = 0.0
    most: float = math.inf
    safety: float = 0.9

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.least < self.most:
            raise ScenarioError(
                f"least = {self.least} and most = {self.most} are not valid steps; give 0 <= "
                "least < most, in s"
            )
        if not (math.isfinite(self.first) and self.first >= 0):
            raise ScenarioError(
                f"first = {self.first} is not valid; give a first step > 0 s, or 0 to let the "
                "solver estimate the first step"
            )
        if not 0 < self.safety < 1:
            raise ScenarioError(
                f"safety = {self.safety} is not valid; give a factor between 0 and 1"
            )

    @property
    def method_name(self) -> str:
        return str(self.tableau.name)

    @property
    def order(self) -> int:
        return int(self.tableau.order)

    def arrays(self, bound: BoundModel, last: float) -> dict[str, Any]:
        """Return the arrays of an adaptive method.

        ``last`` is the last element of the array ``settings``.
        """
        n, table = bound.model.states.size, self.tableau
        settings = np.zeros(MOST_STEPS + 2)
        settings[RTOL], settings[SAFETY] = self.rtol, self.safety
        settings[LEAST], settings[MOST], settings[FIRST] = self.least, self.most, self.first
        settings[EXPONENT], settings[MOST_STEPS] = 1 / (table.lower + 1), self.most_steps
        settings[MOST_STEPS + 1] = last
        return {
            "a": lower_triangle(table.a),
            "c": weights(table.c),
            "error": table.error_weights,
            "dense": table.dense_weights,
            "atol": self.of_states(bound),
            "settings": settings,
            "k": np.zeros((len(table.b), n)),
            "now": np.zeros(n),
        }


FALLBACKS = ("step", "stop")


@dataclass(frozen=True)
class Adaptive(StepControl):
    """An adaptive solver for any :class:`EmbeddedTableau`.

    :class:`StepControl` explains ``first``, ``least``, ``most`` and ``safety``.

    - ``budget`` limits the evaluations of the derivative during one step of the plant; ``None``
      means no limit.
    - ``fallback`` determines what happens if the budget is used up. With ``"step"``, the solver
      takes one internal step to each remaining tag of the plant's step. With ``"stop"``, the run
      ends with an error.

    Raises :class:`ScenarioError` for a value outside its range.
    """

    plain_bits: ClassVar[bool] = True
    tableau: EmbeddedTableau = DP54_TABLEAU
    budget: int | None = None
    fallback: str = "step"

    def __post_init__(self) -> None:
        super().__post_init__()
        needed = 2 * len(self.tableau.b) + 1
        if self.budget is not None and self.budget < needed:
            raise ScenarioError(
                f"budget = {self.budget} evaluations per solver frame is too small: "
                f"{self.tableau.name} needs at least {needed}"
            )
        if self.fallback not in FALLBACKS:
            raise ScenarioError(
                f"fallback = {self.fallback!r} is unknown; give one of {', '.join(FALLBACKS)}"
            )

    def stepper(self, bound: BoundModel) -> Stepper:
        own = self.arrays(bound, self.fallback == "stop")
        own["settings"][BUDGET] = math.inf if self.budget is None else self.budget
        method = Method(
            all_steps,
            LAYOUT,
            own,
            kept=KNOWN,
            unbounded=None if self.budget is None else UNBOUNDED,
            inner=Inner(
                adaptive_internal_step, resident_retake, own["now"], own["k"], own["dense"]
            ),
            new_frame=new_frame,
        )
        return stepper(method, bound)


DP54 = Adaptive(tableau=DP54_TABLEAU)
"""The pair ``dp54`` of Dormand and Prince, of order 5 with an error estimate of order 4."""
BS32 = Adaptive(tableau=BS32_TABLEAU)
"""The pair ``bs32`` of Bogacki and Shampine, of order 3 with an error estimate of order 2."""
