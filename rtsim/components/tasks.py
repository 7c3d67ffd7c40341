"""Tasks that react at tags: discrete updates, timers, sensors and noise.

A reaction reads the values before its microstep. All changes take effect together at the end of the
microstep (``Environment.write``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from heapq import heapify, heapreplace
from math import isfinite
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from rtsim.components.latency import Fixed, LatencyModel
from rtsim.components.plant import RunningPlant
from rtsim.components.ports import SignalPort, Wiring
from rtsim.core.errors import ModelError, ScenarioError
from rtsim.core.random_streams import RandomStreams
from rtsim.core.signals import Vector
from rtsim.core.tag import NS_PER_S, Period, Tag
from rtsim.equations.calls import check, first_checked
from rtsim.equations.compiling import ABSENT

Kind = Literal["controller", "sensor", "update", "noise", "timers"]


@dataclass(frozen=True)
class CompiledReaction:
    """Reaction of a task in compiled code.

    ``vectors`` contains the four vectors of the function after the time.
    """

    kind: Kind
    wiring: Wiring | None = None
    function: int = 0
    vectors: tuple[Vector, ...] = ()
    compute: LatencyModel = Fixed(0)
    """Compute latency of a controller."""
    plant: RunningPlant | None = None
    due: Vector | None = None
    """For timers: a vector with the element 1 for each timer that ticks now, otherwise 0."""
    timers: tuple[tuple[Period | None, int], ...] = ()
    """Period and offset of each timer, ns; a timer without a period ticks once."""
    port: SignalPort | None = None
    """For noise: the port to which the noise is written."""
    draws: Callable[[np.random.Generator, int], NDArray[np.float64]] | None = None
    """For noise: a function that returns the values (k, n) of the next k ticks."""
    drawn: tuple[str, Vector] | None = None
    """For timers: a random stream, and the elements that it fills with N(0, 1) before each tick."""


FAR = 2**63 - 1
"""A time later than the end of every run, ns."""


class Environment(Protocol):
    """What a run provides for its tasks: random streams, clock, messages and changes."""

    @property
    def streams(self) -> RandomStreams: ...

    @property
    def paced(self) -> bool:
        """True if the run follows the wall clock at present."""
        ...

    def now(self) -> int:
        """Return the time of the clock, ns."""
        ...

    def wall(self, ns: int) -> int:
        """Return the clock time (ns) at which the simulated time ``ns`` is due."""
        ...

    def stretch(self, ns: int) -> None:
        """Make the simulated time ``ns`` due now."""
        ...

    def send(self, topic: str, initiated: Tag, completed: Tag, payload: Vector) -> None:
        """Send and record a message with a copy of ``payload`` (n,)."""
        ...

    def write(self, vector: Vector, new: Vector, owner: RunningPlant | SignalPort) -> None:
        """Write ``new`` to a vector of ``owner`` at the end of the microstep."""
        ...

    def event(
        self, tag: Tag, kind: str, source: str, text: str, values: Mapping[str, float]
    ) -> None: ...

    def sampled(self, controller: str, tag: Tag, inputs: Vector, sequence: int) -> None:
        """Record the inputs of a request."""
        ...

    def measured(self, controller: str, tag: Tag, stamps: tuple[int, ...]) -> None:
        """Record the wall-clock times of a request."""
        ...


class Task(Protocol):
    """A task of a run, which reacts at its ticks."""

    name: str
    period: Period | None
    priority: int
    next_ns: int

    def ticked(self) -> None:
        """Set ``next_ns`` to the next tick."""
        ...

    def react(self, tag: Tag, environment: Environment) -> None: ...

    def save(self) -> dict[str, Any]: ...

    def restore(self, saved: dict[str, Any]) -> None: ...


class Ticking:
    """The ticks of a task, at ``offset + round(k * period)``.  Without a period, there are none."""

    counts: tuple[str, ...] = ("k",)
    """Names of integer attributes that checkpoints save and compiled code updates.

    The records of compiled code (:mod:`rtsim.engine.compiled.records`) use the same names.
    """

    def __init__(self, name: str, period: Period | None, offset_ns: int, priority: int) -> None:
        if offset_ns < 0:
            raise ScenarioError(
                f"task {name} has an offset of {offset_ns} ns; an offset must be >= 0"
            )
        self.name = name
        self.period = period
        self.offset_ns = offset_ns
        self.priority = priority
        self.k = 0
        self.next_ns = self._tick()

    def _tick(self) -> int:
        return FAR if self.period is None else self.period.tick(self.k, self.offset_ns)

    def ticked(self) -> None:
        self.k += 1
        self.next_ns = self._tick()

    def adopt_compiled_state(self, counts: Mapping[str, int]) -> None:
        """Set the state of the task after ticks in compiled code."""
        vars(self).update(counts)
        self.next_ns = self._tick()

    def compiled(self) -> CompiledReaction | str:
        """Return the task's reaction for the compiled engine, or why it has none."""
        return f"{self.name} reacts in Python"

    @property
    def checked(self) -> bool:
        """True if the first call of the compiled function was checked."""
        return True

    def save(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.counts}

    def restore(self, saved: dict[str, Any]) -> None:
        vars(self).update((name, saved[name]) for name in self.counts)
        self.next_ns = self._tick()


def _read_inputs(plant: RunningPlant) -> Vector:
    return plant.u if plant.wiring is None else plant.wiring.into


class UpdateTask(Ticking):
    """Discrete update of a model with a period."""

    def __init__(
        self, plant: RunningPlant, period: Period, offset_ns: int = 0, priority: int = 0
    ) -> None:
        super().__init__(f"{plant.name}.update", period, offset_ns, priority)
        self.plant = plant
        self._z = plant.z.copy()
        self._vectors = (plant.x, self._z, _read_inputs(plant), plant.p)
        self.bind()

    def bind(self) -> None:
        """Prepare the update function of the plant."""
        update = self.plant.bound.update
        self._checked = not update.unchecked
        self._update = first_checked(
            update,
            self._vectors,
            lambda update: vars(self).update(_update=update, _checked=True),
        )

    def react(self, tag: Tag, environment: Environment) -> None:
        plant = self.plant
        plant.read_wires()
        self._z[:] = plant.z
        self._update(tag.ns / NS_PER_S)
        z = self._z.copy()
        if not np.isfinite(z).all():
            bad = plant.bound.model.discrete.columns[int(np.flatnonzero(~np.isfinite(z))[0])]
            raise ModelError(
                f"update of {plant.name} (model {plant.bound.model.name}) made {bad} not finite "
                f"at {tag}; correct the update function"
            )
        environment.write(plant.z, z, plant)

    def compiled(self) -> CompiledReaction | str:
        plant = self.plant
        handle = plant.bound.update.handle
        if not isinstance(handle, np.intp):
            return f"{self.name} is not compiled"
        return CompiledReaction("update", None, int(handle), self._vectors, plant=plant)

    @property
    def checked(self) -> bool:
        return self._checked


class TimerTask:
    """Timers of a model."""

    period: Period | None = None

    def __init__(self, plant: RunningPlant, priority: int = 0) -> None:
        self.name = f"{plant.name}.timers"
        self.priority = priority
        self.plant = plant
        self._timers = plant.bound.model.timers
        self._ticks = [0] * len(self._timers)
        self._due = np.zeros(len(self._timers))
        self._coming: list[tuple[int, int]] = []
        self._draws = [
            [(name, model.discrete.slice(name)) for name in timer.draws]
            for model in (plant.bound.model,)
            for timer in self._timers
        ]
        self.next_ns = FAR
        self._look()
        self._x, self._z = plant.x.copy(), plant.z.copy()
        self._vectors = (self._x, self._z, _read_inputs(plant), plant.p)
        self._seen = np.zeros(len(self._timers))
        """1 for each timer whose first tick was checked; each timer can run different code."""
        self.bind()

    def bind(self) -> None:
        """Prepare the timer function of the plant."""
        tick = self.plant.bound.tick
        self._fast = tick.on(self._due, *self._vectors)
        self._tick = self._checked if tick.unchecked else self._fast

    def _checked(self, t: float) -> object:
        plant, due = self.plant, self._due
        if (due > self._seen).any():
            check(plant.bound.tick, due, t, *self._vectors)
            np.maximum(self._seen, due, out=self._seen)
            if self._seen.all():
                self._tick = self._fast
        return self._fast(t)

    def _look(self) -> None:
        self._coming = [(self._at(i), i) for i in range(len(self._timers))]
        heapify(self._coming)
        self.next_ns = self._coming[0][0]

    def _at(self, i: int) -> int:
        timer, k = self._timers[i], self._ticks[i]
        if timer.period is None:
            return timer.offset_ns if k == 0 else FAR
        return timer.period.tick(k, timer.offset_ns)

    def ticked(self) -> None:
        now = self.next_ns
        self._due.fill(0.0)
        while self._coming[0][0] == now:
            i = self._coming[0][1]
            self._due[i] = 1.0
            self._ticks[i] += 1
            heapreplace(self._coming, (self._at(i), i))
        self.next_ns = self._coming[0][0]

    def react(self, tag: Tag, environment: Environment) -> None:
        plant = self.plant
        model = plant.bound.model
        plant.read_wires()
        x, z = self._x, self._z
        x[:], z[:] = plant.x, plant.z
        for i in np.flatnonzero(self._due):
            for name, where in self._draws[i]:
                stream = environment.streams.stream(self._stream(name))
                z[where] = stream.standard_normal(where.stop - where.start)
        self._tick(tag.ns / NS_PER_S)
        for signals, vector in ((model.states, x), (model.discrete, z)):
            if not np.isfinite(vector).all():
                bad = signals.columns[int(np.flatnonzero(~np.isfinite(vector))[0])]
                raise ModelError(
                    f"tick of {plant.name} (model {model.name}) made {bad} not finite at {tag}; "
                    "correct the tick function"
                )
        environment.write(plant.x, x.copy(), plant)
        environment.write(plant.z, z.copy(), plant)

    def compiled(self) -> CompiledReaction | str:
        """Return the task's reaction for the compiled engine, or why it has none."""
        plant = self.plant
        handle = plant.bound.tick.handle
        if not isinstance(handle, np.intp):
            return f"{self.name} is not compiled"
        drawn = [one for draws in self._draws for one in draws]
        if drawn and (len(drawn) > 1 or len(self._timers) > 1):
            return f"{self.name} draws random numbers for several timers or signals"
        if plant.bound.update.py_func is not ABSENT.py_func:
            return f"{plant.name} has an update beside its timers"
        timers = tuple((timer.period, timer.offset_ns) for timer in self._timers)
        return CompiledReaction(
            "timers",
            None,
            int(handle),
            self._vectors,
            plant=plant,
            due=self._due,
            timers=timers,
            drawn=next(((self._stream(name), self._z[where]) for name, where in drawn), None),
        )

    def _stream(self, name: str) -> str:
        return f"noise/{self.plant.name}.{name}"

    @property
    def checked(self) -> bool:
        """True if the first tick of each timer was checked."""
        return self._tick is self._fast

    @property
    def ticks(self) -> list[int]:
        return list(self._ticks)

    @property
    def coming(self) -> list[int]:
        """Time (ns) of the next tick of each timer."""
        return [self._at(i) for i in range(len(self._timers))]

    def adopt_compiled_state(self, ticks: list[int]) -> None:
        """Set the state after ticks in compiled code."""
        self._ticks = ticks
        self._look()

    def save(self) -> dict[str, Any]:
        return {"ticks": list(self._ticks)}

    def restore(self, saved: dict[str, Any]) -> None:
        self._ticks = list(saved["ticks"])
        self._look()


class SensorTask(Ticking):
    """Task that samples signals periodically and sends them as messages."""

    def __init__(
        self, name: str, wiring: Wiring, period: Period, offset_ns: int = 0, priority: int = 0
    ) -> None:
        super().__init__(name, period, offset_ns, priority)
        self.wiring = wiring

    def react(self, tag: Tag, environment: Environment) -> None:
        self.wiring.gather()
        environment.send(self.name, tag, tag, self.wiring.into)

    def compiled(self) -> CompiledReaction | str:
        return CompiledReaction("sensor", self.wiring)


class NoiseTask(Ticking):
    """White noise for continuous models: N(mean, deviation^2 / period), constant for a period.

    ``deviation`` is the square root of the two-sided spectral density. The noise does not depend on
    the steps of plants.
    """

    def __init__(
        self, port: SignalPort, mean: float, deviation: float, period: Period, priority: int = 0
    ) -> None:
        super().__init__(port.name, period, 0, priority)
        if not (isfinite(mean) and isfinite(deviation) and deviation >= 0.0):
            raise ScenarioError(
                f"noise {port.name} has mean {mean} and deviation {deviation}; "
                "both must be finite, and the deviation >= 0"
            )
        self.deviation = deviation
        self._port = port
        self._mean = mean
        self._scale = deviation / period.seconds**0.5

    def react(self, tag: Tag, environment: Environment) -> None:  # noqa: ARG002
        stream = environment.streams.stream(f"noise/{self.name}")
        environment.write(self._port.value, self._drawn(stream, 1)[0], self._port)

    def _drawn(self, stream: np.random.Generator, count: int) -> NDArray[np.float64]:
        size = (count, self._port.value.size)
        drawn: NDArray[np.float64] = self._mean + self._scale * stream.standard_normal(size)
        return drawn

    def compiled(self) -> CompiledReaction | str:
        return CompiledReaction("noise", port=self._port, draws=self._drawn)
