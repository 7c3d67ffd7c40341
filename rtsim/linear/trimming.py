"""Search for a trim: values of a model for which the states are constant."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from rtsim.core.errors import ModelError, ScenarioError, ShapeError, UnknownName
from rtsim.core.extras import needs
from rtsim.core.signals import Vector
from rtsim.core.tag import Duration
from rtsim.equations.compiling import Compilation
from rtsim.equations.model import BoundModel, Model, bind
from rtsim.equations.named_arguments import Arguments, NamedVector, named
from rtsim.linear.derivatives import jacobian
from rtsim.linear.plants import (
    Point,
    check_undelayed,
    layouts_of,
    model_of,
    plant_of,
    point_in,
    solved,
    system_at,
)
from rtsim.linear.state_space import Matrix
from rtsim.record import markup
from rtsim.scenario.scenario import Scenario

Free = Sequence[str] | Mapping[str, float]
Residual = Callable[..., Vector]
"""Function ``residual(point, dx, y)`` that returns a vector whose elements must become 0. dx (n,)
are the rates of the states per s, and y (r,) are the outputs.
"""
Place = Callable[[Mapping[str, float]], Mapping[str, object]]
_LETTERS = "xup"


_RESIDUAL = Arguments("point, dx, y", does="returns what must be 0")


def _by_name(residual: Residual, model: Model) -> Residual:
    vectors = {
        "dx": NamedVector(model.states, "state"),
        "y": NamedVector(model.outputs, "output"),
    }
    return named(residual, _RESIDUAL, f"residual of the trim of {model.name}", vectors)


class TrimEquations:
    """The residuals of a trim as a function of the free values (n,)."""

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
        self._bound, self._place = bound, place
        model = bound.model
        self._residual = None if residual is None else _by_name(residual, model)
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
            raise ScenarioError(
                "residual= excludes steady= and fixed outputs; give only residual=, or leave "
                "residual= out"
            )
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
        start, model = self._start, self._bound.model
        if self._place is not None:
            given = self._place(dict(zip(self.names, map(float, values), strict=True)))
            return _placed(model, start, given)
        vectors = {letter: getattr(start, letter).copy() for letter in _LETTERS}
        for (letter, i), value in zip(self._where, values, strict=True):
            vectors[letter][i] = value
        return Point(start.t, vectors["x"], start.z, vectors["u"], vectors["p"])

    def outputs(self, at: Point) -> Vector:
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
    """Return the start value and the bounds of each free element.

    ``named`` is True if ``free`` contains names of states, inputs or parameters.
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
    for signals in layouts_of(model).values():
        signals.initial({name: value for name, value in values.items() if name in signals})
    return _placed(model, start, values)


def _placed(model: Model, start: Point, values: Mapping[str, object]) -> Point:
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


_RANK = 1e-7
_POLISHINGS = 6


class Equations(Protocol):
    """Interface of equations ``f(v) = 0``, with a label for each equation."""

    @property
    def labels(self) -> Sequence[str]: ...

    @property
    def names(self) -> Sequence[str]: ...

    def __call__(self, values: Vector) -> Vector: ...


@dataclass(frozen=True)
class Solution:
    """A solution (n,) of equations, with residuals (k,) and condition number.

    ``free_directions`` contains the directions (n,) in which the solution is not determined.
    """

    at: Vector
    residuals: Vector
    condition: float
    free_directions: tuple[Vector, ...]

    @property
    def worst(self) -> float:
        return float(np.max(np.abs(self.residuals), initial=0.0))


def solve(equations: Equations, first: Vector, low: Vector, high: Vector) -> Solution:
    """Solve equations by least squares and Newton's method, starting at ``first`` (n,).

    Check ``worst`` of the result, because the search may end without a solution. Raises
    :class:`ModelError` for an equation that is not finite, or that depends on none of the unknowns.
    """
    with needs("scipy", "a trim"):
        from scipy.optimize import least_squares  # Imported here because it is slow to load.

    start = np.clip(first, low, high)
    scale = np.maximum(1.0, np.abs(start))
    room = np.where(np.isfinite(high - low), high - low, 1.0)
    inside = np.clip(start, low + 1e-9 * room, high - 1e-9 * room)
    _check(equations, equations(inside))
    found = least_squares(
        equations, inside, jac="3-point", bounds=(low, high), x_scale=scale,
        xtol=1e-15, ftol=1e-15, gtol=1e-15, max_nfev=400,
    ).x  # fmt: skip
    found = _polished(equations, np.asarray(found, float), low, high)
    residuals = equations(found).copy()
    slopes = jacobian(equations, found, residuals.size).matrix
    condition, directions = _quality(equations, slopes, found)
    return Solution(found, residuals, condition, directions)


def _check(equations: Equations, values: Vector) -> None:
    bad = np.flatnonzero(~np.isfinite(values))
    if bad.size:
        raise ModelError(
            f"{equations.labels[int(bad[0])]} is {values[bad[0]]} at the start of the search; give "
            "another start: free={name: start}"
        )


def _polished(equations: Equations, at: Vector, low: Vector, high: Vector) -> Vector:
    best, size = at, float(np.max(np.abs(equations(at)), initial=0.0))
    for _ in range(_POLISHINGS):
        if size == 0.0:
            break
        slopes = jacobian(equations, best, len(equations.labels)).matrix
        scale = np.maximum(1.0, np.abs(best))
        step = np.linalg.lstsq(slopes * scale, -equations(best), rcond=_RANK)[0] * scale
        moved = np.clip(best + step, low, high)
        reached = float(np.max(np.abs(equations(moved)), initial=0.0))
        if not reached < size:
            break
        best, size = moved, reached
    return best


def _depends(equations: Equations, at: Vector, row: int) -> bool:
    size = np.maximum(1.0, np.abs(at))
    moved = (equations(at + share * size)[row] for share in (0.37, -0.61))
    return any(float(value) != float(equations(at)[row]) for value in moved)


def _quality(equations: Equations, slopes: Matrix, at: Vector) -> tuple[float, tuple[Vector, ...]]:
    scale = np.maximum(1.0, np.abs(at))
    scaled = slopes * scale
    lengths = np.linalg.norm(scaled, axis=1)
    empty = np.flatnonzero(lengths <= 0.0)
    if empty.size:
        label = equations.labels[int(empty[0])]
        value = equations(at)[empty[0]]
        if abs(value) > 1e-12 and _depends(equations, at, int(empty[0])):
            raise ModelError(
                f"no solution: {label} does not fall below {value:.6g} near "
                + ", ".join(f"{n} = {v:.6g}" for n, v in zip(equations.names, at, strict=True))
                + "; start the search elsewhere (free={name: start}), or free another value"
            )
        if abs(value) > 1e-12:
            raise ModelError(
                f"{label} is {value:.6g} whatever the free values ({', '.join(equations.names)}) "
                "are; leave it out of steady=, or free a value on which it depends"
            )
        scaled, lengths = np.delete(scaled, empty, 0), np.delete(lengths, empty)
    if not len(scaled):
        return np.inf, tuple(np.eye(at.size))
    _, sizes, rows = np.linalg.svd(scaled / lengths[:, None])
    full = np.concatenate((sizes, np.zeros(max(0, at.size - sizes.size))))
    directions = tuple(rows[i] * scale for i in range(at.size) if full[i] <= _RANK * sizes[0])
    if sizes[-1] == 0.0:
        return np.inf, directions
    return float(sizes[0] / sizes[-1]), directions


_SAME = 1e-6


@dataclass(frozen=True)
class Trim:
    """A trimmed operating point.

    - ``free`` contains the values that the search found, by name.
    - ``values`` contains all states, discrete values, inputs and parameters, by name.
    - ``outputs`` contains the outputs of the model, by name of the element.
    - ``residuals`` contains the remaining error of each equation, in the unit of the equation.
      ``residual`` is the largest.
    - ``condition`` is the condition number of the equations' Jacobian by the free values. The
      columns of the Jacobian are scaled by ``max(1, |value|)``, its rows to length 1. A condition
      number of 10^k means a loss of k digits of accuracy.
    - ``undetermined`` contains directions in which the free values can change without a change of
      the residuals, to first order.
    - ``unique`` is True if the free values are determined and no other solution was found.
    - ``at_bounds`` contains the free values at one of their bounds.
    - ``others`` contains solutions that were found from other start values.
    """

    model: str
    free: Mapping[str, float]
    values: Mapping[str, Any]
    outputs: Mapping[str, float]
    residuals: Mapping[str, float]
    condition: float
    undetermined: tuple[Mapping[str, float], ...] = ()
    at_bounds: tuple[str, ...] = ()
    others: tuple[Mapping[str, float], ...] = ()
    point: Point = field(repr=False, kw_only=True)

    def __getitem__(self, name: str) -> Any:
        """Return a free value, signal or output by name, such as ``level["throttle"]``.

        An unknown name raises :class:`UnknownName`.
        """
        for known in (self.free, self.values, self.outputs):
            if name in known:
                return known[name]
        raise UnknownName("value", name, [*self.values, *self.outputs], f"the trim of {self.model}")

    @property
    def residual(self) -> float:
        """The largest absolute residual."""
        return max(map(abs, self.residuals.values()), default=0.0)

    @property
    def unique(self) -> bool:
        """True if the free values are determined and no other solution was found."""
        return not self.undetermined and not self.others

    def _repr_html_(self) -> str:
        facts = {
            "model": self.model, "residual": self.residual, "condition": self.condition,
            "unique": "yes" if self.unique else "no", "at bounds": ", ".join(self.at_bounds),
        }  # fmt: skip
        return markup.shown("Trim", facts, ("free value", "found"), self.free.items())

    def __str__(self) -> str:
        lines = [f"{self.model}: residual {self.residual:.2g}, condition {self.condition:.3g}"]
        lines += [f"  {name} = {value:.10g}" for name, value in self.free.items()]
        lines += [f"  {name} is at its bound" for name in self.at_bounds]
        for direction in self.undetermined:
            mix = ", ".join(f"{part:+.3g} {name}" for name, part in direction.items())
            lines.append(f"  not unique: the free values can move along {mix}")
        for other in self.others:
            text = ", ".join(f"{name} = {value:.6g}" for name, value in other.items())
            lines.append(f"  not unique: another solution is {text}")
        return "\n".join(lines)

    def set_in(self, scenario: Scenario, plant: str = "") -> None:
        """Set the states, inputs and parameters of a plant to the trimmed values.

        An input that receives messages keeps its trimmed value until the first message. The trimmed
        value of an input is not used if the input is connected to a source or another plant.
        """
        name, component = plant_of(scenario, plant)
        wired = {n for n, source in component.inputs.items() if isinstance(source, str)}
        for signal, value in self.values.items():
            if signal in wired:
                component.initial_inputs[signal] = value
            else:
                scenario.set(f"{name}.{signal}", value)


def trim(
    what: Any,
    *,
    free: Free,
    fixed: Mapping[str, object] | None = None,
    bounds: Mapping[str, tuple[float, float]] | None = None,
    steady: Sequence[str] | Mapping[str, float] | None = None,
    place: Callable[[Mapping[str, float]], Mapping[str, object]] | None = None,
    residual: Residual | None = None,
    plant: str = "",
    time: Duration = 0,
    tolerance: float = 1e-8,
    starts: int = 0,
    compile: Compilation = True,
) -> Trim:
    """Find values for ``free`` such that the states in ``steady`` are constant or have given rates.

    SciPy's ``least_squares`` solves the equations, and Newton's method improves the solution. With
    more free values than equations, the result is one of many solutions, and ``unique`` is False.

    Args:
        what: A :class:`Model`, a ``Diagram`` or a :class:`Scenario`.
        free: States, inputs or parameters to find, as names or as a mapping of names to start
            values.
        fixed: Values of other states, inputs and parameters (default: as declared), and of outputs.
            Each fixed output adds an equation.
        bounds: Limits ``(low, high)`` of free values, by name. The default is the range of the
            signal.
        steady: Names of states that must be steady, or a mapping of states to wanted rates per s.
            By default, all states must be steady.
        place: Function that computes values of the model, by name, from the free values. The free
            values then need not be names of the model.
        residual: Function ``residual(point, dx, y)`` that returns a vector of residuals and
            replaces the equations of ``steady`` and of fixed outputs.
        plant: The plant of a scenario to trim, with all its inputs available as free values.
        time: Time in a run of the scenario from which the other values are taken, s.
        tolerance: Largest allowed residual, in the units of the equations.
        starts: Number of further random starts between the bounds, to look for other solutions.
        compile: Whether to compile the model.

    Raises:
        ModelError: No solution was found. The message contains the worst equation.

    Example:
        trim(heater, free={"supply": 290.0}, fixed={"temperature": 300.0})
    """
    bound, start = _start(what, plant, time, compile)
    check_undelayed(bound.model)
    guess, limits = free_values(bound.model, free, bounds or {}, start, named=place is None)
    equations = TrimEquations(bound, start, tuple(guess), fixed or {}, steady, place, residual)
    first = np.array(list(guess.values()))
    low, high = (np.array([limits[name][i] for name in guess]) for i in (0, 1))
    found = solve(equations, first, low, high)
    if not found.worst <= tolerance:
        raise _no_solution(bound, equations, found, tolerance)
    others = _others(equations, found, (low, high), starts, tolerance)
    return _result(bound, equations, found, others, (low, high))


def _start(what: Any, plant: str, time: Duration, compile: Compilation) -> tuple[BoundModel, Point]:
    if isinstance(what, Scenario):
        name, _ = plant_of(what, plant)
        system = system_at(what, time, compile=compile)
        return next(p for p in system.plants if p.name == name).bound, point_in(system, name)
    if plant or time:
        raise ScenarioError("plant= and time= are for a Scenario; leave them out for a model")
    bound = bind(model_of(what), compile=compile)
    return bound, Point.of(bound.model)


def _result(
    bound: BoundModel,
    equations: TrimEquations,
    found: Solution,
    others: Sequence[Vector],
    limits: tuple[Vector, Vector],
) -> Trim:
    point = solved(bound, equations.point(found.at))
    values: dict[str, Any] = {}
    for letter, signals in layouts_of(bound.model).items():
        vector = getattr(point, letter)
        for s in signals:
            part = vector[signals.slice(s.name)]
            values[s.name] = part.tolist() if s.shape else float(part[0])
    names = equations.names
    low, high = limits
    near = 1e-9 * np.maximum(1.0, np.abs(found.at))
    stuck = (found.at - low <= near) | (high - found.at <= near)
    outputs = dict(
        zip(bound.model.outputs.columns, map(float, equations.outputs(point)), strict=True)
    )
    return Trim(
        bound.model.name,
        dict(zip(names, map(float, found.at), strict=True)),
        values,
        outputs,
        dict(zip(equations.labels, map(float, found.residuals), strict=True)),
        found.condition,
        tuple(_direction(names, vector) for vector in found.free_directions),
        tuple(name for name, at_bound in zip(names, stuck, strict=True) if at_bound),
        tuple(dict(zip(names, map(float, other), strict=True)) for other in others),
        point=point,
    )


def _direction(names: Sequence[str], vector: Vector) -> dict[str, float]:
    most = float(np.abs(vector).max())
    return {
        name: float(part / most)
        for name, part in zip(names, vector, strict=True)
        if abs(part) > 1e-3 * most
    }


def _others(
    equations: TrimEquations,
    found: Solution,
    limits: tuple[Vector, Vector],
    starts: int,
    tolerance: float,
) -> list[Vector]:
    if not starts:
        return []
    low, high = limits
    if not (np.isfinite(low).all() and np.isfinite(high).all()):
        raise ScenarioError("starts= needs bounds= of all free values")
    known, stream = [found.at], np.random.default_rng(0)
    for _ in range(starts):
        try:
            other = solve(equations, stream.uniform(low, high), low, high)
        except ModelError:
            continue
        size = np.maximum(1.0, np.abs(other.at))
        if other.worst <= tolerance and all(
            (np.abs(other.at - one) > _SAME * size).any() for one in known
        ):
            known.append(other.at)
    return known[1:]


def _no_solution(
    bound: BoundModel, equations: TrimEquations, found: Solution, tolerance: float
) -> ModelError:
    worst = int(np.argmax(np.abs(found.residuals)))
    values = ", ".join(f"{n} = {v:.6g}" for n, v in zip(equations.names, found.at, strict=True))
    return ModelError(
        f"no trim of {bound.model.name} found: at best {equations.labels[worst]} is off by "
        f"{found.residuals[worst]:.3g}, allowed {tolerance:g}, at {values}; start the search "
        "closer (free={name: start}), free another value, or widen bounds="
    )
