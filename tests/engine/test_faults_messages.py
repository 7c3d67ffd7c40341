"""Faults at messages: what the link would have done, and what the fault makes of it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from fault_parts import count, flown, in_words, ramp, told
from hypothesis import given, settings
from hypothesis import strategies as st
from semantics_parts import MS

from rtsim.components.latency import Fixed, Reorder, Uniform
from rtsim.core.random_streams import RandomStreams
from rtsim.record.reading import Recording
from rtsim.record.replay_comparison import compare_exact
from rtsim.runs.replay import rerun


def fault(kind: str, **entries: Any) -> dict[str, Any]:
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
        (fault("drop", at=0.3, count=2), changed(m3=[None], m4=[None])),
        (fault("drop", at=0.3, duration=0.2), changed(m3=[None], m4=[None])),
        (fault("delay", delay=0.025, at=0.5, count=1), changed(m5=[535])),
        (fault("delay", delay=0.15, at=0.5, count=1), changed(m5=[660], m6=[660])),
        (fault("duplicate", at=0.5, count=1), changed(m5=[510, 510])),
        (fault("duplicate", gap=0.25, at=0.5, count=1), changed(m5=[510, 760])),
        (fault("reorder", extra=0.15, at=0.5, count=1), changed(m5=[660])),
        (fault("burst", length=3, at=0.2), changed(m2=[None], m3=[None], m4=[None])),
        (fault("burst", length=2, every=0.4), changed(**{f"m{k}": [None] for k in (4, 5, 8, 9)})),
        (fault("drop", when="ramp.x > 0.75"), changed(m8=[None], m9=[None], m10=[None])),
    ],
)
def test_each_kind_is_what_it_says(
    given_fault: dict[str, Any], expected: list[tuple[int, int | None]]
) -> None:
    assert arrivals(run()) == PLAIN
    assert arrivals(run(given_fault)) == expected


def test_what_is_held_back_is_overtaken_and_nothing_else_is() -> None:
    """On an ordered link the next message arrives before it; the one after that in its turn."""
    recording = run(fault("reorder", extra=0.15, at=0.5, count=1))
    ns, u = recording.rows("driven").ns, recording["driven.u"]
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
    waiting = fault(kind, at=100, **more.get(kind, {}))
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
    struck = fault("drop", at=0.2, count=1)
    plain, faulty = (
        arrivals(flown(ramp(law=count, transport=transport, until=3), *faults, seed=4))
        for faults in ((), (struck,))
    )
    assert [a for a in faulty if a[0] != 2] == [a for a in plain if a[0] != 2]
    assert (2, None) in faulty


def test_a_lost_message_is_recorded_with_its_content_and_the_last_one_holds() -> None:
    recording = run(fault("drop", at=0.3, count=2))
    track = recording.track("messages/controller")
    assert track.integer("status").tolist() == [0, 0, 0, 1, 1, 0, 0, 0, 0, 0, 0]
    assert recording["messages/controller.y"].tolist() == list(range(1, 12))
    ns, u = recording.rows("driven").ns, recording["driven.u"]
    assert set(u[(ns > 210 * MS) & (ns < 510 * MS)]) == {3.0}


def test_the_link_draws_the_same_with_and_without_faults() -> None:
    def arriving(*faults: dict[str, Any]) -> list[tuple[int, int | None]]:
        return arrivals(flown(ramp(law=count, transport=Uniform(0.0, 0.09)), *faults, seed=4))

    plain = arriving()
    spoiled = arriving(fault("drop", probability=0.5))
    assert {None} < {at for _, at in spoiled}
    assert all(at in (None, was[1]) for (_, at), was in zip(spoiled, plain, strict=True))


def test_five_percent_lost() -> None:
    """Exactly those that the fault's own stream says; each is an event with its number."""
    recording = flown(ramp(law=count, until=60), fault("drop", probability=0.05), seed=9)
    struck = np.flatnonzero(RandomStreams(9).stream("fault/f").random(601) < 0.05).tolist()
    assert 15 < len(struck) < 50
    assert [n for n, at in arrivals(recording) if at is None] == struck
    assert [e.values["sequence"] for e in told(recording)] == struck
    assert {e.kind for e in told(recording)} == {"Fault"}


def test_an_activation_says_what_it_did() -> None:
    (event,) = told(run(fault("delay", delay=0.025, at=0.5, count=1)))
    assert (event.kind, event.source, event.tag.ns) == ("Fault", "f", 500 * MS)
    assert event.text == "delay at controller: message 5 takes longer"
    assert event.values == {
        "sequence": 5.0, "copies": 1.0, "delay": 0.035, "delay without it": 0.01
    }  # fmt: skip


def test_a_replay_loses_the_same_messages() -> None:
    scenario = ramp(law=count, transport=Uniform(0.0, 0.2))
    recording = flown(
        scenario,
        fault("drop", probability=0.2),
        fault("reorder", extra=0.3, probability=0.3) | {"name": "g"},
        fault("duplicate", gap=0.05, probability=0.3) | {"name": "h"},
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
