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
from tools import falsification_table
from tools.falsification_table import Benchmark, benchmarks, measure

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
            if old != new and t * 1e9 < scenario.until_ns:
                scenario.at(t, f"{SOURCES[model]}.{name}", new)
    return rt.simulate(scenario)


# Inputs and robustness in the repository ERATOMMSD/falstar, files
# results/quest2019-journal/falstar-1.csv at 39d642a, and instance1/cc.csv at 176b90c. They are runs
# of the Simulink models.
SLOW = "always[0, 30] car.speed < 120"
NOT_BETWEEN = "not always[10, 30] 50 <= car.speed <= 60"
FAST = "always[0, 10] car.speed < 80 or eventually[0, 30] car.rpm > 4500"
FAST_AT_LOW_RPM = "always[0, 10] car.speed < 50 or eventually[0, 30] car.rpm > 2700"
PUBLISHED: tuple[tuple[str, str, Input, float], ...] = (
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


@pytest.mark.sample(4)
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


# The inputs of AT1 to AT6c and CC1 to CC3 are from the repository MasWag/FalCAuN-ARCH-COMP at
# e8b40ee, file FalCAuN_ARCH2024_validation.csv: each violates the requirement in the Simulink
# model. The others were found with rtsim.
OFF, ON = (0.0, 0.0), (1.0, 1.0)
GAS, STOP = (1.0, 0.0), (0.0, 1.0)


def every(seconds: float, *values: tuple[float, float]) -> Input:
    return tuple((seconds * k, *value) for k, value in enumerate(values))


VIOLATING: dict[str, Input] = {
    "AT1": ((0, 100, 0),),
    "AT2": ((0, 100, 325),),
    "AT6a": every(
        2, (50, 0), (50, 325), (0, 325), (0, 325), (50, 325), (0, 325), (0, 325), (50, 325), (0, 0),
        (0, 325), (50, 0), (0, 325), (50, 0), (0, 325), (50, 0), (0, 325),
    ),
    "AT6abc": every(
        2, (50, 0), (50, 325), (0, 325), (0, 325), (0, 0), (0, 0), (0, 325), (0, 0), (50, 0),
        (0, 325), (50, 325), (50, 0), (0, 325), (50, 325), (0, 325), (50, 0),
    ),
    "AT6c": every(
        2, (50, 0), (50, 0), (0, 0), (50, 0), (50, 0), (0, 0), (50, 0), (50, 0), (50, 0), (50, 0),
        (50, 0), (50, 0), (0, 0), (50, 325), (50, 325), (50, 0),
    ),
    "CC1": every(5, GAS, ON, GAS, OFF, GAS),
    "CC2": every(5, STOP, STOP, STOP, STOP, STOP, GAS),
    "CC3": every(5, STOP, STOP, GAS),
    "AT6b": ((0, 42, 0),),
    "AT51": every(
        5, (12.5, 243.75), (75, 325), (87.5, 81.25), (25, 203.125), (62.5, 243.75), (87.5, 81.25),
        (100, 0),
    ),
    "AT53": every(
        5, (87.5, 0), (12.5, 81.25), (12.5, 284.375), (87.5, 203.125), (0, 0), (25, 121.875),
        (62.5, 162.5),
    ),
    "AT54": every(32.6 / 3, (0, 40.625), (50, 121.875), (87.5, 162.5)),
    "CC5": every(
        5, OFF, ON, ON, STOP, OFF, ON, ON, GAS, STOP, OFF, ON, GAS, STOP, ON, GAS, ON, OFF, GAS,
        GAS, OFF,
    ),
}  # fmt: skip
VIOLATING["AT52"] = VIOLATING["AT51"]
FILES = {AT: TRANSMISSION, CC: CARS}
NAMES = {one.name: model for model, file in FILES.items() for one in read_requirements(file)}


@pytest.mark.parametrize("name", VIOLATING)
def test_a_known_input_violates_a_requirement(name: str) -> None:
    (found,) = driven(NAMES[name], VIOLATING[name], requirement=name).requirements
    assert found.verdict == "violated"
    assert found.robustness <= 0.0


@pytest.mark.parametrize("name", sorted(set(NAMES) - {"CC2"}))
def test_an_input_of_zero_violates_no_requirement(name: str) -> None:
    (found,) = driven(NAMES[name], ((0, 0, 0),), requirement=name).requirements
    assert found.verdict == ("undecided" if name in {"AT51", "AT52", "AT53", "AT54"} else "holds")


def test_cars_that_stand_violate_the_requirement_on_the_last_gap() -> None:
    (found,) = driven(CC, ((0, 0, 0),), requirement="CC2").requirements
    assert (found.verdict, found.robustness) == ("violated", -5.0)  # a gap of 10 m instead of 15 m


@pytest.mark.parametrize("name", NAMES)
def test_a_run_ends_when_its_requirement_is_decided(name: str) -> None:
    until = end(required(FILES[NAMES[name]], name))
    assert MODELS[NAMES[name]].scenario(requirement=name).until_ns == until * 1e9
    expected = {"AT1": 20.0, "AT2": 10.0, "AT5": 32.6, "AT6": 30.0, "CCx": 50.0}
    assert until == expected.get(name, expected.get(name[:3], 100.0))


@pytest.mark.parametrize("model", MODELS)
def test_an_unknown_requirement_is_refused(model: str) -> None:
    with pytest.raises(UnknownName) as refused:
        MODELS[model].scenario(requirement=f"{model[:1].upper()}9")
    near = {AT: "'T9'", CC: "'C9'; known: CC1, CC2, CC3, CC4, CC5, CCx"}[model]
    assert f"unknown requirement {near}" in str(refused.value)


# -- the transmission against SciPy


def _extrapolated(x: Any, y: Any) -> Any:
    return interp1d(x, y, fill_value="extrapolate", bounds_error=False)


_K = _extrapolated(transmission.SPEED_RATIO, transmission.K_FACTOR)
_RATIO = _extrapolated(transmission.SPEED_RATIO, transmission.TORQUE_RATIO)
_TORQUE = RegularGridInterpolator(
    (transmission.THROTTLE, transmission.ENGINE_RPM), transmission.ENGINE_TORQUE,
    bounds_error=False, fill_value=None,
)  # fmt: skip


def _slope(x: Any, throttle: float, brake: float, gear: int) -> tuple[float, float]:
    """Return the derivatives of the speeds of the engine and the wheels, 1/min/s."""
    rpm, wheel = x
    ratio = (2.393, 1.45, 1.0, 0.677)[gear - 1]
    slip = 3.23 * ratio * wheel / rpm
    impeller = (rpm / _K(slip)) ** 2
    mph = wheel * 2 * np.pi * 60 / 5280
    load = np.sign(mph) * (40 + 0.02 * mph**2 + brake)
    engine = _TORQUE((throttle, rpm)) - impeller
    return engine / 0.0219914882835559, (
        3.23 * ratio * impeller * _RATIO(slip) - load
    ) / 12.09414785731247


@pytest.mark.long
def test_the_transmission_moves_as_scipy_integrates_it() -> None:
    given = ((0.0, 60.0, 20.0), (4.0, 90.0, 0.0))
    run = driven(AT, given, until=8)
    gears = run["shifter.gear"]
    x = np.array([1000.0, 0.0])
    for k in range(200):
        t = k / 25
        throttle, brake = given[int(t >= 4.0)][1:]
        gear = int(gears[4 * k + 1])  # 10 ms after the sample at t
        found = solve_ivp(
            lambda _, y, *of: _slope(y, *of), (0, 0.04), x, args=(throttle, brake, gear),
            rtol=1e-9, atol=1e-9,
        )  # fmt: skip
        x = found.y[:, -1]
        if k % 25 == 24:
            at = round((t + 0.04) * 100)
            assert run["car.rpm"][at] == pytest.approx(x[0], rel=1e-4)
            assert run["car.wheel"][at] == pytest.approx(x[1], rel=1e-4)
    assert {1.0, 2.0} <= set(gears)


# -- the table


def test_the_table_has_each_requirement_twice() -> None:
    rows = benchmarks()
    assert [row.requirement for row in rows[::2]] == list(NAMES)
    assert {row.instance for row in rows} == {1, 2}
    assert set(falsification_table.PUBLISHED) <= {(row.requirement, row.instance) for row in rows}
    throttle, brake = Benchmark("AT51", 2).inputs().values()
    assert throttle.times == brake.times == (0.0, 5.0, 10.0, 15.0, 20.0, 25.0, 30.0)
    assert (throttle.high, brake.high) == (100.0, 325.0)
    assert [len(one.factors) for one in Benchmark("CC1", 2).inputs().values()] == [20, 20]


def test_a_row_of_the_table_counts_runs_up_to_a_violation() -> None:
    found = measure(Benchmark("AT2", 2), "staged", seeds=2, runs=8)
    assert len(found.needed) == found.seeds == 2
    assert max(found.needed) <= 4  # full throttle is one of the four inputs that are tried first
    assert found.row().startswith("| AT2 | 2 | 100% | ")
    assert found.row().endswith(" | 80% | 690.5 | FalCAuN 2023 |")
    nothing = measure(Benchmark("CCx", 2), "staged", seeds=1, runs=4)
    assert (nothing.needed, nothing.runs) == ([], 4)
    assert nothing.row().startswith("| CCx | 2 | 0% |  |  | ")
