"""docs/semantics.md: event inputs, restores, runs made twice, and runs that end badly.

docs/semantics.md, rule by rule: messages, recording and replay.
"""

from __future__ import annotations

import json
from collections.abc import Callable

import numpy as np
import pytest
from semantics_parts import INTEGRATOR, MS, U, add_one, count, law_of, rows

from rtsim.components.controller import PythonController
from rtsim.components.latency import Fixed
from rtsim.core.clock import Wake
from rtsim.core.errors import ControllerError, ModelError, OverrunError, ScenarioError, ZenoError
from rtsim.core.random_streams import RandomStreams
from rtsim.core.signals import Signals, Vector
from rtsim.core.tag import Tag
from rtsim.engine.executive import Executive
from rtsim.equations.model import Model
from rtsim.models.unstable import UNSTABLE
from rtsim.models.unstable import controller as unstable_controller
from rtsim.models.unstable import scenario as unstable
from rtsim.record.reading import Recording
from rtsim.record.recorders import MemoryRecorder
from rtsim.record.replay_comparison import compare_exact
from rtsim.runs.replay import changed_since, rerun
from rtsim.runs.simulation import Pace, simulate
from rtsim.scenario.scenario import Scenario
from rtsim.testing import FakeClock
from rtsim.testing.determinism import trace_of
from rtsim.timing.pacing import Pacer
from rtsim.timing.policy import Abort

Y = Signals("y [1]")


def still(t: float, x: Vector, z: Vector, u: Vector, p: Vector, dx: Vector) -> None:  # noqa: ARG001
    dx[0] = u[0]


# -- event inputs ---------------------------------------------------------------------------------


class Edge:
    """A pin that says 1, 2, … each time its clock has fired."""

    def __init__(self) -> None:
        self.waiting: list[float] = []

    def poll(self) -> Vector | None:
        return np.array([self.waiting.pop()]) if self.waiting else None


class Pin(FakeClock):
    """Fires at some simulated times (ns); every second time with nothing to say."""

    def __init__(self, edge: Edge, at: list[int]) -> None:
        super().__init__()
        self.edge, self.at = edge, list(at)
        self.fired = 0

    def wait_until(self, ns: int, wake: Wake | None = None) -> bool:
        if self.at and wake is not None and ns > self.at[0]:
            self.advance(max(0, self.wall(self.at.pop(0)) - self.now()))
            self.fired += 1
            if self.fired % 2:
                self.edge.waiting.append(float(self.fired))
            wake.set()
        return super().wait_until(ns, wake)


def pinned(edge: Edge) -> Scenario:
    scenario = Scenario("pin", until=0.1)
    scenario.plant("a", INTEGRATOR, step=0.01, inputs={"u": "pin.u"})
    scenario.plant("b", INTEGRATOR, step=0.017, inputs={"u": "pin.u"})
    scenario.external_input("pin", U, edge, wake=Wake())
    return scenario


@pytest.mark.rule("replay")
def test_replay_makes_the_tags_that_event_inputs_made() -> None:
    edge = Edge()
    recorder = MemoryRecorder()
    clock = Pin(edge, [3 * MS, 33 * MS, 34 * MS, 61 * MS])
    simulate(pinned(edge), clock=clock, recorder=recorder)
    live = recorder.recording()
    made = [e.tag.ns // MS for e in live.events if e.kind == "Inserted"]
    assert made == [3, 33, 34, 61]
    assert compare_exact(live, rerun(live, pinned(Edge()))) is None


@pytest.mark.rule("replay")
def test_an_event_input_that_was_latched_at_a_grid_tag_cuts_nothing_in_replay() -> None:
    edge = Edge()
    edge.waiting = [5.0]
    live = trace_of(pinned(edge))
    assert rows(live, "inputs/pin") == [(0, 0)]
    edge.waiting = []
    assert compare_exact(live, rerun(live, pinned(edge))) is None


def test_several_wakes_are_refused() -> None:
    scenario = pinned(Edge())
    scenario.external_input("other", U, Edge(), wake=Wake())
    with pytest.raises(ScenarioError, match="event inputs other, pin have different Wake objects"):
        scenario.build()


def test_an_inserted_tag_lies_after_what_was_committed() -> None:
    scenario = pinned(Edge())
    system = scenario.build()
    clock = FakeClock()
    wake = system.wake
    assert wake is not None
    executive = Executive(system, Pacer(clock), MemoryRecorder(), 100 * MS)
    clock.call_at(clock.now(), wake.set)
    executive.run()
    assert system.ns == 100 * MS


# -- saved, restored, used again ------------------------------------------------------------------


@pytest.mark.rule("saved-as-a-whole")
def test_streams_first_drawn_from_after_a_restore_are_those_of_the_saved_run() -> None:
    saved = json.loads(json.dumps(RandomStreams(3).save()))
    other = RandomStreams(99)
    other.restore(saved)
    assert other.stream("new").random() == RandomStreams(3).stream("new").random()


def recorded(system: object, until_ms: int) -> Recording:
    recorder = MemoryRecorder()
    Executive(system, Pacer(FakeClock()), recorder, until_ms * MS).run()  # type: ignore[arg-type]
    return recorder.recording()


@pytest.mark.rule("saved-as-a-whole")
def test_one_scenario_runs_as_often_as_wanted() -> None:
    scenario = unstable(until=1)
    first = scenario.build()
    before = trace_of(scenario).digest()
    recorded(first, 1000)
    memory = first.controllers[0].controller.s.tolist()  # type: ignore[attr-defined]
    assert trace_of(scenario).digest() == before
    assert first.controllers[0].controller.s.tolist() == memory  # type: ignore[attr-defined]


def test_replay_leaves_the_users_scenario_alone() -> None:
    scenario = unstable(until=1)
    live = trace_of(scenario)
    for _ in range(2):
        assert compare_exact(live, rerun(live, scenario)) is None
    assert trace_of(scenario).digest() == live.digest()


# -- runs that end badly --------------------------------------------------------------------------


def test_the_overrun_that_ends_a_run_is_recorded() -> None:
    recorder = MemoryRecorder()
    clock = FakeClock(late=[0, 0, 50 * MS])
    with pytest.raises(OverrunError):
        simulate(unstable(until=1), clock=clock, pace=Pace(1.0, policy=Abort()), recorder=recorder)
    assert [e.kind for e in recorder.recording().events] == ["Overrun", "Error"]


def test_overruns_recorded_are_those_certified() -> None:
    recorder = MemoryRecorder()
    clock = FakeClock(late=[0, 5 * MS, 0, 7 * MS, 0, 0, 2 * MS])
    outcome = simulate(unstable(until=1), clock=clock, recorder=recorder)
    overruns = [e for e in recorder.recording().events if e.kind == "Overrun"]
    assert len(overruns) == sum(outcome.certificate.overruns.values()) > 0


def bad_later(t: float, u: Vector, s: Vector, p: Vector, y: Vector) -> None:  # noqa: ARG001
    y[0] = np.inf if t > 0.25 else u[0]


@pytest.mark.rule("replay")
def test_a_run_that_failed_is_replayed_to_where_it_failed() -> None:
    def make() -> Scenario:
        scenario = unstable(until=1)
        scenario.controller("bad", law_of(bad_later), period=0.1, inputs={"u": "plant.x"})
        return scenario

    recorder = MemoryRecorder()
    with pytest.raises(Exception, match="bad answered inf"):
        simulate(make(), recorder=recorder)
    failed = recorder.recording()
    again = rerun(failed, make())
    assert compare_exact(failed, again) is None
    assert [e.text for e in again.events] == [e.text for e in failed.events]


class Stuck(PythonController):
    """One whose device is gone when it is let go."""

    closed: list[str] = []  # noqa: RUF012

    def fresh(self) -> PythonController:
        return self

    def close(self) -> None:
        self.closed.append("tried")
        raise OSError("port vanished")


def test_every_controller_is_closed_and_the_first_failure_is_named() -> None:
    Stuck.closed.clear()
    scenario = Scenario("close", until=0.02)
    for name in ("a", "b"):
        scenario.controller(
            name, Stuck(count, U, Signals("y [1]"), memory=Signals("s [1]")), period=0.01
        )
    with pytest.raises(OSError, match="port vanished") as caught:
        simulate(scenario)
    assert Stuck.closed == ["tried", "tried"]
    assert "while closing controller a" in caught.value.__notes__


def not_finite(t: float, x: Vector, z: Vector, u: Vector, p: Vector, y: Vector) -> None:  # noqa: ARG001
    y[0] = np.nan if t > 0.015 else 0.0


@pytest.mark.parametrize("compile", [True, False], ids=["compiled", "plain"])
def test_an_output_that_is_not_finite_is_named(compile: bool) -> None:
    model = Model(
        "m", Signals("x [1]"), still, inputs=U, outputs=Signals("y [1]"), output=not_finite
    )
    scenario = Scenario("nan", until=0.05)
    scenario.plant("a", model, step=0.01)
    with pytest.raises(ModelError, match=r"output y of a \(model m\) is nan at 0\.020"):
        simulate(scenario, compile=compile)


def breaks(t: float, x: Vector, z: Vector, u: Vector, p: Vector) -> None:  # noqa: ARG001
    z[0] = np.inf


def test_an_update_that_is_not_finite_is_named() -> None:
    model = Model("m", Signals("x [1]"), still, discrete=Signals("z [1]"), inputs=U, update=breaks)
    scenario = Scenario("inf", until=0.05)
    scenario.plant("a", model, step=0.01, update_period=0.01)
    with pytest.raises(ModelError, match=r"update of a .* made z not finite"):
        simulate(scenario)


class Broken:
    def poll(self) -> Vector | None:
        return np.array([np.nan])


def test_wrong_declarations_are_named_where_they_stand() -> None:
    scenario = Scenario("wrong", until=0.05)
    scenario.source("set", U)
    scenario.controller("c", law_of(add_one), period=0.01)
    scenario.plant("a", INTEGRATOR, step=0.01)
    scenario.at(0.01, "set.u", 1.0)
    mistakes: list[tuple[Callable[[], object], str]] = [
        (lambda: scenario.at(0.01, "set.u", 2.0), "changed twice"),
        (lambda: scenario.at(0.01, "a.u", 2.0), "cannot change during a run"),
        (lambda: scenario.at(0.01, "a.x", 2.0), "cannot change during a run"),
        (lambda: scenario.source("timing", U), "every recording has a track of this name"),
    ]
    for wrong, message in mistakes:
        with pytest.raises(ScenarioError, match=message):
            wrong()
    for inputs, message in (
        ({"v": 1.0}, "input 'v' in c"),
        ({"u": [1.0, 2.0]}, "1 elements, but got 2"),
    ):
        other = Scenario("wrong", until=0.05)
        other.controller("c", law_of(add_one), period=0.01, inputs=inputs)  # type: ignore[arg-type]
        with pytest.raises(ScenarioError, match=message):
            other.build()
    scenario.noise("gust", U, deviation=-1.0, period=0.1)
    with pytest.raises(ScenarioError, match="and the deviation >= 0"):
        scenario.build()
    broken = Scenario("wrong", until=0.05)
    broken.plant("a", INTEGRATOR, step=0.01, inputs={"u": "stick.u"})
    broken.external_input("stick", U, Broken())
    with pytest.raises(ScenarioError, match=r"input stick gave \[nan\] at 0\.000"):
        simulate(broken)


@pytest.mark.rule("replay")
def test_what_the_scenario_declares_otherwise_is_told() -> None:
    live = trace_of(unstable(until=1))
    assert changed_since(live.header, unstable(until=1)) == []
    other = unstable(until=1, step=0.02)
    other.set("plant.stiffness", 3.0)
    assert changed_since(live.header, other) == [
        "plant.parameters.stiffness: 2.0 in the recording, 3.0 now",
        "plant.step: 10000000 in the recording, 20000000 now",
    ]


# -- messages --------------------------------------------------------------------------------------


@pytest.mark.rule("three-stamps")
def test_the_valves_table_of_the_seed_document() -> None:
    """How Simulations Work, "In the Loop": initiated, completed and arrival of two commands."""
    from rtsim.models.valves import scenario as valves

    recording = trace_of(valves(until=54))
    table = []
    for name in ("valve21", "valve22"):
        track = recording.track(f"messages/{name}")
        first = int(np.flatnonzero(recording.messages[f"{name}"]["open"])[0])
        table.append([int(track.integer(k)[first]) for k in ("initiated", "completed", "arrival")])
    assert table == [
        [53_100_000_000, 53_212_000_000, 53_217_000_000],
        [53_100_000_000, 53_213_000_000, 53_218_000_000],
    ]
    opened = recording.track("tank").column("open21") > 0
    assert int(recording.track("tank").ns[opened][0]) == 53_217_000_000


@pytest.mark.rule("one-request")
def test_a_busy_controller_misses_its_tick() -> None:
    scenario = Scenario("busy", until=0.05)
    scenario.controller("c", law_of(count), period=0.01, compute=Fixed(0.015))
    recording = trace_of(scenario)
    assert [e.tag.ns // MS for e in recording.events if e.kind == "Missed"] == [10, 30, 50]
    assert recording.messages["c"]["y"].tolist() == [1.0, 2.0]


class Slow:
    """A controller that lives outside, and answers a while after it was asked."""

    inputs, outputs, outside = U, Signals("y [1]"), True

    def __init__(self, clock: FakeClock, takes_ns: dict[int, int]) -> None:
        self.clock, self.takes, self.sent_at = clock, takes_ns, 0
        self.value = np.zeros(1)
        self.requests = 0

    def send(self, tag: Tag, inputs: Vector) -> None:  # noqa: ARG002
        self.ready_at = self.clock.now() + self.takes.get(self.requests, MS)
        self.requests += 1

    def receive(self, tag: Tag, patience: float) -> Vector | None:  # noqa: ARG002
        missing = self.ready_at - self.clock.now()
        if missing > patience * 1e9:
            self.clock.advance(int(patience * 1e9))
            return None
        self.clock.advance(max(0, missing))
        return np.array([float(self.requests)])

    def close(self) -> None:
        pass


def slow_run(late: str, takes: dict[int, int]) -> Recording:
    clock = FakeClock()
    scenario = Scenario("slow", until=0.05)
    controller = Slow(clock, takes)
    scenario.controller("c", controller, period=0.01, compute=Fixed(0.005), late=late)
    recorder = MemoryRecorder()
    simulate(scenario, clock=clock, recorder=recorder)
    return recorder.recording()


def kinds(recording: Recording) -> list[tuple[int, str]]:
    kept = ("Late", "Missed", "Discarded")
    return [(e.tag.ns // MS, e.kind) for e in recording.events if e.kind in kept]


@pytest.mark.rule("due")
def test_an_early_answer_is_held_until_it_is_due() -> None:
    recording = slow_run("hold", {})
    track = recording.track("messages/c")
    assert (track.integer("arrival") - track.integer("initiated")).tolist() == [5 * MS] * 5
    assert kinds(recording) == []


@pytest.mark.rule("due")
def test_a_late_answer_is_held_discarded_and_recorded() -> None:
    recording = slow_run("hold", {1: 12 * MS})
    assert kinds(recording) == [(15, "Late"), (20, "Missed"), (30, "Discarded")]
    assert recording.messages["c"]["y"].tolist() == [1.0, 3.0, 4.0]


@pytest.mark.rule("due")
def test_late_may_fail_the_run_or_stretch_time() -> None:
    with pytest.raises(ControllerError, match=r"no answer after \d+ ns, allowed 5000000 ns"):
        slow_run("fail", {1: 12 * MS})
    recording = slow_run("stretch", {1: 12 * MS})
    assert kinds(recording) == [(15, "Late")]
    assert recording.messages["c"]["y"].tolist() == [1.0, 2.0, 3.0, 4.0, 5.0]


def test_outside_controllers_need_time_in_real_time() -> None:
    clock = FakeClock()
    scenario = Scenario("none", until=0.05)
    scenario.controller("c", Slow(clock, {}), period=0.01)
    with pytest.raises(
        ScenarioError, match="c runs outside this process and its compute latency is 0 s"
    ):
        simulate(scenario, clock=clock)


def test_a_loop_without_delay_is_a_zeno_error() -> None:
    scenario = Scenario("ring", until=1)
    scenario.controller("kick", law_of(count), period=1)
    scenario.controller("a", law_of(add_one), on=("b", "kick"), inputs={"u": "b.y"})
    scenario.controller("b", law_of(add_one), on=("a",), inputs={"u": "a.y"})
    with pytest.raises(ZenoError, match=r"1000 microsteps at 0\.000000000 s: [ab] .*latency > 0"):
        simulate(scenario)


# -- recording and replay --------------------------------------------------------------------------


@pytest.mark.rule("saved-as-a-whole")
@pytest.mark.parametrize("cut_ms", [90, 120, 630])  # at 120 a request, at 630 a message is out
def test_a_run_goes_on_from_what_was_saved(cut_ms: int) -> None:
    def make() -> Scenario:
        scenario = Scenario("whole", until=1.0)
        scenario.plant("plant", UNSTABLE, step=0.01, inputs={"force": "controller.force"})
        scenario.controller(
            "controller",
            unstable_controller(),
            period=0.1,
            inputs={"x": "plant.x", "v": "plant.v"},
            compute=Fixed(0.02),
            transport=Fixed(0.03),
        )
        scenario.noise("gust", Signals("w [1]"), deviation=0.1, period=0.07)
        scenario.plant("drift", INTEGRATOR, step=0.015, inputs={"u": "gust.w"})
        scenario.at(0.5, "plant.stiffness", 1.5)
        return scenario

    def run(system: object, until_ms: int) -> Recording:
        recorder = MemoryRecorder()
        clock = FakeClock()
        Executive(system, Pacer(clock), recorder, until_ms * MS).run()  # type: ignore[arg-type]
        return recorder.recording()

    whole = run(make().build(3), 1000)
    first = make().build(3)
    before = run(first, cut_ms)
    second = make().build(99)
    second.restore(json.loads(json.dumps(first.save())))
    after = run(second, 1000)
    for name in (t.name for t in whole.tracks.values() if t.spec.deterministic):
        ours = np.concatenate((before.track(name).words, after.track(name).words))
        assert np.array_equal(ours, whole.track(name).words), name


class Wandering:
    """A device whose values nobody could compute again."""

    def __init__(self) -> None:
        self.generator = np.random.default_rng()

    def poll(self) -> Vector | None:
        drawn = self.generator.random()
        return np.array([drawn]) if drawn > 0.5 else None


@pytest.mark.rule("replay")
def test_replay_feeds_outside_inputs() -> None:
    def make() -> Scenario:
        scenario = Scenario("live", until=0.3)
        scenario.plant("a", INTEGRATOR, step=0.01, inputs={"u": "stick.u"})
        scenario.plant("b", INTEGRATOR, step=0.025, inputs={"u": "stick.u"})
        scenario.external_input("stick", U, Wandering())
        return scenario

    live = trace_of(make())
    assert trace_of(make()).digest() != live.digest()
    assert rerun(live, make()).digest() == live.digest()


@pytest.mark.rule("replay")
@pytest.mark.parametrize("late", ["hold", "stretch"])
@pytest.mark.parametrize("takes", [{}, {1: 12 * MS}, {0: 12 * MS, 2: 31 * MS}])
def test_replay_feeds_the_answers_of_outside_controllers(late: str, takes: dict[int, int]) -> None:
    live = slow_run(late, takes)
    scenario = Scenario("slow", until=0.05)
    gone = Slow(FakeClock(), {})
    scenario.controller("c", gone, period=0.01, compute=Fixed(0.005), late=late)
    again = rerun(live, scenario)
    assert again.digest() == live.digest()
    assert kinds(again) == kinds(live)
    assert gone.requests == 0


@pytest.mark.rule("to-the-end")
def test_the_last_instant_is_whole() -> None:
    recording = trace_of(unstable(until=0.5))
    assert rows(recording, "plant")[-1] == (500 * MS, 1, 1)
    initiated = recording.track("messages/controller").integer("initiated")
    assert int(initiated[-1]) == 500 * MS
