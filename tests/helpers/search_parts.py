"""The study that the tests of searches share: the unstable plant with four factors."""

from __future__ import annotations

from typing import Any

from rtsim.studies.designs import Design
from rtsim.studies.reductions import MaxAbs
from rtsim.studies.study import Study

FACTORS = {
    "plant.x": (-1.0, 1.0),
    "plant.v": (-1.0, 1.0),
    "plant.stiffness": (1.0, 3.0),
    "controller.proportional": (6.0, 10.0),
}


def study(design: Design, seed: int = 0, limit: float = 0.9, **more: Any) -> Study:
    """Return the study of the largest position within 0.3 s, which must stay below ``limit``."""
    results = {"peak": MaxAbs("plant.x")}
    return Study(FACTORS, design, results, [f"peak < {limit}"], until=0.3, seed=seed, **more)


BROKEN = """
import math
from rtsim.models.unstable import scenario
from rtsim.studies import Search, Study


def result(recording):
    x = recording["plant.x"][0]
    if x > 0.8:
        raise ValueError("too far")
    return math.nan if x > 0.6 else 1.0 - x


def study():
    factors = {"plant.x": (0.0, 1.0)}
    design = Search("rest", runs=60)
    return Study(factors, design, {"rest": result}, ["rest > 0.3"], until=0.1)
"""
