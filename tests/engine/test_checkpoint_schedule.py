"""When checkpoints are taken, what is kept of them, and what that costs a run: no number in it.

A run that was told something goes on from a checkpoint with what it was told.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rtsim.components.controller import ControllerProtocol
from rtsim.core.errors import CheckpointError, ScenarioError
from rtsim.core.signals import Signals, Vector
from rtsim.core.tag import Tag
from rtsim.engine.checkpoint.file import Checkpoint, Files, Ring, beside, path_beside
from rtsim.engine.checkpoint.schedule import CheckpointSchedule
from rtsim.engine.commands.commands import Command, PendingCommand
from rtsim.equations.model import Model
from rtsim.record.recorders import MemoryRecorder
from rtsim.record.replay_comparison import compare_exact
from rtsim.runs.replay import rerun
from rtsim.runs.simulation import FedInputs, Pace, simulate
from rtsim.scenario.loading import load_scenario
from rtsim.scenario.scenario import Scenario
from rtsim.testing.clock import FakeClock

MS = 1_000_000


class Run:
    """Stands for an executive: what it has in hand is what it is told."""

    def __init__(self) -> None:
        self.left: int | None = None
        self.now = 0
        self.cost = 0

    def save(self) -> Mapping[str, Any]:
        self.now += self.cost
        return {"plants": {}}

    def position(self) -> tuple[Mapping[str, int], int]:
        return {}, 0

    def in_hand(self) -> int | None:
        return self.left

    def clock(self) -> int:
        return self.now


def kept(ring: Ring) -> list[int]:
    return [c.ns // MS for c in ring._kept]


def observed(taking: CheckpointSchedule, run: Run, tags: range) -> None:
    """Tags in ms; the first is where the run begins."""
    taking.begin(run, {}, tags.start * MS, 10**12, run.clock)
    for ms in tags[1:]:
        taking.observe(ms * MS)


def test_regular_ones_and_those_asked_for_are_taken_at_the_next_tag() -> None:
    ring = Ring(1000)
    observed(CheckpointSchedule(ring, every=0.01, at=["0.0151", 0.02, 5]), Run(), range(0, 43, 3))
    assert kept(ring) == [12, 18, 21, 30, 42]


def test_a_run_that_goes_on_takes_them_at_the_same_times() -> None:
    ring = Ring(1000)
    observed(CheckpointSchedule(ring, every=0.01, at=[0.002, 0.033]), Run(), range(15, 45))
    assert kept(ring) == [20, 30, 33, 40]


@pytest.mark.parametrize("span_ms", [0, 1, 10, 25, 1000])
def test_a_ring_reaches_back_its_span(span_ms: int) -> None:
    ring = Ring(span_ms / 1000)
    observed(CheckpointSchedule(ring, every=0.01), Run(), range(96))
    for back in range(min(span_ms, 80) + 1):
        found = ring.before((95 - back) * MS)
        assert found is not None or span_ms < 10
        if found is not None:
            assert found.ns <= (95 - back) * MS
    assert len(ring) <= span_ms // 10 + 2
    assert ring.before(MS) is None


def test_a_ring_forgets_what_the_run_went_back_behind() -> None:
    ring = Ring(1000)
    observed(CheckpointSchedule(ring, every=0.01), Run(), range(55))
    observed(CheckpointSchedule(ring, every=0.005), Run(), range(20, 34))
    assert kept(ring) == [10, 20, 25, 30]


def test_a_frame_without_time_lets_a_regular_one_wait_but_none_that_was_asked_for() -> None:
    run, ring = Run(), Ring(1000)
    run.cost, run.left = 50, 1000
    taking = CheckpointSchedule(ring, every=0.01, at=[0.033])
    taking.begin(run, {}, 0, 10**12, run.clock)
    for ms in range(1, 60):
        run.left = 99 if 20 <= ms < 25 or 30 <= ms < 37 else 100
        taking.observe(ms * MS)
    assert kept(ring) == [10, 25, 33, 40, 50]
    assert taking.postponed == 5 + 3


def test_one_that_was_interrupted_does_not_end_them_for_good() -> None:
    run, ring = Run(), Ring(1000)
    run.cost, run.left = 10_000, 1000
    taking = CheckpointSchedule(ring, every=0.01)
    taking.begin(run, {}, 0, 10**12, run.clock)
    for ms in range(1, 1000):
        taking.observe(ms * MS)
        run.cost = 10_000 if ms < 10 else 50
    first, second, third = kept(ring)[:3]
    assert first == 10
    assert second > 100, "as dear as that there is no time for another"
    assert third == second // 10 * 10 + 10, "until it is tried again, and was cheap"


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"every": 0}, "checkpoint interval 0 s must be > 0"),
        ({"at": [0]}, "checkpoint time 0 s must be > 0"),
        ({"at": ["-1"]}, "checkpoint time -1 s must be > 0"),
        ({"every": "x"}, "interval of checkpoints 'x' is not a number of seconds"),
    ],
)
def test_times_that_make_no_sense(how: dict[str, Any], message: str) -> None:
    with pytest.raises(ScenarioError, match=message):
        CheckpointSchedule(Ring(1), **how)


def test_too_many_are_refused_before_the_run() -> None:
    taking = CheckpointSchedule(Files(Path("x.mcap")), every="1e-6")
    with pytest.raises(ScenarioError, match=r"interval of 1e-06 s would make more than 100000"):
        simulate(load_scenario("unstable"), compile=False, checkpoints=taking)


def test_one_after_the_end_is_refused_before_the_run() -> None:
    CheckpointSchedule(Ring(1), at=["1"]).begin(Run(), {}, 0, 10**9, Run().clock)
    late = CheckpointSchedule(Ring(1), at=["1", "99"])
    with pytest.raises(ScenarioError, match=r"99 s is after the end of the run at 1 s"):
        late.begin(Run(), {}, 0, 10**9, Run().clock)


def test_files_lie_beside_the_recording(tmp_path: Path) -> None:
    recording = tmp_path / "run.mcap"
    files = Files(recording)
    for ns in (1, 12_340_000_000):
        files.keep(Checkpoint(ns, {}, {}))
    assert files.paths == []
    files.finish()
    names = ["run@0.000000001.checkpoint", "run@12.340.checkpoint"]
    assert [p.name for p in files.paths] == names
    assert sorted(beside(recording)) == sorted(files.paths)
    assert beside(tmp_path / "ru.mcap") == []
    assert beside(tmp_path / "nowhere" / "run.mcap") == []
    assert path_beside(Path("a.b.mcap"), 0).name == "a.b@0.000.checkpoint"


def test_the_one_that_a_run_went_on_from_is_not_written_over(tmp_path: Path) -> None:
    """Its recording names it by its bits; one asked for where the run begins is that one."""
    recording = tmp_path / "run.2.mcap"
    path = Checkpoint(40 * MS, {"seed": 1}, {}).save(path_beside(recording, 40 * MS))
    start = Checkpoint.open(path)
    files = Files(recording, start)
    files.keep(Checkpoint(40 * MS, {"seed": 2}, {}))
    files.keep(Checkpoint(50 * MS, {"seed": 2}, {}))
    files.finish()
    assert Checkpoint.open(path).digest == start.digest
    assert [p.name for p in files.paths] == ["run.2@0.050.checkpoint"]
    found = files.between(-1, 45 * MS)
    assert found is not None
    assert found.digest == start.digest


def test_nothing_is_written_while_the_clock_is_paced_whatever_the_run_began_with(
    tmp_path: Path,
) -> None:
    run, files = Run(), Files(tmp_path / "run.mcap")
    taking = CheckpointSchedule(files, every="0.01")
    taking.begin(run, {}, 0, 10**12, run.clock)
    written = []
    for ms, left in ((10, None), (20, 10**9), (30, 10**9), (40, None)):
        run.left = left
        taking.observe(ms * MS)
        written.append(len(files.paths))
    assert written == [1, 1, 1, 4]


@pytest.mark.rule("pace-changes-nothing")
@pytest.mark.parametrize("name", ["unstable", "valves", "orbit"])
def test_a_run_that_is_saved_is_the_run_that_is_not(name: str) -> None:
    digests = []
    for taking in (None, CheckpointSchedule(Ring(1), every="0.0037", at=["0.1", "0.10001"])):
        recorder = MemoryRecorder()
        simulate(load_scenario(name), until=2, recorder=recorder, checkpoints=taking)
        digests.append(recorder.recording().digest())
    assert digests[0] == digests[1]
    assert taking is not None
    assert taking.taken >= 20


@pytest.mark.rule("pace-changes-nothing")
def test_one_that_was_taken_in_real_time_is_the_one_taken_as_fast_as_possible() -> None:
    states = []
    for pace, clock in (("max", None), ("1", FakeClock())):
        ring = Ring(10)
        taking = CheckpointSchedule(ring, at=["0.5", "0.77"])
        simulate(
            load_scenario("unstable"), until=1, compile=False, checkpoints=taking,
            pace=Pace.of(pace), clock=clock,
        )  # fmt: skip
        states.append([(c.ns, c.state, c.rows) for c in ring._kept])
    assert states[0] == states[1]


class Forgetful:
    """A controller that nobody can save."""

    inputs, outputs, outside = Signals(), Signals("y [1]"), False

    def send(self, tag: Tag, inputs: Vector) -> None:
        pass

    def receive(self, tag: Tag, patience: float) -> Vector | None:  # noqa: ARG002
        return np.zeros(1)

    def close(self) -> None:
        pass


def test_a_part_that_cannot_be_saved_is_named_before_the_run() -> None:
    scenario = Scenario("s", until=1)
    controller: ControllerProtocol = Forgetful()
    scenario.controller("c", controller, period=0.1)
    simulate(scenario)
    with pytest.raises(CheckpointError, match=r"c \(Forgetful\) can neither .*; run without"):
        simulate(scenario, checkpoints=CheckpointSchedule(Ring(1), every=0.1))
    controller.free_running = True  # type: ignore[attr-defined]
    for how in (
        {"checkpoints": CheckpointSchedule(Ring(1), every=0.1)},
        {"start": Checkpoint(1, {}, {})},
    ):
        with pytest.raises(CheckpointError, match="c runs on its own clock and cannot be paused"):
            simulate(scenario, **how)


def climb(t: float, x: Vector, z: Vector, u: Vector, p: Vector, dx: Vector) -> None:  # noqa: ARG001
    dx[0] = p[0]


CLIMB = Model("climb", Signals("x [1]"), climb, parameters=Signals("k [1/s] = 1"))


def two_grids() -> Scenario:
    out = Scenario("two grids", until=0.06)
    out.plant("slow", CLIMB, step=0.01)
    out.plant("fast", CLIMB, step=0.003)
    return out


@pytest.mark.rule("saved-as-a-whole")
@pytest.mark.rule("outside-inputs-latch")
@pytest.mark.parametrize("at", ["0.002", "0.0165", "0.0195", "0.0205", "0.033"])
def test_a_parameter_set_in_the_middle_of_a_step_acts_at_its_end(at: str) -> None:
    """No step is cut; a checkpoint in between knows what is still to come."""
    told = [
        PendingCommand(Command("set", {"target": f"{name}.k", "value": 5.0}), None, 14 * MS)
        for name in ("slow", "fast")
    ]
    recorder, ring = MemoryRecorder(), Ring(1)
    scenario, at_once = two_grids(), CheckpointSchedule(ring, at=[at])
    fed = FedInputs(commands=told)
    simulate(scenario, compile=False, fed=fed, recorder=recorder, checkpoints=at_once)
    whole = recorder.recording()
    for name, since in (("slow", 20), ("fast", 15)):
        ns, x = whole.track(name).ns, whole.track(name).column("x")
        after = np.where(ns > since * MS, 5.0, 1.0) * np.diff(ns, prepend=0) / 1e9
        assert np.allclose(x, np.cumsum(after))
        changed = [e.tag.ns // MS for e in whole.events if e.source == f"{name}.k"]
        assert changed == [since]
    assert compare_exact(whole, rerun(whole, scenario)) is None
    start = ring.before(10**9)
    assert start is not None
    assert bool(start.state["postponed"]) == (15 * MS <= start.ns < 20 * MS)
    rest = MemoryRecorder()
    still = [one for one in told if one.ns > start.ns]
    simulate(scenario, compile=False, start=start, recorder=rest, fed=FedInputs(commands=still))
    assert rest.recording().digest() == whole.since(start.rows).digest()


class Stick:
    """Says something at some of the tags at which it is asked."""

    def __init__(self, said: dict[int, float]) -> None:
        self.said = said
        self.asked = 0

    def poll(self) -> Vector | None:
        self.asked += 1
        value = self.said.get(self.asked - 1)
        return None if value is None else np.array([value])


def follow(t: float, x: Vector, z: Vector, u: Vector, p: Vector, dx: Vector) -> None:  # noqa: ARG001
    dx[0] = u[0]


FOLLOW = Model("follow", Signals("x [1]"), follow, inputs=Signals("u [1]"))


@pytest.mark.rule("saved-as-a-whole")
@pytest.mark.rule("outside-inputs-latch")
@pytest.mark.parametrize("asked", range(1, 12))
def test_a_stick_that_moved_in_the_middle_of_a_step_is_still_heard_at_its_end(asked: int) -> None:
    scenario = Scenario("stick", until=0.06)
    scenario.external_input("stick", Signals("u [1]"), Stick({asked: 1.0, asked + 9: 2.0}))
    for name, step in (("slow", 0.01), ("fast", 0.003)):
        scenario.plant(name, FOLLOW, step=step, inputs={"u": "stick.u"})
    recorder, ring = MemoryRecorder(), Ring(1)
    taking = CheckpointSchedule(ring, at=[f"{ms}/1000" for ms in range(1, 58, 2)])
    simulate(scenario, compile=False, recorder=recorder, checkpoints=taking)
    whole = recorder.recording()
    starts = {c.ns: c for ms in range(1, 60) if (c := ring.before(ms * MS)) is not None}
    assert len(starts) > 15
    for start in starts.values():
        rest = whole.since(start.rows, start.events)
        assert compare_exact(rest, rerun(whole, scenario, start=start)) is None, start.tag
