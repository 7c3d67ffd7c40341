"""Conformance checks for media that messages share, of rtsim and of other packages."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from rtsim.components.bus import DELIVERED, LOST, Bus, Message, Topic
from rtsim.components.medium import SharedTransport
from rtsim.core.random_streams import RandomStreams
from rtsim.core.signals import Signals
from rtsim.core.tag import NS_PER_S, Tag
from rtsim.record.replay_comparison import compare_exact
from rtsim.runs.replay import rerun
from rtsim.scenario.scenario import Scenario
from rtsim.testing.determinism import trace_of
from rtsim.testing.latency import check_latency

ONE = Signals("x [1]")
MOST_DECISIONS = 1000
"""Largest number of decisions for each message of a check."""


def check_medium(
    transports: Mapping[str, SharedTransport],
    *,
    gap: float = 0.001,
    count: int = 200,
    signals: Signals = ONE,
    runs: bool = True,
) -> None:
    """Assert the contract of :class:`rtsim.components.medium.RunningMedium` for one medium.

    ``transports`` contains the transports of several senders on the medium. The function sends
    ``count`` messages, on average every ``gap`` s, partly in one instant, and some with failing
    transmissions. The checks are:

    - Each message arrives once, or is lost once. The medium counts the lost messages.
    - Messages of one sender arrive in their order, in whole ns, after the decision of the medium.
    - After a decision, the next decision is later.
    - A second run, and a run with another order of senders, have the same outcomes.
    - So has a run that is saved and restored in the middle. The saved data is plain.
    - Two runs of a scenario, and a replay, are equal. ``runs=False`` leaves these runs out.

    ``gap`` should be about the duration of one transmission. ``signals`` are those of all messages.
    """
    media = [transport.medium for transport in transports.values()]
    assert media, "give the transports of at least one sender"
    assert all(medium == media[0] for medium in media), "all transports must have the same medium"
    for transport in transports.values():
        check_latency(transport, draws=5)
    media[0].check(list(transports.items()))
    plan = _planned(list(transports), gap, count)
    whole = _Drive(transports, plan, signals).to_end()
    _check_messages(whole, plan)
    again = _Drive(transports, plan, signals).to_end()
    assert whole.outcomes == again.outcomes, (
        "two runs have different outcomes; draw random numbers only from the streams of start(), "
        "and keep no state in the medium's declaration"
    )
    others = _Drive(
        dict(reversed(list(transports.items()))), plan, signals, backwards=True
    ).to_end()
    assert whole.outcomes == others.outcomes, (
        "the outcomes depend on the order in which senders are declared, or send in one instant; "
        "decide between messages of one instant by priority and topic"
    )
    for cut in {1, 2, whole.decisions // 3, whole.decisions // 2, whole.decisions - 1}:
        resumed = _Drive(transports, plan, signals).to_end(cut)
        assert whole.outcomes == resumed.outcomes, (
            f"a medium that was restored after {cut} decisions has other outcomes; save() must "
            "contain its whole state"
        )
    if runs:
        _check_runs(transports, gap, signals)


class _Sending(NamedTuple):
    """A message to send: its time, its sender, and the number of transmissions that fail."""

    ns: int
    topic: str
    failures: int


def _planned(topics: Sequence[str], gap: float, count: int) -> list[_Sending]:
    stream = RandomStreams(1).stream("check_medium")
    plan, ns = [], 0
    for _ in range(count):
        if stream.random() < 0.7:  # the others are sent in the same instant
            ns += round(stream.exponential(gap / 0.7) * NS_PER_S)
        failures = int(stream.integers(1, 3)) if stream.random() < 0.05 else 0
        plan.append(_Sending(ns, topics[int(stream.integers(len(topics)))], failures))
    return sorted(plan)


class _Disturbed:
    """A transport whose transmissions fail as ``failures`` states."""

    def __init__(self, inner: SharedTransport) -> None:
        self.inner, self.failures, self.ordered = inner, 0, inner.ordered

    def delays(self, stream: np.random.Generator, size_bytes: int) -> tuple[int, ...]:
        return self.inner.delays(stream, size_bytes)


class _Drive:
    """The message bus of a run without an engine, which sends the messages of a plan."""

    def __init__(
        self,
        transports: Mapping[str, SharedTransport],
        plan: Sequence[_Sending],
        signals: Signals,
        backwards: bool = False,
    ) -> None:
        self._transports, self._signals = transports, signals
        self._plan, self._backwards = plan, backwards
        self._begin()
        self.found: list[Message] = []
        self.decisions = 0

    def _begin(self) -> None:
        self._streams = RandomStreams(3)
        self.bus = Bus(self._streams)
        self._disturbed = {name: _Disturbed(one) for name, one in self._transports.items()}
        for name, transport in self._disturbed.items():
            self.bus.add(Topic(name, name, self._signals, transport))

    @property
    def outcomes(self) -> list[tuple[Any, ...]]:
        rows = [(m.topic, *m.stamps(), m.payload.tolist()) for m in self.found]
        return sorted(rows)

    def to_end(self, cut: int | None = None) -> _Drive:
        """Send all messages, and restore the bus after ``cut`` decisions if it is given."""
        at = 0
        while True:
            sending = self._plan[at].ns if at < len(self._plan) else None
            due = self.bus.next_transmission_ns
            if sending is None and not self.bus.waiting(due):
                return self
            ns = due if sending is None else min(sending, due)
            group = [one for one in self._plan[at : at + len(self._plan)] if one.ns == ns]
            at += len(group)
            for one in self._in_order(group):
                self._send(one)
            self._decide(ns)
            if self.decisions == cut:
                self._restore()
            most = MOST_DECISIONS * len(self._plan)
            assert self.decisions <= most, f"{most} decisions were not enough for all messages"

    def _in_order(self, group: list[_Sending]) -> list[_Sending]:
        """Return the messages of one instant; those of one topic keep their order."""
        return sorted(group, key=lambda one: one.topic, reverse=self._backwards)

    def _send(self, one: _Sending) -> None:
        self._disturbed[one.topic].failures = one.failures
        # The values do not depend on the order in which topics send.
        values = np.full(self._signals.size, float(one.ns % 1000))
        assert not self.bus.send(one.topic, Tag(one.ns), Tag(one.ns), values)

    def _decide(self, ns: int) -> None:
        due = self.bus.next_transmission_ns
        if due > ns:
            return
        assert due == ns, f"next_ns is {due}, before the present time of {ns} ns"
        found = self.bus.transmit(ns)
        self.bus.due(Tag(ns))
        self.decisions += 1
        due = self.bus.next_transmission_ns
        assert due > ns, f"next_ns is {due} after the decision at {ns} ns; it must be later"
        for message in found:
            assert type(message.arrival.ns) is int, "arrivals must be whole ns (int)"
            assert message.status == LOST or message.arrival.ns > ns, (
                f"a message of {message.topic} arrives at {message.arrival}, but the medium "
                f"decides at {ns} ns; it must decide before the arrival"
            )
        self.found += found

    def _restore(self) -> None:
        streams, saved = self._streams.save(), self.bus.save()
        try:
            text = json.dumps([streams, saved])
        except TypeError as error:
            raise AssertionError(f"save() must return plain data: {error}") from None
        self._begin()
        streams, saved = json.loads(text)
        self._streams.restore(streams)
        self.bus.restore(saved)
        assert json.dumps(self.bus.save()) == json.dumps(saved), (
            "save() after restore() returns other data"
        )


def _check_messages(drive: _Drive, plan: Sequence[_Sending]) -> None:
    sent = sorted(one.topic for one in plan)
    keys = [(m.topic, m.sequence) for m in drive.found]
    assert len(keys) == len(set(keys)), "a message has several outcomes"
    assert sorted(topic for topic, _ in keys) == sent, (
        f"{len(sent)} messages were sent, but {len(keys)} have an outcome; the others disappeared"
    )
    counted = sum(
        count
        for reasons in drive.bus.lost_on_media().values()
        for senders in reasons.values()
        for count in senders.values()
    )
    lost = sum(m.status == LOST for m in drive.found)
    assert counted == lost, f"{lost} messages were lost, but the medium counts {counted}"
    for topic in set(sent):
        mine = [m for m in drive.found if m.topic == topic and m.status == DELIVERED]
        arrivals = [m.arrival for m in sorted(mine, key=lambda m: m.sequence)]
        assert arrivals == sorted(arrivals), f"messages of {topic} overtake each other"
        assert all(m.arrival.ns > m.completed.ns for m in mine), f"{topic}: no transmission time"


def _check_runs(transports: Mapping[str, SharedTransport], gap: float, signals: Signals) -> None:
    def scenario() -> Scenario:
        out = Scenario("medium", until=40 * gap)
        out.source("values", signals)
        wires = {name: f"values.{name}" for name in signals.names}
        for k, (name, transport) in enumerate(transports.items()):
            period = round((len(transports) + k / 7) * gap * NS_PER_S)
            out.sensor(name, wires, period=f"{period}/{NS_PER_S}", transport=transport)
        return out

    first, again = trace_of(scenario()), trace_of(scenario())
    assert compare_exact(first, again) is None, "two runs of a scenario differ"
    assert compare_exact(first, rerun(first, scenario())) is None, "a replay differs from its run"
