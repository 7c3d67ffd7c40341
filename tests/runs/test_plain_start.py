"""Short runs that begin with plain Python: equal rows, and machine code when it pays."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rtsim as rt
from rtsim.core.errors import ModelError
from rtsim.engine import plain_start
from rtsim.engine.plain_start import PlainStart
from rtsim.equations import same_bits
from rtsim.runs.simulation import simulate
from rtsim.scenario.loading import known_scenarios, load_scenario
from rtsim.solve import SOLVERS

WITH_PROGRAM = {"betaflight", "betaflight-flight"}
SOLVERS_WITH_EQUAL_BITS = sorted(
    name for name, solver in SOLVERS.items() if getattr(solver, "plain_bits", False)
)


@pytest.fixture(autouse=True)
def first_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is in the cache, and no run in this process has used up its allowance."""
    monkeypatch.setattr(same_bits, "kept", lambda *_: False)
    monkeypatch.setattr(plain_start._spent(), "ns", -(10**12))


class Ball(rt.Plant):
    """A ball with a wall, a wind that a timer turns, and a counter that an update advances."""

    height = rt.state("m", 1.0)
    speed = rt.state("m/s", derivative_of="height")
    at_rest = rt.memory()
    push = rt.input("m/s^2")
    energy = rt.output("m^2/s^2")
    restitution = rt.parameter("1", 0.7)
    steps = rt.memory()
    gust = rt.memory("m/s^2")

    def derivative(self, d: Any) -> None:
        d.height = self.speed
        d.speed = (self.push + self.gust - 9.81) * (1.0 - self.at_rest)

    def outputs(self) -> None:
        self.energy = 0.5 * self.speed * self.speed + 9.81 * self.height

    def update(self) -> None:
        self.steps = self.steps + 1.0

    @rt.every(0.3)
    def blow(self) -> None:
        self.gust = 0.5 - self.gust

    @rt.falling()
    def floor(self) -> float:
        return self.height

    @floor.reset
    def bounce(self) -> None:
        self.height, self.speed = 0.0, -self.restitution * self.speed

    @floor.stop
    def lie(self) -> None:
        self.height, self.speed, self.at_rest = 0.0, 0.0, 1.0

    @rt.rising()
    def top(self) -> float:
        return self.height - 0.9


class Fan(rt.Controller, compile=True):
    height = rt.input("m")
    push = rt.output("m/s^2")
    held = rt.memory()

    def step(self) -> None:
        self.held = 0.5 * self.held + 0.5 * self.height
        self.push = 1.5 * (0.5 - self.held)


class Chase(rt.Plant):
    """A fox and a rabbit, with a power, a function of the C library, and whole vectors."""

    fox = rt.state("m", (0, 0))
    rabbit = rt.state("m", (50, 0))
    gap = rt.output("m")
    turns = rt.output()

    def distance(self) -> Any:
        apart = self.rabbit - self.fox
        return math.hypot(apart[0], apart[1]) + 1e-9 * apart[0] ** 2

    def derivative(self, d: Any) -> None:
        d.fox = 12.0 * (self.rabbit - self.fox) / self.distance()
        d.rabbit = (np.sin(self.t), 8.0)

    def outputs(self) -> None:
        self.gap, self.turns = self.distance(), self.t % 0.7 + math.floor(self.t)

    @rt.falling(terminal=True)
    def caught(self) -> Any:
        return self.distance() - 0.5


def chase() -> rt.Scenario:
    made = rt.Scenario("chase", until=60)
    made.plant(Chase(), step=0.05)
    return made


def loop(solver: str = "rk4", until: float = 2.5) -> rt.Scenario:
    made = rt.Scenario("fan", until=until)
    ball = made.plant(Ball(), step=0.01, solver=solver, update_period=0.05)
    fan = made.controller(Fan(), period=0.1, transport=0.013)
    made.connect(ball.height, fan.height)
    made.connect(fan.push, ball.push)
    return made


def run(scenario: rt.Scenario, **options: Any) -> Any:
    return simulate(scenario, **options)


def begins_plain(result: Any) -> bool:
    """Return whether all plants and controllers of the run ended as plain Python."""
    system = result.system
    return all(plant.bound.later for plant in system.plants) and all(
        task.controller.later for task in system.controllers
    )


def after(looks: int) -> Callable[[PlainStart], bool]:
    """Let the allowance be used up after this number of looks."""
    left = iter([False] * looks)
    return lambda _: next(left, True)


def from_the_time(ns: int) -> Callable[[PlainStart], bool]:
    """Let the allowance be used up from this time on."""
    return lambda plain: plain._system.ns >= ns


@pytest.mark.sample(3)
@pytest.mark.parametrize("solver", SOLVERS_WITH_EQUAL_BITS)
def test_plain_python_machine_code_and_a_change_between_them_give_equal_rows(
    solver: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = run(loop(solver))
    assert begins_plain(plain)
    compiled = run(loop(solver), engine="interpreted")
    assert compiled.system.plants[0].bound.compiled
    wanted = compiled.recording().digest()
    assert plain.recording().digest() == wanted
    for tags in (1, 47, 120):
        monkeypatch.setattr(PlainStart, "over", property(after(tags)))
        changed = run(loop(solver))
        assert changed.system.plants[0].bound.compiled
        assert not changed.system.controllers[0].controller.later
        assert changed.recording().digest() == wanted, tags


@pytest.mark.long
def test_powers_functions_and_vectors_begin_plain_with_equal_rows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plain = run(chase())
    assert begins_plain(plain)
    assert plain.reason == "terminal"
    wanted = plain.recording().digest()
    for engine in ("interpreted", "compiled"):
        assert run(chase(), engine=engine).recording().digest() == wanted
    monkeypatch.setattr(PlainStart, "over", property(after(60)))
    changed = run(chase())
    assert changed.system.plants[0].bound.compiled
    assert changed.recording().digest() == wanted


def stepped(**options: Any) -> tuple[str, bool]:
    """Return the digest of a run in steps, and whether its plant ended as plain Python."""
    with rt.Simulation(loop(), **options) as s:
        while s.advance(0.3):
            s["ball.restitution"] = 0.5 + 0.1 * s["ball.height"]
        result = s.result()
        return result.recording().digest(), result.system.plants[0].bound.later


def test_a_run_in_steps_begins_plain_with_equal_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    wanted, compiled = stepped(engine="interpreted")
    assert not compiled
    assert stepped() == (wanted, True)
    for looks in (1, 30, 90):
        monkeypatch.setattr(PlainStart, "over", property(after(looks)))
        assert stepped() == (wanted, False), looks


def test_guards_that_were_never_compiled_have_a_larger_allowance(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(plain_start, "guards_kept", lambda: False)
    assert plain_start._allowed_ns(guards=True) == plain_start.GUARDS_NS
    assert plain_start._allowed_ns(guards=False) == plain_start.ALLOWED_NS
    monkeypatch.setattr(plain_start, "guards_kept", lambda: True)
    assert plain_start._allowed_ns(guards=True) == plain_start.ALLOWED_NS


def test_equal_bits_are_promised_by_the_solvers_that_keep_the_promise() -> None:
    adaptive, fixed = ["bs32", "dp54"], ["abm4", "euler", "midpoint", "rk4"]
    paired = ["rkn4", "semi_implicit_euler"]
    assert sorted([*adaptive, *fixed, *paired]) == SOLVERS_WITH_EQUAL_BITS


def test_events_fall_on_the_tag_at_which_machine_code_takes_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    wanted = run(loop("dp54"), engine="interpreted").recording()
    tags = [event.tag.ns for event in wanted.events if event.kind == "Crossed"]
    assert len(tags) > 4
    for tag in tags[:5]:
        monkeypatch.setattr(PlainStart, "over", property(from_the_time(tag)))
        assert run(loop("dp54")).recording().digest() == wanted.digest()


class Stiff(rt.Plant):
    x = rt.state("1", 1.0)

    def derivative(self, d: Any) -> None:
        d.x = -200000.0 * self.x


def stiff(solver: str = "dp54") -> rt.Scenario:
    made = rt.Scenario("stiff", until=0.3)
    made.plant(Stiff(), step=0.1, solver=solver)
    return made


def test_a_step_that_takes_long_is_given_up_and_taken_by_machine_code(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    wanted = run(stiff(), engine="interpreted").recording().digest()
    calls = []

    def over(plain: PlainStart) -> bool:
        calls.append(plain._system.ns)
        return len(calls) > 2

    monkeypatch.setattr(PlainStart, "over", property(over))
    result = run(stiff())
    assert calls == [0, 0, 0]  # before the first step, and in two of its pauses
    assert result.system.plants[0].bound.compiled
    assert result.recording().digest() == wanted


def test_the_runs_of_one_process_share_an_allowance(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plain_start, "_allowed_ns", lambda _: -(10**12) + 5_000_000)
    run(loop(until=0.5))
    for _ in range(3):
        result = run(loop(until=0.5))
    assert result.system.plants[0].bound.compiled
    assert plain_start._spent().ns > -(10**12) + 5_000_000


def test_a_long_run_is_compiled_at_its_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plain_start, "MOST_STEPS", 100)
    assert run(loop(until=0.5)).system.plants[0].bound.later
    assert run(loop(until=2.0)).system.plants[0].bound.compiled


@pytest.mark.parametrize(
    "options",
    [{"pace": 1000.0}, {"stop_ns": 10**8}, {"engine": "compiled"}, {"compile": "checked"}],
)
def test_a_run_on_a_clock_or_one_that_asks_for_machine_code_is_compiled_at_its_start(
    options: dict[str, Any],
) -> None:
    result = run(loop(until=0.2), **options)
    assert result.system.plants[0].bound.compiled
    assert not result.system.controllers[0].controller.later


def test_what_does_not_compile_is_an_error_at_the_start_of_a_short_run_too() -> None:
    class Wheel(rt.Plant):
        angle = rt.state("rad")

        def derivative(self, d: Any) -> None:
            import decimal

            d.angle = float(decimal.Decimal(1))

    made = rt.Scenario("wheel", until=0.1)
    made.plant(Wheel(), step=0.01)
    with pytest.raises(ModelError, match="does not compile"):
        run(made)


def test_the_certificate_says_that_the_run_was_short() -> None:
    assert "ball is not compiled, because the run is short" in run(loop()).certificate.engine


def test_the_first_run_imports_no_compiler(tmp_path: Path) -> None:
    Path(tmp_path, "fan.py").write_text(Path(__file__).read_text())
    program = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "import fan\n"
        "result = fan.simulate(fan.loop())\n"
        "print(fan.begins_plain(result), 'numba' in sys.modules, result.recording().digest())\n"
    )
    environment = {**os.environ, "RTSIM_CACHE_DIR": str(tmp_path / "cache")}
    printed = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path)],
        env=environment, capture_output=True, text=True, check=True,
    ).stdout.split()  # fmt: skip
    assert printed[:2] == ["True", "False"]
    assert printed[2] == run(loop(), engine="interpreted").recording().digest()
    assert not Path(tmp_path, "cache", "compiled").exists()


@pytest.mark.sample(6)
@pytest.mark.parametrize("name", sorted(set(known_scenarios()) - WITH_PROGRAM))
def test_shipped_scenarios_have_equal_rows_however_they_begin(name: str) -> None:
    until = min(load_scenario(name).until_ns / 1e9, 1.0)
    first = run(load_scenario(name), until=until).recording().digest()
    assert first == run(load_scenario(name), until=until, engine="interpreted").recording().digest()
