"""Solvers for the differential equations of plants, and the protocol of solvers.

:data:`SOLVERS` contains every solver that a scenario can choose by name.  Other packages register
solvers with the entry point ``rtsim.solvers`` (docs/extending.md).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rtsim.core.errors import ScenarioError
from rtsim.core.extension_point import ExtensionPoint
from rtsim.core.lazy_exports import lazy_exports
from rtsim.solve.base import Solver

if TYPE_CHECKING:
    from rtsim.solve.adaptive import BS32, DP54, EVALUATIONS, UNBOUNDED, Adaptive
    from rtsim.solve.base import (
        GOOD,
        OUT_OF_BUDGET,
        PAUSED,
        TOO_MANY,
        TOO_SMALL,
        EmbeddedTableau,
        NystromTableau,
        Stall,
        Stepper,
        Tableau,
    )
    from rtsim.solve.fixed_step import (
        ABM4,
        EULER,
        MIDPOINT,
        RK4,
        RKN4,
        SEMI_IMPLICIT_EULER,
        ExplicitRungeKutta,
        Nystrom,
    )
    from rtsim.solve.rosenbrock import FACTORS, JACOBIANS, RODAS5P, Rosenbrock, RosenbrockTableau
    from rtsim.solve.scipy_solvers import BDF, DOP853, LSODA, RADAU, SciPy
    from rtsim.solve.sundials import CVODE, IDA, Sundials

SOLVER_PARTS = ("name", "order", "stepper")
"""The attributes that every solver must have."""


def _checked(name: str, made: object) -> Solver:
    if isinstance(made, type):
        raise ScenarioError(
            f"solver {name!r} is the class {made.__name__}; give an object, such as "
            f"{name.upper()} = {made.__name__}()"
        )
    missing = [part for part in SOLVER_PARTS if not hasattr(made, part)]
    if missing:
        raise ScenarioError(
            f"solver {name!r} is {made!r}, which has no {', '.join(missing)}; see "
            "rtsim.solve.Solver"
        )
    solver: Solver = made  # type: ignore[assignment]
    if solver.name != name:
        raise ScenarioError(
            f"the solver registered as {name!r} has the attribute name = {solver.name!r}; make "
            "both names equal"
        )
    return solver


SOLVERS: ExtensionPoint[Solver] = ExtensionPoint(
    "rtsim.solvers",
    "solver",
    {
        name.lower(): f"rtsim.solve.{module}:{name}"
        for module, names in (
            ("fixed_step", ("EULER", "SEMI_IMPLICIT_EULER", "MIDPOINT", "RK4", "RKN4", "ABM4")),
            ("adaptive", ("BS32", "DP54")),
            ("rosenbrock", ("RODAS5P",)),
            ("scipy_solvers", ("DOP853", "RADAU", "BDF", "LSODA")),
            ("sundials", ("CVODE", "IDA")),
        )
        for name in names
    },
    _checked,
)
"""The solvers that a scenario can choose, by name."""

__all__ = [
    "ABM4",
    "BDF",
    "BS32",
    "CVODE",
    "DOP853",
    "DP54",
    "EULER",
    "EVALUATIONS",
    "FACTORS",
    "GOOD",
    "IDA",
    "JACOBIANS",
    "LSODA",
    "MIDPOINT",
    "OUT_OF_BUDGET",
    "PAUSED",
    "RADAU",
    "RK4",
    "RKN4",
    "RODAS5P",
    "SEMI_IMPLICIT_EULER",
    "SOLVERS",
    "TOO_MANY",
    "TOO_SMALL",
    "UNBOUNDED",
    "Adaptive",
    "EmbeddedTableau",
    "ExplicitRungeKutta",
    "Nystrom",
    "NystromTableau",
    "Rosenbrock",
    "RosenbrockTableau",
    "SciPy",
    "Solver",
    "Stall",
    "Stepper",
    "Sundials",
    "Tableau",
    "solver_named",
]

__getattr__, __dir__ = lazy_exports(__name__)


def solver_named(name: str | Solver) -> Solver:
    """Return the solver with the name ``name``; return a solver object unchanged.

    Raises ``rtsim.core.errors.UnknownName`` for an unknown name.
    """
    return SOLVERS.get_or_raise(name) if isinstance(name, str) else name
