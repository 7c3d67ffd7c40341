"""A room whose lamp is switched on in the dark, with its reference controller."""

import math
from typing import Self

import rtsim as rt

PERIOD = 0.02  # s


class Room(rt.Plant):
    """A room with daylight through a shutter, and a lamp.

    The sun rises at 0 s and sets after half a day.
    """

    energy = rt.state("J", description="what the lamp has consumed")
    shutter = rt.input()
    lamp = rt.input()
    light = rt.output("lx")
    noon = rt.parameter("lx", 800, low=0)
    day = rt.parameter("s", 4, low=0.1)
    lamp_light = rt.parameter("lx", 60, low=0)
    lamp_power = rt.parameter("W", 10, low=0)

    assumptions = ("a day lasts 4 s", "the lamp shines at once")

    def derivative(self, d: Self) -> None:
        d.energy = self.lamp_power * self.lamp

    def outputs(self) -> None:
        sun = self.noon * max(0.0, math.sin(2.0 * math.pi * self.t / self.day))
        self.light = sun * self.shutter + self.lamp_light * self.lamp


class Switch(rt.Controller):
    """A controller that switches the lamp on below ``dark`` and off above ``bright``."""

    light = rt.input("lx")
    lamp = rt.output()
    lamp_on_at = rt.output("s", initial=-1)
    lamp_off_at = rt.output("s", initial=-1)
    switchings = rt.output()
    on = rt.memory()
    on_at = rt.memory("s", -1)
    off_at = rt.memory("s", -1)
    count = rt.memory("1", name="switchings")
    dark = rt.parameter("lx", 293)
    bright = rt.parameter("lx", 391)

    def step(self) -> None:
        if self.light < self.dark and self.on == 0.0:
            self.on, self.on_at = 1.0, self.t
            self.count += 1.0
        elif self.light > self.bright and self.on == 1.0:
            self.on, self.off_at = 0.0, self.t
            self.count += 1.0
        self.lamp = self.on
        self.lamp_on_at = self.on_at
        self.lamp_off_at = self.off_at
        self.switchings = self.count


def scenario(until: float = 2.4) -> rt.Scenario:
    """Return a scenario of one day, with the shutter almost closed for 0.2 s before noon."""
    loop = rt.Scenario("illumination", until=until)
    shutter = loop.source("shutter", rt.Signals(rt.Signal("open", "1", initial=1.0)))
    loop.at(0.6, shutter.open, 0.1)
    loop.at(0.8, shutter.open, 1.0)
    room = loop.plant(Room(), step=0.005)
    switch = loop.controller(Switch(), period=PERIOD, compute=0.01)
    loop.connect(shutter.open, room.shutter)
    loop.connect(room, switch)
    loop.plot("light [lx]", "room.light")
    loop.plot("lamp and shutter", "room.lamp", "switch.lamp", "room.shutter")
    return loop
