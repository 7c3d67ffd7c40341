"""The linear network of a scenario at an operating point."""

from __future__ import annotations

from typing import Any

import numpy as np

from rtsim.components.controller import PythonController
from rtsim.components.controller_task import ControllerTask
from rtsim.components.plant import Plant
from rtsim.components.tasks import NoiseTask, SensorTask, Task, TimerTask, UpdateTask
from rtsim.core.errors import ModelError
from rtsim.core.signals import Signals, Vector
from rtsim.core.tag import NS_PER_S, Period
from rtsim.engine.system import System
from rtsim.equations.compiling import plainly
from rtsim.linear.complex_math import complex_form
from rtsim.linear.derivatives import jacobian
from rtsim.linear.network import (
    Changer,
    LinearPlant,
    LinearTask,
    Network,
    Sender,
    constant_delay,
    links_of,
    port_signals,
)
from rtsim.linear.plants import columns_of, kink_notes, plant_slopes, split
from rtsim.linear.points import Point, check_ordinary, point_in
from rtsim.linear.state_space import Matrix

_CHANGES = 1e-3
"""Relative change of an update from period to period above which it is not time-invariant."""


class Assembling:
    """Makes the :class:`Network` of a system at its present time."""

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

    def _plant(self, plant: Plant) -> LinearPlant:
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
            self.notes.append(f"noise is held constant: {task.name}")
        else:
            self.notes.append(f"{task.name} is held constant, because it has no linear model")
        return []

    # -- senders -------------------------------------------------------------------------------

    def _controller(self, task: ControllerTask) -> Sender:
        controller = task.controller
        if not isinstance(controller, PythonController):
            raise ModelError(
                f"controller {task.name} is a {type(controller).__name__}, whose equations are "
                "not known; analyse the scenario with its reference model, a PythonController"
            )
        before = [c.name for c in self.system.controllers if task.name in c.successors]
        name, inputs = task.name, controller.inputs
        task.wiring.gather()
        u = np.array(task.wiring.into)
        matrix = self._law(controller, u, name)
        topic = self.system.bus.topics[name]
        return Sender(
            name, task.period, task.offset_ns, matrix, controller.memory, controller.outputs,
            links_of(task.wiring, self.system.ports, inputs, name, before),
            constant_delay(task.compute, 8 * inputs.size, f"the computation of {name}"),
            constant_delay(topic.transport, topic.size_bytes, topic.link),
            task.successors, self._triggers(name),
        )  # fmt: skip

    def _law(self, controller: PythonController, u: Vector, name: str) -> Matrix:
        """Return the derivatives of (s', y) by (s, u) at the present inputs ``u``."""
        t, p, k = self.system.ns / NS_PER_S, np.array(controller.p), controller.memory.size
        r = controller.outputs.size
        last = np.array(controller.save()["y"])

        def evaluate(law: Any, vector: Any, kind: type) -> Any:
            s: Any = vector[:k].copy()
            y: Any = last.astype(kind)
            with plainly():
                law(t, vector[k:].copy(), s, p, y)
            return np.concatenate((s, y))

        plain = getattr(controller.law, "py_func", controller.law)
        copied = complex_form(plain)
        found = jacobian(
            lambda v: evaluate(plain, v, float),
            np.concatenate((controller.s, u)),
            k + r,
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

    def _change(self, plant: Plant, change: Any, period: Period) -> Matrix:
        """Return the derivatives of (x', z') by (x, z, u) at a tick."""
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

    def _slopes(self, plant: Plant, change: Any, at: Point) -> tuple[Matrix, Vector]:
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
    """Return the point at a time between two ticks."""
    return Point(at.t + 0.37 * period.seconds, at.x, at.z, at.u, at.p)
