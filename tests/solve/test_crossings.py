"""Events of a plant: when guards cross zero, what they reset, and when crossings accumulate.

Every solver places events where the closed form has them, to its order or its tolerance.

A solver that is registered later is tested too.
"""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rtsim.core.errors import ModelError, RecordingError, ZenoError
from rtsim.core.signals import Signal, Signals, Vector
from rtsim.core.tag import Duration
from rtsim.engine.checkpoint.file import Ring
from rtsim.engine.checkpoint.schedule import CheckpointSchedule
from rtsim.equations.model import Guard, Model
from rtsim.models.ball import BALL
from rtsim.record.comparison import compare
from rtsim.record.reading import Recording
from rtsim.record.recorders import MemoryRecorder
from rtsim.runs.replay import rerun
from rtsim.runs.simulation import RunResult, simulate
from rtsim.scenario.scenario import Scenario
from rtsim.solve import SOLVERS, SciPy, Solver
from rtsim.solve.adaptive import StepTolerance

MS = 1_000_000


def flown(scenario: Scenario, **how: Any) -> tuple[Recording, RunResult]:
    recorder = MemoryRecorder()
    outcome = simulate(scenario, recorder=recorder, **how)
    return recorder.recording(), outcome


def crossed(recording: Recording, kind: str = "Crossed") -> list[int]:
    return [event.tag.ns for event in recording.events if event.kind == kind]


def ball(until: int, *, h0: float, v0: float, g: float, e: float, solver: str = "rk4") -> Scenario:
    out = Scenario("ball", until=until)
    out.plant(
        "ball", BALL, step="1/100", solver=solver, states={"height": h0, "speed": v0},
        parameters={"gravity": g, "restitution": e},
    )  # fmt: skip
    return out


# -- against what is known exactly -----------------------------------------------------------------


def impacts(h0: float, v0: float, g: float, e: float, n: int) -> tuple[list[float], float]:
    """Times of the first ``n`` impacts and of the last one, s, by the formula in models/ball.py."""
    v1 = math.sqrt(v0**2 + 2 * g * h0)
    times = [(v0 + v1) / g]
    for k in range(1, n):
        times.append(times[-1] + 2 * v1 * e**k / g)
    return times, times[0] + 2 * v1 * e / (g * (1 - e))


# -- the awkward ones ------------------------------------------------------------------------------


def clock(t: float, x: Vector, z: Vector, u: Vector, p: Vector, dx: Vector) -> None:  # noqa: ARG001
    dx[0] = 1.0


def count(i: int, t: float, x: Vector, z: Vector, u: Vector, p: Vector) -> None:  # noqa: ARG001
    z[i] += 1.0


def watched(guard: Any, *guards: Guard, reset: Any = count, start: float = 0.0) -> Scenario:
    """x = t in s, steps of 1/4 s up to 2 s; each guard counts."""
    model = Model(
        "watched", Signals(Signal("x", initial=start)), clock,
        discrete=Signals(*(f"n{i}" for i in range(len(guards)))), guards=guards, guard=guard,
        reset=reset,
    )  # fmt: skip
    scenario = Scenario("watched", until=2)
    scenario.plant("w", model, step="1/4")
    return scenario


def test_one_that_crosses_twice_within_a_step() -> None:
    def parabola(t: float, x: Vector, z: Vector, u: Vector, p: Vector, g: Vector) -> None:  # noqa: ARG001
        g[0] = (x[0] - 0.6) * (x[0] - 0.61)

    both, _ = flown(watched(parabola, Guard("both")))
    assert crossed(both) == [600_000_000 + (both_is_late := crossed(both)[0] - 600_000_000),
                             610_000_000 + (crossed(both)[1] - 610_000_000)]  # fmt: skip
    assert 0 <= both_is_late <= 1
    up, _ = flown(watched(parabola, Guard("up", +1)))
    assert [round(ns / MS) for ns in crossed(up)] == [610]
    down, _ = flown(watched(parabola, Guard("down", -1)))
    assert [round(ns / MS) for ns in crossed(down)] == [600]


def test_one_that_grazes_does_not_fire() -> None:
    def grazes(t: float, x: Vector, z: Vector, u: Vector, p: Vector, g: Vector) -> None:  # noqa: ARG001
        g[0] = (x[0] - 0.6) ** 2 + 1e-9

    assert crossed(flown(watched(grazes, Guard("grazes")))[0]) == []


@pytest.mark.parametrize(("direction", "fires"), [(1, [1]), (-1, []), (0, [])])
def test_one_at_zero_when_the_run_begins(direction: int, fires: list[int]) -> None:
    def rises(t: float, x: Vector, z: Vector, u: Vector, p: Vector, g: Vector) -> None:  # noqa: ARG001
        g[0] = x[0]

    assert crossed(flown(watched(rises, Guard("rises", direction)))[0]) == fires


def test_several_in_one_step_fire_in_the_order_of_time() -> None:
    def three(t: float, x: Vector, z: Vector, u: Vector, p: Vector, g: Vector) -> None:  # noqa: ARG001
        g[0] = x[0] - 0.63
        g[1] = x[0] - 0.61
        g[2] = x[0] - 0.63

    recording, _ = flown(watched(three, Guard("a"), Guard("b"), Guard("c")))
    assert [e.source for e in recording.events] == ["w.b", "w.a", "w.c"]
    assert [round(ns / MS) for ns in crossed(recording)] == [610, 630, 630]


@pytest.mark.rule("guards")
def test_a_tag_is_inserted_and_the_grid_stays() -> None:
    def once(t: float, x: Vector, z: Vector, u: Vector, p: Vector, g: Vector) -> None:  # noqa: ARG001
        g[0] = x[0] - 0.6

    recording, _ = flown(watched(once, Guard("once")))
    track = recording.tracks["w"]
    ns, side = track.rows.ns.tolist(), track.integer("side").tolist()
    (at,) = crossed(recording)
    grid = [k * 250 * MS for k in range(9)]
    assert ns == sorted([*grid, at, at])
    assert [s for n, s in zip(ns, side, strict=True) if n == at] == [0, 1]
    assert track.rows.floats[ns.index(at) : ns.index(at) + 2, 1].tolist() == [0.0, 1.0]


def test_a_terminal_guard_ends_the_run() -> None:
    def once(t: float, x: Vector, z: Vector, u: Vector, p: Vector, g: Vector) -> None:  # noqa: ARG001
        g[0] = x[0] - 0.6

    recording, outcome = flown(watched(once, Guard("down", terminal=True)))
    assert outcome.reason == "terminal"
    assert outcome.ended.ns == crossed(recording)[0]
    assert compare(recording, rerun(recording, watched(once, Guard("down", terminal=True)))).ok


@pytest.mark.rule("guards-after-writes")
def test_a_guard_that_an_update_takes_across_fires_in_the_next_microstep() -> None:
    """z jumps at 1/2 s: the guard did not move by itself."""

    def jump(t: float, x: Vector, z: Vector, u: Vector, p: Vector) -> None:  # noqa: ARG001
        if t == 0.5:
            z[0] = 1.0

    def level(t: float, x: Vector, z: Vector, u: Vector, p: Vector, g: Vector) -> None:  # noqa: ARG001
        g[0] = z[0] - 0.5

    def mark(i: int, t: float, x: Vector, z: Vector, u: Vector, p: Vector) -> None:  # noqa: ARG001
        z[1] += 1.0

    model = Model("jumps", Signals("x"), clock, discrete=Signals("level", "marks"), update=jump,
                  guards=(Guard("up", +1),), guard=level, reset=mark)  # fmt: skip
    scenario = Scenario("jumps", until=1)
    scenario.plant("j", model, step="1/4", update_period="1/4")
    recording, _ = flown(scenario)
    (event,) = [e for e in recording.events if e.kind == "Crossed"]
    assert (event.tag.ns, event.tag.step) == (500 * MS, 1)
    assert recording.tracks["j"].rows.floats[-1, 1:].tolist() == [1.0, 1.0]


def test_a_reset_and_an_update_at_one_tag_both_act() -> None:
    """Each writes what it changed of x- alone; neither undoes the other."""

    def tick(t: float, x: Vector, z: Vector, u: Vector, p: Vector) -> None:  # noqa: ARG001
        z[1] += 1.0

    def at_half(t: float, x: Vector, z: Vector, u: Vector, p: Vector, g: Vector) -> None:  # noqa: ARG001
        g[0] = t - 0.5

    model = Model("both", Signals("x"), clock, discrete=Signals("fired", "ticks"), update=tick,
                  guards=(Guard("half", +1),), guard=at_half, reset=count)  # fmt: skip
    scenario = Scenario("both", until="1/2")
    scenario.plant("b", model, step="1/4", update_period="1/4")
    recording, _ = flown(scenario)
    assert crossed(recording) == [500 * MS]
    assert recording.tracks["b"].rows.floats[-1, 1:].tolist() == [1.0, 3.0]


# -- Zeno ------------------------------------------------------------------------------------------


def test_a_recording_has_both_sides_of_an_instant() -> None:
    recording, _ = flown(ball(3, h0=1.0, v0=0.0, g=9.81, e=0.7))
    t = Fraction(crossed(recording)[0], 10**9)
    before, after = recording.at(t, "-"), recording.at(t)
    assert after["ball.speed"] == -0.7 * before["ball.speed"] > 3
    assert recording.at("1/2", "-") == recording.at("1/2", "+"), "nothing happened there"
    nearest = r"no tag at 0\.455000000 s; the nearest tags are at 0\.451523641 and 0\.46"
    with pytest.raises(RecordingError, match=nearest):
        recording.at("0.455")


@pytest.mark.rule("zeno")
def test_without_a_stop_mode_the_run_says_zeno() -> None:
    model = replace(BALL, name="endless", stop=None)
    scenario = Scenario("endless", until=4)
    scenario.plant("ball", model, step="1/100")
    wanted = r"floor of ball .*ever faster at 2\.5586.*@floor\.stop.*terminal='zeno'"
    with pytest.raises(ZenoError, match=wanted):
        simulate(scenario)


@pytest.mark.parametrize("engine", ["compiled", "interpreted"])
@pytest.mark.parametrize("stop", [None, BALL.stop])
def test_a_guard_can_end_the_run_where_its_crossings_accumulate(engine: str, stop: Any) -> None:
    floor = replace(BALL.guards[0], terminal="zeno", failure="it lies")
    scenario = Scenario("resting", until=4)
    model = replace(BALL, name="resting", stop=stop, guards=(floor, *BALL.guards[1:]))
    scenario.plant("ball", model, step="1/100")
    recording, run = flown(scenario, engine=engine)
    assert run.reason == "terminal"
    assert run.in_words.endswith("it lies")
    kinds = [event.kind for event in recording.events]
    assert kinds == ["Crossed"] * (len(kinds) - 1) + ["Stopped"]
    assert len(kinds) > 40
    assert run.ended.ns == pytest.approx(2.5586e9, rel=1e-4)
    assert run.final("ball.speed") >= 0.0


def test_when_a_guard_ends_the_run_has_three_values() -> None:
    with pytest.raises(ModelError, match="terminal='zemo'; give True, False or 'zeno'"):
        Guard("floor", -1, terminal="zemo")  # type: ignore[arg-type]


def test_a_stop_mode_that_goes_on_bouncing_is_zeno() -> None:
    model = replace(BALL, name="restless", stop=BALL.reset)
    scenario = Scenario("restless", until=4)
    scenario.plant("ball", model, step="1/100")
    with pytest.raises(ZenoError, match=r"at 2\.5586.*although its stop mode was applied"):
        simulate(scenario)


def test_one_that_comes_to_rest_again_long_after_stops_again() -> None:
    def thrown(i: int, t: float, x: Vector, z: Vector, u: Vector, p: Vector) -> None:  # noqa: ARG001
        x[0], x[1] = 0.0, 1.0

    model = replace(BALL, name="juggled", stop=thrown)
    scenario = Scenario("juggled", until=2)
    scenario.plant("ball", model, step="1/100", parameters={"restitution": 0.3})
    assert len(crossed(flown(scenario)[0], "Stopped")) > 2


def test_a_reset_that_sets_itself_off_is_zeno_at_one_instant() -> None:
    def once(t: float, x: Vector, z: Vector, u: Vector, p: Vector, g: Vector) -> None:  # noqa: ARG001
        g[0] = (x[0] - 0.6) * (1.0 - 2.0 * (z[0] % 2.0))

    with pytest.raises(ZenoError, match=r"flips of w .*100 times at one instant, at 0\.6"):
        simulate(watched(once, Guard("flips")))


def test_often_is_not_zeno() -> None:
    """A guard that fires every 20 ns, evenly, does not accumulate."""

    def wave(t: float, x: Vector, z: Vector, u: Vector, p: Vector, g: Vector) -> None:  # noqa: ARG001
        g[0] = x[0] - 1e-7 * (z[0] + 1.0)

    model = Model("even", Signals("x"), clock, discrete=Signals("n"), guards=(Guard("g", +1),),
                  guard=wave, reset=count)  # fmt: skip
    scenario = Scenario("even", until="1/100000")
    scenario.plant("e", model, step="1/100000")
    assert len(crossed(flown(scenario)[0])) >= 99


# -- a run is a run --------------------------------------------------------------------------------


@settings(max_examples=25, deadline=None)
@given(st.floats(0.2, 5.0), st.floats(-3.0, 3.0), st.floats(0.3, 0.9))
def test_balls_of_all_kinds(h0: float, v0: float, e: float) -> None:
    exact, _ = impacts(h0, v0, 9.81, e, 6)
    scenario = ball(math.ceil(exact[-1]) + 1, h0=h0, v0=v0, g=9.81, e=e)
    found = np.array(crossed(flown(scenario, compile=True)[0])[:6]) / 1e9
    wide = np.diff(exact, prepend=0.0) > 1e-5
    assert np.abs(found - exact)[wide].max() < 50e-9


def test_it_replays_and_goes_on_from_any_tag_bit_for_bit() -> None:
    scenario = ball(3, h0=1.0, v0=0.0, g=9.81, e=0.7)
    ring = Ring(3)
    nearly = "2.558633800"  # in the midst of the last five crossings
    whole, _ = flown(scenario, checkpoints=CheckpointSchedule(ring, every="1/7", at=[nearly]))
    assert compare(whole, rerun(whole, scenario)).ok
    for ns in (*(k * 10**9 // 7 + 10 * MS for k in range(1, 18)), 2_558_634_000):
        kept = ring.before(ns)
        assert kept is not None
        rest, _ = flown(scenario, start=kept)
        before = whole.tracks["ball"].words[-len(rest.tracks["ball"].words) :]
        assert np.array_equal(before, rest.tracks["ball"].words)


def test_plain_and_compiled_fire_alike() -> None:
    runs = [flown(ball(3, h0=1.0, v0=0.0, g=9.81, e=0.7), compile=c)[0] for c in (True, False)]
    assert crossed(runs[0]) == crossed(runs[1])


# -- what cannot be meant --------------------------------------------------------------------------


def test_what_cannot_be_meant() -> None:
    with pytest.raises(ModelError, match="direction 2; give -1, 0 or 1"):
        Guard("g", 2)
    with pytest.raises(ModelError, match="has guards= but no guard=; give both"):
        Model("m", Signals("x"), clock, guards=(Guard("g"),))
    with pytest.raises(ModelError, match="a reset or stop function but no guards"):
        Model("m", Signals("x"), clock, reset=count)
    with pytest.raises(ModelError, match="two guards with the same name"):
        Model("m", Signals("x"), clock, guards=(Guard("g"), Guard("g")), guard=BALL.guard)

    def lost(i: int, t: float, x: Vector, z: Vector, u: Vector, p: Vector) -> None:  # noqa: ARG001
        x[0] = math.nan

    def once(t: float, x: Vector, z: Vector, u: Vector, p: Vector, g: Vector) -> None:  # noqa: ARG001
        g[0] = x[0] - 0.6

    with pytest.raises(
        ModelError, match=r"reset of w .* set x to a value that is not finite at 0.6.*once crossed"
    ):
        simulate(watched(once, Guard("once"), reset=lost))


@pytest.mark.parametrize("solver", ["rk4", "dp54", "radau"])
@pytest.mark.parametrize("low", [0.0, -1.0])
def test_a_short_condition_begins_at_the_tag_of_another_guard(low: float, solver: str) -> None:
    """It holds for 3 ms between two points; ``whole`` puts a tag at its beginning."""

    def short(t: float, x: Vector, z: Vector, u: Vector, p: Vector, g: Vector) -> None:  # noqa: ARG001
        holds = 0.317 < t < 0.320
        g[0] = g[2] = 1.0 if holds else low
        g[1] = (t - 0.317) * (0.320 - t)

    guards = Guard("begins", +1), Guard("whole", +1), Guard("ends", -1)
    model = Model("short", Signals("x"), clock, guards=guards, guard=short,
                  discrete=Signals("a", "b", "c"), reset=count)  # fmt: skip
    scenario = Scenario("short", until=1)
    scenario.plant("s", model, step=1, solver=solver)
    recording, _ = flown(scenario)
    found = [e.source for e in recording.events if e.kind == "Crossed"]
    assert found == ["s.begins", "s.whole", "s.ends"]


def test_a_guard_that_crosses_later_against_its_direction_does_not_fire_at_an_earlier_tag() -> None:
    def two(t: float, x: Vector, z: Vector, u: Vector, p: Vector, g: Vector) -> None:  # noqa: ARG001
        g[0], g[1] = t - 0.2, t - 0.5

    model = Model("two", Signals("x"), clock, guards=(Guard("early", +1), Guard("falls", -1)),
                  guard=two, discrete=Signals("a", "b"), reset=count)  # fmt: skip
    scenario = Scenario("two", until=1)
    scenario.plant("s", model, step=1)
    recording, _ = flown(scenario)
    assert [e.source for e in recording.events if e.kind == "Crossed"] == ["s.early"]


PAIRED = ("rkn4", "semi_implicit_euler")
"""Solvers of states in pairs, which the tank does not have."""
H = 1e-2
"""The step of a fixed-step solver (s)."""
GRIDS = {True: (4, "1/10"), False: ("1/100",)}
"""The steps of the plant for an adaptive solver, and for a fixed-step solver."""


def circles(t: float, x: Vector, z: Vector, u: Vector, p: Vector, dx: Vector) -> None:  # noqa: ARG001
    dx[0] = x[1]
    dx[1] = -x[0]


def first(t: float, x: Vector, z: Vector, u: Vector, p: Vector, g: Vector) -> None:  # noqa: ARG001
    g[0] = x[0]


CIRCLE = Model("circle", Signals("q = 1", Signal("v", derivative_of="q")), circles,
               guards=(Guard("g"),), guard=first)  # fmt: skip


def empties(t: float, x: Vector, z: Vector, u: Vector, p: Vector, dx: Vector) -> None:  # noqa: ARG001
    dx[0] = -x[0]


def half(t: float, x: Vector, z: Vector, u: Vector, p: Vector, g: Vector) -> None:  # noqa: ARG001
    g[0] = x[0] - 0.5


def fills(i: int, t: float, x: Vector, z: Vector, u: Vector, p: Vector) -> None:  # noqa: ARG001
    x[0] = 1.0


TANK = Model("tank", Signals("level = 1"), empties, guards=(Guard("g", -1),), guard=half,
             reset=fills)  # fmt: skip


def crossings(
    model: Model, solver: str | Solver, step: Duration, until: Duration = 4
) -> tuple[Vector, Recording]:
    """The times (s) at which the guard fires."""
    scenario, recorder = Scenario(model.name, until=until), MemoryRecorder()
    scenario.plant("w", model, step=step, solver=solver)
    simulate(scenario, recorder=recorder)
    found = recorder.recording()
    return np.array([e.tag.ns / 1e9 for e in found.events if e.kind == "Crossed"]), found


def allowed(name: str) -> float:
    """The error (s) of one event: a few times the tolerance, or the error of a few steps."""
    solver = SOLVERS[name]
    if isinstance(solver, StepTolerance):
        return 4 * solver.rtol + 1e-9
    return H**solver.order + 1e-9


@pytest.mark.sample(6)
@pytest.mark.parametrize("name", SOLVERS)
def test_each_event_is_within_the_error_of_the_solver(name: str) -> None:
    for step in GRIDS[isinstance(SOLVERS[name], StepTolerance)]:
        for model, begin, every in (
            (CIRCLE, math.pi / 2, math.pi),
            (TANK, math.log(2), math.log(2)),
        ):
            if model is TANK and name in PAIRED:
                continue
            found, _ = crossings(model, name, step)
            exact = begin + every * np.arange(len(found))
            assert len(found) == math.ceil((4 - begin) / every)
            errors = np.abs(found - exact) / np.arange(1, len(found) + 1)
            assert errors.max() < allowed(name), (model.name, step)


@pytest.mark.parametrize("name", SOLVERS)
def test_the_guard_is_zero_in_the_state_at_an_event(name: str) -> None:
    """To rounding: less than it moves in a ten-thousandth of a ns."""
    found, recording = crossings(CIRCLE, name, GRIDS[isinstance(SOLVERS[name], StepTolerance)][0])
    rows = recording.tracks["w"].rows
    at = [round(t * 1e9) for t in found]
    values = rows.floats[np.isin(rows.ns, at), 0]
    assert values.size >= len(at)
    assert np.abs(values).max() < 1e-13


V, G, E = math.sqrt(2 * 9.81), 9.81, 0.7


@pytest.mark.parametrize("method", ["BDF", "LSODA"])
@pytest.mark.parametrize("step", [1, "1/100"])
def test_a_multistep_method_that_starts_at_each_tag_keeps_its_tolerance(
    method: str, step: Duration
) -> None:
    """Each tag starts the method anew, at order 1, with an error of the same sign."""
    found, _ = crossings(BALL, SciPy(method=method), step, until="1.1")
    exact = V / G * (2 * np.cumsum(E ** np.arange(2)) - 1)
    assert np.abs(found - exact).max() < 2e-6
