"""A quadcopter controlled by a person: the stick commands rates (acro mode) or angles.

``rtsim fly quadcopter`` uses the controller of this file, and ``rtsim fly betaflight`` the program
Betaflight.
"""

from __future__ import annotations

import rtsim as rt
from rtsim.core.signals import Signal, Signals
from rtsim.core.tag import Duration
from rtsim.equations.compiling import compiled
from rtsim.models.body import body_states, drawn, initial_state
from rtsim.models.piloting.task import Untouched
from rtsim.models.quadcopter import STANDS, Quadcopter
from rtsim.models.sampling import sampled
from rtsim.models.sensors import Barometer, Gps, Imu
from rtsim.models.terrain import AIRFIELD, ground_grid
from rtsim.models.units import DEG
from rtsim.scenario.body import Ground
from rtsim.scenario.shown import Hud, Sound

PERIOD = 0.0025
"""Period of the controller and of the inertial unit, s."""
STICK = Signals(
    Signal("roll", low=-1.0, high=1.0, description="positive to the right"),
    Signal("pitch", low=-1.0, high=1.0, description="positive aft: nose up"),
    Signal("yaw", low=-1.0, high=1.0, description="positive to the right"),
    Signal("throttle", low=0.0, high=1.0),
    Signal("arm", low=0.0, high=1.0, description="1 arms the motors"),
    Signal("angle", low=0.0, high=1.0, description="1: the stick commands angles, 0: rates"),
)
_AHEAD, _RIGHT, _TURN = (1, -1, 1, -1), (1, -1, -1, 1), (1, 1, -1, -1)
"""Position of each rotor, and the sign of its reaction torque, as in the quadcopter."""


@compiled
def limited(value: float, low: float, high: float) -> float:
    return max(low, min(high, value))


class RateController(rt.Controller, compile=True):
    """Controller of the body rates and, in angle mode, of roll and pitch.

    The controller reads the true angles of the vehicle instead of estimates.
    """

    period = PERIOD
    gyro = rt.input("rad/s", shape=(3,))
    roll = rt.input("rad", kind="angle")
    pitch = rt.input("rad", kind="angle")
    stick_roll, stick_pitch, stick_yaw = rt.input(shape=(3,))
    stick_throttle = rt.input()
    stick_arm = rt.input()
    stick_angle = rt.input()
    throttle = rt.output(shape=(4,), description="as in the quadcopter")
    most_rate = rt.parameter("rad/s", (360 * DEG, 360 * DEG, 200 * DEG), description="by axis")
    most_angle = rt.parameter("rad", 45 * DEG)
    per_angle = rt.parameter("1/s", 6.0)
    gain = rt.parameter("s", (0.035, 0.035, 0.15), description="throttle by rate error, by axis")
    integral_gain = rt.parameter("1", (0.05, 0.05, 0.1))
    idle = rt.parameter("1", 0.05, description="throttle of an armed motor")
    sums = rt.memory("rad", shape=(3,), description="integrals of the rate errors")

    def step(self) -> None:
        wanted_roll = self.stick_roll * self.most_rate[0]
        wanted_pitch = self.stick_pitch * self.most_rate[1]
        if self.stick_angle > 0.5:
            wanted_roll = self.per_angle * (self.stick_roll * self.most_angle - self.roll)
            wanted_pitch = self.per_angle * (self.stick_pitch * self.most_angle - self.pitch)
        wanted_yaw = self.stick_yaw * self.most_rate[2]
        by_roll = self.command(0, wanted_roll - self.gyro[0])
        by_pitch = self.command(1, wanted_pitch - self.gyro[1])
        by_yaw = self.command(2, wanted_yaw - self.gyro[2])
        for k in range(4):
            mixed = self.stick_throttle - _RIGHT[k] * by_roll + _AHEAD[k] * by_pitch
            mixed = limited(mixed + _TURN[k] * by_yaw, self.idle, 1.0)
            self.throttle[k] = mixed if self.stick_arm > 0.5 else 0.0

    def command(self, axis: int, error: float) -> float:
        """Return the command about an axis for a rate error (rad/s), and update the integral."""
        flies = self.stick_arm > 0.5 and self.stick_throttle > 2.0 * self.idle
        added = limited(self.sums[axis] + self.period * error, -1.0, 1.0)
        self.sums[axis] = added if flies else 0.0
        return float(self.gain[axis] * error + self.integral_gain[axis] * self.sums[axis])


def add_quadcopter(out: rt.Scenario, step: Duration, above: float) -> None:
    """Add the plant ``quadcopter``, its sensors, the stick, and the scene.

    The vehicle begins in the middle of the runway, ``above`` m higher than a vehicle on its feet.
    The sensors are ``imu``, ``barometer`` and ``gps``.
    """
    latitude, longitude, course = (angle * DEG for angle in AIRFIELD)
    x = initial_state(
        latitude=latitude, longitude=longitude, altitude=STANDS + above, euler=(0.0, 0.0, course)
    )
    out.plant("quadcopter", Quadcopter(**body_states(x)), step=step)
    sensors = {"imu": sampled(Imu, PERIOD), "barometer": sampled(Barometer, 0.02)}
    for name, sensor in {**sensors, "gps": sampled(Gps, 0.2)}.items():
        out.plant(name, sensor(), step=0.01 if name == "gps" else step)
        out.connect("quadcopter", name)
    out.external_input("stick", STICK, Untouched())
    out.show(
        drawn("quadcopter", "quadcopter", 0.5),
        Ground(ground_grid(), AIRFIELD[0], AIRFIELD[1]),
        Hud("quadcopter.airspeed", unit="m/s", digits=1),
        Hud("quadcopter.voltage", unit="V", digits=1),
        Hud("quadcopter.height", unit="m", digits=1, side="right"),
        Sound(
            "rotors", "quadcopter.thrust", pitch=((0.0, 60.0), (7.0, 140.0), (24.0, 260.0)),
            level=((0.0, 0.0), (1.0, 0.1), (24.0, 0.4)), harmonics=(1.0, 0.6, 0.4, 0.2),
        ),
    )  # fmt: skip
    out.plot("height [m]", "quadcopter.height")
    out.plot("roll and pitch [rad]", "quadcopter.roll", "quadcopter.pitch")
    out.plot("measured rates [rad/s]", "imu.gyro")
    out.plot("throttles", "quadcopter.throttle")
    out.plot("battery [V]", "quadcopter.voltage")
    out.plot("stick", *(f"stick.{name}" for name in STICK.names))
    out.plot("ground track [rad]", "quadcopter.latitude", over="quadcopter.longitude")


def scenario(until: Duration = 3600, step: Duration = PERIOD, above: float = 0.0) -> rt.Scenario:
    """Fly the quadcopter with a stick, in acro or angle mode.

    Args:
        until: end of the run, s.
        step: step of the vehicle, s.
        above: initial height of the feet above the runway, m.
    """
    out = rt.Scenario("quadcopter", until=until)
    add_quadcopter(out, step, above)
    controller = out.controller(RateController())
    out.connect("imu.gyro", controller.gyro)
    out.connect("quadcopter.roll", controller.roll)
    out.connect("quadcopter.pitch", controller.pitch)
    for name in STICK.names:
        out.connect(f"stick.{name}", f"rate_controller.stick_{name}")
    out.connect(controller.throttle, "quadcopter.throttle")
    return out
