"""A run that is cut in two is the whole run, bit for bit, whatever it is and wherever it is cut."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from checkpoint_parts import (
    OWN,
    SOLVED,
    cut,
    gone_on,
    gone_on_elsewhere,
    rest,
    scenario,
    split_tags,
)

from rtsim.core.errors import ControllerError, RtsimError
from rtsim.engine.checkpoint.file import SUFFIX, Checkpoint
from rtsim.record.recorders import MemoryRecorder
from rtsim.runs.simulation import simulate
from rtsim.scenario.loading import BUILT_IN, load_scenario

NAMES = sorted([*BUILT_IN, *OWN])
FEW = [name for name in NAMES if name not in SOLVED] + ["ball-abm4", "ball-lsoda", "orbit-dp54"]
"""A solver of each kind: the others are flown in full."""


def split(names: list[str], folder: Path, count: int) -> None:
    """Restored in a new process, each of them; what came before and after is the whole."""
    expected = {}
    for name in names:
        (folder / name).mkdir()
        whole = cut(name, split_tags(name, folder / name, count), folder / name)
        paths = sorted((folder / name).glob(f"*{SUFFIX}"))
        assert len(paths) > count // 4  # two times may have the same next tag
        expected[name] = {path.name: rest(whole, path) for path in paths}
        assert len(set(expected[name].values())) == len(paths)
    assert gone_on_elsewhere(folder, names) == expected


@pytest.mark.long
@pytest.mark.rule("saved-as-a-whole")
def test_a_run_that_was_cut_is_the_whole_run(tmp_path: Path) -> None:
    split(FEW, tmp_path, 2)


@pytest.mark.full
@pytest.mark.parametrize("name", NAMES)
def test_wherever_it_is_cut(name: str, tmp_path: Path) -> None:
    split([name], tmp_path, 200)


def test_what_is_cut_has_messages_requests_and_noise_under_way(tmp_path: Path) -> None:
    """The scenario of this file is what it is said to be."""
    cut("noisy", split_tags("noisy", tmp_path, 40), tmp_path)
    states = [Checkpoint.open(path).state for path in tmp_path.glob(f"*{SUFFIX}")]
    assert any(len(state["bus"]["flight"]) > 2 for state in states)
    assert any(state["tasks"]["c"]["request"] for state in states)
    assert any(state["tasks"]["c"]["counts"][1] for state in states)
    assert any(plant["ns"] < state["ns"] for state in states for plant in state["plants"].values())
    assert {"noise/gust", "transport/s", "compute/c"} <= set(states[0]["streams"]["streams"])


def test_what_is_counted_goes_on_from_where_it_was(tmp_path: Path) -> None:
    """Of a run that was cut, the footer says what the footer of the whole one says."""
    whole = cut("noisy", split_tags("noisy", tmp_path, 6), tmp_path)
    assert whole.footer is not None
    at_cut = set()
    for path in tmp_path.glob(f"*{SUFFIX}"):
        recorder = MemoryRecorder()
        start = Checkpoint.open(path)
        simulate(scenario("noisy", tmp_path), seed=99, recorder=recorder, start=start)
        footer = recorder.recording().footer
        assert footer is not None
        for what in ("late", "missed", "ended", "reason", "error"):
            assert footer[what] == whole.footer[what], what
        at_cut.add(start.state["tasks"]["c"]["counts"][1])
    assert max(at_cut) > 0
    assert whole.footer["missed"] > max(at_cut), "some are missed before the cut, some behind it"


def test_each_count_of_a_controller_is_restored_as_itself() -> None:
    tasks = [simulate(load_scenario("unstable"), until=1).system.controllers[0] for _ in range(2)]
    tasks[0].lates, tasks[0].missed = 3, 5
    tasks[1].restore(json.loads(json.dumps(tasks[0].save())))
    assert (tasks[1].lates, tasks[1].missed) == (3, 5)
    assert tasks[1].save() == tasks[0].save()


def _less(saved: Any, *path: str) -> None:
    """Leave out what stands there: nothing, or noughts where something has to stand."""
    for key in path[:-1]:
        saved = saved[key]
    was = saved[path[-1]]
    saved[path[-1]] = dict.fromkeys(was, 0) if path[-1] == "sequence" else type(was)()


BROKEN = {
    "streams": ("streams", "streams"),
    "messages": ("bus", "flight"),
    "sequence": ("bus", "sequence"),
    "memory": ("tasks", "c", "controller"),
    "changes": ("next_change",),
    "values": ("ports", "gust"),
    "plant": ("plants", "fast", "values"),
}
MISFITS = ("memory", "values", "plant")
"""Without these a system is refused; without the others it would run, otherwise."""


@pytest.mark.parametrize("part", BROKEN)
def test_what_is_left_out_of_a_checkpoint_is_missed(part: str, tmp_path: Path) -> None:
    """The check above can fail: once for each part of what is saved."""
    whole = cut("noisy", split_tags("noisy", tmp_path, 4), tmp_path)
    expected = {path.name: rest(whole, path) for path in sorted(tmp_path.glob(f"*{SUFFIX}"))}
    for path in tmp_path.glob(f"*{SUFFIX}"):
        broken = Checkpoint.open(path)
        _less(broken.state, *BROKEN[part])
        broken.__dict__.pop("digest")
        broken.save(path)
    if part in MISFITS:
        with pytest.raises(RtsimError, match="does not fit this scenario"):
            gone_on(tmp_path, "noisy")
    else:
        assert gone_on(tmp_path, "noisy") != expected


def test_c_that_was_built_otherwise_is_not_gone_on_with(tmp_path: Path) -> None:
    cut("worker", ["1.5"], tmp_path)
    source = tmp_path / "law.c"
    source.write_text(source.read_text().replace("0.5 * x", "0.5000001 * x"))
    with pytest.raises(ControllerError, match="law cannot be restored: its 16 steps were repeated"):
        gone_on(tmp_path, "worker")
