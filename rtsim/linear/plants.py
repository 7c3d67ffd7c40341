"""Linear models of plants, and the data classes for the linear components of a scenario.

A plant may have algebraic constraints ``0 = G(x, y, z, u)``. The implicit function theorem
therefore eliminates y: ``dy = -(dG/dy)^-1 (dG/dx dx + dG/dz dz + dG/du du)``.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np

from rtsim.components.latency import Fixed, LatencyModel
from rtsim.components.medium import shared
from rtsim.components.ports import SignalPort, Wiring, resolve
from rtsim.core.errors import ModelError, ScenarioError, UnknownName
from rtsim.core.signals import Signals, Vector
from rtsim.core.tag import Duration, Period, to_ns
from rtsim.engine.system import System
from rtsim.equations.compiling import Compilation, plainly
from rtsim.equations.constraints import singular_matrix, trouble
from rtsim.equations.model import BoundModel, Model
from rtsim.linear.derivatives import Function, Jacobian, complex_form, jacobian
from rtsim.linear.state_space import Matrix
from rtsim.scenario.scenario import Scenario
from rtsim.scenario.standard_components import PlantComponent


@dataclass(frozen=True)
class Point:
    """Operating point of a model: time t (s), and the vectors x (n,), z (d,), u (m,) and p (k,)."""

    t: float
    x: Vector
    z: Vector
    u: Vector
    p: Vector

    @classmethod
    def of(cls, model: Model, values: Mapping[str, object] | None = None, t: float = 0.0) -> Point:
        """Return the declared values of ``model`` as an operating point.

        ``values`` replaces declared values, by name.
        """
        layouts = layouts_of(model)
        by_layout: dict[str, dict[str, object]] = {letter: {} for letter in layouts}
        for name, value in (values or {}).items():
            owners = [letter for letter, signals in layouts.items() if name in signals]
            if not owners:
                known = [n for signals in layouts.values() for n in signals.names]
                raise UnknownName("value", name, known, f"model {model.name}")
            for letter in owners:
                by_layout[letter][name] = value
        x, z, u, p = (signals.initial(by_layout[letter]) for letter, signals in layouts.items())
        return cls(t, x, z, u, p)


def layouts_of(model: Model) -> dict[str, Signals]:
    return {"x": model.states, "z": model.discrete, "u": model.inputs, "p": model.parameters}


def model_of(what: object) -> Model:
    """Return the model of ``what``, which is a model or a diagram.

    A diagram has a method ``model()``. Raises :class:`ScenarioError` for any other object.
    """
    if isinstance(what, Model):
        return what
    made = getattr(what, "model", None)
    if callable(made) and not isinstance(what, type):
        found = made()
        if isinstance(found, Model):
            return found
    raise ScenarioError(
        f"{type(what).__name__} is not a model; give a Model, a Diagram or a Scenario"
    )


def plant_of(scenario: Scenario, name: str) -> tuple[str, PlantComponent]:
    """Return the name and the declaration of the plant ``name``.

    Without ``name``, the scenario must have exactly one plant.
    """
    plants = scenario.of(PlantComponent)
    if not name:
        if len(plants) != 1:
            raise ScenarioError(
                f"scenario {scenario.name} has {len(plants)} plants "
                f"({', '.join(plants) or 'none'}); give the name of one of them: plant=NAME"
            )
        name = next(iter(plants))
    if name not in plants:
        raise UnknownName("plant", name, plants, f"scenario {scenario.name}")
    return name, plants[name]


def system_at(
    scenario: Scenario, time: Duration = 0, *, seed: int = 0, compile: Compilation = True
) -> System:
    """Run a scenario to ``time`` (s) and return the system after all events at this time.

    The run is not in real time and has no faults. Raises ``ScenarioError`` for a negative time, and
    for a plant whose equations are in another program.
    """
    # Imported here because it takes longer to import than the rest.
    from rtsim.runs.simulation import simulate

    ns = to_ns(time, "time of the operating point")
    if ns < 0:
        raise ScenarioError(f"the operating point at {time!r} s is before the start of the run")
    copied = scenario.copy()
    copied.only_faults()
    copied.until_ns = max(ns + 1, copied.until_ns)
    system = simulate(copied, seed=seed, compile=compile, stop_ns=ns).system
    if elsewhere := [plant.name for plant in system.plants if plant.outside]:
        raise ScenarioError(
            f"the equations of {', '.join(elsewhere)} are in another program, so the plant can be "
            "simulated, but not linearised; write its equations as a model of rtsim"
        )
    return system


def point_in(system: System, name: str) -> Point:
    found = {plant.name: plant for plant in system.plants}
    if name not in found:
        raise UnknownName("plant", name, found)
    plant = found[name]
    vectors = (np.array(v) for v in (plant.x, plant.z, plant.u, plant.p))
    return Point(system.ns / 1e9, *vectors)


def check_undelayed(model: Model) -> None:
    """Raise ``ModelError`` for a model with delays, because it has infinitely many states."""
    if model.delays:
        raise ModelError(
            f"model {model.name} has delayed signals, which have no linear model with a finite "
            "number of states; replace Delayed, and each TransportDelay, by a Padé approximation, "
            "or let a sensor or a controller delay the signal"
        )


def check_ordinary(model: Model) -> None:
    """Raise :class:`ModelError` for a model with delays or with algebraic variables."""
    check_undelayed(model)
    if model.origin is not None and model.origin.algebraic.size:
        raise ModelError(
            f"model {model.name} has algebraic variables, which an open loop of a scenario cannot "
            "have; linearise the plant alone (plant=), or eliminate the algebraic variables from "
            "the equations of the model"
        )


def solved(bound: BoundModel, at: Point) -> Point:
    """Solve the algebraic equations at an operating point, and return the solved point.

    The search begins at the algebraic values in ``at``. Without algebraic variables, the result is
    ``at`` itself. Raises :class:`ModelError` if no solution is found.
    """
    model = bound.model
    if model.origin is None or not model.origin.algebraic.size:
        return at
    z, out = at.z.copy(), np.zeros(model.outputs.size)
    said = trouble(model.origin, at.t, at.x, z, at.u, at.p)
    if said:
        raise ModelError(f"the algebraic equations of model {model.name} have no solution: {said}")
    bound.output.call(at.t, at.x, z, at.u, at.p, out)
    return Point(at.t, at.x, z, at.u, at.p)


class Equations:
    """The equations of a model with constraints, as a function of the vector (x, z, y, u).

    The result contains the derivatives, the outputs and the residuals.
    """

    def __init__(self, origin: Model, at: Point) -> None:
        self._origin, self._at = origin, at
        self._sizes = at.x.size, origin.outputs.size, origin.algebraic.size

    @property
    def complex(self) -> Callable[[Any], Any]:
        forms = {name: complex_form(function) for name, function in self._functions().items()}
        return lambda vector: self._evaluate(vector, forms, complex)

    def __call__(self, vector: Vector) -> Vector:
        out: Vector = self._evaluate(vector, self._functions(), float)
        return out

    def _functions(self) -> dict[str, Any]:
        given = {k: getattr(self._origin, k) for k in ("derivative", "residual", "output", "mass")}
        return {k: getattr(f, "py_func", f) for k, f in given.items() if callable(f)}

    def _evaluate(self, vector: Any, functions: dict[str, Any], kind: type) -> Any:
        at, origin, (n, r, q) = self._at, self._origin, self._sizes
        d = origin.discrete.size
        parts = np.split(vector, (n, n + d, n + d + q))
        x, z, y, u = (part.copy() for part in parts)
        out: Any = np.zeros(n + r + q, dtype=kind)
        with plainly():
            if "derivative" in functions:
                functions["derivative"](at.t, x, y, z, u, at.p, out[:n])
            if "output" in functions:
                functions["output"](at.t, x, y, z, u, at.p, out[n : n + r])
            functions["residual"](at.t, x, y, z, u, at.p, out[n + r :])
            if origin.mass is not None:
                m: Any = np.zeros((n, n), dtype=kind)
                if "mass" in functions:
                    functions["mass"](at.t, x, y, z, u, at.p, m)
                else:
                    m[:] = origin.mass
                out[:n] = np.linalg.solve(m, out[:n])
        return out


def eliminated(found: Jacobian, model: Model, n: int, d: int) -> tuple[Matrix, Matrix]:
    """Eliminate the algebraic variables from a Jacobian.

    Returns the derivatives of rates and outputs, with estimates of their errors. The columns of the
    Jacobian are x, z, y and u. The columns of y are 0. Raises :class:`ModelError` for a singular
    Jacobian.
    """
    assert model.origin is not None
    names = model.origin.algebraic.columns
    q = len(names)
    kept = found.matrix.shape[0] - q
    y = slice(n + d, n + d + q)
    by_y = found.matrix[kept:, y]
    said = singular_matrix(by_y, names, "residual[{0}]")
    if said:
        raise ModelError(
            f"the Jacobian of the algebraic equations of model {model.name} is singular at this "
            f"point: {said}; choose another operating point, or correct the residuals"
        )
    inverse = np.linalg.inv(by_y)
    follows = -inverse @ found.matrix[kept:]
    matrix = found.matrix[:kept] + found.matrix[:kept, y] @ follows
    through = found.errors[kept:] + found.errors[kept:, y] @ np.abs(follows)
    errors = found.errors[:kept] + found.errors[:kept, y] @ np.abs(follows)
    errors = errors + np.abs(found.matrix[:kept, y] @ inverse) @ through
    matrix[:, y] = errors[:, y] = 0.0
    return matrix, errors


DISCRETE_HELD = "discrete values are held constant"


@dataclass(frozen=True)
class PlantSlopes:
    """Derivatives of a plant by its states, discrete signals and inputs (x, z, u).

    ``rate`` (n, n + d + m) contains the derivatives of dx/dt, ``output`` (r, n + d + m) those of
    the outputs. ``errors`` (n + r, n + d + m) estimates their errors. ``exact`` contains the
    indices of the derivatives by the complex-step method. ``notes`` reports kinks, except in
    discrete values, which are often flags.
    """

    rate: Matrix
    output: Matrix
    errors: Matrix
    exact: frozenset[int]
    notes: tuple[str, ...]


def plant_slopes(bound: BoundModel, at: Point) -> PlantSlopes:
    """Return the derivatives of a plant at an operating point.

    In a model with modes, the mode is held constant. Raises :class:`ModelError` if a value near the
    point is not finite.
    """
    model = bound.model
    check_undelayed(model)
    n, r = model.states.size, model.outputs.size
    rows = n + r
    varied = columns_of(bound)

    def evaluate(vector: Vector) -> Vector:
        x, z, u = split(vector, at)
        out = np.zeros(rows)
        for native, where in ((bound.derivative, slice(0, n)), (bound.output, slice(n, rows))):
            native.call(at.t, x, z, u, at.p, out[where])
        return out

    def slopes(function: Function, rows: int, complex_function: Function) -> Jacobian:
        try:
            return jacobian(function, np.concatenate((at.x, at.z, at.u)), rows, complex_function)
        except ModelError as error:
            raise _named(error, varied, bound) from None

    by_row = (*(f"d({c})/dt" for c in model.states.columns), *model.outputs.columns)
    origin = model.origin
    if origin is None or not origin.algebraic.size:
        found = slopes(evaluate, rows, _complex(bound, at))
        matrix, errors, exact = found.matrix.copy(), found.errors, found.exact
    else:
        at = solved(bound, at)
        equations, unknowns = Equations(origin, at), origin.algebraic.columns
        found = slopes(equations, rows + len(unknowns), equations.complex)
        matrix, errors = eliminated(found, model, n, origin.discrete.size)
        by_row = (*by_row, *(f"residual[{i}]" for i in range(len(unknowns))))
        first = n + origin.discrete.size
        all_exact = found.exact.issuperset(range(first, first + len(unknowns)))
        exact = found.exact if all_exact else frozenset()
    if model.modes:
        matrix[:, n + at.z.size - 1] = 0.0
    discrete = range(n, n + at.z.size)
    notes = kink_notes(found, by_row, varied, model.name, discrete)
    return PlantSlopes(matrix[:n], matrix[n:], errors, exact, notes)


def columns_of(bound: BoundModel) -> tuple[str, ...]:
    model = bound.model
    return (*model.states.columns, *model.discrete.columns, *model.inputs.columns)


def split(vector: Any, at: Point) -> tuple[Any, Any, Any]:
    n, d = at.x.size, at.z.size
    x, z, u = vector[:n], vector[n : n + d], vector[n + d :]
    return x.copy(), z.copy(), u.copy()


def _complex(bound: BoundModel, at: Point) -> Callable[[Any], Any]:
    n, r = bound.model.states.size, bound.model.outputs.size
    derivative = complex_form(bound.derivative.py_func)
    output = complex_form(bound.output.py_func)

    def evaluate(vector: Any) -> Any:
        x, z, u = split(vector, at)
        out = np.zeros(n + r, dtype=complex)
        with plainly():
            derivative(at.t, x, z, u, at.p, out[:n])
            output(at.t, x, z, u, at.p, out[n:])
        return out

    return evaluate


def kink_notes(
    found: Jacobian,
    rows: tuple[str, ...],
    columns: tuple[str, ...],
    owner: str,
    without: Container[int] = (),
) -> tuple[str, ...]:
    """Return a sentence for each variable with a kink, except those in ``without``."""
    by_column: dict[int, list[tuple[int, float]]] = {}
    for row, column, jump in found.kinks:
        by_column.setdefault(column, []).append((row, jump))
    out = []
    for column, rows_of in by_column.items():
        if column in without:
            continue
        row, jump = max(rows_of, key=lambda pair: abs(pair[1]))
        more = f" and {len(rows_of) - 1} more" if len(rows_of) > 1 else ""
        out.append(
            f"{rows[row]}{more} of {owner} has a kink in {columns[column]} at this point: the "
            f"slopes on both sides differ by {abs(jump):.3g}, and their mean is used"
        )
    return tuple(out)


def _named(error: ModelError, names: tuple[str, ...], bound: BoundModel) -> ModelError:
    _, number, rest = [*str(error).split(" ", 2), "", ""][:3]
    if not number.isdigit():  # an error of the model itself
        return error
    return ModelError(
        f"model {bound.model.name}: {names[int(number)]} {rest}; choose another operating point"
    )


Rows = list[int]


@dataclass(frozen=True)
class Link:
    """Connection from elements of a port to inputs of a component."""

    port: str
    into: Rows
    out: Rows
    signals: tuple[str, ...]
    early: bool = False
    """True if a declared order puts the reading component after the sending one."""


@dataclass(frozen=True)
class LinearPlant:
    """A linear plant with its connections and the period of its steps."""

    name: str
    sizes: tuple[int, int, int, int]
    slopes: PlantSlopes
    links: tuple[Link, ...]
    step: Period
    signals: Signals
    coupled: bool = False
    """True if the plant is connected to another plant, so that its steps affect the result."""


@dataclass(frozen=True)
class LinearTask:
    """A task that multiplies a vector by ``matrix``; subclasses define the vector."""

    name: str
    period: Period | None
    offset_ns: int


@dataclass(frozen=True)
class Sender(LinearTask):
    """A linear controller or sensor, which sends its outputs as a message.

    The product of ``matrix`` and the vector (memory, inputs) is the vector (next memory, outputs).
    The matrix of a sensor is the identity.
    """

    matrix: Matrix
    memory: Signals
    outputs: Signals
    links: tuple[Link, ...]
    compute_ns: int
    transport_ns: int
    successors: frozenset[str] = frozenset()
    triggers: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Changer(LinearTask):
    """An update or a timer of a plant, which computes (x', z') = matrix (x, z, u)."""

    plant: str
    matrix: Matrix


@dataclass(frozen=True)
class Network:
    """All linear components of a scenario. The tasks are in the order of their reactions."""

    plants: tuple[LinearPlant, ...]
    tasks: tuple[LinearTask, ...]
    ports: dict[str, Signals]
    notes: tuple[str, ...] = ()
    times: tuple[Period, ...] = field(default=())


def links_of(
    wiring: Wiring | None, ports: dict[str, SignalPort], layout: Signals, owner: str,
    early: Sequence[str] = (),
) -> tuple[Link, ...]:  # fmt: skip
    found: dict[str, tuple[Rows, Rows, list[str]]] = {}
    for name, source in sorted((wiring.sources if wiring is not None else {}).items()):
        if not isinstance(source, str):
            continue
        port, where = resolve(source, ports, f"input {name} of {owner}")
        here = layout.slice(name)
        into, out, signals = found.setdefault(port.name, ([], [], []))
        into.extend(range(here.start, here.stop))
        out.extend(range(where.start, where.stop))
        signals.extend([source.partition(".")[2]] * (where.stop - where.start))
    return tuple(
        Link(port, into, out, tuple(signals), port in early)
        for port, (into, out, signals) in found.items()
    )


def constant_delay(model: LatencyModel, size_bytes: int, link: str) -> int:
    """Return the constant delay of a latency model in ns.

    Raises :class:`ModelError` for a latency that is random or depends on other messages.
    """
    if isinstance(model, Fixed):
        return model.constant[0]
    if shared(model) is not None:
        raise ModelError(
            f"the latency of {link} depends on the other messages of its medium ({model!r}); a "
            "linear model needs a constant one: declare Fixed(S) for this analysis, for example "
            "with the worst latency that rtsim bus load prints"
        )
    drawn = {
        model.delays(np.random.default_rng(seed), size_bytes) for seed in range(8) for _ in range(4)
    }
    if len(drawn) == 1 and len(only := next(iter(drawn))) == 1:
        return int(only[0])
    raise ModelError(
        f"the latency of {link} is random ({model!r}); a linear model needs a constant one: "
        "declare Fixed(S) for this analysis"
    )


def common_period(periods: Sequence[Period]) -> Period:
    from math import gcd, lcm

    fractions = [p.ns for p in periods]
    numerator = lcm(*(f.numerator for f in fractions))
    denominator = gcd(*(f.denominator for f in fractions))
    return Period(Fraction(numerator, denominator))


def port_signals(system: System) -> dict[str, Signals]:
    return {name: port.signals for name, port in system.ports.items()}
