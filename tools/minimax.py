"""Compute the coefficients of the polynomials in rtsim.equations.elementary.

``python -m tools.minimax`` prints the coefficients of each polynomial and its largest error. The
coefficients come from Remez's exchange algorithm, in 60 decimal digits: E. Remez, Sur la
determination des polynomes d'approximation de degre donnee, 1934; J.-M. Muller, Elementary
Functions, 2016, section 3.5. Requires mpmath.
"""

from __future__ import annotations

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
    Problem(  # log(1 + f) = 2 * atanh(s) with s = f / (2 + f)
        "LOG",
        _even(lambda s: 2 * mp.atanh(s), lambda s: 2 * s, 3, lambda k: mp.mpf(2) / (2 * k + 3)),
        lambda z: z,
        lambda: (3 - 2 * mp.sqrt(2)) ** 2 * mp.mpf("1.001"),
        7,
    ),
    Problem(
        "POW",
        _even(
            lambda s: 3 * mp.atanh(s),
            lambda s: 3 * s + s**3,
            5,
            lambda k: mp.mpf(3) / (2 * k + 5),
        ),
        lambda _: mp.mpf(1),
        lambda: (3 - 2 * mp.sqrt(2)) ** 2 * mp.mpf("1.001"),
        8,
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


def main() -> None:
    mp.mp.dps = 60
    for problem in PROBLEMS:
        coefficients, error = minimax(problem)
        print(f"{problem.name}: largest error 2**{float(mp.log(error, 2)):.1f}")
        for c in coefficients:
            print(f"    {c!r},")


if __name__ == "__main__":
    main()
