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
