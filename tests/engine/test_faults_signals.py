"""Faults at signals: each kind does what it says, to whom it says, when it says.

Faults of timing under the fake clock: frames, record, replay, checkpoint.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command_parts import Flown, Told
from fault_parts import TIMES, flown, in_words, offset, ramp, sampled, told
from loop_parts import MS, Paced, computed, late, marks, scenario
from semantics_parts import INTEGRATOR, law_of

from rtsim.core.clock import VirtualClock, Wake
from rtsim.core.errors import ModelError, ScenarioError
from rtsim.core.random_streams import RandomStreams
from rtsim.core.signals import Signals, Vector
from rtsim.engine.checkpoint.file import SUFFIX, Checkpoint, Files
from rtsim.engine.checkpoint.schedule import CheckpointSchedule
from rtsim.engine.faults import FaultError
from rtsim.engine.faults.at_loop import DisturbedPacer
from rtsim.engine.microsteps import Microsteps
from rtsim.engine.trace import Trace
from rtsim.equations.model import Model
from rtsim.record.replay_comparison import compare_exact
from rtsim.runs.replay import rerun
from rtsim.runs.simulation import _pacer
from rtsim.scenario.scenario import Scenario
from rtsim.testing import FakeClock
from rtsim.testing.determinism import trace_of
from rtsim.timing.frames import NO_SAMPLE
from rtsim.timing.pacing import Pacer
from rtsim.timing.policy import Abort, CatchUp, Freeze, Slip

AT = {"at": 0.3, "duration": 0.4}
STRUCK = (TIMES >= 0.3) & (TIMES < 0.7)


def at_input(kind: str, **entries: Any) -> dict[str, Any]:
    return {"name": "f", "where": "controller.u", "kind": kind, **entries}


@pytest.mark.parametrize(
    ("kind", "parameters", "expected"),
    [
        ("stuck", {}, np.full(11, 0.3)),
        ("stuck", {"value": -2}, np.full(11, -2.0)),
        ("offset", {"amount": 0.25}, TIMES + 0.25),
        ("scale", {"factor": -3}, TIMES * -3),
        ("drift", {"rate": 2.0}, TIMES + 2.0 * (TIMES - 0.3)),
        ("quantised", {"step": 0.25}, np.rint(TIMES / 0.25) * 0.25),
        ("nan", {}, np.full(11, np.nan)),
    ],
)
@pytest.mark.parametrize("where", ["controller.u", "ramp.x"])
def test_each_kind_is_what_its_formula_says(
    kind: str, parameters: dict[str, float], expected: Vector, where: str
) -> None:
    """At an input of the controller, or at the signal that it samples: the same here."""
    scenario = ramp(law=ignore)
    recording = flown(scenario, at_input(kind, **parameters, **AT) | {"where": where})
    wanted = np.where(STRUCK, expected, TIMES)
    np.testing.assert_allclose(sampled(recording), wanted, atol=1e-12)
    np.testing.assert_allclose(recording["ramp.x"][-1], 1.0, atol=1e-12)  # the truth stays
    assert [(e.kind, e.source, e.tag.ns) for e in told(recording)] == [
        ("Fault", "f", 300_000_000),
        ("FaultEnded", "f", 700_000_000),
    ]
    assert told(recording)[1].values == {"items": 4.0}


def ignore(t: float, u: Vector, s: Vector, p: Vector, y: Vector) -> None:  # noqa: ARG001
    y[0] = 1.0


def test_noise_is_drawn_from_the_stream_of_the_fault() -> None:
    recording = flown(ramp(), at_input("noise", deviation=0.5, **AT), seed=3)
    drawn = RandomStreams(3).stream("fault/f").standard_normal(4)
    np.testing.assert_allclose((sampled(recording) - TIMES)[STRUCK], 0.5 * drawn, atol=1e-12)
    assert not (sampled(recording) - TIMES)[~STRUCK].round(12).any()


def test_a_seed_of_its_own_keeps_a_fault_the_same_in_every_run() -> None:
    fault = at_input("noise", deviation=0.5, seed=7)
    one, other = (flown(ramp(), fault, seed=seed) for seed in (1, 2))
    assert sampled(one).tolist() == sampled(other).tolist()
    free = at_input("noise", deviation=0.5)
    one, other = (flown(ramp(), free, seed=seed) for seed in (1, 2))
    assert sampled(one).tolist() != sampled(other).tolist()


def test_a_fault_moves_no_other_stream() -> None:
    """Neither that of a noise, nor of a link, nor of another fault, whatever its name."""

    def noisy() -> Scenario:
        from rtsim.components.latency import Uniform

        scenario = ramp(transport=Uniform(0.0, 0.09))
        scenario.noise("wind", Signals("w [1]"), deviation=1.0, period=0.05)
        scenario.plant("blown", INTEGRATOR, step=0.05, inputs={"u": "wind.w"})
        return scenario

    first = at_input("noise", deviation=0.5, name="m") | {"where": "driven.u"}
    plain = flown(noisy(), first)
    more = [
        {"name": name, "where": "blown.x", "kind": "noise", "deviation": 1.0, "probability": 0.5}
        for name in ("a", "z")
    ]
    spoiled = flown(noisy(), first, *more)
    for track in ("blown", "driven", "messages/controller", "ramp"):
        assert plain.track(track).rows.floats.tolist() == spoiled.track(track).rows.floats.tolist()
        assert (
            plain.track(track).rows.integers.tolist() == spoiled.track(track).rows.integers.tolist()
        )


def test_what_a_controller_says_is_recorded_as_it_said_it() -> None:
    """The plant that reads it is given another value, to the ns of the fault."""
    fault = {"name": "f", "where": "controller.y", "kind": "stuck", "value": 5.0,
             "at": "1/3", "duration": 0.2}  # fmt: skip
    recording = flown(ramp(), fault)
    np.testing.assert_allclose(recording.messages["controller"]["y"], TIMES, atol=1e-12)
    ns, u = recording.track("driven").rows.ns, recording.track("driven").column("u")
    inside = (ns > 333_333_333) & (ns <= 533_333_333)
    assert set(u[(ns > 333_333_333) & (ns < 533_333_333)]) == {5.0}
    assert 5.0 not in u[~inside & (ns != 333_333_333)]
    events = [(e.kind, e.tag.ns) for e in told(recording)]
    assert events == [("Fault", 333_333_333), ("FaultEnded", 533_333_333)]
    before = np.sum(TIMES[:3]) * 0.1 + 0.3 * (1 / 3 - 0.3)
    assert recording.track("driven").column("x")[ns == 333_333_333][0] == pytest.approx(before)
    assert recording["driven.x"][-1] == pytest.approx(
        before + 5.0 * 0.2 + 0.5 * (0.6 - 1 / 3 - 0.2) + np.sum(TIMES[6:10]) * 0.1
    )


def test_an_actuator_that_drifts_is_looked_at_each_period() -> None:
    fault = {"name": "f", "where": "driven.u", "kind": "drift", "rate": 1.0, "period": 0.01}
    recording = flown(ramp(law=ignore), fault)
    ns, u = recording.track("driven").rows.ns, recording.track("driven").column("u")
    after = {int(n): float(v) for n, v in zip(ns, u, strict=True)}  # x+ overwrites x-
    for k in range(1, 100):
        assert after[k * 10_000_000] == pytest.approx(1.0 + k / 100)


def test_a_plant_reads_what_was_last_decided() -> None:
    """Noise at a plant does not depend on how its steps are cut."""
    fault = {"name": "f", "where": "controller.y", "kind": "noise", "deviation": 1.0,
             "period": 0.1, "at": 0.0}  # fmt: skip
    coarse, fine = (flown(ramp(law=ignore, step=s), fault) for s in (0.1, 0.02))
    at = [r.track("driven").rows.ns for r in (coarse, fine)]
    common = np.isin(at[1], at[0])
    np.testing.assert_allclose(
        coarse.track("driven").column("x")[np.unique(at[0], return_index=True)[1]],
        fine.track("driven").column("x")[common][np.unique(at[1][common], return_index=True)[1]],
        atol=1e-12,
    )


def test_two_readers_at_one_instant_read_the_same() -> None:
    scenario = ramp()
    scenario.controller("other", law_of(ignore), period=0.1, inputs={"u": "ramp.x"})
    recording = flown(scenario, at_input("noise", deviation=1.0) | {"where": "ramp.x"})
    assert sampled(recording).tolist() == sampled(recording, "other").tolist()
    assert np.std(sampled(recording) - TIMES) > 0.1


def test_one_element_of_a_vector() -> None:
    def still(t: float, x: Vector, z: Vector, u: Vector, p: Vector, dx: Vector) -> None:  # noqa: ARG001
        dx[:] = 0.0

    from rtsim.core.signals import Signal

    scenario = Scenario("vector", until=0.3)
    model = Model("still", Signals(Signal("r", "m", shape=(3,), initial=(1.0, 2.0, 3.0))), still)
    scenario.plant("body", model, step=0.1)
    scenario.sensor("gps", {"at": "body.r"}, period=0.1)
    recording = flown(
        scenario,
        {"name": "out", "where": "body.r_1", "kind": "offset", "amount": 10, "at": 0.1},
        {"name": "in", "where": "gps.at_2", "kind": "scale", "factor": 2, "at": 0.2},
    )
    values = recording.track("messages/gps").rows.floats.tolist()
    assert values == [[1, 2, 3], [1, 12, 3], [1, 12, 6], [1, 12, 6]]


def test_faults_at_one_signal_act_by_name() -> None:
    """Whatever the order in which they were given."""
    a = at_input("offset", amount=1.0, name="a")
    b = at_input("scale", factor=2.0, name="b")
    for given in ((a, b), (b, a)):
        np.testing.assert_allclose(sampled(flown(ramp(), *given)), 2 * (TIMES + 1), atol=1e-12)


@pytest.mark.parametrize(
    ("entries", "struck"),
    [
        ({}, range(11)),
        ({"at": 0.35}, range(4, 11)),
        ({"at": 0.35, "count": 2}, (4, 5)),
        ({"at": 0.35, "duration": 0.05}, ()),  # over before anybody looked
        ({"at": 0.3, "duration": 0.05}, (3,)),
        ({"duration": 0.15}, (0, 1)),
        ({"until": 0.2}, (0, 1)),
        ({"every": 0.4, "count": 1}, (4, 8)),
        ({"every": 0.4, "at": 0.1, "duration": 0.2}, (1, 2, 5, 6, 9, 10)),
        ({"every": 0.4, "at": 0.1, "duration": 0.2, "until": 0.6}, (1, 2, 5)),
        ({"when": "ramp.x > 0.45"}, range(5, 11)),
        ({"when": "ramp.x > 0.25 and ramp.x < 0.55"}, range(3, 6)),
        ({"when": "ramp.x > 0.45", "count": 2}, (5, 6)),
        ({"when": "ramp.x > 0.45", "duration": 0.3}, (5, 6, 7)),
        ({"when": "ramp.x > 0.15", "at": 0.65}, (7, 8, 9, 10)),
        ({"probability": 1.0}, range(11)),
        ({"probability": 0.0}, ()),
        ({"probability": 1.0, "at": 0.2, "until": 0.5}, (2, 3, 4)),
        ({"probability": 1.0, "count": 3, "until": 0.5}, range(5)),
    ],
)
def test_triggers(entries: dict[str, Any], struck: range | tuple[int, ...]) -> None:
    recording = flown(ramp(), offset(**entries))
    off = np.flatnonzero((sampled(recording) - TIMES) > 5)
    assert off.tolist() == list(struck)


def test_probability_is_one_draw_for_each_sample() -> None:
    recording = flown(ramp(until=20), offset(probability=0.3), seed=5)
    drawn = RandomStreams(5).stream("fault/off").random(201) < 0.3
    assert ((sampled(recording) - np.arange(201) / 10) > 5).tolist() == drawn.tolist()
    assert len(told(recording, "Fault")) == drawn.sum()


def test_an_activation_is_an_event_that_says_what_was_done() -> None:
    recording = flown(ramp(), offset(at=0.3, count=1))
    (event,) = told(recording)
    assert (event.kind, event.source, event.tag.ns) == ("Fault", "off", 300_000_000)
    assert event.text == "offset at controller.u: u 0.3 is read as 10.3"
    assert event.values == {"u": pytest.approx(0.3), "u, as read": pytest.approx(10.3)}


def test_nan_at_a_plant_ends_the_run_with_an_error_that_names_the_state() -> None:
    scenario = ramp()
    scenario.faults({"name": "f", "where": "driven.u", "kind": "nan", "at": 0.5})
    with pytest.raises(ModelError, match="state x of driven"):
        trace_of(scenario)


def test_a_signal_that_nobody_reads_is_said_so() -> None:
    recording = flown(ramp(), at_input("nan") | {"where": "driven.x"})
    assert [(e.kind, e.source, e.text) for e in told(recording)] == [
        ("FaultIdle", "f", "nobody reads driven.x")
    ]


@pytest.mark.parametrize(
    ("fault", "says"),
    [
        (
            at_input("nan") | {"where": "contoller.u"},
            "unknown component 'contoller'; did you mean",
        ),
        (at_input("nan") | {"where": "ramp.xx"}, "unknown signal 'xx' in ramp; did you mean x"),
        (at_input("nan") | {"where": "controller.speed"}, "unknown signal 'speed' in controller"),
        (at_input("nan", when="ramp.v > 1"), "unknown signal 'v' in ramp"),
        (at_input("nan", when="rmap.x > 1"), "unknown component 'rmap'"),
        ({"name": "f", "where": "ramp", "kind": "drop"}, "ramp sends no messages.*add a sensor"),
        ({"name": "f", "where": "contrller", "kind": "drop"}, "sender.*did you mean controller"),
        ({"name": "f", "where": "ramp.to_board", "kind": "silence"}, "unknown controller 'ramp'"),
    ],
)
def test_names_that_the_scenario_does_not_have(fault: dict[str, Any], says: str) -> None:
    scenario = ramp()
    scenario.faults(fault)
    with pytest.raises(FaultError, match=f"fault f: .*{says}"):
        scenario.build()


def test_a_replay_has_the_same_faults() -> None:
    faults = [
        at_input("noise", deviation=0.5, name="a", probability=0.3),
        {"name": "b", "where": "controller.y", "kind": "drift", "rate": 2, "when": "ramp.x > 0.4"},
        {"name": "c", "where": "ramp.x", "kind": "nan", "at": 0.8, "count": 1},
    ]
    scenario = ramp(law=ignore)
    recording = flown(scenario, *faults)
    again = rerun(recording, scenario)
    assert compare_exact(recording, again) is None
    assert in_words(again) == in_words(recording)
    assert len(told(recording)) > 3
    assert recording.header["scenario"]["faults"] == faults


def test_a_saved_run_goes_on_as_if_nothing_was() -> None:
    """Streams, activations and captured values are part of it."""
    from semantics_parts import MS

    from rtsim.engine.executive import Executive
    from rtsim.record.recorders import MemoryRecorder
    from rtsim.testing import FakeClock
    from rtsim.timing.pacing import Pacer

    def made() -> Scenario:
        scenario = ramp()
        scenario.faults(
            at_input("noise", deviation=0.5, name="a", seed=3, probability=0.5, count=2),
            {"name": "b", "where": "controller.y", "kind": "noise", "deviation": 1.0},
            {
                "name": "c",
                "where": "controller",
                "kind": "delay",
                "delay": 0.01,
                "probability": 0.5,
            },
            {"name": "d", "where": "ramp.x", "kind": "stuck", "at": 0.2},
        )
        return scenario

    def run(system: Any, until: int, stop: int) -> Any:
        recorder = MemoryRecorder()
        Executive(system, Pacer(FakeClock()), recorder, until, stop_ns=stop).run()
        return recorder.recording()

    whole = run(made().build(), 1000 * MS, 1000 * MS)
    first = made().build()
    run(first, 1000 * MS, 450 * MS)
    second = made().build()
    second.restore(first.save())
    rest = run(second, 1000 * MS, 1000 * MS)
    for track in ("driven", "messages/controller"):
        tail = whole.track(track).rows.floats[-len(rest.track(track).rows.floats) :]
        assert len(tail) > 3
        assert tail.tolist() == rest.track(track).rows.floats.tolist()


def test_an_input_that_is_a_number_is_spoiled_once_however_often_it_is_read() -> None:
    fault = {"name": "f", "where": "ramp.u", "kind": "offset", "amount": 1.0, "at": 0.3,
             "count": 4, "period": 0.1}  # fmt: skip
    recording = flown(ramp(), fault)
    assert set(recording.track("ramp").column("u").tolist()) == {1.0, 2.0}
    assert recording["ramp.x"][-1] == pytest.approx(1.4)


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
    (late(kind="late_wake", amount=-1), "amount = -1 is not valid; write seconds >= 0"),
    ({"name": "f", "where": "loop", "kind": "stall"}, "stall needs amount: seconds >= 0"),
    (late(kind="load"), "load needs length"),
    (late(kind="load", length=2, count=3), "length sets how long"),
]


@pytest.mark.parametrize(("fault", "said"), BAD)
def test_a_mistake_says_what_to_write(fault: dict[str, Any], said: str) -> None:
    with pytest.raises(ScenarioError) as caught:
        scenario(fault).build(0)
    assert said in str(caught.value)
