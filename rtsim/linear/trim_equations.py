"""The equations of a trim: rates of states and values of outputs, as functions of free values."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from rtsim.core.errors import ScenarioError, ShapeError, UnknownName
from rtsim.core.signals import Vector
from rtsim.equations.model import BoundModel, Model
from rtsim.linear.points import Point, layouts_of

Free = Sequence[str] | Mapping[str, float]
Residual = Callable[[Point, Vector, Vector], Vector]
"""``residual(point, dx, y)`` returns what must be 0; dx (n,) per s, y (r,)."""
Place = Callable[[Mapping[str, float]], Mapping[str, object]]
_LETTERS = "xup"
"""The vectors that can have free values; discrete values cannot."""


class TrimEquations:
    """The residuals of a trim, for the values (n,) of ``names``."""

    def __init__(
        self,
        bound: BoundModel,
        start: Point,
        names: tuple[str, ...],
        fixed: Mapping[str, object],
        steady: Sequence[str] | Mapping[str, float] | None,
        place: Place | None,
        residual: Residual | None,
    ) -> None:
        self._bound, self._place, self._residual = bound, place, residual
        model = bound.model
        self.names = names
        for name in fixed:
            if name in names:
                raise ScenarioError(f"{name} is in free= and in fixed=; leave it out of one")
            if model.origin is not None and name in model.origin.algebraic:
                raise ScenarioError(
                    f"{name} in fixed= of {model.name} is an algebraic variable, which follows "
                    "from the residuals; declare an output with its value, and fix that"
                )
        wanted = {n: v for n, v in fixed.items() if not _is_value(model, n)}
        self._start = _with(model, start, {n: v for n, v in fixed.items() if n not in wanted})
        self._where = [] if place is not None else [_element(model, name) for name in names]
        self._rates = _rates(model, steady)
        self._outputs = _wanted_outputs(model, wanted)
        self._dx, self._y = np.zeros(model.states.size), np.zeros(model.outputs.size)
        if residual is not None and (steady is not None or wanted):
            raise ScenarioError("give residual=, or steady= and fixed outputs, not both")
        if residual is not None:
            count = np.atleast_1d(self(np.zeros(0) if not names else self._first())).size
            self.labels: tuple[str, ...] = tuple(f"residual {i}" for i in range(count))
        else:
            x, y = model.states.columns, model.outputs.columns
            self.labels = (
                *(f"d({x[i]})/dt" for i, _ in self._rates),
                *(f"{y[i]} - {value:g}" for i, value in self._outputs),
            )

    def _first(self) -> Vector:
        return np.ones(len(self.names))

    def point(self, values: Vector) -> Point:
        """Return the operating point for the free values (n,)."""
        start, model = self._start, self._bound.model
        if self._place is not None:
            given = self._place(dict(zip(self.names, map(float, values), strict=True)))
            return _placed(model, start, given)
        vectors = {letter: getattr(start, letter).copy() for letter in _LETTERS}
        for (letter, i), value in zip(self._where, values, strict=True):
            vectors[letter][i] = value
        return Point(start.t, vectors["x"], start.z, vectors["u"], vectors["p"])

    def outputs(self, at: Point) -> Vector:
        """Return the outputs (r,) at a point."""
        y = np.zeros(self._bound.model.outputs.size)
        self._bound.output.call(at.t, at.x, at.z, at.u, at.p, y)
        return y

    def __call__(self, values: Vector) -> Vector:
        at = self.point(values)
        dx = self._dx
        self._bound.derivative.call(at.t, at.x, at.z, at.u, at.p, dx)
        y = self.outputs(at) if self._outputs or self._residual is not None else self._y
        if self._residual is not None:
            return np.atleast_1d(np.asarray(self._residual(at, dx, y), float))
        return np.array(
            [dx[i] - rate for i, rate in self._rates] + [y[i] - v for i, v in self._outputs]
        )


def free_values(
    model: Model,
    free: Free,
    bounds: Mapping[str, tuple[float, float]],
    start: Point,
    named: bool,
) -> tuple[dict[str, float], dict[str, tuple[float, float]]]:
    """Return the start of the search and the bounds of each free element.

    ``named``: the free values are states, inputs or parameters of the model.
    """
    guess: dict[str, float] = {}
    limits: dict[str, tuple[float, float]] = {}
    if not isinstance(free, Mapping):
        if not named:
            raise ScenarioError(
                "with place=, give the start of each free value: free={name: start}"
            )
        free = {
            column: float(getattr(start, letter)[i])
            for name in free
            for column, letter, i in _elements(model, name)
        }
    for name, value in free.items():
        columns = _elements(model, name) if named else [_known(model, name)]
        given = np.broadcast_to(np.asarray(value, float), (len(columns),))
        for (column, letter, i), first in zip(columns, given, strict=True):
            guess[column] = float(first)
            low, high = bounds.get(column, bounds.get(name, _range(model, letter, i)))
            if not low < high:
                raise ScenarioError(f"bounds of {column} are ({low}, {high}); give low < high")
            limits[column] = (float(low), float(high))
    if not guess:
        raise ScenarioError("free= is empty; name at least one state, input or parameter to find")
    for name in bounds:
        if name not in free and name not in guess:
            raise UnknownName("free value", name, guess, "bounds=")
    return guess, limits


def _range(model: Model, letter: str, i: int) -> tuple[float, float]:
    if not letter:
        return -np.inf, np.inf
    signals = layouts_of(model)[letter]
    owner = [s for s in signals for _ in s.columns][i]
    return owner.low, owner.high


def _elements(model: Model, name: str) -> list[tuple[str, str, int]]:
    """Return name, vector and number of each element of a signal, or of one element."""
    layouts = {k: v for k, v in layouts_of(model).items() if k in _LETTERS}
    for letter, signals in layouts.items():
        if name in signals:
            where = signals.slice(name)
            return [(signals.columns[i], letter, i) for i in range(where.start, where.stop)]
        if name in signals.columns:
            return [(name, letter, signals.columns.index(name))]
    known = [n for signals in layouts.values() for n in signals.names]
    raise UnknownName("state, input or parameter", name, known, f"free= of {model.name}")


def _known(model: Model, name: str) -> tuple[str, str, int]:
    """Return the scalar element ``name``, or a free value that the model does not have."""
    try:
        found = _elements(model, name)
    except UnknownName:
        return name, "", 0
    return found[0] if len(found) == 1 else (name, "", 0)


def _element(model: Model, name: str) -> tuple[str, int]:
    ((_, letter, i),) = _elements(model, name)
    return letter, i


def _is_value(model: Model, name: str) -> bool:
    return any(name in signals for signals in layouts_of(model).values())


def _with(model: Model, start: Point, values: Mapping[str, object]) -> Point:
    """Return ``start`` with other values by name, whose ranges are checked."""
    for signals in layouts_of(model).values():
        signals.initial({name: value for name, value in values.items() if name in signals})
    return _placed(model, start, values)


def _placed(model: Model, start: Point, values: Mapping[str, object]) -> Point:
    """Return ``start`` with other values by name.

    A derivative at the end of a range needs values beyond it, so ranges are not checked.
    """
    layouts = layouts_of(model)
    vectors = {letter: getattr(start, letter).copy() for letter in layouts}
    for name, value in values.items():
        owners = [letter for letter, signals in layouts.items() if name in signals]
        if not owners:
            known = [n for signals in layouts.values() for n in signals.names]
            raise UnknownName("value", name, known, f"model {model.name}")
        for letter in owners:
            where = layouts[letter].slice(name)
            given = np.asarray(value, float).ravel()
            if given.size != where.stop - where.start:
                raise ShapeError(
                    f"signal {name} has {where.stop - where.start} elements, but got "
                    f"{given.size} values"
                )
            vectors[letter][where] = given
    return Point(start.t, vectors["x"], vectors["z"], vectors["u"], vectors["p"])


def _rates(
    model: Model, steady: Sequence[str] | Mapping[str, float] | None
) -> list[tuple[int, float]]:
    """Return the number of each state with a wanted rate, and the rate per s."""
    if steady is None:
        return [(i, 0.0) for i in range(model.states.size)]
    wanted = steady if isinstance(steady, Mapping) else dict.fromkeys(steady, 0.0)
    out: list[tuple[int, float]] = []
    for name, rate in wanted.items():
        if name in model.states:
            where = model.states.slice(name)
            out += [(i, float(rate)) for i in range(where.start, where.stop)]
        elif name in model.states.columns:
            out.append((model.states.columns.index(name), float(rate)))
        else:
            raise UnknownName("state", name, model.states.names, f"steady= of {model.name}")
    return out


def _wanted_outputs(model: Model, wanted: Mapping[str, object]) -> list[tuple[int, float]]:
    known = [n for signals in layouts_of(model).values() for n in signals.names]
    out: list[tuple[int, float]] = []
    for name, value in wanted.items():
        if name not in model.outputs:
            raise UnknownName(
                "value", name, [*known, *model.outputs.names], f"fixed= of {model.name}"
            )
        where = model.outputs.slice(name)
        given = np.broadcast_to(np.asarray(value, float).ravel(), (where.stop - where.start,))
        out += [(where.start + i, float(v)) for i, v in enumerate(given)]
    return out
