"""What no recording shows is found by its saved states, and by flying again from the nearest."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from diverge_parts import (
    copied,
    diverged,
    flights,
    fly,
    lab_in,
    named,
    parted,
    place,
    sensed,
    shaken,
)
from semantics_parts import INTEGRATOR, MS, law_of

from rtsim.components.latency import Fixed, Loss
from rtsim.core.errors import CheckpointError
from rtsim.core.signals import Signals
from rtsim.core.tag import Tag
from rtsim.engine.checkpoint.file import Checkpoint
from rtsim.record.reading import Recording
from rtsim.record.replay_comparison import compare_exact
from rtsim.runs.diverging import diverge, finder
from rtsim.runs.diverging.narrowing import RecordedRun
from rtsim.scenario.scenario import Scenario
from rtsim.testing.determinism import trace_of


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    lab_in(tmp_path)
    return tmp_path


# -- memories and streams --------------------------------------------------------------------------


@pytest.mark.parametrize("other", ["b.mcap", ""])
def test_a_memory_that_parts_before_anything_recorded_does(other: str) -> None:
    fly("a.mcap", bug="memory")
    fly("b.mcap", bug="memory")
    told = diverged("a.mcap", *([other] if other else []))
    assert place(told) == (250 * MS, 0, "memory", "c", "state")
    assert [pair["name"] for pair in told["first"]["values"]] == ["tasks.c.controller.s[1]"]
    assert place(told, "recorded") == (650 * MS, 0, "message", "c", "content")
    assert told["agreed"]["ns"] == 240 * MS or 240 * MS < told["agreed"]["ns"] < 250 * MS
    assert (
        diverged("a.mcap", "b.mcap", "--no-fly")["first"]
        == diverged("a.mcap", "b.mcap")["recorded"]
    )


class Greedy:
    """Draws once more from its stream for one of its messages, which later ones show."""

    ordered = True

    def __init__(self, at: int) -> None:
        self.at = at
        self.asked = 0

    def delays(self, stream: np.random.Generator, size_bytes: int) -> tuple[int, ...]:  # noqa: ARG002
        self.asked += 1
        if self.asked % 10 == self.at:
            stream.random()
        later = self.asked % 10 in (9, 0)
        return (1_000_000 + (int(1e6 * stream.random()) if later else 0),)


def test_a_stream_that_was_drawn_from_once_more() -> None:
    """The fourth message is at 32 ms, the ninth and tenth show it; each run asks ten times."""
    verdict = parted(sensed(Greedy(99)), sensed(Greedy(4)))
    assert named(verdict) == (Tag(32 * MS), "memory", "transport/s", "stream")
    [pair] = verdict.place.pairs
    assert (pair.a, pair.b) == ("0 words drawn", "1 words drawn")
    assert verdict.drawn == ([], ["transport/s"])
    assert verdict.visible.tag == Tag(82 * MS)
    assert verdict.visible.name == "s"


def test_a_message_that_another_seed_loses() -> None:
    scenario = sensed(Loss(Fixed("0.001"), 0.4))
    a, b = (trace_of(scenario, compile=False, seed=seed) for seed in (1, 2))
    status = [one.track("messages/s").integer("status") for one in (a, b)]
    first = int(np.flatnonzero(status[0] != status[1])[0])
    assert first > 0
    verdict = diverge(a, b, scenarios=(scenario, scenario))
    assert named(verdict) == (Tag((2 + 10 * first) * MS), "message", "s", "on its way")
    assert verdict.place is not None
    values = {pair.name: (pair.a, pair.b) for pair in verdict.place.pairs}
    assert set(values["status"]) == {"delivered", "lost"}
    assert "never" in values["arrival (ns)"]
    assert any("seed: 1 and 2" in note for note in verdict.notes)


def starting(spare: float) -> Scenario:
    out = Scenario("starting", until="0.1")
    law = law_of(late)
    law.memory = Signals(f"s [1] = {spare}")
    out.plant("p", INTEGRATOR, step=0.01, inputs={"u": "c.y"})
    out.controller("c", law, period=0.02, inputs={"u": "p.x"})
    return out


def late(t: float, u: Any, s: Any, p: Any, y: Any) -> None:  # noqa: ARG001
    y[0] = s[0] if t > 0.05 else 0.0


def test_a_memory_that_differs_from_the_start() -> None:
    verdict = parted(starting(1.0), starting(2.0))
    assert named(verdict) == (Tag(0), "memory", "c", "state")
    assert verdict.agreed is None
    assert verdict.visible.tag == Tag(60 * MS)


# -- recorded sparsely -----------------------------------------------------------------------------


def thinned(recording: Recording, keep: int = 20) -> Recording:
    """As one that records each ``keep``-th state."""
    tracks = {
        name: replace(track, words=track.words[::keep]) for name, track in recording.tracks.items()
    }
    return replace(recording, tracks=tracks)


def test_states_that_were_recorded_sparsely_are_flown_again_in_between() -> None:
    verdict = parted(shaken(0.362, 0.0), shaken(0.362, 1e-13), thinned)
    assert named(verdict) == (Tag(370 * MS), "memory", "p", "state")
    assert verdict.agreed == Tag(365 * MS)
    assert verdict.place.pairs[0].name == "p.x"
    assert verdict.visible.tag == Tag(400 * MS)


def test_within_a_tag_what_comes_first_is_first() -> None:
    """A state, then who samples it, then what is said of it: not by name."""

    def watched(amount: float) -> Scenario:
        out = shaken(0.362, amount)
        out.controller("a", law_of(copied), period=0.01, inputs={"u": "p.x"})
        return out

    verdict = parted(watched(0.0), watched(1e-9))
    assert named(verdict) == (Tag(370 * MS), "plant", "p", "x-")
    assert [(p.what, p.name, p.moment) for p in verdict.also] == [
        ("request", "a", "sampled"),
        ("message", "a", "content"),
    ]


# -- checkpoints beside the recordings -------------------------------------------------------------


@pytest.mark.parametrize("other", ["b.mcap", ""])
def test_it_is_flown_again_from_the_nearest_checkpoint_that_agrees(
    other: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a.mcap", "b.mcap"):
        fly(name, "--checkpoint-every", "0.1", bug="memory")
    with flights(monkeypatch) as flown:
        told = diverged("a.mcap", *([other] if other else []))
    assert place(told) == (250 * MS, 0, "memory", "c", "state")
    if not other:
        start, stop = flown.pop(0)  # the re-run itself
        assert (start, stop) == (0, 1000 * MS)
    starts, stops = zip(*flown, strict=True)
    assert min(starts) >= 200 * MS
    assert max(stops) < 310 * MS
    assert len(flown) <= 6


@pytest.mark.parametrize(("bug", "at"), [("none", None), ("clock", 400), ("memory", 650)])
def test_a_long_flight_is_flown_again_piece_by_piece(
    bug: str, at: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It ends with the piece in which something differs; what was before is not flown twice."""
    fly("a.mcap", bug=bug)
    monkeypatch.setattr(finder, "_ROWS_AT_ONCE", 50)
    recorded = Recording.open("a.mcap")
    with flights(monkeypatch) as flown:
        verdict = diverge(recorded)
    pieces = 1 + recorded.trace_rows // 50
    assert 4 < pieces < 17
    stops = [1000 * MS * i // pieces for i in range(1, pieces + 1)]
    last = pieces if at is None else 1 + next(i for i, ns in enumerate(stops) if ns >= at * MS)
    assert [stop for _, stop in flown[:last]] == stops[:last]
    starts = [start for start, _ in flown[:last]]
    assert starts[0] == 0
    assert all(0 <= start - stop < 10 * MS for start, stop in zip(starts[1:], stops, strict=False))
    if at is None:
        assert verdict.equal
        return
    shown = verdict.visible or verdict.place
    assert shown is not None
    assert (shown.tag, shown.name) == (Tag(at * MS), "c")
    assert named(verdict)[0] == Tag((250 if bug == "memory" else at) * MS)


def test_saved_states_alone_tell_of_what_no_recording_shows() -> None:
    """Nothing recorded differs: the runs end before the memory is used."""
    for name in ("a.mcap", "b.mcap"):
        fly(name, "--checkpoint-every", "0.1", "--until", "0.6", bug="memory")
    told = diverged("a.mcap", "b.mcap")
    assert place(told) == (250 * MS, 0, "memory", "c", "state")
    assert told["recorded"] is None


def test_from_begins_at_the_checkpoint_before(monkeypatch: pytest.MonkeyPatch) -> None:
    fly("a.mcap", "--checkpoint-every", "0.1", bug="draw")
    with flights(monkeypatch) as flown:
        told = diverged("a.mcap", "--from", "0.45")
    assert told["began"] == {"ns": told["began"]["ns"], "step": 0}
    assert 400 * MS <= told["began"]["ns"] < 450 * MS
    assert min(start for start, _ in flown) == told["began"]["ns"]
    assert 502 * MS < told["first"]["tag"]["ns"] <= 510 * MS
    assert place(told)[2:] == ("plant", "plant", "x-")
    with flights(monkeypatch) as flown:
        assert diverged("a.mcap")["first"]["tag"] == told["first"]["tag"]
    assert flown[0][0] == 0


@pytest.mark.parametrize("at", [0, 52 * MS])
def test_a_flight_from_any_tag_is_the_whole_one(at: int) -> None:
    """Also from the first instant, which only a run from the start makes."""
    scenario = sensed(Loss(Fixed("0.001"), 0.4))
    whole = trace_of(scenario, compile=False, seed=3)
    flight = RecordedRun(whole, scenario)
    kept = flight.repeat(None, 60 * MS, [at]).kept
    flown = flight.repeat(kept[at], 100 * MS, [80 * MS])
    assert compare_exact(whole, flown.recording) is None
    assert list(flown.kept) == [80 * MS]


def test_a_flight_that_cannot_begin_is_an_error_and_no_end_of_it() -> None:
    scenario = sensed(Fixed("0.001"))
    flight = RecordedRun(trace_of(scenario, compile=False), scenario)
    end = flight.repeat(None, 100 * MS, [100 * MS]).kept[100 * MS]
    with pytest.raises(CheckpointError, match="there is nothing left to run"):
        flight.repeat(end, 100 * MS)


def test_a_state_that_was_changed_in_a_checkpoint_is_told_as_that(folder: Path) -> None:
    """It parts from its re-run there, and nowhere when that is flown again."""
    fly("a.mcap", "--checkpoint-every", "0.25")
    for at in ("0.500", "0.750", "1.000"):
        path = folder / f"a@{at}.checkpoint"
        broken = Checkpoint.open(path)
        broken.state["tasks"]["c"]["controller"]["s"][1] = 7.0
        broken.__dict__.pop("digest")
        broken.save(path)
    told = diverged("a.mcap")
    assert place(told) == (500 * MS, 0, "memory", "c", "state")
    assert any("repeated runs do not differ there" in note for note in told["notes"])
