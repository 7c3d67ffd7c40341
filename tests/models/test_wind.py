"""Bodies in moving air: what the inputs of the air do to their loads and outputs."""

from __future__ import annotations

import math

import numpy as np
import pytest
from engine_parts import check_equal
from hypothesis import given, settings
from hypothesis import strategies as st

from rtsim.core.errors import ModelError
from rtsim.core.signals import Vector
from rtsim.equations.model import Model, bind
from rtsim.models.body import BODY_OUTPUTS, euler_matrix, initial_state
from rtsim.models.f16.plant import F16
from rtsim.models.f16.trim import trim
from rtsim.models.nesc import BRICK, SPHERE
from rtsim.models.orbit import scenario as orbit
from rtsim.models.wind import AIR_INPUTS, MOVING_AIR, in_moving_air
from rtsim.record.replay_comparison import compare_exact
from rtsim.scenario.loading import load_scenario
from rtsim.scenario.scenario import Scenario
from rtsim.scenario.standard_components import PlantComponent
from rtsim.testing.determinism import trace_of

COMPILES = settings(deadline=None, max_examples=50)
BODIES = {model.name: (model, bind(in_moving_air(model))) for model in (SPHERE, BRICK, F16)}
NOTHING = np.zeros(0)
speeds = st.floats(-60.0, 60.0)
angles = st.floats(-3.0, 3.0)


def inputs(model: Model, **air: float) -> Vector:
    return in_moving_air(model).inputs.initial(air)


def evaluated(name: str, x: Vector, u: Vector) -> tuple[Vector, dict[str, float]]:
    """Derivative, and outputs by name."""
    model, bound = BODIES[name]
    dx, y, p = np.zeros(13), model.outputs.initial(), model.parameters.initial()
    bound.derivative.call(0.0, x, NOTHING, u, p, dx)
    bound.output.call(0.0, x, NOTHING, u, p, y)
    return dx, dict(zip(model.outputs.names, y.tolist(), strict=True))


@COMPILES
@given(
    st.floats(-1.5, 1.5), angles, angles, st.floats(-1.4, 1.4), angles,
    st.tuples(speeds, speeds, speeds), st.tuples(speeds, speeds, speeds),
    st.tuples(speeds, speeds, speeds), st.floats(-0.01, 0.01),
)  # fmt: skip
def test_flow_is_relative_to_the_air(
    latitude: float, longitude: float, roll: float, pitch: float, yaw: float,
    velocity: tuple[float, float, float], wind: tuple[float, float, float],
    gust: tuple[float, float, float], shear: float,
) -> None:  # fmt: skip
    altitude = 2000.0
    x = initial_state(
        latitude=latitude, longitude=longitude, altitude=altitude,
        velocity_ned=velocity, euler=(roll, pitch, yaw),
    )  # fmt: skip
    air = dict(zip(AIR_INPUTS.names, (*wind, shear, -shear, *gust, 0.0, 0.0, 0.0), strict=True))
    _, found = evaluated("brick", x, inputs(BRICK, **air))
    moving = np.array(wind) + altitude * np.array([shear, -shear, 0.0])
    u, v, w = euler_matrix(roll, pitch, yaw) @ (np.array(velocity) - moving) - np.array(gust)
    speed = math.sqrt(u * u + v * v + w * w)
    assert found["airspeed"] == pytest.approx(speed, abs=1e-6)
    assert found["mach"] == pytest.approx(speed / found["speed_of_sound"], abs=1e-8)
    assert found["dynamic_pressure"] == pytest.approx(0.5 * found["density"] * speed**2, abs=1e-3)
    if speed > 1.0:
        assert math.sin(found["beta"]) == pytest.approx(v / speed, abs=1e-6)
        assert math.hypot(u, w) * math.sin(found["alpha"]) == pytest.approx(w, abs=1e-5)
    ground = [found[f"velocity_{axis}"] for axis in ("north", "east", "down")]
    assert ground == pytest.approx(velocity, abs=1e-8)


@COMPILES
@given(angles, st.floats(-1.4, 1.4), angles, st.tuples(speeds, speeds, speeds))
def test_what_moves_with_the_air_feels_no_drag(
    roll: float, pitch: float, yaw: float, wind: tuple[float, float, float]
) -> None:
    x = initial_state(
        latitude=0.6, longitude=-1.0, altitude=500.0, velocity_ned=wind, euler=(roll, pitch, yaw)
    )
    falls, _ = evaluated("sphere", x, inputs(SPHERE))
    carried, found = evaluated(
        "sphere",
        x,
        inputs(SPHERE, **dict(zip(AIR_INPUTS.names, wind, strict=False))),
    )
    assert found["airspeed"] < 1e-9
    without = SPHERE.parameters.initial({"cd": 0.0})
    free = np.zeros(13)
    BODIES["sphere"][1].derivative.call(0.0, x, NOTHING, inputs(SPHERE), without, free)
    np.testing.assert_allclose(carried, free, rtol=0, atol=1e-15)
    if np.linalg.norm(wind) > 1.0:
        assert np.abs(falls - free).max() > 1e-6


@pytest.mark.parametrize("axis", ["roll", "pitch", "yaw"])
@pytest.mark.parametrize("name", ["brick", "f16"])
def test_air_that_turns_with_the_body_does_not_damp_it(name: str, axis: str) -> None:
    """The aerodynamic moment depends on the body's rate minus that of the air."""
    model = BODIES[name][0]
    rates = {"roll": (0.2, 0.0, 0.0), "pitch": (0.0, 0.2, 0.0), "yaw": (0.0, 0.0, 0.2)}[axis]
    turning, still = (
        initial_state(
            latitude=0.0, longitude=0.0, altitude=1000.0, velocity_ned=(150.0, 0.0, 0.0),
            euler=(0.0, 0.05, 0.0), rates=given_,
        )
        for given_ in (rates, (0.0, 0.0, 0.0))
    )  # fmt: skip
    damped, outputs = evaluated(name, turning, inputs(model))
    carried, same = evaluated(name, turning, inputs(model, **{f"turbulence_{axis}": 0.2}))
    steady, _ = evaluated(name, still, inputs(model))
    np.testing.assert_allclose(carried[10:] - steady[10:], 0.0, atol=0.003)
    assert np.abs(damped[10:] - carried[10:]).max() > 0.01
    for found in (outputs, same):
        found.pop("load_factor", None)  # the load is that of the air, as the moment is
    assert outputs == same, "rates and flow that sensors measure are those of the body"


def test_at_the_poles_the_wind_is_finite() -> None:
    for z in (6.36e6, -6.36e6):
        x = np.array([0.0, 0.0, z, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0])
        dx, found = evaluated("sphere", x, inputs(SPHERE, wind_north=3.0, wind_east=4.0))
        assert np.isfinite(dx).all()
        assert found["airspeed"] == pytest.approx(5.0)


def test_the_gust_of_the_parameters_is_the_same_motion_of_the_air() -> None:
    x = initial_state(latitude=0.0, longitude=0.0, altitude=1000.0, velocity_ned=(150.0, 0.0, 0.0))
    bound = BODIES["f16"][1]
    p = F16.parameters.initial({"gust_y": 3.0, "gust_z": -2.0, "gust_duration": 2.0})
    gusty, y = np.zeros(13), F16.outputs.initial()
    bound.derivative.call(1.0, x, NOTHING, inputs(F16), p, gusty)  # at its peak
    bound.output.call(1.0, x, NOTHING, inputs(F16), p, y)
    same, found = evaluated("f16", x, inputs(F16, turbulence_y=3.0, turbulence_z=-2.0))
    assert (gusty == same).all()
    flow = BODY_OUTPUTS.slice("airspeed").start
    names = BODY_OUTPUTS.names[flow : flow + 6]
    assert y[flow : flow + 6].tolist() == [found[name] for name in names]


def in_air(scenario: Scenario, plant: str) -> Scenario:
    component = scenario.component(plant)
    assert isinstance(component, PlantComponent)
    component.model = in_moving_air(component.model)
    return scenario


@pytest.mark.parametrize(
    ("name", "plant", "settings_"),
    [("nesc", "body", {"case": "3"}), ("nesc", "body", {"case": "6"}), ("f16", "f16", {})],
)
def test_air_at_rest_does_not_change_a_bit(
    name: str, plant: str, settings_: dict[str, str]
) -> None:
    still = trace_of(load_scenario(name, settings_), until=2)
    there = trace_of(in_air(load_scenario(name, settings_), plant), until=2)
    for column in still.track(plant).signals.columns:
        assert (still[f"{plant}.{column}"] == there[f"{plant}.{column}"]).all(), column
    windy = in_air(load_scenario(name, settings_), plant)
    windy.set(f"{plant}.wind_north", 5.0)
    assert compare_exact(there, trace_of(windy, until=2)) is not None


@pytest.mark.parametrize("case", ["7", "8"])
def test_both_engines_fly_through_the_wind(case: str) -> None:
    def make() -> Scenario:
        found = load_scenario("nesc", {"case": case})
        found.until_ns = 1_000_000_000
        return found

    assert check_equal(make) > 100


def test_a_trimmed_aircraft_that_the_wind_carries_is_trimmed() -> None:
    """On an Earth at rest: ground speed 20 m/s higher in a tail wind of 20 m/s, equal loads."""
    at_rest = {"earth_rate": 0.0, "j2": 0.0}
    found = trim(
        latitude=0.0, longitude=0.0, altitude=1000.0, speed=150.0, course=0.0, parameters=at_rest
    )
    model, bound = BODIES["f16"]
    p = model.parameters.initial(at_rest)
    fast = initial_state(
        latitude=0.0, longitude=0.0, altitude=1000.0, velocity_ned=(170.0, 0.0, 0.0),
        euler=(0.0, found.outputs["pitch"], 0.0), parameters=at_rest,
    )  # fmt: skip
    u = inputs(model, **found.inputs, wind_north=20.0)
    calm, carried = np.zeros(13), np.zeros(13)
    bound.derivative.call(0.0, found.state, NOTHING, inputs(model, **found.inputs), p, calm)
    bound.derivative.call(0.0, fast, NOTHING, u, p, carried)
    np.testing.assert_allclose(carried[3:6], calm[3:6], atol=1e-4)


def test_a_model_that_does_not_use_the_air_is_refused() -> None:
    with pytest.raises(ModelError, match="sphere already has the inputs wind_north, wind_east"):
        in_moving_air(in_moving_air(SPHERE))
    (plant,) = (c for c in orbit().components.values() if isinstance(c, PlantComponent))
    with pytest.raises(
        ModelError, match=r"model orbit, because its class does not derive from RigidBody"
    ):
        in_moving_air(plant.model)


def test_what_it_assumes_is_said() -> None:
    model = in_moving_air(SPHERE)
    assert MOVING_AIR in model.assumptions
    assert not any("rests" in sentence for sentence in model.assumptions)
    assert model.inputs == AIR_INPUTS
    assert model.outputs == SPHERE.outputs
    assert model.parameters == SPHERE.parameters
    assert model.name == "sphere"
