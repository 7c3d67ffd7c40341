"""Every cell of the F-16's tables against the published ones, through the functions that fly.

The check shots touch a few cells; here each function is asked at each breakpoint of each table, so
that no cell, no breakpoint and no order of the axes can be another one.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import numpy as np
import pytest
from published import Table, tables

from rtsim.models.f16.aerodynamics import (
    _DATA,
    BOOK_SIDESLIP,
    BOOK_SURFACES,
    DEGREES_PER_RADIAN,
    NASA_SIDESLIP,
    NASA_SURFACES,
    coefficients,
    thrust_lbf,
)

AERO, PROP, BOOK = (tables(f"f16_{name}_tables") for name in ("aero", "prop", "book"))
NASA, PRINTED = (NASA_SIDESLIP, NASA_SURFACES), (BOOK_SIDESLIP, BOOK_SURFACES)
CX, CY, CZ, CL, CM, CN = range(6)


def asked(
    alpha: float,
    beta: float = 0.0,
    elevator: float = 0.0,
    rates: tuple[float, float, float] = (0.0, 0.0, 0.0),
    aileron: float = 0.0,
    rudder: float = 0.0,
    laterals: tuple[np.ndarray, np.ndarray] = NASA,
) -> np.ndarray:
    found = coefficients(
        alpha, beta, *rates, elevator, aileron, rudder, *laterals, DEGREES_PER_RADIAN, False
    )
    return np.array(found)


def alone(which: int, **one: float | tuple[float, float, float]) -> Callable[[float, float], float]:
    """What a rate or a surface adds to a coefficient at (alpha, beta)."""

    def added(alpha: float, beta: float = 0.0) -> float:
        with_it, without = asked(alpha, beta, **one), asked(alpha, beta)  # type: ignore[arg-type]
        return float((with_it - without)[which])

    return added


P, Q, R = (1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0)
OVER_ALPHA: dict[str, Callable[..., float]] = {
    "CZ0_table": lambda alpha: float(asked(alpha)[CZ]),
    "CXq_table": alone(CX, rates=Q),
    "CYr_table": alone(CY, rates=R),
    "CYp_table": alone(CY, rates=P),
    "CZq_table": alone(CZ, rates=Q),
    "Clr_table": alone(CL, rates=R),
    "Clp_table": alone(CL, rates=P),
    "Cmq_table": alone(CM, rates=Q),
    "Cnr_table": alone(CN, rates=R),
    "Cnp_table": alone(CN, rates=P),
}
OVER_TWO: dict[str, Callable[..., float]] = {
    "CX_table": lambda elevator, alpha: float(asked(alpha, elevator=elevator)[CX]),
    "Cm0_table": lambda elevator, alpha: float(asked(alpha, elevator=elevator)[CM]),
    "Cl0_table": lambda beta, alpha: float(asked(alpha, beta)[CL]),
    "Cn0_table": lambda beta, alpha: float(asked(alpha, beta)[CN]),
    "dlda_table": lambda beta, alpha: alone(CL, aileron=20.0)(alpha, beta),
    "dldr_table": lambda beta, alpha: alone(CL, rudder=30.0)(alpha, beta),
    "dnda_table": lambda beta, alpha: alone(CN, aileron=20.0)(alpha, beta),
    "dndr_table": lambda beta, alpha: alone(CN, rudder=30.0)(alpha, beta),
}
POWER = {"T_IDLE table": 0.0, "T_MIL table": 50.0, "T_MAX table": 100.0}


def answered(table: Table, ask: Callable[..., float]) -> np.ndarray:
    """What is answered at each breakpoint, in the table's shape."""
    return np.array([ask(*at) for at in product(*table.over)]).reshape(table.values.shape)


def differing(table: Table, ask: Callable[..., float]) -> list[tuple[object, ...]]:
    """(breakpoints, published, answered) of the cells that are not what was published."""
    found = answered(table, ask)
    close = np.isclose(found, table.values, rtol=1e-12, atol=1e-12)
    return [
        (*(over[k] for over, k in zip(table.over, at, strict=True)), table.values[at], found[at])
        for at in map(tuple, np.argwhere(~close).tolist())
    ]


@pytest.mark.parametrize("name", [*OVER_ALPHA, *OVER_TWO])
def test_every_cell_of_the_aerodynamics_is_as_published(name: str) -> None:
    ask = OVER_ALPHA.get(name) or OVER_TWO[name]
    assert differing(AERO[name], ask) == []


@pytest.mark.parametrize("name", POWER)
def test_every_cell_of_the_engine_is_as_published(name: str) -> None:
    assert (
        differing(PROP[name], lambda mach, altitude: thrust_lbf(POWER[name], altitude, mach)) == []
    )


def test_the_books_rolling_moments_are_as_printed() -> None:
    """The rudder's is NASA's but for one cell, which table 3.5-2 of the book needs."""

    def sideslip(beta: float, alpha: float) -> float:
        return float(asked(alpha, beta, laterals=PRINTED)[CL])

    def rudder(beta: float, alpha: float) -> float:
        moved = asked(alpha, beta, rudder=30.0, laterals=PRINTED)
        return float((moved - asked(alpha, beta, laterals=PRINTED))[CL])

    assert differing(BOOK["Cl0_printed"], sideslip) == []
    ((beta, alpha, nasa, book),) = differing(AERO["dldr_table"], rudder)
    assert (beta, alpha, nasa) == (-10.0, 30.0, 0.0)
    assert book == pytest.approx(-0.002, abs=1e-12)


def test_no_table_is_left_out() -> None:
    assert sorted([*OVER_ALPHA, *OVER_TWO]) == sorted(AERO)
    assert sorted(POWER) == sorted(PROP)
    of_the_book = {"cl_stevens_lewis", "cl_rudder_stevens_lewis"}
    assert len(_DATA["aerodynamics"].keys() - of_the_book) == len(AERO) == 18
    assert len(_DATA["propulsion"]) == len(PROP) == 3
    cells = sum(table.values.size for table in (*AERO.values(), *PROP.values()))
    assert cells == 10 * 12 + 2 * 5 * 12 + 6 * 7 * 12 + 3 * 6 * 6


@pytest.mark.parametrize("cell", range(0, 84, 7))
def test_a_cell_that_is_off_by_a_thousandth_is_seen(cell: int) -> None:
    """The checks above can fail: a changed table is told with its cell, and no other one is."""
    changed = NASA_SIDESLIP.copy()
    row, column = divmod(cell, 12)
    changed[row, column, 0] += 0.001

    def ask(beta: float, alpha: float) -> float:
        return float(asked(alpha, beta, laterals=(changed, NASA_SURFACES))[CL])

    table = AERO["Cl0_table"]
    ((beta, alpha, published, found),) = differing(table, ask)
    assert (beta, alpha) == (table.over[0][row], table.over[1][column])
    assert found == pytest.approx(float(str(published)) + 0.001)
