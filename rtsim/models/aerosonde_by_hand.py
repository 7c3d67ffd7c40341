"""The Aerosonde controlled by a person, whose stick commands bank and pitch angle."""

from __future__ import annotations

import math
from dataclasses import replace

import rtsim as rt
from rtsim.core.signals import Signal, Signals
from rtsim.core.tag import Duration
from rtsim.equations.compiling import compiled
from rtsim.models.aerosonde import CONTROLS, Aerosonde, SteadyFlight
from rtsim.models.body import drawn
from rtsim.models.piloting.task import Untouched
from rtsim.models.sampling import sampled
from rtsim.models.sensors import Barometer, Gps, Imu, Magnetometer, Pitot
from rtsim.models.terrain import AIRFIELD, ground_grid
from rtsim.models.units import DEG
from rtsim.models.wind import DRYDEN_OUTPUTS, dryden
from rtsim.scenario.body import Ground
from rtsim.scenario.shown import Cue, Hud, Sound

PERIOD = 0.01
"""Period of the controller and of the inertial unit, s."""
_BEFORE_M, _EARTH_M = 600.0, 6371000.0
_MOST = 25.0 * DEG
_LEVEL = {
    "roll": -0.0008019656939300618, "pitch": 0.05378433084429755, "throttle": 0.7739681468732724,
    "elevator": -0.13522065652932666, "aileron": 0.005927882962779736,
    "rudder": -0.000990481728826126,
}  # fmt: skip
"""The trim of the default height and speed, so that the scenario needs no search."""
STICK = Signals(
    Signal("roll", low=-1.0, high=1.0, description="positive to the right"),
    Signal("pitch", low=-1.0, high=1.0, description="positive aft: nose up"),
    Signal("yaw", low=-1.0, high=1.0, description="positive to the right"),
    Signal("throttle", low=0.0, high=1.0),
)
STALL = Cue("stall", "aerosonde.alpha", shaker=(0.2, 0.4), horn=0.3, band=0.02)
"""Warning of a large angle of attack; the stall begins at about 0.47 rad."""


@compiled
def limited(value: float, most: float) -> float:
    return max(-most, min(most, value))


class AttitudeController(rt.Controller, compile=True):
    """Controller of roll and pitch angle with a yaw damper.

    The gains are derived from the linear model in chapter 5 of Beard and McLain. The controller
    reads the true angles of the aircraft instead of estimates.
    """

    period = PERIOD
    gyro = rt.input("rad/s", shape=(3,))
    roll = rt.input("rad", kind="angle")
    pitch = rt.input("rad", kind="angle")
    stick_roll, stick_pitch, stick_yaw = rt.input(shape=(3,))
    stick_throttle = rt.input()
    elevator = rt.output("rad")
    aileron = rt.output("rad")
    rudder = rt.output("rad")
    throttle = rt.output("1")
    trim_elevator = rt.parameter("rad")
    trim_pitch = rt.parameter("rad", kind="angle")
    most_bank = rt.parameter("rad", 60 * DEG)
    most_pitch = rt.parameter("rad", 25 * DEG)
    roll_gain = rt.parameter("1", 0.5)
    pitch_gain = rt.parameter("1", 0.8)
    pitch_sum_gain = rt.parameter("1/s", 0.8)
    pitch_rate_gain = rt.parameter("s", 0.2)
    yaw_rate_gain = rt.parameter("s", 0.2)
    sum = rt.memory("rad.s", description="integral of the pitch error")

    def step(self) -> None:
        roll_error = self.stick_roll * self.most_bank - self.roll
        pitch_error = self.trim_pitch + self.stick_pitch * self.most_pitch - self.pitch
        self.sum = limited(self.sum + self.period * pitch_error, 0.3)
        nose_up = self.pitch_gain * pitch_error + self.pitch_sum_gain * self.sum
        turn = 9.8 / 25.0 * math.sin(self.roll)
        damped = self.yaw_rate_gain * (self.gyro[2] - turn)
        self.aileron = limited(self.roll_gain * roll_error, _MOST)
        self.elevator = limited(
            self.trim_elevator - nose_up + self.pitch_rate_gain * self.gyro[1], _MOST
        )
        self.rudder = limited(damped - 0.3 * self.stick_yaw, _MOST)
        self.throttle = self.stick_throttle


def scenario(
    until: Duration = 3600,
    step: Duration = 0.005,
    height: float = 100.0,
    speed: float = 25.0,
    turbulence: float = 0.0,
    wind: float = 0.0,
    wind_from: float = 0.0,
) -> rt.Scenario:
    """Fly the Aerosonde with a stick, beginning in the air 600 m before the runway.

    Args:
        until: end of the run, s.
        step: step of the aircraft, s.
        height: initial height above the runway, m.
        speed: initial airspeed, m/s.
        turbulence: probability of exceedance of the Dryden gusts of MIL-F-8785C; 0 is none.
        wind: mean wind 20 ft above the ground, m/s.
        wind_from: direction from which the wind comes, deg.
    """
    out = rt.Scenario("aerosonde", until=until)
    latitude, longitude, course = (angle * DEG for angle in AIRFIELD)
    before = _BEFORE_M / _EARTH_M
    flight = SteadyFlight(
        latitude=latitude - before * math.cos(course),
        longitude=longitude - before * math.sin(course) / math.cos(latitude),
        altitude=height, speed=speed, course=course,
    )  # fmt: skip
    level = _LEVEL if (height, speed) == (100.0, 25.0) else flight.trim().free
    states = flight.states(level["roll"], level["pitch"])
    plane = out.plant(Aerosonde(**states), step=step)
    sensors = {
        "imu": sampled(Imu, PERIOD), "pitot": sampled(Pitot, 0.02), "gps": sampled(Gps, 0.2),
        "barometer": sampled(Barometer, 0.02), "compass": sampled(Magnetometer, 0.02),
    }  # fmt: skip
    for name, sensor in sensors.items():
        out.plant(name, sensor(), step=0.01)
        out.connect("aerosonde", name)
    if turbulence != 0.0 or wind != 0.0:
        values = {"wind_20ft": wind, "wind_from": wind_from * DEG, "span": 2.8956}
        if turbulence != 0.0:
            values["exceedance"] = turbulence
        air = out.plant("air", dryden(0.01), step=0.01, parameters=values)
        out.connect(plane.airspeed, air.airspeed)
        out.connect(plane.height, air.altitude)
        out.connect(plane.roll, air.roll)
        out.connect(plane.pitch, air.pitch)
        for name in DRYDEN_OUTPUTS.names:
            out.connect(f"air.{name}", f"aerosonde.{name}")
    throttle = {"throttle": level["throttle"]}
    stick = Signals(*(replace(s, initial=throttle.get(s.name, 0.0)) for s in STICK))
    out.external_input("stick", stick, Untouched())
    commands = {name: level[name] for name in CONTROLS}
    controller = out.controller(
        AttitudeController(trim_elevator=level["elevator"], trim_pitch=level["pitch"], **commands)
    )
    out.connect("imu.gyro", controller.gyro)
    out.connect(plane, controller)
    for name in STICK.names:
        out.connect(f"stick.{name}", f"attitude_controller.stick_{name}")
    _show(out)
    return out


def _show(out: rt.Scenario) -> None:
    out.show(
        drawn("aerosonde", "aircraft", 2.9),
        Ground(ground_grid(), AIRFIELD[0], AIRFIELD[1]),
        STALL,
        Hud("pitot.indicated_airspeed", text="airspeed", unit="m/s", digits=1),
        Hud("aerosonde.height", unit="m", side="right"),
        Hud("aerosonde.motor_current", text="motor", unit="A", digits=1),
        Sound(
            "propeller", "aerosonde.propeller_speed", pitch=((0.0, 40.0), (700.0, 220.0)),
            level=((0.0, 0.0), (100.0, 0.1), (700.0, 0.4)), harmonics=(1.0, 0.7, 0.5, 0.3),
        ),
    )  # fmt: skip
    out.plot("height [m]", "aerosonde.height")
    out.plot("airspeed [m/s]", "aerosonde.airspeed", "pitot.indicated_airspeed")
    out.plot("roll and pitch [rad]", "aerosonde.roll", "aerosonde.pitch")
    out.plot("angles of attack and sideslip [rad]", "aerosonde.alpha", "aerosonde.beta")
    out.plot("surfaces [rad]", *(f"aerosonde.{name}" for name in ("elevator", "aileron", "rudder")))
    out.plot("thrust [N]", "aerosonde.thrust")
    out.plot("stick", *(f"stick.{name}" for name in STICK.names))
    out.plot("ground track [rad]", "aerosonde.latitude", over="aerosonde.longitude")
