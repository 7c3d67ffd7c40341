"""Switched Ethernet, time division and LIN: latencies against tables that are computed by hand.

Network files, faults, and the conformance of every kind of medium.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import pytest
from command_line import rtsim
from frame_parts import frame_files

from rtsim.components.can_bus import CanBus
from rtsim.components.controller import PythonController
from rtsim.components.latency import Loss
from rtsim.components.medium import CORRUPTED, FULL, REPLACED, PeriodicSender, SharedTransport
from rtsim.components.networks import MEDIA, read_networks
from rtsim.components.networks.ethernet import Ethernet, EthernetLink, frame_bytes
from rtsim.components.networks.lin import LinBus
from rtsim.components.networks.time_division import TimeDivision
from rtsim.components.networks.wireless import GilbertElliott, WirelessChannel
from rtsim.core.errors import ScenarioError, UnknownName
from rtsim.core.random_streams import RandomStreams
from rtsim.core.signals import Signals
from rtsim.engine.checkpoint.file import Ring
from rtsim.engine.checkpoint.schedule import CheckpointSchedule
from rtsim.models.unstable import scenario as unstable
from rtsim.record.recorders import MemoryRecorder
from rtsim.record.replay_comparison import compare_exact
from rtsim.runs.prepared import prepare
from rtsim.runs.replay import rerun
from rtsim.runs.result import RunResult
from rtsim.runs.simulation import simulate
from rtsim.scenario.scenario import Scenario
from rtsim.testing.determinism import trace_of
from rtsim.testing.media import check_medium

US, MS = 1000, 1_000_000
Transports = Mapping[str, SharedTransport]


def media() -> dict[str, tuple[Transports, float]]:
    """Return transports on each kind of medium, and the duration of a transmission in s."""
    can = CanBus(500_000)
    net = Ethernet(
        100_000_000, links=(("p", "s"), ("q", "s"), ("s", "t"), ("t", "r")),
        switch_latency=2e-6, propagation=1e-7, queue=2,
    )  # fmt: skip
    flexray = TimeDivision.flexray(0.005, 50e-6, 60)
    slots = TimeDivision(1_000_000, (0.001, 0.0005, 0.002), offset=1e-5)
    lin = LinBus(((1, 0.01), (2, 0.01), (1, 0.01)))
    air = WirelessChannel(bursts=GilbertElliott(0.1, 0.05, 0.01, 0.9), queue=4)
    return {
        "can": ({f"n{k}": can.frame(k) for k in range(3)}, 3e-4),
        "ethernet": (
            {
                "high": net.frame("p", "r", priority=6, length=1400),
                "low": net.frame("q", "r", length=1400),
                "back": net.frame("r", "p"),
            },
            1e-4,
        ),
        "flexray": (
            {"a": flexray.frame((1, 40)), "b": flexray.frame(2, every=4, first=1, keep="all")},
            5e-3,
        ),
        "time_division": ({"a": slots.frame(1), "b": slots.frame(3, keep="all")}, 2e-3),
        "lin": ({"a": lin.frame(1), "b": lin.frame(2, length=2)}, 1e-2),
        "wireless": (
            {"a": air.frame(), "b": air.frame(node="n"), "c": air.frame(node="n", length=100)},
            3e-3,
        ),
    }


def test_every_kind_of_medium_has_a_case() -> None:
    assert set(MEDIA) == set(media())


@pytest.mark.parametrize("kind", sorted(media()))
@pytest.mark.rule("shared-medium")
def test_every_medium_passes_the_check(kind: str) -> None:
    transports, gap = media()[kind]
    check_medium(transports, gap=gap, count=120)


def senders(until: float, **sent: tuple[Any, Any, Any]) -> Scenario:
    """Return a scenario with sensors: transport, period (s) and offset (s) of each."""
    out = Scenario("senders", until=until)
    out.source("car", Signals("x [1]"), {"x": 1.0})
    for name, (transport, period, offset) in sent.items():
        out.sensor(name, {"x": "car.x"}, period=period, offset=offset, transport=transport)
    return out


def arrivals(scenario: Scenario) -> dict[str, list[int]]:
    """Run the scenario; return the arrivals (ns) by sender, -1 for a lost message."""
    recording = trace_of(scenario)
    names = [n.removeprefix("messages/") for n in recording.tracks if n.startswith("messages/")]
    tracks = {name: recording.track(f"messages/{name}") for name in names}
    return {
        name: [
            int(ns)
            for _, ns in sorted(zip(t.integer("sequence"), t.integer("arrival"), strict=True))
        ]
        for name, t in tracks.items()
    }


def outcome(scenario: Scenario) -> RunResult:
    return simulate(scenario, compile=False)


# Ethernet.  At 100 Mbit/s, a byte takes 80 ns.

LONG = (8 + 1518) * 80
"""Preamble and frame of 1500 bytes of data, ns; the link is busy 12 bytes longer: 123.04 us."""


def test_a_frame_has_the_bytes_of_ieee_802_3() -> None:
    assert [frame_bytes(n, False) for n in (0, 46, 47, 1500)] == [64, 64, 65, 1518]
    assert [frame_bytes(n, True) for n in (42, 43, 1500)] == [64, 65, 1522]
    assert LONG + 12 * 80 == 123_040


def test_a_switch_stores_a_whole_frame_before_it_sends_the_frame() -> None:
    net = Ethernet(100_000_000, switch_latency=5e-6, propagation=500e-9)
    found = arrivals(senders(0.01, a=(net.frame("p", "q", length=1500), 1, 0)))
    assert found["a"] == [2 * LONG + 5 * US + 2 * 500]
    short = Ethernet(100_000_000)
    assert arrivals(senders(0.01, a=(short.frame("p", "q"), 1, 0)))["a"] == [2 * (8 + 64) * 80]


def test_each_link_has_its_own_rate_and_delay() -> None:
    trunk = EthernetLink("left", "right", 1_000_000_000, propagation=2e-6)
    net = Ethernet(100_000_000, links=(("a", "left"), trunk, ("right", "b")))
    frame = net.frame("a", "b", length=1500, priority=3)
    tagged = 8 + 1522
    assert arrivals(senders(0.01, s=(frame, 1, 0)))["s"] == [2 * tagged * 80 + tagged * 8 + 2 * US]


def test_frames_of_one_port_keep_the_inter_frame_gap() -> None:
    net = Ethernet(100_000_000)
    frame = net.frame("a", "b", length=1500)
    found = arrivals(senders(0.01, x=(frame, 1, 0), y=(frame, 1, 0)))
    assert (found["x"], found["y"]) == ([2 * LONG], [2 * LONG + 123_040])


@pytest.mark.rule("shared-medium")
def test_a_frame_of_high_priority_waits_for_one_frame_only() -> None:
    """The port to d is busy with a frame of a, when those of b and, 1 ns later, of c arrive."""
    net = Ethernet(100_000_000)
    a, b = (net.frame(name, "d", length=1500, priority=0) for name in "ab")
    c = net.frame("c", "d", length=1500, priority=7)
    scenario = senders(0.01, a=(a, 1, 0), b=(b, 1, 0), c=(c, 1, 1e-9))
    found = arrivals(scenario)
    one, busy = (8 + 1522) * 80, (8 + 1522 + 12) * 80
    assert found["a"] == [2 * one]
    assert found["c"] == [one + busy + one]
    assert found["b"] == [one + 2 * busy + one]


def test_both_directions_of_a_link_are_independent() -> None:
    net = Ethernet(100_000_000)
    found = arrivals(
        senders(
            0.01,
            there=(net.frame("a", "b", length=1500), 1, 0),
            back=(net.frame("b", "a", length=1500), 1, 0),
        )
    )
    assert found["there"] == found["back"] == [2 * LONG]


def test_a_full_queue_drops_the_newest_frame_of_its_priority_and_counts_it() -> None:
    """Five frames reach a port at once: one is sent, one waits, and two of priority 0 are lost."""
    net = Ethernet(100_000_000, "lan", queue=1)
    sent = {f"s{k}": (net.frame(f"s{k}", "d", length=1500), 1.0, 0.0) for k in range(4)}
    scenario = senders(0.01, **sent, urgent=(net.frame("u", "d", length=1496, priority=5), 1, 0))
    found = arrivals(scenario)
    assert found["urgent"] == [2 * LONG]
    assert [name for name, ns in found.items() if ns == [-1]] == ["s1", "s2", "s3"]
    result = outcome(scenario)
    assert result.lost_messages == {"lan": {FULL: {"s1": 1, "s2": 1, "s3": 1}}}
    assert result.warnings == ["senders whose messages met a full queue of lan: s1, s2, s3"]


def test_random_frames_at_one_port_arrive_as_in_an_independent_simulation() -> None:
    """Forty frames of random length, priority and time, from one station to another."""
    stream = RandomStreams(8).stream("frames")
    net = Ethernet(10_000_000)
    sent: dict[str, tuple[int, int, int]] = {}
    scenario = Scenario("port", until=0.06)
    scenario.source("car", Signals("x [1]"))
    for k in range(40):
        ready, priority, length = (int(stream.integers(n)) for n in (12_000_000, 8, 1501))
        sent[f"f{k:02}"] = ready, priority, max(64, 22 + length)
        frame = net.frame(f"s{k}", "d", priority=priority, length=length)
        offset = f"{ready}/1000000000"
        scenario.sensor(f"f{k:02}", {"x": "car.x"}, period=1, offset=offset, transport=frame)
    byte = 800  # ns at 10 Mbit/s
    at_port = {n: ready + (8 + size) * byte for n, (ready, _, size) in sent.items()}
    expected, free = {}, 0
    while at_port:
        now = max(free, min(at_port.values()))
        here = [name for name, ns in at_port.items() if ns <= now]
        name = min(here, key=lambda one: (-sent[one][1], at_port[one], one))
        size = sent[name][2]
        expected[name] = now + (8 + size) * byte
        free = expected[name] + 12 * byte
        del at_port[name]
    assert arrivals(scenario) == {name: [ns] for name, ns in expected.items()}


# Time division.  A FlexRay frame of 8 bytes has 5 + 1 + 80 + 80 + 2 = 168 bits: 16.8 us and 1 us.

FLEXRAY = TimeDivision.flexray(cycle=0.005, slot=50e-6, count=60)


def test_a_message_waits_for_its_slot_and_newer_values_replace_older_ones() -> None:
    """Slot 3 begins at 0.1 ms in each cycle of 5 ms; a message comes every ms."""
    scenario = senders(0.012, a=(FLEXRAY.frame(3), 0.001, 0))
    end = 100 * US + 17_800
    lost = [-1] * 4
    assert arrivals(scenario)["a"] == [end, *lost, 5 * MS + end, *lost, 10 * MS + end, -1]
    result = outcome(scenario)
    assert result.lost_messages == {"flexray": {REPLACED: {"a": 9}}}
    assert result.warnings == []
    assert result.waiting == {"flexray": {"a": 1}}


def test_a_bus_that_keeps_all_messages_sends_them_in_successive_slots() -> None:
    scenario = senders(0.011, a=(FLEXRAY.frame((3, 33), keep="all"), 0.003, 0))
    starts = [100 * US, 5 * MS + 100 * US, 6 * MS + 600 * US, 10 * MS + 100 * US]
    assert arrivals(scenario)["a"] == [ns + 17_800 for ns in starts]


def test_slots_can_belong_to_some_cycles_only() -> None:
    a, b = FLEXRAY.frame(1, every=4, first=1), FLEXRAY.frame(1, every=2)
    found = arrivals(senders(0.03, a=(a, 1, 0), b=(b, 1, 0.0051)))
    assert found == {"a": [5 * MS + 17_800], "b": [10 * MS + 17_800]}


def test_unequal_slots_of_a_round_begin_one_after_another() -> None:
    round_ = TimeDivision(1_000_000, (0.001, 0.0005, 0.002), overhead=32)
    found = arrivals(senders(0.008, a=(round_.frame(1), 1, 0), c=(round_.frame(3), 1, 1.5e-3)))
    assert found == {"a": [96 * US], "c": [1500 * US + 96 * US]}


def test_a_message_that_is_ready_when_its_slot_begins_is_sent_in_this_slot() -> None:
    offsets = (0.0001, 0.000100001)
    found = [arrivals(senders(0.01, a=(FLEXRAY.frame(3), 1, at)))["a"] for at in offsets]
    assert found == [[117_800], [5 * MS + 117_800]]
    older = arrivals(senders(0.0001, a=(FLEXRAY.frame(3), 50e-6, 0)))
    assert older["a"][:2] == [-1, -1], "the newest message came when the slot began"


# LIN at 19200 bit/s

LIN = LinBus(((0x10, 0.01), (0x11, 0.01), (0x10, 0.015)), 19_200)


@pytest.mark.parametrize(
    ("length", "nominal", "longest"),
    [(1, 2_812_500, 3_937_500), (2, 3_333_334, 4_666_667), (8, 6_458_334, 9_041_667)],
)
def test_a_lin_frame_has_the_duration_of_the_specification(
    length: int, nominal: int, longest: int
) -> None:
    """Nominal 34 + 10 (n + 1) bits, at most 1.4 times as long."""
    for timing, expected in (("nominal", nominal), ("maximum", longest)):
        bus = LinBus(((0x10, 0.01),), 19_200, timing=timing)
        found = arrivals(senders(0.01, a=(bus.frame(0x10, length=length), 1, 0)))
        assert found["a"] == [expected]


def test_a_lin_frame_waits_for_its_place_in_the_schedule() -> None:
    """The schedule has 35 ms: frame 0x10 at 0 and 20 ms, frame 0x11 at 10 ms."""
    scenario = senders(
        0.06, a=(LIN.frame(0x10, length=2), 0.03, 0.001), b=(LIN.frame(0x11), 0.035, 0)
    )
    found = arrivals(scenario)
    assert found["a"] == [20 * MS + 3_333_334, 35 * MS + 3_333_334]
    assert found["b"] == [10 * MS + 6_458_334, 45 * MS + 6_458_334]


# Loads, latencies and mistakes


def test_no_latency_of_a_slot_exceeds_the_printed_one_and_one_reaches_it() -> None:
    longest = LinBus(LIN.schedule, timing="maximum")
    for frame in (FLEXRAY.frame((3, 20)), longest.frame(0x10)):
        (row,) = frame.bus.load([PeriodicSender("a", frame, 10**9, 1)])  # type: ignore[attr-defined]
        bound = row.worst_latency_ns
        found = []
        for start in frame.openings.starts:
            at = start + 1
            ns = arrivals(senders(0.1, a=(frame, 1, f"{at}/1000000000")))["a"][0]
            found.append(ns - at)
        assert max(found) == bound - 1


def test_an_ethernet_load_has_a_row_for_each_link() -> None:
    net = Ethernet(100_000_000)
    rows = net.load([PeriodicSender("a", net.frame("p", "q", length=1500), 1_230_400, 1)])
    assert [r.line for r in rows] == ["p to switch", "switch to q"]
    assert [r.load for r in rows] == pytest.approx([0.1, 0.1])


NET = Ethernet(links=(("a", "s"), ("s", "b")))


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: Ethernet(7), "bit rate of 7 is not valid"),
        (lambda: Ethernet(queue=0), "queue = 0; give a whole number >= 1"),
        (lambda: Ethernet(links=(("a", "b"), ("b", "c"), ("c", "a"))), "from c to a closes a loop"),
        (lambda: Ethernet(links=cast(Any, ("ab",))), "'ab' is not a link; give a pair"),
        (lambda: Ethernet(links=cast(Any, (("a",),))), "is not a link; give a pair of names"),
        (lambda: NET.frame("a", "a"), "a sends to itself"),
        (lambda: Ethernet().frame("a", "switch"), "give the station another name, or declare"),
        (lambda: NET.frame("a", "x"), "unknown station 'x' in ethernet"),
        (lambda: NET.frame("a", "b", priority=8), "priority = 8; give a number from 0 to 7"),
        (lambda: senders(1, a=(NET.frame("a", "b", length=1501), 1, 0)).build(), "1501 bytes"),
        (lambda: TimeDivision(1_000, (0.1,), cycle=0.05), "take 100 ms, but the cycle is 50 ms"),
        (lambda: TimeDivision(1_000, ()), "give at least one duration"),
        (lambda: FLEXRAY.frame(61), "flexray has the slots 1 to 60; slot = 61 is not valid"),
        (lambda: FLEXRAY.frame(1, length=100), "takes 109.8 us, but slot 1 has 50 us"),
        (lambda: FLEXRAY.frame(1, every=2, first=2), "first from 0 to every - 1"),
        (lambda: FLEXRAY.frame(1, keep="oldest"), "keep = 'oldest'; choose 'newest' or 'all'"),
        (lambda: LinBus(((0x3E, 0.01),)), "give an identifier from 0 to 0x3d"),
        (lambda: LinBus(((1, 0.01),), 50_000), "from 1000 to 20000"),
        (lambda: LinBus(((1, 0.005),)).frame(1), "takes up to 9.04167 ms, but its slot has 5 ms"),
        (lambda: LIN.frame(0x12), "schedule of lin has no frame 0x12; it has 0x10, 0x11"),
        (lambda: LIN.frame(0x10, length=9), "from 1 to 8 bytes of data, not 9"),
    ],
)  # fmt: skip
def test_a_wrong_network_is_explained(make: Any, said: str) -> None:
    with pytest.raises(ScenarioError, match=said):
        make()


def test_two_senders_of_one_slot_are_named() -> None:
    same = {"a": (FLEXRAY.frame(2, every=2), 1, 0), "b": (FLEXRAY.frame((1, 2), every=4), 1, 0)}
    with pytest.raises(ScenarioError, match="a and b both send in slot 2 of flexray"):
        senders(1, **same).build()
    twice = {name: (LIN.frame(0x10), 1, 0) for name in "ab"}
    with pytest.raises(ScenarioError, match="a and b both send the frame 0x10 on lin"):
        senders(1, **twice).build()
    with pytest.raises(ScenarioError, match="a and b declare ethernet differently"):
        senders(1, a=(NET.frame("a", "b"), 1, 0), b=(Ethernet().frame("a", "b"), 1, 0)).build()


# Network files


def test_a_network_file_gives_the_transports_of_its_messages(tmp_path: Path) -> None:
    frame_files(tmp_path)
    path = tmp_path / "net.toml"
    path.write_text(
        """
[lan]
kind = "ethernet"
links = [["a", "s"], { a = "s", b = "b", bitrate = 1_000_000_000 }]
frames.video = { source = "a", to = "b", priority = 2, length = 1000 }
[chassis]
kind = "can"
bitrate = 250_000
frames.speed = { of = 0x120, length = 2 }
frames.engine = { of = "car.dbc:Engine" }
[doors]
kind = "lin"
schedule = [["0x10", 0.01], [17, 0.01]]
frames.window = { of = 0x10, length = 2 }
[air]
kind = "wireless"
bursts = { good = 1, bad = 0.1 }
frames.tank = {}
"""
    )
    found = read_networks(path)
    links = (("a", "s"), EthernetLink("s", "b", 1_000_000_000))
    lan = Ethernet(name="lan", links=links)
    assert found["lan"]["video"] == lan.frame("a", "b", priority=2, length=1000)
    assert found["chassis"]["speed"] == CanBus(250_000, "chassis").frame(0x120, length=2)
    assert "Engine, car.dbc sha256" in repr(found["chassis"]["engine"])
    doors = LinBus(((0x10, 0.01), (17, 0.01)), name="doors")
    assert found["doors"]["window"] == doors.frame(0x10, length=2)
    air = WirelessChannel(name="air", bursts=GilbertElliott(1, 0.1))
    assert (found["air"].medium, dict(found["air"])) == (air, {"tank": air.frame()})
    with pytest.raises(UnknownName, match=r"unknown message 'audio' in lan of .*net.toml"):
        found["lan"]["audio"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "describes no medium; write a table"),
        ("a = 1", r":1: a is not a table; write a table \[a\] with a kind"),
        ("[a]\nkind = 'token_ring'", r":2: a: unknown kind of medium 'token_ring'; known: can"),
        ("[a]\nkind = 'can'\nbitrate = 7", r":2: a: CanBus\(7\): the bit rate"),
        ("[a]\nkind = 'lin'\nbit_rate = 7", r":2: a: unknown key 'bit_rate'; did you mean bitrate"),
        (
            "[a]\nkind = 'wireless'\n[a.frames]\nx = { size = 3 }",
            r":4: a.frames: unknown key 'size'; known: ",
        ),
    ],
)
def test_a_mistake_in_a_network_file_is_named_with_its_line(
    tmp_path: Path, text: str, said: str
) -> None:
    path = tmp_path / "net.toml"
    path.write_text(text)
    with pytest.raises(ScenarioError, match=said):
        read_networks(path)


# Faults


def corrupted(transport: Any) -> tuple[list[int], object]:
    scenario = senders(0.059, a=(transport, 0.02, 0))
    error = {"name": "e", "where": "a", "kind": "error_frame", "at": 0.02, "count": 1}
    scenario.faults(error)
    return arrivals(scenario)["a"], outcome(scenario).lost_messages


def test_a_corrupted_frame_is_lost_where_nobody_repeats_it() -> None:
    for transport in (NET.frame("a", "b"), FLEXRAY.frame(1), LIN.frame(0x10)):
        found, lost = corrupted(transport)
        assert [ns > 0 for ns in found] == [True, False, True]
        assert lost == {transport.medium.name: {CORRUPTED: {"a": 1}}}


def test_a_corrupted_frame_is_repeated_on_a_wireless_channel() -> None:
    air = WirelessChannel(exponents=(0, 0))
    found, lost = corrupted(air.frame())
    wait = 54 * 16 * US
    attempt = (128 + 192) * US + air.frame().bits(1) * 4 * US
    assert lost == {}
    assert found == [attempt, 20 * MS + 2 * attempt + wait, 40 * MS + attempt]


def test_other_faults_and_loss_act_before_the_network() -> None:
    frame = NET.frame("a", "b", length=1500)
    scenario = senders(0.05, a=(Loss(frame, 1.0), 0.02, 0), b=(frame, 0.02, 0))
    scenario.faults(
        {"name": "d", "where": "b", "kind": "delay", "delay": 0.001, "at": 0.02, "count": 1},
        {"name": "t", "where": "b", "kind": "duplicate", "at": 0.04, "count": 1},
    )
    found = arrivals(scenario)
    assert found["a"] == [-1, -1, -1]
    assert found["b"] == [
        2 * LONG,
        21 * MS + 2 * LONG,
        40 * MS + 2 * LONG,
        40 * MS + 2 * LONG + 123_040,
    ]


SCENARIO = """
from rtsim import Scenario, Signals
from rtsim.components import Ethernet, WirelessChannel
def scenario(load="0.5"):
    out = Scenario("lan", until=0.01)
    out.source("car", Signals("x [1]"))
    net, air = Ethernet(100_000_000, "lan", queue=1), WirelessChannel()
    for name in "abc":
        frame = net.frame(name, "d", length=1500)
        period = f"12304/{round(float(load) * 1e8)}"
        out.sensor(name, {"x": "car.x"}, period=period, transport=frame)
    out.sensor("w", {"x": "car.x"}, period=1, transport=air.frame())
    return out
"""


def test_commands_print_loads_and_lost_messages(tmp_path: Path) -> None:
    path = tmp_path / "lan.py"
    path.write_text(SCENARIO)
    done = rtsim("bus", "load", str(path), "--set", "load=0.3")
    text = " ".join(done.output.split())
    assert done.exit_code == 0, done.output
    assert "Network lan, 100000000 bit/s: load at most 90.0 % (switch to d)" in text
    assert "a a to d a to switch 12208 0.410133 30.00" in text
    assert "Channel wireless, 250000 bit/s: load at most" in text
    done = rtsim("bus", "load", str(path))
    assert (done.exit_code, "FAILED: lan cannot carry the load" in done.output) == (1, True)
    words = ("run", str(path), "--set", "load=0.3", "--no-record")
    done = rtsim(*words)
    assert done.exit_code == 0, done.output
    assert "lan: 25 messages were lost because a queue was full: c 25" in done.output
    lost = json.loads(rtsim(*words, "--json").output)["lost_messages"]
    assert lost == {"lan": {FULL: {"c": 25}}}
    done = rtsim(*words, "--strict")
    assert done.exit_code == 1
    assert "--strict: senders whose messages met a full queue of lan: c" in done.output


# Whole loops


def loop(kind: str, until: float = 1.0) -> Scenario:
    """The unstable plant, whose controller shares a medium with two other senders."""
    out = unstable(until=until)
    transports = list(media()[kind][0].values())
    out.controller_component("controller", "no controller").transport = transports[0]
    for k, transport in enumerate(transports[1:]):
        out.sensor(f"s{k}", {"x": "plant.x"}, period=(0.011, 0.017)[k], transport=transport)
    return out


def test_a_job_of_a_processor_reads_from_one_network_and_writes_to_another() -> None:
    """A job of 1 ms is released when a frame arrives; a frame leaves when the job ends."""
    net = Ethernet(100_000_000)

    def law(t: float, u: Any, s: Any, p: Any, y: Any) -> None:  # noqa: ARG001
        y[0] = u[0]

    def scenario() -> Scenario:
        out = senders(0.05, a=(FLEXRAY.frame(3), 0.02, 0))
        out.processor("mcu", policy="rm")
        controller = PythonController(law, Signals("x [1]"), Signals("y [1]"))
        out.controller(
            "c", controller, on=["a"], inputs={"x": "a.x"}, processor="mcu", execution=0.001,
            deadline=0.02, transport=net.frame("c", "d", length=1500),
        )  # fmt: skip
        return out

    found = arrivals(scenario())
    assert found["a"] == [k * 20 * MS + 117_800 for k in range(3)]
    assert found["c"] == [ns + 1 * MS + 2 * LONG for ns in found["a"]]
    whole = trace_of(scenario())
    assert compare_exact(whole, rerun(whole, scenario())) is None


@pytest.mark.parametrize("kind", sorted(set(media()) - {"can"}))
def test_a_run_is_the_same_on_both_engines_when_prepared_replayed_and_continued(kind: str) -> None:
    whole = trace_of(loop(kind), engine="interpreted")
    assert trace_of(loop(kind), engine="compiled").digest() == whole.digest()
    assert prepare(loop(kind)).run().recording().digest() == whole.digest()
    assert compare_exact(whole, rerun(whole, loop(kind))) is None
    ring = Ring(10)
    checkpoints = CheckpointSchedule(ring, every="0.0131")
    simulate(loop(kind), recorder=MemoryRecorder(), checkpoints=checkpoints)
    kept = ring.before(500_000_000)
    assert kept is not None
    rest = simulate(loop(kind), recorder=MemoryRecorder(), start=kept).recording()
    for name in ("controller", "s0"):
        ours, theirs = (r.track(f"messages/{name}") for r in (whole, rest))
        count = len(theirs.ns)
        assert count > 3
        for stamp in ("arrival", "status"):
            assert ours.integer(stamp)[-count:].tolist() == theirs.integer(stamp).tolist()
