"""Properties of latency models and of the bus: never early, never lost without a record, fifo."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rtsim.components.bus import COPY, LOST, Bus, Message, Topic
from rtsim.components.latency import (
    Duplicate,
    Empirical,
    Fixed,
    Gamma,
    LatencyModel,
    Loss,
    Reorder,
    SerialLine,
    TruncatedNormal,
    Uniform,
)
from rtsim.core.errors import LatencyError, ScenarioError
from rtsim.core.random_streams import RandomStreams
from rtsim.core.signals import Signals
from rtsim.core.tag import NEVER, Tag
from rtsim.testing.latency import check_latency

SIGNALS = Signals("a [1]", "b [1]")
LAST_STEP = 1 << 30
"""No instant has so many microsteps."""
PLAIN: Sequence[LatencyModel] = [
    Fixed(0),
    Fixed("1/3"),
    Uniform(0.0, 0.02),
    TruncatedNormal(0.01, 0.005),
    TruncatedNormal(0.01, 0.005, low=0.008, high=0.011),
    Gamma(2.0, 0.003, minimum=0.001),
    SerialLine(115200, overhead=6),
    Empirical.of([0, 5_000_000, 40_000_000]),
]
MODELS: Sequence[LatencyModel] = [
    *PLAIN,
    Loss(Uniform(0.0, 0.02), 0.3),
    Duplicate(Uniform(0.0, 0.02), 0.3, gap=0.005),
    Reorder(Uniform(0.0, 0.02), 0.3, extra=0.05),
    Loss(Duplicate(Reorder(Fixed(0.001), 0.5, 0.01), 0.5), 0.5),
]
BOUNDED: Sequence[LatencyModel] = [
    m for m in PLAIN if isinstance(m, Uniform | TruncatedNormal | Gamma)
]
models = st.sampled_from(MODELS)
sends = st.lists(st.tuples(st.integers(0, 50_000_000), st.integers(0, 9_000_000)), max_size=40)


@pytest.mark.parametrize("model", MODELS, ids=repr)
def test_every_latency_model_keeps_the_contract(model: LatencyModel) -> None:
    check_latency(model)


def drive(model: LatencyModel, times: list[tuple[int, int]], seed: int = 1) -> list[Message]:
    """Send in order of time; everything that the bus told of, in the order in which it did."""
    told: list[Message] = []
    bus = Bus(RandomStreams(seed))
    bus.add(Topic("t", "sender", SIGNALS, model))
    at = 0
    for gap, compute in times:
        at += gap
        start = Tag(at)
        done = Tag(at + compute) if compute else start
        told += bus.send("t", start, done, np.array([float(at), 0.0]))
    arrived: list[Message] = []
    while bus.next_ns < NEVER.ns:
        ns = bus.next_ns
        batch = bus.due(Tag(ns, LAST_STEP))
        assert batch
        assert all(m.arrival.ns == ns for m in batch)
        arrived += batch
    alive = [m for m in told if m.status != LOST]
    assert sorted(map(id, arrived)) == sorted(map(id, alive)), "each arrives once"
    assert [m.arrival for m in arrived] == sorted(m.arrival for m in alive)
    return told


@pytest.mark.rule("three-stamps")
@given(models, sends)
def test_never_early(model: LatencyModel, times: list[tuple[int, int]]) -> None:
    for message in drive(model, times):
        assert message.initiated <= message.completed
        if message.status != LOST:
            assert message.arrival >= message.completed
            assert message.arrival > message.initiated


@pytest.mark.rule("never-lost-silently")
@given(models, sends)
def test_every_message_is_recorded_once(model: LatencyModel, times: list[tuple[int, int]]) -> None:
    first = [m for m in drive(model, times) if m.status != COPY]
    assert [m.sequence for m in first] == list(range(len(times)))


@pytest.mark.rule("fifo")
@given(st.sampled_from([m for m in MODELS if m.ordered]), sends)
def test_ordered_links_do_not_overtake(model: LatencyModel, times: list[tuple[int, int]]) -> None:
    # Completions are in order too where each computation takes the same time.
    same = [(gap, 1000) for gap, _ in times]
    arrivals = [m.arrival for m in drive(model, same) if m.status == 0]
    assert arrivals == sorted(arrivals)


def test_reorder_does_overtake() -> None:
    told = drive(Reorder(Fixed(0.001), 0.5, 0.05), [(1_000_000, 0)] * 50)
    arrivals = [m.arrival for m in told]
    assert arrivals != sorted(arrivals)


@given(models, sends, st.integers(0, 40))
def test_save_and_restore_in_flight(
    model: LatencyModel, times: list[tuple[int, int]], cut: int
) -> None:
    def sent(bus: Bus, streams: RandomStreams) -> tuple[Bus, RandomStreams]:
        bus.add(Topic("t", "sender", SIGNALS, model))
        return bus, streams

    streams = RandomStreams(3)
    bus, _ = sent(Bus(streams), streams)
    other_streams = RandomStreams(3)
    other, _ = sent(Bus(other_streams), other_streams)
    at = 0
    for i, (gap, compute) in enumerate(times):
        if i == cut:
            saved = json.loads(json.dumps([bus.save(), streams.save()]))
            other.restore(saved[0])
            other_streams.restore(saved[1])
        at += gap
        for one in (bus, other) if i >= cut else (bus,):
            one.send("t", Tag(at), Tag(at + compute), np.array([float(at), 1.0]))
    if cut < len(times):
        ours, theirs = bus.due(NEVER), other.due(NEVER)
        assert [m.stamps() for m in ours] == [m.stamps() for m in theirs]
        assert [m.payload.tolist() for m in ours] == [m.payload.tolist() for m in theirs]


def test_a_lost_message_delays_no_other() -> None:
    """Losing does not move the delays of what does arrive: both are always drawn."""
    times = [(30_000_000, 0)] * 200  # further apart than any delay, so that none waits for another
    every = {m.sequence: m.arrival for m in drive(Loss(Uniform(0.0, 0.02), 0.0), times)}
    lossy = drive(Loss(Uniform(0.0, 0.02), 0.4), times)
    lost = sum(m.status == LOST for m in lossy)
    assert 40 < lost < 120
    assert len(set(every.values())) == len(every) == 200
    for message in lossy:
        if message.status != LOST:
            assert message.arrival == every[message.sequence]


@pytest.mark.parametrize("spoiled", [0.3, 1.0])
def test_what_a_decorator_does_to_one_message_moves_no_delay_of_another(spoiled: float) -> None:
    inner = Uniform(0.0, 0.02)
    for model, extra in (
        (Duplicate(inner, spoiled, gap=0.005), 5_000_000),
        (Reorder(inner, spoiled, extra=0.05), 50_000_000),
    ):
        plain, streams = (RandomStreams(3).stream("x") for _ in range(2))
        quiet = type(model)(inner, 0.0, 0.01)
        seen = set()
        for _ in range(50):
            (delay,) = quiet.delays(plain, 8)
            delays = model.delays(streams, 8)
            assert delays in ((delay,), (delay, delay + extra), (delay + extra,))
            seen.add(len(delays) > 1 or delays[0] != delay)
        assert seen == ({True} if spoiled == 1.0 else {True, False})


@given(
    st.sampled_from(BOUNDED),
    st.integers(0, 2**32),
)
def test_draws_stay_within_their_support(model: LatencyModel, seed: int) -> None:
    stream = RandomStreams(seed).stream("x")
    for _ in range(20):
        (delay,) = model.delays(stream, 16)
        low = getattr(model, "low", getattr(model, "minimum", 0.0))
        high = getattr(model, "high", float("inf"))
        assert low * 1e9 - 1 <= delay <= high * 1e9 + 1


def test_means_are_what_the_parameters_say() -> None:
    """Two-sided at five standard errors, with a fixed seed."""
    stream = RandomStreams(5).stream("x")
    expected: Sequence[tuple[LatencyModel, float, float]] = [
        (Uniform(0.0, 0.02), 0.01, 0.02 / 12**0.5),
        (Gamma(2.0, 0.003, minimum=0.001), 0.007, 0.003 * 2**0.5),
        (TruncatedNormal(0.05, 0.005), 0.05, 0.005),
    ]
    for model, mean, deviation in expected:
        drawn = [model.delays(stream, 8)[0] / 1e9 for _ in range(4000)]
        assert abs(float(np.mean(drawn)) - mean) < 5 * deviation / 4000**0.5


@pytest.mark.parametrize(
    ("line", "size", "ns"),
    [
        (SerialLine(9600), 12, 12_500_000),
        (SerialLine(9600), 1, 1_041_667),  # 1041666.67 ns: the last bit is not there before
        (SerialLine(115200), 1, 86_806),  # 86805.56
        (SerialLine(115200), 8, 694_445),  # 694444.44: up, not to the nearest
        (SerialLine(115200, overhead=6), 2, 694_445),
        (SerialLine(115200, bits_per_byte=11), 1, 95_487),  # with parity: 95486.11
        (SerialLine(10), 1, 1_000_000_000),
        (SerialLine(9600), 0, 0),
    ],
)
def test_serial_line_counts_ten_bits_a_byte(line: SerialLine, size: int, ns: int) -> None:
    assert line.delays(RandomStreams(0).stream("x"), size) == (ns,)


@dataclass(frozen=True)
class Backwards:
    ordered = True

    def delays(self, stream: np.random.Generator, size_bytes: int) -> tuple[int, ...]:  # noqa: ARG002
        return (-1,)


def test_a_negative_delay_names_the_model_and_the_link() -> None:
    with pytest.raises(LatencyError, match=r"Backwards on topic t returned a delay of -1 ns"):
        drive(Backwards(), [(0, 0)])
    with pytest.raises(AssertionError, match="delay"):
        check_latency(Backwards())


@pytest.mark.parametrize(
    "make",
    [
        lambda: Fixed(-0.1),
        lambda: Uniform(0.2, 0.1),
        lambda: Uniform(-0.1, 0.1),
        lambda: TruncatedNormal(0.1, 0.0),
        lambda: TruncatedNormal(0.1, 0.001, low=5.0, high=6.0),
        lambda: Gamma(0.0, 1.0),
        lambda: SerialLine(0),
        lambda: Empirical(()),
        lambda: Empirical((-1,)),
        lambda: Loss(Fixed(0), 1.5),
        lambda: Duplicate(Fixed(0), float("nan")),
        lambda: Reorder(Fixed(0), 0.1, -1),
    ],
)
def test_impossible_parameters_are_refused(make: object) -> None:
    with pytest.raises(ScenarioError):
        make()  # type: ignore[operator]


def test_two_senders_of_one_topic_are_refused() -> None:
    bus = Bus(RandomStreams(0))
    bus.add(Topic("t", "a", SIGNALS))
    with pytest.raises(ScenarioError, match="two senders"):
        bus.add(Topic("t", "b", SIGNALS))
