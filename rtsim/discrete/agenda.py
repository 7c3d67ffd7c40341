"""A SimPy environment whose time is the run's: whole nanoseconds inside, seconds for its users.

Processes, resources, stores, priority, pre-emption and interrupts are SimPy's own.  What processes
do to the rest of the run is left here as a list of effects; who applies it is the task.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import count
from math import isfinite
from typing import Any, NoReturn, Protocol

import numpy as np
import simpy
from simpy.events import NORMAL, Event, EventPriority

from rtsim.components.tasks import FAR
from rtsim.core.errors import ModelError, ScenarioError, ShapeError, UnknownName, ZenoError
from rtsim.core.random_streams import RandomStreams
from rtsim.core.signals import Signals, Vector
from rtsim.core.tag import LONGEST_NS, NS_PER_S, Tag, to_ns
from rtsim.discrete.waiting import WatchedProcess

MOST_EVENTS = 1_000_000
"""More than this at one instant is a Zeno error."""
_EXACT_S = 1e6
"""Below this a float of s that means whole ns is that after one product and one rounding."""


@dataclass(frozen=True)
class Sent:
    """A message on a topic."""

    topic: str
    payload: Vector


@dataclass(frozen=True)
class Changed:
    """A parameter of a plant, or a source's value, becomes something else."""

    target: str
    value: object


@dataclass(frozen=True)
class Told:
    """An event of the recording."""

    kind: str
    text: str
    values: Mapping[str, float]


Effect = Sent | Changed | Told


class DeclaredProcesses(Protocol):
    """What an agenda needs of :class:`~rtsim.discrete.processes.Processes`."""

    @property
    def setup(self) -> Callable[[Agenda], None]: ...

    @property
    def inputs(self) -> Signals: ...

    @property
    def outputs(self) -> Signals: ...

    @property
    def parameters(self) -> Signals: ...

    @property
    def messages(self) -> Mapping[str, Signals]: ...


class Agenda(simpy.Environment):
    """What processes live on: SimPy's ``process``, ``timeout``, ``event``, ..., and the run.

    Delays and ``now`` are in s; a delay is taken to the nearest ns.  Tags are whole ns, so that
    times never drift from those of the rest of the run.
    """

    def __init__(
        self,
        name: str,
        processes: DeclaredProcesses,
        on: tuple[str, ...],
        p: Vector,
        streams: RandomStreams,
    ) -> None:
        super().__init__(0)
        self.name = name
        self.inputs = processes.inputs.initial()
        self.outputs = processes.outputs.initial()
        self.p = p
        self.effects: list[Effect] = []
        self.count = 0
        """Events so far."""
        self._ns = 0
        self._events: list[tuple[int, EventPriority, int, Event]] = []
        """Time, priority, number and event, as SimPy orders them."""
        self._numbers = count()
        self._processes = processes
        self._on = on
        self._streams = streams
        self._sent = self.outputs.copy()
        self._inboxes: dict[str, simpy.Store] = {}
        self._crossings: dict[str, Event] = {}

    # -- time ------------------------------------------------------------------------------------

    @property
    def now(self) -> float:
        """s since the start of the run."""
        return self._ns / NS_PER_S

    @property
    def ns(self) -> int:
        """The same exactly, in ns."""
        return self._ns

    @property
    def next_ns(self) -> int:
        """When its next event is; far away where there is none."""
        return self._events[0][0] if self._events else FAR

    def peek(self) -> float:
        """s of the next event; infinite where there is none."""
        return self._events[0][0] / NS_PER_S if self._events else float("inf")

    def schedule(self, event: Event, priority: EventPriority = NORMAL, delay: float = 0) -> None:
        """As SimPy's; ``delay`` in s.  What is infinitely far away never comes."""
        ns = self._ns
        if delay:
            if delay == float("inf"):
                return
            ns += _whole_ns(delay)
        heappush(self._events, (ns, priority, next(self._numbers), event))

    def process(self, generator: Generator[Event, Any, Any]) -> simpy.Process:
        """As SimPy's."""
        return WatchedProcess(self, generator)

    def run(self, until: object = None) -> NoReturn:  # noqa: ARG002
        """Not here."""
        raise ScenarioError(
            f"{self.name}: the run drives an agenda's time; leave run() out of the set-up, and "
            "yield the event that run(until) would wait for"
        )

    def step(self) -> NoReturn:
        """Not here."""
        self.run()

    # -- the run ---------------------------------------------------------------------------------

    def read(self, name: str) -> Any:
        """An input as it stood before this microstep, or a parameter: a float, or an array."""
        if name in self._processes.parameters:
            return _value(self._processes.parameters, self.p, name)
        if name not in self._processes.inputs:
            known = (*self._processes.inputs.names, *self._processes.parameters.names)
            raise UnknownName("input", name, known, self.name)
        return _value(self._processes.inputs, self.inputs, name)

    def write(self, **values: object) -> None:
        """Outputs; others hear of them in the next microstep, by one message for all."""
        self._put(self._processes.outputs, self.outputs, values, f"outputs of {self.name}")

    def send(self, topic: str, **values: object) -> None:
        """One message on a topic that ``messages`` declares; what is not given is as declared."""
        declared = self._processes.messages
        if topic not in declared:
            raise UnknownName("topic", topic, declared, f"messages of {self.name}")
        payload = declared[topic].initial()
        self._put(declared[topic], payload, values, f"topic {topic}")
        self.effects.append(Sent(topic, payload))

    def change(self, target: str, value: object) -> None:
        """``part.name`` becomes ``value`` at the end of this microstep.

        A parameter of a plant, or a source's value.
        """
        self.effects.append(Changed(target, value))

    def record(self, kind: str, text: str = "", **values: float) -> None:
        """An event of the recording, such as ``Broken``."""
        self.effects.append(Told(kind, text, {k: float(v) for k, v in values.items()}))

    def inbox(self, topic: str) -> simpy.Store:
        """Messages of ``topic`` from the first call on: dicts of values, as they arrive."""
        self._check_on(topic, "message")
        if topic not in self._inboxes:
            self._inboxes[topic] = simpy.Store(self)
        return self._inboxes[topic]

    def crossing(self, guard: str) -> Event:
        """Happens when the guard, ``"plant.guard"``, fires next; x+ is to be read then."""
        self._check_on(guard, "guard")
        if guard not in self._crossings:
            self._crossings[guard] = self.event()
        return self._crossings[guard]

    def random(self, stream: str) -> np.random.Generator:
        """A stream of its own: each name draws alike whatever is drawn from others."""
        return self._streams.stream(f"processes/{self.name}/{stream}")

    def _check_on(self, name: str, what: str) -> None:
        if name not in self._on:
            raise ScenarioError(
                f"{self.name} does not listen for the {what} {name}; declare it: "
                f"on=({', '.join(map(repr, (*self._on, name)))},)"
            )

    def _put(
        self, signals: Signals, vector: Vector, values: Mapping[str, object], where: str
    ) -> None:
        for name, value in values.items():
            if name not in signals:
                raise UnknownName("signal", name, signals.names, where)
            here = signals.slice(name)
            if isinstance(value, int | float) and here.stop - here.start == 1 and isfinite(value):
                vector[here.start] = value  # the usual one, and much faster
                continue
            given = np.asarray(value, dtype=np.float64).ravel()
            if given.size != here.stop - here.start:
                raise ShapeError(
                    f"{name} of {where} has {here.stop - here.start} elements, got {given.size}"
                )
            if not np.isfinite(given).all():
                raise ModelError(f"{name} of {where} became {value} at {Tag(self.ns)}")
            vector[here] = given

    # -- for the task ----------------------------------------------------------------------------

    def begin(self) -> None:
        """The set-up."""
        returned: object = self._processes.setup(self)
        if hasattr(returned, "throw"):
            raise ScenarioError(
                f"the set-up of {self.name} is a process itself (it yields) and nothing starts it; "
                "let it start one: def setup(agenda): agenda.process(...)"
            )

    def hear(self, ns: int, name: str, payload: Vector | None) -> None:
        """A message arrived, or, without a payload, a guard fired."""
        self._ns = ns
        if payload is None:
            waited = self._crossings.pop(name, None)
            if waited is not None:
                waited.succeed()
        elif name in self._inboxes:
            signals = self.topics[name]
            self._inboxes[name].put({n: _value(signals, payload, n) for n in signals.names})

    topics: Mapping[str, Signals] = {}
    """What each topic carries that it listens for."""

    def react(self, ns: int) -> list[Effect]:
        """All events up to ``ns``, in SimPy's order; what they did to others."""
        self._ns = ns
        queue, left = self._events, MOST_EVENTS
        while queue and queue[0][0] <= ns:
            event = heappop(queue)[3]
            callbacks, event.callbacks = event.callbacks, None  # type: ignore[assignment]
            for callback in callbacks:
                callback(event)
            if not event.ok and not event.defused:
                failure: Any = event.value
                raise failure
            left -= 1
            if left < 0:
                raise ZenoError(
                    f"more than {MOST_EVENTS} events of {self.name} at {Tag(ns)}: a process goes "
                    "round without time passing; give it a timeout > 0"
                )
        self.count += MOST_EVENTS - left
        if self.outputs.tobytes() != self._sent.tobytes():
            self._sent = self.outputs.copy()
            self.effects.append(Sent(self.name, self._sent))
        effects, self.effects = self.effects, []
        return effects


def _value(signals: Signals, vector: Vector, name: str) -> Any:
    here = signals.slice(name)
    shape = signals[name].shape
    return vector[here].reshape(shape).copy() if shape else float(vector[here.start])


def _whole_ns(delay: Any) -> int:
    """``delay`` s in ns, as :func:`rtsim.core.tag.to_ns` has it, and fast for the usual ones."""
    if isinstance(delay, float):
        if abs(delay) < _EXACT_S:
            return round(float(delay) * NS_PER_S)
        if not isfinite(delay):
            raise ScenarioError(f"a delay of {delay} s; give a number of seconds >= 0")
        delay = float(delay)
    ns = to_ns(delay, "delay")
    if ns >= LONGEST_NS:
        raise ScenarioError(f"a delay of {delay} s; give a shorter one")
    return ns
