"""Solvers: tableaus as data, one contract, one conformance suite."""

from __future__ import annotations

from rtsim.errors import UnknownName
from rtsim.solve.base import NystromTableau, Solver, Stepper, Tableau
from rtsim.solve.euler import EULER
from rtsim.solve.explicit import ExplicitRungeKutta
from rtsim.solve.rk4 import RK4
from rtsim.solve.rkn4 import RKN4, Nystrom

SOLVERS: dict[str, Solver] = {s.name: s for s in (EULER, RK4, RKN4)}

__all__ = [
    "EULER",
    "RK4",
    "RKN4",
    "SOLVERS",
    "ExplicitRungeKutta",
    "Nystrom",
    "NystromTableau",
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
