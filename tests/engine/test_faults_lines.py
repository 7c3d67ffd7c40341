"""Faults at the bytes: each kind, in the line's own time, whatever the slices, in lockstep.

Faults at messages: what the link would have done, and what the fault makes of it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from emulated_board_parts import need
from fault_parts import count, flown, in_words, ramp, reader, told
from faulty_line_parts import BYTE, HZ, EchoBoard, Line, Wired
from hypothesis import given, settings
from hypothesis import strategies as st
from semantics_parts import MS

from hitl.boards.contract import BoardError
from hitl.testing import check_link
from rtsim.components.latency import Fixed, Reorder, Uniform
from rtsim.core.random_streams import RandomStreams
from rtsim.engine.faults.description import fault_of
from rtsim.engine.faults.kind import Present
from rtsim.engine.faults.line_kinds import LineFaults
from rtsim.record.reading import Recording
from rtsim.record.recorders import MemoryRecorder
from rtsim.record.replay_comparison import compare_exact
from rtsim.runs.replay import rerun
from rtsim.runs.simulation import simulate
from rtsim.scenario.scenario import Scenario
from rtsim.testing import FakeClock

FRAME = b"\x01\x02\x03\x04\x05\0"


def fault(kind: str, end: str = "from_board", **entries: Any) -> dict[str, Any]:
    return {"name": "f", "kind": kind, "where": f"controller.{end}", **entries}


BOTH_ENDS = pytest.mark.parametrize("end", ["to_board", "from_board"])
BOTH_LINKS = pytest.mark.parametrize("plain", [False, True], ids=["board", "link"])


@BOTH_ENDS
@BOTH_LINKS
@pytest.mark.parametrize(
    ("entries", "expected"),
    [
        ({"kind": "bit_flip", "bit": 7, "count": 2}, b"\x81\x82\x03\x04\x05\0" + FRAME),
        ({"kind": "silence", "count": 3}, FRAME[3:] + FRAME),
        ({"kind": "silence"}, b""),
        ({"kind": "truncation", "count": 1}, FRAME),
        ({"kind": "truncation", "count": 1, "keep": 2}, FRAME[:2] + FRAME),
        ({"kind": "truncation", "keep": 4}, FRAME[:4] * 2),
        ({"kind": "slow_line", "baud": 10_000, "count": 4}, FRAME * 2),
    ],
)
def test_each_kind_is_what_it_says(
    end: str, plain: bool, entries: dict[str, Any], expected: bytes
) -> None:
    line = Line({"where": f"controller.{end}", **entries}, plain=plain)
    assert line.echoed(FRAME + FRAME) == expected
    assert [e.source for e in line.events[:1]] == ["f"]


@BOTH_ENDS
def test_garbage_is_what_the_stream_draws(end: str) -> None:
    line = Line(fault("garbage", end, length=3, count=1), seed=5)
    drawn = RandomStreams(5).stream("fault/f").integers(256, size=3)
    assert line.echoed(FRAME + FRAME) == bytes(drawn.tolist()) + FRAME + FRAME


@BOTH_ENDS
def test_one_percent_of_bytes(end: str) -> None:
    """Those that the stream says, each with the bit that it says; all others as they were."""
    data = bytes(range(1, 251)) * 8
    line = Line(fault("bit_flip", end, probability=0.01), seed=3)
    back = line.echoed(data)
    stream = RandomStreams(3).stream("fault/f")
    wanted = bytearray(data)
    for k in range(len(data)):
        if stream.random() < 0.01:
            wanted[k] ^= 1 << int(stream.integers(8))
    assert back == bytes(wanted)
    changed = [k for k, (a, b) in enumerate(zip(data, back, strict=True)) if a != b]
    assert [e.values["byte"] for e in line.events] == changed
    assert 8 < len(changed) < 40


def test_a_slow_line_spaces_its_bytes() -> None:
    """10 kbaud: 1 ms a byte, from the board by their stamps, to the board by its cycles."""
    line = Line(fault("slow_line", baud=10_000))
    line.link.send(b"abc")
    line.to_ms(2.5)
    assert [(s.cycle, s.value) for s in line.link.take()] == [(BYTE + 1000, 97), (BYTE + 2000, 98)]
    line.to_ms(10)
    assert [(s.cycle, s.value) for s in line.link.take()] == [(BYTE + 3000, 99)]
    line = Line(fault("slow_line", "to_board", baud=10_000))
    line.link.send(b"abc")
    line.to_ms(10)
    assert line.board.got == [(1000, 97), (2000, 98), (3000, 99)]


def test_a_silence_of_5_ms() -> None:
    line = Line(fault("silence", at=0.010, duration=0.005))
    back = b""
    for ms in range(25):
        line.to_ms(ms)
        line.link.send(bytes([ms + 1]))
        line.advance(BYTE)
        back += line.link.receive()
    assert back == bytes(m + 1 for m in range(25) if not 10 <= m < 15)
    assert [(e.kind, e.tag.ns) for e in line.events] == [
        ("Fault", 10_000_000),  # the run's instant; the byte came 20 us later
        ("FaultEnded", 15_000_000),
    ]
    assert line.events[1].values == {"items": 5.0}


@BOTH_LINKS
def test_nothing_is_spoiled_before_the_run(plain: bool) -> None:
    line = Line(fault("silence"), plain=plain)
    line.present.ns = -1
    line.link.send(FRAME)
    assert line.link.wait(1.0)
    line.board.advance(1000)
    assert line.link.receive() == FRAME
    assert not line.events


@pytest.mark.parametrize("slices", [[100_000], [1] * 2000 + [98_000], [33_333, 33_333, 33_334]])
def test_a_reset_by_time_is_exact_to_the_cycle(slices: list[int]) -> None:
    line = Line(fault("board_reset", "board", at="0.0123456"), fault("silence") | {"name": "g"})
    line.present.ns = 10**9
    for cycles in slices:
        line.link.advance(cycles)
    assert line.board.resets == [12_346]
    assert line.board.cycles == 100_000


def test_resets_again_and_again_and_while_it_waits() -> None:
    line = Line(fault("board_reset", "board", every=0.01))
    line.present.ns = 10**9
    assert line.link.wait(0.035) is False
    assert line.board.resets == [10_000, 20_000, 30_000]
    assert line.board.cycles == 35_000
    assert [e.tag.ns for e in line.events] == [10_000_000, 20_000_000, 30_000_000]


def test_a_reset_by_chance_is_asked_for_at_each_request() -> None:
    line = Line(fault("board_reset", "board", probability=0.3), seed=2)
    drawn = RandomStreams(2).stream("fault/f").random(20) < 0.3
    for k in range(20):
        line.to_ms(k)
        line.link.send(b"\x01\0")
    assert line.board.resets == [1000 * k for k in range(20) if drawn[k]]


def test_a_link_without_a_reset_says_so() -> None:
    with pytest.raises(
        BoardError, match="fault f: this fault must reset the board, but the host cannot"
    ):
        Line(fault("board_reset", "board"), plain=True)


_FAULTS = st.lists(
    st.sampled_from(
        [
            fault("bit_flip", probability=0.2),
            fault("bit_flip", "to_board", at=0.001, duration=0.002),
            fault("silence", at=0.0005, duration=0.0004),
            fault("slow_line", "to_board", baud=50_000, every=0.002, count=5),
            fault("slow_line", baud=100_000),
            fault("truncation", probability=0.4, keep=1),
            fault("garbage", "to_board", probability=0.4, length=2),
            fault("board_reset", "board", at=0.0031),
        ]
    ),
    max_size=4,
)


@settings(max_examples=60, deadline=None)
@given(_FAULTS, st.lists(st.integers(1, 400), min_size=1, max_size=40), st.booleans())
def test_how_time_is_cut_changes_nothing(
    faults: list[dict[str, Any]], cuts: list[int], taking: bool
) -> None:
    """Requests at the same cycles, in one slice between them or in many: the same to the cycle."""
    faults = [{**f, "name": f"f{k}"} for k, f in enumerate(faults)]

    def run(slices: list[int]) -> tuple[Any, ...]:
        line = Line(*faults)
        got = []
        for k in range(6):
            line.present.ns = k * 1_000_000
            line.link.advance(k * 1000 - line.board.cycles)
            line.link.send(FRAME)
            line.present.ns = 10**9  # events are stamped by the line
            left, at = 1000, 0
            while left and slices:
                step = min(left, slices[at % len(slices)])
                line.link.advance(step)
                left, at = left - step, at + 1
                if taking:
                    got += line.link.take()
        line.link.advance(20_000)
        got += line.link.take()
        return got, line.board.got, line.board.resets, [repr(e) for e in sorted(
            line.events, key=lambda e: (e.tag, e.source, e.kind)
        )]  # fmt: skip

    assert run(cuts) == run([])


@BOTH_LINKS
@pytest.mark.parametrize(
    "faults", [(), (fault("bit_flip", at=1e6), fault("slow_line", baud=10_000))]
)
def test_a_link_around_a_link_is_a_link(plain: bool, faults: tuple[dict[str, Any], ...]) -> None:
    named = [{**f, "name": f"f{k}"} for k, f in enumerate(faults)]
    check_link(lambda: Line(*named, plain=plain).link)


def test_a_board_stays_a_board() -> None:
    line = Line(fault("silence"))
    line.link.advance(500)
    assert (line.link.clock_hz, line.link.cycles) == (HZ, 500)
    line.link.reset()
    assert line.board.resets == [500]
    assert line.link.got == []  # whatever else it has
    with pytest.raises(BoardError, match="no pins"):
        _ = line.link.pins


# -- in a run --------------------------------------------------------------------------------------

ALL = [
    {"name": "a", "where": "controller.to_board", "kind": "bit_flip", "probability": 0.01},
    {"name": "b", "where": "controller.from_board", "kind": "truncation", "probability": 0.05},
    {"name": "c", "where": "controller.board", "kind": "board_reset", "at": 3.0},
    {"name": "d", "where": "controller.from_board", "kind": "silence", "at": 5.0, "duration": 0.2},
    {"name": "e", "where": "ramp.x", "kind": "noise", "deviation": 0.1},
    {"name": "f", "where": "controller", "kind": "drop", "probability": 0.1},
]


def wired(*faults: dict[str, Any]) -> Scenario:
    scenario = ramp(until=8)
    scenario.replace_controller(
        "controller", Wired(lambda: EchoBoard(dead=30_000)), latency=0.01, late="hold"
    )
    scenario.faults(*faults)
    return scenario


def fly(scenario: Scenario, **options: Any) -> Recording:
    recorder = MemoryRecorder()
    simulate(scenario, recorder=recorder, **options)
    return recorder.recording()


def test_a_flight_with_faults_is_the_same_at_any_pace_and_replays() -> None:
    """As fast as possible, or paced by a clock: every row and every event."""
    desk = fly(wired(*ALL), seed=6)
    paced = fly(wired(*ALL), seed=6, clock=FakeClock())
    assert compare_exact(desk, paced) is None
    assert in_words(desk) == in_words(paced)
    scenario = wired(*ALL)
    again = rerun(desk, scenario)
    assert compare_exact(desk, again) is None
    assert in_words(desk) == in_words(again)
    names = {e.source for e in told(desk, "Fault")}
    assert names == {"a", "b", "c", "d", "e", "f"}
    assert compare_exact(desk, fly(wired(*ALL), seed=7)) is not None


def test_what_a_reset_and_a_silence_cost() -> None:
    """Late where the answer was lost, then the last value holds; all is counted."""
    recording = fly(wired(ALL[2], ALL[3]))
    reset, silence, over = told(recording)
    assert (reset.source, reset.tag.ns) == ("c", 3_000_000_000)
    assert (silence.source, silence.kind, over.kind) == ("d", "Fault", "FaultEnded")
    late = [e.tag.ns for e in recording.events if e.kind == "Late"]
    assert late[0] == 3_010_000_000
    assert 5_010_000_000 in late


def test_faults_of_a_line_do_nothing_where_there_is_none() -> None:
    """The same file flies with the design: it is said, and nothing else is another."""
    scenario = ramp(law=count)
    scenario.faults(*ALL[:4])
    recording = fly(scenario)
    assert [(e.kind, e.source) for e in told(recording)] == [("FaultIdle", n) for n in "abcd"]
    assert "no line here" in told(recording)[0].text
    assert compare_exact(recording, fly(ramp(law=count))) is None
    again = rerun(recording, scenario)
    assert in_words(again) == in_words(recording)


def test_a_controller_with_another_name_is_left_alone() -> None:
    scenario = wired()
    scenario.controller("other", reader(), period=0.1, inputs={"u": "ramp.x"})
    scenario.faults({"name": "f", "where": "other.to_board", "kind": "silence"})
    recording = fly(scenario)
    assert [e.kind for e in told(recording)] == ["FaultIdle"]
    assert not [e for e in recording.events if e.kind == "Late"]


@pytest.mark.parametrize("backend", ["avr8js"])
def test_around_the_emulated_uno(backend: str) -> None:
    """Its echo at 500 kbaud: the flipped byte, the reset, and cycles that go on."""
    need(backend)
    from emulated_board_parts import running

    from hitl.boards.faulty import faulty
    from rtsim.engine.faults.activity import Activity

    present = Present()
    faults = [
        fault_of(fault("bit_flip", bit=0, count=1)),
        fault_of(fault("board_reset", "board", at=0.002) | {"name": "r"}),
    ]
    streams = RandomStreams(0)
    line = LineFaults([Activity(f, streams.stream(f.name)) for f in faults], present)
    with running("echo_500000", backend) as inner:
        board: Any = faulty(inner, line)
        present.ns = 0
        start = board.cycles
        board.send(b"AB")
        board.advance(8_000)
        assert board.receive() == b"@B"
        board.advance(8_000)
        assert board.receive() == b""
        present.ns = 10_000_000
        board.advance(24_000)
        assert board.cycles - start == 40_000
        events = []
        present.event = lambda *a: events.append(a)
        board.send(b"C")
        board.advance(16_000)
        assert board.receive() == b"C"
        assert np.isfinite(board.baud)


def at_messages(kind: str, **entries: Any) -> dict[str, Any]:
    return {"name": "f", "where": "controller", "kind": kind, **entries}


def arrivals(recording: Recording) -> list[tuple[int, int | None]]:
    """(sequence, arrival in ms) of each message; none where it was lost."""
    track = recording.track("messages/controller")
    rows = zip(track.integer("sequence"), track.integer("arrival"), strict=True)
    return [(int(n), None if at < 0 else int(at) // MS) for n, at in rows]


PLAIN = [(k, 100 * k + 10) for k in range(11)]


def run(*faults: dict[str, Any], **options: Any) -> Recording:
    return flown(ramp(law=count, transport=Fixed(0.01)), *faults, **options)


def changed(**rows: Any) -> list[tuple[int, int | None]]:
    out: list[tuple[int, int | None]] = []
    for k, at in PLAIN:
        new = rows.get(f"m{k}", [at])
        out += [(k, a) for a in new]
    return out


@pytest.mark.parametrize(
    ("given_fault", "expected"),
    [
        (at_messages("drop", at=0.3, count=2), changed(m3=[None], m4=[None])),
        (at_messages("drop", at=0.3, duration=0.2), changed(m3=[None], m4=[None])),
        (at_messages("delay", delay=0.025, at=0.5, count=1), changed(m5=[535])),
        (at_messages("delay", delay=0.15, at=0.5, count=1), changed(m5=[660], m6=[660])),
        (at_messages("duplicate", at=0.5, count=1), changed(m5=[510, 510])),
        (at_messages("duplicate", gap=0.25, at=0.5, count=1), changed(m5=[510, 760])),
        (at_messages("reorder", extra=0.15, at=0.5, count=1), changed(m5=[660])),
        (at_messages("burst", length=3, at=0.2), changed(m2=[None], m3=[None], m4=[None])),
        (
            at_messages("burst", length=2, every=0.4),
            changed(**{f"m{k}": [None] for k in (4, 5, 8, 9)}),
        ),
        (at_messages("drop", when="ramp.x > 0.75"), changed(m8=[None], m9=[None], m10=[None])),
    ],
)
def test_each_kind_does_to_messages_what_it_says(
    given_fault: dict[str, Any], expected: list[tuple[int, int | None]]
) -> None:
    assert arrivals(run()) == PLAIN
    assert arrivals(run(given_fault)) == expected


def test_what_is_held_back_is_overtaken_and_nothing_else_is() -> None:
    """On an ordered link the next message arrives before it; the one after that in its turn."""
    recording = run(at_messages("reorder", extra=0.15, at=0.5, count=1))
    ns, u = recording.track("driven").rows.ns, recording.track("driven").column("u")
    at = {int(n) // MS: float(v) for n, v in zip(ns, u, strict=True)}
    assert [at[ms] for ms in (550, 610, 660, 710)] == [5, 7, 6, 8]


@pytest.mark.parametrize("kind", ["drop", "delay", "duplicate", "reorder", "burst"])
def test_a_fault_that_has_not_struck_leaves_the_order_of_the_link(kind: str) -> None:
    """A link on which messages overtake stays one, and one on which none does stays that."""
    more: dict[str, dict[str, Any]] = {
        "delay": {"delay": 0.1},
        "reorder": {"extra": 0.1},
        "burst": {"length": 2},
    }
    waiting = at_messages(kind, at=100, **more.get(kind, {}))
    for transport, overtakes in (
        (Reorder(Fixed(0.01), 0.5, 0.25), True),
        (Uniform(0.0, 0.3), False),
    ):
        plain, faulty = (
            arrivals(flown(ramp(law=count, transport=transport), *faults, seed=4))
            for faults in ((), (waiting,))
        )
        at = [ms for _, ms in plain]
        assert (at != sorted(at)) is overtakes  # type: ignore[type-var]
        assert faulty == plain


def test_after_a_fault_has_struck_the_link_has_its_own_order_again() -> None:
    transport = Reorder(Fixed(0.01), 0.5, 0.25)
    struck = at_messages("drop", at=0.2, count=1)
    plain, faulty = (
        arrivals(flown(ramp(law=count, transport=transport, until=3), *faults, seed=4))
        for faults in ((), (struck,))
    )
    assert [a for a in faulty if a[0] != 2] == [a for a in plain if a[0] != 2]
    assert (2, None) in faulty


def test_a_lost_message_is_recorded_with_its_content_and_the_last_one_holds() -> None:
    recording = run(at_messages("drop", at=0.3, count=2))
    track = recording.track("messages/controller")
    assert track.integer("status").tolist() == [0, 0, 0, 1, 1, 0, 0, 0, 0, 0, 0]
    assert recording.messages["controller"]["y"].tolist() == list(range(1, 12))
    ns, u = recording.track("driven").rows.ns, recording.track("driven").column("u")
    assert set(u[(ns > 210 * MS) & (ns < 510 * MS)]) == {3.0}


def test_the_link_draws_the_same_with_and_without_faults() -> None:
    def arriving(*faults: dict[str, Any]) -> list[tuple[int, int | None]]:
        return arrivals(flown(ramp(law=count, transport=Uniform(0.0, 0.09)), *faults, seed=4))

    plain = arriving()
    spoiled = arriving(at_messages("drop", probability=0.5))
    assert {None} < {at for _, at in spoiled}
    assert all(at in (None, was[1]) for (_, at), was in zip(spoiled, plain, strict=True))


def test_five_percent_lost() -> None:
    """Exactly those that the fault's own stream says; each is an event with its number."""
    recording = flown(ramp(law=count, until=60), at_messages("drop", probability=0.05), seed=9)
    struck = np.flatnonzero(RandomStreams(9).stream("fault/f").random(601) < 0.05).tolist()
    assert 15 < len(struck) < 50
    assert [n for n, at in arrivals(recording) if at is None] == struck
    assert [e.values["sequence"] for e in told(recording)] == struck
    assert {e.kind for e in told(recording)} == {"Fault"}


def test_an_activation_says_what_it_did() -> None:
    (event,) = told(run(at_messages("delay", delay=0.025, at=0.5, count=1)))
    assert (event.kind, event.source, event.tag.ns) == ("Fault", "f", 500 * MS)
    assert event.text == "delay at controller: message 5 takes longer"
    assert event.values == {
        "sequence": 5.0, "copies": 1.0, "delay": 0.035, "delay without it": 0.01
    }  # fmt: skip


def test_a_replay_loses_the_same_messages() -> None:
    scenario = ramp(law=count, transport=Uniform(0.0, 0.2))
    recording = flown(
        scenario,
        at_messages("drop", probability=0.2),
        at_messages("reorder", extra=0.3, probability=0.3) | {"name": "g"},
        at_messages("duplicate", gap=0.05, probability=0.3) | {"name": "h"},
        seed=8,
    )
    again = rerun(recording, scenario)
    assert len(told(recording)) > 4
    assert compare_exact(recording, again) is None
    assert in_words(again) == in_words(recording)


_TRIGGER = st.one_of(
    st.fixed_dictionaries({"at": st.integers(0, 9).map(lambda k: k / 10)}),
    st.fixed_dictionaries({"probability": st.sampled_from([0.0, 0.3, 1.0])}),
    st.fixed_dictionaries({"every": st.sampled_from([0.25, "1/3"]), "count": st.just(1)}),
    st.fixed_dictionaries({"when": st.sampled_from(["ramp.x > 0.5", "driven.x <= 0.2"])}),
)
_KIND = st.sampled_from(
    [
        {"kind": "drop", "where": "controller"},
        {"kind": "delay", "where": "controller", "delay": 0.13},
        {"kind": "duplicate", "where": "controller", "gap": 0.03},
        {"kind": "reorder", "where": "controller", "extra": 0.21},
        {"kind": "burst", "where": "controller", "length": 2},
        {"kind": "stuck", "where": "ramp.x"},
        {"kind": "noise", "where": "driven.u", "deviation": 0.1, "period": 0.07},
        {"kind": "drift", "where": "controller.u", "rate": -1},
        {"kind": "quantised", "where": "controller.y", "step": 0.5},
    ]
)


def _without_lasting(entries: dict[str, Any]) -> dict[str, Any]:
    """A burst has its length."""
    return {k: v for k, v in entries.items() if (entries["kind"], k) != ("burst", "count")}


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(_KIND, _TRIGGER), min_size=1, max_size=4), st.integers(0, 5))
def test_any_faults_run_the_same_twice_and_replay(
    drawn: list[tuple[dict[str, Any], dict[str, Any]]], seed: int
) -> None:
    faults = [
        _without_lasting({"name": f"f{k}", **kind, **trigger})
        for k, (kind, trigger) in enumerate(drawn)
    ]
    scenarios = [ramp(law=count, transport=Fixed(0.02)) for _ in range(2)]
    one, other = (flown(s, *faults, seed=seed) for s in scenarios)
    assert compare_exact(one, other) is None
    again = rerun(one, scenarios[0])
    assert compare_exact(one, again) is None
    assert in_words(one) == in_words(other) == in_words(again)
    assert abs(one["ramp.x"][-1] - 1.0) < 1e-9  # the truth of what is only read is not touched
