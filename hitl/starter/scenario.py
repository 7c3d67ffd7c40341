"""A motor whose speed is controlled: the plant and the reference controller."""

from typing import Self

import rtsim as rt

PERIOD = 0.01  # s
LIMIT = 12.0  # V


class Motor(rt.Plant):
    """A motor whose speed follows the voltage with a time constant."""

    speed = rt.state("rad/s")
    voltage = rt.input("V")
    speed_per_volt = rt.parameter("rad/s/V", 20)
    time_constant = rt.parameter("s", 0.1, low=0.001)

    assumptions = ("no friction, no inductance",)

    def derivative(self, d: Self) -> None:
        d.speed = (self.speed_per_volt * self.voltage - self.speed) / self.time_constant


class Regulator(rt.Controller):
    """PI controller, which does not integrate while its command is at the limit."""

    setpoint = rt.input("rad/s")
    speed = rt.input("rad/s")
    voltage = rt.output("V")
    integral = rt.memory("V")
    gain = rt.parameter("V s/rad", 0.2)
    integral_gain = rt.parameter("V/rad", 1)

    def step(self) -> None:
        error = self.setpoint - self.speed
        wanted = self.gain * error + self.integral
        if wanted > LIMIT:
            self.voltage = LIMIT
        elif wanted < -LIMIT:
            self.voltage = -LIMIT
        else:
            self.integral += self.integral_gain * PERIOD * error
            self.voltage = wanted


def scenario(setpoint: float = 100.0, until: float = 3.0) -> rt.Scenario:
    """Step to ``setpoint`` (rad/s) at 0.1 s, and to half of it in reverse at 1.5 s."""
    loop = rt.Scenario("motor", until=until)
    motor = loop.plant(Motor(), step=0.002)
    controller = loop.controller("controller", Regulator(), period=PERIOD)
    wanted = loop.source("wanted", rt.Signals("speed [rad/s]"))
    loop.at(0.1, wanted.speed, setpoint)
    loop.at(1.5, wanted.speed, -0.5 * setpoint)
    loop.connect(wanted.speed, controller.setpoint)
    loop.connect(motor, controller)
    loop.plot("speed [rad/s]", "motor.speed", "wanted.speed")
    loop.plot("voltage [V]", "motor.voltage", "controller.voltage")
    return loop
