"""Each seeded nondeterminism is found at its first tag, by what a user types.

What no recording shows is found by its saved states, and by flying again from the nearest.

Recordings that were cut, that ended otherwise, of other parts, or from Python.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from c_parts import with_gcc
from checkpoint_parts import law_in_c
from command_line import rtsim
from diverge_parts import (
    SCENARIO,
    copied,
    diverged,
    flights,
    fly,
    fly_elsewhere,
    lab_in,
    named,
    parted,
    place,
    sensed,
    shaken,
)
from semantics_parts import INTEGRATOR, MS, U, law_of

from rtsim.components.latency import Fixed, Loss
from rtsim.core.errors import CheckpointError, RecordingError
from rtsim.core.signals import Signals
from rtsim.core.tag import Tag
from rtsim.engine.checkpoint.file import Checkpoint
from rtsim.engine.commands.commands import Command, PendingCommand
from rtsim.equations.model import Model
from rtsim.record.events import Event
from rtsim.record.reading import Recording
from rtsim.record.replay_comparison import compare_exact
from rtsim.runs.diverging import diverge, finder
from rtsim.runs.diverging.narrowing import RecordedRun
from rtsim.runs.simulation import FedInputs
from rtsim.scenario.scenario import Scenario
from rtsim.testing.determinism import trace_of


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    lab_in(tmp_path)
    return tmp_path


def test_equal_runs_are_equal() -> None:
    fly("a.mcap", "--checkpoint-every", "0.25")
    fly("b.mcap", "--checkpoint-every", "0.25")
    for arguments in (("a.mcap", "b.mcap"), ("a.mcap",), ("a.mcap", "b.mcap", "--no-fly")):
        result = rtsim("diverge", *arguments)
        assert result.exit_code == 0, result.output
        assert "agree bit for bit from 0 to 1 s" in result.stdout
    result = rtsim("diverge", "a.mcap", "--from", "0.6")
    assert result.exit_code == 0, result.output
    assert "agree bit for bit from 0.5 to 1 s" in result.stdout


@pytest.mark.sample(1)
@pytest.mark.parametrize("other", ["b.mcap", ""])
def test_a_draw_in_the_derivative(other: str) -> None:
    fly("a.mcap", bug="draw")
    fly("b.mcap", bug="draw")
    told = diverged("a.mcap", *([other] if other else []))
    before, row = _about(502)
    tag = Recording.open("a.mcap").track("plant").tag(row)
    assert place(told) == (tag.ns, 0, "plant", "plant", "x-")
    assert told["agreed"]["ns"] < tag.ns
    [x] = told["first"]["values"]
    assert x["name"] == "x"
    assert x["a"] == Recording.open("a.mcap").track("plant").column("x")[row]
    assert int(x["a_bits"], 16) == int(np.float64(x["a"]).view(np.uint64))
    fed = told["fed"]
    assert fed["how"] == f"the step of plant from {before} to {tag}"
    assert [pair["name"] for pair in fed["inputs"]] == ["plant.x", "plant.u", "plant.g"]
    assert [pair.get("source") for pair in fed["inputs"]] == [None, "c.y", "gust.u"]
    assert fed["equal"]
    assert told["recorded"] is None


def _about(ms: int) -> tuple[Tag, int]:
    """The plant's last tag up to a time, and its first row behind; both runs have the same."""
    track = Recording.open("a.mcap").track("plant")
    row = int(np.flatnonzero(track.rows.ns > ms * MS)[0])
    return track.tag(row - 1), row


@pytest.mark.sample(1)
@pytest.mark.parametrize("other", ["b.mcap", ""])
def test_a_clock_of_the_wall(other: str) -> None:
    fly("a.mcap", bug="clock")
    fly("b.mcap", bug="clock")
    told = diverged("a.mcap", *([other] if other else []))
    assert place(told) == (400 * MS, 0, "message", "c", "content")
    assert told["agreed"] == {"ns": 390 * MS, "step": 0}
    assert [pair["name"] for pair in told["first"]["values"]] == ["y"]
    fed = told["fed"]
    assert "the computation of c from its samples at 0.400000000 s" in fed["how"]
    assert [(pair["name"], pair["source"]) for pair in fed["inputs"]] == [("c.x", "s.x")]
    assert fed["equal"]


def test_an_unordered_set() -> None:
    fly_elsewhere("a.mcap", "set", hash_seed=1)
    fly_elsewhere("b.mcap", "set", hash_seed=2)
    told = diverged("a.mcap", "b.mcap")
    assert place(told) == (350 * MS, 0, "message", "c", "content")
    assert told["fed"]["equal"]


def test_a_step_in_single_precision() -> None:
    fly("a.mcap")
    fly("b.mcap", bug="single")
    told = diverged("a.mcap", "b.mcap")
    tag = Recording.open("a.mcap").track("plant").tag(_about(302)[1])
    assert place(told) == (tag.ns, 0, "plant", "plant", "x-")
    assert told["fed"]["equal"]
    [x] = told["first"]["values"]
    assert 0 < abs(x["a"] - x["b"]) < 1e-8


FAULT = """
[[fault]]
name = "lost"
where = "s"
kind = "drop"
at = {at}
duration = 0.01
"""


def test_a_message_that_a_fault_loses(folder: Path) -> None:
    (folder / "faults.toml").write_text(FAULT.format(at=0.62))
    fly("a.mcap")
    fly("b.mcap", "--faults", "faults.toml")
    told = diverged("a.mcap", "b.mcap")
    assert place(told) == (620 * MS, 0, "event", "lost", "Fault")
    [also] = [one for one in told["also"] if one["what"] == "message"]
    assert (also["name"], also["moment"], also["tag"]) == ("s", "on its way", told["first"]["tag"])
    assert any("faults" in note for note in told["notes"])


ADDRESS = """
#include <stdint.h>
#include <stdlib.h>
#include "law.h"
void law_initialize(void) {}
double law_step(double x, double v)
{
    static int step;
    double force = -(8.0 * x + 4.0 * v);
    void *block = malloc(64); /* lies elsewhere in each process */
    if (++step > 4)
        force += 1e-12 * (double)((uintptr_t)block >> 12 & 0xffff);
    free(block);
    return force;
}
"""


@with_gcc
def test_an_address_that_c_computes_with(folder: Path) -> None:
    """The fifth step is the first that uses it; fed with what was recorded, all is equal."""
    law_in_c(folder)
    (folder / "law.c").write_text(ADDRESS, encoding="utf-8")
    flown = ("sil", "run", "unstable", "-c", "controller=law.toml", "--until", "1")
    late = ("--set", "latency=0.013", "--latency", "0.03", "--checkpoint-every", "0.25")
    result = rtsim(*flown, *late, "-o", "a.mcap")
    assert result.exit_code == 0, result.output
    assert rtsim("diverge", "a.mcap").exit_code == 0
    told = diverged("a.mcap", "--live")
    assert place(told) == (400 * MS, 0, "message", "controller", "content")
    assert told["fed"]["how"].startswith("the computation of controller from its samples")
    assert told["fed"]["equal"]


def test_the_text_names_the_first_difference() -> None:
    fly("a.mcap", bug="draw")
    fly("b.mcap", bug="draw")
    result = rtsim("diverge", "a.mcap", "b.mcap")
    assert result.exit_code == 1
    row = _about(502)[1]
    lines = [" ".join(line.split()) for line in result.stdout.splitlines()]
    values = [
        float(Recording.open(f"{name}.mcap").track("plant").column("x")[row]) for name in "ab"
    ]
    x = next(line for line in lines if line.startswith("x "))
    for value in values:
        assert f"{value!r} (0x{np.float64(value).view(np.uint64):016x})" in x
    steps = abs(
        int(np.float64(values[0]).view(np.int64)) - int(np.float64(values[1]).view(np.int64))
    )
    assert x.endswith(f"{steps} ulp apart")
    tag = Recording.open("a.mcap").track("plant").tag(row)
    assert f"first difference: plant plant (x-) at {tag}" in lines
    assert lines[0].startswith("last tag at which everything agreed: 0.5")
    assert any(line.startswith("plant.g ") and line.endswith("equal gust.u") for line in lines)
    assert "all these inputs are equal: the difference was made in this computation" in lines
    assert any(line.startswith("random streams used after 0.5") for line in lines)


# -- memories and streams --------------------------------------------------------------------------


@pytest.mark.sample(1)
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


@pytest.mark.sample(1)
@pytest.mark.parametrize("other", ["b.mcap", ""])
def test_the_search_starts_at_the_nearest_checkpoint_that_agrees(
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


@pytest.mark.sample(1)
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


def test_saved_states_show_a_difference_that_no_recording_has() -> None:
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


def test_a_recording_that_was_cut_short(folder: Path) -> None:
    fly("a.mcap")
    fly("b.mcap")
    fly("c.mcap", bug="clock")
    data = (folder / "b.mcap").read_bytes()
    for share, runs in _cut(folder / "b.mcap", data):
        result = rtsim("diverge", *runs)
        assert result.exit_code == (0 if len(runs) == 1 else 2), (share, result.output)
        assert "the recording was cut off: b.mcap" in result.stdout
        assert ("could not be decided: b.mcap was cut off at " in result.stdout) == (len(runs) > 1)
    (folder / "c.mcap").write_bytes((folder / "c.mcap").read_bytes()[:-400])
    assert place(diverged("a.mcap", "c.mcap")) == (400 * MS, 0, "message", "c", "content")


@pytest.mark.parametrize("when", ["99", "-1"])
def test_a_beginning_outside_the_recording_is_refused(when: str) -> None:
    fly("a.mcap")
    result = rtsim("diverge", "a.mcap", "--from", when)
    assert result.exit_code == 2, result.output
    assert "a.mcap" in result.stderr
    assert "is outside a.mcap; give a time" in result.stderr


def _cut(path: Path, data: bytes) -> Iterator[tuple[float, tuple[str, ...]]]:
    for share in (0.9, 0.97):
        path.write_bytes(data[: int(share * len(data))])
        for runs in (("a.mcap", "b.mcap"), ("b.mcap", "a.mcap"), ("b.mcap",)):
            yield share, runs


def test_one_track_that_was_cut_shorter_than_the_others() -> None:
    """Its last rows were not there to be saved."""
    a = trace_of(shaken(0.5, 0.0), compile=False)
    short = replace(a.track("p"), words=a.track("p").words[:-5])
    cut = replace(a, tracks={**a.tracks, "p": short}, truncated="it was cut off")
    for pair in ((a, cut), (cut, a)):
        assert diverge(*pair, fly=False).equal
    whole = replace(cut, truncated=None)
    verdict = diverge(a, whole, fly=False)
    tag = a.track("p").tag(len(short))
    assert named(verdict)[:3] == (Tag(tag.ns), "plant", "p")


def test_a_longer_run_is_no_difference() -> None:
    """Its end cut a step, at a tag that the other does not have."""
    fly("a.mcap", "--until", "0.505")
    fly("b.mcap", "--until", "0.7")
    for pair in (("a.mcap", "b.mcap"), ("b.mcap", "a.mcap")):
        result = rtsim("diverge", *pair)
        assert result.exit_code == 0, result.output
        assert "from 0 to 0.505 s" in result.stdout


def test_a_run_that_continues_is_compared_from_its_checkpoint_on() -> None:
    fly("a.mcap", "--checkpoint-at", "0.3")
    [checkpoint] = Path().glob("a@*.checkpoint")
    resumed = rtsim("run", "--from", checkpoint, "--force", "-o", "b.mcap")
    assert resumed.exit_code == 0, resumed.output
    for pair in (("a.mcap", "b.mcap"), ("b.mcap", "a.mcap")):
        result = rtsim("diverge", *pair)
        assert result.exit_code == 0, result.output
        assert "agree bit for bit from 0.3 to 1 s" in result.stdout


def test_other_settings_are_named_as_set_takes_them(folder: Path) -> None:
    fly("a.mcap")
    slower = (folder / "lab.py").read_text().replace("period=0.05", "period=0.1")
    (folder / "lab.py").write_text(slower)
    fly("b.mcap")
    result = rtsim("diverge", "a.mcap", "b.mcap")
    assert "different settings: c.period: 50000000 and 100000000\n" in result.stdout


def test_a_run_that_failed_differs_from_a_run_that_went_on() -> None:
    fly("a.mcap")
    assert rtsim("run", SCENARIO, "--plain", "--set", "bug=dies", "-o", "b.mcap").exit_code == 2
    told = diverged("a.mcap", "b.mcap")
    assert place(told) == (500 * MS, 0, "event", "ControllerError", "error")
    [pair] = told["first"]["values"]
    assert pair["a"] == "absent"
    assert "no more" in pair["b"]
    assert 490 * MS <= told["agreed"]["ns"] < 500 * MS
    assert rtsim("diverge", "b.mcap").exit_code == 0  # it fails again, and there


def test_recordings_of_different_scenarios() -> None:
    fly("a.mcap")
    assert rtsim("run", "orbit", "--until", "1", "-o", "o.mcap").exit_code == 0
    result = rtsim("diverge", "a.mcap", "o.mcap")
    assert result.exit_code == 2
    assert "a.mcap and o.mcap are of different scenarios" in result.stderr


def test_a_part_that_only_one_has() -> None:
    """Its track is what differs, at the start."""
    more = shaken(0.5, 0.0)
    more.source("pilot", U)
    more.plant("third", INTEGRATOR, step=0.01, inputs={"u": "pilot.u"})
    verdict = parted(shaken(0.5, 0.0), more)
    assert named(verdict) == (Tag(0), "layout", "third", "track")
    assert [(pair.a, pair.b) for pair in verdict.place.pairs] == [("absent", "there")]


def test_columns_that_a_recording_lacks_are_named_alone() -> None:
    def renamed(name: str) -> Scenario:
        out = Scenario("renamed", until="0.1")
        out.plant("p", Model("p", Signals(f"{name} [m]", "v [m/s]"), still), step=0.01)
        return out

    verdict = parted(renamed("level"), renamed("height"))
    assert named(verdict) == (Tag(0), "layout", "p", "columns")
    [pair] = verdict.place.pairs
    assert (pair.a, pair.b) == ("level", "height")


def test_the_commands_of_both_runs_are_compared_exactly() -> None:
    scenario = shaken(0.5, 0.0)
    runs = []
    for text in ("here", "there"):
        mark = PendingCommand(Command("mark", {"text": text}), None, 14 * MS)
        runs.append(trace_of(scenario, compile=False, fed=FedInputs(commands=[mark])))
    verdict = diverge(*runs, scenarios=(scenario, scenario))
    assert named(verdict) == (Tag(15 * MS), "event", "mark", "Command")


def test_a_run_that_fell_behind_the_wall_is_no_difference() -> None:
    scenario = shaken(0.5, 0.0)
    run = trace_of(scenario, compile=False)
    for kind, equal in (("OverrunError", True), ("ModelError", False)):
        ended = Event(Tag(1000 * MS), "Error", kind, "no more", {})
        other = replace(run, events=[*run.events, ended])
        assert diverge(run, other, scenarios=(scenario, scenario), fly=False).equal == equal


def still(t: float, x: Any, z: Any, u: Any, p: Any, dx: Any) -> None:  # noqa: ARG001
    dx[:] = 0.0


def test_a_single_recording_needs_a_flight() -> None:
    fly("a.mcap")
    result = rtsim("diverge", "a.mcap", "--no-fly")
    assert result.exit_code == 2
    assert "give two recordings, or leave --no-fly out" in result.stderr
    result = rtsim("diverge", "nothing.mcap")
    assert result.exit_code == 2


def test_a_run_from_python_needs_its_scenario() -> None:
    scenario = shaken(0.362, 1e-13)
    a = trace_of(scenario, compile=False)
    with pytest.raises(RecordingError, match="its run was started from Python") as raised:
        diverge(a)
    assert "rtsim.runs.diverging.diverge(recording, scenarios=(scenario, None))" in str(
        raised.value.__notes__
    )
    assert diverge(a, scenarios=(scenario, None)).equal
    verdict = diverge(a, scenarios=(shaken(0.362, 0.0), None))
    assert named(verdict) == (Tag(370 * MS), "plant", "p", "x-")
    other = trace_of(shaken(0.362, 0.0), compile=False)
    verdict = diverge(a, other)  # only read
    assert named(verdict) == (Tag(370 * MS), "plant", "p", "x-")
    assert any("its run was started from Python" in note for note in verdict.notes)
