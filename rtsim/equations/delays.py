"""Guards, timers and delays of a model.

A model with delays is a delay differential equation. The functions of such a model receive the
delayed signals at the end of the inputs ``u``. :mod:`rtsim.equations.history` stores the past
values and computes the delayed signals.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from rtsim.core.errors import ModelError, UnknownName
from rtsim.core.signals import Signal, Signals, Vector
from rtsim.core.tag import Period
from rtsim.equations.compiling import in_both
from rtsim.equations.named_arguments import Arguments, Vectors, check_arguments, named
from rtsim.equations.reading_functions import check_value

Equation = Callable[..., None]
"""``equation(t, x, z, u, p, out)`` fills ``out``. Time t is in s; the vectors have the shapes x
(n,), z (d,), u (m,) and p (k,).

In a model with algebraic variables y, all functions except ``project`` can also have the argument
y.
"""
Update = Callable[..., None]
"""``update(t, x, z, u, p)`` changes the discrete signals z in place, once per sample period."""
Reset = Callable[..., None]
"""``reset(i, t, x, z, u, p)`` changes x and z in place when guard ``i`` fires."""
Tick = Callable[..., None]
"""``tick(due, t, x, z, u, p)`` changes x and z in place. ``due[k]`` is 1 if timer ``k`` ticks now,
and 0 otherwise.
"""
Projection = Callable[..., None]
"""``project(x)`` corrects an accepted state in place, such as a quaternion to unit length."""


def standing(t: float, x: Vector, z: Vector, u: Vector, p: Vector, dx: Vector) -> None:  # noqa: ARG001
    for i in range(dx.size):
        dx[i] = 0.0


ZENO: Final = "zeno"
"""Value of ``terminal`` for a guard that ends the run when its crossings accumulate."""


@dataclass(frozen=True)
class Guard:
    """A function of the state whose zero crossings are located.

    - ``direction`` is 1 for a rising crossing, -1 for a falling crossing, and 0 for both. A guard
      that is exactly zero at the beginning of a step fires if its value then leaves zero in the
      declared direction. With direction 0, the new sign must differ from the last nonzero sign.
    - With ``terminal=True``, the run ends when the guard fires. With ``terminal="zeno"``, the run
      ends when the guard fires infinitely often in a finite time. Before such an end, the model's
      function ``stop`` is called, or else ``reset``.

    - With ``stops``, the model's stop mode applies to this guard.
    - With ``at_start``, the guard also fires at the start of the run if its value already has the
      sign after a crossing.
    - ``report`` contains names of scalar discrete signals, whose values are recorded with the event
      of the guard.
    - ``failure`` is the reason, such as a crash, for which a run that this guard ends counts as
      failed. The exit status is then 1.

    Raises ``ModelError`` for an invalid name or direction, and for a ``failure`` without
    ``terminal``.

    Example:
        Guard("floor", direction=-1)  # fires when its value falls through zero
    """

    name: str
    direction: int = 0
    terminal: bool | Literal["zeno"] = False
    stops: bool = True
    report: tuple[str, ...] = ()
    failure: str = ""
    at_start: bool = False

    def __post_init__(self) -> None:
        if self.at_start and self.direction == 0:
            raise ModelError(
                f"guard {self.name} has at_start but no direction, so it is undefined on which "
                "side of zero the guard fires at the start; give direction=1 or -1"
            )
        if self.direction not in (-1, 0, 1):
            raise ModelError(f"guard {self.name} has direction {self.direction}; give -1, 0 or 1")
        if not self.name.isidentifier():
            raise ModelError(
                f"guard name {self.name!r} is not an identifier; use letters, digits and _"
            )
        if self.terminal not in (False, True, ZENO):
            raise ModelError(
                f"guard {self.name} has terminal={self.terminal!r}; give True, False or 'zeno'"
            )
        if self.failure and not self.terminal:
            raise ModelError(
                f"guard {self.name} has a failure but does not end the run; give terminal=True"
            )


@dataclass(frozen=True)
class Timer:
    """A timer at whose ticks a model changes its states and discrete signals.

    A timer ticks at ``offset_ns + round(k * period)`` ns for k = 0, 1, ... With ``period=None``,
    the timer ticks once, at ``offset_ns``.

    ``draws`` names discrete signals. Before each tick, the noise signals of the timer receive new
    random numbers from N(0, 1). The random stream is named after the plant and the signal.

    Raises :class:`ModelError` for a negative offset.
    """

    period: Period | None
    offset_ns: int = 0
    draws: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.offset_ns < 0:
            raise ModelError(
                f"a timer has an offset of {self.offset_ns} ns; the offset must be >= 0 ns"
            )


Model = Any
"""A :class:`rtsim.equations.model.Model`, which cannot be imported here."""

Lag = Callable[..., float]
"""``lag(t, x, z, u, p)`` returns a lag in s. Here u contains only the declared inputs."""
Before = Callable[..., float]
"""``before(t)`` returns the value of a signal at a time t < 0 (s)."""
_LAG = Arguments("t, x, z, u, p", does="returns a lag in s")
_BEFORE = Arguments("t", does="returns a number")
SHORTEST = 1e-9
"""The shortest lag (s) other than 0, which is the resolution of simulated time."""
STATE, INPUT, DISCRETE, LINE = range(4)
"""Sources of a delayed signal: the vectors x, u and z, or the function ``line`` of the model."""
CONSTANT, PARAMETER, FUNCTION = range(3)
"""Kinds of a lag: a number, a parameter or a function."""
GIVEN, COMPUTED, FIRST, SET = range(4)
"""Kinds of values before the run: a given number, a function of time, the value at the start, or a
parameter.
"""


@dataclass(frozen=True)
class Delayed:
    """The value that a signal of a model had ``lag`` seconds earlier.

    - ``signal`` is the name of a state, an input, a discrete signal, or a signal of ``lines``.
    - ``lag`` (s): a number, the name of a parameter, or a function ``lag(t, x, z, u, p)``.
    - ``least``, ``most`` (s): the bounds of the lag. If ``lag`` is a function, give both ``least``
      (at least 1e-9 s) and ``most``. ``most`` is an upper bound of the lag; for a lag that is a
      parameter, the default is its value at the start.
    - ``before``: the signal before the run. ``before`` gives the values at times t < 0 s: a number,
      one number per element, the name of a parameter, or a function of t. Without ``before``, the
      signal has its initial value at all earlier times. A signal of ``lines`` has no default.
    - ``name`` is the name of the delayed signal in messages. The default is ``SIGNAL_delayed``.

    Raises :class:`ModelError` for an invalid lag or invalid bounds.

    Example:
        Delayed("x", 1.0, before=0.5)
    """

    signal: str
    lag: float | Fraction | str | Lag
    least: float = 0.0
    most: float | None = None
    before: float | Sequence[float] | str | Before | None = None
    name: str = ""

    def __post_init__(self) -> None:
        what = f"Delayed({self.signal!r})"
        if not isinstance(self.signal, str):
            raise ModelError(f"Delayed({self.signal!r}): give the name of a signal of the model")
        if callable(self.lag):
            check_arguments(self.lag, _LAG, f"lag of {what}")
            check_value(self.lag, f"lag of {what}")
            if self.most is None or not SHORTEST <= self.least <= self.most < math.inf:
                raise ModelError(
                    f"{what} has a variable lag with the bounds least={self.least} and "
                    f"most={self.most}; give finite bounds with {SHORTEST:g} s <= least <= most. "
                    "The solver takes no step longer than least=, and stores the signal for the "
                    "time most="
                )
        elif isinstance(self.lag, str):
            if self.most is not None and not 0 < self.most < math.inf:
                raise ModelError(f"{what} has most={self.most}; give the longest lag > 0 s")
        elif not isinstance(self.lag, (int, float, Fraction)):
            raise ModelError(
                f"{what} has the lag {self.lag!r}; give a number in s, the name of a parameter, or "
                "a function of (t, x, z, u, p)"
            )
        elif not (float(self.lag) == 0.0 or SHORTEST <= float(self.lag) < math.inf):
            raise ModelError(
                f"{what} has the lag {self.lag} s; give 0, or a finite lag >= {SHORTEST:g} s"
            )
        if callable(self.before):
            past = named(self.before, _BEFORE, f"before of {what}", {})
            check_value(past, f"before of {what}")
            object.__setattr__(self, "before", past)

    def with_names(self, vectors: Vectors) -> Delayed:
        """Return this declaration with a lag function that takes all arguments."""
        if not callable(self.lag):
            return self
        lag = named(self.lag, _LAG, f"lag of Delayed({self.signal!r})", vectors)
        return replace(self, lag=lag)

    @property
    def called(self) -> str:
        """The name of the delayed signal."""
        return self.name or f"{self.signal}_delayed"

    @property
    def functions(self) -> tuple[Callable[..., float], ...]:
        """The functions among ``lag`` and ``before``."""
        return tuple(how for how in (self.lag, self.before) if callable(how))

    def __str__(self) -> str:
        lag, before = ("a function" if callable(h) else str(h) for h in (self.lag, self.before))
        return f"{self.signal} by {lag} from {self.least} to {self.most}, before {before}"


@dataclass(frozen=True)
class Resolved:
    """The delays of a model as arrays."""

    elements: NDArray[np.float64]
    """One row for each element, shape (q, 3): the source (:data:`STATE`, ...), the index in this
    source, and the number of the delay.
    """
    lags: NDArray[np.float64]
    """One row for each delay, shape (d, 4): the kind (:data:`CONSTANT`, ...), the value or the
    index of the parameter, and the bounds ``least`` and ``most``.
    """
    before: NDArray[np.float64]
    """One row for each element, shape (q, 2): the kind (:data:`GIVEN`, ...), and the given value or
    the index of the parameter.
    """
    lag: Equation | None
    """An equation that fills the lags that are functions."""
    at_first: Equation | None
    """An equation that fills the elements whose ``before`` is a function, at t < 0."""


def fed(model: Model) -> Signals:
    """Return the inputs of ``model``, followed by its delayed signals.

    Raises ``UnknownName`` if a delayed signal does not exist.
    """
    inputs: Signals = model.inputs
    if not model.delays:
        return inputs
    late = []
    for delayed in model.delays:
        known = model.states + model.inputs + model.discrete + model.lines
        if delayed.signal in model.outputs and delayed.signal not in known:
            raise ModelError(
                f"model {model.name} delays its output {delayed.signal}, but outputs cannot be "
                "delayed; declare a line with the same value, and delay the line. In a class, use "
                "line() and the method lines; in Model(...), use lines= and line="
            )
        if delayed.signal not in known:
            raise UnknownName("delayed signal", delayed.signal, known.names, f"model {model.name}")
        signal = known[delayed.signal]
        late.append(Signal(delayed.called, signal.unit, shape=signal.shape))
    return inputs + Signals(*late)


def resolve(model: Model) -> Resolved:
    """Return the delays of ``model`` as arrays.

    Raises ``ModelError`` or ``UnknownName`` for an invalid delay.
    """
    fed(model)
    rows: list[tuple[int, int, int]] = []
    lags: list[tuple[float, float, float, float]] = []
    first: list[tuple[float, float]] = []
    functions: list[tuple[int, Any]] = []
    pasts: list[tuple[int, Any]] = []
    for j, delayed in enumerate(model.delays):
        what = f"delayed signal {delayed.called} of model {model.name}"
        kind, where = _place(model, delayed.signal)
        lags.append(_lag(model, delayed, SHORTEST if kind == LINE else 0.0, what))
        if lags[-1][0] == FUNCTION:
            functions.append((j, delayed.lag))
        if kind == LINE and lags[-1][:2] == (CONSTANT, 0.0):
            raise ModelError(f"{what} has the lag 0 s, but delays a line; give a lag > 0 s")
        size = where.stop - where.start
        if callable(delayed.before):
            pasts.append((len(rows), delayed.before))
        first += _before(model, delayed, kind, size, what)
        rows += [(kind, i, j) for i in range(where.start, where.stop)]
    return Resolved(
        np.array(rows, dtype=np.float64),
        np.array(lags, dtype=np.float64),
        np.array(first, dtype=np.float64),
        _filled(functions, _and_lag),
        _filled(pasts, _and_past),
    )


def _place(model: Model, name: str) -> tuple[int, slice]:
    for kind, signals in (
        (STATE, model.states),
        (INPUT, model.inputs),
        (DISCRETE, model.discrete),
    ):
        if name in signals:
            return kind, signals.slice(name)
    return LINE, model.lines.slice(name)


def _lag(
    model: Model, delayed: Delayed, least: float, what: str
) -> tuple[float, float, float, float]:
    lag, most = delayed.lag, math.nan if delayed.most is None else delayed.most
    if callable(lag):
        return FUNCTION, 0.0, delayed.least, most
    if not isinstance(lag, str):
        return CONSTANT, float(lag), float(lag), float(lag)
    if lag not in model.parameters:
        raise UnknownName("parameter", lag, model.parameters.names, f"lag of {what}")
    if model.parameters[lag].size != 1:
        raise ModelError(f"lag of {what}: parameter {lag} is an array; give a scalar parameter")
    return PARAMETER, model.parameters.slice(lag).start, least, most


def _before(
    model: Model, delayed: Delayed, kind: int, size: int, what: str
) -> list[tuple[float, float]]:
    past = delayed.before
    if past is None:
        if kind == LINE:
            raise ModelError(f"{what} has no value before the run; give before=")
        return [(FIRST, 0.0)] * size
    if callable(past):
        if size > 1:
            raise ModelError(
                f"{what} has {size} elements, but before= is a function for a single element; "
                "delay each element as a scalar signal, or give numbers"
            )
        return [(COMPUTED, 0.0)]
    if isinstance(past, str):
        if past not in model.parameters:
            raise UnknownName("parameter", past, model.parameters.names, f"before of {what}")
        if (count := model.parameters[past].size) not in (1, size):
            raise ModelError(
                f"{what} has {size} elements, but parameter {past} of before= has {count}; give a "
                f"parameter with 1 or {size} elements"
            )
        where = model.parameters.slice(past)
        found = range(where.start, where.stop)
        return [(SET, float(found[e % len(found)])) for e in range(size)]
    given = [float(v) for v in np.asarray(past, dtype=np.float64).ravel()]
    if len(given) not in (1, size):
        raise ModelError(
            f"{what} has {size} elements, but before= has {len(given)} values; give 1 or {size}"
        )
    if not np.isfinite(given).all():
        raise ModelError(f"{what} has before={past}; give finite numbers")
    return [(GIVEN, value) for value in given * (size // len(given))]


# A chain of closures: each calls the closure before it and then fills one element. A chain compiles
# to one function, and also runs as plain Python.


@in_both
def _none(t: float, x: Vector, z: Vector, u: Vector, p: Vector, out: Vector) -> None:
    pass


def _filled(
    functions: Sequence[tuple[int, Any]], and_one: Callable[[int, Any, Equation], Equation]
) -> Equation | None:
    made: Equation = _none
    for i, function in functions:
        made = and_one(i, in_both(function), made)
    return made if functions else None


def _and_lag(j: int, lag: Any, others: Equation) -> Equation:
    @in_both
    def lags(t: float, x: Vector, z: Vector, u: Vector, p: Vector, out: Vector) -> None:
        others(t, x, z, u, p, out)
        out[j] = lag(t, x, z, u, p)

    return lags


def _and_past(e: int, past: Any, others: Equation) -> Equation:
    @in_both
    def pasts(t: float, x: Vector, z: Vector, u: Vector, p: Vector, out: Vector) -> None:
        others(t, x, z, u, p, out)
        out[e] = past(t)

    return pasts
