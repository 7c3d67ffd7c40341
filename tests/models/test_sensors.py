"""Sensors: noise, random walk, range, rate, latency, the magnetic field, repeated runs.

Statistical checks fail for a correct model with a probability of ``CHANCE`` each; seeds are fixed.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from engine_parts import check_equal
from numpy.typing import NDArray
from scipy import stats

import rtsim as rt
from rtsim.core.errors import ModelError
from rtsim.equations.compiling import plainly
from rtsim.models.atmosphere import SEA_LEVEL_DENSITY
from rtsim.models.body import euler_matrix
from rtsim.models.sampling import sampled
from rtsim.models.sensors import Barometer, Gps, Imu, Magnetometer, Pitot, earth_field
from rtsim.runs.simulation import simulate

CHANCE = 1e-5
AT_REST: dict[str, Any] = {
    "inertial_roll_rate": 0.1, "inertial_pitch_rate": 0.0, "inertial_yaw_rate": -0.2,
    "specific_force": (0.0, 0.0, -9.8),
}  # fmt: skip


@pytest.fixture(autouse=True)
def helpers_as_plain_python() -> Iterator[None]:
    with plainly():
        yield


def alone(sensor: rt.Plant, period: float, until: float, seed: int = 1) -> Any:
    out = rt.Scenario("sensor", until=until)
    out.plant("sensor", sensor, step=period)
    return simulate(out, seed=seed)


def samples(run: Any, name: str, period: float) -> NDArray[np.float64]:
    """Return one value for each sample, the last one before the next sample."""
    times = np.arange(round(float(run.ended.seconds) / period)) * period + 0.5 * period
    at = np.searchsorted(run.time, times, side="right") - 1
    found: NDArray[np.float64] = np.asarray(run[f"sensor.{name}"])[at]
    return found


def check_variance(values: NDArray[np.float64], expected: float) -> None:
    """The sum of squares of independent values with mean 0 is within its chi-squared bounds."""
    ratio = float((values**2).sum()) / expected
    low, high = (float(stats.chi2.ppf(p, values.size)) for p in (0.5 * CHANCE, 1 - 0.5 * CHANCE))
    assert low < ratio < high


QUIET = {"gyro_walk": 0.0, "gyro_start": 0.0, "force_walk": 0.0, "force_start": 0.0}


@pytest.mark.parametrize("period", [0.01, 0.04])
def test_white_noise_has_its_density_at_each_rate(period: float) -> None:
    """The Allan variance of white noise of density N is N^2 / tau."""
    run = alone(sampled(Imu, period)(**AT_REST, **QUIET), period, 4000 * period)
    density = 2.0 * 35.0 / 3600.0 * math.pi / 180.0
    gyro = samples(run, "gyro", period) - [0.1, 0.0, -0.2]
    check_variance(gyro.ravel(), density**2 / period)
    force = samples(run, "acceleration", period) - [0.0, 0.0, -9.8]
    check_variance(force.ravel(), 0.004**2 / period)
    for cluster in (1, 10, 50):  # differences of adjacent means; every second one is independent
        means = gyro[:, 0].reshape(-1, cluster).mean(axis=1)
        check_variance(means[1::2] - means[::2], 2.0 * density**2 / (cluster * period))
    assert abs(np.corrcoef(gyro[:, 0], gyro[:, 1])[0, 1]) < 0.08


def test_the_bias_walks_with_the_root_of_the_time() -> None:
    period, walk = 0.02, 2.0 * 4.0 / 3600.0 * math.pi / 180.0
    run = alone(sampled(Imu, period)(**AT_REST), period, 100.0)
    bias = samples(run, "gyro_bias", period)
    check_variance(np.diff(bias, axis=0).ravel(), walk**2 * period)
    check_variance((bias[50::50] - bias[:-50:50]).ravel(), walk**2 * 50 * period)
    force = samples(run, "force_bias", period)
    check_variance(np.diff(force, axis=0).ravel(), 0.006**2 * period)


def test_the_first_bias_has_its_own_deviation() -> None:
    first = [alone(sampled(Imu, 1.0)(**AT_REST), 1.0, 1.0, seed=k)["sensor.gyro_bias"][-1]
             for k in range(25)]  # fmt: skip
    start, walk = math.radians(0.5), 2.0 * 4.0 / 3600.0 * math.pi / 180.0
    check_variance(np.ravel(first), start**2 + walk**2)


def test_rates_and_forces_saturate() -> None:
    fast = {"inertial_roll_rate": 100.0, "inertial_pitch_rate": -100.0, "inertial_yaw_rate": 0.0}
    run = alone(sampled(Imu, 0.1)(**fast, specific_force=(500.0, -500.0, 0.0)), 0.1, 1.0)
    most = math.radians(1000.0)
    assert run["sensor.gyro"][-1][:2].tolist() == pytest.approx([most, -most])
    assert run["sensor.acceleration"][-1][:2].tolist() == pytest.approx([18 * 9.8, -18 * 9.8])


class Climber(rt.Plant):
    """A body that climbs and moves north; the names are those of a vehicle."""

    altitude = rt.state("m")
    latitude = rt.state("rad")
    longitude = rt.parameter("rad", 0.3)
    velocity_north = rt.parameter("m/s", 5.0)
    velocity_east = rt.parameter("m/s", 0.0)
    velocity_down = rt.parameter("m/s", -2.0)

    def derivative(self, d: Any) -> None:
        d.altitude = -self.velocity_down
        d.latitude = self.velocity_north / 6378137.0


def climbs(latency: float, period: float = 0.25, until: float = 2.0, **noise: float) -> rt.Scenario:
    out = rt.Scenario("climb", until=until)
    out.plant(Climber(), step=0.01)
    inputs = {n: f"climber.{n}" for n in ("altitude", "latitude")}
    steady = {"longitude": 0.3, "velocity_north": 5.0, "velocity_east": 0.0, "velocity_down": -2.0}
    gps = sampled(Gps, period)(latency=latency, **noise)
    out.plant("sensor", gps, step=0.01, inputs={**inputs, **steady})
    return out


@pytest.mark.parametrize("latency", [0.0, 0.11, 0.4])
def test_a_fix_is_the_position_of_some_time_ago(latency: float) -> None:
    still = {"wander": 0.0, "wander_up": 0.0, "velocity_noise": 0.0}
    run = simulate(climbs(latency, **still))
    at = 0.25 * np.arange(8)
    older = latency + 0.01 if latency else 0.0  # an input is held for a step of the sensor
    wanted = 2.0 * np.maximum(at - older, 0.0)
    np.testing.assert_allclose(samples(run, "fix_altitude", 0.25), wanted, atol=1e-9)
    np.testing.assert_allclose(
        samples(run, "fix_latitude", 0.25), 2.5 * wanted / 6378137.0, atol=1e-15
    )
    velocity = {name: run[f"sensor.fix_velocity_{name}"][-1] for name in ("north", "east", "down")}
    assert velocity == {"north": 5.0, "east": 0.0, "down": -2.0}
    assert np.unique(run["sensor.fix_altitude"]).size <= 9  # its own rate


def test_the_error_of_a_fix_is_stationary_and_correlated() -> None:
    """exp(-T/tau) of an error remains after T, whatever the rate; its variance stays."""
    tau, period = 4.0, 1.0
    fixed: dict[str, Any] = {
        "latitude": 0.6, "longitude": 0.1, "altitude": 50.0, "velocity_north": 0.0,
        "velocity_east": 0.0, "velocity_down": 0.0,
    }  # fmt: skip
    run = alone(sampled(Gps, period)(correlation=tau, latency=0.0, **fixed), period, 8000.0)
    error = samples(run, "fix_altitude", period) - 50.0
    deviation = 0.40 / math.sqrt(1.0 - math.exp(-2.0 / tau))
    assert error.std() == pytest.approx(deviation, rel=0.08)
    assert np.corrcoef(error[1:], error[:-1])[0, 1] == pytest.approx(math.exp(-0.25), abs=0.03)
    steps = error[1:] - math.exp(-period / tau) * error[:-1]
    check_variance(steps, 0.40**2)
    north = (samples(run, "fix_latitude", period) - 0.6) * 6378137.0
    assert north.std() == pytest.approx(0.21 / 0.40 * deviation, rel=0.08)
    for name in ("north", "east", "down"):
        check_variance(samples(run, f"fix_velocity_{name}", period), 0.05**2)


def test_a_jump_of_the_fix_is_a_fault_of_its_signal() -> None:
    class Reader(rt.Plant):
        seen = rt.output("m")
        fix_altitude = rt.input("m")

        def outputs(self) -> None:
            self.seen = self.fix_altitude

    out = climbs(0.1, wander_up=0.0)
    out.plant(Reader(), step=0.01)
    out.connect("sensor", "reader")
    out.faults({"name": "jump", "where": "sensor.fix_altitude", "kind": "offset", "amount": 30.0,
                "at": 1.0, "duration": 0.5})  # fmt: skip
    run = simulate(out)
    jumped = run["reader.seen"] - run["sensor.fix_altitude"]
    assert set(np.round(jumped, 9)) == {0.0, 30.0}
    assert np.ptp(run.time[jumped > 1.0]) == pytest.approx(0.5, abs=0.02)


def test_barometer_and_pitot_tube() -> None:
    run = alone(sampled(Barometer, 0.02)(pressure=90e3, bias=50.0), 0.02, 60.0)
    check_variance(samples(run, "static_pressure", 0.02) - 90_050.0, 10.0**2)
    run = alone(sampled(Pitot, 0.02)(dynamic_pressure=0.5 * SEA_LEVEL_DENSITY * 625), 0.02, 60.0)
    check_variance(samples(run, "impact_pressure", 0.02) - 0.5 * SEA_LEVEL_DENSITY * 625, 2.0**2)
    assert run["sensor.indicated_airspeed"].mean() == pytest.approx(25.0, abs=0.02)
    run = alone(sampled(Pitot, 0.02)(dynamic_pressure=5000.0), 0.02, 0.1)
    assert run.final("sensor.impact_pressure") == 3920.0
    run = alone(sampled(Pitot, 0.02)(dynamic_pressure=0.0, bias=-50.0), 0.02, 0.1)
    assert run.final("sensor.indicated_airspeed") == 0.0


@pytest.mark.parametrize("euler", [(0.0, 0.0, 0.0), (0.4, -0.7, 2.0), (-3.0, 1.2, -1.0)])
def test_the_magnetometer_turns_the_field_into_body_axes(
    euler: tuple[float, float, float],
) -> None:
    sensor = sampled(Magnetometer, 0.1)(
        **dict(zip(("roll", "pitch", "yaw"), euler, strict=True)), noise=0.0, iron=(10.0, 0.0, -5.0)
    )
    run = alone(sensor, 0.1, 0.2)
    field = np.array([22236.2, -4321.8, 43037.2])
    wanted = euler_matrix(*euler) @ field + [10.0, 0.0, -5.0]
    np.testing.assert_allclose(run["sensor.field"][-1], wanted, rtol=1e-9)


def test_the_field_is_that_of_the_world_magnetic_model() -> None:
    """Test values of the report to WMM2020 (2020.0, 80 deg north), and the default of the class."""
    found = earth_field(math.radians(80.0), 0.0, 0.0, 2020.0)
    assert list(found.values()) == pytest.approx([6570.4, -146.3, 54606.0], abs=0.05)
    airfield = earth_field(math.radians(36.0176), math.radians(-75.6713), 0.0, 2025.0)
    default = Magnetometer.model().parameters.declared_initial()
    for name, value in airfield.items():
        assert default[name] == pytest.approx(value, abs=0.05)


@pytest.mark.parametrize("year", [2003.5, 2031.0, math.nan])
def test_a_year_without_a_model_of_the_field(year: float) -> None:
    with pytest.raises(ModelError, match="give a decimal year from 2010 to 2030"):
        earth_field(0.5, 0.0, 0.0, year)


def measured(more: bool = False) -> rt.Scenario:
    out = climbs(0.11)
    out.plant("imu", sampled(Imu, 0.01)(**AT_REST), step=0.01)
    if more:
        out.plant("barometer", sampled(Barometer, 0.02)(pressure=90e3), step=0.02)
    return out


def test_runs_repeat_and_further_sensors_change_no_noise() -> None:
    first, again, more = simulate(measured()), simulate(measured()), simulate(measured(True))
    other = simulate(measured(), seed=9)
    assert first.recording().digest() == again.recording().digest()
    np.testing.assert_array_equal(first["imu.gyro"], more["imu.gyro"])
    assert not np.array_equal(first["imu.gyro"], other["imu.gyro"])


@pytest.mark.long
def test_both_engines_measure_alike() -> None:
    assert check_equal(lambda: measured(True)) > 100
