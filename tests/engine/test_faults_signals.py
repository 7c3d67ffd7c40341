"""Faults at signals: each kind does what it says, to whom it says, when it says."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from fault_parts import TIMES, flown, in_words, offset, ramp, sampled, told
from semantics_parts import INTEGRATOR, law_of

from rtsim.core.errors import ModelError
from rtsim.core.random_streams import RandomStreams
from rtsim.core.signals import Signals, Vector
from rtsim.engine.faults import FaultError
from rtsim.equations.model import Model
from rtsim.record.replay_comparison import compare_exact
from rtsim.runs.replay import rerun
from rtsim.scenario.scenario import Scenario
from rtsim.testing.determinism import trace_of

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
        assert plain.rows(track).floats.tolist() == spoiled.rows(track).floats.tolist()
        assert plain.rows(track).integers.tolist() == spoiled.rows(track).integers.tolist()


def test_what_a_controller_says_is_recorded_as_it_said_it() -> None:
    """The plant that reads it is given another value, to the ns of the fault."""
    fault = {"name": "f", "where": "controller.y", "kind": "stuck", "value": 5.0,
             "at": "1/3", "duration": 0.2}  # fmt: skip
    recording = flown(ramp(), fault)
    np.testing.assert_allclose(recording["messages/controller.y"], TIMES, atol=1e-12)
    ns, u = recording.rows("driven").ns, recording["driven.u"]
    inside = (ns > 333_333_333) & (ns <= 533_333_333)
    assert set(u[(ns > 333_333_333) & (ns < 533_333_333)]) == {5.0}
    assert 5.0 not in u[~inside & (ns != 333_333_333)]
    events = [(e.kind, e.tag.ns) for e in told(recording)]
    assert events == [("Fault", 333_333_333), ("FaultEnded", 533_333_333)]
    before = np.sum(TIMES[:3]) * 0.1 + 0.3 * (1 / 3 - 0.3)
    assert recording["driven.x"][ns == 333_333_333][0] == pytest.approx(before)
    assert recording["driven.x"][-1] == pytest.approx(
        before + 5.0 * 0.2 + 0.5 * (0.6 - 1 / 3 - 0.2) + np.sum(TIMES[6:10]) * 0.1
    )


def test_an_actuator_that_drifts_is_looked_at_each_period() -> None:
    fault = {"name": "f", "where": "driven.u", "kind": "drift", "rate": 1.0, "period": 0.01}
    recording = flown(ramp(law=ignore), fault)
    ns, u = recording.rows("driven").ns, recording["driven.u"]
    after = {int(n): float(v) for n, v in zip(ns, u, strict=True)}  # x+ overwrites x-
    for k in range(1, 100):
        assert after[k * 10_000_000] == pytest.approx(1.0 + k / 100)


def test_a_plant_reads_what_was_last_decided() -> None:
    """Noise at a plant does not depend on how its steps are cut."""
    fault = {"name": "f", "where": "controller.y", "kind": "noise", "deviation": 1.0,
             "period": 0.1, "at": 0.0}  # fmt: skip
    coarse, fine = (flown(ramp(law=ignore, step=s), fault) for s in (0.1, 0.02))
    at = [r.rows("driven").ns for r in (coarse, fine)]
    common = np.isin(at[1], at[0])
    np.testing.assert_allclose(
        coarse["driven.x"][np.unique(at[0], return_index=True)[1]],
        fine["driven.x"][common][np.unique(at[1][common], return_index=True)[1]],
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
    values = recording.rows("messages/gps").floats.tolist()
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
        tail = whole.rows(track).floats[-len(rest.rows(track).floats) :]
        assert len(tail) > 3
        assert tail.tolist() == rest.rows(track).floats.tolist()


def test_an_input_that_is_a_number_is_spoiled_once_however_often_it_is_read() -> None:
    fault = {"name": "f", "where": "ramp.u", "kind": "offset", "amount": 1.0, "at": 0.3,
             "count": 4, "period": 0.1}  # fmt: skip
    recording = flown(ramp(), fault)
    assert set(recording["ramp.u"].tolist()) == {1.0, 2.0}
    assert recording["ramp.x"][-1] == pytest.approx(1.4)
