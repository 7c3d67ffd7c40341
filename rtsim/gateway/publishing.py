"""Describe a run for viewers, and send samples of its signals to the viewers."""

from __future__ import annotations

import math
import struct
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import partial
from html import escape
from typing import Any, NamedTuple, NotRequired, Protocol, TypedDict, TypeVar

import numpy as np
from numpy.typing import NDArray

from rtsim.components.processor import Processor
from rtsim.core.clock import stopwatch
from rtsim.core.errors import ScenarioError, UnknownName
from rtsim.core.net.messagepack import pack
from rtsim.core.net.sockets import Broadcast
from rtsim.core.signals import Signal, Vector
from rtsim.core.tag import NS_PER_S
from rtsim.engine.system import Changeable, System
from rtsim.timing.frames import CLASSES, STAMPS, Tally

MOST_VALUES = 8_000
"""Limit of the values in each list of a catalogue.

A component that does not fit into its list is left out with all its values. The entry ``left_out``
then contains the component's name.
"""
_MOST_BYTES = {"signals": 400_000, "parameters": 200_000, "topics": 100_000}
_MOST_NAMED = 100
MOST_VIEWS = 100
_STATE = struct.Struct("<qqd?qqqqqqqq")


_T = TypeVar("_T")


class _Room:
    def __init__(self, of: str) -> None:
        self._bytes, self._values = _MOST_BYTES[of], MOST_VALUES
        self.left_out: dict[str, int] = {}

    def take(self, name: str, size: int, make: Callable[[], _T]) -> _T | None:
        made = make() if size <= self._values else None
        needed = 0 if made is None else len(pack(made))
        if made is None or needed > self._bytes:
            if len(self.left_out) < _MOST_NAMED:
                self.left_out[name] = size
            return None
        self._bytes -= needed
        self._values -= size
        return made


def catalogue(system: System) -> dict[str, Any]:
    """Return a description of ``system``: signals, parameters, topics, faults and tasks.

    The signals have the same order as in a sample of ``Sampler``. ``left_out`` contains, by name,
    the number of values that did not fit into the description.
    """
    vectors, room = _vectors(system)
    parameters, topics = _Room("parameters"), _Room("topics")
    changeable = [
        parameters.take(target, item.signals[item.name].size, partial(_parameter, item))
        for target, item in sorted(system.changeable.items())
    ]
    carried: dict[str, list[str] | None] = {
        name: topics.take(name, topic.signals.size, partial(list, topic.signals.columns))
        for name, topic in sorted(system.bus.topics.items())
    }
    faults = () if system.faults is None else system.faults.faults
    return {
        "signals": [row for _, rows in vectors for row in rows],
        "parameters": [row for row in changeable if row is not None],
        "topics": {name: columns for name, columns in carried.items() if columns is not None},
        "faults": {f.name: f"{f.kind.name} at {f.where}" for f in faults},
        "tasks": sorted(t.name for t in system.tasks if t.period is not None),
        "processors": [_processor(one) for one in system.processors],
        "left_out": {**topics.left_out, **parameters.left_out, **room.left_out},
    }


def without_signals(run: dict[str, Any]) -> dict[str, Any]:
    """Return a short description of a run with too many signals for one message."""
    none: dict[str, Any] = {"signals": [], "parameters": [], "topics": {}, "faults": {}}
    return {
        **run,
        **none,
        "tasks": [],
        "processors": [],
        "left_out": {"all of it": len(run["signals"])},
    }


def _processor(one: Processor) -> dict[str, Any]:
    tasks = [task.name for task in one.tasks]
    return {"name": one.name, "policy": one.policy.name, "cores": one.cores, "tasks": tasks}


def _parameter(item: Changeable) -> dict[str, Any]:
    value = item.vector[item.signals.slice(item.name)].tolist()
    return {**_described(item.signals[item.name]), "name": item.target, "value": value}


def _described(signal: Signal) -> dict[str, Any]:
    return {
        "unit": signal.unit,
        "type": signal.type,
        "shape": list(signal.shape),
        "low": None if math.isinf(signal.low) else signal.low,
        "high": None if math.isinf(signal.high) else signal.high,
        "description": signal.description[:200],
    }


def _vectors(system: System) -> tuple[list[tuple[Vector, list[dict[str, Any]]]], _Room]:
    found, room = list[tuple[Vector, list[dict[str, Any]]]](), _Room("signals")

    def add(name: str, vector: Vector, part: str, signals: Iterable[Signal], kind: str) -> None:
        rows = room.take(name, vector.size, partial(_columns, part, signals, kind))
        if rows is not None:
            found.append((vector, rows))

    for name, port in sorted(system.ports.items()):
        add(name, port.value, name, port.signals, "")
    for one in system.processors:
        add(one.name, one.states, one.name, [Signal(task.name) for task in one.tasks], "")
    for target, item in sorted(system.changeable.items()):
        if target.partition(".")[0] in system.ports and target in _names(system):
            continue  # a source's value is already listed as a signal
        vector = item.vector[item.signals.slice(item.name)]
        add(target, vector, target.rpartition(".")[0], [item.signals[item.name]], "parameter")
    return found, room


def _columns(part: str, signals: Iterable[Signal], kind: str) -> list[dict[str, Any]]:
    return [
        {"name": f"{part}.{column}", "unit": signal.unit, "kind": kind or signal.kind}
        for signal in signals
        for column in signal.columns
    ]


def _names(system: System) -> set[str]:
    return {f"{n}.{c}" for n, p in system.ports.items() for c in p.signals.names}


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    top = "".join(f"<th>{escape(text)}</th>" for text in head)
    body = "".join(
        "<tr>" + "".join(f"<td>{escape(str(cell))}</td>" for cell in row) + "</tr>" for row in rows
    )
    return f"<table><tr>{top}</tr>{body}</table>" if any(head) else f"<table>{body}</table>"


@dataclass(frozen=True)
class StateTable:
    """The state of a run.

    ``ns`` is the simulated time, and ``rate`` is 0 for a run without real time.

    ``leg`` is the number of the run's segment, which begins with 1 and increases with each restore.
    ``lateness_ns`` is the latest wake-up latency (ns) of a run in real time; -1 means unknown.
    """

    ns: int = 0
    wall_ns: int = 0
    rate: float = 0.0
    standing: bool = False
    late: int = 0
    missed: int = 0
    overruns_compute: int = 0
    overruns_wake: int = 0
    margin_ns: int = 0
    frames: int = 0
    leg: int = 1
    lateness_ns: int = -1

    @property
    def seconds(self) -> float:
        return self.ns / NS_PER_S

    @property
    def overruns(self) -> int:
        return self.overruns_compute + self.overruns_wake

    def _repr_html_(self) -> str:
        margin = f"{self.margin_ns / 1e6:.3f} ms"
        rows = [("simulated", f"{self.seconds:.3f} s"), ("pace", self._pace), ("margin", margin)]
        overruns = f"{self.overruns} (compute {self.overruns_compute}, wake {self.overruns_wake})"
        rows += [("overruns", overruns), ("late", str(self.late)), ("missed", str(self.missed))]
        return table(("", ""), [*rows, ("frames", str(self.frames)), ("leg", str(self.leg))])

    @property
    def _pace(self) -> str:
        if self.standing:
            return "paused"
        return f"rate {self.rate:g}" if self.rate else "rate max"

    def __str__(self) -> str:
        return (
            f"{self.seconds:.3f} s, {self._pace}, {self.overruns} overruns, {self.late} late, "
            f"{self.missed} missed"
        )


_FIELDS = tuple(f.name for f in fields(StateTable))


class Sampler:
    """Copy the state, latency counts, time stamps and all values of a run into one buffer.

    A copy takes a few microseconds, regardless of the length of the run.
    """

    def __init__(self, system: System, tally: Tally) -> None:
        self._vectors = [vector for vector, _ in _vectors(system)[0]]
        self._counted, self._stamped = tally.counts.ravel(), tally.latest.ravel()
        counts, stamps = self._counted.size, self._stamped.size
        size = sum(v.size for v in self._vectors)
        self._buffer = bytearray(_STATE.size + 8 * (counts + stamps + size))
        words = np.frombuffer(self._buffer, np.int64, counts + stamps, _STATE.size)
        self._counts, self._stamps = words[:counts], words[counts:]
        at = _STATE.size + 8 * (counts + stamps)
        self._values = np.frombuffer(self._buffer, np.float64, size, at)

    def take(self, state: Mapping[str, Any]) -> bytes:
        """Return one sample as bytes, for :func:`decode_sample`.

        ``state`` contains the fields of :class:`StateTable`.
        """
        _STATE.pack_into(self._buffer, 0, *(state[name] for name in _FIELDS))
        self._counts[:], self._stamps[:] = self._counted, self._stamped
        at = 0
        for vector in self._vectors:
            self._values[at : at + vector.size] = vector
            at += vector.size
        return bytes(self._buffer)


class DecodedSample(NamedTuple):
    """One sample: the state of the run, latency counts, message times and all values.

    ``counts`` has the shape (links, CLASSES), ``stamps`` the shape (links, STAMPS), in ns.
    ``values`` has the order of the catalogue.
    """

    state: StateTable
    counts: NDArray[np.int64]
    stamps: NDArray[np.int64]
    values: Vector


def decode_sample(data: bytes, links: int) -> DecodedSample:
    """Decode a sample that a run sent to its viewers. ``links`` is the number of links of the run.

    Raises :class:`ValueError` if the length of ``data`` is wrong.
    """
    counted, stamped = links * CLASSES, links * STAMPS
    begin = _STATE.size + 8 * (counted + stamped)
    if len(data) < begin or (len(data) - begin) % 8:
        raise ValueError(
            f"a sample has {len(data)} bytes; expected {begin} bytes plus a multiple of 8"
        )
    state = StateTable(*_STATE.unpack_from(data))
    words = np.frombuffer(data, np.int64, counted + stamped, _STATE.size)
    counts, stamps = words[:counted], words[counted:]
    return DecodedSample(
        state,
        counts.reshape(links, CLASSES),
        stamps.reshape(links, STAMPS),
        np.frombuffer(data, np.float64, offset=begin),
    )


# Samples for plotting tools: topics, rates, and counts of lost messages.

PLOTJUGGLER = "tcp://127.0.0.1:9872"
RATE_HZ = 50.0
MOST_RATE_HZ = 200.0
TIMING, SCENE = "timing", "scene"
COUNTS = (
    "ns", "frames", "overruns", "overruns_compute", "overruns_wake", "late", "missed", "standing",
)  # fmt: skip
"""Integer fields of the topic ``timing``. The fields ``rate`` and ``margin`` (s) follow."""
_AGAIN_NS = NS_PER_S


@dataclass(frozen=True)
class SampledTopic:
    """A topic of samples: the signals and parameters of a component, or the timing of the run.

    ``columns`` contains the positions of the topic's values in a sample.
    """

    name: str
    names: tuple[str, ...]
    units: tuple[str, ...]
    columns: tuple[int, ...] = ()

    def row(self, state: StateTable, values: Vector) -> list[float]:
        if self.name == TIMING:
            whole = [float(getattr(state, name)) for name in COUNTS]
            return [*whole, state.rate, state.margin_ns / NS_PER_S]
        return [float(values[k]) for k in self.columns]


_TIMING = SampledTopic(TIMING, (*COUNTS, "rate", "margin"), ("ns", *("1",) * len(COUNTS), "s"))
_SCENE = SampledTopic(SCENE, (), ())


def topics_of(signals: Sequence[Mapping[str, Any]]) -> list[SampledTopic]:
    """Return the topics of a run, one for each component.

    The topics ``timing`` and ``scene`` follow.
    """
    parts: dict[str, dict[str, tuple[str, int]]] = defaultdict(dict)
    for k, row in enumerate(signals):
        part, _, name = str(row["name"]).partition(".")
        if name in parts[part]:
            name += "_parameter"
        parts[part][name] = (str(row["unit"]), k)
    found = []
    for part, columns in parts.items():
        units, indices = zip(*columns.values(), strict=True)
        found.append(SampledTopic(part, tuple(columns), units, indices))
    return [*found, _TIMING, _SCENE]


def read_rates(given: Sequence[str]) -> dict[str, float]:
    """Parse rates such as ``("10", "f16=100", "pilot=0")``; return the rates by topic, Hz.

    The rate with the key "" applies to all other topics.
    """
    rates = {}
    for text in given:
        topic, equals, hertz = text.rpartition("=")
        try:
            rate = float(hertz)
        except ValueError:
            rate = math.nan
        if not 0.0 <= rate <= MOST_RATE_HZ or bool(equals) != bool(topic):
            raise ScenarioError(
                f"--telemetry {text!r} is not a rate; write HZ or TOPIC=HZ, with HZ from 0 (never) "
                f"to {MOST_RATE_HZ:g}"
            )
        rates[topic] = rate
    return rates


def check_rates(rates: Mapping[str, float], signals: Sequence[Mapping[str, Any]]) -> None:
    """Raise ``UnknownName`` if ``rates`` contains an unknown topic."""
    known = [topic.name for topic in topics_of(signals)]
    for name in rates:
        if name and name not in known:
            raise UnknownName("topic", name, known, "this run's telemetry")


class ViewerCounts(TypedDict):
    """Numbers of messages to a viewer, and the reason why the viewer gets no more."""

    sent: int
    lost: int
    failure: NotRequired[str]


class Viewer(Protocol):
    """Interface of a viewer of a run. Its methods must not block."""

    name: str

    def begin(self, run: Mapping[str, Any], topics: Sequence[SampledTopic]) -> None: ...

    def show(self, due: Sequence[SampledTopic], state: StateTable, values: Vector) -> None: ...

    def rewound(self) -> None:
        """Start a new session after the simulated time went back."""
        ...

    @property
    def counts(self) -> tuple[int, int]: ...

    @property
    def failure(self) -> str:
        """The reason why the viewer receives no more messages; empty without a failure."""
        ...

    def close(self) -> None: ...


class SamplePublisher:
    """Send samples to all viewers, with a rate for each topic.

    While the run is paused, a sample is sent once per second for viewers that connect late.
    """

    def __init__(self, viewers: Sequence[Viewer] = ()) -> None:
        self._viewers = viewers
        self.rate_hz = 0.0
        self._topics: list[SampledTopic] = []
        self._periods: dict[str, int] = {}
        self._next: dict[str, int] = {}
        self._ns = -1
        self._shown_ns = 0

    def begin(self, run: Mapping[str, Any]) -> None:
        """Start sending, with the description ``run`` of the run.

        After a restore, this method is called again with the same signals.
        """
        rates = run.get("telemetry") or {}
        wanted = {
            t: float(rates.get(t.name, rates.get("", RATE_HZ))) for t in topics_of(run["signals"])
        }
        before, self._topics = self._topics, [t for t, rate in wanted.items() if rate > 0]
        if self._topics == before:
            return
        self._periods = {t.name: round(NS_PER_S / wanted[t]) for t in self._topics}
        self._next = dict.fromkeys(self._periods, 0)
        for viewer in self._viewers:
            viewer.begin(run, self._topics)
        if self._viewers:
            self.rate_hz = max((wanted[t] for t in self._topics), default=0.0)

    def publish(self, state: StateTable, values: Vector) -> None:
        if not self._viewers or not self._topics:
            return
        now = stopwatch()
        if state.ns == self._ns and now < self._shown_ns + _AGAIN_NS:
            return
        if state.ns < self._ns:
            for viewer in self._viewers:
                viewer.rewound()
        due = self._due(now, all_of_them=state.ns <= self._ns)
        if not due:
            return
        self._ns, self._shown_ns = state.ns, now
        for viewer in self._viewers:
            viewer.show(due, state, values)

    def _due(self, now: int, all_of_them: bool) -> list[SampledTopic]:
        slack = round(NS_PER_S / self.rate_hz) // 2
        due = [t for t in self._topics if all_of_them or now >= self._next[t.name] - slack]
        for topic in due:
            period = self._periods[topic.name]
            self._next[topic.name] = max(self._next[topic.name] + period, now + period - slack)
        return due

    @property
    def counts(self) -> dict[str, ViewerCounts]:
        found: dict[str, ViewerCounts] = {}
        for viewer in self._viewers:
            sent, lost = viewer.counts
            found[viewer.name] = {"sent": sent, "lost": lost}
            if viewer.failure:
                found[viewer.name]["failure"] = viewer.failure
        return found


class PlotJuggler:
    """Publisher for PlotJuggler's ZeroMQ subscriber.

    Each message has a topic and a MessagePack map of numbers with the key ``timestamp`` (s).
    """

    name = "plotjuggler"
    failure = ""

    def __init__(self, endpoint: str) -> None:
        self._socket = Broadcast(endpoint)
        self._sent = self._lost = 0

    def begin(self, run: Mapping[str, Any], topics: Sequence[SampledTopic]) -> None: ...

    def show(self, due: Sequence[SampledTopic], state: StateTable, values: Vector) -> None:
        timestamp = state.ns / NS_PER_S
        for topic in due:
            if not topic.names:
                continue
            row = zip(topic.names, topic.row(state, values), strict=True)
            message = {"timestamp": timestamp, **{n: v for n, v in row if math.isfinite(v)}}
            sent = self._socket.send(f"rtsim/{topic.name}", pack(message))
            self._sent += sent
            self._lost += not sent

    def rewound(self) -> None: ...

    @property
    def counts(self) -> tuple[int, int]:
        return self._sent, self._lost

    def close(self) -> None:
        self._socket.close()
