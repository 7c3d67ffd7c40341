"""The F-16 against ``sim_05`` of NASA/TM-2015-218675: cases 11, 13.1 and 15.

The law is sampled and held at 50 Hz without latency, RK4 at 5 ms.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from f16_flight import fly_case
from flight import worst, worst_angle
from published import Columns, trajectory

from rtsim.core.signals import Vector
from rtsim.models.body import accelerate, air_flow
from rtsim.models.f16.plant import F16, PARAMETERS, loads
from rtsim.models.f16.scenario import NAMES, SUBSONIC, case, trimmed
from rtsim.models.units import FT, KT

# altitude ft, yaw, pitch, roll deg, airspeed ft/s
TOLERANCES = {
    "11": (0.01, 1e-4, 1e-4, 1e-4, 0.01),
    "13.1": (0.5, 0.3, 0.3, 0.3, 0.45),
    "15": (0.01, 0.02, 0.005, 0.03, 0.01),
}
FILES = {"11": "11", "13.1": "13p1", "15": "15"}


@cache
def correct(name: str) -> Columns:
    return fly_case(case(name))


def errors(flight: Columns, name: str) -> tuple[float, ...]:
    """Largest differences at all published times, in the order and units of ``TOLERANCES``."""
    theirs = trajectory(FILES[name])
    return (
        worst(flight["altitude_ft"], theirs["altitudeMsl_ft"]),
        worst_angle(flight["yaw_deg"], theirs["eulerAngle_deg_Yaw"]),
        worst_angle(flight["pitch_deg"], theirs["eulerAngle_deg_Pitch"]),
        worst_angle(flight["roll_deg"], theirs["eulerAngle_deg_Roll"]),
        worst(flight["airspeed"] / FT, theirs["trueAirspeed_nmi_h"] * KT / FT),
    )


def passes(flight: Columns, name: str) -> bool:
    pairs = zip(errors(flight, name), TOLERANCES[name], strict=True)
    return all(error < tolerance for error, tolerance in pairs)


@pytest.mark.parametrize("name", FILES)
def test_flight_at_every_published_time(name: str) -> None:
    times = trajectory(FILES[name])["time"]
    assert times.tolist() == [i / 10 for i in range(round(case(name).duration * 10) + 1)]
    assert correct(name)["altitude_ft"].size == times.size
    found = errors(correct(name), name)
    assert all(np.array(found) < TOLERANCES[name]), found


def test_components_of_the_velocity_in_13_1() -> None:
    """North and east within 0.45 ft/s; the climb itself within 0.5, at 0.4 s into the pull-up."""
    theirs = trajectory("13p1")
    flight = correct("13.1")
    for ours, axis, tolerance in (("north", "X", 0.45), ("east", "Y", 0.45), ("down", "Z", 0.5)):
        error = worst(flight[f"velocity_{ours}"] / FT, theirs[f"feVelocity_ft_s_{axis}"])
        assert error < tolerance, ours


@pytest.mark.long
def test_every_case_flies() -> None:
    """The published end conditions of the commands: airspeed, course and offset are reached."""
    assert set(NAMES) == {"11", "12", "13.1", "13.2", "13.3", "13.4", "15", "16"}
    slower = fly_case(case("13.2"))
    asked = case("13.2").law_inputs["airspeed_command"] - 5.0
    assert slower["equivalent_airspeed_kt"][-1] == pytest.approx(asked, abs=0.3)
    turned = fly_case(case("13.3"))
    track = np.degrees(np.arctan2(turned["velocity_east"][-1], turned["velocity_north"][-1]))
    assert track == pytest.approx(60.0, abs=0.2)
    around = fly_case(case("16"))
    assert np.ptp(around["altitude_ft"]) < 20.0


def test_case_13_4_ends_2000_ft_to_the_right() -> None:
    flight = fly_case(case("13.4"))
    step = 0.1
    track = np.arctan2(flight["velocity_east"], flight["velocity_north"]) - np.radians(45.0)
    ground = np.hypot(flight["velocity_east"], flight["velocity_north"])
    aside = np.sum(ground * np.sin(track)) * step / FT
    assert aside == pytest.approx(2000.0, abs=30.0)


def test_case_12_stays_in_trim() -> None:
    """Supersonic, unaugmented; NASA's simulations trim it at -0.7416 deg."""
    supersonic = case("12")
    assert supersonic.trim.theta_deg == pytest.approx(-0.7416, abs=1e-4)
    flight = fly_case(supersonic, duration=5.0)
    assert np.ptp(flight["altitude_ft"]) < 0.1


# ---------------------------------------------------------------- planted errors


def inertial_rates(
    t: float, x: Vector, z: Vector, u: Vector, p: Vector, dx: Vector  # noqa: ARG001
) -> None:  # fmt: skip
    """The F-16's derivative with one error: the aerodynamics see the inertial rates."""
    c11, c12, c13, c21, c22, c23, c31, c32, c33, ub, vb, wb, _, _, _, height = air_flow(x, p)
    fx, fy, fz, mx, my, mz = loads(
        ub, vb, wb, x[10], x[11], x[12], height, u[0], u[1], u[2], u[3], p[_CG]
    )
    accelerate(x, p, c11, c12, c13, c21, c22, c23, c31, c32, c33, fx, fy, fz, mx, my, mz, dx)


_CG = PARAMETERS.slice("cg").start


@pytest.mark.parametrize(
    "planted",
    [{"cg": 0.30}, {"ixz": -982.0 * 1.3558179483314004}, {"earth_rate": 0.0}, {"j2": 0.0}],
    ids=str,
)
def test_wrong_aircraft_or_earth_is_caught(planted: Mapping[str, float]) -> None:
    """Case 11, trimmed with the error as its author would have done, leaves the tolerances."""
    start = trimmed(SUBSONIC, planted)
    wrong = replace(
        case("11"), state=start.state, inputs=start.inputs, parameters=dict(planted), trim=start
    )
    assert passes(correct("11"), "11")
    assert not passes(fly_case(wrong), "11")


def test_inertial_rates_in_the_aerodynamics_are_caught() -> None:
    wrong = replace(F16, derivative=inertial_rates)
    found = errors(fly_case(case("11"), model=wrong), "11")
    assert found[1] > 0.1


def test_law_of_the_wrong_trim_is_caught() -> None:
    """The pitch reference of NASA's file instead of the trim's own shows in the altitude."""
    own = errors(correct("13.1"), "13.1")
    theta = fly_case(case("13.1"), law_parameters={"theta_trim": 2.653813535191715})
    assert errors(theta, "13.1")[0] > own[0] + 0.05


def test_slow_law_is_caught() -> None:
    """At 10 Hz the loop is unusable."""
    assert not passes(fly_case(case("13.1"), frame=0.1), "13.1")
