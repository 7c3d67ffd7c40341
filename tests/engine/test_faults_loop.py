"""Faults of timing under the fake clock: frames, record, replay, checkpoint."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from command_parts import Flown, Told
from fault_parts import flown, sampled
from loop_parts import MS, Paced, computed, late, marks, scenario

from rtsim.core.clock import VirtualClock, Wake
from rtsim.core.errors import ScenarioError
from rtsim.engine.checkpoint.file import SUFFIX, Checkpoint, Files
from rtsim.engine.checkpoint.schedule import CheckpointSchedule
from rtsim.engine.faults.at_loop import DisturbedPacer
from rtsim.engine.microsteps import Microsteps
from rtsim.engine.trace import Trace
from rtsim.record.replay_comparison import compare_exact
from rtsim.runs.replay import rerun
from rtsim.runs.simulation import _pacer
from rtsim.testing import FakeClock
from rtsim.timing.frames import NO_SAMPLE
from rtsim.timing.pacing import Pacer
from rtsim.timing.policy import Abort, CatchUp, Freeze, Slip

KINDS: list[dict[str, Any]] = [
    late(kind="stall"),
    late(kind="stall", duration=0.05, amount=0.004),
    late(kind="late_wake"),
    late(kind="late_wake", every=0.3, count=2),
    late(kind="slow_job", where="loop.controller", duration=0.3),
    late(kind="slow_job", where="loop.propagate", count=3),
    late(kind="slow_job", where="loop.recording", probability=0.1),
    late(kind="load", length=5),
    late(kind="load", length=3, probability=0.05),
    late(kind="stall", when="ramp.x > 0.5", amount=0.011),
    {"name": "f", "where": "loop", "kind": "lost_tick", "probability": 0.3},
    {"name": "f", "where": "loop.controller", "kind": "lost_tick", "at": 0.3, "count": 2},
]
ids = [f"{k['kind']}-{n}" for n, k in enumerate(KINDS)]


def test_a_stall_is_computing_of_one_frame() -> None:
    run = Paced(scenario(late(kind="stall")))
    assert computed(run, (190, 200, 210)) == [0, 30 * MS, 0]
    assert run.overruns == [
        (210, "fault.f", 20 * MS, "catch_up"), (220, "fault.f", 10 * MS, "catch_up"),
    ]  # fmt: skip
    assert run.frames[220][2] == MS, "due when the loop is there: the tolerance is in hand"
    assert run.frames[230] == (NO_SAMPLE, 0, 11 * MS), "and then it is on time again"
    assert marks(run.recording) == [
        (200, "Fault", "f", "stall at loop: the loop stands still for 30 ms")
    ]


def test_a_late_wake_is_no_computing() -> None:
    run = Paced(scenario(late(kind="late_wake")))
    assert run.frames[190] == (0, 0, 11 * MS)
    assert run.frames[200] == (30 * MS, 0, -19 * MS)
    assert [(at, why) for at, why, *_ in run.overruns] == [
        (200, "wake"), (210, "wake"), (220, "wake"),
    ]  # fmt: skip
    assert run.certificate is not None
    assert run.certificate.overruns == {"compute": 0, "wake": 3}
    assert marks(run.recording)[0][3] == "late_wake at loop: the loop is woken late by 30 ms"


@pytest.mark.parametrize(
    ("job", "frames"),
    [("controller", [200, 300]), ("propagate", [200, 210]), ("recording", [200, 210])],
)
def test_a_slow_job_is_named_in_the_overrun(job: str, frames: list[int]) -> None:
    run = Paced(scenario(late(kind="slow_job", where=f"loop.{job}", count=2, amount=0.012)))
    assert [ms for ms, (_, busy, _) in run.frames.items() if busy] == frames
    assert {(why, ns) for _, why, ns, _ in run.overruns} <= {(job, 2 * MS), (job, 4 * MS)}
    assert len(run.overruns) == 2
    assert run.certificate is not None
    assert run.certificate.blamed == {job: 2}
    assert run.certificate.worst[0].jobs[job] == 12 * MS
    assert f"2 by compute: {job} 2" in run.certificate._verdict()
    assert [kind for _, kind, *_ in marks(run.recording)] == ["Fault", "FaultEnded"]


def test_without_an_end_a_slow_job_stays_slow() -> None:
    run = Paced(scenario(late(kind="slow_job", where="loop.controller", amount=0.002)))
    busy = [ms for ms, (_, ns, _) in run.frames.items() if ns]
    assert busy == list(range(200, 1000, 100))


def test_a_load_takes_some_of_each_of_its_frames_and_never_more_than_its_amount() -> None:
    runs = [Paced(scenario(late(kind="load", length=20, amount=0.008)), seed=s) for s in (1, 1, 2)]
    taken = [computed(run, range(200, 400, 10)) for run in runs]
    assert taken[0] == taken[1], "the same draws under the same seed"
    assert taken[0] != taken[2]
    assert len(set(taken[0])) > 15
    assert all(0 <= ns <= 8 * MS for ns in taken[0])
    assert sum(ns for _, ns, _ in runs[0].frames.values()) == sum(taken[0])
    assert runs[0].overruns == []
    own = scenario(late(kind="load", length=20, amount=0.008, seed=7))
    assert computed(Paced(own, seed=1), range(200, 400, 10)) == computed(
        Paced(scenario(late(kind="load", length=20, amount=0.008, seed=7)), seed=2),
        range(200, 400, 10),
    )


def test_a_lost_tick_is_a_reaction_less() -> None:
    lost = {"name": "f", "where": "loop.controller", "kind": "lost_tick", "at": 0.3, "count": 2}
    run = flown(scenario(), lost)
    assert sampled(run) == pytest.approx([0.0, 0.1, 0.2, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0])
    assert marks(run)[0] == (
        300,
        "Fault",
        "f",
        "lost_tick at loop.controller: controller does not tick",
    )
    everybody = flown(scenario(), {**lost, "where": "loop", "count": 1})
    assert len(sampled(everybody)) == 10
    assert compare_exact(run, flown(scenario(), lost)) is None


def test_a_fault_of_signals_has_ticks_that_cannot_be_lost() -> None:
    noise = {"name": "n", "where": "driven.u", "kind": "noise", "deviation": 0.1}
    lost = {"name": "f", "where": "loop", "kind": "lost_tick"}
    with_it, without = flown(scenario(), noise, lost), flown(scenario(), noise)
    assert with_it.track("driven").rows.floats.shape == without.track("driven").rows.floats.shape
    assert (with_it["driven.x"] != 0).any(), "the noise is there, though nobody else ticks"


@pytest.mark.parametrize("fault", KINDS, ids=ids)
def test_a_replay_has_the_same_trace_and_says_the_same_of_the_faults(fault: dict[str, Any]) -> None:
    run = Paced(scenario(fault), seed=5)
    assert marks(run.recording), "it acts"
    assert run.certificate is not None
    again = rerun(run.recording, scenario(fault))
    assert compare_exact(run.recording, again) is None
    assert marks(again) == marks(run.recording)
    calm = Paced(scenario(), seed=5).recording
    differs = compare_exact(run.recording, calm) is not None
    assert differs == (fault["kind"] == "lost_tick"), "time alone changes no number"


@pytest.mark.parametrize("kind", ["stall", "late_wake"])
def test_what_ended_the_run_is_said_again_too(kind: str) -> None:
    run = Paced(scenario(late(kind=kind, at=0.25)), Abort())
    assert "overrun at" in run.error
    again = rerun(run.recording, scenario(late(kind=kind, at=0.25)))
    assert compare_exact(run.recording, again, prefix=True) is None
    assert marks(again) == marks(run.recording) != []


@pytest.mark.parametrize("fault", KINDS, ids=ids)
def test_as_fast_as_possible_nothing_is_late_and_that_is_said(fault: dict[str, Any]) -> None:
    run = flown(scenario(), fault)
    idle = [(ms, what) for ms, kind, _, what in marks(run) if kind == "FaultIdle"]
    if fault["kind"] == "lost_tick":
        assert idle == []
        return
    assert idle == [(0, "as fast as possible nothing is late; give --pace 1")]
    assert len(marks(run)) == 1
    assert compare_exact(run, flown(scenario())) is None
    assert marks(rerun(run, scenario(fault))) == marks(run)


def test_a_run_that_is_told_to_go_as_fast_as_possible_is_not_late_until_it_is_paced_again() -> None:
    fault = late(kind="slow_job", where="loop.propagate", amount=0.001)
    at: dict[int, list[Told]] = {
        300 * MS: [{"kind": "rate", "rate": "max"}],
        600 * MS: [{"kind": "rate", "rate": 1.0}],
    }
    run = Flown(scenario(fault), at)
    track = run.recording.track("timing")
    busy = track.rows.ns[track.integer("compute") == MS] // MS
    assert busy.min() == 200
    assert busy.max() == 990
    assert not ((busy > 310) & (busy < 600)).any()
    assert [kind for _, kind, *_ in marks(run.recording)] == ["Fault"]


def test_by_command_a_stall_begins_and_is_said_again() -> None:
    fault = late(kind="stall", at=1000, amount=0.002, count=3)
    run = Flown(scenario(fault), {390 * MS: [{"kind": "fault", "name": "f", "do": "start"}]})
    assert [wrong for _, wrong, _ in run.answers] == [""]
    found = marks(run.recording)
    assert [(ms, kind) for ms, kind, *_ in found] == [(400, "Fault"), (420, "FaultEnded")]
    again = rerun(run.recording, scenario(fault))
    assert compare_exact(run.recording, again) is None
    assert marks(again) == found


@pytest.mark.parametrize("at", [0.2, 0.25, 0.3])
@pytest.mark.parametrize(
    "fault",
    [
        late(kind="load", length=15, amount=0.008),
        late(kind="load", length=3, amount=0.008, probability=0.2),
        late(kind="stall", duration=0.15, amount=0.003),
        late(kind="slow_job", where="loop.controller", count=3, amount=0.003),
        late(kind="late_wake", count=15, amount=0.0005),
        {"name": "f", "where": "loop.controller", "kind": "lost_tick", "at": 0.2, "count": 4},
    ],
    ids=lambda value: value["kind"],
)
def test_a_run_that_goes_on_from_a_checkpoint_is_in_the_midst_of_the_fault(
    tmp_path: Path, fault: dict[str, Any], at: float
) -> None:
    taking = CheckpointSchedule(Files(tmp_path / "run.mcap"), at=[at])
    whole = Paced(scenario(fault), seed=3, checkpoints=taking)
    (path,) = tmp_path.glob(f"*{SUFFIX}")
    start = Checkpoint.open(path)
    rest = Paced(scenario(fault), seed=99, start=start)
    after = {ms: f for ms, f in whole.frames.items() if ms > start.ns // MS}
    assert {ms: f for ms, f in rest.frames.items() if ms in after} == after
    told = whole.recording.events[start.events :]
    assert [repr(e) for e in rest.recording.events] == [repr(e) for e in told]
    assert (
        compare_exact(whole.recording.since(start.rows), rest.recording.since(start.rows)) is None
    )


def test_where_a_frame_is_frozen_and_resumed_the_stall_is_taken_once() -> None:
    run = Paced(scenario(late(kind="stall")), Freeze(1), resumed=True)
    assert run.overruns == [(210, "fault.f", 20 * MS, "freeze")]
    assert run.certificate is not None
    assert run.certificate.injected == {"f": 30 * MS}
    assert run.certificate.slipped_ns == 70 * MS


def test_a_stall_is_taken_in_its_frame_and_not_while_the_run_is_frozen() -> None:
    faults = (late(name="w", kind="late_wake"), late(name="s", kind="stall", amount=0.005))
    run = Paced(scenario(*faults), Freeze(1), resumed=True)
    assert run.overruns == [(200, "wake", 30 * MS, "freeze")]
    assert run.frames[200][1:] == (5 * MS, 6 * MS)
    assert run.certificate is not None
    assert run.certificate.slipped_ns == 80 * MS


def test_a_frame_that_is_woken_to_look_again_is_stalled_once() -> None:
    system = scenario(late(kind="stall", at=0, amount=0.004, count=5)).build(0)
    clock, wake = FakeClock(), Wake()
    pacer = _pacer(system, clock, CatchUp(), may_change=False)
    pacer.start(0)
    clock.call_at(clock.now() + 7 * MS, wake.set)
    assert not pacer.wait(10 * MS, wake)
    wake.clear()
    assert pacer.wait(10 * MS, wake)
    assert pacer.injected == {"f": 4 * MS}
    assert pacer.wait(20 * MS, wake)
    assert pacer.injected == {"f": 8 * MS}


def test_the_certificate_says_what_was_taken_on_purpose() -> None:
    faults = (late(name="a", kind="stall", every=0.3, count=1), late(name="b", kind="late_wake"))
    run = Paced(scenario(*faults), Slip())
    assert run.certificate is not None
    assert run.certificate.injected == {"a": 90 * MS, "b": 30 * MS}
    assert "; time of faults: " in run.certificate._verdict()
    calm = Paced(scenario())
    assert calm.certificate is not None
    assert "time of faults" not in calm.certificate._verdict()


@pytest.mark.parametrize("faults", [(), ({"name": "d", "where": "controller", "kind": "drop"},)])
def test_a_run_without_them_has_the_loop_that_it_always_had(faults: tuple[Any, ...]) -> None:
    system = scenario(*faults).build(0)
    clock = FakeClock()
    pacer = _pacer(system, clock, CatchUp(), may_change=True)
    assert type(pacer) is Pacer
    assert pacer._until == clock.wait_until
    trace = Trace(system, _Nothing(), paced=True)  # type: ignore[arg-type]
    assert Microsteps(system, trace, clock, pacer.anchor, pacer.lap)._lose is None
    disturbed = scenario(*faults, late(kind="stall")).build(0)
    assert type(_pacer(disturbed, clock, CatchUp(), may_change=False)) is DisturbedPacer
    assert disturbed.faults is not None
    assert disturbed.faults.idle == {}
    _pacer(disturbed, VirtualClock(), CatchUp(), may_change=False)
    assert list(disturbed.faults.idle) == ["f"]


class _Nothing:
    def track(self, *_: object) -> None:
        return None


BAD = [
    (late(kind="stall", where="loop.controller"), "where = 'loop'"),
    (late(kind="slow_job"), "where = 'loop.JOB'"),
    (late(kind="slow_job", where="loop.contoller"), "did you mean controller"),
    ({"name": "f", "where": "loop.propagate", "kind": "lost_tick"}, "unknown job 'propagate'"),
    (late(kind="late_wake", amount=-1), "amount in s, >= 0"),
    ({"name": "f", "where": "loop", "kind": "stall"}, "stall needs amount: seconds >= 0"),
    (late(kind="load"), "load needs length"),
    (late(kind="load", length=2, count=3), "length sets how long"),
]


@pytest.mark.parametrize(("fault", "said"), BAD)
def test_a_mistake_says_what_to_write(fault: dict[str, Any], said: str) -> None:
    with pytest.raises(ScenarioError) as caught:
        scenario(fault).build(0)
    assert said in str(caught.value)
