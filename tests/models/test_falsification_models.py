"""The benchmarks for falsification: their traces, and inputs that violate each requirement."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.interpolate import RegularGridInterpolator, interp1d

import rtsim as rt
from rtsim.core.errors import UnknownName
from rtsim.models.falsification import cars, transmission
from rtsim.models.falsification.requirements import CARS, TRANSMISSION, end, required
from rtsim.requirements import check, read_requirements

AT, CC = "transmission", "cars"
MODELS: dict[str, Any] = {AT: transmission, CC: cars}
SOURCES = {AT: "pedals", CC: "leader"}
Input = tuple[tuple[float, float, float], ...]
"""Times in s, and throttle and brake from these times on."""


def driven(model: str, given: Input, **options: Any) -> Any:
    """Return the run of a benchmark with an input."""
    _, throttle, brake = given[0]
    scenario = MODELS[model].scenario(throttle=throttle, brake=brake, **options)
    for before, (t, *values) in pairwise(given):
        for name, old, new in zip(("throttle", "brake"), before[1:], values, strict=True):
            if old != new and t < scenario.until:
                scenario.at(t, f"{SOURCES[model]}.{name}", new)
    return rt.simulate(scenario)


# Inputs and robustness in the repository ERATOMMSD/falstar, files
# results/quest2019-journal/falstar-1.csv at 39d642a, and instance1/cc.csv at 176b90c. They are runs
# of the Simulink models.
SLOW = "always[0, 30] car.speed < 120"
NOT_BETWEEN = "not always[10, 30] 50 <= car.speed <= 60"
FAST = "always[0, 10] car.speed < 80 or eventually[0, 30] car.rpm > 4500"
FAST_AT_LOW_RPM = "always[0, 10] car.speed < 50 or eventually[0, 30] car.rpm > 2700"
PUBLISHED = (
    (AT, SLOW, ((0, 100, 0),), -17.980199361426514),
    (AT, SLOW, ((0, 100, 162.5), (15, 100, 10.15625), (22.5, 100, 325)), -1.8555748756042192),
    (AT, SLOW, ((0, 100, 325), (15, 100, 0)), -11.220951438219288),
    (AT, SLOW, ((0, 50, 284.375), (10, 100, 0), (25, 75, 0)), -4.740537532593038),
    (AT, SLOW, ((0, 75, 0), (10, 100, 243.75), (20, 100, 162.5)), -0.8783142956569066),
    (AT, NOT_BETWEEN, ((0, 37.5, 0), (10, 25, 0), (20, 0, 0)), -0.12086007517342523),
    (AT, NOT_BETWEEN, ((0, 50, 203.125), (10, 12.5, 0), (20, 37.5, 325)), -2.061884233313208),
    (AT, FAST, ((0, 81.25, 0), (10, 0, 325)), -6.041439027059852),
    (AT, FAST, ((0, 75, 0), (10, 50, 0), (25, 0, 0)), -2.2262107994370837),
    (AT, FAST_AT_LOW_RPM, ((0, 37.5, 0), (10, 0, 0)), -1.5044496074318587),
    (CC, "CC1", ((0, 0.5, 0), (50, 1, 1)), -44.12514924482045),
    (CC, "CC1", ((0, 0.5, 0), (50, 0, 1)), -44.12514924482045),
    (CC, "CC2", ((0, 0, 1), (50, 0.5, 0)), -5.0),
)


@pytest.mark.parametrize(("model", "formula", "given", "published"), PUBLISHED)
def test_the_robustness_is_that_of_the_simulink_model(
    model: str, formula: str, given: Input, published: float
) -> None:
    if model == AT:
        found = check([formula], driven(AT, given, until=30))[0].robustness
        assert abs(found - published) < 0.005
    else:
        located = driven(CC, given, requirement=formula, located=True).requirements[0].robustness
        assert abs(located - published) < 1e-9
        stepped = driven(CC, given, requirement=formula).requirements[0].robustness
        assert abs(stepped - published) < 0.15


# Inputs in the repository MasWag/FalCAuN-ARCH-COMP, file FalCAuN_ARCH2024_validation.csv: each
# violates the requirement in the Simulink model.
VIOLATING: dict[str, Input] = {
    "AT1": ((0, 100, 0),),
    "AT2": ((0, 100, 0), (2, 50, 0), (4, 100, 0)),
    "CC1": ((0, 1, 0), (5, 1, 1), (10, 1, 0), (15, 0, 0), (20, 1, 0)),
    "CC2": ((0, 0, 1), (25, 1, 0)),
}
