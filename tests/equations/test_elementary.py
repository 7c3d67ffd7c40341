"""Elementary functions: errors, special values, symmetry, order, and equal bits in all engines."""

from __future__ import annotations

import importlib
import itertools
import math
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import llvmlite.binding as llvm
import numpy as np
import pytest
from numpy.typing import NDArray

from rtsim.equations.addresses import MATRIX, VECTOR
from rtsim.equations.compiling import prepare_compiler
from rtsim.equations.elementary import FUNCTIONS, linking, tables
from rtsim.equations.machine_code import EntryPoint, link
from rtsim.equations.other_math import Names, Replacements
from tools.elementary_errors import (
    RANGES,
    compiled,
    error,
    exactly,
    off_exactly,
    reference,
    reference_errors,
    worst,
)

EXTENDED = np.finfo(np.longdouble).nmant >= 63
"""Whether ``long double`` has more bits than ``double``."""
NAMES = sorted(FUNCTIONS)
ONE = [name for name in NAMES if len(RANGES[name][0]) == 1]
TWO = [name for name in NAMES if len(RANGES[name][0]) == 2]
LEAST, MOST = 5e-324, 1.7976931348623157e308
SPECIAL = [
    s * x
    for s in (1.0, -1.0)
    for x in (
        *(0.0, LEAST, 3e-320, 2.2250738585072014e-308, 1e-300, 1e-20, 0.25, 0.5, 1.0, 1.5, 2.0),
        *(3.0, math.pi, 709.0, 745.0, 2.0**28, 2.0**52 + 1.0, 2.0**53, 1e22, 1e300, MOST, math.inf),
    )
] + [math.nan]


def words(values: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return the bits of floats, with one NaN for all NaN."""
    return np.where(np.isnan(values), math.nan, values).view(np.int64)


def samples(name: str, count: int = 500) -> list[NDArray[np.float64]]:
    """Return special arguments, and arguments of all ranges, for a function."""
    random = np.random.default_rng(5)
    parts = [[draw(random, count) for draw in draws] for draws in RANGES[name]]
    if name in ONE:
        return [np.concatenate([np.array(SPECIAL), *(part[0] for part in parts)])]
    pairs = np.array(list(itertools.product(SPECIAL, SPECIAL)))
    return [np.concatenate([pairs[:, i], *(part[i] for part in parts)]) for i in (0, 1)]


@pytest.mark.skipif(not EXTENDED, reason="long double has no more bits than double")
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("count", [10**4, pytest.param(10**7, marks=pytest.mark.long)])
def test_the_error_is_less_than_one_unit_in_the_last_place(name: str, count: int) -> None:
    for seed, draws in enumerate(RANGES[name]):
        found = worst(name, draws, count, seed)
        assert found.error < 0.95, found


@pytest.mark.skipif(not EXTENDED, reason="long double has no more bits than double")
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("count", [20, pytest.param(1000, marks=pytest.mark.long)])
def test_the_reference_agrees_with_exact_results(name: str, count: int) -> None:
    pytest.importorskip("mpmath", reason="pip install mpmath")
    for draws in RANGES[name]:
        assert max(reference_errors(name, draws, count), default=0.0) < 0.01


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("count", [20, pytest.param(10**5, marks=pytest.mark.long)])
def test_the_error_against_exact_results(name: str, count: int) -> None:
    pytest.importorskip("mpmath", reason="pip install mpmath")
    for draws in RANGES[name]:
        random = np.random.default_rng(7)
        arguments = [draw(random, count) for draw in draws]
        found = compiled(name, arguments)
        for given, value in zip(zip(*arguments, strict=True), found, strict=True):
            numbers = [float(x) for x in given]
            assert off_exactly(float(value), exactly(name, numbers)) < 0.95, numbers


@pytest.mark.skipif(not EXTENDED, reason="long double has no more bits than double")
@pytest.mark.parametrize("name", NAMES)
def test_special_values_are_those_of_the_c_library(name: str) -> None:
    arguments = [x[: len(SPECIAL) ** (1 + (name in TWO))] for x in samples(name)]
    found, exact = compiled(name, arguments), reference(name, arguments)
    with np.errstate(over="ignore"):
        near = exact.astype(np.float64)
    wrong = np.isnan(found) != np.isnan(near)
    wrong |= np.isinf(found) != np.isinf(near)
    wrong |= (np.signbit(found) != np.signbit(near)) & ~np.isnan(found)
    wrong |= (found == 0.0) != (near == 0.0)
    wrong |= error(found, exact) > 0.95
    assert not wrong.any(), [(x[wrong], found[wrong], near[wrong]) for x in arguments]


@pytest.mark.parametrize("name", NAMES)
def test_plain_python_and_machine_code_give_equal_bits(name: str) -> None:
    arguments = samples(name)
    function = FUNCTIONS[name]
    plain = np.array([function(*map(float, one)) for one in zip(*arguments, strict=True)])
    assert np.array_equal(words(plain), words(compiled(name, arguments)))


ODD = ("sin", "tan", "asin", "atan", "expm1", "cbrt", "sinh", "tanh")


@pytest.mark.parametrize("name", [n for n in ODD if n != "expm1"])
def test_odd_functions_are_odd(name: str) -> None:
    (x,) = samples(name)
    assert np.array_equal(words(compiled(name, [-x])), words(-compiled(name, [x])))


@pytest.mark.parametrize("name", ["cos", "cosh"])
def test_even_functions_are_even(name: str) -> None:
    (x,) = samples(name)
    assert np.array_equal(words(compiled(name, [-x])), words(compiled(name, [x])))


def test_lengths_and_angles_have_the_symmetries_of_the_plane() -> None:
    y, x = samples("atan2")
    assert np.array_equal(words(compiled("hypot", [x, y])), words(compiled("hypot", [y, -x])))
    assert np.array_equal(words(compiled("atan2", [-y, x])), words(-compiled("atan2", [y, x])))


RISING = {
    "exp": (-700.0, 700.0),
    "expm1": (-40.0, 700.0),
    "log": (1e-300, 1e300),
    "log1p": (-0.99, 1e6),
    "log2": (1e-300, 1e300),
    "log10": (1e-300, 1e300),
    "asin": (-1.0, 1.0),
    "atan": (-1e6, 1e6),
    "sinh": (-700.0, 700.0),
    "tanh": (-20.0, 20.0),
    "cbrt": (-1e9, 1e9),
    "sin": (-1.57, 1.57),
    "tan": (-1.57, 1.57),
}
STEPS = 200


@pytest.mark.parametrize("name", RISING)
@pytest.mark.parametrize("count", [200, pytest.param(20_000, marks=pytest.mark.long)])
def test_rising_functions_never_fall_between_neighbouring_floats(name: str, count: int) -> None:
    low, high = RISING[name]
    random = np.random.default_rng(3)
    start = random.uniform(low, high, count)
    if low > 0.0:
        start = np.exp(random.uniform(math.log(low), math.log(high), count))
    edges = {  # where the method changes
        "asin": [0.5, -0.5],
        "log": list(1.0 / tables.LOGARITHMS[::3]),
        "exp": [math.log(2.0) * (i + 0.5) / 128.0 for i in range(-300, 300)],
        "atan": [math.tan(math.pi / 8.0), 1.0, 1.0 / math.tan(math.pi / 8.0)],
    }
    start = np.concatenate([start, edges.get(name, [])])
    x = start[:, None] + np.spacing(start)[:, None] * np.arange(-STEPS // 2, STEPS // 2)
    x = np.sort(np.clip(x, low, high), axis=1)
    values = compiled(name, [x.ravel()]).reshape(x.shape)
    falls = np.diff(values, axis=1) < 0.0
    assert not falls.any(), x[:, 1:][falls][:5]


@pytest.mark.parametrize("x", [2.0, 3.0, 5.0, 7.0, 10.0])
def test_whole_powers_that_are_floats_are_exact(x: float) -> None:
    for n in range(1, 23):
        if x**n < 2.0**53:
            assert FUNCTIONS["pow"](x, float(n)) == x**n
    assert FUNCTIONS["log2"](2.0**40) == 40.0
    assert FUNCTIONS["log10"](1e15) == 15.0


def test_tables_are_those_of_the_tool() -> None:
    pytest.importorskip("mpmath", reason="pip install mpmath")
    import mpmath as mp

    from tools.minimax import tables as text

    with mp.workdps(60):
        assert Path(tables.__file__).read_text() == text()


_VECTORS = """
import sys
import llvmlite.binding as llvm
width = sys.argv[1]
llvm.set_option("", f"-force-vector-width={width}")
llvm.set_option("", "-force-vector-interleave=1")
import numba, numpy as np
from rtsim.equations import compiling
from rtsim.equations.elementary import FUNCTIONS, angles, powers
compiling._load_compiler()
FORMS = {
    "exp": lambda x, y: powers._raised(x, 0.0),
    "log": lambda x, y: powers._logarithm(x, 0.0)[0],
    "pow": lambda x, y: powers._raised(*powers._times(y, *powers._logarithm(x, 0.0))),
    "atan2": lambda y, x: angles._direction(
        max(abs(x), abs(y)), min(abs(x), abs(y)), abs(y) > abs(x), y, x),
    "hypot": lambda x, y: powers._length(max(abs(x), abs(y)), min(abs(x), abs(y))),
    "sin": lambda x, y: angles._sine_of(*angles._near(abs(x)), x),
    "sinh": lambda x, y: powers.sinh(x),
    "tanh": lambda x, y: powers.tanh(x),
    "expm1": lambda x, y: powers.expm1(x),
    "cbrt": lambda x, y: powers.cbrt(x),
    "asin": lambda x, y: angles.asin(x),
}
random = np.random.default_rng(11)
for name, form in FORMS.items():
    form = numba.njit(error_model="numpy", forceinline=True)(form)
    @numba.njit(error_model="numpy", no_cpython_wrapper=False)
    def loop(x, y, out):
        for i in range(x.size):
            out[i] = form(x[i], y[i])
    x = random.uniform(-1.0, 1.0, 4099) if name == "asin" else random.uniform(0.01, 20.0, 4099)
    y = random.uniform(-20.0, 20.0, 4099)
    out = np.empty_like(x)
    loop(x, y, out)
    code = next(iter(loop.inspect_llvm().values()))
    two = name in ("pow", "atan2", "hypot")
    own = [FUNCTIONS[name](*map(float, one)) for one in (zip(x, y) if two else zip(x))]
    same = bool((np.array(own).view(np.int64) == out.view(np.int64)).all())
    print(name, same, f"<{width} x double>" in code)
"""


@pytest.mark.long
@pytest.mark.parametrize("width", [2, 4, 8])
def test_vectors_give_the_bits_of_plain_python(width: int) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _VECTORS, str(width)],
        capture_output=True,
        text=True,
        env={**os.environ, "NUMBA_OPT": "3"},
    )
    assert done.returncode == 0, done.stderr
    lines = [line.split() for line in done.stdout.splitlines()]
    assert len(lines) == 11
    assert all(same == "True" for _, same, _ in lines), done.stdout
    vectors = {name for name, _, wide in lines if wide == "True"}
    assert {"exp", "log", "pow", "atan2", "sin", "hypot"} <= vectors, done.stdout


def everything(x: Any, y: Any, out: Any) -> None:
    """Fill ``out`` with results of all functions that compiled code takes from the C library."""
    for i in range(x.size):
        a, b = x[i], y[i]
        out[0, i] = math.sin(a) + math.cos(0.3)
        out[1, i] = math.cos(a) * np.sin(b)
        out[2, i] = math.tan(a)
        out[3, i] = math.asin(a / 40.0) + np.arccos(b / 10.0)
        out[4, i] = math.atan(a) + np.arctan2(a, b)
        out[5, i] = math.exp(a) + np.expm1(b)
        out[6, i] = math.log(b) + np.log10(b)
        out[7, i] = math.log1p(b) + np.log2(b)
        out[8, i] = b**a
        out[9, i] = math.sinh(a) + np.cosh(b)
        out[10, i] = math.tanh(a)
        out[11, i] = math.hypot(a, b)


OWN = {
    **FUNCTIONS,
    "arccos": FUNCTIONS["acos"],
    "arctan2": FUNCTIONS["atan2"],
}


@pytest.mark.long
def test_compiled_functions_of_users_can_take_the_own_functions(tmp_path: Path) -> None:
    signature = (VECTOR, VECTOR, MATRIX)
    prepare_compiler()
    lowering = importlib.import_module("rtsim.equations.lowering")
    code = lowering.lower(everything, signature, tmp_path / "kept", False, linking.CHANGES)
    assert not re.search(rb"\0(sin|cos|tan|pow|exp|log|atan2|hypot)\0", b"".join(code.objects))
    random = np.random.default_rng(2)
    x, y = random.uniform(-30.0, 30.0, 500), random.uniform(0.001, 9.0, 500)
    found, plain = np.zeros((12, x.size)), np.zeros((12, x.size))
    EntryPoint(link(code), signature)(x, y, found)
    names = Names(OWN)
    copied = Replacements({math: names, np: names}, {}).copy_of(everything)
    copied(x, y, plain)
    rows = [i for i in range(12) if i != 8]  # plain Python computes ** itself
    assert np.array_equal(words(found[rows].ravel()), words(plain[rows].ravel()))
    powers = [FUNCTIONS["pow"](b, a) for a, b in zip(x.tolist(), y.tolist(), strict=True)]
    assert np.array_equal(words(found[8]), words(np.array(powers)))


@pytest.mark.long
def test_names_of_both_kinds_in_one_module_become_one() -> None:
    text = """
declare double @llvm.sin.f64(double)
declare double @rtsim.sin(double)
declare double @atan2(double, double)
define double @f(double %x) {
  %a = call double @llvm.sin.f64(double %x)
  %b = call double @rtsim.sin(double %a)
  %c = call double @atan2(double %a, double %b)
  ret double %c
}
"""
    whole = str(linking.linked(llvm.parse_assembly(text)))
    assert "llvm.sin" not in whole
    assert "@atan2(" not in whole
    assert "define internal double @rtsim.sin(" in whole
    assert "define internal double @rtsim.atan2(" in whole
