"""Guards that come to zero and go away again in a short while: balls that nobody puts on the floor.

A crossing is found in the next whole ns, so that a ball is below the floor by what it fell in it;
where its reset turns the speed alone, it rises through zero, or does not, and falls again.
"""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np
import pytest

from rtsim.blocks import Constant, Diagram, Gain, Integrator, LevelCrossing, Sampler
from rtsim.core.errors import ZenoError
from rtsim.core.signals import Signal, Signals, Vector
from rtsim.core.tag import Duration
from rtsim.engine.checkpoint.file import Ring
from rtsim.engine.checkpoint.schedule import CheckpointSchedule
from rtsim.equations.modal import Mode, Transition, modal
from rtsim.equations.model import Guard, Model
from rtsim.record.reading import Recording
from rtsim.record.recorders import MemoryRecorder
from rtsim.runs.simulation import RunResult, simulate
from rtsim.scenario.scenario import Scenario
from rtsim.solve import SOLVERS, Adaptive, Solver

FIRST = math.sqrt(2 / 9.81)
"""When a ball from 1 m lands (s)."""
ALL = [name for name in SOLVERS if name != "euler"]
"""Euler's ball gains energy: its bounces do not accumulate."""
ROUGH = {"semi_implicit_euler": 1.0, "bdf": 1e-3, "lsoda": 1e-3, "cvode": 1e-3, "ida": 1e-3}
"""By how much their last bounce may be off (s): their first steps are of first order."""
ON_AND_OFF = pytest.mark.parametrize("compile", [True, False], ids=["compiled", "plain"])


def over(e: float) -> float:
    """When all bounces are over (s)."""
    return FIRST * (1 + e) / (1 - e)


def falls(t: float, x: Vector, z: Vector, u: Vector, p: Vector, dx: Vector) -> None:  # noqa: ARG001
    dx[0] = x[1] * (1.0 - z[0])
    dx[1] = -9.81 * (1.0 - z[0])


def height(t: float, x: Vector, z: Vector, u: Vector, p: Vector, g: Vector) -> None:  # noqa: ARG001
    g[0] = x[0] - p[1]


def turn(i: int, t: float, x: Vector, z: Vector, u: Vector, p: Vector) -> None:  # noqa: ARG001
    x[1] = -p[0] * x[1]


def lie(i: int, t: float, x: Vector, z: Vector, u: Vector, p: Vector) -> None:  # noqa: ARG001
    x[0] = p[1]
    x[1] = 0.0
    z[0] = 1.0


def ball(stops: bool = True) -> Model:
    return Model(
        "ball", Signals("h = 1", Signal("v", derivative_of="h")), falls,
        discrete=Signals("lies"), parameters=Signals("e = 0.7", "floor"), guard=height,
        guards=(Guard("floor", -1),), reset=turn, stop=lie if stops else None,
    )  # fmt: skip


def flown(
    model: Model, solver: str | Solver = "rk4", step: Duration = "1/100", until: Duration = 4,
    parameters: dict[str, float] | None = None, states: dict[str, float] | None = None,
    **how: Any,
) -> tuple[Recording, RunResult]:  # fmt: skip
    scenario, recorder = Scenario(model.name, until=until), MemoryRecorder()
    scenario.plant(
        "w", model, step=step, solver=solver, parameters=parameters or {}, states=states or {}
    )
    outcome = simulate(scenario, recorder=recorder, **how)
    return recorder.recording(), outcome


def events(recording: Recording) -> list[tuple[str, int]]:
    kinds = ("Crossed", "Stopped")
    return [(e.kind, e.tag.ns) for e in recording.events if e.kind in kinds]


def times(recording: Recording) -> list[int]:
    return [ns for _, ns in events(recording)]


# -- balls -----------------------------------------------------------------------------------------


@pytest.mark.sample(9)
@pytest.mark.rule("zeno")
@ON_AND_OFF
@pytest.mark.parametrize(("e", "step"), [(0.7, "1/100"), (0.3, 1)])
@pytest.mark.parametrize(
    "solver",
    [pytest.param(s, marks=pytest.mark.full) if s == "semi_implicit_euler" else s for s in ALL],
)
def test_a_ball_that_is_turned_alone_comes_to_its_stop_mode(
    solver: str, e: float, step: Duration, compile: bool
) -> None:
    recording, outcome = flown(ball(), solver, step, parameters={"e": e}, compile=compile)
    assert [kind for kind, _ in events(recording)].index("Stopped") == len(events(recording)) - 1
    assert outcome.system.plants[0].x.tolist() == [0.0, 0.0]
    assert abs(times(recording)[-1] / 1e9 - over(e)) < ROUGH.get(solver, 1e-6)


@pytest.mark.sample(8)
@pytest.mark.rule("zeno")
@ON_AND_OFF
@pytest.mark.parametrize("solver", ALL)
def test_without_one_the_run_says_zeno(solver: str, compile: bool) -> None:
    with pytest.raises(ZenoError, match=r"floor of w .*ever faster"):
        flown(ball(stops=False), solver, parameters={"e": 0.5}, compile=compile)


@pytest.mark.sample(8)
@pytest.mark.parametrize("e", [0.9, 0.8, 0.6, 0.5, 0.4, 0.2, 0.1, 0.03, 0.01, 0.0])
@pytest.mark.parametrize("solver", ["rk4", "dp54", "bs32"])
def test_however_it_bounces(solver: str, e: float) -> None:
    """Below 1/2 the last bounce is over before it is back at zero."""
    recording, outcome = flown(ball(), solver, 1, until=9, parameters={"e": e})
    assert events(recording)[-1][0] == "Stopped"
    assert abs(times(recording)[-1] / 1e9 - over(e)) < 1e-6
    assert outcome.system.plants[0].x.tolist() == [0.0, 0.0]


@pytest.mark.parametrize(
    "solver", [Adaptive(most=1e-4), Adaptive(rtol=1e-12, atol=1e-14), Adaptive(budget=100)]
)
def test_with_short_steps_tight_ones_and_few_of_them(solver: Solver) -> None:
    recording, outcome = flown(ball(), solver, 1, until=3)
    assert abs(times(recording)[-1] / 1e9 - over(0.7)) < 1e-6
    assert outcome.system.plants[0].x.tolist() == [0.0, 0.0]


@pytest.mark.parametrize("solver", ["rk4", "dp54", "radau"])
def test_it_bounces_when_it_lands_and_at_no_other_time(solver: str) -> None:
    """It does not fire as it rises through zero, a ns after it was turned below it."""
    found = np.array(times(flown(ball(), solver, 1)[0])[:15]) / 1e9
    exact = FIRST * (2 * np.cumsum(0.7 ** np.arange(15)) - 1)
    assert np.abs(found - exact).max() < 50e-9


def test_on_a_floor_that_is_not_at_zero() -> None:
    at = {"floor": 0.2}
    recording, outcome = flown(ball(), "dp54", 1, parameters=at, states={"h": 1.2})
    assert abs(times(recording)[-1] / 1e9 - over(0.7)) < 1e-6
    assert outcome.system.plants[0].x.tolist() == [0.2, 0.0]


def test_it_goes_on_from_a_tag_among_the_last_ones_bit_for_bit() -> None:
    scenario = Scenario("ball", until=1)
    scenario.plant("w", ball(), step="1/100", parameters={"e": 0.0})
    ring, recorder = Ring(4), MemoryRecorder()
    first = math.ceil(FIRST * 1e9)
    at = [f"0.{first + k:09d}" for k in range(3)]
    simulate(scenario, recorder=recorder, checkpoints=CheckpointSchedule(ring, at=at))
    whole = events(recorder.recording())
    for k in range(3):
        kept = ring.before(first + k)
        assert kept is not None
        assert kept.ns == first + k
        rest = MemoryRecorder()
        simulate(scenario, recorder=rest, start=kept)
        assert events(rest.recording()) == whole[1 + k :] != []


# -- other ways to make one ------------------------------------------------------------------------


def free(t: float, x: Vector, z: Vector, u: Vector, p: Vector, dx: Vector) -> None:  # noqa: ARG001
    dx[0] = x[1]
    dx[1] = -9.81


def above(t: float, x: Vector, z: Vector, u: Vector, p: Vector) -> float:  # noqa: ARG001
    return x[0]  # type: ignore[no-any-return]


def up(t: float, x: Vector, z: Vector, u: Vector, p: Vector) -> None:  # noqa: ARG001
    x[1] = -p[0] * x[1]


@pytest.mark.sample(3)
@ON_AND_OFF
@pytest.mark.parametrize("e", [0.7, 0.3])
@pytest.mark.parametrize("solver", ["rk4", "dp54"])
def test_of_modes(solver: str, e: float, compile: bool) -> None:
    bump = Transition("bump", above, "free", -1, up)
    model = modal(
        "ball", Signals("h = 1", "v"), modes=[Mode("free", free, (bump,)), Mode("stop")],
        parameters=Signals("e"), zeno="stop",
    )  # fmt: skip
    recording, outcome = flown(model, solver, parameters={"e": e}, compile=compile)
    assert events(recording)[-1][0] == "Stopped"
    assert abs(times(recording)[-1] / 1e9 - over(e)) < 1e-6
    assert abs(outcome.system.plants[0].x[0]) < 1e-8


@ON_AND_OFF
@pytest.mark.parametrize("e", [0.7, 0.3])
def test_of_blocks(e: float, compile: bool) -> None:
    diagram = Diagram("ball")
    diagram.add("g", Constant(-9.81))
    diagram.add("v", Integrator(0.0), "g", impulse="kick")
    diagram.add("h", Integrator(1.0), "v")
    diagram.add("floor", LevelCrossing(0.0, -1), "h")
    diagram.add("s", Sampler(), "v", "floor")
    diagram.add("kick", Gain(-1 - e), "s")
    with pytest.raises(ZenoError) as said:
        flown(diagram.model(), compile=compile)
    said_at = re.search(r"ever faster at ([0-9.]+) s", str(said.value))
    assert said_at is not None
    assert abs(float(said_at[1]) - over(e)) < 1e-6


# -- others, which were not turned -----------------------------------------------------------------


def swings(t: float, x: Vector, z: Vector, u: Vector, p: Vector, dx: Vector) -> None:  # noqa: ARG001
    dx[0] = math.cos(t)
    dx[1] = 1.0


def restart(i: int, t: float, x: Vector, z: Vector, u: Vector, p: Vector) -> None:  # noqa: ARG001
    x[1] = 0.0


@pytest.mark.sample(3)
@ON_AND_OFF
@pytest.mark.parametrize("solver", ["rk4", "abm4", "dp54", "bs32", "radau", "bdf", "lsoda"])
def test_one_that_goes_on_where_its_reset_has_written_other_states(
    solver: str, compile: bool
) -> None:
    """x = sin t, below -1/2 for the first time."""
    model = Model("swings", Signals("x", "since"), swings, parameters=Signals("e", "floor"),
                  guard=height, guards=(Guard("low", -1),), reset=restart)  # fmt: skip
    (found,) = times(flown(model, solver, "1/50", 6, {"floor": -0.5}, compile=compile)[0])
    assert abs(found / 1e9 - 7 * math.pi / 6) < 0.01


def test_one_that_was_put_further_beyond_fires_when_it_is_back() -> None:
    """Half a metre below the floor it is thrown up a little, and falls further."""

    def thrown(i: int, t: float, x: Vector, z: Vector, u: Vector, p: Vector) -> None:  # noqa: ARG001
        x[0] = -0.5
        x[1] = 1.0

    model = Model("thrown", Signals("h = 1", "v"), free, parameters=Signals("e", "floor"),
                  guard=height, guards=(Guard("floor", -1),), reset=thrown)  # fmt: skip
    recording, outcome = flown(model, until=2)
    assert len(times(recording)) == 1
    assert outcome.system.plants[0].x[0] < -5


def test_one_that_is_let_through_falls_on() -> None:
    """Its reset stops it on the floor, and does nothing when it begins to fall again."""

    def once(i: int, t: float, x: Vector, z: Vector, u: Vector, p: Vector) -> None:  # noqa: ARG001
        if x[1] < -1.0:
            x[1] = 0.0

    model = Model("once", Signals("h = 1", "v"), free, parameters=Signals("e", "floor"),
                  guard=height, guards=(Guard("floor", -1),), reset=once)  # fmt: skip
    recording, outcome = flown(model, until=2)
    landed = math.ceil(FIRST * 1e9)
    assert times(recording) == [landed, landed + 1]
    assert outcome.system.plants[0].x[0] < -5


@pytest.mark.parametrize("solver", ["rk4", "dp54", "radau"])
def test_one_that_lies_at_zero_does_not_fire(solver: str) -> None:
    recording, _ = flown(ball(), solver, "1/4", until=6)
    last = events(recording)[-1]
    assert last[0] == "Stopped"
    assert last[1] < 3 * 10**9


# -- near an end of a step -------------------------------------------------------------------------


def runs(t: float, x: Vector, z: Vector, u: Vector, p: Vector, dx: Vector) -> None:  # noqa: ARG001
    dx[0] = 1.0


def hill(t: float, x: Vector, z: Vector, u: Vector, p: Vector, g: Vector) -> None:  # noqa: ARG001
    g[0] = -(x[0] - p[0]) * (x[0] - p[1])


def nothing(i: int, t: float, x: Vector, z: Vector, u: Vector, p: Vector) -> None:  # noqa: ARG001
    z[0] += 1.0


@ON_AND_OFF
@pytest.mark.parametrize(
    ("begins", "ends"),
    [(1e-9, 1e-3), (1e-9, 1e-4), (1e-9, 1e-6), (1e-6, 9e-3), (4e-3, 5e-3),
     (9.9999, 9.999999), (9.992, 9.9995)],
)  # fmt: skip
@pytest.mark.parametrize("solver", ["rk4", "dp54"])
def test_there_and_back_within_a_thousandth_of_a_step(
    solver: str, begins: float, ends: float, compile: bool
) -> None:
    """x = t, one step of 10 s."""
    for direction, exact in ((1, [begins]), (-1, [ends]), (0, [begins, ends])):
        model = Model("hill", Signals("x"), runs, parameters=Signals("begins", "ends"),
                      guards=(Guard("hill", direction),), guard=hill, reset=nothing,
                      discrete=Signals("n"))  # fmt: skip
        parameters = {"begins": begins, "ends": ends}
        recording, _ = flown(model, solver, 10, 10, parameters=parameters, compile=compile)
        found = np.array(times(recording))
        assert found.size == len(exact)
        assert np.abs(found - np.array(exact) * 1e9).max() <= 2
