"""A SimPy environment that uses the simulated time of a run.

Times are given in s and stored in whole ns. SimPy provides processes, resources, stores,
priorities, pre-emption and interrupts. Messages, changed values and recorded events of the
processes take effect when the run reaches their time.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import count
from math import isfinite
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

import numpy as np
import simpy
from simpy.events import NORMAL, Event, EventPriority

from rtsim.components.tasks import FAR
from rtsim.core.errors import ModelError, ScenarioError, ShapeError, UnknownName, ZenoError
from rtsim.core.random_streams import RandomStreams
from rtsim.core.signals import Signals, Vector
from rtsim.core.tag import LONGEST_NS, NS_PER_S, Tag, to_ns

if TYPE_CHECKING:
    from rtsim.engine.advance import Loop


# Private parts of SimPy, which are needed to continue a process and to process an event.

_resume = simpy.Process._resume


def process_events(queue: list[tuple[int, EventPriority, int, Event]], ns: int, most: int) -> int:
    """Process the events of ``queue`` up to the time ``ns``, and return their number.

    Stops after more than ``most`` events. A failed event raises its exception.
    """
    events = 0
    while queue and queue[0][0] <= ns:
        event = heappop(queue)[3]
        callbacks, event.callbacks = event.callbacks, None  # type: ignore[assignment]
        for callback in callbacks:
            callback(event)
        if not event._ok and not event.defused:
            failure: Any = event.value
            raise failure
        events += 1
        if events > most:
            break
    return events


class WatchedProcess(simpy.Process):
    """A SimPy process that may only wait for events of its own environment.

    Waiting for an event of another environment raises ``ScenarioError``, because the event would
    never occur.
    """

    def _resume(self, event: Event) -> None:
        _resume(self, event)
        awaited: Event | None = self._target
        if awaited is not None and awaited.env is not self.env:
            raise ScenarioError(
                f"process {self.name} waits for {awaited} of another simpy.Environment, whose "
                "events never occur; create resources and timeouts on the environment that the "
                "set-up function receives, as in agenda.timeout(1)"
            )


# Effects of processes on the rest of a run: messages, changed values and recorded events.

PLAIN = frozenset({float, int, np.float64})
LARGE = 1e300
"""Numbers below this value are finite; larger ones are checked individually."""


@dataclass(frozen=True)
class Changed:
    """A new value of a plant parameter or of a source."""

    target: str
    value: object


@dataclass(frozen=True)
class Told:
    """An event to record; the checksum of a checkpoint includes its ``repr``."""

    kind: str
    text: str
    values: Mapping[str, float]


Effect = tuple[bytes, bytes | Changed | Told, int]
"""An effect of a reaction on the rest of the run, with the time of the reaction (ns).

For a message, the first element is the topic (UTF-8) and the second the values as bytes.  Otherwise
the topic is empty.
"""


class Payload:
    """The values of one message."""

    def __init__(self, name: str, signals: Signals, vector: Vector) -> None:
        self.name = name
        self.topic = name.encode()
        self.signals = signals
        self.vector = vector
        self.initial = vector.copy()
        self.memory: Any = vector.data
        """The elements of ``vector``.  Reading or writing one takes a third of the time in
        numpy.
        """
        self.places = {s.name: signals.slice(s.name).start for s in signals if s.size == 1}
        """Index of each signal with one element."""

    def put(self, name: str, value: object, what: str, ns: int) -> None:
        """Convert ``value`` and store it as the value of the signal ``name``.

        Error messages contain the topic's name ``what`` and the simulated time ``ns``.
        """
        signals, where = self.signals, f"{what} {self.name}"
        if name not in signals:
            raise UnknownName("signal", name, signals.names, where)
        at = signals.slice(name)
        given = np.asarray(value, dtype=np.float64).ravel()
        if given.size != at.stop - at.start:
            raise ShapeError(
                f"{name} of {where} has {at.stop - at.start} elements, but got {given.size} values"
            )
        if not np.isfinite(given).all():
            raise ModelError(
                f"{name} of {where} was set to {value} at {Tag(ns)}; give a finite value"
            )
        self.vector[at] = given


def scalars(signals: Signals, vector: Vector) -> dict[str, tuple[Any, int]]:
    return {s.name: (vector.data, signals.slice(s.name).start) for s in signals if not s.shape}


MOST_EVENTS = 1_000_000
"""Maximum number of events at one instant; more events raise :class:`ZenoError`."""
_EXACT_S = 1e6
"""For times below this value (s), a multiplication and one rounding give the exact ns."""
_NS_PER_S = float(NS_PER_S)


class DeclaredProcesses(Protocol):
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
    """The SimPy environment of processes within a run, with ``process``, ``timeout`` and ``event``.

    Delays and ``now`` are in s. A delay is rounded to the nearest ns. Times are stored in whole ns,
    so that no rounding errors accumulate.
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
        self._ns, self._s = 0, 0.0
        self._events: list[tuple[int, EventPriority, int, Event]] = []
        """The event queue, in SimPy's order: time, priority, number and event."""
        self._numbers = count()
        self._processes = processes
        self._on = on
        self._streams = streams
        self._output = Payload(name, processes.outputs, self.outputs)
        self._places, self._memory = self._output.places, self._output.memory
        self._sent = self.outputs.tobytes()
        self._messages = {
            topic: Payload(topic, signals, signals.initial())
            for topic, signals in processes.messages.items()
        }
        self._scalars = {
            **scalars(processes.inputs, self.inputs),
            **scalars(processes.parameters, self.p),
        }
        self._changes = False
        self.complete_ns = 0
        """Time of the last complete reaction of :meth:`run_batch` (ns)."""
        self._kept: list[Effect] | BaseException | None = None
        """The result of a reaction that :meth:`run_batch` ran but that must be completed at its
        tag.
        """
        self._inboxes: dict[str, simpy.Store] = {}
        self._crossings: dict[str, Event] = {}

    @property
    def now(self) -> float:
        """Simulated time (s)."""
        return self._s

    @property
    def ns(self) -> int:
        """Simulated time (ns, exact)."""
        return self._ns

    @property
    def next_ns(self) -> int:
        """Time of the next event (ns), or ``FAR`` without one."""
        if self._kept is not None:
            return self._ns
        return self._events[0][0] if self._events else FAR

    def peek(self) -> float:
        """Return the time of the next event (s), or infinity if no event is scheduled."""
        return self._events[0][0] / _NS_PER_S if self._events else float("inf")

    def schedule(self, event: Event, priority: EventPriority = NORMAL, delay: float = 0) -> None:
        """Schedule ``event`` after ``delay`` s, as in SimPy.

        After an infinite delay, the event never occurs.
        """
        ns = self._ns
        if delay:
            if type(delay) is float and -_EXACT_S < delay < _EXACT_S:  # the usual case
                ns += round(delay * _NS_PER_S)
            elif delay == float("inf"):
                return
            else:
                ns += _whole_ns(delay)
        heappush(self._events, (ns, priority, next(self._numbers), event))

    def process(self, generator: Generator[Event, Any, Any]) -> simpy.Process:
        """Start a process from ``generator``, as in SimPy."""
        return WatchedProcess(self, generator)

    def run(self, until: object = None) -> NoReturn:  # noqa: ARG002
        """Raise ``ScenarioError``; only the run may advance the time."""
        raise ScenarioError(
            f"{self.name}: run() and step() cannot be called, because the run controls the time; "
            "remove the call, and in a process yield the event to wait for"
        )

    def step(self) -> NoReturn:
        """Raise ``ScenarioError``; only the run may advance the time."""
        self.run()

    def read(self, name: str) -> Any:
        """Return a parameter, or an input before this microstep, as a float or an array."""
        if name in self._scalars:
            memory, at = self._scalars[name]
            return memory[at]
        if name in self._processes.parameters:
            return _value(self._processes.parameters, self.p, name)
        if name not in self._processes.inputs:
            known = (*self._processes.inputs.names, *self._processes.parameters.names)
            raise UnknownName("input", name, known, self.name)
        return _value(self._processes.inputs, self.inputs, name)

    def write(self, **values: object) -> None:
        """Set outputs by name; rtsim sends all outputs in one message.

        The message arrives in the next microstep.
        """
        places, memory = self._places, self._memory
        for name, value in values.items():
            # This path is faster for the usual case.
            if name in places and type(value) in PLAIN and -LARGE < value < LARGE:  # type: ignore[operator]
                memory[places[name]] = value
            else:
                self._output.put(name, value, "outputs of", self._ns)

    def send(self, topic: str, **values: object) -> None:
        """Send a message on a topic that ``messages`` declares.

        A signal without a value in ``values`` has its declared initial value.
        """
        if topic not in self._messages:
            raise UnknownName("topic", topic, self._messages, f"messages of {self.name}")
        payload = self._messages[topic]
        if len(values) != len(payload.signals):
            payload.vector[:] = payload.initial
        places, memory = payload.places, payload.memory
        for name, value in values.items():
            if name in places and type(value) in PLAIN and -LARGE < value < LARGE:  # type: ignore[operator]
                memory[places[name]] = value
            else:
                payload.put(name, value, "topic", self._ns)
        self.effects.append((payload.topic, memory.tobytes(), self._ns))

    def change(self, target: str, value: object) -> None:
        """Set ``target``, such as ``"plant.mass"``, to ``value`` at the end of this microstep.

        The target is a parameter of a plant, or the value of a source.
        """
        self._changes = True
        self.effects.append((b"", Changed(target, value), self._ns))

    def record(self, kind: str, text: str = "", **values: float) -> None:
        """Record an event of the given kind, such as ``Broken``."""
        told = Told(kind, text, {k: float(v) for k, v in values.items()})
        self.effects.append((b"", told, self._ns))

    def inbox(self, topic: str) -> simpy.Store:
        """Return a SimPy store that receives the messages of ``topic`` from now on.

        Each message is a dict of values by signal name.
        """
        self._check_on(topic, "message")
        if topic not in self._inboxes:
            self._inboxes[topic] = simpy.Store(self)
        return self._inboxes[topic]

    def crossing(self, guard: str) -> Event:
        """Return an event that occurs when the guard ``guard`` (``"plant.guard"``) fires next.

        When the event occurs, ``read`` returns the values after the reset by the guard.
        """
        self._check_on(guard, "guard")
        if guard not in self._crossings:
            self._crossings[guard] = self.event()
        return self._crossings[guard]

    def random(self, stream: str) -> np.random.Generator:
        """Return the random generator ``stream``, which is independent of all others."""
        return self._streams.stream(f"processes/{self.name}/{stream}")

    def _check_on(self, name: str, what: str) -> None:
        if name not in self._on:
            raise ScenarioError(
                f"{self.name} does not receive the {what} {name}; declare it: "
                f"on=({', '.join(map(repr, (*self._on, name)))},)"
            )

    def begin(self) -> None:
        """Call the set-up function of the processes."""
        returned: object = self._processes.setup(self)
        if hasattr(returned, "throw"):
            raise ScenarioError(
                f"the set-up function of {self.name} contains yield, so it never runs; move that "
                "code to a process and start it: def setup(agenda): agenda.process(...)"
            )

    def hear(self, ns: int, name: str, payload: Vector | None) -> None:
        """Handle a message, or a guard that fired (with ``payload=None``)."""
        self._ns, self._s = ns, ns / _NS_PER_S
        if payload is None:
            waited = self._crossings.pop(name, None)
            if waited is not None:
                waited.succeed()
        elif name in self._inboxes:
            signals = self.topics[name]
            self._inboxes[name].put({n: _value(signals, payload, n) for n in signals.names})

    topics: Mapping[str, Signals] = {}
    """The signals of each topic that the processes receive."""

    def react(self, ns: int) -> list[Effect]:
        """Process all events up to the time ``ns`` in SimPy's order, and return their effects."""
        kept, self._kept = self._kept, None
        if isinstance(kept, BaseException):
            raise kept
        if kept is not None:
            return kept
        self._react(ns)
        self._changes = False
        effects, self.effects = self.effects, []
        return effects

    def run_batch(self, limit_ns: int, most: int, loop: Loop) -> tuple[list[Effect], int]:
        """Process events before ``limit_ns``, at up to ``most`` different times.

        The method stops at the first error and at the first change of a parameter. Returns the
        effects of the events, and the number of times at which events were processed.
        """
        queue, effects, complete, reactions = self._events, self.effects, 0, 0
        try:
            while queue and queue[0][0] < limit_ns and reactions < most and not loop.stopping:
                self._react(queue[0][0])
                if self._changes:
                    self._kept, self._changes = effects[complete:], False
                    break
                complete, self.complete_ns = len(effects), self._ns
                reactions += 1
        except BaseException as error:
            self._kept = error
        del effects[complete:]
        self.effects = []
        return effects, reactions

    @property
    def kept(self) -> bool:
        """True if ``run_batch`` stored an effect or an error for ``react``."""
        return self._kept is not None

    def _react(self, ns: int) -> None:
        self._ns, self._s = ns, ns / _NS_PER_S
        events = process_events(self._events, ns, MOST_EVENTS)
        if events > MOST_EVENTS:
            raise ZenoError(
                f"more than {MOST_EVENTS} events of {self.name} at {Tag(ns)}: simulated time "
                "does not advance in the loop of a process; give the loop a timeout > 0 s"
            )
        self.count += events
        outputs = self._memory.tobytes()
        if outputs != self._sent:
            self._sent = outputs
            self.effects.append((self._output.topic, outputs, ns))


def _value(signals: Signals, vector: Vector, name: str) -> Any:
    at = signals.slice(name)
    shape = signals[name].shape
    return vector[at].reshape(shape).copy() if shape else float(vector[at.start])


def _whole_ns(delay: Any) -> int:
    if isinstance(delay, float):
        if abs(delay) < _EXACT_S:
            return round(float(delay) * NS_PER_S)
        if not isfinite(delay):
            raise ScenarioError(f"a delay is {delay} s; give a number of seconds >= 0")
        delay = float(delay)
    ns = to_ns(delay, "delay")
    if ns >= LONGEST_NS:
        raise ScenarioError(f"a delay of {delay} s is too long; give less than 146 years")
    return ns
