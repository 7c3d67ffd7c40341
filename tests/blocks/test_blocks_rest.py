"""Crossings of a diagram that accumulate: what comes to rest, and what is refused."""

from __future__ import annotations

import math

import numpy as np
import pytest
from block_parts import flown, wired

from rtsim.blocks import (
    Constant,
    Diagram,
    EventAt,
    Gain,
    Integrator,
    LevelCrossing,
    Sampler,
    StateSpace,
)
from rtsim.core.errors import ScenarioError, ZenoError
from rtsim.engine.checkpoint.file import Ring
from rtsim.engine.checkpoint.schedule import CheckpointSchedule
from rtsim.record.reading import Recording
from rtsim.solve import Adaptive, Solver

S = 1_000_000_000
G = 9.81


def ball(d: Diagram, name: str, restitution: float, rest: float | None = 0.0) -> None:
    """``{name}_h`` from 1 m on, and ``{name}_v``."""
    d.add(f"{name}_h", Integrator(1.0), f"{name}_v")
    d.add(f"{name}_v", Integrator(rest=rest), "gravity", reset=f"{name}_back")
    d.add(f"{name}_floor", LevelCrossing(0.0, -1), f"{name}_h")
    d.add(f"{name}_hit", Sampler(), f"{name}_v", f"{name}_floor")
    d.add(f"{name}_back", Gain(-restitution), f"{name}_hit")


def balls(**restitution: float) -> Diagram:
    d = Diagram("balls")
    d.add("gravity", Constant(-G))
    for name, e in restitution.items():
        ball(d, name, e)
    return d


def stopped(recording: Recording) -> dict[str, float]:
    """s, by the guard."""
    return {e.source[2:]: e.tag.ns / S for e in recording.events if e.kind == "Stopped"}


def zeno(e: float) -> float:
    """Of a ball from 1 m on."""
    return math.sqrt(2 / G) * (1 + e) / (1 - e)


@pytest.mark.parametrize("compile", [False, True], ids=["plain", "compiled"])
@pytest.mark.parametrize(("solver", "step"), [("rk4", "1/100"), (Adaptive(rtol=1e-9), 1)])
def test_a_ball_comes_to_rest_at_its_zeno_time(
    solver: str | Solver, step: str, compile: bool
) -> None:
    recording = flown(balls(a=0.7), 4, solver, step, compile=compile)
    assert abs(stopped(recording)["a_floor"] - zeno(0.7)) < 2e-6
    behind = recording.time("d") / S > zeno(0.7) + 1e-5
    assert behind.any()
    assert set(recording["d.a_v"][behind].tolist()) == {0.0}
    assert np.abs(recording["d.a_h"][behind]).max() < 1e-7


def test_each_comes_to_rest_by_itself() -> None:
    recording = flown(balls(a=0.7, b=0.8), 5)
    found = stopped(recording)
    assert abs(found["a_floor"] - zeno(0.7)) < 2e-6
    assert abs(found["b_floor"] - zeno(0.8)) < 2e-6
    between = np.abs(recording.time("d") / S - 3.0) < 0.4
    assert np.abs(recording["d.b_v"][between]).max() > 0.1


def test_one_without_a_rest_is_a_zeno_error_beside_one_that_has() -> None:
    d = balls(a=0.7)
    ball(d, "b", 0.8, rest=None)
    assert [guard.stops for guard in d.model().guards] == [True, False]
    with pytest.raises(
        ZenoError, match=r"guard b_floor of d .* in a diagram as rest= of the Integ"
    ):
        flown(d, 5)
    without = Diagram("without")
    without.add("gravity", Constant(-G))
    ball(without, "b", 0.8, rest=None)
    assert without.model().stop is None


def test_what_sets_it_takes_it_from_its_rest() -> None:
    d = balls(a=0.7)
    d.add("kick", EventAt(3, 2.0))
    d.wire("kick", "a_v.impulse")
    recording = flown(d, 3.3)
    times = [e.tag.ns / S for e in recording.events if e.kind == "Stopped"]
    assert abs(times[0] - zeno(0.7)) < 2e-6
    assert recording.at(3, "+")["d.a_v"] == 2.0
    assert abs(recording["d.a_v"][-1] - (2.0 - 0.3 * G)) < 1e-9


def test_it_rests_at_a_value_and_in_all_its_elements() -> None:
    d = Diagram("d")
    d.add("down", Constant((-1.0, -2.0)))
    d.add("v", Integrator((0.0, 0.0), rest=0.25), "down", reset="back")
    d.add("first", StateSpace(0, [[1, 0]], 1, initial=0.5), "v")
    d.add("floor", LevelCrossing(0.0, -1), "first")
    d.add("hit", Sampler(), "v", "floor")
    d.add("back", Gain(-0.5), "hit")
    recording = flown(d, 4)
    assert recording["d.v"][-1].tolist() == [0.25, 0.25]


def test_it_goes_on_from_a_checkpoint_at_rest() -> None:
    ring = Ring(8)
    whole = flown(balls(a=0.7), 3, checkpoints=CheckpointSchedule(ring, every="1/2"))
    kept = ring.before(5 * S // 2)
    assert kept is not None
    words = flown(balls(a=0.7), 3, start=kept).tracks["d"].words
    assert np.array_equal(words, whole.tracks["d"].words[-len(words) :])


def test_a_rest_that_cannot_be_meant() -> None:
    d = wired(("x", Integrator(rest=0.0), "c"), ("c", Constant()))
    with pytest.raises(
        ScenarioError, match="x has rest=, but no event can set its state; wire its"
    ):
        d.model()
    with pytest.raises(ScenarioError, match="cannot have both limits and rest="):
        Integrator(low=0.0, rest=0.0)
