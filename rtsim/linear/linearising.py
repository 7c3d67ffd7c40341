"""Linear models of a plant, a diagram, and the loops of a scenario."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rtsim.components.controller import PythonController
from rtsim.components.controller_task import ControllerTask, ScheduledController
from rtsim.components.plant import RunningPlant
from rtsim.components.tasks import NoiseTask, SensorTask, Task, TimerTask, UpdateTask
from rtsim.core.errors import ModelError, ScenarioError, UnknownName
from rtsim.core.extras import needs
from rtsim.core.signals import Signal, Signals, Vector
from rtsim.core.tag import NS_PER_S, Duration, Period
from rtsim.engine.system import System
from rtsim.equations.compiling import Compilation, plainly
from rtsim.equations.constraints import explicit
from rtsim.equations.model import BoundModel, bind
from rtsim.linear.crossings import delay_after
from rtsim.linear.derivatives import complex_form, jacobian
from rtsim.linear.plants import (
    DISCRETE_HELD,
    Changer,
    LinearPlant,
    LinearTask,
    Network,
    Point,
    Sender,
    check_ordinary,
    columns_of,
    common_period,
    constant_delay,
    kink_notes,
    links_of,
    model_of,
    plant_of,
    plant_slopes,
    point_in,
    port_signals,
    split,
    system_at,
)
from rtsim.linear.sampled_run import Cut, PeriodMatrices, over_a_period
from rtsim.linear.state_space import Matrix, StateSpace
from rtsim.linear.trimming import Trim
from rtsim.scenario.scenario import Scenario


def linearise(
    what: Any,
    *,
    at: Mapping[str, object] | Trim | None = None,
    plant: str = "",
    start: str = "",
    end: str = "",
    time: Duration = 0,
    compile: Compilation = True,
) -> StateSpace:
    """Return a linear model about an operating point.

    - For a :class:`Model` or a ``Diagram``, the result is ``dx/dt = A x + B u``, ``y = C x + D u``
      for deviations from the point ``at``. ``at`` is a ``Trim``, or a mapping from names of states,
      inputs and parameters to values. All other values are the declared ones. The outputs are the
      outputs of the model or, if it has none, its states.
    - With a ``Scenario``, the operating point is the state of the plant ``plant`` at ``time`` (s)
      of a run.
    - For a :class:`Scenario` and ``start`` (``"component.signal"``), the result is the open loop
      from ``start`` to ``end`` (default: ``start``) as a sampled system. See
      :func:`rtsim.linear.open_loop`.

    The complex-step method computes the derivatives of suitable functions; other derivatives are
    central differences. The attribute ``errors`` of the result contains estimates of the
    derivatives' errors. Raises :class:`ScenarioError` for a wrong name and :class:`ModelError` for
    a derivative that is not finite.

    Example:
        linearise(heater, at={"temperature": 300.0})
    """
    if not isinstance(what, Scenario):
        for name, given in (("plant", plant), ("start", start), ("end", end), ("time", time)):
            if given:
                raise ScenarioError(f"{name}= is for a Scenario; leave it out for a model")
        model = explicit(model_of(what))
        values = at.values if isinstance(at, Trim) else at
        point = Point.of(model, values)
        bound = bind(model, compile=compile, x=point.x, p=point.p, u=point.u, z=point.z)
        return linear_plant(bound, point)
    if at is not None:
        raise ScenarioError(
            "at= is for a model; in a scenario, set values with Scenario.set, and choose the "
            "operating point with time="
        )
    if start:
        if plant:
            raise ScenarioError(f"give plant={plant!r} or start={start!r}, not both")

        return open_loop(what, start, end, time=time, compile=compile).system
    if end:
        raise ScenarioError(f"end={end!r} needs start=, the signal at which the open loop begins")
    name, _ = plant_of(what, plant)
    system = system_at(what, time, compile=compile)
    found = next(p for p in system.plants if p.name == name)
    return linear_plant(found.bound, point_in(system, name))


def linear_plant(bound: BoundModel, at: Point) -> StateSpace:
    """Return the linear model of a plant with constant discrete values."""
    model = bound.model
    n, d, r = at.x.size, at.z.size, model.outputs.size
    slopes = plant_slopes(bound, at)
    kept = [*range(n), *range(n + d, n + d + at.u.size)]
    output, errors = slopes.output[:, kept], slopes.errors[:, kept]
    outputs = model.outputs
    if not r:
        outputs = model.states
        output = np.eye(n, n + at.u.size)
        errors = np.vstack((errors, np.zeros_like(output)))
    changes = bool(model.timers) or model.update is not None
    notes = (DISCRETE_HELD,) if changes else ()
    guarded = ("guards and resets are left out",) if model.guards else ()
    exact = len(slopes.exact.intersection(kept))
    return StateSpace(
        slopes.rate[:, :n], slopes.rate[:, n + d :], output[:, :n], output[:, n:],
        model.states, model.inputs, outputs,
        name=model.name,
        method=method_of(exact, len(kept)),
        errors=errors,
        notes=(*notes, *guarded, *slopes.notes),
    )  # fmt: skip


def method_of(exact: int, variables: int) -> str:
    if exact == variables:
        return "complex step"
    if not exact:
        return "central differences"
    return f"complex step for {exact} of {variables} variables, central differences for the others"


def check_latency_is_declared(task: ControllerTask, example: str) -> None:
    """Raise :class:`ModelError` if the latency of ``task`` is a result of a processor's schedule.

    ``example`` describes a latency model that the analysis accepts.
    """
    if isinstance(task, ScheduledController):
        raise ModelError(
            f"controller {task.name} runs on a processor, so its latency is a result of the "
            "schedule; for this analysis, declare the controller without processor= and with a "
            f"latency (compute=), {example}"
        )


def python_controller(task: ControllerTask) -> PythonController:
    """Return the controller of ``task``; raise :class:`ModelError` if it is not in Python."""
    controller = task.controller
    if not isinstance(controller, PythonController):
        raise ModelError(
            f"controller {task.name} is a {type(controller).__name__}, whose equations are "
            "not known; analyse the scenario with its reference model, a PythonController"
        )
    return controller


def law_of(controller: PythonController, t: float) -> Callable[[Any, Any, type], Any]:
    """Return a function that evaluates a copy of the law of ``controller`` at the time ``t`` (s).

    Its arguments are the law, the vector (memory, inputs), and the type of the elements. Its result
    is the vector (next memory, outputs).
    """
    p, k = np.array(controller.p), controller.memory.size
    last = np.array(controller.save()["y"])

    def evaluate(law: Any, vector: Any, kind: type) -> Any:
        s: Any = vector[:k].copy()
        y: Any = last.astype(kind)
        with plainly():
            law(t, vector[k:].copy(), s, p, y)
        return np.concatenate((s, y))

    return evaluate


NOISE_HELD = "noise is held constant"

_CHANGES = 1e-3
"""An update is rejected as time-varying if its matrix changes by more than this fraction."""


class Assembling:
    def __init__(self, system: System) -> None:
        self.system = system
        self.notes: list[str] = []

    def network(self) -> Network:
        system = self.system
        tasks = [made for task in system.tasks for made in self._task(task)]
        plants = [self._plant(plant) for plant in system.plants]
        if system.external_inputs:
            names = ", ".join(one.name for one in system.external_inputs)
            self.notes.append(f"external inputs are held constant: {names}")
        steps = [p.step for p in plants if p.coupled]
        periods = [t.period for t in tasks if t.period is not None]
        return Network(
            tuple(plants),
            tuple(tasks),
            port_signals(system),
            tuple(dict.fromkeys(self.notes)),
            (*periods, *steps),
        )

    def _plant(self, plant: RunningPlant) -> LinearPlant:
        model, at = plant.bound.model, point_in(self.system, plant.name)
        check_ordinary(model)
        slopes = plant_slopes(plant.bound, at)
        self.notes += slopes.notes
        if model.guards:
            self.notes.append(f"guards and resets of {plant.name} are left out")
        names = {p.name for p in self.system.plants}
        read = any(plant.name in p.sources for p in self.system.plants)
        links = links_of(plant.wiring, self.system.ports, model.inputs, plant.name)
        coupled = read or any(link.port in names for link in links)
        sizes = (model.states.size, model.discrete.size, model.inputs.size, model.outputs.size)
        return LinearPlant(plant.name, sizes, slopes, links, plant.step, plant.signals, coupled)

    def _task(self, task: Task) -> list[LinearTask]:
        if isinstance(task, ControllerTask):
            return [self._controller(task)]
        if isinstance(task, SensorTask):
            return [self._sensor(task)]
        if isinstance(task, UpdateTask):
            return [self._update(task)]
        if isinstance(task, TimerTask):
            return self._timers(task)
        if isinstance(task, NoiseTask):
            self.notes.append(f"{NOISE_HELD}: {task.name}")
        else:
            self.notes.append(f"{task.name} is held constant, because it has no linear model")
        return []

    # -- senders -------------------------------------------------------------------------------

    def _controller(self, task: ControllerTask) -> Sender:
        controller = python_controller(task)
        before = [c.name for c in self.system.controllers if task.name in c.successors]
        name, inputs = task.name, controller.inputs
        task.wiring.gather()
        u = np.array(task.wiring.into)
        matrix = self.law(controller, u, name)
        topic = self.system.bus.topics[name]
        return Sender(
            name, task.period, task.offset_ns, matrix, controller.memory, controller.outputs,
            links_of(task.wiring, self.system.ports, inputs, name, before),
            constant_delay(task.compute, 8 * inputs.size, f"the computation of {name}"),
            constant_delay(topic.transport, topic.size_bytes, topic.link),
            task.successors, self._triggers(name),
        )  # fmt: skip

    def law(self, controller: PythonController, u: Vector, name: str) -> Matrix:
        r = controller.outputs.size
        evaluate = law_of(controller, self.system.ns / NS_PER_S)
        plain = getattr(controller.law, "py_func", controller.law)
        copied = complex_form(plain)
        found = jacobian(
            lambda v: evaluate(plain, v, float),
            np.concatenate((controller.s, u)),
            controller.memory.size + r,
            lambda v: evaluate(copied, v, complex),
        )
        columns = (*controller.memory.columns, *controller.inputs.columns)
        rows = (*(f"next {c}" for c in controller.memory.columns), *controller.outputs.columns)
        self.notes += kink_notes(found, rows, columns, name)
        return found.matrix

    def _sensor(self, task: SensorTask) -> Sender:
        topic = self.system.bus.topics[task.name]
        wiring = task.wiring
        return Sender(
            task.name, task.period, task.offset_ns, np.eye(topic.signals.size), Signals(),
            topic.signals, links_of(wiring, self.system.ports, topic.signals, task.name), 0,
            constant_delay(topic.transport, topic.size_bytes, topic.link),
            frozenset(), self._triggers(task.name),
        )  # fmt: skip

    def _triggers(self, topic: str) -> frozenset[str]:
        return frozenset(self.system.triggers.get(topic, ()))

    # -- updates and timers of models ----------------------------------------------------------

    def _update(self, task: UpdateTask) -> Changer:
        plant = task.plant
        bound = plant.bound
        assert task.period is not None

        def change(t: float, x: Vector, z: Vector, u: Vector, p: Vector) -> None:
            bound.update.call(t, x, z, u, p)

        matrix = self._change(plant, change, task.period)
        return Changer(task.name, task.period, task.offset_ns, plant.name, matrix)

    def _timers(self, task: TimerTask) -> list[LinearTask]:
        plant = task.plant
        timers = plant.bound.model.timers
        out: list[LinearTask] = []
        patterns: dict[tuple[Period, int], Vector] = {}
        for i, timer in enumerate(timers):
            if timer.draws:
                self.notes.append(f"random values of {plant.name} are held constant")
            if timer.period is not None:
                due = patterns.setdefault((timer.period, timer.offset_ns), np.zeros(len(timers)))
                due[i] = 1.0
        if len(patterns) > 1:
            raise ModelError(
                f"the sampled blocks of {plant.name} have several periods or offsets; a linear "
                "model needs the same period= and offset= for all"
            )
        for (period, offset_ns), due in patterns.items():

            def change(
                t: float, x: Vector, z: Vector, u: Vector, p: Vector, due: Vector = due
            ) -> None:
                plant.bound.tick.call(due, t, x, z, u, p)

            matrix = self._change(plant, change, period)
            out.append(Changer(task.name, period, offset_ns, plant.name, matrix))
        return out

    def _change(self, plant: RunningPlant, change: Any, period: Period) -> Matrix:
        at = point_in(self.system, plant.name)
        plant.read_wires()
        if plant.wiring is not None:
            at = Point(at.t, at.x, at.z, np.array(plant.wiring.into), at.p)
        matrix, after = self._slopes(plant, change, at)
        later = Point(at.t + period.seconds, at.x, after, at.u, at.p)
        again, _ = self._slopes(plant, change, later)
        here, there = (plant_slopes(plant.bound, point) for point in (at, _inside(later, period)))
        for one, other in (
            (matrix, again), (here.rate, there.rate), (here.output, there.output)
        ):  # fmt: skip
            size = max(float(np.abs(one).max(initial=0.0)), 1e-12)
            if float(np.abs(one - other).max(initial=0.0)) > _CHANGES * size:
                raise ModelError(
                    f"the sampled equations of {plant.name} change from tick to tick (as those of "
                    "a TransportDelay or a FirstOrderHold do), so they have no linear model with "
                    "constant matrices; use a message with a latency for a delay"
                )
        return matrix

    def _slopes(self, plant: RunningPlant, change: Any, at: Point) -> tuple[Matrix, Vector]:
        n, d = at.x.size, at.z.size

        def evaluate(vector: Vector) -> Vector:
            x, z, u = split(vector, at)
            change(at.t, x, z, u, at.p)
            return np.concatenate((x, z))

        vector = np.concatenate((at.x, at.z, at.u))
        found = jacobian(evaluate, vector, n + d)
        rows = columns_of(plant.bound)[: n + d]
        self.notes += kink_notes(found, rows, columns_of(plant.bound), plant.name)
        return found.matrix, evaluate(vector)[n:]


def _inside(at: Point, period: Period) -> Point:
    return Point(at.t + 0.37 * period.seconds, at.x, at.z, at.u, at.p)


_NEUTRAL = 1e-7
"""A pole that is outside the unit circle by less than this is treated as neutral, because rounding
can move a pole.
"""
_FINE, _FINE_PERIODS, _GROWTH = 8, 4, 1.1
"""The search for a delay margin uses 8 steps per period over the first 4 periods. After this time,
each delay is 1.1 times the one before.
"""
_PERIODS = 60
"""Default number of common periods up to which a delay margin is searched step by step."""
_MOST_PERIODS = 120
"""For longer delays than this number of common periods, the delay margin is computed from the
frequency response. Otherwise, the closed loop would have a state for each message in transit.
"""


class DelayMargin(NamedTuple):
    """Additional delay (s) at which a loop becomes unstable, and the pole (1/s) on the boundary."""

    seconds: float
    pole: complex

    @property
    def frequency(self) -> float:
        """The frequency of the oscillation, rad/s."""
        return abs(self.pole.imag)


@dataclass(frozen=True)
class Loop:
    """A loop of a scenario, opened at the signal ``start``.

    The system includes the sign of the feedback, so the loop is closed by ``input = output``. For
    negative feedback, the loop transfer function of textbooks is ``-system``.
    """

    network: Network
    start: str
    end: str
    period: Period
    """The common period of all tasks."""

    @cached_property
    def system(self) -> StateSpace:
        """The open loop from ``start`` to ``end`` as a sampled system.

        All components that read ``start`` receive the input of the open loop instead. The system
        has one input and one output for each time in a common period at which a component sends or
        reads ``start``. If ``end`` differs from ``start``, the only output is ``end`` at the start
        of each common period.
        """
        port, rows = self._rows(self.start)
        found = over_a_period(self.network, self.period, Cut(port, rows, open=True), self._end())
        signals = self._labels(self.start)
        uses = found.inputs.shape[1] // max(1, len(rows))
        inputs = _repeated(signals, uses)
        outputs = inputs if self.end == self.start else _repeated(self._labels(self.end), 1)
        a, b, c, d, states = _pruned(found)
        return StateSpace(
            a, b, c, d, states, inputs, outputs, self.period,
            name=f"{self.start} to {self.end}", method="sampled over one common period",
            notes=self.network.notes,
        )  # fmt: skip

    @property
    def scalar(self) -> bool:
        """True if the open loop has one input and one output."""
        return self.system.d.shape == (1, 1)

    def closed_loop(self, delay: float = 0.0, gain: float = 1.0) -> StateSpace:
        """Return the closed loop over a common period, as a system without inputs or outputs.

        With ``delay`` (s) and ``gain``, the signal is also delayed and multiplied.
        """
        found = self._closed(delay, gain)
        names = Signals(*(Signal(*label) for label in found.labels))
        n = len(found.state)
        return StateSpace(
            found.state, np.zeros((n, 0)), np.zeros((0, n)), np.zeros((0, 0)), names,
            period=self.period, name=f"closed loop of {self.start}",
        )  # fmt: skip

    def _closed(self, delay: float, gain: float) -> PeriodMatrices:
        port, rows = self._rows(self.start)
        if delay and not self.delayable:
            raise ScenarioError(
                f"{self.start} is not sent as a message, so it cannot be delayed; cut the loop at "
                f"an output of a controller or a sensor: {', '.join(self._senders)}"
            )
        extra = Fraction(round(delay * NS_PER_S * 1_000_000), 1_000_000)
        return over_a_period(self.network, self.period, Cut(port, rows, False, gain, extra))

    def poles(self, delay: float = 0.0, gain: float = 1.0) -> NDArray[np.complex128]:
        """Return the poles of the closed loop in the z plane."""
        return np.linalg.eigvals(self._closed(delay, gain).state).astype(complex)

    def delay_margin(
        self, *, slow: float = 0.0, longest: float | None = None
    ) -> DelayMargin | None:
        """Return the smallest additional delay of the signal that makes the closed loop unstable.

        The additional delay comes on top of the latency of the message. The method computes the
        eigenvalues of the closed loop for each delay, so only the linear model is an approximation.
        Without ``longest``, margins above 120 common periods are computed from the frequency
        response. Poles below ``slow`` (rad/s) are ignored.

        The result is ``None`` if the loop is stable for all delays up to the end of the search. The
        search ends at ``longest`` (s), by default at 60 common periods for a loop with several
        signals. For a loop with one signal, the default search covers every delay, unless the
        second value of :meth:`searched_delay_margin` is finite. Raises :class:`ModelError` for a
        loop that is unstable without additional delay.
        """
        return self.searched_delay_margin(slow=slow, longest=longest)[0]

    def searched_delay_margin(
        self, *, slow: float = 0.0, longest: float | None = None
    ) -> tuple[DelayMargin | None, float]:
        """Return the result of :meth:`delay_margin`, and the largest searched delay (s).

        If the loop gain is nowhere 1, the loop is stable for every delay, and the largest searched
        delay is infinite.
        """
        step = self.period.seconds
        limit = _PERIODS * step if longest is None else longest

        first, pole = self._worst(0.0, slow)
        if first > _NEUTRAL / step:
            raise ModelError(
                f"the loop at {self.start} is unstable without any additional delay: it has a pole "
                f"at {pole.real:.4g} {pole.imag:+.4g}i 1/s; to disregard this pole as a slow mode, "
                f"give slow= a frequency above {abs(pole):.3g} rad/s"
            )
        before, delay = 0.0, step / _FINE
        while delay <= limit:
            if self.growth(delay, slow) > _NEUTRAL / step:
                return self._between(before, delay, slow), delay
            before = delay
            delay = delay + step / _FINE if delay < _FINE_PERIODS * step else delay * _GROWTH
        if longest is not None or not self.scalar:
            return None, before
        return self._beyond(before, slow)

    def _beyond(self, stable: float, slow: float) -> tuple[DelayMargin | None, float]:
        step, expected = self.period.seconds, stable
        while True:
            expected, frequency = delay_after(self.system, expected, feedback=1.0, slow=slow)
            if math.isinf(expected):
                return None, stable if frequency else math.inf
            if expected > _MOST_PERIODS * step:
                return DelayMargin(expected, 1j * frequency), expected
            before, expected = max(stable, expected - step), expected + step
            if self.growth(expected, slow) > _NEUTRAL / step:
                before = before if self.growth(before, slow) <= _NEUTRAL / step else stable
                return self._between(before, expected, slow), expected

    def _between(self, before: float, after: float, slow: float) -> DelayMargin:
        margin = self._crossing(before, after, slow)
        return DelayMargin(margin, self._worst(margin, slow)[1])

    def _crossing(self, before: float, after: float, slow: float) -> float:
        with needs("scipy", "a delay margin"):
            from scipy.optimize import brentq  # Imported here because it is slow to load.

        level = 0.0 if self.growth(before, slow) < 0.0 else _NEUTRAL / self.period.seconds

        def above(delay: float) -> float:
            return self.growth(delay, slow) - level

        return float(brentq(above, before, after, xtol=1e-12, rtol=1e-12))

    def growth(self, delay: float = 0.0, slow: float = 0.0) -> float:
        """Return the growth rate (1/s) of the fastest growing pole of the closed loop.

        The signal is delayed by an additional ``delay`` (s). Poles below ``slow`` (rad/s) are
        ignored.
        """
        return self._worst(delay, slow)[0]

    def _worst(self, delay: float, slow: float) -> tuple[float, complex]:
        values = self.poles(delay)
        rates = np.log(values[np.abs(values) > 1e-300]) / self.period.seconds
        rates = rates[np.abs(rates) >= slow]
        if not rates.size:
            return -math.inf, complex(-math.inf)
        worst = rates[int(np.argmax(rates.real))]
        return float(worst.real), complex(worst.real, abs(worst.imag))

    @property
    def delayable(self) -> bool:
        """True if the signal is sent as a message, so that it can be delayed."""
        return self.start.partition(".")[0] in self._senders

    @property
    def _senders(self) -> list[str]:
        return [t.name for t in self.network.tasks if isinstance(t, Sender)]

    def _rows(self, name: str) -> tuple[str, tuple[int, ...]]:
        port, _, signal = name.partition(".")
        signals = self.network.ports[port]
        where = range(signals.size) if not signal else range(signals.size)[signals.slice(signal)]
        return port, tuple(where)

    def _end(self) -> tuple[str, tuple[int, ...]] | None:
        return None if self.end == self.start else self._rows(self.end)

    def _labels(self, name: str) -> list[Signal]:
        port, rows = self._rows(name)
        signals = self.network.ports[port]
        units = [s.unit for s in signals for _ in s.columns]
        return [Signal(f"{port}_{signals.columns[i]}", units[i]) for i in rows]


def open_loop(
    scenario: Scenario,
    start: str,
    end: str = "",
    *,
    time: Duration = 0,
    compile: Compilation = True,
) -> Loop:
    """Return the loop of ``scenario`` that passes through the signal ``start``.

    The loop contains controllers with their sample periods and latencies, sensors and sampled
    blocks. Random values and external inputs count as constant. Guards, declared changes and faults
    are ignored.

    Args:
        scenario: The scenario.
        start: ``"component.signal"``, or ``"component"`` for all its signals. The input of the open
            loop replaces the signal in all components that read the signal.
        end: The signal that is the output of the open loop. The default is ``start``.
        time: Simulated time (s) at which the run is linearised.
        compile: Whether to compile the models.

    Raises:
        UnknownName: A signal or component does not exist.
        ModelError: A latency is random, or a component has no linear model.

    Example:
        open_loop(scenario, "controller.force").delay_margin()
    """
    return loop_of(system_at(scenario, time, compile=compile), start, end)


def _check_processors(system: System) -> None:
    """Raise :class:`ModelError` if a controller runs on a simulated processor."""
    timed = {task.name: one.name for one in system.processors for task in one.tasks}
    found = [c.name for c in system.controllers if c.name in timed]
    if found:
        raise ModelError(
            f"{', '.join(found)}: a controller on a simulated processor has no linear model, "
            f"because its tasks determine when the answer is ready; leave out "
            f"processor={timed[found[0]]!r}, and give the time from the sample to the answer as "
            "compute="
        )


def loop_of(system: System, start: str, end: str = "") -> Loop:
    _check_processors(system)
    network = Assembling(system).network()
    for name in (start, end or start):
        _check_signal(network, name)
    if not network.times:
        raise ScenarioError(
            "no component of the scenario samples a signal, so there is no sampled loop; "
            "linearise the plant instead"
        )
    loop = Loop(network, start, end or start, common_period(network.times))
    if not end and not _is_computed(network, start):
        raise ScenarioError(
            f"{start} is a source, so no component computes its value and no loop ends there; give "
            "end= (--to), the signal at which the open loop ends"
        )
    return loop


def _is_computed(network: Network, name: str) -> bool:
    port = name.partition(".")[0]
    return port in {p.name for p in network.plants} | {t.name for t in network.tasks}


def _check_signal(network: Network, name: str) -> None:
    port, dot, signal = name.partition(".")
    if port not in network.ports:
        raise UnknownName("component", port, network.ports, "the loop")
    if dot and signal not in network.ports[port]:
        raise UnknownName("signal", signal, network.ports[port].names, port)


def _repeated(signals: list[Signal], uses: int) -> Signals:
    if uses <= 1:
        return Signals(*signals)
    return Signals(*(Signal(f"{s.name}_{i}", s.unit) for i in range(uses) for s in signals))


def _pruned(
    found: PeriodMatrices,
) -> tuple[
    NDArray[np.float64], NDArray[np.float64], NDArray[np.float64], NDArray[np.float64], Signals
]:
    kept = np.arange(len(found.state))
    while True:
        block = np.vstack((found.state[np.ix_(kept, kept)], found.output_state[:, kept]))
        used = np.abs(block).max(axis=0, initial=0.0) > 0.0
        if used.all():
            break
        kept = kept[used]
    labels = Signals(*(Signal(*found.labels[i]) for i in kept))
    return (
        found.state[np.ix_(kept, kept)], found.inputs[kept],
        found.output_state[:, kept], found.direct, labels,
    )  # fmt: skip
