"""Five Arduino controllers, each with a reference controller and a plant.

``motor``: the class ``Regulator`` holds a speed.  ``room``: ``thermostat.ino`` heats a room.
``lamp``: ``button.ino`` switches a lamp.  ``knob``: ``dimmer.ino`` dims a lamp.  ``commands``:
``console.ino`` answers on its serial line.
"""

from __future__ import annotations

from typing import Self

import rtsim as rt


class Motor(rt.Plant):
    """A motor whose speed follows the voltage with a time constant."""

    speed = rt.state("rad/s")
    voltage = rt.input("V")

    def derivative(self, d: Self) -> None:
        d.speed = (20.0 * self.voltage - self.speed) / 0.1


class Regulator(rt.Controller):
    """Reference controller, which computes a command in each step."""

    setpoint = rt.input("rad/s")
    speed = rt.input("rad/s")
    voltage = rt.output("V")
    skipped = rt.output()
    integral = rt.memory("V")

    def step(self) -> None:
        error = self.setpoint - self.speed
        self.integral = min(max(self.integral + 0.01 * error, -12.0), 12.0)
        self.voltage = min(max(0.2 * error + self.integral, -12.0), 12.0)
        self.skipped = 0.0


def motor(setpoint: float = 100.0, until: float = 3.0) -> rt.Scenario:
    """Return a scenario in which the wanted speed changes to ``setpoint`` (rad/s) at 0.1 s."""
    loop = rt.Scenario("motor", until=until)
    motor = loop.plant(Motor(), step=0.002)
    wanted = loop.source("wanted", rt.Signals("speed [rad/s]"))
    loop.at(0.1, wanted.speed, setpoint)
    regulator = loop.controller(Regulator(), period=0.01)
    loop.connect(wanted.speed, regulator.setpoint)
    loop.connect(motor, regulator)
    loop.plot("speed [rad/s]", "motor.speed", "wanted.speed")
    return loop


class Room(rt.Plant):
    """A room that loses heat to the outside, with a temperature sensor."""

    temperature = rt.state("degC", 15)
    heater = rt.input()
    sensor = rt.output("V")

    def derivative(self, d: Self) -> None:
        d.temperature = (10.0 - self.temperature) / 60.0 + 0.5 * self.heater

    def outputs(self) -> None:
        self.sensor = 0.5 + 0.01 * self.temperature


class Thermostat(rt.Controller):
    """Reference controller, which switches at the sketch's ADC counts, at most every 2 s."""

    sensor = rt.input("V")
    heater = rt.output()
    on = rt.memory()
    switched = rt.memory("s")

    def step(self) -> None:
        celsius = (round(self.sensor * 1023.0 / 5.0) * 5.0 / 1023.0 - 0.5) * 100.0
        if self.t - self.switched > 1.95:
            if self.on == 0.0 and celsius < 20.5:
                self.on, self.switched = 1.0, self.t
            elif self.on == 1.0 and celsius > 21.5:
                self.on, self.switched = 0.0, self.t
        self.heater = self.on


def room(until: float = 40.0) -> rt.Scenario:
    """Return a scenario that heats a room of 15 degrees."""
    loop = rt.Scenario("room", until=until)
    room = loop.plant(Room(), step=0.05)
    thermostat = loop.controller(Thermostat(), period=0.1)
    loop.connect(room, thermostat)
    loop.plot("temperature [degC]", "room.temperature")
    return loop


class Button(rt.Controller):
    """Reference controller, which toggles the lamp when a press has lasted 3 periods (> 25 ms)."""

    button = rt.input()
    lamp = rt.output()
    last = rt.memory()
    count = rt.memory()
    stable = rt.memory()
    lit = rt.memory()

    def step(self) -> None:
        level = 1.0 if self.button == 0.0 else 0.0
        if level != self.last:
            self.last, self.count = level, 0.0
        else:
            self.count += 1.0
            if level != self.stable and self.count >= 3.0:
                self.stable = level
                if level == 1.0:
                    self.lit = 1.0 - self.lit
        self.lamp = self.lit


def lamp(until: float = 1.0) -> rt.Scenario:
    """Return a scenario with two presses of a button that bounces for 20 ms."""
    out = rt.Scenario("lamp", until=until)
    finger = out.source("finger", rt.Signals(rt.Signal("level", "1", initial=1.0)))
    for time in (0.1, 0.2, 0.5, 0.7):
        long = time in (0.2, 0.7)
        out.at(time - 0.002, finger.level, 0.0)
        out.at(time + (0.098 if long else 0.018), finger.level, 1.0)
    button = out.controller(Button(), period=0.01)
    out.connect(finger.level, button.button)
    return out


class Dimmer(rt.Controller):
    """Controller that averages eight ADC counts, and maps the average to a duty cycle."""

    knob = rt.input("V")
    lamp = rt.output("V")
    counts = rt.memory("1", shape=(8,))

    def step(self) -> None:
        for k in range(7):
            self.counts[k] = self.counts[k + 1]
        self.counts[-1] = round(self.knob * 1023.0 / 5.0)
        mean = self.counts.sum() // 8.0
        self.lamp = mean * 255.0 // 1023.0 * 5.0 / 255.0


def knob(until: float = 2.0) -> rt.Scenario:
    out = rt.Scenario("knob", until=until)
    knob = out.source("knob", rt.Signals("voltage [V]"))
    for k in range(1, 6):
        out.at(0.3 * k, knob.voltage, 0.93 * k)
    dimmer = out.controller(Dimmer(), period=0.02)
    out.connect(knob.voltage, dimmer.knob)
    return out


class Console(rt.Controller):
    """A console on the serial line: digits after ``s`` set the speed, and ``?`` requests it."""

    received = rt.input("1", shape=(5,))
    sent = rt.output("1", shape=(11,))
    speed = rt.output()
    wanted = rt.memory()

    def step(self) -> None:
        letter, *digits = self.received
        reply = b""
        if letter == ord("s"):
            self.wanted = 0.0
            for digit in digits:
                if ord("0") <= digit <= ord("9"):
                    self.wanted = 10.0 * self.wanted + digit - ord("0")
            self.wanted = min(self.wanted, 255.0)
        elif letter == ord("?"):
            reply = f"speed {int(self.wanted)}\r\n".encode()
        self.sent = list(reply.ljust(11, b"\0"))
        self.speed = self.wanted


def commands(until: float = 1.0) -> rt.Scenario:
    """Return a scenario that sends four commands over the serial line."""
    out = rt.Scenario("commands", until=until)
    line = out.source("line", rt.Signals(rt.Signal("bytes", "1", shape=(5,))))
    for time, text in ((0.1, "s120\n"), (0.3, "?"), (0.5, "s999\n"), (0.7, "?")):
        out.at(time - 0.002, line.bytes, [*text.encode(), *[0] * (5 - len(text))])
        out.at(time + 0.018, line.bytes, [0] * 5)
    console = out.controller(Console(), period=0.02)
    out.connect(line.bytes, console.received)
    return out
