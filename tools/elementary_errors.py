"""Measure the errors of rtsim.equations.elementary.

``python -m tools.elementary_errors`` prints a table with the largest error of each function, in
units in the last place (ulp), at a million arguments for each range. ``--points 10000000`` takes
more arguments. The reference are the functions of the C library for ``long double``, which have 64
bits; ``--mpmath 1000`` compares these, too, with mpmath, at 1000 arguments for each range.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rtsim.equations.addresses import VECTOR
from rtsim.equations.compiling import compile_function
from rtsim.equations.elementary import FUNCTIONS

Numbers = NDArray[np.float64]
Draw = Callable[[np.random.Generator, int], Numbers]


def between(low: float, high: float) -> Draw:
    """Return a function that draws from a uniform distribution."""
    return lambda random, count: random.uniform(low, high, count)


def sized(low: float, high: float) -> Draw:
    """Return a function that draws the logarithm of a positive number uniformly."""
    ends = math.log2(low), math.log2(high)
    return lambda random, count: np.exp2(random.uniform(*ends, count))


def either(draw: Draw) -> Draw:
    """Return a function that draws with either sign."""
    return lambda random, count: draw(random, count) * random.choice([-1.0, 1.0], count)


def angles_near_zeros(random: np.random.Generator, count: int) -> Numbers:
    """Draw the floats nearest to multiples of pi/2."""
    found: Numbers = np.asarray(
        random.integers(1, 2**40, count).astype(np.longdouble) * _HALF_TURN, dtype=np.float64
    )
    return found


_HALF_TURN = np.longdouble(2) * np.arctan(np.longdouble(1))
ALL = sized(2.0**-1022, 2.0**1023)
_ANGLES = (between(-10.0, 10.0), either(sized(1e-8, 2e8)), either(sized(1e8, 1e300)))
RANGES: dict[str, Sequence[Sequence[Draw]]] = {
    "sin": [[d] for d in (*_ANGLES, angles_near_zeros)],
    "cos": [[d] for d in (*_ANGLES, angles_near_zeros)],
    "tan": [[d] for d in (*_ANGLES, angles_near_zeros)],
    "asin": [[between(-1.0, 1.0)], [either(sized(1e-9, 1.0))]],
    "acos": [[between(-1.0, 1.0)], [either(sized(1e-9, 1.0))]],
    "atan": [[between(-3.0, 3.0)], [either(ALL)]],
    "atan2": [[between(-1.0, 1.0)] * 2, [either(sized(1e-9, 1e9))] * 2, [either(ALL)] * 2],
    "exp": [[between(-1.0, 1.0)], [between(-746.0, 710.0)], [either(sized(1e-18, 700.0))]],
    "expm1": [[between(-1.0, 1.0)], [between(-50.0, 710.0)], [either(sized(1e-18, 700.0))]],
    "log": [[between(0.5, 2.0)], [ALL]],
    "log1p": [[between(-0.9, 2.0)], [either(sized(1e-18, 0.9))], [ALL]],
    "log2": [[between(0.5, 2.0)], [ALL]],
    "log10": [[between(0.5, 2.0)], [ALL]],
    "pow": [
        [between(0.5, 2.0), between(-5.0, 5.0)],
        [sized(1e-9, 1e9), either(sized(1e-3, 40.0))],
        [between(0.9999, 1.0001), either(sized(1e3, 1e7))],
        [ALL, between(-1.1, 1.1)],
    ],
    "cbrt": [[between(-8.0, 8.0)], [either(ALL)]],
    "sinh": [[between(-1.0, 1.0)], [either(sized(1e-18, 710.4))]],
    "cosh": [[between(-1.0, 1.0)], [either(sized(1e-18, 710.4))]],
    "tanh": [[between(-1.0, 1.0)], [either(sized(1e-18, 30.0))]],
    "hypot": [[between(-1.0, 1.0)] * 2, [ALL, ALL]],
    "fmod": [[between(-9.0, 9.0), between(-1.0, 1.0)], [either(ALL), either(ALL)]],
}
"""For each function, ranges of its arguments."""
_NUMPY = {"asin": "arcsin", "acos": "arccos", "atan": "arctan", "atan2": "arctan2", "pow": "power"}


def reference(name: str, arguments: Sequence[Numbers]) -> NDArray[np.longdouble]:
    """Return the results of the C library for ``long double``."""
    function = getattr(np, _NUMPY.get(name, name))
    with np.errstate(all="ignore"):
        found: NDArray[np.longdouble] = function(*(x.astype(np.longdouble) for x in arguments))
    return found


@cache
def _loop(name: str) -> Any:
    function = FUNCTIONS[name]

    def one(x: Any, out: Any) -> None:
        for i in range(x.size):
            out[i] = function(x[i])

    def two(x: Any, y: Any, out: Any) -> None:
        for i in range(x.size):
            out[i] = function(x[i], y[i])

    count = len(RANGES[name][0])
    loop = (one, two)[count - 1]
    return compile_function(loop, (VECTOR,) * (count + 1), f"the loop over {name}").call


def compiled(name: str, arguments: Sequence[Numbers]) -> Numbers:
    """Return the results of the compiled function."""
    out = np.empty_like(arguments[0])
    _loop(name)(*arguments, out)
    return out


def error(found: Numbers, exact: NDArray[np.longdouble]) -> Numbers:
    """Return errors in units in the last place; infinite results are correct if both are."""
    with np.errstate(all="ignore"):
        near = exact.astype(np.float64)
        unit = np.spacing(np.abs(near).clip(max=np.finfo(np.float64).max))
        off = np.abs(found.astype(np.longdouble) - exact) / unit
    same = (found == near) & np.isinf(near) | np.isnan(found) & np.isnan(near)
    return np.where(same, 0.0, np.where(np.isnan(off), np.inf, off)).astype(np.float64)


@dataclass(frozen=True)
class Worst:
    """The largest error of a function (ulp), and the arguments with this error."""

    error: float
    arguments: tuple[float, ...]


def worst(name: str, draws: Sequence[Draw], count: int, seed: int = 0) -> Worst:
    """Return the largest error at ``count`` arguments, drawn in blocks of at most 2**18."""
    random, found = np.random.default_rng(seed), Worst(0.0, ())
    while count > 0:
        size = min(count, 2**18)
        arguments = [draw(random, size) for draw in draws]
        errors = error(compiled(name, arguments), reference(name, arguments))
        at = int(np.argmax(errors))
        if errors[at] >= found.error:
            found = Worst(float(errors[at]), tuple(float(x[at]) for x in arguments))
        count -= size
    return found


def exactly(name: str, arguments: Sequence[float]) -> Any:
    """Return a result of mpmath with 400 digits, which suffice for all angles."""
    import mpmath as mp

    with mp.workdps(400):
        x, *rest = map(mp.mpf, arguments)
        if name == "cbrt":
            return mp.sign(x) * mp.cbrt(abs(x))
        if name == "log2":
            return mp.log(x) / mp.log(2)
        if name == "fmod":
            return mp.sign(x) * mp.fmod(abs(x), abs(rest[0]))
        return getattr(mp, {"pow": "power"}.get(name, name))(x, *rest)


def off_exactly(found: float, exact: Any) -> float:
    """Return the error (ulp) of a float, given a result of mpmath."""
    import mpmath as mp

    if math.isinf(found) or math.isinf(float(exact)):
        return 0.0 if found == float(exact) else math.inf
    return float(abs(mp.mpf(found) - exact) / mp.mpf(math.ulp(float(exact))))


def reference_errors(name: str, draws: Sequence[Draw], count: int) -> Iterator[float]:
    """Yield errors of the reference, in units in the last place of a ``double``."""
    import mpmath as mp

    random = np.random.default_rng(1)
    arguments = [draw(random, count) for draw in draws]
    for given, found in zip(zip(*arguments, strict=True), reference(name, arguments), strict=True):
        exact = exactly(name, [float(x) for x in given])
        near = float(exact)
        if math.isinf(near):
            continue
        part, exponent = np.frexp(found)
        high = float(part)
        low = float(part - np.longdouble(high))
        with mp.workdps(60):
            off = abs(mp.ldexp(mp.mpf(high) + mp.mpf(low), int(exponent)) - exact)
            yield float(off / mp.mpf(math.ulp(near)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--points", type=int, default=10**6)
    parser.add_argument("--mpmath", type=int, default=0)
    parser.add_argument("names", nargs="*", default=[])
    options = parser.parse_args()
    print(f"{'function':10}{'largest error (ulp)':>20}   arguments")
    for name in options.names or RANGES:
        found = max(
            (worst(name, draws, options.points, i) for i, draws in enumerate(RANGES[name])),
            key=lambda one: one.error,
        )
        print(f"{name:10}{found.error:20.4f}   {', '.join(map(repr, found.arguments))}", flush=True)
        if options.mpmath:
            off = max(
                max(reference_errors(name, draws, options.mpmath), default=0.0)
                for draws in RANGES[name]
            )
            print(f"{'':10}{off:20.4f}   (the reference, compared with mpmath)", flush=True)


if __name__ == "__main__":
    main()
