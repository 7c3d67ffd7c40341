"""What a class must not do unseen: change what it only reads, keep values, hide names."""

# ruff: noqa: ARG001, NPY002, RUF012
# mypy: disable-error-code="attr-defined, override, operator"

from __future__ import annotations

import collections
import datetime
import itertools
import linecache
import random
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rtsim as rt
from rtsim.core.errors import ModelError


def run(plant: type[rt.Plant], compile: Any = True, until: float = 0.5) -> Any:
    scenario = rt.Scenario("sound", until=until)
    scenario.plant("part", plant(), step=0.1)
    return rt.simulate(scenario, compile=compile)


# -- changes in place ------------------------------------------------------------------------------


class Two(rt.Plant):
    v = rt.state("m/s", (1.0, 2.0))
    w = rt.state("m/s", (3.0, 4.0))
    m = rt.state("m", ((1.0, 2.0), (3.0, 4.0)))
    kept = rt.memory("m/s", (6.0, 5.0))

    def derivative(self, d: Any) -> None:
        d.v, d.w, d.m = -self.v, -self.w, -self.m


def change(vector: Any) -> float:
    vector[0] = 5.0
    return 1.0


def add(vector: Any) -> float:
    vector += 5.0
    return 1.0


def own(vector: Any) -> float:
    vector = vector * 2.0
    vector[0] = 5.0
    return 1.0


def _fills(self: Any) -> None:
    self.v.fill(0.0)


def _copies_to(self: Any) -> None:
    np.copyto(self.v, self.w)


def _out(self: Any) -> None:
    np.add(self.v, 1.0, out=self.v)


def _third(self: Any) -> None:
    np.add(self.v, 1.0, self.v)


def _sorts(self: Any) -> None:
    self.v[:].sort()


def _row(self: Any) -> None:
    self.m[0][1] = 3.0


def _reshaped(self: Any) -> None:
    self.v.reshape(2, 1)[0, 0] = 3.0


def _chosen(self: Any) -> None:
    (self.v if self.v[0] > 0.0 else self.w)[0] = 3.0


def _helper(self: Any) -> None:
    change(self.v)


def _in_place(self: Any) -> None:
    add(self.w)


@pytest.mark.parametrize(
    "body",
    [_fills, _copies_to, _out, _third, _sorts, _row, _reshaped, _chosen, _helper, _in_place],
)
def test_a_derivative_does_not_change_a_state_in_place(body: Any) -> None:
    class A(Two):
        def derivative(self, d: Any) -> None:
            body(self)
            d.v, d.w, d.m = -self.v, -self.w, -self.m

    with pytest.raises(ModelError, match=r"test_class_soundness\.py:\d+: .* only reads a state"):
        A.model()


def test_a_method_that_changes_its_argument_is_not_given_a_state() -> None:
    class A(Two):
        def front(self, of: Any) -> Any:
            of[0] = 4.0
            return of[0]

        def derivative(self, d: Any) -> None:
            super().derivative(d)
            d.v[0] = self.front(self.w)

    with pytest.raises(ModelError, match=r"self\.w is assigned, but derivative only reads a state"):
        A.model()


@pytest.mark.sample(1)
@pytest.mark.parametrize("compile", [False, True])
def test_other_names_of_a_state_are_copies(compile: bool) -> None:
    class A(Two):
        def derivative(self, d: Any) -> None:
            for one in (self.v, self.w):
                one[0] = 100.0
            for row in self.m:
                row[0] = 100.0
            turned = self.m.T
            turned[0, 1] = 100.0
            flat = np.ravel(self.m)
            flat[0] = 100.0
            rows = [row for row in self.m if row[0] < 9.0]
            rows[0][0] = 100.0
            d.v, d.w, d.m = -self.v, -self.w, -self.m

    changed, plain = run(A, compile), run(Two, compile)
    for name in ("v", "w", "m"):
        assert np.array_equal(changed[f"part.{name}"], plain[f"part.{name}"])


def test_what_an_event_may_assign_changes_in_place() -> None:
    class A(Two):
        @rt.once(0.25)
        def now(self) -> None:
            self.kept.sort()
            self.v.fill(7.0)
            change(self.w)
            own(self.w)

    found = run(A, compile=False)
    assert found["part.kept"][-1].tolist() == [5.0, 6.0]
    assert found["part.v"][3].tolist() == [7.0, 7.0]
    assert found["part.w"][3][0] == 5.0


def test_a_change_that_the_source_does_not_show_is_found_by_the_first_call() -> None:
    def derivative(x: Any, dx: Any) -> None:
        there = x
        there[0] = 2.0
        dx[0] = -x[0]

    scenario = rt.Scenario("s", until=1)
    scenario.plant("part", rt.Model("m", rt.Signals("a = 1"), derivative), step=0.1)
    for compile in (False, True):
        with pytest.raises(ModelError, match=r"derivative of model m changes a from 1 to 2"):
            rt.simulate(scenario, compile=compile)


# -- names and sources -----------------------------------------------------------------------------

_A_twice_0, _A_FACTORS, A_twice_0 = 5.0, 7.0, 11.0


@pytest.mark.parametrize("compile", [False, True])
def test_a_generated_name_hides_no_name_of_the_user(compile: bool) -> None:
    class A(rt.Plant):
        FACTORS = (1.0, 2.0)
        x = rt.state("m", 1.0)
        y = rt.state("m", 1.0)

        def twice(self) -> Any:
            return 2.0 * self.x

        def derivative(self, d: Any) -> None:
            _twice_1 = 3.0
            d.x = 0.0 * self.twice() + _A_twice_0 + _A_FACTORS + A_twice_0
            d.y = self.FACTORS[1] * _twice_1

    found = run(A, compile, until=1)
    assert found["part.x"][-1] == pytest.approx(24.0)
    assert found["part.y"][-1] == pytest.approx(7.0)


def test_a_function_within_a_derivative_can_return_a_value() -> None:
    class A(rt.Plant):
        x = rt.state("m", 1.0)

        def derivative(self, d: Any) -> None:
            def double(value: Any) -> Any:
                return 2.0 * value

            d.x = double(self.x)

    assert run(A, compile=False, until=0.1)["part.x"][-1] == pytest.approx(np.exp(0.2), rel=1e-5)


DEDENTED = """
import rtsim as rt
import math

class A(rt.Plant):
    x = rt.state("m", 1.0)
    y = rt.state("m", 1.0)

    def derivative(self, d):
        d.x, d.y = 1.0, 1.0
        if self.x > 0.0:
            d.x = math.sin(2.0)
            d.y = 3.0
"""


@pytest.mark.parametrize(
    ("line", "changed"),
    [
        ("            d.y = 3.0", "        d.y = 3.0"),
        ("        if self.x > 0.0:", "        while self.x > 0.0:"),
    ],
)
def test_a_line_that_moved_into_another_block_is_another_source(
    tmp_path: Path, line: str, changed: str
) -> None:
    path = tmp_path / "moved.py"
    path.write_text(DEDENTED, encoding="utf-8")
    space: dict[str, Any] = {"__name__": "moved"}
    exec(compile(DEDENTED, str(path), "exec"), space)
    assert space["A"].model().states.names == ("x", "y")
    path.write_text(DEDENTED.replace(line, changed), encoding="utf-8")
    linecache.clearcache()
    space["A"]._made = None
    with pytest.raises(ModelError, match="has changed since it was"):
        space["A"].model()


# -- what differs from run to run ------------------------------------------------------------------

FOUND: list[float] = []
COUNT = 0


def drawn(value: float) -> float:
    return value + random.random()


def _random(self: Any) -> float:
    return drawn(1.0)


def _numpy(self: Any) -> float:
    return float(np.random.rand())


def _clock(self: Any) -> float:
    return time.time()


def _imported(self: Any) -> float:
    import time as clock

    return clock.perf_counter()


def _date(self: Any) -> float:
    return datetime.datetime.now().timestamp()


def _global(self: Any) -> float:
    global COUNT
    COUNT += 1
    return COUNT


def _appends(self: Any) -> float:
    FOUND.append(1.0)
    return len(FOUND)


def _stores(self: Any) -> float:
    FOUND[0] += 1.0
    return FOUND[0]


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (_random, r"calls random\.random, .*@rtsim\.every"),
        (_numpy, r"calls np\.random\.rand, .* scenario\.noise"),
        (_clock, r"calls time\.time, .* self\.t is the simulated time"),
        (_imported, r"calls clock\.perf_counter, .* self\.t"),
        (_date, r"calls datetime\.datetime\.now, .* self\.t"),
        (_global, r"assigns the global variable COUNT; .* rtsim\.memory\(\)"),
        (_appends, r"changes FOUND; .* rtsim\.memory\(\)"),
        (_stores, r"changes FOUND; .* rtsim\.memory\(\)"),
    ],
)
def test_what_a_replay_would_not_repeat_is_refused(body: Any, said: str) -> None:
    class A(rt.Plant):
        x = rt.state("m")

        def derivative(self, d: Any) -> None:
            d.x = body(self)

    class B(rt.Controller):
        u = rt.input("m")
        y = rt.output("m")

        def step(self) -> None:
            self.y = body(self)

    for make in (A.model, lambda: B().controller()):
        with pytest.raises(ModelError, match=rf"test_class_soundness\.py:\d+: .*{said}"):
            make()


def test_constants_that_are_only_read_are_accepted() -> None:
    class A(rt.Controller):
        TABLE = {"gain": 2.0}
        LEVELS = {1.0, 2.0}
        DRAWN = np.random.default_rng(1).normal(size=3)
        y = rt.output("m")

        def step(self) -> None:
            self.y = self.TABLE["gain"] * self.DRAWN[1] if 2.0 in self.LEVELS else 0.0

    A().controller()


class Counter:
    def __init__(self) -> None:
        self.n = 0.0

    def up(self) -> float:
        self.n += 1.0
        return self.n


@pytest.mark.parametrize(
    "constant",
    [collections.deque([0.0]), [0.0], {"a": 0.0}, {0.0}, itertools.count(), Counter(),
     np.random.default_rng(1), random.Random(1)],
)  # fmt: skip
def test_a_constant_of_a_class_keeps_no_values(constant: Any) -> None:
    class A(rt.Controller):
        KEPT = constant
        y = rt.output("1")

        def step(self) -> None:
            self.KEPT.append(1.0)
            self.KEPT.pop()
            self.y = self.KEPT.up() + next(self.KEPT)

    with pytest.raises(ModelError, match=r"self\.KEPT.*(rtsim\.memory\(\)|rtsim\.every)"):
        A().controller()


def test_an_array_of_a_class_is_not_changed_by_a_second_name() -> None:
    class A(rt.Controller):
        KEPT = np.zeros(2)
        y = rt.output("1")

        def step(self) -> None:
            again = self.KEPT
            again[0] += 1.0
            self.y = again[0]

    scenario = rt.Scenario("s", until=1)
    scenario.controller("part", A(), period=0.1)
    with pytest.raises(rt.ControllerError, match="read-only"):
        rt.simulate(scenario)
    assert A.KEPT.tolist() == [0.0, 0.0]


@pytest.mark.parametrize("compile", [False, True])
def test_a_changed_list_of_a_class_is_read_again(compile: bool) -> None:
    class A(rt.Plant):
        RATES = [1.0, 2.0]
        x = rt.state("m")

        def derivative(self, d: Any) -> None:
            d.x = self.RATES[1]

    assert run(A, compile)["part.x"][-1] == pytest.approx(1.0)
    A.RATES[1] = 20.0
    assert run(A, compile)["part.x"][-1] == pytest.approx(10.0)


# -- units and ranges ------------------------------------------------------------------------------


def test_a_torque_connects_however_its_unit_is_written() -> None:
    class Motor(rt.Controller):
        torque = rt.output("N.m")

        def step(self) -> None:
            self.torque = 1.0

    class Shaft(rt.Plant):
        speed = rt.state("rad/s")
        torque = rt.input("N m")
        energy = rt.input("J", optional=True)

        def derivative(self, d: Any) -> None:
            d.speed = self.torque

    loop = rt.Scenario("s", until=1)
    motor, shaft = loop.controller(Motor(), period=0.1), loop.plant(Shaft(), step=0.1)
    loop.connect(motor.torque, shaft.torque)
    with pytest.raises(rt.ScenarioError, match=r"in N\.m, but shaft\.energy is in J"):
        loop.connect(motor.torque, shaft.energy)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: rt.parameter("kg", 0.5, low=1), r"0\.5 of this parameter .* range \[1, inf\]"),
        (lambda: rt.state("m", (1.0, 5.0), high=3), r"5 of this state .* range \[-inf, 3\]"),
        (lambda: rt.memory("m", 1, low=2, high=0), r"range of this memory is empty"),
    ],
)
def test_an_initial_value_lies_in_its_range(make: Any, said: str) -> None:
    with pytest.raises(ModelError, match=said):
        make()
    assert rt.input("Pa", low=1.0) is not None  # its value comes from another component
