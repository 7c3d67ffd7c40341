"""Restore: a run that goes back to a checkpoint ends there whole, and another goes on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command_parts import Flown, Told

from rtsim.core.errors import ScenarioError
from rtsim.core.tag import Tag
from rtsim.engine.checkpoint.file import CheckpointHistory, Files, Ring
from rtsim.engine.checkpoint.schedule import CheckpointSchedule
from rtsim.models import unstable
from rtsim.record.reading import Recording
from rtsim.record.replay_comparison import compare_exact
from rtsim.runs.replay import rerun
from rtsim.scenario.scenario import Scenario

MS = 1_000_000


def scenario() -> Scenario:
    """Steps of 10 ms for 2 s, a controller of 100 ms whose commands are 30 ms under way."""
    return unstable.scenario(latency=0.03, until=2)


def told(kind: str, **arguments: Any) -> Told:
    return {"kind": kind, **arguments}


def leg(
    past: CheckpointHistory, at: dict[int, list[Told]], before: Flown | None = None,
    standing: list[Told] = []  # noqa: B006
) -> Flown:  # fmt: skip
    return Flown(
        scenario(), at, standing, checkpoints=CheckpointSchedule(None, past=past), before=before
    )


def replays(flown: Flown) -> bool:
    again = rerun(flown.recording, scenario(), start=flown.start)
    return compare_exact(flown.recording, again, prefix=True) is None


def last(recording: Recording) -> bytes:
    return bytes(np.asarray(recording.rows("plant").floats[-1]).tobytes())


@pytest.mark.rule("restore-is-another-leg")
def test_a_run_goes_back_in_legs_that_each_replay_bit_for_bit() -> None:
    past = CheckpointHistory("1.5")
    first = leg(past, {1200 * MS: [told("restore", at=0.75)]})
    assert first.reason == "restored"
    assert first.restored is not None
    assert first.restored.tag == Tag(700 * MS), "one each 0.1 s is kept: the latest not after 0.75"
    assert first.recording.footer is not None
    assert first.recording.footer["restored"] == 700 * MS
    assert first.recording.end_ns == 1210 * MS
    (event,) = [e for e in first.recording.events if e.kind == "Restored"]
    assert (event.tag.ns, event.values["ns"]) == (1210 * MS, 700 * MS)
    assert replays(first)

    aside = [told("set", target="plant.stiffness", value=2.5)]
    second = leg(past, {900 * MS: aside, 1500 * MS: [told("restore", back=0.9)]}, first)
    assert second.restored is not None
    assert second.restored.ns == 600 * MS, "further back than where this leg began"
    assert replays(second)

    third = leg(past, {}, second)
    assert third.reason == "end"
    assert replays(third)
    assert last(third.recording) == last(Flown(scenario(), {}).recording), "as if never left"


def test_what_was_flown_before_going_back_is_no_past_of_what_goes_on() -> None:
    past = CheckpointHistory("1.5")
    orders = {720 * MS: [told("checkpoint")], 1200 * MS: [told("restore", at=0.72)]}
    first = Flown(scenario(), orders, checkpoints=CheckpointSchedule(Ring(9), past=past))
    assert first.restored is not None
    assert first.restored.ns == 700 * MS
    assert past.before(750 * MS) is not None
    second = leg(past, {750 * MS: [told("restore")]}, first)
    assert second.restored is not None
    assert second.restored.ns == 700 * MS, "the one of 0.73 s is of what was left"


def test_a_run_that_stood_stands_where_it_goes_on() -> None:
    past = CheckpointHistory("1.5")
    orders = [told("set", target="plant.stiffness", value=2.5), told("restore", at=0.5)]
    first = leg(past, {1000 * MS: [told("pause")]}, standing=orders)
    assert first.reason == "restored"
    assert first.certificate.holds == 1
    seen: list[Told] = [told("step", tags=2), told("mark", text="here")]
    second = leg(past, {}, first, standing=seen)
    told_at = [(ns, kind) for ns, kind in second.events]
    assert told_at == [(500 * MS, "step"), (520 * MS, "resume"), (530 * MS, "mark")]
    assert second.certificate.holds == 2
    assert "Change" not in {e.kind for e in second.recording.events}
    assert last(second.recording) == last(Flown(scenario(), {}).recording), "the set was undone"
    assert replays(first)
    assert replays(second)


@pytest.mark.rule("restore-is-another-leg")
def test_what_comes_after_a_restore_is_for_what_goes_on() -> None:
    past = CheckpointHistory("1.5")
    orders = [told("restore", at=0.5), told("mark", text="after")]
    first = leg(past, {1000 * MS: orders})
    second = leg(past, {}, first)
    assert [kind for _, kind in first.events] == ["restore"]
    assert second.events == [(510 * MS, "mark")]


def test_the_wall_neither_sprints_nor_stalls() -> None:
    past = CheckpointHistory("1.5")
    first = leg(past, {700 * MS: [told("rate", rate=0.1)], 1200 * MS: [told("restore", at=0.5)]})
    began = first.clock.now()
    second = leg(past, {}, first)
    assert second.clock.now() - began == 10 * 1500 * MS
    assert sum(second.certificate.overruns.values()) == 0


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        (told("restore", at=1.5), "restore cannot go forward to"),
        (told("restore", at=0.05), "there is no checkpoint at or before 0.050"),
        (told("restore", back=1.0), "there is no checkpoint at or before"),
    ],
)
def test_a_restore_to_nowhere_is_refused_and_changes_nothing(asked: Told, says: str) -> None:
    flown = leg(CheckpointHistory(0.5), {900 * MS: [asked]})
    ((_, wrong, _),) = flown.answers
    assert says in wrong
    assert flown.reason == "end"
    assert flown.events == []


def test_without_anything_kept_it_says_what_keeps_some() -> None:
    flown = Flown(scenario(), {900 * MS: [told("restore")]})
    ((_, wrong, _),) = flown.answers
    assert "--rewind SECONDS" in wrong


def test_what_goes_on_alone_cannot_go_back() -> None:
    rig, past = scenario(), CheckpointHistory(1)
    rig.component("controller").controller.paced = True  # type: ignore[attr-defined]
    flown = Flown(
        rig, {900 * MS: [told("restore")]}, checkpoints=CheckpointSchedule(None, past=past)
    )
    ((_, wrong, _),) = flown.answers
    assert "restore is refused: controller is a board in real time" in wrong


@pytest.mark.parametrize("rate", ["max", 1.0])
def test_kept_files_are_gone_back_to(tmp_path: Path, rate: float | str) -> None:
    past, files = CheckpointHistory(), Files(tmp_path / "a.mcap")
    past.add(files)
    at: dict[int, list[Told]] = {
        100 * MS: [told("rate", rate=rate)],
        400 * MS: [told("checkpoint")], 700 * MS: [told("checkpoint")],
        900 * MS: [told("restore", at=0.6)],
    }  # fmt: skip
    first = Flown(scenario(), at, checkpoints=CheckpointSchedule(files, past=past))
    assert first.restored is not None
    assert first.restored.ns == 410 * MS
    more = Files(tmp_path / "b.mcap")
    past.add(more)
    later = CheckpointSchedule(more, past=past)
    second = Flown(scenario(), {720 * MS: [told("restore")]}, checkpoints=later, before=first)
    assert second.restored is not None
    assert second.restored.ns == 410 * MS, "the one of 0.71 s is of another past"
    assert {p.name for p in files.paths} == {"a@0.410.checkpoint", "a@0.710.checkpoint"}
    assert replays(second)


def test_a_span_of_nothing() -> None:
    with pytest.raises(ScenarioError, match="rewind span 0 s must be > 0"):
        CheckpointHistory(0)
