"""Sensors for a vehicle: inertial unit, barometer, magnetometer, GPS and pitot tube.

A sensor is a plant whose inputs have the names of a vehicle's outputs, and whose memory contains
the latest measurement::

    imu = loop.plant("imu", sampled(Imu, 0.001)(), step=0.001)
    loop.connect(vehicle, imu)

:func:`rtsim.models.sampling.sampled` gives a sensor its own rate. The random numbers belong to the
name of the plant, so runs with the same seed have the same noise, and further sensors do not change
it. A controller that samples at the instant of a measurement reads the previous measurement.

Sources of the figures:

- The inertial unit is the ADIS16448: noise densities, random walks and turn-on biases are from
  RotorS, ``rotors_gazebo_plugins/gazebo_imu_plugin.h``, and the ranges from the data sheet.
- Barometer, GPS and pitot tube: Beard and McLain, *Small Unmanned Aircraft* (2012), chapter 7 and
  appendix H; file ``mavsim_matlab/parameters/sensor_parameters.m`` of the book's programs. The
  pitot tube has the range of the sensor MPXV5004G.
- The latency of the GPS is the default of PX4's parameter ``EKF2_GPS_DELAY``.
- Magnetometer: noise floor and range of the HMC5883L data sheet (Honeywell). The magnetic field is
  that of the World Magnetic Model; see ``earth_field``.
"""

from __future__ import annotations

import math

import rtsim as rt
from rtsim.core.errors import ModelError
from rtsim.core.extras import needs
from rtsim.equations.compiling import compiled
from rtsim.equations.earth import EQUATORIAL_RADIUS
from rtsim.models.atmosphere import SEA_LEVEL_DENSITY
from rtsim.models.sampling import Sampled
from rtsim.models.units import DEG

_G = 9.8


@compiled
def clipped(value: float, most: float) -> float:
    return max(-most, min(most, value))


class Imu(Sampled):
    """Gyroscopes and accelerometers in the centre of mass, along the body axes.

    A measurement is the sum of the true value, a bias and white noise, limited to the range. The
    standard deviation of the white noise is noise / sqrt(period). The bias starts at a random value
    and is a random walk.
    """

    inertial_roll_rate = rt.input("rad/s")
    inertial_pitch_rate = rt.input("rad/s")
    inertial_yaw_rate = rt.input("rad/s")
    specific_force = rt.input("m/s2", shape=(3,))
    gyro_noise = rt.parameter("rad/s.s0.5", 2.0 * 35.0 / 3600.0 * DEG, low=0.0)
    gyro_walk = rt.parameter("rad/s.s-0.5", 2.0 * 4.0 / 3600.0 * DEG, low=0.0)
    gyro_start = rt.parameter("rad/s", 0.5 * DEG, low=0.0, description="deviation of the bias")
    gyro_range = rt.parameter("rad/s", 1000.0 * DEG, low=0.0)
    force_noise = rt.parameter("m/s2.s0.5", 2.0 * 2.0e-3, low=0.0)
    force_walk = rt.parameter("m/s2.s-0.5", 2.0 * 3.0e-3, low=0.0)
    force_start = rt.parameter("m/s2", 20.0e-3 * _G, low=0.0, description="deviation of the bias")
    force_range = rt.parameter("m/s2", 18.0 * _G, low=0.0)
    gyro = rt.memory("rad/s", shape=(3,), description="measured rates about body x, y and z")
    acceleration = rt.memory("m/s2", shape=(3,), description="measured specific force")
    gyro_bias = rt.memory("rad/s", shape=(3,))
    force_bias = rt.memory("m/s2", shape=(3,))
    normal = rt.memory("1", shape=(12,), description="random numbers of the present sample")
    started = rt.memory()

    def sample(self, period: float) -> None:
        root = math.sqrt(period)
        walk, force_walk = root * self.gyro_walk, root * self.force_walk
        if self.started == 0.0:
            walk, force_walk = self.gyro_start, self.force_start
        self.started = 1.0
        noise, force_noise = self.gyro_noise / root, self.force_noise / root
        for k in range(3):
            self.gyro_bias[k] += walk * self.normal[k]
            self.force_bias[k] += force_walk * self.normal[3 + k]
            force = self.specific_force[k] + self.force_bias[k] + force_noise * self.normal[6 + k]
            self.acceleration[k] = clipped(force, self.force_range)
        most = self.gyro_range
        roll = self.inertial_roll_rate + self.gyro_bias[0] + noise * self.normal[9]
        pitch = self.inertial_pitch_rate + self.gyro_bias[1] + noise * self.normal[10]
        yaw = self.inertial_yaw_rate + self.gyro_bias[2] + noise * self.normal[11]
        self.gyro[0] = clipped(roll, most)
        self.gyro[1] = clipped(pitch, most)
        self.gyro[2] = clipped(yaw, most)


class Barometer(Sampled):
    """Sensor of the static pressure with a bias and white noise."""

    pressure = rt.input("Pa")
    noise = rt.parameter("Pa", 10.0, low=0.0, description="standard deviation of a sample")
    bias = rt.parameter("Pa")
    static_pressure = rt.memory("Pa", 101325.0, description="measured")
    normal = rt.memory("1", shape=(1,), description="random number of the present sample")

    def sample(self, period: float) -> None:  # noqa: ARG002
        self.static_pressure = self.pressure + self.bias + self.noise * self.normal[0]


class Pitot(Sampled):
    """Pitot tube, which measures the impact pressure."""

    dynamic_pressure = rt.input("Pa")
    noise = rt.parameter("Pa", 2.0, low=0.0, description="standard deviation of a sample")
    bias = rt.parameter("Pa")
    range = rt.parameter("Pa", 3920.0, low=0.0)
    impact_pressure = rt.memory("Pa", description="measured, 0 to the range")
    indicated_airspeed = rt.memory("m/s", description="at the standard density of sea level")
    normal = rt.memory("1", shape=(1,), description="random number of the present sample")
    assumptions = (
        "the impact pressure is that of incompressible flow; no error of the static port",
    )

    def sample(self, period: float) -> None:  # noqa: ARG002
        pressure = self.dynamic_pressure + self.bias + self.noise * self.normal[0]
        self.impact_pressure = max(0.0, min(self.range, pressure))
        self.indicated_airspeed = math.sqrt(2.0 * self.impact_pressure / SEA_LEVEL_DENSITY)


class Magnetometer(Sampled):
    """Sensor of the magnetic field along the body axes.

    The Earth's field is constant during a run; ``earth_field`` computes its components. The default
    field is that at the airfield of rtsim's terrain at the beginning of 2025.
    """

    roll = rt.input("rad", kind="angle")
    pitch = rt.input("rad", kind="angle")
    yaw = rt.input("rad", kind="angle")
    north = rt.parameter("nT", 22236.2)
    east = rt.parameter("nT", -4321.8)
    down = rt.parameter("nT", 43037.2)
    iron = rt.parameter("nT", shape=(3,), description="field of the vehicle, in body axes")
    noise = rt.parameter("nT", 200.0, low=0.0, description="standard deviation of a sample")
    range = rt.parameter("nT", 800e3, low=0.0)
    field = rt.memory("nT", shape=(3,), description="measured")
    normal = rt.memory("1", shape=(3,), description="random numbers of the present sample")

    def sample(self, period: float) -> None:  # noqa: ARG002
        sr, cr = math.sin(self.roll), math.cos(self.roll)
        sp, cp = math.sin(self.pitch), math.cos(self.pitch)
        sy, cy = math.sin(self.yaw), math.cos(self.yaw)
        ahead, right = cy * self.north + sy * self.east, cy * self.east - sy * self.north
        below = sp * ahead + cp * self.down
        x = cp * ahead - sp * self.down + self.iron[0] + self.noise * self.normal[0]
        y = cr * right + sr * below + self.iron[1] + self.noise * self.normal[1]
        z = cr * below - sr * right + self.iron[2] + self.noise * self.normal[2]
        self.field[0] = clipped(x, self.range)
        self.field[1] = clipped(y, self.range)
        self.field[2] = clipped(z, self.range)


class Gps(Sampled):
    """Satellite navigation receiver, with delayed position and velocity.

    The position error is a Gauss-Markov process with the time constant ``correlation``; its
    deviation after 1 s is ``wander``. Initially, the error is random with the stationary deviation:
    4.9 m horizontally, 9.4 m in altitude. A position is older than the latency by up to one
    ``step`` of the receiver.
    """

    latitude = rt.input("rad", kind="angle")
    longitude = rt.input("rad", kind="angle")
    altitude = rt.input("m")
    velocity_north = rt.input("m/s")
    velocity_east = rt.input("m/s")
    velocity_down = rt.input("m/s")
    latency = rt.parameter("s", 0.11, low=0.0)
    wander = rt.parameter("m", 0.21, low=0.0, description="horizontally")
    wander_up = rt.parameter("m", 0.40, low=0.0)
    correlation = rt.parameter("s", 1100.0, low=1e-3)
    velocity_noise = rt.parameter("m/s", 0.05, low=0.0, description="deviation of each component")
    past_latitude = rt.delayed("latitude", "latency")
    past_longitude = rt.delayed("longitude", "latency")
    past_altitude = rt.delayed("altitude", "latency")
    past_north = rt.delayed("velocity_north", "latency")
    past_east = rt.delayed("velocity_east", "latency")
    past_down = rt.delayed("velocity_down", "latency")
    fix_latitude = rt.memory("rad", description="measured")
    fix_longitude = rt.memory("rad")
    fix_altitude = rt.memory("m")
    fix_velocity_north = rt.memory("m/s")
    fix_velocity_east = rt.memory("m/s")
    fix_velocity_down = rt.memory("m/s")
    error = rt.memory("m", shape=(3,), description="of the position: north, east, up")
    normal = rt.memory("1", shape=(6,), description="random numbers of the present sample")
    started = rt.memory()

    def sample(self, period: float) -> None:
        per_second = 1.0 - math.exp(-2.0 / self.correlation)
        decay = math.exp(-period / self.correlation) if self.started != 0.0 else 0.0
        self.started = 1.0
        spread = math.sqrt((1.0 - decay * decay) / per_second)
        self.error[0] = decay * self.error[0] + spread * self.wander * self.normal[0]
        self.error[1] = decay * self.error[1] + spread * self.wander * self.normal[1]
        self.error[2] = decay * self.error[2] + spread * self.wander_up * self.normal[2]
        across = EQUATORIAL_RADIUS * max(1e-6, math.cos(self.past_latitude))
        self.fix_latitude = self.past_latitude + self.error[0] / EQUATORIAL_RADIUS
        self.fix_longitude = self.past_longitude + self.error[1] / across
        self.fix_altitude = self.past_altitude + self.error[2]
        self.fix_velocity_north = self.past_north + self.velocity_noise * self.normal[3]
        self.fix_velocity_east = self.past_east + self.velocity_noise * self.normal[4]
        self.fix_velocity_down = self.past_down + self.velocity_noise * self.normal[5]


def earth_field(
    latitude: float, longitude: float, altitude: float, year: float
) -> dict[str, float]:
    """Return the parameters ``north``, ``east`` and ``down`` (nT) of a :class:`Magnetometer`.

    The field is that of the World Magnetic Model. ``latitude`` and ``longitude`` are geodetic, rad,
    ``altitude`` is in m, ``year`` is decimal, 2010 to 2030. Raises ``ModelError`` for an unsuitable
    year, and if the package pygeomag is missing.

    Example:
        compass = sampled(Magnetometer, 0.02)(**earth_field(0.83, 0.15, 400.0, 2026.5))
    """
    with needs("wmm", "the magnetic field of the Earth"):
        from pygeomag import GeoMag
    try:
        found = GeoMag(base_year=int(year)).calculate(
            glat=latitude / DEG, glon=longitude / DEG, alt=altitude / 1000.0, time=year
        )
    except (ValueError, OverflowError) as error:
        raise ModelError(
            f"the World Magnetic Model does not cover the year {year} ({error}); give a decimal "
            "year from 2010 to 2030"
        ) from None
    return {"north": found.x, "east": found.y, "down": found.z}
