"""Which checkpoint belongs to a recorded run, from which of them it is gone on, and from when."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rtsim.core.errors import CheckpointError
from rtsim.core.signals import Signals
from rtsim.engine.checkpoint.file import Checkpoint
from rtsim.record.reading import Recording
from rtsim.record.recorders import MemoryRecorder
from rtsim.runs.resume import fits, moment, nearest, started_again

VALUES = [1.0, 2.0, 3.0]


def recorded(source: Path | str = "memory", **header: Any) -> Recording:
    """Rows of ``p`` at 0, 10 and 20 ns."""
    recorder = MemoryRecorder()
    track = recorder.track("p", ("step",), Signals("x", "y"))
    recorder.start({"seed": 1, **header})
    for k, value in enumerate(VALUES):
        track.append(10 * k, (0,), np.array([value, -value]))
    return replace(recorder.recording(), source=str(source))


def taken(ns: int = 10, rows: int = 2, value: float = 2.0, **more: Any) -> Checkpoint:
    """At 10 ns, when two rows were recorded."""
    run = recorded()
    header = {key: v for key, v in run.header.items() if key != "tracks"}
    state = {"plants": {more.pop("plant", "p"): {"values": [value, -value]}}}
    return Checkpoint(ns, {**header, **more}, state, {"p": rows})


def test_a_checkpoint_fits_by_its_header_and_the_states_that_were_recorded_then() -> None:
    run = recorded()
    assert fits(taken(), run)
    assert fits(taken(0, 1, 1.0), run)
    assert fits(taken(20, 3, 3.0), run)
    assert not fits(taken(seed=2), run)
    assert not fits(taken(more=2), run)
    assert not fits(taken(value=2.5), run)
    assert not fits(taken(rows=1), run), "that row says something else"
    assert not fits(taken(plant="q"), run)
    assert not fits(taken(30, 4, 4.0), run), "it was cut off before"
    assert fits(taken(-1, 0, 9.0), run), "before its first row nothing can be held against it"
    assert fits(replace(taken(-1, 0, 9.0), rows={}), run)


def test_rows_that_were_recorded_before_the_recording_are_not_in_it() -> None:
    continues = {"rows": {"p": 5}, "checkpoint": "a", "sha256": "b"}
    run = recorded(continues=continues)
    assert fits(taken(10, 7, 2.0, continues=continues), run)
    assert not fits(taken(10, 2 + 4, 2.0, continues=continues), run)
    assert fits(taken(10, 5, 9.0, continues=continues), run), "just where it begins"


def test_the_nearest_is_the_latest_of_the_run_that_is_not_after(tmp_path: Path) -> None:
    run = recorded(tmp_path / "run.mcap")
    for ns, rows, value in ((0, 1, 1.0), (10, 2, 2.0), (20, 3, 3.0)):
        taken(ns, rows, value).save(tmp_path / f"run@{ns}.checkpoint")
    taken(15, 2, 7.0).save(tmp_path / "run@15.checkpoint")
    (tmp_path / "run@5.checkpoint").write_bytes(b"")
    for ns, found in ((25, 20), (20, 20), (19, 10), (10, 10), (9, 0), (0, 0)):
        one, useless = nearest(run, ns)
        assert one is not None
        assert one.ns == found, ns
    assert useless[-1].startswith(f"{tmp_path / 'run@5.checkpoint'} is not a checkpoint")
    _, useless = nearest(run, 19)
    other = tmp_path / "run@15.checkpoint"
    assert useless[0] == f"{other} is a checkpoint of another run than {run.source}"


def test_a_recording_that_goes_on_has_nothing_before_its_checkpoint(tmp_path: Path) -> None:
    start = taken(5, 1, 1.0)
    start.save(tmp_path / "first@5.checkpoint")
    continues = {
        "checkpoint": "first@5.checkpoint", "sha256": start.digest, "rows": {}, "ns": 5,
    }  # fmt: skip
    run = recorded(tmp_path / "run.mcap", continues=continues)
    found, useless = nearest(run, 5)
    assert found is not None
    assert (found.ns, useless) == (5, [])
    with pytest.raises(
        CheckpointError, match=r"begins at 0\.000000005 s, which is after 0\.000000004 s"
    ):
        nearest(run, 4)
    taken(10, 2, 2.0, continues=continues).save(tmp_path / "run@10.checkpoint")
    later, _ = nearest(run, 10)
    assert later is not None
    assert later.ns == 10


@pytest.mark.parametrize("ns", [0, -1, 20, 21])
def test_a_moment_lies_within_the_recording(ns: int) -> None:
    text = (
        r"with live inputs from .* s; give a time after 0 s and before its end at 0\.000000020 s$"
    )
    with pytest.raises(CheckpointError, match=text):
        moment(recorded(), ns)


def test_a_controller_that_nothing_can_start_again_is_named() -> None:
    header = {"scenario": {"parts": {"law": {"type": "by hand"}}}}
    with pytest.raises(
        CheckpointError, match="law was of type by hand, which cannot be started again"
    ):
        started_again(header, "law")
    with pytest.raises(CheckpointError, match="law was of type something unnamed"):
        started_again({}, "law")
