"""A motor with a flywheel that turns in both directions, with its reference controller."""

from pathlib import Path
from typing import Self

import rtsim as rt

PERIOD = 0.01  # s
LIMIT = 12.0  # V


class Motor(rt.Plant):
    """A motor whose speed follows the voltage with a time constant."""

    speed = rt.state("rad/s")
    voltage = rt.input("V")
    speed_per_volt = rt.parameter("rad/s/V", 20)
    time_constant = rt.parameter("s", 0.5, low=0.001)

    def derivative(self, d: Self) -> None:
        d.speed = (self.speed_per_volt * self.voltage - self.speed) / self.time_constant


class Regulator(rt.Controller):
    """PI controller with one integral for each direction.

    At the limit of the command, the controller does not integrate.
    """

    setpoint = rt.input("rad/s")
    speed = rt.input("rad/s")
    voltage = rt.output("V")
    forward = rt.memory("V")
    reverse = rt.memory("V")
    gain = rt.parameter("V s/rad", 0.2)
    integral_gain = rt.parameter("V/rad", 1)

    def step(self) -> None:
        error = self.setpoint - self.speed
        wanted = self.gain * error + (self.reverse if self.setpoint < 0.0 else self.forward)
        if wanted > LIMIT:
            self.voltage = LIMIT
        elif wanted < -LIMIT:
            self.voltage = -LIMIT
        else:
            if self.setpoint < 0.0:
                self.reverse += self.integral_gain * PERIOD * error
            else:
                self.forward += self.integral_gain * PERIOD * error
            self.voltage = wanted


def scenario(setpoint: float = 100.0, until: float = 8.0) -> rt.Scenario:
    """Step to ``setpoint`` (rad/s) at 0.1 s, and to the reverse speed at 4 s."""
    loop = rt.Scenario("motor", until=until)
    motor = loop.plant(Motor(), step=0.002)
    controller = loop.controller("controller", Regulator(), period=PERIOD)
    wanted = loop.source("wanted", rt.Signals("speed [rad/s]"))
    loop.at(0.1, wanted.speed, setpoint)
    loop.at(4, wanted.speed, -setpoint)
    loop.connect(wanted.speed, controller.setpoint)
    loop.connect(motor, controller)
    loop.require(
        "FORWARD",
        "always[0, 6] (always[0, 1] wanted.speed > 10 rad/s "
        "implies eventually[0, 1] motor.speed > 0 rad/s)",
        "If the wanted speed is above 10 rad/s for 1 s, the motor turns forward within this time.",
    )
    loop.plot("speed [rad/s]", "motor.speed", "wanted.speed")
    loop.plot("voltage [V]", "motor.voltage", "controller.voltage")
    return loop


def in_c(setpoint: float = 100.0, until: float = 8.0) -> rt.Scenario:
    """The same scenario with the controller in C in this process, for many runs."""
    from hitl.controllers import InProcess

    loop = scenario(setpoint, until)
    loop.replace_controller("controller", InProcess(Path(__file__).with_name("motor.toml")))
    return loop
