"""A controller in C runs beside its reference in Python, and rtsim compares the two.

The class ``Regulator`` is the reference: it controls the speed of a motor with a limited voltage.
``10_controller_in_c.c`` is the same controller in C, and ``10_controller_in_c.toml`` says how to
call it. ``rtsim run`` runs the reference. ``rtsim sil test`` compares the C with the reference,
first step by step and then in closed loop.

Try next: remove the lower limit in the C file, and compare again. rtsim names the first step at
which the C differs from the reference.
"""

import rtsim as rt


class Motor(rt.Plant):
    speed = rt.state("rad/s")
    voltage = rt.input("V")

    def derivative(self, d):
        d.speed = (20 * self.voltage - self.speed) / 0.1


class Regulator(rt.Controller):
    setpoint = rt.input("rad/s")
    speed = rt.input("rad/s")
    voltage = rt.output("V")
    integral = rt.memory("V")
    gain = rt.parameter("V s/rad", 0.1)
    integral_gain = rt.parameter("V/rad", 1)

    def step(self):
        error = self.setpoint - self.speed
        self.integral += 0.01 * self.integral_gain * error
        self.voltage = max(-12.0, min(12.0, self.gain * error + self.integral))


def scenario():
    loop = rt.Scenario("controller-in-c", until=2)
    motor = loop.plant(Motor(), step=0.002)
    wanted = loop.source("wanted", rt.Signals("speed [rad/s]"), {"speed": 100})
    loop.at(1, wanted.speed, -100)
    regulator = loop.controller(Regulator(), period=0.01)
    loop.connect(wanted.speed, regulator.setpoint)
    loop.connect(motor, regulator)
    return loop
