"""A budget of evaluations: what a frame may take, however often it is cut."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from rtsim.core.errors import ModelError
from rtsim.core.signals import Signals, Vector
from rtsim.equations.model import Guard, Model, bind
from rtsim.models.ball import BALL
from rtsim.record.recorders import MemoryRecorder
from rtsim.runs.simulation import Progress, simulate
from rtsim.scenario.scenario import Scenario
from rtsim.solve import BS32, DP54, GOOD, OUT_OF_BUDGET, Adaptive
from rtsim.solve.adaptive import EVALUATIONS, UNBOUNDED
from rtsim.solve.guarded import Guarded

NONE = np.zeros(0)
MORE = {"dp54": 7, "bs32": 4}
"""Evaluations of one step from a state whose derivative is not known."""

SLOPES = 2
"""Evaluations that guards ask for at an event whose reset writes the states."""


def _swings(t: float, x: Vector, z: Vector, u: Vector, p: Vector, dx: Vector) -> None:  # noqa: ARG001
    dx[0] = x[1]
    dx[1] = -400.0 * x[0]


def _position(t: float, x: Vector, z: Vector, u: Vector, p: Vector, g: Vector) -> None:  # noqa: ARG001
    g[0] = x[0]


def _kicked(i: int, t: float, x: Vector, z: Vector, u: Vector, p: Vector) -> None:  # noqa: ARG001
    x[1] *= 0.999


def _counted(t: float, x: Vector, z: Vector, u: Vector, p: Vector) -> None:  # noqa: ARG001
    z[0] += 1.0


SWINGING = Model("swinging", Signals("x = 1", "v"), _swings, discrete=Signals("k"), update=_counted)
GUARDED = replace(SWINGING, guards=(Guard("middle"),), guard=_position, reset=_kicked)
TIGHT = Adaptive(rtol=1e-9, budget=40)


def _flown(model: Model, solver: Adaptive, step_ns: int, until: float, **plant: Any) -> Any:
    """The events, and of each frame the solver's evaluations and the uses of the fallback.

    What guards ask for at an event is no part of a budget: twice the slope.
    """
    derivative: Any = model.derivative
    calls, seen = -1, 0  # it is tried once beforehand
    frames: Counter[int] = Counter()

    def counted(t: float, x: Vector, z: Vector, u: Vector, p: Vector, dx: Vector) -> None:
        nonlocal calls
        calls += 1
        derivative(t, x, z, u, p, dx)

    def observe(shown: Progress) -> None:
        nonlocal seen
        if shown.ns % step_ns == 0:
            frames[shown.ns // step_ns], seen = calls - seen, calls

    scenario = Scenario("budget", until=until)
    counting = replace(model, derivative=counted)
    if "update_period" not in plant:
        counting = replace(counting, update=None)
    scenario.plant("s", counting, step=f"{step_ns}/1000000000", solver=solver, **plant)
    recorder = MemoryRecorder()
    outcome = simulate(scenario, recorder=recorder, compile=False, observe=observe)
    events = recorder.recording().events
    used: Counter[int] = Counter()
    for event in events:
        if event.kind == "Unbounded":
            used[-(-event.tag.ns // step_ns)] += int(float(event.values["steps"]))
    assert sum(frames.values()) == calls
    crossed = [-(-event.tag.ns // step_ns) for event in events if event.kind == "Crossed"]
    counted_by_it = outcome.system.plants[0].stepper.save()["memory"][EVALUATIONS]
    by_guards = (calls - counted_by_it) / max(len(crossed), 1)
    assert by_guards in (0, SLOPES)
    frames.subtract({frame: int(by_guards) * n for frame, n in Counter(crossed).items()})
    return events, frames, used


CASES = pytest.mark.parametrize(
    ("model", "solver", "step_ns", "plant"),
    [
        (SWINGING, TIGHT, 50_000_000, {}),
        (SWINGING, replace(TIGHT, rtol=1e-6), 50_000_000, {"update_period": "1/200"}),
        (GUARDED, TIGHT, 50_000_000, {}),
        (GUARDED, replace(TIGHT, budget=100), 500_000_000, {}),
        (GUARDED, replace(BS32, rtol=1e-4, budget=20), 50_000_000, {"update_period": "1/60"}),
        (BALL, Adaptive(budget=20), 20_000_000, {}),
    ],
    ids=["whole", "cut by updates", "cut by events", "many events", "cut by both", "ball"],
)


@pytest.mark.long
@CASES
def test_a_frame_takes_its_budget_or_the_fallback_is_recorded(
    model: Model, solver: Adaptive, step_ns: int, plant: dict[str, Any]
) -> None:
    _, frames, used = _flown(model, solver, step_ns, 3, **plant)
    assert solver.budget is not None
    assert len(frames) == 3_000_000_000 // step_ns
    more = MORE[solver.tableau.name]
    for frame, calls in frames.items():
        assert calls <= solver.budget + more * used[frame]
        assert used[frame] > 0 or calls <= solver.budget
    assert sum(used.values()) > 0


def test_a_frame_that_is_not_cut_keeps_its_budget() -> None:
    _, frames, used = _flown(SWINGING, TIGHT, 50_000_000, 2)
    assert max(frames.values()) <= 40
    assert sum(used.values()) == len(frames)


def test_where_the_budget_suffices_nothing_is_recorded() -> None:
    """Ten cuts of a frame, at six evaluations each and some that are taken again."""
    events, frames, used = _flown(
        GUARDED, replace(TIGHT, budget=200), 50_000_000, 2, update_period="1/200"
    )
    assert sum(event.kind == "Crossed" for event in events) == 13
    assert 60 < max(frames.values()) <= 200
    assert not used


@pytest.mark.parametrize("solver", [DP54, BS32], ids=["dp54", "bs32"])
@pytest.mark.parametrize("rtol", [1e-6, 1e-8])
def test_an_event_on_the_dense_output_is_as_exact_as_the_tolerance(
    solver: Adaptive, rtol: float
) -> None:
    """With a budget finding it costs nothing; pi / 40 s is exact."""
    found = []
    for budget in (None, 100_000):
        tried = replace(solver, rtol=rtol, atol=rtol, budget=budget)
        events, frames, _ = _flown(GUARDED, tried, 500_000_000, 1)
        crossed = [event.tag.ns for event in events if event.kind == "Crossed"]
        assert len(crossed) == 6
        assert crossed[0] == pytest.approx(math.pi / 40 * 1e9, abs=50 * rtol * 1e9)
        found.append(sum(frames.values()))
    assert found[0] - found[1] >= 6 * (MORE[solver.tableau.name] - 1)


@pytest.mark.parametrize("compile", [True, False], ids=["compiled", "plain"])
def test_the_way_goes_on_from_an_event_on_the_dense_output(compile: bool) -> None:
    """The known slope is the slope at the end of the internal step, not at the event."""
    ends = []
    for budget in (None, 100_000):
        bound = bind(replace(GUARDED, update=None), compile=compile)
        stepper = replace(DP54, budget=budget).stepper(bound)
        x, out, z, ns = np.array([1.0, 0.0]), np.zeros(2), np.zeros(1), 0
        way = Guarded(bound, stepper, (x, z, NONE, NONE), out)
        way.here[0] = 1.0
        while ns < 1_000_000_000:
            assert way.advance(ns, 1_000_000_000) == GOOD
            ns += way.way_ns
            stepper.accept()
            way.accept()
            x[:] = out
        ends.append(x.copy())
        assert x == pytest.approx([math.cos(20), -20 * math.sin(20)], abs=1e-3)
    assert ends[0] == pytest.approx(ends[1], abs=2e-4)


def test_a_run_may_end_where_a_budget_does() -> None:
    stops = replace(TIGHT, fallback="stop")
    assert stops.name == "dp54(rtol=1e-09, budget=40, fallback=stop)"
    for model, plant in ((SWINGING, {}), (GUARDED, {"update_period": "1/200"})):
        with pytest.raises(
            ModelError, match=r"dp54.* used up its budget of evaluations for s .* between 0"
        ):
            _flown(model, stops, 50_000_000, 2, **plant)
    _, frames, used = _flown(GUARDED, replace(stops, budget=200), 50_000_000, 2)
    assert max(frames.values()) <= 200
    assert not used


@pytest.mark.parametrize("lengths", [[50] * 4, [5] * 40, [7, 13, 30] * 4])
def test_a_budget_that_stops_is_never_exceeded(lengths: list[int]) -> None:
    calls = 0

    def counted(t: float, x: Vector, z: Vector, u: Vector, p: Vector, dx: Vector) -> None:
        nonlocal calls
        calls += 1
        _swings(t, x, z, u, p, dx)

    for rtol in np.geomspace(1e-3, 1e-10, 20):
        solver = Adaptive(rtol=float(rtol), budget=40, fallback="stop")
        stepper = solver.stepper(bind(replace(SWINGING, derivative=counted), compile=False))
        x, out, ns, calls = np.array([1.0, 0.0]), np.zeros(2), 0, 0
        for ms in lengths:
            later = ns + ms * 1_000_000
            answer = stepper.advance(ns, later, x, np.zeros(1), NONE, NONE, out)
            assert calls <= 40
            if answer == OUT_OF_BUDGET:
                break
            assert answer == GOOD
            stepper.accept()
            x, ns = out.copy(), later
        else:
            pytest.fail("so many evaluations suffice for no such way")


def _stiff(t: float, x: Vector, z: Vector, u: Vector, p: Vector, dx: Vector) -> None:  # noqa: ARG001
    dx[0] = -p[0] * (x[0] - math.cos(t))


STIFF = Model("stiff", Signals("x"), _stiff, parameters=Signals("rate = 1000"))


def test_a_budget_is_kept_and_what_it_cost_is_counted() -> None:
    calls = 0

    def counted(t: float, x: Vector, z: Vector, u: Vector, p: Vector, dx: Vector) -> None:
        nonlocal calls
        calls += 1
        _stiff(t, x, z, u, p, dx)

    model = replace(STIFF, derivative=counted)
    for rate, exceeded in ((1000.0, True), (1.0, False)):
        stepper: Any = Adaptive(budget=40).stepper(bind(model, compile=False))
        x, out, most = np.ones(1), np.zeros(1), 0
        for k in range(20):
            calls = 0
            stepper.new_frame()
            answer = stepper.advance(
                k * 20_000_000, (k + 1) * 20_000_000, x, NONE, NONE, np.array([rate]), out
            )
            assert answer == GOOD
            stepper.accept()
            x, most = out.copy(), max(most, calls)
        assert most <= 40
        assert (stepper.unbounded > 0) is exceeded


def test_each_use_of_the_fallback_is_recorded() -> None:
    found = []
    for rate in (1000.0, 1.0):
        scenario = Scenario("stiff", until="1/5")
        scenario.plant(
            "s", STIFF, step="1/50", solver=Adaptive(budget=40), parameters={"rate": rate}
        )
        recorder = MemoryRecorder()
        outcome = simulate(scenario, recorder=recorder)
        events = [e for e in recorder.recording().events if e.kind == "Unbounded"]
        count = outcome.system.plants[0].stepper.save()["memory"][UNBOUNDED]
        assert sum(float(e.values["steps"]) for e in events) == count
        assert {e.tag.ns % 20_000_000 for e in events} <= {0}
        found.append(len(events))
    assert found[0] > 0
    assert found[1] == 0


def _cut(stepper: Any, again: Callable[[Any], Any]) -> list[Any]:
    """A frame of 50 ms in ten, and where it went."""
    x, out, rows = np.array([1.0, 0.0]), np.zeros(2), []
    for k in range(20):
        if k % 10 == 0:
            stepper.new_frame()
        stepper = again(stepper)
        ends = k * 5_000_000, (k + 1) * 5_000_000
        assert stepper.advance(*ends, x, np.zeros(1), NONE, NONE, out) == GOOD
        stepper.accept()
        x = out.copy()
        rows.append((x.tolist(), stepper.unbounded))
    return [*rows, stepper.save()]


@pytest.mark.parametrize("compile", [True, False], ids=["compiled", "plain"])
def test_what_a_frame_has_spent_is_saved(compile: bool) -> None:
    bound = bind(SWINGING, compile=compile)

    def made() -> Any:
        return TIGHT.stepper(bound)

    def restored(stepper: Any) -> Any:
        out = made()
        out.restore(stepper.save())
        return out

    def forgetful(stepper: Any) -> Any:
        stepper.forget()
        return stepper

    whole = _cut(made(), lambda stepper: stepper)
    assert whole == _cut(made(), restored)
    assert whole[-1]["memory"][UNBOUNDED] > 0
    assert whole[-2][1] - whole[9][1] == pytest.approx(whole[9][1], abs=2), "whole in each frame"
    assert _cut(made(), forgetful)[-1]["memory"][UNBOUNDED] >= whole[-1]["memory"][UNBOUNDED]
