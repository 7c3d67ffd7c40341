"""Widened functions have the bits of single calls in each lane."""

from __future__ import annotations

import importlib.util
import math
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.lane_parts import call_lanes, differences, same_bits

from rtsim.core.errors import RtsimError
from rtsim.equations.addresses import EQUATION
from rtsim.equations.compiling import Native, compile_function, compiled, source_at
from rtsim.equations.lanes import WIDTHS, lanes_of, native_width
from rtsim.equations.llvm_text import NotWidened
from rtsim.scenario.loading import known_scenarios, load_scenario

TABLE = np.linspace(-1.0, 2.0, 12).reshape(4, 3) ** 3
BASE = tuple(map(np.array, ([0.3, -1.2, 2.5], [0.1], [0.7, -0.4], [1.5, 0.2, 3.0], [0.0] * 4)))
"""Typical vectors x, z, u and p, and the results."""


def native_of(function: Callable[..., Any]) -> Native:
    return compile_function(function, EQUATION, "the function")


@compiled
def helper(a: float, b: float) -> float:
    if a > b:
        return a - 0.5 * b
    return math.sin(b) + a


def branches(t: Any, x: Any, z: Any, u: Any, p: Any, out: Any) -> None:
    a = x[0] * u[0] if x[0] > u[1] else t / (x[1] - z[0])
    if x[1] > 0.0 and t > 5.0:
        out[0] = math.exp(min(a, 3.0))
        if x[2] > 1.0:
            out[3] = helper(a, x[2])
    elif x[2] < -1.0:
        out[0] = math.atan2(a, x[2])
    else:
        a += p[0]
    out[1] = helper(a, t)
    out[2] = max(a, x[0]) + min(x[1], 0.25)


def loops(t: Any, x: Any, z: Any, u: Any, p: Any, out: Any) -> None:
    total = 0.0
    for i in range(x.size):
        total += x[i] * p[i % p.size]
    count, left = 0, abs(u[0]) * 10.0
    while left > 1.0 and count < 40:
        left *= 0.7 + 0.01 * count
        count += 1
        if left < x[0]:
            break
        for k in range(count % 3):
            total += k * left
            if total > 100.0:
                continue
            out[3] += 1.0
    out[0], out[1], out[2] = total, left, count + z[0] + t


def tables(t: Any, x: Any, z: Any, u: Any, p: Any, out: Any) -> None:
    place = max(0.0, min(2.999, abs(x[0]))) if x[0] == x[0] else 0.0
    i = int(place)
    j = 0
    while j < 2 and TABLE[1, j] < u[0]:
        j += 1
    part = place - i
    out[0] = TABLE[i, j] + part * (TABLE[i + 1, j] - TABLE[i, j])
    out[1] = TABLE[3, i % 3] * t + p[0]
    out[2] = x[i % 3] + z[0]
    out[i] += 0.5


def returns(t: Any, x: Any, z: Any, u: Any, p: Any, out: Any) -> None:
    out[0] = t
    if x[0] > 0.5:
        return
    out[1] = math.sqrt(abs(x[1])) + math.floor(u[0]) + math.copysign(p[0], x[2])
    if z[0] > 0.1:
        out[2] = x[0] ** 3 + abs(x[1]) ** 1.7
        return
    out[3] = math.tan(x[0]) + math.hypot(x[0], x[1]) + round(x[2]) + x[1] % 2.0 + x[0] // 0.3


FUNCTIONS = (branches, loops, tables, returns)


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("function", FUNCTIONS)
def test_each_lane_has_the_bits_of_a_single_call(function: Callable[..., Any], width: int) -> None:
    assert not differences(native_of(function), BASE, width, 3000)


class RandomFunction:
    """Text of a random function of the vectors of an equation."""

    def __init__(self, seed: int) -> None:
        self._draw = random.Random(seed)
        self._names = ["t", "x[0]", "x[1]", "x[2]", "z[0]", "u[0]", "u[1]", "p[0]", "p[1]"]
        self._lines = ["def function(t, x, z, u, p, out):"]
        self._loops = 0
        for i in range(4):
            self._lines.append(f"    v{i} = {self._value(2)}")
            self._names.append(f"v{i}")
        self._statements("    ", 3, 4)
        for i in range(4):
            self._lines.append(f"    out[{i}] = {self._value(2)}")
        self.text = "\n".join(self._lines) + "\n"

    def _value(self, depth: int) -> str:
        draw = self._draw
        if depth == 0 or draw.random() < 0.15:
            return draw.choice([*self._names, f"{draw.uniform(-2.0, 2.0):.3f}"])
        a, b = (self._value(depth - 1) for _ in range(2))
        return draw.choice((
            f"({a} + {b})", f"({a} - {b})", f"{a} * {b}", f"({a}) / ({b})", f"max({a}, {b})",
            f"min({a}, {b})", f"abs({a})", f"math.sqrt(abs({a}))", f"math.sin({a})",
            f"math.exp(min({a}, 2.0))", f"math.atan2({a}, {b})", f"helper({a}, {b})",
            f"({a} if {self._condition(depth - 1)} else {b})", f"np.floor({a})",
            f"TABLE[place({a}, 4), place({b}, 3)]",
        ))  # fmt: skip

    def _condition(self, depth: int) -> str:
        sign = self._draw.choice(("<", ">", "<=", ">="))
        one = f"({self._value(depth)}) {sign} ({self._value(depth)})"
        return one if self._draw.random() < 0.7 else f"({one} and t > {self._value(0)})"

    def _statements(self, indent: str, depth: int, count: int) -> None:
        draw = self._draw
        for _ in range(count):
            name = f"v{draw.randrange(4)}"
            kind = draw.random() if depth else 0.0
            if kind < 0.4:
                self._lines.append(f"{indent}{name} = {self._value(2)}")
            elif kind < 0.5:
                self._lines.append(f"{indent}out[place({self._value(1)}, 4)] += {name}")
            elif kind < 0.75:
                self._lines.append(f"{indent}if {self._condition(1)}:")
                self._statements(indent + "    ", depth - 1, 2)
                if draw.random() < 0.6:
                    self._lines.append(f"{indent}else:")
                    self._statements(indent + "    ", depth - 1, 2)
            elif kind < 0.9:
                self._lines.append(f"{indent}for k{depth} in range({draw.randrange(1, 5)}):")
                self._statements(indent + "    ", depth - 1, 2)
                if draw.random() < 0.4:
                    word = draw.choice(("break", "continue"))
                    self._lines.append(f"{indent}    if {self._condition(1)}:")
                    self._lines.append(f"{indent}        {word}")
                    self._statements(indent + "    ", depth - 1, 1)
            else:
                count_name = f"c{self._loops}"
                self._loops += 1
                self._lines.append(f"{indent}{count_name} = 0")
                self._lines.append(f"{indent}while {self._condition(1)} and {count_name} < 7:")
                self._lines.append(f"{indent}    {count_name} += 1")
                self._statements(indent + "    ", depth - 1, 2)


_HEAD = """
import math
import numpy as np
from rtsim.equations.compiling import compiled
TABLE = np.linspace(-1.0, 2.0, 12).reshape(4, 3) ** 3

@compiled
def place(a, count):
    return int(max(0.0, min(count - 1.0, abs(a)))) if a == a else 0

@compiled
def helper(a, b):
    if a > b:
        return a - 0.5 * b
    return b * b + a

"""


@pytest.mark.sample(3)
@pytest.mark.parametrize("seed", range(24))
def test_random_functions(seed: int, tmp_path: Path) -> None:
    file = tmp_path / f"random_{seed}.py"
    file.write_text(_HEAD + RandomFunction(seed).text)
    spec = importlib.util.spec_from_file_location(file.stem, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    native = native_of(module.function)
    for width in WIDTHS:
        assert not differences(native, BASE, width, 3000, seed), file.read_text()


def test_a_failing_lane_is_reported() -> None:
    def fails(t: Any, x: Any, z: Any, u: Any, p: Any, out: Any) -> None:  # noqa: ARG001
        out[0] = x[0]
        if x[0] > 2.0:
            raise ValueError

    native = native_of(fails)
    source = source_at(int(native.handle))
    assert source is not None
    vectors = [np.repeat(one[:, None], 4, axis=1).copy() for one in BASE]
    assert call_lanes(lanes_of(source, 4), np.zeros(4), vectors)[0] == 0
    assert same_bits(vectors[-1][0], vectors[0][0])
    vectors[0][0, 2] = 3.0
    assert call_lanes(lanes_of(source, 4), np.zeros(4), vectors)[0] == 1


def allocates(t: Any, x: Any, z: Any, u: Any, p: Any, out: Any) -> None:  # noqa: ARG001
    out[:] = np.zeros(int(p[0]) + 4)[:4]


@pytest.mark.parametrize(("function", "reason"), [(allocates, "numba's runtime")])
def test_a_reason_names_what_cannot_be_widened(function: Callable[..., Any], reason: str) -> None:
    source = source_at(int(native_of(function).handle))
    assert source is not None
    with pytest.raises(NotWidened, match=reason):
        lanes_of(source, 4)


def test_the_width_is_that_of_a_register() -> None:
    assert native_width() in WIDTHS


NOT_WIDENED = (
    "it computes an address",
    "it calls ",
    "numba's runtime",
    "is unknown",
    "some of the lanes only",
)
"""Reasons why a model that rtsim ships is computed lane by lane."""


@pytest.mark.sample(3)
@pytest.mark.parametrize("name", sorted(known_scenarios()))
def test_the_models_that_rtsim_ships(name: str) -> None:
    try:
        system = load_scenario(name, {}).build(compile=True)
    except RtsimError as error:
        pytest.skip(str(error))
    checked, reasons = 0, list[str]()
    for plant in system.plants:
        bound, model = plant.bound, plant.bound.model
        lengths = (model.states.size, model.outputs.size, len(model.guards))
        for native, count in zip(
            (bound.derivative, bound.output, bound.guard), lengths, strict=True
        ):
            if count and native.signature == EQUATION and isinstance(native.handle, np.intp):
                base = [one.copy() for one in (plant.x, plant.z, plant.u, plant.p)]
                try:
                    for width in WIDTHS:
                        assert not differences(native, [*base, np.zeros(count)], width, 400)
                    checked += 1
                except NotWidened as reason:
                    reasons.append(str(reason))
    assert all(any(known in one for known in NOT_WIDENED) for one in reasons), reasons
    assert checked or name not in ("ball", "f16", "unstable")
    system.close()
