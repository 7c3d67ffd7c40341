"""Properties of latency models and of the bus: never early, never lost without a record, fifo.

The bus: what it stamps, who waits for whom, in what order it hands out, what it keeps.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rtsim.components.bus import COPY, DELIVERED, LOST, LOST_ARRIVAL, STAMPS, Bus, Message, Topic
from rtsim.components.latency import (
    ZERO,
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
from rtsim.components.lines import Lines
from rtsim.components.medium import Carrier, Hop, Transmission
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


def test_means_follow_from_the_parameters() -> None:
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


ONE, TWO = Signals("a [1]"), Signals("a [1]", "b [1]")


class Script:
    """A link that takes what it is told, message by message: none is lost, two is a copy."""

    def __init__(self, *delays: tuple[int, ...], ordered: bool = True) -> None:
        self.ordered = ordered
        self.ahead = list(delays)
        self.sizes: list[int] = []

    def delays(self, stream: np.random.Generator, size_bytes: int) -> tuple[int, ...]:  # noqa: ARG002
        self.sizes.append(size_bytes)
        return self.ahead.pop(0)


class ToldBus(Bus):
    """One that keeps what there is to record."""

    def __init__(self, streams: RandomStreams, told: list[Message]) -> None:
        super().__init__(streams)
        self._told = told

    def send(self, *given: Any) -> list[Message]:
        sent = super().send(*given)
        self._told += sent
        return sent

    def inject(self, *given: Any) -> Message:
        message = super().inject(*given)
        self._told.append(message)
        return message


def bus_of(**transports: LatencyModel) -> tuple[Bus, list[Message]]:
    """A topic of its own sender for each."""
    told: list[Message] = []
    bus = ToldBus(RandomStreams(1), told)
    for name, transport in transports.items():
        bus.add(Topic(name, f"of {name}", ONE, transport))
    return bus, told


def at(bus: Bus, name: str, ns: int, value: float = 0.0, step: int = 0) -> None:
    bus.send(name, Tag(ns, step), Tag(ns, step), np.array([value]))


def handed_out(bus: Bus) -> list[tuple[Tag, str, int]]:
    return [(m.arrival, m.topic, m.sequence) for m in bus.due(NEVER)]


# -- stamps


def test_a_message_has_its_three_stamps_and_its_number() -> None:
    bus, told = bus_of(t=Fixed(1e-8))
    bus.send("t", Tag(5, 3), Tag(7, 0), np.array([2.5]))
    bus.send("t", Tag(8, 1), Tag(9, 2), np.array([3.5]))
    first, second = told
    assert first[:6] == ("t", "of t", 0, Tag(5, 3), Tag(7, 0), Tag(17, 0))
    assert (first.payload.tolist(), first.status) == ([2.5], DELIVERED)
    assert first.stamps() == (0, 5, 3, 7, 0, 17, 0, 0)
    assert len(first.stamps()) == len(STAMPS)
    assert dict(zip(STAMPS, second.stamps(), strict=True)) == {
        "sequence": 1, "initiated": 8, "initiated_step": 1, "completed": 9, "completed_step": 2,
        "arrival": 19, "arrival_step": 0, "status": 0,
    }  # fmt: skip
    assert Message("t", "s", 0, Tag(0), Tag(0), Tag(0), np.zeros(1)).status == DELIVERED


def test_each_topic_counts_for_itself() -> None:
    bus, told = bus_of(s=ZERO, t=ZERO)
    for name in "sstsst":
        at(bus, name, 0)
    assert [m.sequence for m in told] == [0, 1, 0, 2, 3, 1]


def test_a_message_is_a_copy_of_what_was_sent() -> None:
    bus, told = bus_of(t=ZERO)
    payload = np.array([1.0])
    bus.send("t", Tag(0), Tag(0), payload)
    bus.inject("t", Tag(0), payload)
    payload[0] = 9.0
    for message in told:
        assert message.payload.tolist() == [1.0]
        with pytest.raises(ValueError, match="read-only"):
            message.payload[0] = 2.0


def test_a_link_is_asked_with_the_bytes_of_the_payload() -> None:
    link = Script((1,), (1,))
    bus = Bus(RandomStreams(1))
    bus.add(Topic("one", "s", ONE, link))
    bus.add(Topic("two", "s", TWO, link))
    bus.send("one", Tag(0), Tag(0), np.zeros(1))
    bus.send("two", Tag(0), Tag(0), np.zeros(2))
    assert link.sizes == [8, 16]


# -- zero delays


@pytest.mark.parametrize(
    ("immediate", "initiated", "completed", "delay", "arrival"),
    [
        (False, Tag(5, 2), Tag(5, 2), 0, Tag(5, 3)),  # one zero delay: the next microstep
        (True, Tag(5, 2), Tag(5, 2), 0, Tag(5, 2)),  # a declared order: within the tag
        (False, Tag(4, 0), Tag(5, 0), 0, Tag(5, 0)),  # computing took time, travelling none
        (False, Tag(4, 9), Tag(5, 1), 0, Tag(5, 1)),
        (True, Tag(4, 0), Tag(5, 0), 0, Tag(5, 0)),
        (False, Tag(5, 2), Tag(5, 2), 1, Tag(6, 0)),
        (True, Tag(5, 2), Tag(5, 2), 1, Tag(6, 0)),
        (False, Tag(4, 0), Tag(5, 1), 3, Tag(8, 0)),
    ],
)
def test_the_whole_way_is_one_delay(
    immediate: bool, initiated: Tag, completed: Tag, delay: int, arrival: Tag
) -> None:
    bus, told = bus_of()
    bus.add(Topic("t", "s", ONE, Script((delay,)), immediate=immediate))
    bus.send("t", initiated, completed, np.zeros(1))
    assert told[0].arrival == arrival


# -- who waits for whom


def test_on_an_ordered_link_the_next_message_waits_but_not_for_a_copy() -> None:
    bus, told = bus_of(t=Script((50,), (10,), (10, 80), (20,), (), (1,)))
    for ns in (0, 10, 20, 30, 40, 45):
        at(bus, "t", ns)
    assert [(m.sequence, m.status, m.arrival.ns) for m in told] == [
        (0, DELIVERED, 50), (1, DELIVERED, 50), (2, DELIVERED, 50), (2, COPY, 100),
        (3, DELIVERED, 50), (4, LOST, -1), (5, DELIVERED, 50),
    ]  # fmt: skip
    assert told[5].arrival == LOST_ARRIVAL == (-1, 0)


def test_a_copy_waits_for_those_before_it() -> None:
    bus, told = bus_of(t=Script((50,), (60, 5)))
    at(bus, "t", 0)
    at(bus, "t", 1)
    assert [m.arrival.ns for m in told] == [50, 61, 61]


def test_on_a_link_that_gives_the_order_up_each_takes_its_own_time() -> None:
    bus, told = bus_of(t=Script((50,), (10,), (1,), ordered=False))
    for ns in (0, 10, 20):
        at(bus, "t", ns)
    assert [m.arrival.ns for m in told] == [50, 20, 21]
    assert [n for _, _, n in handed_out(bus)] == [1, 2, 0]


def test_a_link_that_is_ordered_again_waits_for_what_was_ordered_before() -> None:
    link = Script((50,), (90,), (10,))
    bus, told = bus_of(t=link)
    at(bus, "t", 0)
    link.ordered = False
    at(bus, "t", 1)
    link.ordered = True
    at(bus, "t", 2)
    assert [m.arrival.ns for m in told] == [50, 91, 50]


def test_topics_do_not_wait_for_each_other() -> None:
    bus, told = bus_of(s=Script((50,)), t=Script((10,)))
    at(bus, "s", 0)
    at(bus, "t", 1)
    assert [m.arrival.ns for m in told] == [50, 11]


# -- what is handed out


def test_arrivals_of_a_tag_are_delivered_by_source_topic_and_number() -> None:
    bus, _ = bus_of()
    for name, source in (("z", "a"), ("y", "b"), ("x", "b")):
        bus.add(Topic(name, source, ONE, Fixed(1e-8)))
    for name in "xyzxyz":
        at(bus, name, 0)
    tag = Tag(10)
    assert bus.due(Tag(9, 99)) == []
    assert [(m.source, m.topic, m.sequence) for m in bus.due(tag)] == [
        ("a", "z", 0), ("a", "z", 1), ("b", "x", 0), ("b", "x", 1), ("b", "y", 0), ("b", "y", 1),
    ]  # fmt: skip
    assert bus.due(tag) == []


def test_the_next_arrival_is_the_earliest_and_never_where_there_is_none() -> None:
    bus, _ = bus_of(t=Script((50,), (10,), ordered=False))
    assert bus.next_ns == NEVER.ns
    at(bus, "t", 0)
    assert bus.next_ns == 50
    at(bus, "t", 5, step=2)
    assert bus.next_ns == 15
    assert handed_out(bus) == [(Tag(15), "t", 1), (Tag(50), "t", 0)]
    assert bus.next_ns == NEVER.ns


def test_a_microstep_is_handed_out_by_itself() -> None:
    bus, _ = bus_of(t=ZERO)
    for step in (0, 1, 2):
        at(bus, "t", 7, step=step)
    assert [len(bus.due(Tag(7, step))) for step in range(4)] == [0, 1, 1, 1]


def test_messages_from_outside_arrive_at_once_and_count_as_sent() -> None:
    bus, told = bus_of(t=Script((), (30,)))
    bus.inject("t", Tag(3, 1), np.array([4.0]))
    at(bus, "t", 5)
    bus.inject("t", Tag(6), np.array([5.0]))
    assert [(m.sequence, m.status) for m in told] == [(0, DELIVERED), (1, LOST), (2, DELIVERED)]
    first = told[0]
    assert first.initiated == first.completed == first.arrival == Tag(3, 1)
    assert first.source == "of t"
    assert handed_out(bus) == [(Tag(3, 1), "t", 0), (Tag(6), "t", 2)]
    at(bus, "t", 7)
    assert told[-1].sequence == 3


def test_a_link_that_answers_nonsense_is_named() -> None:
    bus, _ = bus_of(t=Script((-1,)))
    with pytest.raises(LatencyError, match="Script on topic t returned a delay of -1 ns"):
        at(bus, "t", 0)
    with pytest.raises(
        ScenarioError, match="topic t has two senders; give one of the senders another name"
    ):
        bus.add(Topic("t", "x", ONE))


def test_nobody_has_to_listen() -> None:
    bus = Bus(RandomStreams(1))
    bus.add(Topic("t", "s", ONE))
    at(bus, "t", 0)
    assert len(bus.due(Tag(0, 1))) == 1


# -- what is kept


def test_messages_in_flight_are_saved_in_order_and_continue() -> None:
    delays = [(50,), (10, 90), (), (70,), (5,)]
    bus, _ = bus_of(s=Script(*delays), t=Script((20,), (5,)))
    for k in range(4):
        at(bus, "s", k, value=k + 0.5, step=k)
    at(bus, "t", 9, value=7.0)
    saved = json.loads(json.dumps(bus.save()))
    assert saved["sequence"] == {"s": 4, "t": 1}
    assert saved["last_arrival"] == {"s": [73, 0], "t": [29, 0]}
    assert [(m["topic"], m["sequence"], m["copy"], m["status"]) for m in saved["flight"]] == [
        ("t", 0, 0, 0), ("s", 0, 0, 0), ("s", 1, 0, 0), ("s", 3, 0, 0), ("s", 1, 1, COPY),
    ]  # fmt: skip
    assert saved["flight"][1] == {
        "topic": "s", "sequence": 0, "initiated": [0, 0], "completed": [0, 0],
        "arrival": [50, 0], "payload": [0.5], "status": 0, "copy": 0,
    }  # fmt: skip

    other, told = bus_of(s=Script((5,)), t=Script((5,), (5,)))
    at(other, "t", 0)  # what it had in flight is of another run
    told.clear()
    other.restore(saved)
    assert other.save() == bus.save()
    for one in (bus, other):
        at(one, "s", 60)
        at(one, "t", 60)
    assert [(m.sequence, m.arrival.ns) for m in told] == [(4, 73), (1, 65)]
    ours, theirs = bus.due(NEVER), other.due(NEVER)
    assert [m[:6] for m in ours] == [m[:6] for m in theirs]
    assert [m.status for m in ours] == [m.status for m in theirs]
    assert [m.payload.tolist() for m in ours] == [m.payload.tolist() for m in theirs]
    assert not any(m.payload.flags.writeable for m in theirs)


def test_what_is_saved_before_anything_was_sent_and_of_what_came_from_outside() -> None:
    bus, _ = bus_of(t=ZERO)
    assert bus.save() == {"sequence": {"t": 0}, "last_arrival": {"t": [-1, 0]}, "flight": []}
    bus.inject("t", Tag(3, 1), np.array([4.0]))
    (row,) = bus.save()["flight"]
    assert (row["sequence"], row["copy"], row["status"]) == (0, 0, DELIVERED)
    assert row["initiated"] == row["completed"] == row["arrival"] == [3, 1]


def test_saved_state_does_not_change_with_the_run() -> None:
    bus, _ = bus_of(t=Fixed(1e-8))
    at(bus, "t", 0)
    saved = bus.save()
    before = json.dumps(saved)
    at(bus, "t", 1)
    bus.due(NEVER)
    assert json.dumps(saved) == before
    bus.restore(saved)
    at(bus, "t", 2)
    assert json.dumps(saved) == before


def test_the_numbers_of_a_recorded_status() -> None:
    assert (DELIVERED, LOST, COPY) == (0, 1, 2)


def test_a_bus_without_media_never_transmits() -> None:
    bus, _ = bus_of(t=ZERO)
    assert bus.next_transmission_ns == NEVER.ns
    assert bus.transmit(0) == []


def test_messages_of_some_topics_are_taken_in_their_order_and_put_back() -> None:
    bus, told = bus_of(s=Script((50,), (10,), ordered=False), t=Script((5,)), u=Script((20,)))
    for name in "sstu":
        at(bus, name, 0)
    taken = bus.take({"s", "u"})
    assert taken == [told[1], told[3], told[0]]
    assert bus.arrivals_except(set()) == [5]
    assert bus.arrivals_except({"t"}) == []
    bus.put(taken)
    assert handed_out(bus) == [
        (Tag(5), "t", 0),
        (Tag(10), "s", 1),
        (Tag(20), "u", 0),
        (Tag(50), "s", 0),
    ]


class OfWire(NamedTuple):
    """A transport on a medium of its own: ready after ``wait_ns``, one more on the way."""

    wait_ns: int
    ordered: bool = True

    @property
    def medium(self) -> Any:
        start = lambda streams: Lines("wire")  # noqa: ARG005, E731
        return SimpleNamespace(name="wire", check=lambda topics: None, start=start)  # noqa: ARG005

    def carrier(self, signals: Signals, topic: str) -> Carrier:  # noqa: ARG002
        return lambda values: Transmission((0,), (Hop(1),), values)

    def delays(self, stream: np.random.Generator, size_bytes: int) -> tuple[int, ...]:  # noqa: ARG002
        return (self.wait_ns,)


def test_a_message_competes_for_its_medium_from_the_end_of_its_delay() -> None:
    bus = Bus(RandomStreams(1))
    bus.add(Topic("t", "s", ONE, OfWire(50)))
    assert bus.send("t", Tag(100), Tag(120), np.zeros(1)) == []
    assert bus.next_transmission_ns == 170
    assert bus.transmit(169) == []
    (message,) = bus.transmit(170)
    assert (message.completed, message.arrival) == (Tag(120), Tag(171))
