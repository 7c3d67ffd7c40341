"""Fit parameters of a scenario to measurements by least squares.

Each residual is divided by the noise of its signal, which the fit estimates. The intervals are
those of the linearised problem (G. Seber, C. Wild, Nonlinear Regression, 1989, section 5.1). The
confidence intervals assume independent noise and a correct model.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rtsim.core.errors import ModelError, ScenarioError, UnknownName
from rtsim.core.extras import needs
from rtsim.core.signals import Vector, same_unit
from rtsim.core.tag import NS_PER_S, Duration, to_ns
from rtsim.record.reading import Recording
from rtsim.runs.prepared import Prepared, prepare
from rtsim.runs.result import RunResult
from rtsim.runs.simulation import simulate
from rtsim.scenario.loading import ScenarioMaker
from rtsim.scenario.scenario import Scenario
from rtsim.studies.factors import Range, spread
from rtsim.studies.measurements import Measurements, units_of
from rtsim.studies.plan import text_of
from rtsim.studies.texts import Value

LEVEL = 0.95
STEP = 1e-4
"""Step of the central differences, relative to the scale of each parameter."""
ROUNDS = 3
"""Fits in sequence; each takes the noise of the signals from the residuals of the fit before."""
MOST_CONDITION = 1e4
"""Condition number of the scaled Jacobian above which a combination of parameters is undetermined.

Two parameters with a correlation of 1 - 2e-8 have this condition number.  The central differences
are accurate to about 1e-8.
"""
NO_EFFECT = 1e-9
WIDEST = 10.0
"""Standard error, relative to the start and the value of a parameter, above which it counts as
undetermined."""
_AT_BOUND = 1e-8
"""Distance from a bound, relative to the value. The search reaches a bound exactly."""
ROUNDING = 1e-8
"""Residuals below this part of a signal are rounding errors, not noise."""
_SHARE = 1e-3
"""Least share of a parameter in an undetermined combination that is named."""
_CORRELATED = 4.0
"""Number of standard deviations from which the residuals of a signal are called correlated."""


@dataclass(frozen=True)
class Fitted:
    """A fitted parameter with its standard error and confidence interval.

    ``determined`` is false if the data do not determine the value; the interval is then infinite.
    ``at_bound`` is true if the value is a bound of the search; standard error and interval are then
    NaN.
    """

    name: str
    start: float
    value: float
    error: float
    low: float
    high: float
    determined: bool = True
    at_bound: bool = False

    @property
    def cells(self) -> tuple[str, ...]:
        """Texts of a table: name, value, standard error, interval, and value at the start."""
        error, interval = f"{self.error:.3g}", f"{self.low:.6g} to {self.high:.6g}"
        if not self.determined:
            error, interval = "undetermined", "-inf to inf"
        elif self.at_bound:
            error, interval = "at a bound", "none"
        return self.name, f"{self.value:.6g}", error, interval, f"{self.start:.6g}"

    def __str__(self) -> str:
        about = f"{self.low:.6g} to {self.high:.6g}"
        if not self.determined:
            about = "undetermined"
        elif self.at_bound:
            about = "at a bound"
        return f"{self.name} = {self.value:.6g} ({about})"


@dataclass(frozen=True)
class Fit:
    """The result of :func:`fit`: parameters, residuals and warnings."""

    parameters: tuple[Fitted, ...]
    source: str
    time: Vector
    """Times of the measurements, s, shape (n,)."""
    measured: Mapping[str, Vector]
    fitted: Mapping[str, Vector]
    """The signals of the fitted run at these times, by name, shape (n,)."""
    noise: Mapping[str, float]
    """Standard deviation of the residuals of each signal."""
    correlation: NDArray[np.float64]
    """Correlation of the estimates, shape (p, p); NaN for undetermined parameters."""
    runs: int
    converged: bool
    why: str
    warnings: tuple[str, ...]
    unused: tuple[str, ...] = ()
    """Columns of a CSV file that were neither compared nor used as inputs."""

    @property
    def values(self) -> dict[str, float]:
        """The fitted values by name."""
        return {one.name: one.value for one in self.parameters}

    @property
    def determined(self) -> bool:
        """True if the data determine all parameters."""
        return all(one.determined for one in self.parameters)

    @property
    def status(self) -> int:
        """Exit status: 0, or 1 if a parameter is undetermined, or 2 if the fit did not converge."""
        return 2 if not self.converged else 0 if self.determined else 1

    @property
    def result(self) -> str:
        """``not converged``, ``undetermined``, ``at a bound`` or ``determined``."""
        if not self.converged:
            return "not converged"
        if not self.determined:
            return "undetermined"
        return "at a bound" if any(one.at_bound for one in self.parameters) else "determined"

    def __getitem__(self, name: str) -> Fitted:
        for one in self.parameters:
            if one.name == name:
                return one
        raise UnknownName("parameter", name, self.values, "this fit")

    def residuals(self, name: str) -> Vector:
        """Return the measured minus the fitted values of a signal, shape (n,)."""
        out: Vector = self.measured[name] - self.fitted[name]
        return out

    def to_json(self) -> dict[str, Any]:
        return {
            "result": self.result,
            "parameters": [
                {**vars(one), "low": _finite(one.low), "high": _finite(one.high),
                 "error": _finite(one.error)}
                for one in self.parameters
            ],
            "signals": {name: {"noise": noise} for name, noise in self.noise.items()},
            "measurements": self.source, "level": LEVEL, "runs": self.runs,
            "converged": self.converged, "message": self.why, "warnings": list(self.warnings),
            "unused": list(self.unused),
        }  # fmt: skip


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


class _Runs:
    def __init__(
        self,
        make: Callable[[Mapping[str, Value]], Scenario],
        names: Sequence[str],
        time: Vector,
        driven: Mapping[str, Vector],
        seed: int,
        until: Duration | None,
    ) -> None:
        self._make, self.names, self._time = make, list(names), time
        self._seed, self.count = seed, 0
        self.good = False
        """True after a run that reached the last measurement."""
        self._changes = {
            name: [
                (round(t * NS_PER_S), float(v))
                for t, v in zip(time, column, strict=True)
                if math.isfinite(v)
            ]
            for name, column in driven.items()
        }
        for name, changes in self._changes.items():
            if not changes:
                raise ScenarioError(f"the measurements contain no value of the input {name}")
        # A message of the last instant must not end the run before the last measurement.
        self._until: Duration = float(time[-1]) if until is None else until
        if to_ns(self._until, "until") < round(time[-1] * NS_PER_S):
            raise ScenarioError(
                f"until {self._until} s is before the last measurement at {time[-1]:g} s; cut the "
                "measurements"
            )
        self._prepared: Prepared | None = None
        if all("." in name for name in names):
            self._prepared = prepare(self._scenario({}))

    def _scenario(self, values: Mapping[str, Value]) -> Scenario:
        scenario = self._make(values)
        for target, changes in self._changes.items():
            scenario.drive(target, changes)
        return scenario

    def result(self, values: Vector) -> RunResult:
        """Return the run with ``values``, shape (p,)."""
        self.count += 1
        given = dict(zip(self.names, map(float, values), strict=True))
        try:
            if self._prepared is not None:
                return self._prepared.run(seed=self._seed, set=given, until=self._until)
            return simulate(
                self._scenario(given), seed=self._seed, until=self._until, progress=False
            )
        except Exception as error:
            said = ", ".join(f"{name} = {value:.6g}" for name, value in given.items())
            error.add_note(f"in the run with {said}; narrow the ranges of --vary")
            raise

    def signals(self, values: Vector, names: Sequence[str]) -> dict[str, Vector]:
        run = self.result(values)
        last = float(run.time[-1])
        if last < self._time[-1] * (1 - 1e-9):
            raise ScenarioError(
                f"the run ended at {last:g} s ({run.in_words}), before the last measurement at "
                f"{self._time[-1]:g} s; narrow the ranges of --vary, or cut the measurements"
            )
        return {name: np.interp(self._time, run.time, run[name]) for name in names}


def fit(
    scenario: str | Scenario | Callable[..., Scenario],
    to: str | Path | Recording | Measurements,
    vary: Mapping[str, object] | Sequence[str],
    *,
    signals: Sequence[str] = (),
    inputs: Sequence[str] = (),
    columns: Mapping[str, str] | None = None,
    settings: Mapping[str, Value] | None = None,
    until: Duration | None = None,
    seed: int = 0,
    progress: Callable[[int, float], object] = lambda *_: None,
) -> Fit:
    """Fit the parameters ``vary`` of a scenario to the measurements ``to`` by least squares.

        found = fit("motor.py", "bench.csv", {"motor.friction": "range:0,1"})
        print(found["motor.friction"])

    Args:
        scenario: A name, ``FILE.py[:FUNCTION]``, a scenario, or a function that makes one.
        to: A recording, or a CSV file with a column ``time`` (s) and columns ``component.signal``.
        vary: Parameters and initial values ``component.name``, or arguments of the scenario's
            function, each with its range: ``"range:LOW,HIGH"``, ``(LOW, HIGH)``, or ``""`` for the
            declared bounds. The search begins at the value in the scenario, or in the middle of the
            range.
        signals: Signals to compare. The default are all signals of plants, except inputs, that the
            measurements contain.
        inputs: Values of sources, ``source.name``, that take the measured values of this name.
            Between two measurements, a source has the value of the earlier one. Missing values are
            left out.
        columns: Columns of a CSV file with other names or units, by signal or ``"time"``:
            ``{"motor.speed": "rpm,scale=0.1047", "time": "ms,scale=0.001"}``. The values of the
            signal are ``scale * value + offset``.
        settings: Values that are the same in all runs.
        until: End of each run, s. The default is the time of the last measurement.
        seed: Seed of all runs.
        progress: Function that receives the number of runs and the sum of squares.

    Raises:
        ScenarioError: The measurements contain none of the signals, too few rows, or other units.
        UnknownName: A name is unknown.
    """
    with needs("scipy", "a fit"):
        from scipy.optimize import least_squares
    data = Measurements.of(to, columns)
    if not vary:
        raise ScenarioError("no value is varied; give --vary NAME=range:LOW,HIGH")
    ranges = dict.fromkeys(vary, "") if not isinstance(vary, Mapping) else dict(vary)
    make = _maker(scenario, dict(settings or {}))
    runs = _Runs(make, list(ranges), data.time, data.chosen(inputs), seed, until)
    first = make({})
    space = _Space([_Axis.of(first, name, text) for name, text in ranges.items()])
    names = _compared(first, data, signals, inputs, space, runs)
    measured = data.chosen(names)
    known = {name: np.isfinite(column) for name, column in measured.items()}
    if empty := [name for name, where in known.items() if not where.any()]:
        raise ScenarioError(f"{data.source} contains no value of {', '.join(empty)}")
    count = sum(int(where.sum()) for where in known.values())
    if count <= space.size:
        raise ScenarioError(
            f"{data.source} has {count} values of {', '.join(names)}, too few for {space.size} "
            "parameters"
        )
    noise = {name: _scale(column[known[name]]) for name, column in measured.items()}

    def differences(scaled: Vector) -> Vector:
        found = runs.signals(space.values(scaled), names)
        for name in names:
            wrong = known[name] & ~np.isfinite(found[name])
            if wrong.any():
                said = ", ".join(
                    f"{axis.name} = {v:.6g}"
                    for axis, v in zip(space.axes, space.values(scaled), strict=True)
                )
                raise ModelError(
                    f"{name} is not finite at {data.time[wrong][0]:g} s in the run with {said}; "
                    "narrow the ranges of --vary, or compare other signals"
                )
        runs.good = True
        parts = [(found[name] - measured[name])[known[name]] / noise[name] for name in names]
        return np.concatenate(parts)

    def residuals(scaled: Vector) -> Vector:
        try:
            out = differences(scaled)
        except ModelError:
            if runs.good:  # the search takes a shorter step where the model has no solution
                return np.full(count, np.inf)
            raise
        progress(runs.count, float(out @ out))
        return out

    def derivatives(scaled: Vector) -> NDArray[np.float64]:
        return space.jacobian(differences, scaled)

    at = space.start
    found: Any = None
    for _ in range(ROUNDS):
        found = least_squares(
            residuals, at, jac=derivatives, bounds=space.bounds, method="dogbox",
            xtol=1e-10, ftol=1e-12, gtol=1e-12,
        )  # fmt: skip
        at = found.x
        end = runs.signals(space.values(at), names)
        new = {
            name: max(
                float(np.sqrt(np.mean((end[name] - measured[name])[known[name]] ** 2))),
                1e-12 * _scale(measured[name][known[name]]),
            )
            for name in names
        }
        if len(names) == 1 or all(abs(new[n] / noise[n] - 1) < 1e-3 for n in names):
            noise = new
            break
        noise = new
    jacobian = derivatives(at)
    unused = [n for n in data.signals if data.table and n not in names and n not in inputs]
    return _result(
        space, data, names, measured, known, end, noise, at, jacobian, runs.count, found,
        tuple(unused),
    )  # fmt: skip


def _maker(
    scenario: str | Scenario | Callable[..., Scenario], settings: dict[str, Value]
) -> Callable[[Mapping[str, Value]], Scenario]:
    if isinstance(scenario, str):
        maker = ScenarioMaker(scenario)
        return lambda values: maker.make(
            {name: text_of(value) for name, value in {**settings, **values}.items()}
        )

    def make(values: Mapping[str, Value]) -> Scenario:
        given = {**settings, **values}
        arguments = {name: value for name, value in given.items() if "." not in name}
        if isinstance(scenario, Scenario):
            if arguments:
                raise ScenarioError(
                    f"{', '.join(arguments)} is no value of the scenario; give the function that "
                    "makes the scenario, or a name with its component"
                )
            out = scenario.copy()
        else:
            out = scenario(**arguments)
        for name, value in given.items():
            if "." in name:
                out.set(name, value)
        return out

    return make


@dataclass(frozen=True)
class _Axis:
    name: str
    start: float
    low: float
    high: float

    @classmethod
    def of(cls, scenario: Scenario, name: str, text: object) -> _Axis:
        low, high = -math.inf, math.inf
        start: float | None = None
        if "." in name:
            values, signals, _ = scenario.settable_of(name)
            own = name.partition(".")[2]
            signal = signals[own]
            if signal.shape:
                raise ScenarioError(f"{name} has the shape {signal.shape}; only numbers are varied")
            if not signal.type.startswith("float"):
                raise ScenarioError(
                    f"{name} is of type {signal.type}; only real numbers are varied"
                )
            low, high = signal.low, signal.high
            start = float(signals.initial({own: values[own]} if own in values else {})[
                signals.slice(own)
            ][0])  # fmt: skip
        if text not in ("", None):
            ranged = not isinstance(text, str) or text.startswith("range:")
            given = spread(text) if ranged else None
            if not isinstance(given, Range):
                raise ScenarioError(f"--vary {name} needs a range: {name}=range:LOW,HIGH")
            declared = f"{low:g} to {high:g}"
            low, high = max(low, given.low), min(high, given.high)
            if not low < high:
                raise ScenarioError(
                    f"the range of {name}, {given.low:g} to {given.high:g}, is outside of the "
                    f"declared bounds, {declared}"
                )
        elif start is None:
            owners = [
                f"--vary {component}.{name}"
                for component, part in scenario.components.items()
                if any(name in one.signals for one in part.settings())
            ]
            raise ScenarioError(
                f"{name} without a component is an argument of the scenario; give its range: "
                f"--vary {name}=range:LOW,HIGH"
                + (f", or write {' or '.join(owners)}" if owners else "")
            )
        if start is None or not low <= start <= high:
            start = 0.5 * (low + high)
        return cls(name, start, low, high)

    @property
    def scale(self) -> float:
        width = self.high - self.low
        return abs(self.start) or (width if math.isfinite(width) else 1.0)


class _Space:
    """The varied values, divided by their scales."""

    def __init__(self, axes: Sequence[_Axis]) -> None:
        self.axes = list(axes)
        self.size = len(axes)
        self.scale = np.array([one.scale for one in axes])
        self._low = np.array([one.low for one in axes]) / self.scale
        self._high = np.array([one.high for one in axes]) / self.scale
        inside = 1e-6 * np.where(np.isfinite(self._high - self._low), self._high - self._low, 1.0)
        start = np.array([one.start for one in axes]) / self.scale
        self.start = np.clip(start, self._low + inside, self._high - inside)

    @property
    def bounds(self) -> tuple[Vector, Vector]:
        return self._low, self._high

    def values(self, scaled: Vector) -> Vector:
        out: Vector = np.clip(scaled, self._low, self._high) * self.scale
        return out

    def jacobian(self, function: Callable[[Vector], Vector], at: Vector) -> NDArray[np.float64]:
        columns = []
        for k in range(self.size):
            ends: list[tuple[float, Vector]] = []
            failed: ModelError | None = None
            for step in (-STEP, STEP, 0.0):
                point = at.copy()
                moved = point[k] + step * max(1.0, abs(at[k]))
                point[k] = np.clip(moved, self._low[k], self._high[k])
                if len(ends) == 2 or any(point[k] == known for known, _ in ends):
                    continue
                try:
                    ends.append((float(point[k]), function(point)))
                except ModelError as error:
                    failed = error
            if len(ends) < 2 and failed is not None:
                raise failed
            (first, before), (last, after) = ends
            columns.append((after - before) / (last - first))
        return np.stack(columns, axis=1)


def _scale(column: Vector) -> float:
    return float(np.std(column)) or float(np.max(np.abs(column), initial=0.0)) or 1.0


def _compared(
    scenario: Scenario,
    data: Measurements,
    signals: Sequence[str],
    inputs: Sequence[str],
    space: _Space,
    runs: _Runs,
) -> list[str]:
    """Return the names of the signals to compare; check their units and those of the inputs."""
    middle = space.values(space.start)
    run = runs.result(middle)
    names = list(dict.fromkeys(signals)) or _of_plants(scenario, data, inputs, run)
    for name in names:
        data.chosen([name])
        if np.ndim(run[name]) != 1:
            raise ScenarioError(f"{name} is an array; only numbers are compared")
    units = units_of(run.recording())
    for name in (*names, *inputs):
        given, wanted = data.units.get(name, "1"), units.get(name, "1")
        if not same_unit(given, wanted):
            how = f": --column {name}=TITLE,scale=NUMBER" if data.table else ""
            raise ScenarioError(
                f"{name} is in {given} in {data.source}, but in {wanted} in the scenario; convert "
                f"the values{how}"
            )
    return names


def _of_plants(
    scenario: Scenario, data: Measurements, inputs: Sequence[str], run: RunResult
) -> list[str]:
    """Return the names of all measured signals of plants, except inputs."""
    plants = {plant.name: plant for plant in run.system.plants}
    found: list[str] = []
    empty: list[str] = []
    for name in data.signals:
        component, _, own = name.partition(".")
        plant = plants.get(component)
        if plant is None or name in inputs or own not in plant.signals.columns:
            continue
        if own not in plant.bound.model.inputs.columns:
            (found if np.isfinite(data.signals[name]).any() else empty).append(name)
    if empty and not found:
        raise ScenarioError(f"{data.source} contains no value of {', '.join(empty)}")
    known = sorted(f"{p}.{c}" for p, plant in plants.items() for c in plant.signals.columns)
    if not found:
        raise ScenarioError(
            f"{data.source} contains no signal of a plant of {scenario.name}; its columns are "
            f"{', '.join(data.signals) or 'none'}, and the signals of the plants are "
            f"{', '.join(known)}; give the columns these names"
            + (f", or write --column {known[0]}=TITLE" if data.table and known else "")
        )
    return found


def _result(
    space: _Space,
    data: Measurements,
    names: Sequence[str],
    measured: Mapping[str, Vector],
    known: Mapping[str, NDArray[np.bool_]],
    fitted: Mapping[str, Vector],
    noise: Mapping[str, float],
    at: Vector,
    jacobian: NDArray[np.float64],
    runs: int,
    found: Any,
    unused: tuple[str, ...],
) -> Fit:
    from scipy.stats import t as student

    count = jacobian.shape[0]
    # The scale of an axis is that of its start, from which the value can be far away.
    size = np.maximum(1.0, np.abs(at))
    undetermined, sentences = _undetermined(jacobian * size, [axis.name for axis in space.axes])
    free = max(1, count - space.size)
    errors = np.full(space.size, math.inf)
    correlation = np.full((space.size, space.size), math.nan)
    # The covariance of the determined parameters allows for the undetermined ones, whose
    # directions the pseudo-inverse leaves out.
    # Columns of length 1: a parameter with a small effect can be determined as well.
    length = np.linalg.norm(jacobian, axis=0)
    length[length == 0.0] = 1.0
    _, s, v = np.linalg.svd(jacobian / length, full_matrices=False)
    kept = s > s[0] / (10 * MOST_CONDITION) if s[0] > 0 else s > 0
    covariance = (v[kept].T / s[kept] ** 2) @ v[kept] if kept.any() else np.zeros_like(v)
    covariance /= np.outer(length, length)
    # jacobian is divided by the noise of each signal, so the residuals have the variance 1
    weighted = sum(
        float(np.sum(((fitted[n] - measured[n])[known[n]] / noise[n]) ** 2)) for n in names
    )
    covariance *= weighted / free
    deviation = np.sqrt(np.diag(covariance))
    for k, axis in enumerate(space.axes):
        if k not in undetermined and deviation[k] > WIDEST * size[k]:
            undetermined.add(k)
            sentences.append(
                f"the data hardly determine {axis.name}: its standard error is "
                f"{deviation[k] * axis.scale:.3g}; compare other signals, or do not vary it"
            )
    if undetermined and data.time[0] > (data.time[-1] - data.time[0]):
        sentences.append(
            f"the measurements begin at {data.time[0]:g} s, and the runs at 0 s; subtract "
            f"{data.time[0]:g} from the times if the measurements begin with the motion"
        )
    left = [k for k in range(space.size) if k not in undetermined]
    if left:
        errors[left] = deviation[left]
        with np.errstate(all="ignore"):
            whole = covariance / np.outer(deviation, deviation)
        correlation[np.ix_(left, left)] = whole[np.ix_(left, left)]
    factor = float(student.ppf(0.5 + LEVEL / 2, free))
    values, error = space.values(at), errors * space.scale
    low, high = space.bounds
    parameters, warnings = [], list(sentences)
    for k, axis in enumerate(space.axes):
        near = _AT_BOUND * size[k]
        at_bound = bool(at[k] - low[k] < near or high[k] - at[k] < near)
        value, determined = float(values[k]), k not in undetermined
        own = math.nan if at_bound and determined else float(error[k])
        half = factor * own
        parameters.append(
            Fitted(axis.name, axis.start, value, own, value - half, value + half, determined,
                   at_bound)
        )  # fmt: skip
        if at_bound:
            warnings.append(
                f"{axis.name} is at the bound {value:g} of its range, so the value has no "
                "interval; widen the range if the bound is not that of the model"
            )
    for name in names:
        if noise[name] < ROUNDING * _scale(measured[name][known[name]]):
            continue  # the measurements are a run without noise
        if why := _correlated((measured[name] - fitted[name])[known[name]]):
            warnings.append(f"the residuals of {name} {why}")
    return Fit(
        tuple(parameters), data.source, data.time, dict(measured), dict(fitted), dict(noise),
        correlation, runs, bool(found.status > 0), str(found.message), tuple(warnings), unused,
    )  # fmt: skip


def _undetermined(
    jacobian: NDArray[np.float64], names: Sequence[str]
) -> tuple[set[int], list[str]]:
    length = np.linalg.norm(jacobian, axis=0)
    largest = float(length.max(initial=0.0))
    without = {k for k, size in enumerate(length) if not size > NO_EFFECT * max(largest, 1e-300)}
    sentences = [
        f"{names[k]} has no effect on the compared signals; compare other signals, or do not "
        "vary it"
        for k in sorted(without)
    ]
    left = [k for k in range(len(names)) if k not in without]
    found = set(without)
    if len(left) > 1:
        _, s, v = np.linalg.svd(jacobian[:, left] / length[left], full_matrices=False)
        for value, direction in zip(s, v, strict=True):
            if value * MOST_CONDITION > s[0]:
                continue
            some = [left[i] for i, share in enumerate(direction) if abs(share) > _SHARE]
            found |= set(some)
            named = " and ".join(names[k] for k in some)
            sentences.append(
                f"the data determine only a combination of {named}: one can balance the other; fix "
                "one of them, or measure another signal"
            )
    return found, sentences


def _correlated(residuals: Vector) -> str:
    n = residuals.size
    centred = residuals - residuals.mean()
    power = float(centred @ centred)
    if n < 20 or power == 0.0:
        return ""
    r = float(centred[1:] @ centred[:-1]) / power
    if abs(r) < _CORRELATED / math.sqrt(n):
        return ""
    return (
        f"are not independent (correlation {r:.2f} of successive values), so the model lacks an "
        "effect or the noise is coloured, and the intervals are too narrow"
        if r > 0
        else f"alternate (correlation {r:.2f} of successive values), so the intervals may be wrong"
    )
