"""The quadcopter: loads, invariants, hover, motors, battery, contact with the ground."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from engine_parts import check_equal
from hypothesis import given, settings
from hypothesis import strategies as st

import rtsim as rt
from rtsim.core.signals import Vector
from rtsim.equations.compiling import plainly
from rtsim.equations.earth import EQUATORIAL_RADIUS, GRAVITATIONAL_PARAMETER
from rtsim.models.body import body_states, direction_cosines, euler_matrix, initial_state
from rtsim.models.quadcopter import STANDS, Quadcopter
from rtsim.models.quadcopter_by_hand import scenario as by_hand
from rtsim.runs.simulation import simulate

SPHERE: dict[str, Any] = {"j2": 0.0, "flattening": 0.0, "earth_rate": 0.0}
FULL = 4 * 8.54858e-6 * 838.0**2
MASS = 0.716
MODEL = Quadcopter.model()


def placed(**at: Any) -> dict[str, Any]:
    """States on a sphere at rest, above the flat ground near the equator's plane of the model."""
    given_ = {"latitude": math.radians(36.0176), "longitude": math.radians(-75.6713), **at}
    x = initial_state(parameters=SPHERE, **given_)
    return body_states(x)


def flight(until: float = 4.0, step: float = 0.0025, **values: Any) -> rt.Scenario:
    out = rt.Scenario("quadcopter", until=until)
    given_ = {"throttle": (0.0,) * 4, "altitude": 100.0, **SPHERE, **values}
    at = {k: given_.pop(k) for k in ("altitude", "euler", "rates", "velocity_ned") if k in given_}
    out.plant(Quadcopter(**placed(**at), **given_), step=step)
    return out


def evaluated(states: dict[str, Any], **values: Any) -> tuple[dict[str, Vector], Any]:
    """Rates of the states by name, and outputs as a function of the name; plain Python."""
    x = MODEL.states.initial(states)
    p = MODEL.parameters.initial({**SPHERE, **values})
    u = MODEL.inputs.initial({"throttle": (0.0,) * 4})
    z, dx, y = MODEL.discrete.initial(), np.zeros(MODEL.states.size), MODEL.outputs.initial()
    model: Any = MODEL
    with plainly():
        model.derivative(0.0, x, z, u, p, dx)
        model.output(0.0, x, z, u, p, y)
    rates = {s.name: dx[MODEL.states.slice(s.name)] for s in MODEL.states}
    return rates, lambda name: y[MODEL.outputs.slice(name)]


spins = st.floats(0.0, 838.0)
speeds = st.floats(-15.0, 15.0)
turns = st.floats(-6.0, 6.0)


@settings(deadline=None, max_examples=60)
@given(st.tuples(spins, spins, spins, spins), st.tuples(speeds, speeds, speeds),
       st.tuples(turns, turns, turns), st.tuples(turns, st.floats(-1.5, 1.5), turns))  # fmt: skip
def test_the_loads_are_those_of_four_rotors_and_a_drag(
    spin: tuple[float, ...], velocity: tuple[float, float, float],
    body_rates: tuple[float, float, float], euler: tuple[float, float, float],
) -> None:  # fmt: skip
    """Against sums of vectors; the signs are those of a front right rotor that turns left."""
    at = placed(altitude=100.0, velocity_ned=velocity, euler=euler, rates=body_rates)
    rates, output = evaluated({**at, "speed": spin})
    w, v = np.array(body_rates), euler_matrix(*euler) @ np.array(velocity)
    force, moment = -np.array([0.005, 0.005, 0.01]) * np.linalg.norm(v) * v, np.zeros(3)
    a = 0.17 / math.sqrt(2.0)
    arms = np.array([[a, a, -0.01], [-a, -a, -0.01], [a, -a, -0.01], [-a, a, -0.01]])
    for arm, turn, one in zip(arms, (1, 1, -1, -1), spin, strict=True):
        lift = 8.54858e-6 * one**2
        local = v + np.cross(w, arm)
        pushed = -one * np.array([8.06428e-5, 8.06428e-5, 2.32e-4]) * local - [0.0, 0.0, lift]
        force += pushed
        moment += np.cross(arm, pushed) + np.array([0.0, 0.0, turn * 0.016 * lift])
    inertia = np.array([0.007, 0.007, 0.012])
    np.testing.assert_allclose(output("specific_force"), force / MASS, atol=1e-6)
    turning = (moment - np.cross(w, inertia * w)) / inertia
    np.testing.assert_allclose(rates["rates"], turning, rtol=1e-7, atol=1e-5)


def test_a_vehicle_hovers_where_its_thrust_equals_its_weight() -> None:
    altitude = 100.0
    gravity = GRAVITATIONAL_PARAMETER / (EQUATORIAL_RADIUS + altitude) ** 2
    speed = math.sqrt(MASS * gravity / 4 / 8.54858e-6)
    rates, output = evaluated({**placed(altitude=altitude), "speed": (speed,) * 4})
    assert np.abs(rates["velocity"]).max() < 1e-9
    assert np.abs(rates["rates"]).max() < 1e-9
    assert output("specific_force")[2] == pytest.approx(-gravity, abs=1e-9)
    assert output("thrust")[0] == pytest.approx(MASS * gravity)
    assert FULL / (MASS * gravity) == pytest.approx(3.42, abs=0.01)


def test_a_tumbling_vehicle_keeps_its_energy_and_angular_momentum() -> None:
    """Without air: in free fall, from 3 km, with rotors at rest."""
    run = simulate(
        flight(altitude=3000.0, euler=(0.4, -0.3, 1.0), rates=(5.0, -3.0, 2.0),
               frame_drag=(0.0, 0.0, 0.0), until=10.0)
    )  # fmt: skip
    place, moves = run["quadcopter.position"], run["quadcopter.velocity"]
    energy = 0.5 * (moves**2).sum(axis=1) - GRAVITATIONAL_PARAMETER / np.linalg.norm(place, axis=1)
    assert np.ptp(energy) < 1e-6
    inertia = np.array([0.007, 0.007, 0.012])
    body = run["quadcopter.rates"] * inertia
    assert np.ptp(run["quadcopter.rates"][:, 0]) > 5.0
    with plainly():
        turned = [
            np.reshape(direction_cosines(*map(float, q)), (3, 3)).T @ h
            for q, h in zip(run["quadcopter.attitude"][::200], body[::200], strict=True)
        ]
    np.testing.assert_allclose(turned, np.broadcast_to(turned[0], np.shape(turned)), atol=1e-8)
    spin = 0.5 * (inertia * run["quadcopter.rates"] ** 2).sum(axis=1)
    assert np.ptp(spin) < 1e-7 * spin[0]


def test_a_falling_vehicle_reaches_the_speed_at_which_its_drag_is_its_weight() -> None:
    run = simulate(flight(altitude=2000.0, until=25.0, step=0.01))
    gravity = GRAVITATIONAL_PARAMETER / (EQUATORIAL_RADIUS + run.final("quadcopter.altitude")) ** 2
    assert run.final("quadcopter.velocity_down") == pytest.approx(
        math.sqrt(MASS * gravity / 0.01), rel=1e-3
    )


def test_motors_follow_with_the_time_constants_of_rising_and_falling_speeds() -> None:
    stiff = {"voltage_drop": 0.0, "resistance": 0.0}
    up = simulate(flight(throttle=(0.5,) * 4, until=0.0125, step=0.000125, **stiff))
    assert up["quadcopter.speed"][-1, 0] == pytest.approx(419.0 * (1 - math.exp(-1)), rel=1e-6)
    down = simulate(flight(speed=(419.0,) * 4, until=0.025, step=0.000125, **stiff))
    assert down["quadcopter.speed"][-1, 3] == pytest.approx(419.0 * math.exp(-1), rel=1e-6)


def test_the_battery_sags_under_load_and_with_its_charge() -> None:
    at = {**placed(altitude=100.0), "speed": (600.0,) * 4}
    torque = 0.016 * 8.54858e-6 * 600.0**2
    volts = []
    for charge in (1.0, 0.2):
        rates, output = evaluated({**at, "charge": charge})
        voltage, current = output("voltage")[0], output("current")[0]
        assert voltage * current == pytest.approx(4 * torque * 600.0 / 0.75)
        idle = 12.694 - 3.1424 * (1.0 - charge)
        assert voltage == pytest.approx(idle - 0.061523 * current)
        assert rates["charge"][0] == pytest.approx(-current / 3600.0 / 1.2009)
        volts.append(voltage)
    assert volts[0] - volts[1] > 2.5


@pytest.mark.parametrize("euler", [(0.0, 0.0, 0.0), (0.35, -0.2, 2.0)], ids=["level", "tilted"])
def test_a_dropped_vehicle_comes_to_rest_on_its_feet(euler: tuple[float, float, float]) -> None:
    run = simulate(flight(altitude=0.5, euler=euler, until=4.0))
    height, load = run["quadcopter.height"], run["quadcopter.contact"]
    late = len(height) // 2
    assert height.min() > STANDS - 0.04
    assert np.ptp(height[late:]) < 1e-6
    assert load[late:].min() > 0.99  # no foot leaves the ground again
    assert load[late:].max() < 1.01
    assert abs(run["quadcopter.roll"][-1]) < 1e-4
    assert height[-1] == pytest.approx(STANDS, abs=1e-3)


def test_a_vehicle_on_its_back_lies_on_its_rotors() -> None:
    run = simulate(flight(altitude=0.3, euler=(3.0, 0.1, 0.0), until=4.0))
    assert run.final("quadcopter.height") == pytest.approx(0.008, abs=1e-3)
    assert abs(run["quadcopter.roll"][-1]) > 3.1


def test_a_motor_that_fails_drops_its_corner() -> None:
    """The front right one: right wing and nose go down; the fault is that of any input."""
    speed = math.sqrt(MASS * 9.8 / 4 / 8.54858e-6)
    out = flight(throttle=(0.56,) * 4, speed=(speed,) * 4, until=0.5)
    fault = {"name": "motor_out", "kind": "stuck", "value": 0.0, "at": 0.25}
    out.faults({"where": "quadcopter.throttle_0", **fault})
    run = simulate(out)
    half = len(run["quadcopter.roll"]) // 2
    assert abs(run["quadcopter.roll"][: half - 10]).max() < 1e-6
    assert run.final("quadcopter.roll") > 0.3
    assert run.final("quadcopter.pitch") < -0.2
    assert run["quadcopter.speed"][-1, 0] < 1.0


def flown(until: float = 1.2) -> rt.Scenario:
    """An angle of 0.4 rad by stick, 3 m above the ground."""
    out = by_hand(until=until, above=3.0)
    moves = {"arm": [(0.0, 1.0)], "angle": [(0.0, 1.0)], "throttle": [(0.0, 0.58)],
             "roll": [(0.0, 0.0), (0.4, 0.5)], "yaw": [(0.0, 0.0), (0.4, 0.25)]}  # fmt: skip
    for name, changes in moves.items():
        out.drive(f"stick.{name}", [(round(at * 1e9), value) for at, value in changes])
    return out


@pytest.mark.long
def test_both_engines_fly_alike() -> None:
    assert check_equal(flown) > 100


def test_the_stick_commands_angles() -> None:
    run = simulate(flown(2.0))
    assert run.final("quadcopter.roll") == pytest.approx(0.5 * math.radians(45), abs=0.03)
    assert abs(run["quadcopter.pitch"][-1]) < 0.08  # the yaw rate of a banked vehicle pitches it
    assert run.final("quadcopter.yaw_rate") == pytest.approx(0.25 * math.radians(200), abs=0.1)
    assert run.recording().digest() == simulate(flown(2.0)).recording().digest()


def test_motors_stand_until_they_are_armed() -> None:
    out = by_hand(until=0.5)
    out.drive("stick.throttle", [(0, 0.7)])
    run = simulate(out)
    assert np.abs(run["quadcopter.speed"]).max() == 0.0
