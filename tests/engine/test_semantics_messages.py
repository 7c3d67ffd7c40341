"""docs/semantics.md, rule by rule: messages, recording and replay."""

from __future__ import annotations

import json

import numpy as np
import pytest
from semantics_parts import INTEGRATOR, MS, U, add_one, count, law_of, rows

from rtsim.components.latency import Fixed
from rtsim.core.errors import ControllerError, ScenarioError, ZenoError
from rtsim.core.signals import Signals, Vector
from rtsim.core.tag import Tag
from rtsim.engine.executive import Executive
from rtsim.models.unstable import UNSTABLE
from rtsim.models.unstable import controller as unstable_controller
from rtsim.models.unstable import scenario as unstable
from rtsim.record.reading import Recording
from rtsim.record.recorders import MemoryRecorder
from rtsim.runs.replay import rerun
from rtsim.runs.simulation import simulate
from rtsim.scenario.scenario import Scenario
from rtsim.testing import FakeClock
from rtsim.testing.determinism import trace_of
from rtsim.timing.pacing import Pacer

# -- messages --------------------------------------------------------------------------------------


@pytest.mark.rule("three-stamps")
def test_the_valves_table_of_the_seed_document() -> None:
    """How Simulations Work, "In the Loop": initiated, completed and arrival of two commands."""
    from rtsim.models.valves import scenario as valves

    recording = trace_of(valves(until=54))
    table = []
    for name in ("valve21", "valve22"):
        track = recording.track(f"messages/{name}")
        first = int(np.flatnonzero(recording[f"messages/{name}.open"])[0])
        table.append([int(track.integer(k)[first]) for k in ("initiated", "completed", "arrival")])
    assert table == [
        [53_100_000_000, 53_212_000_000, 53_217_000_000],
        [53_100_000_000, 53_213_000_000, 53_218_000_000],
    ]
    opened = recording["tank.open21"] > 0
    assert int(recording.time("tank")[opened][0]) == 53_217_000_000


@pytest.mark.rule("one-request")
def test_a_busy_controller_misses_its_tick() -> None:
    scenario = Scenario("busy", until=0.05)
    scenario.controller("c", law_of(count), period=0.01, compute=Fixed(0.015))
    recording = trace_of(scenario)
    assert [e.tag.ns // MS for e in recording.events if e.kind == "Missed"] == [10, 30, 50]
    assert recording["messages/c.y"].tolist() == [1.0, 2.0]


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
    assert recording["messages/c.y"].tolist() == [1.0, 3.0, 4.0]


@pytest.mark.rule("due")
def test_late_may_fail_the_run_or_stretch_time() -> None:
    with pytest.raises(ControllerError, match=r"no answer after \d+ ns, allowed 5000000 ns"):
        slow_run("fail", {1: 12 * MS})
    recording = slow_run("stretch", {1: 12 * MS})
    assert kinds(recording) == [(15, "Late")]
    assert recording["messages/c.y"].tolist() == [1.0, 2.0, 3.0, 4.0, 5.0]


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
