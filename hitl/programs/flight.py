"""The quadcopter with Betaflight as its flight controller."""

from __future__ import annotations

import rtsim as rt
from hitl.programs.betaflight import Betaflight
from rtsim.core.tag import Duration
from rtsim.models.quadcopter_by_hand import PERIOD, STICK, add_quadcopter

_ANSWERS = 0.0005
"""Time from the sample until Betaflight's answer, s (own choice; a program answers later)."""

_SETTINGS = ("set angle_feedforward = 0",)
"""Commands for Betaflight. With its default of 50, the vehicle rolls 0.35 rad to the other side
after a stick that was released at once, because its rotors are slower than those of a racer."""


class Radio(rt.Plant):
    """Transmitter: stick and switches as channels of 1000 to 2000 us, in the order of Betaflight.

    Auxiliary channel 1 arms the motors, auxiliary channel 2 selects angle mode.
    """

    stick_roll, stick_pitch, stick_yaw = rt.input(shape=(3,))
    stick_throttle = rt.input()
    stick_arm = rt.input()
    stick_angle = rt.input()
    channels = rt.output("us", shape=(16,))

    def outputs(self) -> None:
        self.channels[0] = 1500.0 + 500.0 * self.stick_roll
        self.channels[1] = 1500.0 - 500.0 * self.stick_pitch
        self.channels[2] = 1000.0 + 1000.0 * self.stick_throttle
        self.channels[3] = 1500.0 + 500.0 * self.stick_yaw
        self.channels[4] = 1000.0 + 1000.0 * self.stick_arm
        self.channels[5] = 1000.0 + 1000.0 * self.stick_angle
        for k in range(6, 16):
            self.channels[k] = 1000.0


def scenario(
    until: Duration = 3600,
    step: Duration = PERIOD,
    above: float = 0.0,
    transport: float = 0.0,
    program: str = "",
) -> rt.Scenario:
    """Fly the quadcopter with Betaflight, in acro or angle mode.

    Args:
        until: end of the run, s.
        step: step of the vehicle, s.
        above: initial height of the feet above the runway, m.
        transport: time from Betaflight's answer until it arrives at the motors, s.
        program: path of Betaflight's program; by default that of the package ``betaflight``.
    """
    out = rt.Scenario("betaflight", until=until)
    controller = Betaflight(program or None, settings=_SETTINGS)
    add_quadcopter(out, step, above)
    out.plant(Radio(), step=step)
    for name in STICK.names:
        out.connect(f"stick.{name}", f"radio.stick_{name}")
    inputs = {
        "rates": "imu.gyro", "specific_force": "imu.acceleration",
        "attitude_ned": "quadcopter.attitude_ned", "pressure": "barometer.static_pressure",
        "latitude": "gps.fix_latitude", "longitude": "gps.fix_longitude",
        "altitude": "gps.fix_altitude", "channels": "radio.channels",
        "velocity_north": "gps.fix_velocity_north", "velocity_east": "gps.fix_velocity_east",
        "velocity_down": "gps.fix_velocity_down",
    }  # fmt: skip
    out.controller(
        "betaflight",
        controller,
        period=PERIOD,
        compute=_ANSWERS,
        transport=transport,
        inputs=inputs,
    )
    out.connect("betaflight.throttle", "quadcopter.throttle")
    return out
