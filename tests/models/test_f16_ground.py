"""The F-16 by hand on the ground: terrain, gear, take-off, landing, crash, and the autopilot.

The gust of the F-16, and the study of dispersed flights.
"""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from landing_pilot import Lands, Pilot, TakesOff, bound, piloted
from pilot_parts import flight

from rtsim.core.clock import stopwatch
from rtsim.core.errors import ModelError, ScenarioError, UnknownName
from rtsim.core.signals import Vector
from rtsim.equations.earth import EARTH_RATE
from rtsim.equations.model import Guard
from rtsim.models.atmosphere import standard_atmosphere
from rtsim.models.f16 import aircraft
from rtsim.models.f16.aerodynamics import AREA
from rtsim.models.f16.aircraft import PILOTED_F16, drag_rise
from rtsim.models.f16.dispersed import study
from rtsim.models.f16.plant import STANDARD_GRAVITY, gust_shape
from rtsim.models.f16.trim import bound_f16
from rtsim.models.terrain import HIGHEST, along_runway, cover, ground_grid, local, terrain
from rtsim.models.units import DEG, FT, KT
from rtsim.record.file import FileRecorder
from rtsim.record.reading import Recording
from rtsim.record.recorders import MemoryRecorder
from rtsim.record.replay_comparison import compare_exact
from rtsim.record.reports.run_page import render
from rtsim.runs.replay import rerun
from rtsim.runs.result import RunResult
from rtsim.runs.simulation import simulate
from rtsim.scenario.body import GRASS, ROAD, RUNWAY, WATER
from rtsim.scenario.loading import load_scenario
from rtsim.scenario.standard_components import PlantComponent
from rtsim.studies import MonteCarlo, start
from rtsim.testing.determinism import trace_of

WEIGHT = float(PILOTED_F16.parameters.initial()[0]) * STANDARD_GRAVITY


def flown(until: float, *script: tuple[float, tuple[float, ...]], **settings: Any) -> RunResult:
    return simulate(flight(script, **settings), until=until, recorder=MemoryRecorder())


def after(result: RunResult, name: str, seconds: float) -> Vector:
    """The signal ``f16.name`` from ``seconds`` on."""
    return np.asarray(result[f"f16.{name}"][result.time >= seconds])


# -- terrain


def test_the_terrain_has_no_steps_and_its_slopes_are_its_derivatives() -> None:
    rng = np.random.default_rng(3)
    for north, east in rng.uniform(-15e3, 15e3, (300, 2)):
        height, to_north, to_east = terrain(north, east)
        assert 0.0 <= height < HIGHEST
        by_north = (terrain(north + 1e-2, east)[0] - terrain(north - 1e-2, east)[0]) / 2e-2
        by_east = (terrain(north, east + 1e-2)[0] - terrain(north, east - 1e-2)[0]) / 2e-2
        assert to_north == pytest.approx(by_north, abs=1e-7)
        assert to_east == pytest.approx(by_east, abs=1e-7)


def test_runway_and_approach_are_flat_and_the_grid_is_the_terrain() -> None:
    for along in (-6000.0, -1500.0, 0.0, 1499.0):
        north, east = along * math.cos(45 * DEG), along * math.sin(45 * DEG)
        assert along_runway(north, east) == pytest.approx((along, 0.0), abs=1e-9)
        assert terrain(north, east) == (0.0, 0.0, 0.0)
    assert cover(0.0, 0.0) == RUNWAY
    assert cover(0.0, 45.0) == GRASS
    assert cover(5000.0, 1900.0) == ROAD
    grid = ground_grid()
    assert grid.height.max() > 150.0
    lakes = np.argwhere(grid.kind == WATER)
    assert len(lakes) > 100
    assert all(grid.height[i, k] == 0.0 for i, k in lakes)
    i, k = 40, 90
    assert grid.height[i, k] == pytest.approx(terrain(grid.north[i], grid.east[k])[0], abs=1e-12)
    north, east = local(36.0176 * DEG, (-75.6713 + 0.01) * DEG)
    assert (north, east) == pytest.approx((0.0, 901.6), abs=0.5)


# -- gear


def test_each_leg_carries_its_share_at_rest() -> None:
    """The moments of the legs about the centre of mass are in balance."""
    pitch, height = aircraft.resting(WEIGHT)
    plane = math.sin(pitch), 0.0, -math.cos(pitch), height
    loads = aircraft.gear_loads(0.0, 0.0, 0.0, 0.0, 0.0, 0.0, plane, True, 0.0, 0.0, 50.0)
    fx, fy, fz, mx, my, mz, nose, main = loads
    assert math.hypot(fx, fz) == pytest.approx(WEIGHT, rel=1e-3)
    assert (fy, mx, mz) == pytest.approx((0.0, 0.0, 0.0), abs=1e-6)
    assert abs(my) < 0.005 * WEIGHT
    assert 0.07 < nose < 0.13
    assert 0.07 < main < 0.13


@pytest.mark.parametrize(
    ("ahead", "side", "brake", "wanted"),
    [
        (50.0, 0.0, 0.0, (-0.02, 0.0)),
        (50.0, 0.0, 1.0, (-0.5, 0.0)),
        (-50.0, 0.0, 1.0, (0.5, 0.0)),
        (0.0, 20.0, 0.0, (0.0, -0.8)),
        (0.0, 0.0, 1.0, (0.0, 0.0)),
    ],
)
def test_friction_is_that_of_its_source_and_against_the_motion(
    ahead: float, side: float, brake: float, wanted: tuple[float, float]
) -> None:
    """Coefficients of JSBSim's F-16: 0.02 rolling, 0.5 braked, 0.8 sideways."""
    found = aircraft.tyre(ahead, side, 1000.0, 0.02, brake)
    assert (found[0] / 1000.0, found[1] / 1000.0) == pytest.approx(wanted, abs=2e-3)


def test_the_friction_never_exceeds_the_grip() -> None:
    for ahead, side in ((10.0, 10.0), (80.0, 40.0), (0.1, 0.3)):
        assert math.hypot(*aircraft.tyre(ahead, side, 1000.0, 0.1, 1.0)) <= 800.0 + 1e-9


def test_drag_rises_as_in_its_source() -> None:
    """JSBSim's F-16, CDmach: 0 up to Mach 0.81, 0.023 at 1.1, 0.015 at 1.8."""
    assert [drag_rise(m) for m in (0.3, 0.81, 1.1, 1.8)] == pytest.approx([0.0, 0.0, 0.023, 0.015])


@pytest.mark.parametrize(("faster", "extended"), [(0.0, 0.0), (0.0, 1.0), (169.0, 0.0)])
def test_the_added_drag_decelerates_by_its_coefficient(faster: float, extended: float) -> None:
    """Against the aircraft of NASA's check cases in the same state, at Mach 0.46 and 0.95."""
    begins = load_scenario("f16-by-hand").component("f16")
    assert isinstance(begins, PlantComponent)
    x = PILOTED_F16.states.initial({**begins.states, "gear_extension": extended})
    velocity = x[3:6] - np.cross((0.0, 0.0, EARTH_RATE), x[:3])
    ahead = velocity / np.linalg.norm(velocity)
    x[3:6] += faster * ahead
    controls = np.array([*x[13:16], x[16]])
    u = PILOTED_F16.inputs.initial()
    u[:4], dx, plain = controls, np.zeros(x.size), np.zeros(13)
    z, p = PILOTED_F16.discrete.initial(), PILOTED_F16.parameters.initial()
    bound().derivative.call(0.0, x, z, u, p, dx)
    bound_f16().derivative.call(0.0, x[:13], np.zeros(0), controls, p, plain)
    density, sound, _, _ = standard_atmosphere(457.2)
    speed = float(np.linalg.norm(velocity)) + faster
    coefficient = 0.027 * extended + drag_rise(speed / sound)
    wanted = 0.5 * density * speed**2 * AREA * coefficient / p[0]
    assert (faster == 0.0) or coefficient > 0.01
    assert (plain - dx[:13])[3:6] @ ahead == pytest.approx(wanted, rel=1e-6, abs=1e-9)


# -- flights


def test_it_stands_on_the_runway_with_the_engine_at_idle() -> None:
    result = flown(4.0, start="runway")
    assert np.abs(after(result, "wheel_load", 2.0) - 1.0).max() < 0.01
    assert after(result, "equivalent_airspeed", 2.0).max() < 0.05
    assert np.ptp(after(result, "height", 2.0)) < 0.01


@pytest.fixture(scope="module")
def landing(tmp_path_factory: pytest.TempPathFactory) -> tuple[RunResult, Pilot, Recording]:
    """From 3 nm final to the stop on the runway, by a pilot that sees the states."""
    path = tmp_path_factory.mktemp("landing") / "landing.mcap"
    settings = {"start": "final", "step": 0.01, "rate": 50.0}
    result, pilot = piloted(Lands, FileRecorder(path, stopwatch), 103.0, **settings)
    return result, pilot, Recording.open(path)


@pytest.mark.long
def test_a_landing_from_final_stops_on_the_runway(
    landing: tuple[RunResult, Pilot, Recording],
) -> None:
    result, pilot, recording = landing
    assert result.reason == "end"
    (event,) = result.reported
    print(event.tag.seconds, event.values, pilot.along, pilot.across)
    assert event.source == "f16.touchdown"
    assert 0.2 < event.values["sink_rate"] < 2.5  # type: ignore[operator]
    assert 200.0 < event.values["past_threshold"] < 700.0  # type: ignore[operator]
    sink = np.interp(
        event.tag.ns, recording.track("f16").ns, recording.track("f16").column("velocity_down")
    )
    assert event.values["sink_rate"] == pytest.approx(sink, abs=0.3)
    assert pilot.seen["airspeed"] < 0.05
    assert -1500.0 < pilot.along < 1500.0
    assert abs(pilot.across) < 5.0
    assert recording.track("f16").column("recovery_height").min() > 0.0  # PULL UP was silent


@pytest.mark.long
def test_the_report_and_the_recording_tell_the_touchdown(
    landing: tuple[RunResult, Pilot, Recording],
) -> None:
    (event,) = (e for e in landing[2].events if e.source == "f16.touchdown")
    assert event.kind == "Crossed"
    page = render(landing[2])
    assert f"sink_rate = {event.values['sink_rate']}" in page


@pytest.mark.long
def test_a_landing_replays_bit_for_bit(landing: tuple[RunResult, Pilot, Recording]) -> None:
    recording = landing[2]
    assert compare_exact(recording, rerun(recording)) is None


def test_a_take_off_from_standstill() -> None:
    settings = {"start": "runway", "step": 0.01, "rate": 50.0}
    result, pilot = piloted(TakesOff, MemoryRecorder(), 24.0, **settings)
    assert result.reason == "end"
    assert result.reported == ()
    assert pilot.seen["height"] > 60.0
    load, speed = result["f16.wheel_load"], result["f16.equivalent_airspeed"] / KT
    lifts = speed[np.flatnonzero(load == 0.0)[0]]
    assert 140.0 < lifts < 195.0
    assert result["f16.gear_extension"][-1] < 0.3
    assert np.abs(result["f16.roll_deg"]).max() < 3.0


def test_a_dive_into_the_ground_ends_the_run_as_failed_after_pull_up() -> None:
    result = flown(20.0, (0.5, (-0.6, 0.0, 0.0, 0.3)), step=0.01, rate=50.0)
    assert result.reason == "terminal"
    assert result.ending.failed
    assert str(result.ending).endswith("f16.crash: the airframe struck the ground")
    warned = result.time[np.flatnonzero(result["f16.recovery_height"] < 0.0)[0]]
    assert 1.0 < result.ended.seconds - warned < 4.0
    events = [e for e in result.events if e.source == "f16.crash"]
    assert [e.text for e in events] == ["the airframe struck the ground"]
    assert "verdict failed" in render(result.recording())


def test_pull_up_comes_in_time_for_a_pilot_who_obeys() -> None:
    dive = flown(20.0, (0.5, (-0.5, 0.0, 0.0, 0.3)), step=0.01, rate=50.0)
    warned = float(dive.time[np.flatnonzero(dive["f16.recovery_height"] < 0.0)[0]])
    script = ((0.5, (-0.5, 0.0, 0.0, 0.3)), (warned + 1.0, (1.0, 0.0, 0.0, 1.0)))
    result = flown(warned + 12.0, *script, step=0.01, rate=50.0)
    assert result.reason == "end"
    assert 10.0 < result["f16.height"].min() < 200.0


def test_a_hard_landing_breaks_the_gear() -> None:
    script = (0.1, (-0.1, 0.0, 0.0, 0.05)), (1.2, (0.0, 0.0, 0.0, 0.05))
    result = flown(60.0, *script, start="final", step=0.01, rate=50.0)
    assert result.ending.failed
    assert result.ending.error.startswith(("f16.gear_collapse", "f16.crash"))
    assert result.reported[0].values["sink_rate"] > 4.0  # type: ignore[operator]


@pytest.mark.parametrize(("wheels", "broken"), [(3.05, False), (5.0, True)])
def test_the_gear_bears_the_limit_of_its_specification(wheels: float, broken: bool) -> None:
    """10 ft/s is 3.05 m/s, the limit of MIL-A-8862; one leg alone, half the mass, lift = weight."""
    mass, most, pressed, speed = 0.5 * WEIGHT / STANDARD_GRAVITY * 0.76, 0.0, 0.0, wheels
    k, c, h = float(aircraft._SPRING[1]), float(aircraft._DAMPER[1]), 1e-4
    while speed > 0.0:
        speed -= h * (k * pressed + c * speed) / mass
        pressed += h * speed
        most = max(most, pressed)
    print(wheels, most)
    assert (most > aircraft.STROKE) == broken


def test_wind_and_gusts_act_on_the_ground() -> None:
    settings = {"start": "runway", "wind_kt": 20.0, "wind_from": 135.0, "step": 0.01, "rate": 50.0}
    result = flown(3.0, **settings)
    assert after(result, "equivalent_airspeed", 1.0) / KT == pytest.approx(20.0, abs=0.5)
    assert np.abs(after(result, "beta_deg", 1.0) - 90.0).max() < 3.0


def test_wrong_starts_are_refused() -> None:
    with pytest.raises(UnknownName, match="start"):
        load_scenario("f16-by-hand", {"start": "hangar"})
    with pytest.raises(ScenarioError, match="leave out altitude_ft"):
        load_scenario("f16-by-hand", {"start": "final", "altitude_ft": "300"})
    with pytest.raises(ScenarioError, match="leave out speed_kt"):
        load_scenario("f16-by-hand", {"start": "runway", "speed_kt": "10"})


def test_a_guard_tells_only_discrete_signals_and_fails_only_as_the_end() -> None:
    with pytest.raises(ModelError, match="give terminal=True"):
        Guard("crash", -1, failure="it broke")
    with pytest.raises(ModelError, match="reports nothing_there"):
        replace(
            PILOTED_F16,
            guards=(Guard("touchdown", -1, report=("nothing_there",)), *PILOTED_F16.guards[1:]),
        )


# -- autopilot

HOLD = (0.0, 0.0, 0.0, 0.3)


def test_altitude_hold_captures_within_20_ft_and_begins_without_a_bump() -> None:
    """Engaged while it climbs at about 13 m/s."""
    script = (0.5, (0.1, 0.0, 0.0, 0.3)), (3.0, (*HOLD, 1.0))
    result = flown(25.0, *script, step=0.01, rate=50.0)
    altitude = after(result, "altitude", 14.0) / FT
    assert np.ptp(altitude) < 20.0
    load = result["f16.load_factor"]
    at = int(np.flatnonzero(result.time >= 3.0)[0])
    assert abs(load[at + 5] - load[at]) < 0.1
    assert load.min() > 0.3


def test_heading_hold_captures_within_1_deg() -> None:
    """Engaged in a turn of 60 deg of bank."""
    turn = (0.5, (0.0, 0.5, 0.0, 0.3)), (1.2, HOLD)
    result = flown(24.0, *turn, (4.0, (*HOLD, 1.0, 1.0, 0.0)), step=0.01, rate=50.0)
    yaw, roll = after(result, "yaw_deg", 12.0), result["f16.roll_deg"]
    assert np.ptp(yaw) < 1.0
    assert roll.max() > 55.0
    assert np.abs(after(result, "roll_deg", 14.0)).max() < 2.0
    assert np.ptp(after(result, "altitude", 16.0)) / FT < 20.0


def test_speed_hold_captures_within_3_kt_without_a_bump_and_gives_back_the_power() -> None:
    """Engaged while it accelerates by 4 kt/s; the throttle is moved at 20 s."""
    free, moved = (0.0, 0.0, 0.0, 0.5), (0.0, 0.0, 0.0, 0.8)
    modes = (0.0, 0.0, 1.0)
    script = (0.1, free), (4.0, (*free, *modes)), (20.0, (*moved, *modes))
    result = flown(24.0, *script, step=0.01, rate=50.0)
    time, power = result.time, result["by_wire.power"]
    speed = result["f16.equivalent_airspeed"][(time > 9.0) & (time < 20.0)] / KT
    assert np.ptp(speed) < 3.0
    assert np.abs(np.diff(power[(time > 3.5) & (time < 19.9)])).max() < 1.0
    held = result["by_wire.autopilot"]
    assert held[(time > 5.0) & (time < 19.9)].min() == 4.0
    assert held[time > 20.1].max() == 0.0
    assert np.abs(np.diff(power[time > 4.5])).max() < 1.0  # the power goes to the lever, no jump


def test_the_stick_disengages_and_only_a_new_command_engages_again() -> None:
    pulled = (0.3, 0.0, 0.0, 0.3)
    script = (
        (1.0, (*HOLD, 1.0, 1.0)), (2.0, (*pulled, 1.0, 1.0)), (2.5, (*HOLD, 1.0, 1.0)),
        (3.0, (*HOLD, 0.0, 1.0)), (3.5, (*HOLD, 1.0, 1.0)),
    )  # fmt: skip
    result = flown(4.0, *script, step=0.01, rate=50.0)
    held, time = result["by_wire.autopilot"], result.time
    assert [float(held[np.searchsorted(time, t)]) for t in (0.9, 1.9, 2.4, 2.9, 3.4, 3.9)] == [
        0.0, 3.0, 2.0, 2.0, 2.0, 3.0,
    ]  # fmt: skip


def test_no_mode_engages_upside_down() -> None:
    """After a roll at full stick, at 150 deg of roll."""
    script = (0.3, (0.0, 1.0, 0.0, 0.3)), (1.35, HOLD), (1.7, (*HOLD, 1.0, 1.0, 1.0))
    result = flown(2.2, *script, altitude_ft=9000.0, step=0.01, rate=50.0)
    assert abs(result["f16.roll_deg"][-1]) > 100.0
    assert result["by_wire.autopilot"][-1] == 4.0


@pytest.mark.long
def test_turbulence_and_crosswind_landing_is_no_crash(tmp_path: Path) -> None:
    settings = {
        "start": "final", "wind_kt": 10.0, "wind_from": 90.0, "turbulence": 1e-2,
        "step": 0.01, "rate": 50.0,
    }  # fmt: skip
    path = tmp_path / "gusty.mcap"
    result, pilot = piloted(Lands, FileRecorder(path, stopwatch), 103.0, **settings)
    print(result.reported, pilot.along, pilot.across)
    assert result.ending.complete
    assert not result.ending.failed
    assert abs(pilot.across) < 25.0
    recording = Recording.open(path)
    assert compare_exact(recording, rerun(recording)) is None


START, LASTS = 6.0, 1.2


def in_gust(**settings: float) -> Recording:
    scenario = load_scenario("f16", {"case": "13.1"})
    for name, value in settings.items():
        scenario.set(f"f16.{name}", value)
    return trace_of(scenario, until=8)


@pytest.fixture(scope="module")
def calm() -> Recording:
    return in_gust()


def test_the_shape_is_one_minus_cosine() -> None:
    times = np.linspace(START - 1.0, START + LASTS + 1.0, 3201)
    shape = np.array([gust_shape(t, START, LASTS) for t in times])
    inside = (times > START) & (times < START + LASTS)
    assert not shape[~inside].any()
    expected = np.sin(math.pi * (times[inside] - START) / LASTS) ** 2
    np.testing.assert_allclose(shape[inside], expected, rtol=0, atol=1e-12)
    assert gust_shape(START + LASTS / 2, START, LASTS) == 1.0


def test_without_a_speed_of_the_air_the_flight_is_equal_bit_for_bit(calm: Recording) -> None:
    assert compare_exact(calm, in_gust(gust_start=START, gust_duration=LASTS)) is None


@pytest.mark.parametrize("axis", ["y", "z"])
def test_the_gust_changes_the_flow_angles_by_its_speed(calm: Recording, axis: str) -> None:
    """At its peak, by gust / airspeed, but for the answer of the aircraft until then."""
    peak = -0.5
    gusty = in_gust(**{f"gust_{axis}": peak, "gust_start": START, "gust_duration": 0.02})
    seconds = calm.track("f16").ns / 1e9
    angle = {"y": "beta", "z": "alpha"}[axis]
    before = seconds < START
    assert (
        gusty.track("f16").column(angle)[before] == calm.track("f16").column(angle)[before]
    ).all()
    at = int(np.searchsorted(seconds, START + 0.01))
    change = gusty.track("f16").column(angle)[at] - calm.track("f16").column(angle)[at]
    assert change == pytest.approx(-peak / calm.track("f16").column("airspeed")[at], rel=0.02)
    other = {"y": "alpha", "z": "beta"}[axis]
    assert abs(
        gusty.track("f16").column(other)[at] - calm.track("f16").column(other)[at]
    ) < 0.02 * abs(change)


def test_a_gust_from_below_lifts_the_aircraft(calm: Recording) -> None:
    seconds = calm.track("f16").ns / 1e9
    at = int(np.searchsorted(seconds, START + LASTS))
    for speed in (-10.0, 10.0):
        gusty = in_gust(gust_z=speed, gust_start=START, gust_duration=LASTS)
        lifted = (
            gusty.track("f16").column("altitude")[at] - calm.track("f16").column("altitude")[at]
        )
        assert 1.0 < lifted * math.copysign(1.0, -speed) < 10.0


def test_the_dispersed_flights_are_a_study(tmp_path: Path) -> None:
    assert study().runs == 10_000
    rows = (
        start("f16", tmp_path / "out", replace(study(), design=MonteCarlo(12))).table().to_pylist()
    )
    assert {row["state"] for row in rows} == {"ok"}
    assert len({row["digest"] for row in rows}) == 12
    assert all(5.0 < row["settled"] < 12.0 and row["error"] < 25.0 for row in rows)
    assert all(4.0 < row["alpha"] < 10.0 for row in rows)
