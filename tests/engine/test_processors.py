"""Controllers that compute on simulated processors: runs, replays, checkpoints and errors."""

from __future__ import annotations

import re
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rtsim as rt
from rtsim.components.processor_tasks import Segment
from rtsim.components.scheduling import ConstantBandwidth
from rtsim.core.errors import LatencyError, ScenarioError
from rtsim.engine.checkpoint.file import Ring
from rtsim.engine.checkpoint.schedule import CheckpointSchedule
from rtsim.engine.faults.kind import FaultError
from rtsim.record.file import FileRecorder
from rtsim.record.reading import Recording
from rtsim.record.recorders import MemoryRecorder
from rtsim.record.replay_comparison import compare_exact
from rtsim.runs.replay import rerun
from rtsim.runs.simulation import simulate
from rtsim.scenario.scenario import Scenario
from rtsim.testing.clock import FakeClock
from rtsim.testing.determinism import check_determinism, trace_of

MS = 1_000_000


class Ball(rt.Plant):
    """A ball on a floor, which a force lifts."""

    height = rt.state("m", 0.1)
    speed = rt.state("m/s")
    force = rt.input("m/s^2")

    def derivative(self, d: Ball) -> None:
        d.height = self.speed
        d.speed = self.force - 9.81

    @rt.falling
    def floor(self) -> float:
        return self.height

    @floor.reset
    def bounce(self) -> None:
        self.speed = -0.8 * self.speed


class Lift(rt.Controller):
    height = rt.input("m")
    speed = rt.input("m/s")
    force = rt.output("m/s^2")
    steps = rt.memory()

    def step(self) -> None:
        self.steps = self.steps + 1
        self.force = 5 - self.height - 0.1 * self.speed + 1e-3 * self.steps


def scenario(policy: str = "fixed", until: float = 3.0) -> Scenario:
    """Guards, messages, ticks and other jobs release jobs, so that all kinds of tags occur."""
    loop = Scenario("lift", until=until)
    loop.processor("mcu", policy=policy, context_switch=1e-5)
    ball = loop.plant(Ball(), step=0.01)
    lift = loop.controller(
        Lift(), period=0.02, processor="mcu", priority=2, missed="skip",
        segments=[
            Segment(rt.Uniform(0.001, 0.003), reads=True),
            Segment(rt.Fixed(0.002), lock="bus", writes=True),
            Segment(rt.Fixed(0.001)),
        ],
    )  # fmt: skip
    loop.connect(ball, lift)
    loop.task("logger", "mcu", period=0.007, execution=0.003, priority=1, jitter=0.001)
    loop.task("touch", "mcu", on="ball.floor", deadline=0.01, execution=0.0015, interrupt=True)
    loop.task("rx", "mcu", on="lift", deadline=0.01, execution=0.0004, interrupt=True)
    loop.task(
        "flash", "mcu", after="rx", deadline=0.05, priority=3,
        segments=[Segment(rt.Fixed(0.004), lock="bus")],
    )  # fmt: skip
    return loop


STILL = {"height": 0.4, "speed": 0.0}


def recorded(run: rt.RunResult) -> Recording:
    assert isinstance(run.recorder, MemoryRecorder)
    return run.recorder.recording()


POLICIES = ("fixed", "rm", "dm", "edf", "cooperative", "round_robin", "let")


@pytest.mark.rule("execution-times-are-drawn-in-order")
@pytest.mark.parametrize("policy", POLICIES)
def test_two_runs_are_equal(policy: str) -> None:
    check_determinism(lambda: scenario(policy, until=1.0))


@pytest.mark.parametrize("policy", POLICIES)
def test_a_run_continues_from_each_checkpoint_in_the_middle_of_jobs(policy: str) -> None:
    recorder, ring = MemoryRecorder(), Ring(1000)
    schedule = CheckpointSchedule(ring, every=0.033)
    simulate(scenario(policy, 0.6), recorder=recorder, checkpoints=schedule)
    whole, unfinished = recorder.recording(), 0
    for checkpoint in list(ring._kept)[:-1]:
        rest = trace_of(scenario(policy, 0.6), start=checkpoint)
        wanted = whole.since(checkpoint.rows, checkpoint.events)
        assert compare_exact(wanted, rest) is None, checkpoint.tag
        queues = checkpoint.state["processors"]["mcu"]["queues"]
        unfinished += sum(len(queue) for queue in queues)
    assert len(ring._kept) > 10
    assert unfinished > 5


@pytest.mark.parametrize("policy", POLICIES)
def test_a_run_replays_from_its_file(policy: str, tmp_path: Path) -> None:
    path = tmp_path / "run.mcap"
    simulate(scenario(policy, 0.5), recorder=FileRecorder(path))
    assert (
        compare_exact(Recording.open(path), rerun(Recording.open(path), scenario(policy, 0.5)))
        is None
    )


def test_the_schedule_does_not_depend_on_the_pace() -> None:
    fast = trace_of(scenario(until=0.5))
    paced = trace_of(scenario(until=0.5), pace=2.0, clock=FakeClock())
    assert fast.digest() == paced.digest()


def test_the_state_of_each_task_is_a_signal() -> None:
    run = simulate(scenario(until=0.5))
    assert {"flash", "lift", "logger", "rx", "touch"} <= set(dir(run.mcu))
    assert set(np.unique(run["mcu.flash"])) <= {-2.0, -1.0, 0.0, 1.0}
    assert run["mcu.logger"].max() == 1.0


@pytest.mark.rule("job-samples-at-its-start")
@pytest.mark.rule("answer-at-its-end")
def test_inputs_are_sampled_when_the_job_starts_and_the_answer_leaves_when_it_ends() -> None:
    """The logger runs from 0 to 3 ms; the controller computes for 2 ms after it."""
    loop = Scenario("line", until=0.01)
    loop.processor("mcu")
    ball = loop.plant(Ball(), step=0.01)
    lift = loop.controller(Lift(), period=0.01, processor="mcu", execution=0.002, priority=2)
    loop.task("logger", "mcu", period=0.01, execution=0.003, priority=1)
    loop.connect(ball, lift)
    run = simulate(loop)
    track = recorded(run).track("messages/lift")
    stamps = [track.integer(name)[0] for name in ("initiated", "completed", "arrival")]
    assert stamps == [3 * MS, 5 * MS, 5 * MS]
    height = 0.1 - 9.81 / 2 * 0.003**2
    sampled = recorded(run).track("messages/lift.inputs").column("height")
    assert sampled[0] == pytest.approx(height, abs=1e-12)


@pytest.mark.rule("context-switch")
def test_a_job_samples_before_the_context_switch_to_it() -> None:
    """The core changes to the logger until 1 ms, and to the controller from 4 to 5 ms.

    At 6 ms, the alarm preempts the controller; the core returns to it from 8 to 9 ms.
    """
    loop = Scenario("line", until=0.02)
    loop.processor("mcu", context_switch=0.001)
    ball = loop.plant(Ball(), step=0.02)
    lift = loop.controller(Lift(), period=0.02, processor="mcu", execution=0.002, priority=2)
    loop.task("logger", "mcu", period=0.02, execution=0.003, priority=1)
    loop.task("alarm", "mcu", period=0.02, offset=0.006, execution=0.001)
    loop.connect(ball, lift)
    run = simulate(loop)
    track = recorded(run).track("messages/lift")
    assert [track.integer(name)[0] for name in ("initiated", "completed")] == [4 * MS, 10 * MS]
    sampled = recorded(run).track("messages/lift.inputs")
    assert sampled.ns.tolist() == [4 * MS], "a job that is preempted does not sample again"
    height = 0.1 - 9.81 / 2 * 0.004**2
    assert sampled.column("height")[0] == pytest.approx(height, abs=1e-12)
    assert run.system.processors[0].counts["lift"].longest_ns == 10 * MS
    (executed,) = recorded(run).track("jobs/lift").integer("executed")
    assert executed == 2 * MS, "context switches are no execution time"


def test_with_logical_execution_time_inputs_and_answers_do_not_depend_on_other_tasks() -> None:
    def stamps(execution: float) -> list[list[int]]:
        loop = Scenario("line", until=0.1)
        loop.processor("mcu", policy="let")
        ball = loop.plant(Ball(), step=0.01)
        lift = loop.controller(Lift(), period=0.01, processor="mcu", execution=0.002, priority=2)
        loop.task("logger", "mcu", period=0.01, execution=execution, priority=1)
        loop.connect(ball, lift)
        track = trace_of(loop).track("messages/lift")
        return [track.integer(n).tolist() for n in ("initiated", "completed", "arrival")]

    quiet, busy = stamps(0.001), stamps(0.007)
    assert quiet == busy
    assert quiet[0][:3] == [0, 10 * MS, 20 * MS]
    assert quiet[1][:3] == [10 * MS, 20 * MS, 30 * MS]


def test_with_logical_execution_time_no_tick_of_a_rational_period_is_lost() -> None:
    """A tick of 1/60 s can come 1 ns early; the answer before has left by then."""
    loop = Scenario("line", until=1)
    loop.processor("mcu", policy="let")
    loop.controller(
        Lift(), period=Fraction(1, 60), deadline=Fraction(1, 60), inputs=STILL, processor="mcu",
        execution=0.002,
    )  # fmt: skip
    recording = trace_of(loop)
    assert len(recording.track("messages/lift").ns) == 60
    assert not [event for event in recording.events if event.kind == "Missed"]


@pytest.mark.rule("deadline")
def test_an_aborted_job_changes_neither_the_memory_nor_the_outputs_of_its_controller() -> None:
    loop = Scenario("late", until=0.1)
    loop.processor("mcu")
    ball = loop.plant(Ball(), step=0.01)
    lift = loop.controller(
        Lift(), period=0.01, processor="mcu", missed="abort",
        execution=lambda speed: 0.005 if speed > -0.1 else 0.02,
    )  # fmt: skip
    loop.connect(ball, lift)
    run = simulate(loop)
    counts = run.system.processors[0].counts["lift"]
    assert counts.finished + counts.aborted == 10
    assert counts.aborted > 3
    assert len(recorded(run).track("messages/lift").ns) == counts.finished
    assert run["lift.force"][-1] == run["lift.force"][run.time < 0.099][-1]


@pytest.mark.rule("tags-of-a-processor")
def test_a_task_without_a_controller_changes_no_step_of_a_plant() -> None:
    def heights(tasks: int) -> list[tuple[int, float]]:
        loop = Scenario("ball", until=0.4)
        loop.plant(Ball(), step=0.01, inputs={"force": 0.0})
        if tasks:
            loop.processor("mcu", policy="round_robin")
        for k in range(tasks):
            loop.task(f"t{k}", "mcu", period=0.0013 + k * 1e-4, execution=0.0004)
        track = trace_of(loop).track("ball")
        return list(zip(track.ns.tolist(), track.column("height").tolist(), strict=True))

    assert heights(0) == heights(3)


@pytest.mark.rule("dispatch")
def test_the_order_of_declaration_has_no_effect() -> None:
    def digest(names: list[str]) -> str:
        loop = Scenario("line", until=0.2)
        made: dict[str, Callable[[], object]] = {
            "mcu": lambda: loop.processor("mcu"),
            "lift": lambda: loop.controller(
                Lift(), period=0.01, processor="mcu", execution=0.002, inputs=STILL
            ),
            "a": lambda: loop.task("a", "mcu", period=0.01, execution=0.001),
            "z": lambda: loop.task("z", "mcu", period=0.01, execution=0.001),
        }
        for name in names:
            made[name]()
        return trace_of(loop).digest()

    assert (
        len({digest(order) for order in (["mcu", "lift", "a", "z"], ["z", "lift", "a", "mcu"])})
        == 1
    )


def test_a_message_that_arrives_releases_an_interrupt_handler() -> None:
    run = simulate(scenario(until=0.5))
    recording = recorded(run)
    arrivals = recording.track("messages/lift").integer("arrival")
    handled = recording.track("jobs/rx").integer("arrival")
    assert handled.tolist() == [ns for ns in arrivals.tolist() if ns < 500 * MS][: len(handled)]
    assert len(handled) > 10


def test_a_guard_that_fires_releases_an_interrupt_handler_at_its_tag() -> None:
    recording = trace_of(scenario(until=1.5))
    arrivals = recording.track("jobs/touch").integer("arrival").tolist()
    heights = recording.track("ball")
    for ns in arrivals:
        assert abs(heights.column("height")[heights.ns == ns]).max() < 1e-8
    assert len(arrivals) > 2


def test_the_speed_of_a_processor_is_a_setting() -> None:
    loop = scenario(until=0.5)
    loop.set("mcu.speed", 0.5)
    slow = trace_of(loop)
    executed = slow.track("jobs/rx").integer("executed")
    assert set(executed.tolist()) == {800_000}


def test_a_missed_deadline_is_a_warning_of_the_run() -> None:
    loop = Scenario("late", until=0.1)
    loop.processor("mcu")
    loop.task("hog", "mcu", period=0.01, execution=0.02)
    assert "missed deadlines: 10" in simulate(loop).warnings


def test_a_lost_tick_of_a_task_on_a_processor_is_refused() -> None:
    loop = scenario(until=0.1)
    loop.faults({"name": "f", "kind": "lost_tick", "where": "loop.lift", "at": 0})
    with pytest.raises(FaultError, match="lift runs on a simulated processor"):
        simulate(loop)


@pytest.mark.parametrize("function", [lambda height: height / 0, lambda height: None])  # noqa: ARG005
def test_an_error_of_a_function_for_the_execution_time_names_the_task_and_the_time(
    function: Callable[..., float],
) -> None:
    loop = Scenario("line", until=0.1)
    loop.processor("mcu")
    loop.controller(Lift(), period=0.01, processor="mcu", inputs=STILL, execution=function)
    with pytest.raises(ScenarioError, match=r"the execution time of lift .*0\.000000000 s"):
        simulate(loop)


@pytest.mark.parametrize(
    "model", [rt.Loss(rt.Fixed(0.001), 1.0), rt.Duplicate(rt.Fixed(0.001), 1.0)]
)
@pytest.mark.parametrize("what", ["jitter", "execution"])
def test_a_model_that_loses_or_copies_gives_no_jitter_and_no_execution_time(
    what: str, model: Any
) -> None:
    loop = Scenario("line", until=0.1)
    loop.processor("mcu")
    loop.task("t", "mcu", period=0.01, **{"execution": 0.001, what: model})
    with pytest.raises(LatencyError, match=f"the {what} of t gave [02] times; a job needs"):
        simulate(loop)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda s: s.task("t", "cpu", period=1, execution=0.1), "unknown processor 'cpu'"),
        (lambda s: s.task("t", "mcu", period=1), "exactly one of execution= and segments="),
        (lambda s: s.task("t", "mcu", execution=0.1), "exactly one of period=, on= and after="),
        (lambda s: s.task("t", "mcu", on="lift", execution=0.1), "give deadline= in s"),
        (lambda s: s.task("t", "mcu", period=1, execution=0), "execution of t is 0 s"),
        (lambda s: s.task("t", "mcu", period=1, execution=-0.1), "execution of t = -0.1 s"),
        (lambda s: s.task("t", "mcu", period=1, execution="1 ms"), "execution of t '1 ms' is not"),
        (lambda s: s.task("t", "mcu", period=1, execution=0.1, core=2), "runs on core 2 of mcu"),
        (lambda s: s.task("t", "mcu", period=1, execution=0.1, missed="wait"), "'wait'"),
        (lambda s: s.task("t", "mcu", after="no", deadline=1, execution=0.1), "after= of t"),
        (
            lambda s: (
                s.processor("other", policy="let"),
                s.controller(
                    "c", Lift(), on="lift", deadline=1, processor="other", execution=0.1,
                    inputs=STILL,
                ),
            ),
            "with logical execution time, a controller needs period=",
        ),
        (
            lambda s: s.controller("c", Lift(), period=1, missed="abort"),
            "missed=, core=, server= need processor=",
        ),
        (lambda s: s.task("t", "mcu", period=1, execution=0.1, core=0), "core of t is 0"),
        (lambda s: s.task("t", "mcu", period=1, execution=0.1, core=1.5), "core of t is 1.5"),
        (lambda s: s.task("t", "mcu", period=1, execution=0.1, offset=-1), "give a time >= 0"),
        (lambda s: s.task("t", "mcu", period=1, execution=0.1, priority=1.5), "priority of t is"),
        (lambda s: s.task("t", "mcu", period=1, segments=[0.1]), "segments of t are [0.1]"),
        (
            lambda s: (
                s.task("a", "mcu", after="t", deadline=1, execution=0.1),
                s.task("t", "mcu", after="a", deadline=1, execution=0.1),
            ),
            "after= forms a cycle: a, t",
        ),
        (lambda s: s.processor("other"), "no task runs on processor other"),
        (lambda s: s.processor("other", policy="fifo"), "unknown scheduling policy 'fifo'"),
        (lambda s: s.processor("other", cores=0), "give a whole number from 1 on"),
        (lambda s: s.processor("other", speed=0), "speed"),
        (lambda s: s.processor("other", locks="pip"), "'pip'"),
        (lambda s: s.processor("other", context_switch=-1), "give a time >= 0"),
        (
            lambda s: s.controller("c", Lift(), period=1, execution=0.1),
            "execution=, segments=, deadline=, jitter=, missed=, core=, server= need processor=",
        ),
        (
            lambda s: s.controller(
                "c", Lift(), period=1, processor="mcu", execution=lambda wind: wind
            ),
            "unknown input 'wind' in the execution time of c",
        ),
        (
            lambda s: s.controller(
                "c", Lift(), inputs=STILL, period=1, processor="mcu", execution=0.1, compute=0.1
            ),
            "give execution= instead of compute=",
        ),
        *(
            (
                lambda s, late=late: s.controller(
                    "c", Lift(), inputs=STILL, period=1, processor="mcu", execution=0.1, late=late
                ),
                f"late={late!r} has no effect; give deadline= and missed='finish', 'abort'",
            )
            for late in ("fail", "stretch")
        ),
        (
            lambda s: s.replace_controller("lift", Lift(), late="stretch"),
            "late='stretch' has no effect; give deadline= and missed=",
        ),
        (
            lambda s: s.controller(
                "c", Lift(), inputs=STILL, on="lift", offset=0.1, deadline=1, processor="mcu",
                execution=0.1,
            ),
            "c has no period, so offset= has no effect",
        ),
        (
            lambda s: s.task("t", "mcu", on="lift", offset=0.1, deadline=1, execution=0.1),
            "t has no period, so offset= has no effect",
        ),
        (
            lambda s: s.task("t", "mcu", after="rx", offset=0.1, deadline=1, execution=0.1),
            "t has no period, so offset= has no effect",
        ),
        (
            lambda s: (
                s.processor("two", cores=2, migration=True),
                s.task("t", "two", period=1, execution=0.1, core=2),
            ),
            "core=2 of t has no effect; leave out core= or migration=True",
        ),
        (
            lambda s: (
                s.processor("edf", policy="edf"),
                s.task(
                    "t", "edf", period=1, execution=0.1, interrupt=True,
                    server=ConstantBandwidth(0.1, 1),
                ),
            ),
            "t is an interrupt handler, which runs before all deadlines",
        ),
        (
            lambda s: s.controller(
                "c", Lift(), inputs=STILL, period=1, processor="mcu",
                segments=[Segment(rt.Fixed(0.1), writes=True), Segment(rt.Fixed(0.1), reads=True)],
            ),
            "need one reads=True, and one writes=True",
        ),
    ],
)  # fmt: skip
def test_a_wrong_declaration_is_an_error(wrong: Callable[[Scenario], object], message: str) -> None:
    loop = scenario(until=0.1)

    def declared() -> None:
        wrong(loop)
        loop.build()

    with pytest.raises(ScenarioError, match=re.escape(message)):
        declared()


@pytest.mark.rule("tags-of-a-processor")
def test_events_at_the_time_of_a_solver_step_are_recorded_and_make_one_tag() -> None:
    """Each job of 2 ms ends at a step of the solver, and so does each release."""
    loop = Scenario("grid", until=0.1)
    loop.processor("mcu")
    ball = loop.plant(Ball(), step=0.001)
    lift = loop.controller(Lift(), period=0.004, processor="mcu", execution=0.002)
    loop.connect(ball, lift)
    loop.task("logger", "mcu", period=0.005, execution=0.002, priority=1)
    run = simulate(loop)
    recording, counts = recorded(run), run.system.processors[0].counts
    for name in ("lift", "logger"):
        assert len(recording.track(f"jobs/{name}")) == counts[name].finished > 15
    states = recording.track("values/mcu")
    running = np.diff(states.ns)[states.column("lift")[:-1] == 1]
    assert running.sum() == 25 * 2 * MS
    plant = recording.track("ball")
    before = plant.ns[plant.integer("side") == 0]
    assert len(np.unique(before)) == len(before)


@pytest.mark.rule("tags-of-a-processor")
@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("step", [0.001, 0.0007])
def test_the_steps_of_a_plant_do_not_change_the_schedule(policy: str, step: float) -> None:
    """Most events of the tasks are at the time of a solver step of 1 ms; the ball bounces twice."""

    def schedule(step: float | None) -> dict[str, list[list[int]]]:
        loop = Scenario("grid", until=0.3)
        loop.processor("mcu", policy=policy)
        for k, period in enumerate((0.005, 0.007, 0.011, 0.02)):
            parts = [Segment(rt.Fixed(0.001)), Segment(rt.Fixed(0.001), lock="bus")]
            loop.task(f"t{k}", "mcu", period=period, priority=k, segments=parts, missed="abort")
        if step is not None:
            loop.connect(0.0, loop.plant(Ball(), step=step).force)
        tracks = recorded(simulate(loop)).tracks
        names = ["values/mcu", *(f"jobs/t{k}" for k in range(4))]
        return {name: tracks[name].words.tolist() for name in names}

    assert schedule(step) == schedule(None)


def test_a_deadline_beyond_the_period_is_named_in_ms_with_logical_execution_time() -> None:
    loop = Scenario("logical", until=0.1)
    loop.processor("mcu", policy="let")
    loop.task("t", "mcu", period=0.004, deadline=0.008, execution=0.001)
    with pytest.raises(ScenarioError, match="t has a deadline of 8 ms and a period of 4 ms"):
        loop.build()
