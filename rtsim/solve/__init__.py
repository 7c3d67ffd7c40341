"""Solvers and the search for guard crossings; tableaus are data, and one suite tests all."""

from __future__ import annotations

from rtsim.core.errors import UnknownName
from rtsim.solve.adaptive import BS32, DP54, Adaptive
from rtsim.solve.base import (
    GOOD,
    OUT_OF_BUDGET,
    TOO_SMALL,
    EmbeddedTableau,
    NystromTableau,
    Solver,
    Stepper,
    Tableau,
)
from rtsim.solve.euler import EULER
from rtsim.solve.explicit import ExplicitRungeKutta
from rtsim.solve.midpoint import MIDPOINT
from rtsim.solve.multistep import ABM4
from rtsim.solve.rk4 import RK4
from rtsim.solve.rkn4 import RKN4, Nystrom
from rtsim.solve.scipy_solvers import BDF, DOP853, LSODA, RADAU, SciPy
from rtsim.solve.semi_implicit import SEMI_IMPLICIT_EULER

SOLVERS: dict[str, Solver] = {
    s.name: s
    for s in (
        *(EULER, SEMI_IMPLICIT_EULER, MIDPOINT, RK4, RKN4, ABM4),
        *(BS32, DP54),
        *(DOP853, RADAU, BDF, LSODA),
    )
}

__all__ = [
    "ABM4",
    "BDF",
    "BS32",
    "DOP853",
    "DP54",
    "EULER",
    "GOOD",
    "LSODA",
    "MIDPOINT",
    "OUT_OF_BUDGET",
    "RADAU",
    "RK4",
    "RKN4",
    "SEMI_IMPLICIT_EULER",
    "SOLVERS",
    "TOO_SMALL",
    "Adaptive",
    "EmbeddedTableau",
    "ExplicitRungeKutta",
    "Nystrom",
    "NystromTableau",
    "SciPy",
    "Solver",
    "Stepper",
    "Tableau",
    "solver_named",
]


def solver_named(name: str | Solver) -> Solver:
    """The solver called ``name``; a solver object is returned as it is."""
    if not isinstance(name, str):
        return name
    if name not in SOLVERS:
        raise UnknownName("solver", name, SOLVERS)
    return SOLVERS[name]
