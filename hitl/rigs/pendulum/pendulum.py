"""An inverted pendulum with a motor at its pivot: the plant, and the reference controller."""

import math

from rtsim import Fixed, Model, PythonController, Scenario, Signal, Signals, Vector

PERIOD = 0.005  # s
STIFFNESS, DAMPING, MOST, TRUST = 60.0, 12.0, 20.0, 0.02
"""Gains, 1/s^2 and 1/s; the largest acceleration, rad/s^2; the weight of the tilt in a step."""


def derivative(t: float, x: Vector, z: Vector, u: Vector, p: Vector, dx: Vector) -> None:
    """Compute the derivatives of the angle from upright and of its rate."""
    dx[0] = x[1]
    dx[1] = 9.80665 / p[0] * math.sin(x[0]) + u[0] + u[1]


def output(t: float, x: Vector, z: Vector, u: Vector, p: Vector, y: Vector) -> None:
    """Compute what a sensor at the pivot feels of gravity, g."""
    y[0] = math.sin(x[0])
    y[1] = math.cos(x[0])


PENDULUM = Model(
    name="pendulum",
    states=Signals(Signal("angle", "rad", initial=0.1), "rate [rad/s]"),
    inputs=Signals("drive [rad/s^2]", "push [rad/s^2]"),
    outputs=Signals("tilt [g]", "upright [g]"),
    parameters=Signals(Signal("length", "m", initial=0.5, low=0.01)),
    derivative=derivative,
    output=output,
    assumptions=("the sensor is at the pivot", "no friction"),
)


def law(t: float, u: Vector, s: Vector, p: Vector, y: Vector) -> None:
    """Estimate the angle from the rate and the tilt, and push it back."""
    s[0] = (1.0 - TRUST) * (s[0] + u[0] * PERIOD) + TRUST * u[1]
    y[0] = min(max(-STIFFNESS * s[0] - DAMPING * u[0], -MOST), MOST)
    y[1] = 0.0


def scenario(until: float = 2.0) -> Scenario:
    """Return a scenario that begins with a tilt of 0.1 rad, with a push from 1 s to 1.1 s."""
    out = Scenario("pendulum", until=until)
    out.source("hand", Signals("push [rad/s^2]"))
    out.at(1.0, "hand.push", 5.0)
    out.at(1.1, "hand.push", 0.0)
    out.plant(
        "pendulum", PENDULUM, step=0.001, inputs={"drive": "balance.drive", "push": "hand.push"}
    )
    design = PythonController(
        law,
        inputs=Signals("rate [rad/s]", "tilt [g]", "upright [g]"),
        outputs=Signals("drive [rad/s^2]", "failing [1]"),
        memory=Signals(Signal("angle", "rad", initial=0.1)),
    )
    wires = {"rate": "pendulum.rate", "tilt": "pendulum.tilt", "upright": "pendulum.upright"}
    out.controller("balance", design, period=PERIOD, inputs=wires, compute=Fixed(0.004))
    out.plot("angle [rad]", "pendulum.angle")
    out.plot("drive [rad/s^2]", "balance.drive", "hand.push")
    out.plot("sensor cannot be read", "balance.failing")
    return out
