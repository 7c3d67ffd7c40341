"""Several runs at once give the results of single runs."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import rtsim as rt
from rtsim.core.errors import ScenarioError
from rtsim.equations.lanes import WIDTHS, native_width
from rtsim.models.ball import scenario as ball
from rtsim.record.recorders import PooledRecorder
from rtsim.runs.prepared import ManyRun, Prepared, prepare
from rtsim.runs.result import RunResult


class Pendulum(rt.Plant):
    angle = rt.state("rad", 1)
    rate = rt.state("rad/s", derivative_of="angle")
    torque = rt.input("1/s^2")
    damping = rt.parameter("1/s", 0.2)
    height = rt.output("m")

    def derivative(self, d: Any) -> None:
        d.angle = self.rate
        d.rate = self.torque - 9.81 * math.sin(self.angle) - self.damping * self.rate
        if self.rate > 2.0:
            d.rate -= 0.1 * self.rate * self.rate

    def outputs(self) -> None:
        self.height = 1.0 - math.cos(self.angle)


class Brake(rt.Controller, compile=True):
    angle = rt.input("rad")
    rate = rt.input("rad/s")
    torque = rt.output("1/s^2")
    gain = rt.parameter("1/s", 1.0)

    def step(self) -> None:
        self.torque = -self.gain * self.rate - 0.3 * self.angle


def loop(solver: str = "rk4") -> rt.Scenario:
    out = rt.Scenario("loop", until=3)
    plant = out.plant("plant", Pendulum(), step=0.01, solver=solver)
    brake = out.controller("brake", Brake(), period=0.05, transport=rt.Uniform(0.0, 0.08))
    out.connect(plant, brake)
    out.at(1.0, "plant.damping", 0.4)
    return out


def orders(count: int) -> Iterator[ManyRun]:
    rng = np.random.default_rng(1)
    for seed in range(count):
        values = {"plant.angle": rng.normal(), "brake.gain": rng.uniform(0.5, 2.0)}
        until = float(rng.choice((2.0, 2.51, 3.0)))
        yield ManyRun(lambda pool: PooledRecorder(pool, None), seed, values, until)


def rows(result: RunResult) -> dict[str, bytes]:
    recording = result.recording()
    found = {name: track.words.tobytes() for name, track in recording.tracks.items()}
    return {**found, "events": str(recording.events).encode(), "reason": result.reason.encode()}


def pair(scenario: rt.Scenario, width: int) -> tuple[Prepared, Prepared]:
    return prepare(scenario, engine="compiled"), prepare(scenario, engine="compiled", lanes=width)


def single(prepared: Prepared, one: ManyRun) -> RunResult:
    return prepared.run_into(one.begin, seed=one.seed, set=one.set, until=one.until)


@pytest.mark.parametrize("width", WIDTHS)
def test_runs_in_lanes_equal_single_runs(width: int) -> None:
    alone, many = pair(loop(), width)
    expected = [rows(single(alone, one)) for one in orders(4 * width + 1)]
    assert [rows(one) for one in many.run_many(orders(4 * width + 1))] == expected
    assert len({one["plant"] for one in expected}) == len(expected)
    assert many.alone == {}
    assert many.together == 3 * width


@pytest.mark.parametrize(
    "solver", ["euler", "midpoint", "rkn4", "semi_implicit_euler", "abm4", "dp54"]
)
@pytest.mark.sample(2)
def test_each_solver(solver: str) -> None:
    alone, many = pair(loop(solver), 4)
    expected = [rows(single(alone, one)) for one in orders(12)]
    assert [rows(one) for one in many.run_many(orders(12))] == expected
    assert many.together == 8
    reasons = {"abm4": "lanes", "dp54": "lengths of its steps"}
    found = many.alone.get("the steps of plant", "")
    assert (reasons.get(solver, "") in found) == (solver in reasons or not found)


def test_a_plant_with_guards_runs_alone() -> None:
    alone, many = pair(ball(), 2)
    begin = lambda pool: PooledRecorder(pool, None)  # noqa: E731
    given = [ManyRun(begin, seed, {"ball.height": 1.0 + seed}) for seed in range(6)]
    expected = [rows(single(alone, one)) for one in given]
    assert [rows(one) for one in many.run_many(given)] == expected


def test_a_lane_that_fails_does_not_disturb_the_others() -> None:
    given = list(orders(8))
    bad = given[5]
    given[5] = bad._replace(set={"plant.angle": 1e308, "plant.damping": -1e300})
    alone, many = pair(loop(), 4)
    texts = [str(single(alone, one).error) for one in given]
    found = [str(one.error) for one in many.run_many(given)]
    assert found == texts
    assert [text != "None" for text in texts] == [i == 5 for i in range(8)]


def test_wrong_numbers_of_lanes() -> None:
    with pytest.raises(ScenarioError, match="give 1, 2, 4, 8 or 'auto'"):
        prepare(loop(), lanes=3)
    assert prepare(loop(), lanes="auto").lanes == native_width()
