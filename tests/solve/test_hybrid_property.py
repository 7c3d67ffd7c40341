"""Runs with guards, adaptive and multistep solvers and modes: how a run is cut, put together or
recorded never shows."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rtsim.core.signals import Signal, Signals, Vector
from rtsim.engine.checkpoint.file import Ring
from rtsim.engine.checkpoint.schedule import CheckpointSchedule
from rtsim.equations.modal import Mode, Transition, modal
from rtsim.equations.model import Guard, Model
from rtsim.models.ball import BALL
from rtsim.record.reading import Recording
from rtsim.record.recorders import MemoryRecorder, NullRecorder
from rtsim.runs.simulation import RunResult, simulate
from rtsim.scenario.scenario import Scenario
from rtsim.solve import Adaptive, SciPy, Solver, solver_named

FEW = settings(max_examples=settings().max_examples // 16)  # a run each, or several
TIGHT = Adaptive(rtol=1e-11, atol=1e-13)
OWN = ["rk4", "abm4", "rkn4", "dp54", "bs32"]
STEPS = ("1/100", "1/64", "3/10", "7/10")


def swings(t: float, x: Vector, z: Vector, u: Vector, p: Vector, dx: Vector) -> None:  # noqa: ARG001
    """Driven, and held back on one side: z says on which."""
    dx[0] = x[1]
    dx[1] = math.cos(t) - x[0] - p[0] * z[0] * x[1]


def sides(t: float, x: Vector, z: Vector, u: Vector, p: Vector, g: Vector) -> None:  # noqa: ARG001
    g[0] = x[0] - 0.1
    g[1] = x[1]


def switches(i: int, t: float, x: Vector, z: Vector, u: Vector, p: Vector) -> None:  # noqa: ARG001
    if i == 0:
        z[0] = 1.0 - z[0]
    else:
        z[1] += 1.0


def ticks(t: float, x: Vector, z: Vector, u: Vector, p: Vector) -> None:  # noqa: ARG001
    z[2] += x[0]


SWING = Model(
    "swing", Signals("x", Signal("v", derivative_of="x")), swings,
    discrete=Signals("held", "turns", "sum"), parameters=Signals("damping = 0.4"),
    guards=(Guard("side"), Guard("turn", -1)), guard=sides, reset=switches, update=ticks,
)  # fmt: skip


def fills(t: float, x: Vector, z: Vector, u: Vector, p: Vector, dx: Vector) -> None:  # noqa: ARG001
    dx[0] = x[1]
    dx[1] = 1.0 - 0.3 * x[1]


def drains(t: float, x: Vector, z: Vector, u: Vector, p: Vector, dx: Vector) -> None:  # noqa: ARG001
    dx[0] = x[1]
    dx[1] = -x[0]


def full(t: float, x: Vector, z: Vector, u: Vector, p: Vector) -> float:  # noqa: ARG001
    return x[0] - 0.7  # type: ignore[no-any-return]


def empty(t: float, x: Vector, z: Vector, u: Vector, p: Vector) -> float:  # noqa: ARG001
    return x[0] - 0.2  # type: ignore[no-any-return]


def stops(t: float, x: Vector, z: Vector, u: Vector, p: Vector) -> None:  # noqa: ARG001
    x[1] = 0.0


TANK = modal(
    "tank",
    Signals("level", Signal("rate", derivative_of="level")),
    [
        Mode("fills", fills, (Transition("full", full, "drains", +1, stops),)),
        Mode("drains", drains, (Transition("empty", empty, "fills", -1, stops),)),
    ],
)

PLANTS: dict[str, dict[str, Any]] = {
    "ball": {"model": BALL},
    "swing": {"model": SWING, "update_period": "1/7"},
    "tank": {"model": TANK},
}
plants = st.sampled_from(sorted(PLANTS))
solvers = st.sampled_from(OWN)
steps = st.sampled_from(STEPS)


def scene(*parts: tuple[str, str | Solver, Any]) -> Scenario:
    """Plants by name, with a solver and a step each, in the order given."""
    out = Scenario("scene", until=3)
    for name, solver, step in parts:
        out.plant(name, step=step, solver=solver_named(solver), **PLANTS[name])
    return out


def flown(scenario: Scenario, **how: Any) -> tuple[Recording, RunResult]:
    recorder = MemoryRecorder()
    outcome = simulate(scenario, recorder=recorder, **how)
    return recorder.recording(), outcome


def told(recording: Recording) -> list[tuple[int, int, str, str, str]]:
    return [(*e.tag, e.kind, e.source, e.text) for e in recording.events]


def state(outcome: RunResult) -> dict[str, list[float]]:
    return {plant.name: plant.values.tolist() for plant in outcome.system.plants}


@pytest.mark.long
@FEW
@given(plants, solvers, steps, st.lists(st.integers(1, 2990), min_size=1, max_size=4))
def test_a_run_split_at_any_tag_goes_on_bit_for_bit(
    name: str, solver: str, step: str, cuts: list[int]
) -> None:
    """Checkpoint at the first tag from each on, restore, continue."""
    scenario, ring = scene((name, solver, step)), Ring(10)
    at = [f"{ms / 1000:.3f}" for ms in sorted(set(cuts))]
    whole, _ = flown(scenario, checkpoints=CheckpointSchedule(ring, at=at))
    untouched, _ = flown(scenario)
    words = whole.tracks[name].words
    assert words.tobytes() == untouched.tracks[name].words.tobytes(), "taking changes nothing"
    for ms in cuts:
        kept = ring.before((ms + 1000) * 1_000_000)
        assert kept is not None
        rest, _ = flown(scenario, start=kept)
        after = rest.tracks[name].words
        assert words[len(words) - len(after) :].tobytes() == after.tobytes()
        assert told(rest) == [e for e in told(whole) if e[0] > kept.ns]


@pytest.mark.parametrize("method", ["LSODA", "Radau"])
def test_so_does_one_by_scipys_solvers(method: str) -> None:
    scenario, ring = scene(("tank", SciPy(method=method), "1/2")), Ring(10)
    whole, _ = flown(scenario, checkpoints=CheckpointSchedule(ring, every="1/3"))
    words = whole.tracks["tank"].words
    for ms in (500, 1200, 2400):
        kept = ring.before(ms * 1_000_000)
        assert kept is not None
        after = flown(scenario, start=kept)[0].tracks["tank"].words
        assert words[len(words) - len(after) :].tobytes() == after.tobytes()


@FEW
@given(
    st.permutations(sorted(PLANTS)),
    st.lists(solvers, min_size=3, max_size=3),
    st.lists(steps, min_size=3, max_size=3),
)
def test_the_order_in_which_independent_parts_are_added_does_not_show(
    order: list[str], how: list[str], grids: list[str]
) -> None:
    parts = dict(zip(sorted(PLANTS), zip(how, grids, strict=True), strict=True))
    one, _ = flown(scene(*((name, *parts[name]) for name in sorted(PLANTS))))
    other, _ = flown(scene(*((name, *parts[name]) for name in order)))
    for name in PLANTS:
        assert one.tracks[name].words.tobytes() == other.tracks[name].words.tobytes()
    assert told(one) == told(other)


@FEW
@given(plants, solvers, steps)
def test_steps_taken_at_once_are_those_taken_one_by_one(name: str, solver: str, step: str) -> None:
    """Alone a plant's steps are taken many at a time; beside one that only stands they are not."""
    still = Model("still", Signals("x"), _still)
    both = scene((name, solver, step))
    both.plant("a", still, step=1)
    alone, _ = flown(scene((name, solver, step)))
    beside, _ = flown(both)
    assert alone.tracks[name].words.tobytes() == beside.tracks[name].words.tobytes()
    assert told(alone) == told(beside)


def _still(t: float, x: Vector, z: Vector, u: Vector, p: Vector, dx: Vector) -> None:  # noqa: ARG001
    dx[0] = 0.0


@FEW
@given(plants, solvers, steps)
def test_what_is_recorded_changes_nothing(name: str, solver: str, step: str) -> None:
    scenario = scene((name, solver, step))
    recorded = state(flown(scenario)[1])
    assert state(simulate(scenario, recorder=NullRecorder())) == recorded
    assert (
        state(flown(scenario, checkpoints=CheckpointSchedule(Ring(1), every="1/50"))[1]) == recorded
    )
    assert state(flown(scenario, observe=lambda _: None)[1]) == recorded


@FEW
@given(st.sampled_from(["swing", "tank"]), st.fractions("1/100", 3, max_denominator=100))
def test_how_densely_it_is_recorded_changes_no_event_by_more_than_the_tolerance(
    name: str, step: Any
) -> None:
    """A plant's step is the grid of its recording; an adaptive solver's steps end at it."""
    events = []
    for grid in (step, "1/10"):
        recording, _ = flown(scene((name, TIGHT, grid)))
        events.append([(e.source, e.tag.ns) for e in recording.events if e.kind == "Crossed"])
    assert [source for source, _ in events[0]] == [source for source, _ in events[1]]
    times = np.array([[ns for _, ns in found] for found in events])
    assert np.abs(times[0] - times[1]).max() <= 50


# -- every crossing fires once

LEVELS = 5
STATES = Signals("amount", "clock", "ramp", "rate = 1", "curve")


def flows(t: float, x: Vector, z: Vector, u: Vector, p: Vector, dx: Vector) -> None:  # noqa: ARG001
    """The amount decays; the clock, the ramp and the curve rise without end."""
    dx[0] = -x[0]
    dx[1] = 1.0
    dx[2] = x[3]
    dx[3] = 0.0
    dx[4] = 1.0 + 0.5 * math.cos(x[1])


def levels(t: float, x: Vector, z: Vector, u: Vector, p: Vector, g: Vector) -> None:  # noqa: ARG001
    """The parameters have a sign, a quantity and a level for each guard."""
    for i in range(g.size):
        what = p[3 * i + 1]
        value = t if what == 0.0 else x[1] if what == 1.0 else x[2] if what == 2.0 else x[4]
        g[i] = p[3 * i] * (value - p[3 * i + 2])


def doses(i: int, t: float, x: Vector, z: Vector, u: Vector, p: Vector) -> None:  # noqa: ARG001
    """Each event doses once, and changes how fast the ramp goes on."""
    x[0] += 1.0
    x[3] = 2.5 - x[3]
    z[i] += 1.0


def dosing(directions: tuple[int, ...]) -> Model:
    told = [f"{what}{i}" for i in range(len(directions)) for what in ("sign", "what", "level")]
    return Model(
        f"dosing{len(directions)}",
        STATES,
        flows,
        discrete=Signals(*(f"n{i}" for i in range(len(directions)))),
        inputs=Signals(Signal("u", optional=True)),
        parameters=Signals(*told),
        guards=tuple(Guard(f"g{i}", way) for i, way in enumerate(directions)),
        guard=levels,
        reset=doses,
    )


WAYS = (1, -1, 0, 1, -1)
DOSING = [dosing(WAYS[: n + 1]) for n in range(LEVELS)]
TIMES = st.one_of(
    st.integers(1, 15).map(lambda k: k / 8),  # a grid point of most of the steps
    st.integers(1, 19).map(lambda k: k / 10),  # a tag of the sensor
    st.floats(0.01, 1.99),
)
ENGINES: dict[str, dict[str, Any]] = {
    "interpreted": {"engine": "interpreted"},
    "compiled": {"engine": "compiled"},
    "plain": {"compile": False},
}


@pytest.mark.rule("guards")
@given(
    guards=st.lists(st.tuples(st.integers(0, 3), TIMES), min_size=1, max_size=LEVELS),
    solver=st.sampled_from(
        ["euler", "midpoint", "rk4", "abm4", "dp54", "bs32", "rodas5p", "radau", "lsoda"]
    ),
    step=st.sampled_from(["1/8", "1/10", "3/10", "1", "2"]),
    beside=st.sets(st.sampled_from(["sensor", "plant", "input", "change"])),
    engine=st.sampled_from(sorted(ENGINES)),
)
def test_every_crossing_fires_exactly_once(
    guards: list[tuple[int, float]], solver: str, step: str, beside: set[str], engine: str
) -> None:
    """On time, on clocks and on ramps; at grid points, at the tags of others, and between them."""
    model, parameters = DOSING[len(guards) - 1], dict[str, float]()
    for i, (what, level) in enumerate(guards):
        sign = -1.0 if WAYS[i] < 0 else 1.0
        parameters |= {f"sign{i}": sign, f"what{i}": float(what), f"level{i}": level}
    out = Scenario("once", until=2)
    given: dict[str, Any] = {}
    if "input" in beside:
        out.source("other", Signals("u"))
        out.at("1/2", "other.u", 1.0)
        given["inputs"] = {"u": "other.u"}
    out.plant("p", model, step=step, solver=solver, parameters=parameters, **given)
    if "sensor" in beside:
        out.sensor("tacho", {"amount": "p.amount"}, period="1/10")
    if "plant" in beside:
        out.plant("still", Model("still", Signals("x"), _still), step="3/8")
    if "change" in beside:
        out.at("5/8", "p.sign0", 2.0 * parameters["sign0"])
    recording, outcome = flown(out, **ENGINES[engine])
    events = [e for e in recording.events if e.kind == "Crossed"]
    counts = {f"p.g{i}": 0 for i in range(len(guards))}
    for event in events:
        counts[event.source] += 1
    x = outcome.system.plants[0 if outcome.system.plants[0].name == "p" else 1].x
    ends = (2.0, *(float(x[k]) for k in (1, 2, 4)))
    for i, (what, level) in enumerate(guards):
        if abs(level - ends[what]) > 1e-7:
            assert counts[f"p.g{i}"] == (level < ends[what]), (i, what, level, events)
        if what == 0 or (what == 1 and solver not in ("radau", "lsoda", "bdf")):
            (ns,) = (e.tag.ns for e in events if e.source == f"p.g{i}")
            assert -1 <= ns - level * 1e9 <= 2
    if solver in ("rodas5p", "radau", "dp54"):  # their error is small at any step
        wanted = sum(math.exp(e.tag.ns / 1e9 - 2.0) for e in events)
        assert float(x[0]) == pytest.approx(wanted, rel=1e-3)
