"""Functions that give equal bits as plain Python and as machine code, and those that may not."""

from __future__ import annotations

import linecache
import math
import random
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rtsim as rt
from rtsim.equations import plain_operations as operations
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


def filling(text: str, states: int = 3) -> type[rt.Plant]:
    """Return a plant with the states a, b, c, whose derivative computes each line of ``text``.

    The results are the derivatives of ``out``.
    """
    lines = text.split("\n")
    source = [
        "class Filling(rt.Plant):",
        *(f"    {name} = rt.state('1', 1.0)" for name in "abc"[:states]),
        f"    out = rt.state('1', shape=({len(lines)},))",
        "    def derivative(self, d):",
        "        a, b, c = self.a, self.b, self.c",
        "        d.a, d.b, d.c = a, b, c",
        *(f"        d.out[{i}] = {line}" for i, line in enumerate(lines)),
    ]
    name = f"filling-{len(linecache.cache)}.py"
    whole = "\n".join(source) + "\n"
    linecache.cache[name] = len(whole), None, whole.splitlines(True), name
    space: dict[str, Any] = {"rt": rt, "np": np, "math": math, "__name__": __name__}
    exec(compile(whole, name, "exec"), space)
    made: type[rt.Plant] = space["Filling"]
    return made


def calls_of(module: str, table: Mapping[str, Any], skip: Sequence[str] = ()) -> list[str]:
    """Return a call of each function of ``table``."""
    given = {1: "a", 2: "a, b"}
    calls = [(name, f"{module}{name}({given[one[1]]})", one[2]) for name, one in table.items()]
    return [
        f"1.0 if {call} else 0.0" if result == operations.TRUTH else call
        for name, call, result in calls
        if name not in skip
    ]


OPERATIONS = """\
a + b
a - b
a * b
a / b
-a
abs(b)
a**2
a**3
a**7
a**0
a**1
a**2.0
a**0.5
a**1.5
a**-0.5
a**-1.0
a**0.3
a**-2.5
a**1.0
a**0.0
a**7.0
max(a, 0)**2
(a - b)**2 / (a + b)**3
a % b
a // b
a % 2.0
a // 0.7
a % -3
a // -3
7 % a
a % 0.0
a // 0.0
min(a, b, 0.5)
max(a, b, -0.5)
min(max(a, 0), 1)
math.hypot(a, 3)
math.hypot(a - b, b - c)
math.floor(a) * 0.5
math.ceil(a) + b
int(a) / 3.0
round(a * b) - a
float(int(a))
2.5 if round(a) == 3 else int(b)
np.maximum(a, 0)
np.minimum(0.0, b)
np.sqrt(a) / np.sin(b)
1.0 / np.log(a)
1.0 / math.log(b)
1.0 / a**2
2.0 / math.hypot(a, b)
1.0 / (a % b)
math.exp(np.log(a) * b)
1.0 / float(round(a))
1.0 / np.sin(self.t)
self.t % 0.7 // a"""
LIBRARY = [
    *OPERATIONS.split("\n"),
    *calls_of("math.", operations.MATH, ["copysign"]),
    *calls_of("np.", operations.NUMPY, ["copysign"]),
    *calls_of("", operations.BUILTIN),
]
SPECIAL = [
    *(0.0, -0.0, 1.0, -1.0, math.inf, -math.inf, 5e-324, -5e-324, 1e308, -1e308, 710.0, -746.0),
    *(0.5, 1.5, 2.5, -2.5, 2.2250738585072014e-308, 2.0**52, 2.0**53, 2.0**63, -(2.0**63), 9.3e18),
    math.nan,
]


def of_bits(draw: random.Random) -> float:
    """Return a float of random bits: of any size, subnormal, infinite or NaN."""
    bits = draw.getrandbits(64)
    if draw.random() < 0.1:
        bits &= 0x800FFFFFFFFFFFFF
    return float(np.uint64(bits).view(np.float64))


def states() -> list[tuple[float, float]]:
    draw = random.Random(5)
    near = [(draw.uniform(-1, 1), draw.uniform(-1, 1)) for _ in range(1000)]
    far = [(draw.gauss(0, 1) * 10.0 ** draw.uniform(-9, 9), draw.gauss(0, 9)) for _ in range(1000)]
    any_bits = [(of_bits(draw), of_bits(draw)) for _ in range(1000)]
    half = [(of_bits(draw), draw.gauss(0, 9)) for _ in range(500)]
    return [*near, *far, *any_bits, *half, *((a, b) for a in SPECIAL for b in SPECIAL)]


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


@pytest.mark.sample(4)
@pytest.mark.parametrize("first", range(0, len(LIBRARY), 12))
def test_each_allowed_operation_gives_equal_bits(first: int) -> None:
    lines = LIBRARY[first : first + 12]
    calls, x = both(filling("\n".join(lines))), np.zeros(3 + len(lines))
    for x[0], x[1] in states():
        x[2] = x[1] / 3.0
        equal_at(calls, x)


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


class Vectors(rt.Plant):
    """Whole vectors, their parts, and a vector with a name."""

    x = rt.state("1", shape=(4,))
    y = rt.state("1", shape=(4,))
    z = rt.state("1", shape=(4,))

    def distance(self) -> float:
        r = self.x - self.y
        return math.sqrt(r[0] ** 2 + r[1] ** 2)

    def derivative(self, d: Any) -> None:
        r = self.y - self.x
        d.x = 12.0 * r / self.distance() + 2
        n = -r * np.abs(self.y)
        n[0] = np.sum(self.x) * n.size
        d.y = n
        d.y[1] += d.x[0] * self.t**2 + self.t**1.5
        held = self.x
        d.z[0:2] = np.sqrt(held[0:2]) * TABLE[0:2] / 3
        d.z[2:4] = self.x[1:3]
        for i in range(3):
            d.z[(i + 1) % 4] += held[i // 2]


@pytest.mark.long
def test_vectors_give_equal_bits() -> None:
    calls, draw = both(Vectors), random.Random(11)
    for _ in range(1000):
        equal_at(calls, np.array([draw.gauss(0, 1) * 10 ** draw.uniform(-9, 9) for _ in range(12)]))
    for _ in range(1000):
        equal_at(calls, np.array([of_bits(draw) for _ in range(12)]))


def test_functions_of_vectors_give_equal_bits() -> None:
    def motion(t: float, x: Any, z: Any, u: Any, p: Any, dx: Any) -> None:  # noqa: ARG001
        dx[0] = x[1]
        dx[1] = -GAIN * x[0] ** 3 - np.sin(x[1]) * t

    found = plain_at_first({"f": (motion, EQUATION, False)})
    calls, draw = (found["f"].call, compile_function(motion, EQUATION, "f").call), random.Random(1)
    for _ in range(1000):
        equal_at(calls, np.array([draw.gauss(0, 1), draw.gauss(0, 9)]))


def test_sums_of_long_vectors_give_equal_bits() -> None:
    def motion(t: float, x: Any, z: Any, u: Any, p: Any, dx: Any) -> None:  # noqa: ARG001
        dx[:] = x / 3.0
        dx[0] = np.sum(x)

    found = plain_at_first({"f": (motion, EQUATION, False)})
    calls, draw = (found["f"].call, compile_function(motion, EQUATION, "f").call), random.Random(2)
    for _ in range(300):
        equal_at(calls, np.array([draw.gauss(0, 1) * 10 ** draw.uniform(-3, 3) for _ in range(40)]))


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
def raised(value: float) -> float:
    return value**-2


def helper_with_a_power(self: Any, d: Any) -> None:
    d.x = raised(self.x)
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


def power_of_two_numbers(self: Any, d: Any) -> None:
    d.x = self.x ** self.v[0]
    d.v[0] = d.v[1] = d.v[2] = 0.0


def power_of_a_constant(self: Any, d: Any) -> None:
    d.x = 2.0**self.x
    d.v[0] = d.v[1] = d.v[2] = 0.0


def negative_power(self: Any, d: Any) -> None:
    d.x = self.x**-2
    d.v[0] = d.v[1] = d.v[2] = 0.0


def third_root(self: Any, d: Any) -> None:
    d.x = np.cbrt(self.x)
    d.v[0] = d.v[1] = d.v[2] = 0.0


def norm(self: Any, d: Any) -> None:
    d.x = np.linalg.norm(self.v)
    d.v[0] = d.v[1] = d.v[2] = 0.0


def product(self: Any, d: Any) -> None:
    d.x = np.dot(self.v, self.v)
    d.v[0] = d.v[1] = d.v[2] = 0.0


def matrix_product(self: Any, d: Any) -> None:
    d.x = self.v @ self.v
    d.v[0] = d.v[1] = d.v[2] = 0.0


def table(self: Any, d: Any) -> None:
    d.x = np.interp(self.x, TABLE, TABLE)
    d.v[0] = d.v[1] = d.v[2] = 0.0


def sine_of_a_vector(self: Any, d: Any) -> None:
    d.x = np.sum(np.sin(self.v))
    d.v[0] = d.v[1] = d.v[2] = 0.0


def power_of_a_vector(self: Any, d: Any) -> None:
    d.x = np.sum(self.v**2)
    d.v[0] = d.v[1] = d.v[2] = 0.0


def power_of_a_product(self: Any, d: Any) -> None:
    d.x = math.pow(self.x, 2.0)
    d.v[0] = d.v[1] = d.v[2] = 0.0


def both_parts(self: Any, d: Any) -> None:
    d.x = divmod(self.x, 2.0)[1]
    d.v[0] = d.v[1] = d.v[2] = 0.0


def digits(self: Any, d: Any) -> None:
    d.x = round(self.x, 2)
    d.v[0] = d.v[1] = d.v[2] = 0.0


def whole_index(self: Any, d: Any) -> None:
    d.x = self.v[int(self.x)]
    d.v[0] = d.v[1] = d.v[2] = 0.0


def whole_sum(self: Any, d: Any) -> None:
    d.x = int(self.x) + 1
    d.v[0] = d.v[1] = d.v[2] = 0.0


def gamma(self: Any, d: Any) -> None:
    d.x = math.gamma(self.x)
    d.v[0] = d.v[1] = d.v[2] = 0.0


def sum_of_python(self: Any, d: Any) -> None:
    d.x = sum(self.v)
    d.v[0] = d.v[1] = d.v[2] = 0.0


def spacing(self: Any, d: Any) -> None:
    d.x = np.spacing(self.x)
    d.v[0] = d.v[1] = d.v[2] = 0.0


def sign_bit(self: Any, d: Any) -> None:
    d.x = 1.0 if np.signbit(self.x) else 0.0
    d.v[0] = d.v[1] = d.v[2] = 0.0


def power_of_what_it_wrote(self: Any, d: Any) -> None:
    d.v[0] = d.v[1] = d.v[2] = 0.7
    d.x = d.v[0] ** 0.5 + self.x


def power_of_a_table(self: Any, d: Any) -> None:
    d.v[0] = d.v[1] = d.v[2] = self.x
    d.x = (2.0 * TABLE[0]) ** 0.5


@compiled
def filled(values: Any) -> None:
    values[0] = 0.7


@compiled
def root(values: Any) -> float:
    return math.sqrt(values[0]) + float(values[0] ** 0.5)


def overlapping_parts(self: Any, d: Any) -> None:
    d.v[0] = d.v[1] = d.v[2] = d.x = self.x
    d.v[0:2] = d.v[1:3]


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


def by_a_constant(self: Any, d: Any) -> None:
    d.x = self.x + 1.0 / ZERO
    d.v[0] = d.v[1] = d.v[2] = 0.0


def does_not_compile(self: Any, d: Any) -> None:
    d.x = unmarked(self.x)
    d.v[0] = d.v[1] = d.v[2] = 0.0


@pytest.mark.parametrize(
    "body",
    [
        power_of_two_numbers,
        power_of_a_constant,
        negative_power,
        third_root,
        norm,
        product,
        matrix_product,
        table,
        sine_of_a_vector,
        power_of_a_vector,
        power_of_a_product,
        both_parts,
        digits,
        whole_index,
        whole_sum,
        gamma,
        sum_of_python,
        spacing,
        sign_bit,
        power_of_what_it_wrote,
        power_of_a_table,
        overlapping_parts,
        negative_zero,
        zero_times,
        counts,
        grows,
        by_a_constant,
        does_not_compile,
        helper_with_a_power,
        helper_without_source,
    ],
)
def test_what_python_and_the_compiler_may_compute_differently_is_not_used(
    body: Callable[[Any, Any], None],
) -> None:
    assert not same_bits(derivative_of(refused(body)), EQUATION)


def test_powers_of_what_a_function_wrote_or_its_helper_wrote_are_not_used() -> None:
    def by_helper(t: float, x: Any, z: Any, u: Any, p: Any, dx: Any) -> None:  # noqa: ARG001
        filled(z)
        dx[0] = z[0] ** 0.5

    def in_helper(t: float, x: Any, z: Any, u: Any, p: Any, dx: Any) -> None:  # noqa: ARG001
        z[0] = 0.7
        dx[0] = root(z)

    def read_only(t: float, x: Any, z: Any, u: Any, p: Any, dx: Any) -> None:  # noqa: ARG001
        filled(z)
        dx[0] = root(x)

    assert not same_bits(by_helper, EQUATION)
    assert not same_bits(in_helper, EQUATION)
    assert same_bits(read_only, EQUATION)


def test_a_function_whose_source_has_changed_is_not_used() -> None:
    name = "changed.py"
    before, after = "def motion(t, x, z, u, p, dx):\n    dx[0] = x[0]\n", "dx[0] = x[0] - 1.0\n"
    space: dict[str, Any] = {}
    exec(compile(before, name, "exec"), space)
    linecache.cache[name] = len(after), None, [before.split("\n")[0] + "\n", "    " + after], name
    assert not same_bits(space["motion"], EQUATION)


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
    assert re.findall(r"`(\w+)`", of_math) == sorted(operations.MATH)
    assert re.findall(r"`(\w+)`", of_numpy) == sorted({*operations.NUMPY, *operations.VECTORS})
    own = ["abs", "float", "max", "min", *operations.BUILTIN]
    assert re.findall(r"`(\w+)`", of_python) == sorted(own)
