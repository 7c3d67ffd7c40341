"""A room with a lamp that is switched on in the dark: the plant, and the reference controller."""

import math

from rtsim import Fixed, Model, PythonController, Scenario, Signal, Signals, Vector

PERIOD = 0.02  # s


def derivative(t: float, x: Vector, z: Vector, u: Vector, p: Vector, dx: Vector) -> None:
    """Compute the derivative of the energy that the lamp has consumed: its power while it is on."""
    dx[0] = p[3] * u[1]


def output(t: float, x: Vector, z: Vector, u: Vector, p: Vector, y: Vector) -> None:
    """Compute the light in the room: daylight through the shutter, and the light of the lamp.

    The sun rises at 0 s and sets after half a day.
    """
    sun = p[0] * max(0.0, math.sin(2.0 * math.pi * t / p[1]))
    y[0] = sun * u[0] + p[2] * u[1]


ROOM = Model(
    name="room",
    states=Signals("energy [J]"),
    inputs=Signals("shutter [1]", "lamp [1]"),
    outputs=Signals("light [lx]"),
    parameters=Signals(
        Signal("noon", "lx", initial=800.0, low=0.0),
        Signal("day", "s", initial=4.0, low=0.1),
        Signal("lamp_light", "lx", initial=60.0, low=0.0),
        Signal("lamp_power", "W", initial=10.0, low=0.0),
    ),
    derivative=derivative,
    output=output,
    assumptions=("a day lasts 4 s", "the lamp shines at once"),
)


def law(t: float, u: Vector, s: Vector, p: Vector, y: Vector) -> None:
    """Switch the lamp on below ``dark`` and off above ``bright``; count and time the switchings."""
    on = s[0]
    if u[0] < p[0]:
        on = 1.0
    elif u[0] > p[1]:
        on = 0.0
    if on != s[0]:
        s[0] = on
        s[2 - int(on)] = t
        s[3] += 1.0
    y[0], y[1], y[2], y[3] = s[0], s[1], s[2], s[3]


def scenario(until: float = 2.4) -> Scenario:
    """Return a scenario of a day on which the shutter is nearly closed for 0.2 s before noon."""
    out = Scenario("illumination", until=until)
    out.source("shutter", Signals(Signal("open", "1", initial=1.0)))
    out.at(0.6, "shutter.open", 0.1)
    out.at(0.8, "shutter.open", 1.0)
    out.plant("room", ROOM, step=0.005, inputs={"shutter": "shutter.open", "lamp": "switch.lamp"})
    design = PythonController(
        law,
        inputs=Signals("light [lx]"),
        outputs=Signals(
            "lamp [1]",
            Signal("lamp_on_at", "s", initial=-1.0),
            Signal("lamp_off_at", "s", initial=-1.0),
            "switchings [1]",
        ),
        memory=Signals(
            "on [1]",
            Signal("on_at", "s", initial=-1.0),
            Signal("off_at", "s", initial=-1.0),
            "switchings [1]",
        ),
        parameters=Signals("dark [lx] = 293", "bright [lx] = 391"),
    )
    out.controller(
        "switch", design, period=PERIOD, inputs={"light": "room.light"}, compute=Fixed(0.01)
    )
    out.plot("light [lx]", "room.light")
    out.plot("lamp and shutter", "room.lamp", "switch.lamp", "room.shutter")
    return out
