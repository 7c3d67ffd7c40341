"""The loop of a scenario with its noise and latencies, for the cost of timing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from rtsim.components.controller import PythonController
from rtsim.components.controller_task import ControllerTask
from rtsim.components.plant import RunningPlant
from rtsim.components.tasks import NoiseTask, SensorTask, TimerTask, UpdateTask
from rtsim.core.errors import ModelError, ScenarioError, UnknownName
from rtsim.core.signals import Vector
from rtsim.core.tag import NS_PER_S, Duration, Period
from rtsim.engine.system import System
from rtsim.equations.compiling import Compilation
from rtsim.linear.distributions import Distribution, Latency, distribution, sum_of
from rtsim.linear.linearising import (
    Assembling,
    check_latency_is_declared,
    law_of,
    python_controller,
)
from rtsim.linear.plants import (
    Link,
    PlantSlopes,
    check_ordinary,
    constant_delay,
    links_of,
    plant_slopes,
    point_in,
    system_at,
)
from rtsim.linear.state_space import Matrix, StateSpace
from rtsim.linear.timing_cost import TimedLoop, TimingCost
from rtsim.scenario.scenario import Scenario

_WHITE = 0.2
"""Noise is treated as white if its period is at most this fraction of the controller's period."""
_DEVIATIONS = 3.0
"""The controller must be linear up to this number of standard deviations of its inputs."""
_LINEAR = 1e-6
"""Relative difference from the linear model up to which a controller is linear."""


def timed_loop(
    scenario: Scenario,
    cost: Mapping[str, float],
    *,
    time: Duration = 0,
    compile: Compilation = True,
) -> TimedLoop:
    """Return the loop of ``scenario`` with its noise, its latencies and a quadratic cost.

    The scenario has one plant and one controller, which reads the plant directly. Noise components
    disturb the plant, or are added to the measurements by the controller. The latency is that of
    the computation plus that of the transport of the controller's messages. States on which neither
    a measurement nor the cost depends are left out, such as the position of an aircraft.

    Args:
        scenario: The scenario.
        cost: Weights of the mean squares of signals, by name: ``{"cart.x": 1.0}``. The signals are
            those of the plant, and the outputs of the controller.
        time: Simulated time (s) at which the run is linearised.
        compile: Whether to compile the models.

    Raises:
        UnknownName: A signal of the cost does not exist.
        ModelError: The loop has components that this analysis cannot represent, the controller is
            not linear for the signals of this loop, or is not a Python function.

    Example:
        timed_loop(scenario, {"cart.x": 1.0, "brake.force": 0.01}).timing_cost()
    """
    return timed_loop_of(system_at(scenario, time, compile=compile), cost)


def timed_loop_of(system: System, cost: Mapping[str, float]) -> TimedLoop:
    return _Extracting(system, *_components(system)).loop(cost)


def _components(system: System) -> tuple[RunningPlant, ControllerTask]:
    controllers = [task for task in system.tasks if isinstance(task, ControllerTask)]
    for what, found in (("plant", system.plants), ("controller", controllers)):
        if len(found) != 1:
            names = ", ".join(one.name for one in found) or "none"
            raise ModelError(
                f"the scenario has {len(found)} {what}s ({names}); the cost of timing of a "
                "scenario needs exactly one plant and one controller: build the loop from matrices "
                "with rtsim.linear.TimedLoop"
            )
    plant, task = system.plants[0], controllers[0]
    for other in system.tasks:
        if isinstance(other, SensorTask | UpdateTask | TimerTask):
            raise ModelError(
                f"{other.name} samples signals besides the controller {task.name}; the cost of "
                "timing of a scenario needs a controller that reads the plant directly, and a "
                "plant without updates and sampled blocks"
            )
    check_latency_is_declared(task, "for example Empirical with the responses of a run")
    if task.period is None:
        raise ModelError(f"controller {task.name} has no period; give period= for this analysis")
    python_controller(task)
    check_ordinary(plant.bound.model)
    return plant, task


@dataclass
class _Extracting:
    system: System
    plant: RunningPlant
    task: ControllerTask

    def __post_init__(self) -> None:
        plant, task, ports = self.plant, self.task, self.system.ports
        assert isinstance(task.controller, PythonController)
        assert task.period is not None
        self.controller, self.period = task.controller, task.period
        self.slopes: PlantSlopes = plant_slopes(plant.bound, point_in(self.system, plant.name))
        self.model = plant.bound.model
        self.n, self.d = self.model.states.size, self.model.discrete.size
        inputs = self.model.inputs
        self.plant_links = links_of(plant.wiring, ports, inputs, plant.name)
        self.task_links = links_of(task.wiring, ports, self.controller.inputs, task.name)
        self.notes = list(self.slopes.notes)
        noises = [t for t in self.system.tasks if isinstance(t, NoiseTask)]
        self.noises = {t.name: t for t in noises}

    def loop(self, cost: Mapping[str, float]) -> TimedLoop:
        assembling = Assembling(self.system)
        task, controller = self.task, self.controller
        task.wiring.gather()
        inputs = np.array(task.wiring.into)
        law = assembling.law(controller, inputs, task.name)
        k, commands = controller.memory.size, controller.outputs
        b = self.slopes.rate[:, self.n + self.d :]
        routes = self._routes(self.plant_links, task.name, b.shape[1], commands.size)
        measured = self._measured(routes)
        weights = {name: w * self._square(name, routes) for name, w in cost.items()}
        disturbance = self._disturbance(b)
        plant = StateSpace(
            self.slopes.rate[:, : self.n], b @ routes, measured[:, : self.n], measured[:, self.n :],
            self.model.states, commands, name=self.plant.name,
        )  # fmt: skip
        kept = _relevant(plant, weights)
        plant = plant.part(states=[plant.states.columns[i] for i in kept])
        disturbance = disturbance[np.ix_(kept, kept)]
        both = [*kept, *range(self.n, self.n + commands.size)]
        weights = {name: weight[np.ix_(both, both)] for name, weight in weights.items()}
        sampled = StateSpace(
            law[:k, :k], law[:k, k:], law[k:, :k], law[k:, k:], controller.memory,
            outputs=commands, period=self.period, name=task.name,
        )  # fmt: skip
        loss, latency = self._latency()
        measurement = self._measurement()
        if self.model.guards:
            self.notes.append(f"guards and resets of {self.plant.name} are left out")
        return TimedLoop(
            plant, sampled, weights, disturbance, measurement, latency, loss,
            check=lambda found: self._check(plant, found, law, inputs),
            notes=(*self.notes, *assembling.notes),
        )  # fmt: skip

    def _latency(self) -> tuple[float, Latency]:
        task, period = self.task, self.period.seconds
        topic = self.system.bus.topics[task.name]
        compute = _of(
            task.compute, 8 * self.controller.inputs.size, f"the computation of {task.name}"
        )
        transport = _of(topic.transport, topic.size_bytes, topic.link)
        if compute.high > period or (compute.discrete and compute.high == period):
            raise ModelError(
                f"the computation of {task.name} takes up to {compute.high:g} s, and the period is "
                f"{period:g} s, so the controller misses ticks; the cost of timing needs "
                "computations that end before the next tick"
            )
        both = sum_of(compute, transport, f"the latency of {task.name}")
        return both.loss, both.model

    # -- signals -------------------------------------------------------------------------------

    def _routes(self, links: tuple[Link, ...], port: str, rows: int, columns: int) -> Matrix:
        """Return the matrix (rows, columns) from the values of a port to the inputs."""
        out = np.zeros((rows, columns))
        for link in links:
            if link.port == port:
                out[link.into, link.out] = 1.0
        return out

    def _signals(self, routes: Matrix) -> Matrix:
        """Return the rows of the plant's port, over the states and the commands."""
        n, d, slopes = self.n, self.d, self.slopes
        m = routes.shape[1]
        states = np.eye(n, n + m)
        discrete = np.zeros((d, n + m))
        inputs = np.hstack((np.zeros((len(routes), n)), routes))
        through = slopes.output[:, n + d :] @ routes
        outputs = np.hstack((slopes.output[:, :n], through))
        return np.vstack((states, discrete, inputs, outputs))

    def _noisy(self) -> Vector:
        """Return which rows of the plant's port contain white noise, as True and False."""
        first = self.n + self.d
        into = np.zeros(len(self.model.inputs.columns))
        for link in self.plant_links:
            if link.port in self.noises:
                into[link.into] = 1.0
        outputs = np.abs(self.slopes.output[:, first:]) @ into > 0.0
        return np.concatenate((np.zeros(first, bool), into > 0.0, outputs))

    def _measured(self, routes: Matrix) -> Matrix:
        signals, noisy = self._signals(routes), self._noisy()
        out = np.zeros((self.controller.inputs.size, signals.shape[1]))
        for link in self.task_links:
            if link.port == self.plant.name:
                if noisy[link.out].any():
                    raise ModelError(
                        f"{self.task.name} reads {', '.join(link.signals)} of {link.port}, to "
                        "which white noise is added directly, so its variance is infinite; let a "
                        "state filter the noise, or connect the noise to the controller"
                    )
                out[link.into] = signals[link.out]
        return out

    def _square(self, name: str, routes: Matrix) -> Matrix:
        port, _, signal = name.partition(".")
        if port == self.task.name:
            layout, commands = self.controller.outputs, self.controller.outputs.size
            rows = np.hstack((np.zeros((commands, self.n)), np.eye(commands)))
        elif port == self.plant.name:
            layout, rows = self.system.ports[port].signals, self._signals(routes)
        else:
            raise UnknownName("component", port, (self.plant.name, self.task.name), "the cost")
        if signal not in layout:
            raise UnknownName("signal", signal, layout.names, port)
        where = layout.slice(signal)
        if port == self.plant.name and self._noisy()[where].any():
            raise ScenarioError(f"the cost of {name} is infinite: {name} contains white noise")
        chosen = rows[where]
        square: Matrix = chosen.T @ chosen
        return square

    # -- noise ---------------------------------------------------------------------------------

    def _disturbance(self, b: Matrix) -> Matrix:
        out = np.zeros((self.n, self.n))
        for name, noise in self.noises.items():
            size = self.system.ports[name].signals.size
            routes = self._routes(self.plant_links, name, b.shape[1], size)
            if not routes.any():
                continue
            period = _seconds(noise.period)
            if period > _WHITE * self.period.seconds:
                self.notes.append(
                    f"noise {name} is treated as white, but a run holds each value for {period:g} s"
                )
            through = b @ routes * noise.deviation
            out += through @ through.T
        return out

    def _measurement(self) -> Matrix:
        size = self.controller.inputs.size
        out = np.zeros((size, size))
        for name, noise in self.noises.items():
            columns = self.system.ports[name].signals.size
            routes = self._routes(self.task_links, name, size, columns)
            if not routes.any():
                continue
            period = _seconds(noise.period)
            if period > self.period.seconds:
                raise ModelError(
                    f"{self.task.name} reads each value of noise {name} several times, because the "
                    f"noise has the period {period:g} s; give the noise a period of at most "
                    f"{self.period}"
                )
            if self._routes(self.plant_links, name, self.model.inputs.size, columns).any():
                raise ModelError(
                    f"noise {name} acts on both {self.plant.name} and {self.task.name}; declare a "
                    "noise for each of them"
                )
            out += routes @ routes.T * noise.deviation**2 / period
        return out

    # -- the controller is linear --------------------------------------------------------------

    def _check(self, plant: StateSpace, found: TimingCost, law: Matrix, inputs: Vector) -> None:
        """Raise :class:`ModelError` if the controller is not linear for the signals of the loop."""
        n, k, m = len(plant.a), self.controller.memory.size, self.controller.outputs.size
        size = len(found.moments)
        seen = np.zeros((k + len(inputs), size))
        seen[:k, n : n + k] = np.eye(k)
        seen[k:, :n] = plant.c
        seen[k:, size - m :] += plant.d
        covariance = seen @ found.moments @ seen.T
        covariance[k:, k:] += self._measurement()
        evaluate = law_of(self.controller, self.system.ns / NS_PER_S)
        plain = getattr(self.controller.law, "py_func", self.controller.law)
        point = np.concatenate((self.controller.s, inputs))
        here = evaluate(plain, point, float)
        names = (*self.controller.memory.columns, *self.controller.outputs.columns)
        for direction in (*np.eye(len(point)), *law):
            along = covariance @ direction
            deviation = float(np.sqrt(max(direction @ along, 0.0)))
            if not deviation:
                continue
            for sign in (-_DEVIATIONS, _DEVIATIONS):
                step = sign * along / deviation
                moved, linear = evaluate(plain, point + step, float) - here, law @ step
                wrong = np.abs(moved - linear) > _LINEAR * np.abs(law) @ np.abs(step) + 1e-300
                if wrong.any():
                    i = int(np.argmax(wrong))
                    raise ModelError(
                        f"controller {self.task.name} is not linear for the signals of this loop: "
                        f"at {_DEVIATIONS:g} standard deviations, {names[i]} changes by "
                        f"{moved[i]:.4g}, and the linear model gives {linear[i]:.4g}; simulate "
                        "the scenario instead, for example with rtsim study"
                    )


def _relevant(plant: StateSpace, weights: Mapping[str, Matrix]) -> list[int]:
    """Return the states on which a measurement or the cost depends, directly or indirectly."""
    n = len(plant.a)
    used = np.abs(plant.c).sum(axis=0) + sum(np.abs(w[:n]).sum(axis=1) for w in weights.values())
    kept = used > 0.0
    for _ in range(n):
        kept = kept | (np.abs(plant.a[kept]).sum(axis=0) > 0.0)
    return [int(i) for i in np.flatnonzero(kept)]


def _of(model: object, size_bytes: int, link: str) -> Distribution:
    try:
        return distribution(model, link)  # type: ignore[arg-type]
    except ModelError:
        constant = constant_delay(model, size_bytes, link)  # type: ignore[arg-type]
        return distribution(constant / NS_PER_S, link)


def _seconds(period: Period | None) -> float:
    assert period is not None
    return period.seconds
