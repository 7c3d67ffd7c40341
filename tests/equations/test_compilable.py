"""What docs/compiling.md says compiles does; what does not is named, with a substitute."""

from __future__ import annotations

import builtins
import math
import re
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numba
import numpy as np
import pytest
import scipy.special
from numba import types

from rtsim.core.errors import ModelError
from rtsim.equations import compilable
from rtsim.equations.addresses import EQUATION
from rtsim.equations.compiling import compile_function

PAGE = Path(__file__).resolve().parents[2] / "docs" / "compiling.md"
F, I = types.float64, types.int64  # noqa: E741
V, M = types.Array(F, 1, "C"), types.Array(F, 2, "C")
KINDS = {
    **dict.fromkeys(("len", "sum", *compilable.ARRAYS, "zeros_like"), (V,)),
    **dict.fromkeys(compilable.LINEAR, (M,)),
    **dict.fromkeys(("zeros", "empty"), (I,)),
    **dict.fromkeys(("cross", "dot"), (V, V)),
    "gcd": (I, I),
    "ldexp": (F, I),
    "range": (I,),
    "interp": (F, V, V),
    "searchsorted": (V, F),
    "solve": (M, V),
    "full": (I, F),
    "norm": (V,),
}
TWO = (
    *("atan2", "copysign", "hypot", "nextafter", "pow", "divmod", "max", "min", "arctan2", "fmax"),
    *("fmin", "fmod", "logaddexp", "maximum", "minimum", "mod", "power"),
)


def calls(function: Any, count: int) -> Callable[..., Any]:
    one: list[Callable[..., Any]] = [
        lambda a: function(a),
        lambda a, b: function(a, b),
        lambda a, b, c: function(a, b, c),
    ]
    return one[count - 1]


def compiles(home: ModuleType, name: str) -> None:
    kinds = (F, F) if name in TWO else KINDS.get(name, (F,))
    if home is not builtins and name in ("max", "min"):
        kinds = (V,)
    function = calls(getattr(home, name), len(kinds))
    numba.njit(kinds, no_cpython_wrapper=True, no_cfunc_wrapper=True)(function)


@pytest.mark.parametrize(
    ("home", "names"),
    [(math, compilable.MATH), (builtins, compilable.BUILTIN), (np, compilable.NUMBERS)],
    ids=["math", "builtins", "numbers"],
)
def test_each_listed_function_of_numbers_compiles(home: ModuleType, names: tuple[str, ...]) -> None:
    for name in names:
        compiles(home, name)


@pytest.mark.long
@pytest.mark.parametrize(
    ("home", "names"),
    [(np, (*compilable.ARRAYS, *compilable.MAKING)), (np.linalg, compilable.LINEAR)],
    ids=["arrays", "linear"],
)
def test_each_listed_function_of_arrays_compiles(home: ModuleType, names: tuple[str, ...]) -> None:
    for name in names:
        compiles(home, name)


def test_the_page_has_these_functions_and_no_others() -> None:
    listed = {
        f"{home}{name}"
        for home, names in {
            "math.": compilable.MATH, "": compilable.BUILTIN, "np.linalg.": compilable.LINEAR,
            "np.": (*compilable.NUMBERS, *compilable.ARRAYS, *compilable.MAKING),
        }.items()
        for name in names
    }  # fmt: skip
    rows = [line for line in PAGE.read_text("utf-8").splitlines() if line.startswith("| of ")]
    shown = {name for row in rows for name in re.findall(r"`([\w.]+)`", row.split("|")[2])}
    assert shown == listed
    page = PAGE.read_text("utf-8")
    for name in compilable.SUBSTITUTES:
        assert f"| `{name.replace('numpy.', 'np.')}` |" in page


@pytest.mark.parametrize("name", compilable.SUBSTITUTES)
def test_what_has_a_substitute_does_not_compile(name: str) -> None:
    homes = {"": builtins, "math": math, "numpy": np, "numpy.linalg": np.linalg}
    home = homes[name.rpartition(".")[0]]
    function = getattr(home, name.rpartition(".")[2], None)
    if function is None:
        pytest.skip(f"this Python has no {name}")
    three = name in ("math.hypot", "math.fma", "numpy.clip", "numpy.roll")
    two = "dist comb fmod isclose lcm perm remainder sumprod heaviside ldexp cross matmul polyval"
    tail = name.rpartition(".")[2]
    kinds = (F, F, F) if three else (F, F) if tail in two.split() else (F,)
    if tail == "lcm":
        kinds = (I, I)
    with pytest.raises(Exception, match=r"(?s)."):
        numba.njit(kinds)(calls(function, len(kinds)))


def helper(v: float) -> float:
    return 2.0 * v


def remainder(t: Any, x: Any, z: Any, u: Any, p: Any, out: Any) -> None:  # noqa: ARG001
    out[0] = math.remainder(x[0], 2.0)


def gradient(t: Any, x: Any, z: Any, u: Any, p: Any, out: Any) -> None:  # noqa: ARG001
    out[0] = np.gradient(x)[0]


def unmarked(t: Any, x: Any, z: Any, u: Any, p: Any, out: Any) -> None:  # noqa: ARG001
    out[0] = helper(x[0])


def three_sides(t: Any, x: Any, z: Any, u: Any, p: Any, out: Any) -> None:  # noqa: ARG001
    out[0] = math.hypot(x[0], 1.0, 2.0)


def special(t: Any, x: Any, z: Any, u: Any, p: Any, out: Any) -> None:  # noqa: ARG001
    out[0] = scipy.special.gamma(x[0])


def renamed(t: Any, x: Any, z: Any, u: Any, p: Any, out: Any) -> None:  # noqa: ARG001
    out[0] = whole(x[0])


whole = math.modf


def method(t: Any, x: Any, z: Any, u: Any, p: Any, out: Any) -> None:  # noqa: ARG001
    out[0] = x.dump()


def clipped(t: Any, x: Any, z: Any, u: Any, p: Any, out: Any) -> None:  # noqa: ARG001
    out[0] = np.clip(x[0], 0.0, 1.0)


def built_in(t: Any, x: Any, z: Any, u: Any, p: Any, out: Any) -> None:  # noqa: ARG001
    out[0] = any([x[0] > 1.0])


def misspelt(t: Any, x: Any, z: Any, u: Any, p: Any, out: Any) -> None:  # noqa: ARG001
    out[0] = thrsut * x[0]  # type: ignore[name-defined]  # noqa: F821


def statement(t: Any, x: Any, z: Any, u: Any, p: Any, out: Any) -> None:  # noqa: ARG001
    with np.errstate() as out[0]:
        pass


HERE = r"\(test_compilable\.py:\d+\)"


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (clipped, rf"clip\(float64, .*\) {HERE} does not compile; use min\(max\(x, low\), high"),
        (built_in, rf"any {HERE} does not compile; write a loop over the elements"),
        (misspelt, r"the name thrsut, which is not defined, does not compile; define or import it"),
        (statement, r"the statement with does not compile; write it with statements that compile"),
        (remainder, r"math\.remainder \(test_compilable\.py:\d+\) does not compile; use x - y"),
        (gradient, r"numpy\.gradient \(.*\) does not compile; write a loop over the elements"),
        (
            unmarked,
            rf"the function helper {HERE} does not compile; mark helper with @rtsim\.compiled",
        ),
        (three_sides, r"hypot\(float64, .*\) does not compile; use math\.sqrt\(x \* x"),
        (special, r"scipy\.special\.gamma \(.*\) does not compile; SciPy's functions"),
        (renamed, rf"math\.modf {HERE} does not compile; use math\.trunc\(x\) and"),
        (method, r"the method dump of an array \(.*\) does not compile; write a loop"),
    ],
)
def test_what_does_not_compile_is_named_with_a_substitute(function: Any, said: str) -> None:
    with pytest.raises(ModelError, match=rf"^law does not compile: {said}.*; or run it uncompiled"):
        compile_function(function, EQUATION, "law")
