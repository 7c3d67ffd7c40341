"""Functions that give equal bits as plain Python and as machine code, and those that may not."""

from __future__ import annotations

import inspect
import math
import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rtsim as rt
from rtsim.equations import same_bits as subject
from rtsim.equations.addresses import EQUATION
from rtsim.equations.compiling import compile_function, compiled
from rtsim.equations.same_bits import plain_at_first, same_bits

TABLE = np.array([0.5, -1.5, 2.25])
GAIN, ZERO = 0.1, 0.0


@pytest.fixture(autouse=True)
def nothing_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first run on a machine: no machine code is in the cache."""
    monkeypatch.setattr(subject, "kept", lambda *_: False)


def derivative_of(plant: type[rt.Plant]) -> Any:
    return plant.model().derivative


class Library(rt.Plant):
    """Every function of the two tables, on two states."""

    a = rt.state("1", 1.0)
    b = rt.state("1", 1.0)
    out = rt.state("1", shape=(33,))

    def derivative(self, d: Any) -> None:
        a, b = self.a, self.b
        d.a, d.b = math.sin(a), math.cos(a)
        d.out[0], d.out[1] = math.acos(a), math.acosh(a)
        d.out[2], d.out[3] = math.asin(a), math.asinh(a)
        d.out[4], d.out[5] = math.atan(a), math.atanh(a)
        d.out[6], d.out[7] = math.cos(a), math.cosh(a)
        d.out[8], d.out[9] = math.exp(a), math.expm1(a)
        d.out[10], d.out[11] = math.fabs(a), math.log(a)
        d.out[12], d.out[13] = math.log10(a), math.log1p(a)
        d.out[14], d.out[15] = math.sin(a), math.sinh(a)
        d.out[16], d.out[17] = math.sqrt(a), math.tan(a)
        d.out[18], d.out[19] = math.tanh(a), math.atan2(a, b)
        d.out[20], d.out[21] = math.copysign(a, b), np.abs(a)
        d.out[22], d.out[23] = np.ceil(a), np.fabs(a)
        d.out[24], d.out[25] = np.floor(a), np.sqrt(a)
        d.out[26], d.out[27] = np.trunc(a), min(a, b, 0.5)
        d.out[28], d.out[29] = max(a, b, -0.5), min(max(a, 0), 1)
        d.out[30], d.out[31] = -a, abs(b)
        d.out[32] = a * b - a / b + a


SPECIAL = [0.0, -0.0, 1.0, -1.0, math.inf, -math.inf, 5e-324, 1e308, -1e308, 710.0, -746.0, 0.5]


def states() -> list[tuple[float, float]]:
    draw = random.Random(5)
    near = [(draw.uniform(-1, 1), draw.uniform(-1, 1)) for _ in range(1500)]
    far = [(draw.gauss(0, 1) * 10.0 ** draw.uniform(-9, 9), draw.gauss(0, 9)) for _ in range(1500)]
    return [*near, *far, *((a, b) for a in SPECIAL for b in SPECIAL)]


def both(plant: type[rt.Plant]) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Return the derivative as plain Python that begins a run, and as machine code."""
    function = derivative_of(plant)
    found = plain_at_first({"f": (function, EQUATION, False)})
    assert found, "the derivative is one that can begin a run"
    return found["f"].call, compile_function(function, EQUATION, "f").call


def equal_at(calls: tuple[Callable[..., Any], ...], x: np.ndarray[Any, Any]) -> None:
    none, out = np.zeros(0), [np.zeros_like(x) for _ in calls]
    with np.errstate(all="ignore"):
        for call, into in zip(calls, out, strict=True):
            call(0.0, x, none, none, none, into)
    plain, native = out
    numbers = ~np.isnan(native)
    assert np.array_equal(np.isnan(plain), ~numbers)
    different = plain[numbers].view(np.int64) != native[numbers].view(np.int64)
    assert not different.any(), (x[:2].tolist(), np.flatnonzero(numbers)[different].tolist())


def test_each_allowed_function_gives_equal_bits() -> None:
    calls, x = both(Library), np.zeros(35)
    for x[0], x[1] in states():
        equal_at(calls, x)


def test_the_test_calls_each_allowed_function() -> None:
    source = inspect.getsource(Library.derivative)
    assert set(re.findall(r"\bmath\.(\w+)", source)) == set(subject.MATH)
    assert set(re.findall(r"\bnp\.(\w+)", source)) == set(subject.NUMPY)


class Branches(rt.Plant):
    """Loops, choices, helpers, constants and tables."""

    x = rt.state("1", shape=(4,))
    LIMIT = 2.5

    def slope(self, k: float) -> float:
        if self.x[0] > k:
            return float(-self.x[1] * GAIN)
        return float(self.x[1] / k if self.x[2] != 0.0 else self.x[3])

    def derivative(self, d: Any) -> None:
        total = 0
        for i in range(3):
            total += TABLE[i] * self.x[i]
        d.x[0] = total
        low = 0 if self.x[1] > 0.5 else self.x[1]
        d.x[1] = low * 3.0 + self.slope(self.LIMIT)
        held = not (self.x[0] < 0.1 or self.x[1] < 0.2) and self.x[2] > -1
        d.x[2] = 1.0 if held else -self.x[2] / (1.0 + math.exp(-self.x[3] * 100))
        n, k = 2, -1
        d.x[3] = self.x[k] * n - TABLE[n] / self.x[0]
        while 10.0 < d.x[3] < 1e300:
            d.x[3] /= 2.0


def test_loops_choices_helpers_and_tables_give_equal_bits() -> None:
    calls, draw = both(Branches), random.Random(7)
    for _ in range(2000):
        equal_at(calls, np.array([draw.gauss(0, 1) for _ in range(4)]))
    for x in ([0.0, -0.0, 0.0, 9.0], [-0.0, 0.4, 0.0, -90.0], [0.0] * 4, [1e300, 1e300, 1.0, 1.0]):
        equal_at(calls, np.array(x))


@compiled
def doubled(value: float) -> float:
    return 2.0 * value


@compiled
def drag(value: float) -> float:
    held = doubled(value)
    return -held * abs(held)


class Helped(rt.Plant):
    x = rt.state("1", 1.0)

    def derivative(self, d: Any) -> None:
        d.x = drag(self.x) / 3


def test_marked_helpers_and_the_helpers_that_they_call_give_equal_bits() -> None:
    calls, draw = both(Helped), random.Random(3)
    for _ in range(1000):
        equal_at(calls, np.array([draw.gauss(0, 10)]))


@compiled
def squared(value: float) -> float:
    return value**2


def helper_with_a_power(self: Any, d: Any) -> None:
    d.x = squared(self.x)
    d.v[0] = d.v[1] = d.v[2] = 0.0


text: dict[str, Any] = {"__name__": __name__}
exec("def without_source(value):\n    return value", text)
without_source = compiled(text["without_source"])


def helper_without_source(self: Any, d: Any) -> None:
    d.x = without_source(self.x)
    d.v[0] = d.v[1] = d.v[2] = 0.0


def unmarked(value: float) -> float:
    return value


def refused(body: Callable[[Any, Any], None]) -> type[rt.Plant]:
    """Return a plant with two states, whose derivative is ``body``."""

    class Two(rt.Plant):
        x = rt.state("1", 1.0)
        v = rt.state("1", shape=(3,))
        derivative = body

    return Two


def power(self: Any, d: Any) -> None:
    d.x = self.x**2
    d.v[0] = d.v[1] = d.v[2] = 0.0


def own_sine(self: Any, d: Any) -> None:
    d.x = np.sin(self.x)
    d.v[0] = d.v[1] = d.v[2] = 0.0


def remainder(self: Any, d: Any) -> None:
    d.x = self.x % 2.0
    d.v[0] = d.v[1] = d.v[2] = 0.0


def sums(self: Any, d: Any) -> None:
    d.x = np.sum(self.v)
    d.v[0] = d.v[1] = d.v[2] = 0.0


def whole_vector(self: Any, d: Any) -> None:
    d.x = self.x
    d.v = 2.0 * self.v


def negative_zero(self: Any, d: Any) -> None:
    held = 0
    if self.x > 1.0:
        held = self.x
    d.x = -held
    d.v[0] = d.v[1] = d.v[2] = 0.0


def zero_times(self: Any, d: Any) -> None:
    d.x = (0 if self.x > 1.0 else self.x) * -1
    d.v[0] = d.v[1] = d.v[2] = 0.0


def counts(self: Any, d: Any) -> None:
    n = 1
    while self.x * n < 1e30:
        n *= 3
    d.x = n * 1.0
    d.v[0] = d.v[1] = d.v[2] = 0.0


def grows(self: Any, d: Any) -> None:
    n, m = 1, 1
    for _ in range(3):
        n = m * 1000
        m = n * 1000
    d.x = self.x * n
    d.v[0] = d.v[1] = d.v[2] = 0.0


def whole_of(self: Any, d: Any) -> None:
    d.x = int(self.x)
    d.v[0] = d.v[1] = d.v[2] = 0.0


def by_a_constant(self: Any, d: Any) -> None:
    d.x = self.x + 1.0 / ZERO
    d.v[0] = d.v[1] = d.v[2] = 0.0


def does_not_compile(self: Any, d: Any) -> None:
    d.x = unmarked(self.x)
    d.v[0] = d.v[1] = d.v[2] = 0.0


def rounds(self: Any, d: Any) -> None:
    d.x = math.floor(self.x) + math.hypot(self.x, 1.0)
    d.v[0] = d.v[1] = d.v[2] = 0.0


@pytest.mark.parametrize(
    "body",
    [
        *(power, own_sine, remainder, sums, whole_vector, negative_zero, zero_times, counts),
        *(grows, whole_of, by_a_constant, does_not_compile, rounds),
        *(helper_with_a_power, helper_without_source),
    ],
)
def test_what_python_and_the_compiler_may_compute_differently_is_not_used(
    body: Callable[[Any, Any], None],
) -> None:
    assert not same_bits(derivative_of(refused(body)), EQUATION)


def test_a_function_whose_source_may_have_changed_is_not_used() -> None:
    def motion(t: float, x: Any, z: Any, u: Any, p: Any, dx: Any) -> None:  # noqa: ARG001
        dx[0] = x[0]

    assert not same_bits(motion, EQUATION)


def test_global_numbers_and_arrays_are_constants(monkeypatch: pytest.MonkeyPatch) -> None:
    def body(self: Any, d: Any) -> None:
        d.x = GAIN * self.x + TABLE[0]
        d.v[0] = d.v[1] = d.v[2] = 0.0

    calls = both(refused(body))
    monkeypatch.setitem(globals(), "GAIN", 7.0)
    first = TABLE[0]
    try:
        TABLE[0] = 99.0
        equal_at(calls, np.array([2.0, 0.0, 0.0, 0.0]))
    finally:
        TABLE[0] = first


def test_with_its_machine_code_in_the_cache_nothing_begins_as_plain_python(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(subject, "kept", lambda *_: True)
    assert plain_at_first({"f": (derivative_of(Branches), EQUATION, False)}) == {}


def test_with_a_library_for_vectors_nothing_begins_as_plain_python(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(subject, "vectors_have_their_own_functions", lambda: True)
    assert plain_at_first({"f": (derivative_of(Branches), EQUATION, False)}) == {}


def test_the_page_names_each_allowed_function() -> None:
    page = Path(__file__).parents[2].joinpath("docs", "compiling.md").read_text("utf-8")
    row = next(line for line in page.splitlines() if line.startswith("| functions | `abs`"))
    of_python, of_math, of_numpy = re.split("; of `math`:|; of NumPy:", row)
    assert re.findall(r"`(\w+)`", of_math) == sorted(subject.MATH)
    assert re.findall(r"`(\w+)`", of_numpy) == sorted(subject.NUMPY)
    assert re.findall(r"`(\w+)`", of_python) == ["abs", "float", "max", "min"]
