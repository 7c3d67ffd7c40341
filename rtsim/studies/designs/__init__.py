"""The designs of a study, by name.

Other packages add designs through the entry point ``rtsim.designs`` (docs/studies.md).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rtsim.core.errors import ScenarioError
from rtsim.core.extension_point import ExtensionPoint
from rtsim.studies.designs.base import Design, Points, Space, UnitDesign
from rtsim.studies.designs.levels import Grid, OneAtATime, Table
from rtsim.studies.designs.sampling import (
    Antithetic,
    CommonRandomNumbers,
    LatinHypercube,
    MonteCarlo,
    Replications,
    SobolSequence,
    Strata,
)
from rtsim.studies.designs.screening import Morris, Saltelli
from rtsim.studies.designs.search import Search
from rtsim.studies.texts import call_of, listed, made


def _checked(name: str, made: object) -> type[Design]:
    if not (isinstance(made, type) and issubclass(made, Design)) or made.name != name:
        raise ScenarioError(
            f"design {name!r} is {made!r}; expected a subclass of rtsim.studies.Design whose "
            f"name is {name!r}"
        )
    return made


_SHIPPED: tuple[type[Design], ...] = (
    Replications, MonteCarlo, Antithetic, LatinHypercube, SobolSequence, Grid, OneAtATime, Morris,
    Saltelli, Strata, CommonRandomNumbers, Table, Search,
)  # fmt: skip
DESIGNS: ExtensionPoint[type[Design]] = ExtensionPoint(
    "rtsim.designs", "design", {one.name: one for one in _SHIPPED}, _checked
)
"""Classes of the designs, by name."""


def design_of(plain: Mapping[str, Any]) -> Design:
    given = dict(plain)
    make = DESIGNS.get_or_raise(str(given.pop("design", "")))
    if isinstance(given.get("base"), Mapping):
        given["base"] = design_of(given["base"])
    return made(f"design {make.name}", make, [], given)


def design_of_text(text: str) -> Design:
    """Parse a design such as ``saltelli:base=256`` or ``grid:levels=5``.

    Blanks separate several values of one argument, as in ``strata:gust,at=0.9 0.99,runs=9 9 9``.
    """
    call = call_of(text)
    make = DESIGNS.get_or_raise(call.name)
    values = [listed(v) for v in call.values]
    named = {k: listed(v) for k, v in call.named.items()}
    return made(f"design {text!r}", make, values, make.named(named))


__all__ = [
    "DESIGNS", "Antithetic", "CommonRandomNumbers", "Design", "Grid", "LatinHypercube",
    "MonteCarlo", "Morris", "OneAtATime", "Points", "Replications", "Saltelli", "Search",
    "SobolSequence", "Space", "Strata", "Table", "UnitDesign", "design_of", "design_of_text",
]  # fmt: skip
