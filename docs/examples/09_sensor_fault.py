"""A controller keeps an oven at 200 degrees, until a fault makes its sensor read 20 K too much.

The scenario itself contains no fault. The option ``--faults`` injects the fault that
``09_sensor_fault.toml`` describes: from 100 s to 200 s the sensor adds 20 K. The controller has an
integral, so in theory the true temperature falls to 180 degrees, and returns after the fault.

Try next: in the fault file, change the kind to "drift" and ``amount = 20.0`` to ``rate = 0.2``.
"""

import rtsim as rt


class Oven(rt.Plant):
    temperature = rt.state("degC", 200)
    power = rt.input("K/s")
    room = rt.parameter("degC", 20)

    def derivative(self, d):
        d.temperature = self.power - (self.temperature - self.room) / 50


class Thermostat(rt.Controller):
    temperature = rt.input("degC")
    power = rt.output("K/s")
    integral = rt.memory("K/s", 3.6)

    def step(self):
        error = 200 - self.temperature
        self.integral += 0.1 * 0.02 * error
        self.power = 0.4 * error + self.integral


def scenario():
    loop = rt.Scenario("sensor-fault", until=300)
    oven = loop.plant(Oven(), step=0.1)
    sensor = loop.sensor("sensor", {"temperature": oven.temperature}, period=0.1)
    thermostat = loop.controller(Thermostat(), period=0.1)
    loop.connect(sensor.temperature, thermostat.temperature)
    loop.connect(thermostat.power, oven.power)
    return loop
