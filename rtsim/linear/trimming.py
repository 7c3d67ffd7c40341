"""trim: values of a model for which chosen states are steady."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from rtsim.core.errors import ModelError, ScenarioError
from rtsim.core.signals import Vector
from rtsim.core.tag import Duration
from rtsim.equations.compiling import Compilation
from rtsim.equations.model import BoundModel, bind
from rtsim.linear.constrained import solved
from rtsim.linear.points import (
    Point,
    check_undelayed,
    layouts_of,
    model_of,
    plant_of,
    point_in,
    system_at,
)
from rtsim.linear.solving import Solution, solve
from rtsim.linear.trim_equations import Free, Residual, TrimEquations, free_values
from rtsim.record import markup
from rtsim.scenario.scenario import Scenario

_SAME = 1e-6
"""Relative distance below which two solutions are one."""


@dataclass(frozen=True)
class Trim:
    """A trimmed operating point.

    - ``free``: the values that were found, by name.
    - ``values``: all states, discrete values, inputs and parameters, by name of their signal.
    - ``outputs``: the outputs, by name of their element.
    - ``residuals``: what is left of each equation, in its unit; ``residual`` is the largest.
    - ``condition``: the condition number of the Jacobian of the equations by the free values; its
      columns are scaled by ``max(1, |value|)``, its rows to length 1.  Each digit of the condition
      costs a digit of the solution.
    - ``unique``: whether the Jacobian determines all free values.  If not, ``undetermined`` holds
      the directions in which the free values can move while the residuals stay 0, to first order.
    - ``at_bounds``: the free values that lie at a bound.
    - ``others``: solutions that were found from other starts.
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

    @property
    def residual(self) -> float:
        """Return the largest absolute residual."""
        return max(map(abs, self.residuals.values()), default=0.0)

    @property
    def unique(self) -> bool:
        """Return whether the solution is locally unique, and no other one was found."""
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
        """Set the states, discrete values, parameters and constant inputs of a plant."""
        name, component = plant_of(scenario, plant)
        wired = {n for n, source in component.inputs.items() if isinstance(source, str)}
        for signal, value in self.values.items():
            if signal not in wired:
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
    """Find ``free`` values for which the states in ``steady`` have the wanted rates.

    - ``what``: a :class:`Model`, a ``Diagram``, or a :class:`Scenario`.  Of a scenario, ``plant``
      is trimmed from its values at ``time`` s, and all its inputs can be free.
    - ``free``: states, inputs or parameters to find: names, or names with the start of the search.
    - ``fixed``: values of other states, inputs and parameters (default: as declared), and of
      outputs.  Each fixed output is one more equation.
    - ``bounds``: ``(low, high)`` by name; default: the range of the signal.
    - ``steady``: names of states, or wanted rates by name of the state, per s (default: all, 0).
    - ``place``: computes values of the model, by name, from the free values, which then need not be
      names of the model.  ``residual(point, dx, y)`` replaces the equations by its own vector.
    - ``tolerance``: the largest allowed residual, in the units of the equations.
    - ``starts``: further starts of the search between the bounds, to look for other solutions.

    SciPy's ``least_squares`` solves the equations, and Newton's method improves the solution.  With
    more free values than equations, the solution near the start is one of many, and the result says
    so.  Raises :class:`ModelError` if no solution is found; the message names the worst equation.

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
    """Return further solutions from ``starts`` starts, drawn with a fixed seed."""
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
