"""Sends samples of a run to plotting tools: topics, rates, and counts of lost messages."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NotRequired, Protocol, TypedDict

from rtsim.core.clock import stopwatch
from rtsim.core.errors import ScenarioError, UnknownName
from rtsim.core.net.messagepack import pack
from rtsim.core.net.sockets import Broadcast
from rtsim.core.signals import Vector
from rtsim.core.tag import NS_PER_S
from rtsim.gateway.catalogue import Counters

PLOTJUGGLER = "tcp://127.0.0.1:9872"
RATE_HZ = 50.0
MOST_RATE_HZ = 200.0
TIMING, SCENE = "timing", "scene"
COUNTS = (
    "ns", "frames", "overruns", "overruns_compute", "overruns_wake", "late", "missed", "standing",
)  # fmt: skip
"""Integer fields of the topic ``timing``; the fields ``rate`` and ``margin`` (s) follow them."""
_AGAIN_NS = NS_PER_S


@dataclass(frozen=True)
class SampledTopic:
    """A topic: the signals and parameters of a component, or the timing of the run.

    ``columns`` are the indices of the topic's values in a sample.
    """

    name: str
    names: tuple[str, ...]
    units: tuple[str, ...]
    columns: tuple[int, ...] = ()

    def row(self, counters: Counters, values: Vector) -> list[float]:
        if self.name == TIMING:
            whole = [float(getattr(counters, name)) for name in COUNTS]
            return [*whole, counters.rate, counters.margin_ns / NS_PER_S]
        return [float(values[k]) for k in self.columns]


_TIMING = SampledTopic(TIMING, (*COUNTS, "rate", "margin"), ("ns", *("1",) * len(COUNTS), "s"))
_SCENE = SampledTopic(SCENE, (), ())


def topics_of(signals: Sequence[Mapping[str, Any]]) -> list[SampledTopic]:
    """Return the topics of a run, one for each component in the order of ``signals``.

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

    The key "" has the rate of all other topics.
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
    """Raise :class:`UnknownName` if ``rates`` names a topic that the run does not have."""
    known = [topic.name for topic in topics_of(signals)]
    for name in rates:
        if name and name not in known:
            raise UnknownName("topic", name, known, "this run's telemetry")


class ViewerCounts(TypedDict):
    """The numbers of messages to a viewer, and why it got nothing after a failure."""

    sent: int
    lost: int
    failure: NotRequired[str]


class Viewer(Protocol):
    """The interface of a viewer of a run; its methods must not block."""

    name: str

    def begin(self, run: Mapping[str, Any], topics: Sequence[SampledTopic]) -> None: ...

    def show(self, due: Sequence[SampledTopic], counters: Counters, values: Vector) -> None: ...

    def rewound(self) -> None:
        """Start a new session, because simulated time went back."""
        ...

    @property
    def counts(self) -> tuple[int, int]:
        """The number of messages that were sent, and the number that were lost."""
        ...

    @property
    def failure(self) -> str:
        """Why the viewer gets nothing any more; empty if it is served."""
        ...

    def close(self) -> None: ...


class SamplePublisher:
    """Sends samples to all viewers, each topic at its own rate in wall-clock time.

    While the run is paused, a sample is sent once a second for viewers that connect late.
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
        """Begin a run, given its description ``run``, which includes the catalogue.

        This method is called again if the run continues from a checkpoint; the signals are then the
        same.
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

    def publish(self, counters: Counters, values: Vector) -> None:
        if not self._viewers or not self._topics:
            return
        now = stopwatch()
        if counters.ns == self._ns and now < self._shown_ns + _AGAIN_NS:
            return
        if counters.ns < self._ns:
            for viewer in self._viewers:
                viewer.rewound()
        due = self._due(now, all_of_them=counters.ns <= self._ns)
        if not due:
            return
        self._ns, self._shown_ns = counters.ns, now
        for viewer in self._viewers:
            viewer.show(due, counters, values)

    def _due(self, now: int, all_of_them: bool) -> list[SampledTopic]:
        """Return the topics that are due.

        A topic may be sent half a sample period early. Otherwise a topic that is due just after a
        sample would wait for the next sample.
        """
        slack = round(NS_PER_S / self.rate_hz) // 2
        due = [t for t in self._topics if all_of_them or now >= self._next[t.name] - slack]
        for topic in due:
            period = self._periods[topic.name]
            self._next[topic.name] = max(self._next[topic.name] + period, now + period - slack)
        return due

    @property
    def counts(self) -> dict[str, ViewerCounts]:
        """What became of the messages, by viewer, as plain data."""
        found: dict[str, ViewerCounts] = {}
        for viewer in self._viewers:
            sent, lost = viewer.counts
            found[viewer.name] = {"sent": sent, "lost": lost}
            if viewer.failure:
                found[viewer.name]["failure"] = viewer.failure
        return found


class PlotJuggler:
    """Publishes for PlotJuggler's ZeroMQ subscriber.

    Each message has a topic and a MessagePack map of numbers with ``timestamp``, s.
    """

    name = "plotjuggler"
    failure = ""

    def __init__(self, endpoint: str) -> None:
        self._socket = Broadcast(endpoint)
        self._sent = self._lost = 0

    def begin(self, run: Mapping[str, Any], topics: Sequence[SampledTopic]) -> None:
        """Do nothing, because PlotJuggler learns the fields from the messages."""

    def show(self, due: Sequence[SampledTopic], counters: Counters, values: Vector) -> None:
        timestamp = counters.ns / NS_PER_S
        for topic in due:
            if not topic.names:
                continue
            row = zip(topic.names, topic.row(counters, values), strict=True)
            message = {"timestamp": timestamp, **{n: v for n, v in row if math.isfinite(v)}}
            sent = self._socket.send(f"rtsim/{topic.name}", pack(message))
            self._sent += sent
            self._lost += not sent

    def rewound(self) -> None:
        """Do nothing, because PlotJuggler sorts messages by time."""

    @property
    def counts(self) -> tuple[int, int]:
        return self._sent, self._lost

    def close(self) -> None:
        self._socket.close()
