"""The wireless channel: backoff, collisions, repetitions and bursts of loss."""

from __future__ import annotations

from math import exp, sqrt

import numpy as np
import pytest

from rtsim.components.bus import LOST, Bus, Message, Topic
from rtsim.components.medium import FULL
from rtsim.components.networks.wireless import (
    COLLIDED,
    NO_ANSWER,
    NO_CHANNEL,
    GilbertElliott,
    WirelessChannel,
    WirelessFrame,
)
from rtsim.core.errors import ScenarioError
from rtsim.core.random_streams import RandomStreams
from rtsim.core.signals import Signals
from rtsim.core.tag import NEVER, Tag

US = 1000
UNIT, SENSING, TURNAROUND, WAIT = 320 * US, 128 * US, 192 * US, 864 * US
"""Times of IEEE 802.15.4 at 250 kbit/s (20, 8, 12 and 54 symbols of 16 us)."""
BYTE = 32 * US
FRAME = (6 + 11 + 8) * BYTE
"""Duration of a frame with 8 bytes of data."""
ACK = 11 * BYTE
FIXED = {"exponents": (0, 0)}
"""Without random backoff."""


def carried(
    sent: list[tuple[int, str]], **frames: WirelessFrame
) -> tuple[list[Message], dict[str, dict[str, int]]]:
    """Send a message of a topic at each time (ns); return all messages, and the lost ones."""
    bus = Bus(RandomStreams(5))
    for name, frame in frames.items():
        bus.add(Topic(name, name, Signals("x [1]"), frame))
    found: list[Message] = []
    for ns, topic in [*sent, (NEVER.ns, "")]:
        while bus.next_transmission_ns < ns:
            found += bus.transmit(bus.next_transmission_ns)
        if topic:
            bus.send(topic, Tag(ns), Tag(ns), np.zeros(1))
    return found, bus.lost_on_media().get("wireless", {})


def latencies(messages: list[Message]) -> list[int]:
    return [m.arrival.ns - m.completed.ns for m in messages if m.status != LOST]


def test_a_lone_node_waits_for_three_and_a_half_backoff_periods_on_average() -> None:
    """Uniform from 0 to 7 periods, then sensing, turnaround and frame."""
    count = 3000
    sent = [(k * 20_000_000, "a") for k in range(count)]
    found, lost = carried(sent, a=WirelessChannel().frame())
    periods = [(ns - SENSING - TURNAROUND - FRAME) / UNIT for ns in latencies(found)]
    assert (len(periods), lost) == (count, {})
    assert set(periods) == set(range(8))
    assert np.mean(periods) == pytest.approx(3.5, abs=4 * sqrt(63 / 12 / count))


def test_messages_of_one_node_follow_its_acknowledgements() -> None:
    """Short frames (up to 18 bytes) are followed by 12 symbols, longer ones by 40."""
    air = WirelessChannel(**FIXED)  # type: ignore[arg-type]
    first = SENSING + TURNAROUND
    for length, spacing in ((7, 12), (8, 40)):
        frame = (6 + 11 + length) * BYTE
        found, _ = carried([(0, "a"), (0, "a")], a=air.frame(length=length))
        free = first + frame + TURNAROUND + ACK + spacing * 16 * US
        assert latencies(found) == [first + frame, free + first + frame]


def test_two_nodes_that_sense_at_once_collide_until_they_give_up() -> None:
    found, lost = carried(
        [(0, "a"), (0, "b")],
        a=WirelessChannel(**FIXED).frame(),  # type: ignore[arg-type]
        b=WirelessChannel(**FIXED).frame(),  # type: ignore[arg-type]
    )
    assert [m.status for m in found] == [LOST, LOST]
    assert lost == {NO_ANSWER: {"a": 1, "b": 1}}


def test_two_nodes_with_one_message_each_collide_if_they_draw_the_same_backoff() -> None:
    """One of eight periods each; a period is longer than sensing and turnaround together."""
    air, count = WirelessChannel(acknowledge=False), 1500
    sent = [(k * 50_000_000, name) for k in range(count) for name in "ab"]
    lost = carried(sent, a=air.frame(), b=air.frame())[1]
    assert lost[COLLIDED]["a"] == lost[COLLIDED]["b"]
    share = lost[COLLIDED]["a"] / count
    assert share == pytest.approx(1 / 8, abs=4 * sqrt(7 / 64 / count))


def test_a_collision_needs_a_second_sensing_within_the_turnaround() -> None:
    """A node that ends its sensing up to 192 us later does not hear the first one yet."""
    air = WirelessChannel(acknowledge=False, **FIXED)  # type: ignore[arg-type]
    for later, lost in (
        (TURNAROUND, {COLLIDED: {"a": 1, "b": 1}}),
        (TURNAROUND + 1, {NO_CHANNEL: {"b": 1}}),  # five times busy
    ):
        assert carried([(0, "a"), (later, "b")], a=air.frame(), b=air.frame())[1] == lost


def test_a_node_gives_up_after_five_busy_sensings() -> None:
    air = WirelessChannel(**FIXED)  # type: ignore[arg-type]
    found, lost = carried([(0, "a"), (500 * US, "b")], a=air.frame(length=116), b=air.frame())
    assert lost == {NO_CHANNEL: {"b": 1}}
    assert latencies(found) == [SENSING + TURNAROUND + (6 + 127) * BYTE]


def test_a_frame_that_begins_in_the_turnaround_destroys_an_acknowledgement() -> None:
    """The message has arrived, so its repetitions are no further messages.

    Without random backoff, the frames of the other node meet each acknowledgement.
    """
    air = WirelessChannel(**FIXED)  # type: ignore[arg-type]
    end = SENSING + TURNAROUND + FRAME
    found, lost = carried([(0, "a"), (end + 20 * US, "b")], a=air.frame(), b=air.frame())
    assert [(m.topic, m.arrival.ns) for m in found] == [("a", end), ("b", -1)]
    assert lost == {NO_ANSWER: {"b": 1}}


def test_a_full_queue_of_a_node_drops_the_newest_message() -> None:
    air = WirelessChannel(queue=2)
    found, lost = carried([(0, "a")] * 5, a=air.frame())
    assert lost == {FULL: {"a": 2}}
    assert sorted(m.sequence for m in found if m.status == LOST) == [3, 4]


def test_other_nodes_do_not_change_the_random_numbers_of_a_node() -> None:
    """Messages are far apart, so that the nodes never meet."""
    air = WirelessChannel(bursts=GilbertElliott(0.1, 0.1))
    mine = [(k * 200_000_000, "a") for k in range(50)]
    both = sorted([*mine, *((ns + 100_000_000, "b") for ns, _ in mine)])
    alone, _ = carried(mine, a=air.frame())
    found, _ = carried(both, a=air.frame(), b=air.frame())
    assert [m.arrival for m in found if m.topic == "a"] == [m.arrival for m in alone]


# Gilbert-Elliott

BURSTS = GilbertElliott(good=0.2, bad=0.05)
PERIOD_S, COUNT = 0.01, 20_000


def bursts_of(losses: list[bool]) -> list[int]:
    """Return the lengths of all sequences of losses."""
    text = "".join("x" if lost else " " for lost in losses)
    return [len(burst) for burst in text.split()]


@pytest.fixture(scope="module")
def losses() -> list[bool]:
    """Losses of a sender with a fixed period, without backoff and repetitions."""
    air = WirelessChannel(bursts=BURSTS, acknowledge=False, **FIXED)  # type: ignore[arg-type]
    sent = [(round(k * PERIOD_S * 1e9), "a") for k in range(COUNT)]
    found, _ = carried(sent, a=air.frame())
    return [m.status == LOST for m in sorted(found, key=lambda m: m.sequence)]


def test_the_loss_rate_is_that_of_the_stationary_chain(losses: list[bool]) -> None:
    """Share of the bad state 0.05 / 0.25; the states of successive frames are correlated."""
    share, together = 0.2, exp(-PERIOD_S * (1 / 0.2 + 1 / 0.05))
    assert BURSTS.loss == pytest.approx(share)
    deviation = sqrt(share * (1 - share) / COUNT * (1 + together) / (1 - together))
    assert np.mean(losses) == pytest.approx(share, abs=4 * deviation)


def test_the_mean_length_of_a_burst_is_that_of_the_chain(losses: list[bool]) -> None:
    """Bursts have a geometric distribution: 1/r frames on average, where r leaves the bad state."""
    r = 1 - BURSTS.bad_after(True, PERIOD_S)
    assert r == pytest.approx(0.8 * (1 - exp(-0.25)))
    lengths = bursts_of(losses)
    assert len(lengths) > 500
    deviation = sqrt(1 - r) / r / sqrt(len(lengths))
    assert np.mean(lengths) == pytest.approx(1 / r, abs=4 * deviation)


def test_losses_of_both_states_are_independent_of_each_other() -> None:
    mixed = GilbertElliott(good=3, bad=1, loss_good=0.1, loss_bad=0.5)
    assert mixed.loss == pytest.approx(0.75 * 0.1 + 0.25 * 0.5)
    assert mixed.bad_after(True, 0.0) == 1.0
    assert mixed.bad_after(False, 1e6) == pytest.approx(0.25)


def test_repetitions_outlast_a_short_burst() -> None:
    """With three repetitions over about 15 ms, most bursts of 5 ms on average lose nothing."""
    bursts = GilbertElliott(good=0.02, bad=0.005)
    sent = [(k * 50_000_000, "a") for k in range(1000)]
    rates = {}
    for acknowledge in (False, True):
        air = WirelessChannel(bursts=bursts, acknowledge=acknowledge)
        found, lost = carried(sent, a=air.frame())
        rates[acknowledge] = sum(m.status == LOST for m in found) / len(sent)
        assert set(lost) == {NO_ANSWER if acknowledge else "the channel was bad"}
    assert rates[False] == pytest.approx(0.2, abs=0.06)
    assert rates[True] < 0.25 * rates[False]


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: GilbertElliott(0, 1), "give durations > 0"),
        (lambda: GilbertElliott(1, 1, loss_bad=2.0), "loss_bad = 2.0 is not a probability"),
        (lambda: WirelessChannel(9), "bitrate = 9; give a whole number >= 1000"),
        (lambda: WirelessChannel(exponents=(5, 3)), "smallest <= largest"),
        (lambda: WirelessChannel(queue=0), "queue >= 1"),
        (lambda: carried([], a=WirelessChannel().frame(length=117)), "has at most 116"),
    ],
)
def test_a_wrong_channel_is_explained(make: object, said: str) -> None:
    with pytest.raises(ScenarioError, match=said):
        make()  # type: ignore[operator]
