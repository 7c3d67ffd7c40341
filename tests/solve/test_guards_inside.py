"""Guards between a plant's tags: found on each step inside, on the solver's dense output."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from rtsim.core.errors import ModelError
from rtsim.core.signals import Signal, Signals, Vector
from rtsim.core.tag import Duration
from rtsim.engine.checkpoint.file import Ring
from rtsim.engine.checkpoint.schedule import CheckpointSchedule
from rtsim.equations.delays import Delayed
from rtsim.equations.model import Guard, Model, Timer
from rtsim.models.ball import BALL
from rtsim.record.reading import Recording
from rtsim.record.recorders import MemoryRecorder
from rtsim.runs.simulation import RunResult, simulate
from rtsim.scenario.scenario import Scenario
from rtsim.solve import Adaptive, SciPy, Solver
from rtsim.solve.adaptive import BS32_TABLEAU, EVALUATIONS

MS = 1_000_000
S = 1000 * MS
TIGHT = [
    Adaptive(rtol=1e-10, atol=1e-12),
    Adaptive(tableau=BS32_TABLEAU, rtol=1e-10, atol=1e-12),
    *(SciPy(method=m, rtol=1e-10, atol=1e-12) for m in ("DOP853", "Radau", "LSODA")),
    SciPy(method="BDF", rtol=1e-11, atol=1e-13),
]


def count(i: int, t: float, x: Vector, z: Vector, u: Vector, p: Vector) -> None:  # noqa: ARG001
    z[i] += 1.0


def turns(t: float, x: Vector, z: Vector, u: Vector, p: Vector, dx: Vector) -> None:  # noqa: ARG001
    dx[0] = x[1]
    dx[1] = -x[0]


def runs(t: float, x: Vector, z: Vector, u: Vector, p: Vector, dx: Vector) -> None:  # noqa: ARG001
    dx[0] = 1.0


def watched(
    guard: Any, *guards: Guard, derivative: Any = runs, states: Signals | None = None,
    solver: str | Solver = "dp54", step: Duration = 10, until: Duration = 10, reset: Any = count,
) -> Scenario:  # fmt: skip
    """x = t in s unless told otherwise; one tag of its own; each guard counts."""
    model = Model(
        "watched", states or Signals("x"), derivative, guards=guards, guard=guard, reset=reset,
        discrete=Signals(*(f"n{i}" for i in range(len(guards)))),
    )  # fmt: skip
    scenario = Scenario("watched", until=until)
    scenario.plant("w", model, step=step, solver=solver)
    return scenario


def flown(scenario: Scenario, **how: Any) -> tuple[Recording, RunResult]:
    recorder = MemoryRecorder()
    outcome = simulate(scenario, recorder=recorder, **how)
    return recorder.recording(), outcome


def crossed(recording: Recording) -> list[tuple[str, int]]:
    """Which guard, and when (ns)."""
    return [(e.source.partition(".")[2], e.tag.ns) for e in recording.events if e.kind == "Crossed"]


CIRCLE = Signals(Signal("x", initial=1.0), Signal("v"))


@pytest.mark.sample(4)
@pytest.mark.rule("guards")
@pytest.mark.parametrize("solver", TIGHT, ids=lambda s: s.name.partition("(")[0])
@pytest.mark.parametrize("compile", [True, False], ids=["compiled", "plain"])
def test_crossings_that_cancel_between_two_tags_are_found(solver: Solver, compile: bool) -> None:
    """x = cos t: three zeros in 10 s, one tag; the guard's own tags come on top."""

    def level(t: float, x: Vector, z: Vector, u: Vector, p: Vector, g: Vector) -> None:  # noqa: ARG001
        g[0] = x[0]
        g[1] = x[1] + 0.5

    scenario = watched(
        level, Guard("zero"), Guard("fast", -1), derivative=turns, states=CIRCLE, solver=solver
    )
    found = crossed(flown(scenario, compile=compile)[0])
    exact = {"zero": [math.pi / 2, 3 * math.pi / 2, 5 * math.pi / 2], "fast": [math.pi / 6]}
    exact["fast"].append(math.pi / 6 + 2 * math.pi)
    wanted = sorted((at, name) for name, times in exact.items() for at in times)
    assert [name for name, _ in found] == [name for _, name in wanted]
    late = [ns - at * 1e9 for (_, ns), (at, _) in zip(found, wanted, strict=True)]
    assert np.abs(late).max() < 50


@pytest.mark.parametrize("solver", TIGHT, ids=lambda s: s.name.partition("(")[0])
def test_a_ball_with_tags_far_apart(solver: Solver) -> None:
    """Bounces from 1.16 s on come several to a step of the grid."""
    scenario = Scenario("ball", until=4)
    scenario.plant("ball", BALL, step=2, solver=solver)
    recording, outcome = flown(scenario)
    v1, g, e = math.sqrt(2 * 9.81), 9.81, 0.7
    exact = [v1 / g]
    for k in range(1, 12):
        exact.append(exact[-1] + 2 * v1 * e**k / g)
    found = [ns for _, ns in crossed(recording)]
    assert np.abs(np.array(found[:12]) / 1e9 - exact).max() < 50e-9
    assert outcome.system.plants[0].x.tolist() == [0.0, 0.0]
    assert outcome.system.plants[0].z.tolist() == [1.0]


@pytest.mark.parametrize("compile", [True, False], ids=["compiled", "plain"])
@pytest.mark.parametrize("solver", ["dp54", "lsoda"])
def test_several_in_one_step_fire_in_the_order_of_time(solver: str, compile: bool) -> None:
    def four(t: float, x: Vector, z: Vector, u: Vector, p: Vector, g: Vector) -> None:  # noqa: ARG001
        g[0] = x[0] - 6.3
        g[1] = x[0] - 6.1
        g[2] = x[0] - 6.3
        g[3] = 6.100000002 - x[0]

    scenario = watched(four, *(Guard(name) for name in "abcd"), solver=solver)
    found = crossed(flown(scenario, compile=compile)[0])
    assert [name for name, _ in found] == ["b", "d", "a", "c"]
    assert found[1][1] - found[0][1] == 2
    assert found[2][1] == found[3][1]


@pytest.mark.parametrize("solver", ["rk4", "dp54", "radau"])
@pytest.mark.parametrize("wide", [1e-1, 1e-3, 1e-5])
def test_one_that_crosses_twice_within_a_step_of_the_solver(solver: str, wide: float) -> None:
    """10 s in a step; twice within ``wide`` s of each other."""

    def dips(t: float, x: Vector, z: Vector, u: Vector, p: Vector, g: Vector) -> None:  # noqa: ARG001
        g[0] = (x[0] - 6.6) * (x[0] - 6.6 - p[0])

    model = Model("dips", Signals("x"), runs, parameters=Signals("wide"), guard=dips,
                  guards=(Guard("dip"),), reset=count, discrete=Signals("n"))  # fmt: skip
    scenario = Scenario("dips", until=10)
    scenario.plant("w", model, step=10, solver=solver, parameters={"wide": wide})
    found = [ns for _, ns in crossed(flown(scenario)[0])]
    assert np.abs(np.array(found) - [6.6e9, 6.6e9 + wide * 1e9]).max() < 2


@pytest.mark.parametrize("solver", ["rk4", "dp54"])
def test_one_that_leaves_and_turns_back_at_once_is_seen(solver: str) -> None:
    """It starts 1e-4 above zero, is below from 10 to 20 ms of a step of 10 s, and stays above."""

    def dips(t: float, x: Vector, z: Vector, u: Vector, p: Vector, g: Vector) -> None:  # noqa: ARG001
        g[0] = (x[0] - 0.01) * (x[0] - 0.02)

    found = crossed(flown(watched(dips, Guard("dip"), solver=solver))[0])
    assert np.abs(np.array([ns for _, ns in found]) - [10 * MS, 20 * MS]).max() < 2


@pytest.mark.parametrize("solver", ["rk4", "dp54", "bdf"])
def test_one_that_grazes_does_not_fire(solver: str) -> None:
    def grazes(t: float, x: Vector, z: Vector, u: Vector, p: Vector, g: Vector) -> None:  # noqa: ARG001
        g[0] = (x[0] - 6.6) ** 2 + 1e-12
        g[1] = (x[0] - 5.0) ** 2  # touches, to the last bit

    assert crossed(flown(watched(grazes, Guard("near"), Guard("at"), solver=solver))[0]) == []


def test_what_is_not_seen() -> None:
    """There and back between two points of a step, with no turning point at either of them."""

    def needle(t: float, x: Vector, z: Vector, u: Vector, p: Vector, g: Vector) -> None:  # noqa: ARG001
        g[0] = min(abs(x[0] - 6.6) - 1e-3, 0.1)

    assert crossed(flown(watched(needle, Guard("needle")))[0]) == []
    assert len(crossed(flown(watched(needle, Guard("needle"), step="1/5"))[0])) == 2


@pytest.mark.parametrize("solver", ["rk4", "dp54", "radau"])
def test_one_that_is_at_zero_at_a_tag_fires_once(solver: str) -> None:
    """x = t: at 1/2 s it is 0 to the last bit, at a tag of its own, and goes on."""

    def half(t: float, x: Vector, z: Vector, u: Vector, p: Vector, g: Vector) -> None:  # noqa: ARG001
        g[0] = t - 0.5

    for direction in (0, 1):
        scenario = watched(half, Guard("half", direction), solver=solver, step="1/4", until=1)
        assert crossed(flown(scenario)[0]) == [("half", 500 * MS)]
    assert crossed(flown(watched(half, Guard("half", -1), solver=solver, step="1/4"))[0]) == []


def test_a_ball_that_does_not_bounce_lies_and_does_not_fall_through() -> None:
    """It lands, to the last bit at zero or not; put on the floor it would fall again: Zeno."""
    scenario = Scenario("ball", until=1)
    scenario.plant("ball", BALL, step=1, solver="dp54", parameters={"restitution": 0.0})
    _, outcome = flown(scenario)
    assert outcome.system.plants[0].values.tolist() == [0.0, 0.0, 1.0]


@pytest.mark.rule("guards")
@pytest.mark.parametrize("idle", [(), (Guard("idle", +1),)], ids=["alone", "beside an idle guard"])
@pytest.mark.parametrize(
    ("factor", "gravity", "times"),
    [
        (1.0, 0.0, [S]),
        (2.0, 0.0, [S]),  # the reset makes it faster
        (0.5, 0.0, [S]),  # and slower: it still goes on through zero
        (0.0, 0.0, [S]),  # it stands at zero
        (0.0, 1.0, [S, S + 1]),  # it is put on the floor, from which it falls
        (-1.0, 1.0, [S, 3 * S]),  # it is thrown up, and comes back
    ],
)
def test_one_at_zero_fires_again_only_if_its_reset_stopped_or_turned_it(
    factor: float, gravity: float, times: list[int], idle: tuple[Guard, ...]
) -> None:
    """x = 1 - t is 0 to the last bit at 1 s, a grid point; gravity acts after the first event."""

    def level(t: float, x: Vector, z: Vector, u: Vector, p: Vector, g: Vector) -> None:  # noqa: ARG001
        g[0] = x[0]
        if g.size > 1:
            g[1] = x[0] - 100.0

    def falls(t: float, x: Vector, z: Vector, u: Vector, p: Vector, dx: Vector) -> None:  # noqa: ARG001
        dx[0] = x[1]
        dx[1] = -x[2]
        dx[2] = 0.0
        dx[3] = 0.0

    def thrown(i: int, t: float, x: Vector, z: Vector, u: Vector, p: Vector) -> None:  # noqa: ARG001
        if z[0] == 0.0:
            x[1] *= factor
            x[2] = gravity
        z[0] += 1.0
        x[3] += 1.0

    states = Signals("x = 1", "v = -1", "gravity", "other")
    scenario = watched(level, Guard("floor", -1), *idle, derivative=falls, states=states,
                       reset=thrown, solver="midpoint", step="1/4", until="13/4")  # fmt: skip
    found = [ns for _, ns in crossed(flown(scenario)[0])]
    assert len(found) == len(times)
    assert all(abs(a - b) <= 1 for a, b in zip(found, times, strict=True))


def delayed(t: float, x: Vector, z: Vector, u: Vector, p: Vector, dx: Vector) -> None:  # noqa: ARG001
    dx[0] = -u[0]


@pytest.mark.parametrize("compile", [True, False], ids=["compiled", "plain"])
@pytest.mark.parametrize("solver", ["rk4", "dp54"])
def test_one_of_a_model_with_a_delay_fires_once(solver: str, compile: bool) -> None:
    def nine(t: float, x: Vector, z: Vector, u: Vector, p: Vector, g: Vector) -> None:  # noqa: ARG001
        g[0] = t - 9.0

    def adds(i: int, t: float, x: Vector, z: Vector, u: Vector, p: Vector) -> None:  # noqa: ARG001
        x[0] += 1.0

    model = Model(
        "delayed", Signals("x = 1"), delayed, delays=(Delayed("x", 0.2, before=1.0),),
        guards=(Guard("nine", +1),), guard=nine, reset=adds,
    )  # fmt: skip
    scenario = Scenario("delayed", until=10)
    scenario.plant("w", model, step="1/2", solver=solver)
    assert crossed(flown(scenario, compile=compile)[0]) == [("nine", 9 * S)]


@pytest.mark.sample(1)
@pytest.mark.parametrize("compile", [True, False], ids=["compiled", "plain"])
def test_one_of_a_model_with_an_algebraic_variable_fires_once(compile: bool) -> None:
    def decays(t: float, x: Vector, y: Vector, z: Vector, u: Vector, p: Vector, dx: Vector) -> None:  # noqa: ARG001
        dx[0] = -y[0]

    def same(t: float, x: Vector, y: Vector, z: Vector, u: Vector, p: Vector, r: Vector) -> None:  # noqa: ARG001
        r[0] = y[0] - x[0]

    def one(t: float, x: Vector, y: Vector, z: Vector, u: Vector, p: Vector, g: Vector) -> None:  # noqa: ARG001
        g[0] = t - 1.0

    def dose(i: int, t: float, x: Vector, y: Vector, z: Vector, u: Vector, p: Vector) -> None:  # noqa: ARG001
        x[0] += 1.0

    model = Model(
        "dae", Signals("x"), decays, algebraic=Signals("y"), residual=same,
        guards=(Guard("one", +1),), guard=one, reset=dose,
    )  # fmt: skip
    scenario = Scenario("dae", until=2)
    scenario.plant("w", model, step="1/10")
    recording, _ = flown(scenario, compile=compile)
    assert crossed(recording) == [("one", S)]
    assert recording["w.x"][-1] == pytest.approx(math.exp(-1), abs=1e-6)


@pytest.mark.parametrize("writes", [False, True], ids=["discrete", "a state too"])
@pytest.mark.parametrize("beside", [False, True], ids=["alone", "beside a source"])
@pytest.mark.parametrize("direction", [1, 0])
@pytest.mark.parametrize("step", ["1/4", "3/10"])
def test_a_belt_that_a_discrete_value_stops_at_its_level_fires_once(
    step: str, direction: int, beside: bool, writes: bool
) -> None:
    """It stops at 1 s, at a grid point or between two, and goes on at 3/2 s."""

    def runs(t: float, x: Vector, z: Vector, u: Vector, p: Vector, dx: Vector) -> None:  # noqa: ARG001
        dx[0] = z[0]
        dx[1] = -x[1]

    def level(t: float, x: Vector, z: Vector, u: Vector, p: Vector, g: Vector) -> None:  # noqa: ARG001
        g[0] = x[0] - 1.0

    def stops(i: int, t: float, x: Vector, z: Vector, u: Vector, p: Vector) -> None:  # noqa: ARG001
        z[0] = 0.0
        if writes:
            x[1] += 1.0

    def starts(due: Vector, t: float, x: Vector, z: Vector, u: Vector, p: Vector) -> None:  # noqa: ARG001
        z[0] = 1.0

    model = Model(
        "belt", Signals("place", "other"), runs, discrete=Signals("speed = 1"),
        inputs=Signals(Signal("u", optional=True)), guards=(Guard("stop", direction),),
        guard=level, reset=stops, timers=(Timer(None, 3 * S // 2),), tick=starts,
    )  # fmt: skip
    scenario, inputs = Scenario("belt", until=2), {}
    if beside:
        scenario.source("given", Signals("u"))
        scenario.at("5/4", "given.u", 1.0)
        inputs["u"] = "given.u"
    scenario.plant("w", model, step=step, solver="midpoint", inputs=inputs)
    recording, outcome = flown(scenario)
    assert len(crossed(recording)) == 1
    assert outcome.system.plants[0].x[0] == pytest.approx(1.5, abs=1e-8)


@pytest.mark.parametrize("solver", ["rk4", "dp54"])
def test_a_crossing_in_the_other_direction_is_not_forgotten(solver: str) -> None:
    """x = cos t falls through zero first, which does not count; many steps are taken at once."""

    def level(t: float, x: Vector, z: Vector, u: Vector, p: Vector, g: Vector) -> None:  # noqa: ARG001
        g[0] = x[0]

    scenario = watched(level, Guard("up", +1), derivative=turns, states=CIRCLE, solver=solver,
                       step="1/100")  # fmt: skip
    (found,) = crossed(flown(scenario)[0])
    assert abs(found[1] - 3 * math.pi / 2 * 1e9) < 5000


def test_a_run_goes_on_with_what_was_known_of_its_guards() -> None:
    """One is at zero where it is cut, and has fired; the other crosses in the next step."""

    def both(t: float, x: Vector, z: Vector, u: Vector, p: Vector, g: Vector) -> None:  # noqa: ARG001
        g[0] = t - 0.5
        g[1] = t - 0.6

    scenario = watched(both, Guard("half", +1), Guard("soon"), step="1/4", until=1)
    ring = Ring(1)
    whole, _ = flown(scenario, checkpoints=CheckpointSchedule(ring, at=["1/2"]))
    kept = ring.before(500 * MS)
    assert kept is not None
    assert kept.ns == 500 * MS
    rest, _ = flown(scenario, start=kept)
    assert [name for name, _ in crossed(whole)] == ["half", "soon"]
    assert crossed(rest) == crossed(whole)[1:]


@pytest.mark.parametrize("off", [-1000, -2, 2, 1000])
def test_the_order_is_that_of_the_steps_and_not_of_the_dense_output(off: int) -> None:
    """One follows the state, loosely solved; the other the clock, a few ns beside it."""

    def level(t: float, x: Vector, z: Vector, u: Vector, p: Vector, g: Vector) -> None:  # noqa: ARG001
        g[0] = x[0]
        g[1] = t - p[0]

    model = Model("loose", CIRCLE, turns, guards=(Guard("state"), Guard("clock")), guard=level,
                  parameters=Signals("at = 9"), reset=count,
                  discrete=Signals("n0", "n1"))  # fmt: skip

    def run(at: float) -> list[tuple[str, int]]:
        scenario = Scenario("loose", until=2)
        solver = Adaptive(tableau=BS32_TABLEAU, rtol=1e-2, atol=1e-2)
        scenario.plant("w", model, step=2, solver=solver, parameters={"at": at})
        return crossed(flown(scenario)[0])

    ((_, alone),) = run(9.0)
    found = dict(run((alone + off - 0.5) / 1e9))
    assert found["clock"] == alone + off
    assert abs(found["state"] - alone) < (2 if off > 0 else 1e6)


@pytest.mark.parametrize("solver", ["rk4", "abm4", "dp54", "bs32", "bdf"])
def test_a_guard_that_never_fires_changes_nothing(solver: str) -> None:
    def never(t: float, x: Vector, z: Vector, u: Vector, p: Vector, g: Vector) -> None:  # noqa: ARG001
        g[0] = x[0] + 2.0

    ends = []
    for guards in ((Guard("never"),), ()):
        model = Model("circle", CIRCLE, turns, guards=guards, guard=never if guards else None)
        scenario = Scenario("circle", until=10)
        scenario.plant("w", model, step="1/8", solver=solver)
        ends.append(flown(scenario)[0].tracks["w"].words.tobytes())
    assert ends[0] == ends[1]


# -- what it costs ---------------------------------------------------------------------------------


def sawtooth(i: int, t: float, x: Vector, z: Vector, u: Vector, p: Vector) -> None:  # noqa: ARG001
    x[0] = 0.0


def ramp(t: float, x: Vector, z: Vector, u: Vector, p: Vector, g: Vector) -> None:  # noqa: ARG001
    g[0] = x[0] - 0.01


@pytest.mark.parametrize("events", [100, 1000, pytest.param(10_000, marks=pytest.mark.full)])
def test_the_cost_of_an_event_does_not_grow_with_their_number(events: int) -> None:
    """Evaluations of the whole run, by the solver's own count; tags a second apart."""
    scenario = watched(ramp, Guard("full", +1), step=1, until=events // 100, reset=sawtooth)
    recording, outcome = flown(scenario)
    found = len(crossed(recording))
    assert abs(found - events) <= 1
    made = outcome.system.plants[0].stepper.save()["memory"][EVALUATIONS]
    assert made / found < 30


def test_a_parameter_that_changes_at_the_tag_of_a_second_event_changes_nothing_else() -> None:
    """Both guards fire at grid points; the change comes before the reset of the second one."""

    def both(t: float, x: Vector, z: Vector, u: Vector, p: Vector, g: Vector) -> None:  # noqa: ARG001
        g[0] = p[0] * (t - 0.5)
        g[1] = t - 1.0

    model = Model(
        "both", Signals("x"), runs, discrete=Signals("a", "b"), parameters=Signals("factor = 1"),
        guards=(Guard("half", +1), Guard("one", +1)), guard=both, reset=count,
    )  # fmt: skip
    scenario = Scenario("both", until=2)
    scenario.plant("w", model, step="1/4")
    scenario.at(1, "w.factor", 2.0)
    assert crossed(flown(scenario)[0]) == [("half", S // 2), ("one", S)]


# -- guards that jump, and guards that are no numbers

AT_NS = 1_234_567_800
AT = AT_NS / S


def falling_condition(t: float, x: Vector, z: Vector, u: Vector, p: Vector, g: Vector) -> None:  # noqa: ARG001
    g[0] = 1.0 if x[0] < AT else 0.0


def rising_condition(t: float, x: Vector, z: Vector, u: Vector, p: Vector, g: Vector) -> None:  # noqa: ARG001
    g[0] = 1.0 if t >= AT else 0.0


def truth(t: float, x: Vector, z: Vector, u: Vector, p: Vector, g: Vector) -> None:  # noqa: ARG001
    g[0] = x[0] < AT


def signs(t: float, x: Vector, z: Vector, u: Vector, p: Vector, g: Vector) -> None:  # noqa: ARG001
    g[0] = 1.0 if x[0] >= AT else -1.0


def one_sided(t: float, x: Vector, z: Vector, u: Vector, p: Vector, g: Vector) -> None:  # noqa: ARG001
    g[0] = max(AT - x[0], 0.0)


@pytest.mark.sample(25)
@pytest.mark.rule("guards")
@pytest.mark.parametrize("solver", ["euler", "rk4", "dp54", "radau", "lsoda"])
@pytest.mark.parametrize("step", ["1/10", "1.2345678", "2"])
@pytest.mark.parametrize(
    ("guard", "directions"),
    [
        (falling_condition, (-1, 0)),
        (rising_condition, (1, 0)),
        (truth, (-1, 0)),
        (signs, (1, 0)),
        (one_sided, (-1, 0)),
    ],
)
def test_a_guard_that_jumps_fires_at_its_jump(
    guard: Any, directions: tuple[int, ...], step: str, solver: str
) -> None:
    """A condition that is 1.0 or 0.0 never changes its sign; it fires as it reaches zero."""
    for direction in (-1, 0, 1):
        scenario = watched(guard, Guard("jump", direction), solver=solver, step=step, until=2)
        times = [ns for _, ns in crossed(flown(scenario, compile=False)[0])]
        assert len(times) == (direction in directions)
        assert all(0 <= ns - AT_NS <= 1 for ns in times)


@pytest.mark.sample(2)
@pytest.mark.parametrize("compile", [True, False], ids=["compiled", "plain"])
@pytest.mark.parametrize("solver", ["rk4", "dp54", "radau"])
def test_a_ball_whose_guard_is_a_condition_bounces(solver: str, compile: bool) -> None:
    def above(t: float, x: Vector, z: Vector, u: Vector, p: Vector, g: Vector) -> None:  # noqa: ARG001
        g[0] = 1.0 if x[0] > 0.0 else 0.0

    def flies(t: float, x: Vector, z: Vector, u: Vector, p: Vector, dx: Vector) -> None:  # noqa: ARG001
        dx[0] = x[1]
        dx[1] = -9.8

    def bounces(i: int, t: float, x: Vector, z: Vector, u: Vector, p: Vector) -> None:  # noqa: ARG001
        x[1] *= -0.8

    scenario = watched(above, Guard("floor", -1), derivative=flies, reset=bounces, solver=solver,
                       states=Signals("h = 50", "v"), step="1/100", until=9)  # fmt: skip
    times = [ns / S for _, ns in crossed(flown(scenario, compile=compile)[0])]
    first = math.sqrt(2 * 50 / 9.8)
    assert times == pytest.approx([first, first * 2.6], abs=1e-7)


@pytest.mark.parametrize("solver", ["rk4", "dp54", "rodas5p"])
@pytest.mark.parametrize("step", ["1/10", "3"])
def test_a_condition_that_ends_and_begins_within_one_advance_fires_in_its_direction(
    step: str, solver: str
) -> None:
    """With a step of 3 s the whole run is one advance, of many internal steps of dp54."""

    def beyond(t: float, x: Vector, z: Vector, u: Vector, p: Vector, g: Vector) -> None:  # noqa: ARG001
        outside = t < 0.8 or t > 2.3
        g[0] = 1.0 if outside else 0.0
        g[1] = 1.0 if outside else 0.0
        g[2] = -1.0 if outside else 0.0

    def quick(t: float, x: Vector, z: Vector, u: Vector, p: Vector, dx: Vector) -> None:  # noqa: ARG001
        dx[0] = 20.0 * math.cos(20.0 * t)

    guards = (Guard("ends", -1), Guard("begins", 1), Guard("negative", -1))
    scenario = watched(beyond, *guards, derivative=quick, solver=solver, step=step, until=3)
    found = [(name, round(ns / MS)) for name, ns in crossed(flown(scenario)[0])]
    assert found == [("ends", 800), ("begins", 2300), ("negative", 2300)]


def test_two_conditions_fire_in_the_order_of_time() -> None:
    def both(t: float, x: Vector, z: Vector, u: Vector, p: Vector, g: Vector) -> None:  # noqa: ARG001
        g[0] = 1.0 if t < 0.7 else 0.0
        g[1] = 1.0 if t >= 0.6 else 0.0
        g[2] = t - 0.65

    guards = (Guard("falls", -1), Guard("rises", 1), Guard("ramp", 1))
    found = crossed(flown(watched(both, *guards, solver="rk4", step=1, until=1))[0])
    assert [name for name, _ in found] == ["rises", "ramp", "falls"]
    assert [round(ns / MS) for _, ns in found] == [600, 650, 700]


@pytest.mark.parametrize("step", ["1/4", "3/10"])
@pytest.mark.parametrize("direction", [-1, 0])
def test_one_that_touches_zero_at_a_tag_does_not_fire(direction: int, step: str) -> None:
    """At a step of 1/4 s, 1 s is a grid point, at which it is 0 to the last bit."""

    def touches(t: float, x: Vector, z: Vector, u: Vector, p: Vector, g: Vector) -> None:  # noqa: ARG001
        g[0] = abs(t - 1.0)

    scenario = watched(touches, Guard("touch", direction), solver="rk4", step=step, until=2)
    assert crossed(flown(scenario)[0]) == []


@pytest.mark.parametrize("how", [{"engine": "interpreted"}, {"engine": "compiled"}, {"compile": 0}])
@pytest.mark.parametrize("solver", ["rk4", "dp54", "radau"])
def test_a_guard_that_is_nan_is_refused_by_name(solver: str, how: dict[str, Any]) -> None:
    def root(t: float, x: Vector, z: Vector, u: Vector, p: Vector, g: Vector) -> None:  # noqa: ARG001
        g[0] = x[0] - 5.0
        g[1] = math.nan if x[0] > 0.6 else 1.0

    scenario = watched(root, Guard("far"), Guard("root"), solver=solver, step="1/4", until=1)
    with pytest.raises(ModelError, match=r"guard root of w .*nan between 0.5"):
        flown(scenario, **how)

    def written(t: float, x: Vector, z: Vector, u: Vector, p: Vector, g: Vector) -> None:  # noqa: ARG001
        g[0] = x[0] - 0.5
        g[1] = math.nan if z[0] > 0.0 else 1.0

    scenario = watched(written, Guard("far"), Guard("root"), solver=solver, step="1/4", until=1)
    with pytest.raises(ModelError, match=r"guard root of w .*nan at 0.5"):
        flown(scenario, **how)
