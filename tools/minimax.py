"""Compute the coefficients of the polynomials in rtsim.equations.elementary.

``python -m tools.minimax`` prints the coefficients of each polynomial and its largest error. The
coefficients come from Remez's exchange algorithm, in 60 decimal digits: E. Remez, Sur la
determination des polynomes d'approximation de degre donnee, 1934; J.-M. Muller, Elementary
Functions, 2016, section 3.5. Requires mpmath.
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import mpmath as mp

Function = Callable[..., Any]


@dataclass(frozen=True)
class Problem:
    """A polynomial in z with ``terms`` coefficients that approximates ``of`` from 0 to ``end``.

    The error of the result is the error of the polynomial times ``weight``.
    """

    name: str
    of: Function
    weight: Function
    end: Function
    terms: int
    begin: Function = lambda: mp.mpf(0)


def _over(numerator: Function, divisor: Function, limit: Function) -> Function:
    """Return a quotient, with ``limit`` near the zero of the divisor."""

    def value(z: Any) -> Any:
        return limit(z) if abs(z) < mp.mpf(10) ** -14 else numerator(z) / divisor(z)

    return value


def _series(coefficient: Callable[[int], Any]) -> Function:
    def value(z: Any) -> Any:
        return sum(coefficient(k) * z**k for k in range(8))

    return value


def _even(f: Function, first: Function, power: int, coefficient: Callable[[int], Any]) -> Function:
    """Return ``(f(r) - first(r)) / r**power`` as a function of ``z``, the square of ``r``."""
    return _over(
        lambda z: f(mp.sqrt(z)) - first(mp.sqrt(z)),
        lambda z: mp.sqrt(z) ** power,
        _series(coefficient),
    )


def _sign(k: int) -> int:
    return -1 if k % 2 else 1


PROBLEMS = (
    Problem(
        "SIN",
        _even(mp.sin, lambda r: r, 3, lambda k: mp.mpf(-_sign(k)) / mp.factorial(2 * k + 3)),
        lambda z: z,
        lambda: (mp.pi / 4) ** 2 * mp.mpf("1.01"),
        6,
    ),
    Problem(
        "COS",
        _even(
            mp.cos,
            lambda r: 1 - r * r / 2,
            4,
            lambda k: mp.mpf(_sign(k)) / mp.factorial(2 * k + 4),
        ),
        lambda z: z * z / mp.cos(mp.sqrt(z)),
        lambda: (mp.pi / 4) ** 2 * mp.mpf("1.01"),
        6,
    ),
    Problem(
        "ATAN",
        _even(mp.atan, lambda r: r, 3, lambda k: mp.mpf(-_sign(k)) / (2 * k + 3)),
        lambda z: z,
        lambda: (mp.sqrt(2) - 1) ** 2 * mp.mpf("1.001"),
        11,
    ),
    Problem(
        "ASIN",
        _even(
            mp.asin,
            lambda r: r,
            3,
            lambda k: mp.binomial(2 * k + 2, k + 1) / mp.mpf(4) ** (k + 1) / (2 * k + 3),
        ),
        lambda z: z,
        lambda: mp.mpf("0.25"),
        14,
    ),
    Problem(
        "EXP_NEAR",
        _over(
            lambda z: mp.exp(z) - 1 - z,
            lambda z: z * z,
            _series(lambda k: 1 / mp.factorial(k + 2)),
        ),
        lambda z: max(z * z, mp.mpf("1e-9")),
        lambda: mp.log(2) / 256 * mp.mpf("1.001"),
        4,
        lambda: -mp.log(2) / 256 * mp.mpf("1.001"),
    ),
    Problem(
        "LOG_NEAR",
        _over(
            lambda z: mp.log1p(z) - z + z * z / 2,
            lambda z: z**3,
            _series(lambda k: mp.mpf(_sign(k)) / (k + 3)),
        ),
        lambda z: max(z * z, mp.mpf("1e-9")),
        lambda: mp.mpf("0.0056"),
        6,
        lambda: mp.mpf("-0.0056"),
    ),
    Problem(
        "EXP",
        _over(
            lambda z: mp.exp(z) - 1 - z,
            lambda z: z * z,
            _series(lambda k: 1 / mp.factorial(k + 2)),
        ),
        lambda z: max(z * z, mp.mpf("1e-4")) / mp.exp(z),
        lambda: mp.log(2) / 2 * mp.mpf("1.001"),
        11,
        lambda: -mp.log(2) / 2 * mp.mpf("1.001"),
    ),
    Problem(
        "SINH",
        _even(mp.sinh, lambda r: r, 3, lambda k: 1 / mp.factorial(2 * k + 3)),
        lambda z: z,
        lambda: (mp.log(2) / 2) ** 2 * mp.mpf("1.01"),
        5,
    ),
    Problem(
        "COSH",
        _even(mp.cosh, lambda _: mp.mpf(1), 2, lambda k: 1 / mp.factorial(2 * k + 2)),
        lambda z: z,
        lambda: (mp.log(2) / 2) ** 2 * mp.mpf("1.01"),
        6,
    ),
    Problem("CBRT", mp.cbrt, lambda z: 1 / mp.cbrt(z), lambda: mp.mpf(2), 6, lambda: mp.mpf(1)),
)


def minimax(problem: Problem) -> tuple[list[float], float]:
    """Return the coefficients, lowest first, and the largest error with these coefficients."""
    begin, end, n = problem.begin(), problem.end(), problem.terms
    points = [(begin + end) / 2 - (end - begin) / 2 * mp.cos(mp.pi * k / n) for k in range(n + 1)]

    def off(coefficients: Any, z: Any) -> Any:
        return (mp.polyval(coefficients[::-1], z) - problem.of(z)) * problem.weight(z)

    for _ in range(7):
        points = [max(z, begin + (end - begin) * mp.mpf(10) ** -9) for z in points]
        rows = [
            [*(z**k for k in range(n)), _sign(i) / problem.weight(z)] for i, z in enumerate(points)
        ]
        solved = mp.lu_solve(mp.matrix(rows), mp.matrix([problem.of(z) for z in points]))
        found = [solved[k] for k in range(n)]
        grid = [(begin + end) / 2 - (end - begin) / 2 * mp.cos(mp.pi * k / 600) for k in range(601)]
        errors = [off(found, z) for z in grid]
        points = _extremes(grid, errors, n + 1)
    rounded = [float(c) for c in found]
    return rounded, float(max(abs(off([mp.mpf(c) for c in rounded], z)) for z in grid[1:]))


def _extremes(grid: list[Any], errors: list[Any], count: int) -> list[Any]:
    found: list[tuple[Any, Any]] = []
    for z, error in zip(grid, errors, strict=True):
        if found and (error > 0) == (found[-1][1] > 0):
            if abs(error) > abs(found[-1][1]):
                found[-1] = (z, error)
        else:
            found.append((z, error))
    while len(found) > count:
        found.pop(0 if abs(found[0][1]) < abs(found[-1][1]) else -1)
    if len(found) < count:
        raise ArithmeticError(f"the error has only {len(found)} extremes; use more digits")
    return [z for z, _ in found]


OFFSET = 0x3FE6955500000000
"""The bits of the least number of the table of logarithms, which has 128 intervals."""


def logarithms() -> list[tuple[float, float, float]]:
    """Return the inverse of the middle of each interval, and its negative logarithm in two parts.

    The inverses are multiples of 2**-10. The first part of a logarithm is a multiple of 2**-42.
    """
    found = []
    for i in range(128):
        ends = [_number(OFFSET + (j << 45)) for j in (i, i + 1)]
        inside = ends[0] < 1.0 < ends[1]
        inverse = mp.mpf(1) if inside else mp.nint(2048 / (mp.mpf(ends[0]) + ends[1])) / 1024
        exact = -mp.log(inverse)
        first = mp.ldexp(mp.nint(mp.ldexp(exact, 42)), -42)
        found.append((float(inverse), float(first), float(exact - first)))
    return found


def powers() -> list[tuple[float, float]]:
    """Return 2 to the power i / 128 for i < 128, and what its relative error adds."""
    found = []
    for i in range(128):
        exact = mp.mpf(2) ** (mp.mpf(i) / 128)
        found.append((float(exact), float(exact / float(exact) - 1)))
    return found


def _number(word: int) -> float:
    found: float = struct.unpack("<d", struct.pack("<q", word))[0]
    return found


def tables() -> str:
    """Return the text of rtsim/equations/elementary/tables.py."""
    parts = [_HEAD]
    for name, rows, what in (
        ("LOGARITHMS", logarithms(), _LOGARITHMS),
        ("POWERS", powers(), _POWERS),
    ):
        lines = ["        " + ", ".join(repr(x) for x in row) + ",\n" for row in rows]
        parts.append(f"{name} = np.array(\n    [\n{''.join(lines)}    ]\n)  # fmt: skip\n{what}\n")
    return "\n".join(parts).rstrip() + "\n"


_QUOTES = '"' * 3
_HEAD = f"""{_QUOTES}Contain tables of logarithms and powers.

``python -m tools.minimax tables`` prints this file.
{_QUOTES}

from __future__ import annotations

import numpy as np
"""
_LOGARITHMS = f"""{_QUOTES}An inverse ``c`` of the middle of an interval, and -log(c) in two parts.

The first interval begins at the number with the bits 0x3FE6955500000000. Each has 2**45 numbers.
The inverses are multiples of 2**-10, and the first parts are multiples of 2**-42.
{_QUOTES}
"""
_POWERS = f"""{_QUOTES}2 to the power i / 128 for i < 128, and the relative error of this float.
{_QUOTES}
"""


def main() -> None:
    mp.mp.dps = 60
    if "tables" in sys.argv:
        print(tables(), end="")
        return
    for problem in PROBLEMS:
        coefficients, error = minimax(problem)
        print(f"{problem.name}: largest error 2**{float(mp.log(error, 2)):.1f}")
        for c in coefficients:
            print(f"    {c!r},")


if __name__ == "__main__":
    main()
