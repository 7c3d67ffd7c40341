"""Five Arduino controllers, each with its reference controller and its plant or inputs.

``motor``: the class ``Regulator`` holds a speed.  ``room``: ``thermostat.ino`` heats a room.
``lamp``: ``button.ino`` switches a lamp.  ``knob``: ``dimmer.ino`` dims a lamp.  ``commands``:
``console.ino`` answers on its serial line.
"""

from __future__ import annotations

from rtsim import Model, PythonController, Scenario, Signal, Signals
from rtsim.core.signals import Vector


def speed_up(t: float, x: Vector, z: Vector, u: Vector, p: Vector, dx: Vector) -> None:
    dx[0] = (20.0 * u[0] - x[0]) / 0.1


def pi_law(t: float, u: Vector, s: Vector, p: Vector, y: Vector) -> None:
    """Compute a command at each call: the reference controller skips none."""
    error = u[0] - u[1]
    s[0] = min(max(s[0] + 0.01 * error, -12.0), 12.0)
    y[0] = min(max(0.2 * error + s[0], -12.0), 12.0)
    y[1] = 0.0


def motor(setpoint: float = 100.0, until: float = 3.0) -> Scenario:
    """Return a scenario that steps to ``setpoint`` (rad/s) at 0.1 s."""
    out = Scenario("motor", until=until)
    plant = Model(
        name="motor",
        states=Signals("speed [rad/s]"),
        inputs=Signals("voltage [V]"),
        derivative=speed_up,
    )
    out.plant("motor", plant, step=0.002, inputs={"voltage": "regulator.voltage"})
    out.source("wanted", Signals("speed [rad/s]"))
    out.at(0.1, "wanted.speed", setpoint)
    design = PythonController(
        pi_law,
        inputs=Signals("setpoint [rad/s]", "speed [rad/s]"),
        outputs=Signals("voltage [V]", "skipped [1]"),
        memory=Signals("integral [V]"),
    )
    wires = {"setpoint": "wanted.speed", "speed": "motor.speed"}
    out.controller("regulator", design, period=0.01, inputs=wires)
    out.plot("speed [rad/s]", "motor.speed", "wanted.speed")
    return out


def warm(t: float, x: Vector, z: Vector, u: Vector, p: Vector, dx: Vector) -> None:
    dx[0] = (10.0 - x[0]) / 60.0 + 0.5 * u[0]


def measure(t: float, x: Vector, z: Vector, u: Vector, p: Vector, y: Vector) -> None:
    y[0] = 0.5 + 0.01 * x[0]


def thermostat_law(t: float, u: Vector, s: Vector, p: Vector, y: Vector) -> None:
    """Switch at the same counts of the converter as the sketch, every 2 s at most."""
    celsius = (round(u[0] * 1023.0 / 5.0) * 5.0 / 1023.0 - 0.5) * 100.0
    if t - s[1] > 1.95:
        if s[0] == 0.0 and celsius < 20.5:
            s[0], s[1] = 1.0, t
        elif s[0] == 1.0 and celsius > 21.5:
            s[0], s[1] = 0.0, t
    y[0] = s[0]


def room(until: float = 40.0) -> Scenario:
    """Return a scenario that heats a room of 15 degrees."""
    out = Scenario("room", until=until)
    plant = Model(
        name="room",
        states=Signals(Signal("temperature", "degC", initial=15.0)),
        inputs=Signals("heater [1]"),
        derivative=warm,
        outputs=Signals("sensor [V]"),
        output=measure,
    )
    out.plant("room", plant, step=0.05, inputs={"heater": "thermostat.heater"})
    design = PythonController(
        thermostat_law,
        inputs=Signals("sensor [V]"),
        outputs=Signals("heater [1]"),
        memory=Signals("on [1]", "switched [s]"),
    )
    out.controller("thermostat", design, period=0.1, inputs={"sensor": "room.sensor"})
    out.plot("temperature [degC]", "room.temperature")
    return out


def button_law(t: float, u: Vector, s: Vector, p: Vector, y: Vector) -> None:
    """Toggle at each press that has lasted 25 ms, which are three periods."""
    level = 1.0 if u[0] == 0.0 else 0.0
    if level != s[0]:
        s[0], s[1] = level, 0.0
    else:
        s[1] += 1.0
        if level != s[2] and s[1] >= 3.0:
            s[2] = level
            if level == 1.0:
                s[3] = 1.0 - s[3]
    y[0] = s[3]


def lamp(until: float = 1.0) -> Scenario:
    """Return a scenario with two presses, and with two bounces of 20 ms."""
    out = Scenario("lamp", until=until)
    out.source("finger", Signals(Signal("level", "1", initial=1.0)))
    for time in (0.1, 0.2, 0.5, 0.7):
        long = time in (0.2, 0.7)
        out.at(time - 0.002, "finger.level", 0.0)
        out.at(time + (0.098 if long else 0.018), "finger.level", 1.0)
    design = PythonController(
        button_law,
        inputs=Signals("button [1]"),
        outputs=Signals("lamp [1]"),
        memory=Signals("last [1]", "count [1]", "stable [1]", "lit [1]"),
    )
    out.controller("button", design, period=0.01, inputs={"button": "finger.level"})
    return out


def dimmer_law(t: float, u: Vector, s: Vector, p: Vector, y: Vector) -> None:
    """Compute the mean of eight counts, and map it to the duty cycle of the lamp."""
    for k in range(7):
        s[k] = s[k + 1]
    s[7] = round(u[0] * 1023.0 / 5.0)
    mean = s.sum() // 8.0
    y[0] = mean * 255.0 // 1023.0 * 5.0 / 255.0


def knob(until: float = 2.0) -> Scenario:
    """Return a scenario that turns a knob in five steps."""
    out = Scenario("knob", until=until)
    out.source("knob", Signals("voltage [V]"))
    for k in range(1, 6):
        out.at(0.3 * k, "knob.voltage", 0.93 * k)
    design = PythonController(
        dimmer_law,
        inputs=Signals("knob [V]"),
        outputs=Signals("lamp [V]"),
        memory=Signals(*(f"count_{k} [1]" for k in range(8))),
    )
    out.controller("dimmer", design, period=0.02, inputs={"knob": "knob.voltage"})
    return out


def console_law(t: float, u: Vector, s: Vector, p: Vector, y: Vector) -> None:
    """Set the speed from "s", digits and the end of a line, and send it for "?"."""
    y[:11] = 0.0
    if u[0] == ord("s"):
        s[0] = 0.0
        for letter in u[1:]:
            if ord("0") <= letter <= ord("9"):
                s[0] = 10.0 * s[0] + letter - ord("0")
        s[0] = min(s[0], 255.0)
    elif u[0] == ord("?"):
        text = f"speed {int(s[0])}\r\n".encode()
        y[: len(text)] = list(text)
    y[11] = s[0]


def commands(until: float = 1.0) -> Scenario:
    """Return a scenario that sends four commands, one byte in each element of ``received``."""
    out = Scenario("commands", until=until)
    out.source("line", Signals(Signal("bytes", "1", shape=(5,))))
    for time, text in ((0.1, "s120\n"), (0.3, "?"), (0.5, "s999\n"), (0.7, "?")):
        out.at(time - 0.002, "line.bytes", [*text.encode(), *[0] * (5 - len(text))])
        out.at(time + 0.018, "line.bytes", [0] * 5)
    design = PythonController(
        console_law,
        inputs=Signals(Signal("received", "1", shape=(5,))),
        outputs=Signals(Signal("sent", "1", shape=(11,)), "speed [1]"),
        memory=Signals("speed [1]"),
    )
    out.controller("console", design, period=0.02, inputs={"received": "line.bytes"})
    return out
