"""An electric motor consists of two plants with different steps: the coil and the rotor.

The current in the coil changes within milliseconds, so the coil takes steps of 1 ms. The rotor is
slower and takes steps of 10 ms. At each of its steps, a plant samples the other plant, and holds
the sample until its next step. In theory the motor settles at 60 rad/s and 6 A.

Try next: ``--set coil.voltage=24`` doubles both values. Change the step of the rotor to 0.1 s: the
samples are then too old, and the speed oscillates at the start.
"""

import rtsim as rt


class Coil(rt.Plant):
    current = rt.state("A")
    speed = rt.input("rad/s")
    voltage = rt.parameter("V", 12)
    resistance = rt.parameter("ohm", 1)
    inductance = rt.parameter("H", 0.005, low=1e-6)

    def derivative(self, d):
        induced = 0.1 * self.speed  # 0.1 V per rad/s
        d.current = (self.voltage - self.resistance * self.current - induced) / self.inductance


class Rotor(rt.Plant):
    speed = rt.state("rad/s")
    current = rt.input("A")
    friction = rt.parameter("N.m.s", 0.01)
    inertia = rt.parameter("kg.m^2", 0.002, low=1e-6)

    def derivative(self, d):
        torque = 0.1 * self.current  # 0.1 N m per A
        d.speed = (torque - self.friction * self.speed) / self.inertia


def scenario():
    out = rt.Scenario("two-plants", until=1)
    coil = out.plant(Coil(), step=0.001)
    rotor = out.plant(Rotor(), step=0.01)
    out.connect(coil, rotor)
    return out
