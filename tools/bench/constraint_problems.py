"""Models with algebraic constraints, and their published answers."""

from __future__ import annotations

import math
from typing import Any

from rtsim import Model, Signals, compiled


def robertson_rates(t: float, x: Any, y: Any, z: Any, u: Any, p: Any, dx: Any) -> None:  # noqa: ARG001
    dx[0] = p[0] * (-0.04 * x[0] + 1e4 * x[1] * y[0])
    dx[1] = p[0] * (0.04 * x[0] - 1e4 * x[1] * y[0] - 3e7 * x[1] ** 2)


def robertson_balance(t: float, x: Any, y: Any, z: Any, u: Any, p: Any, r: Any) -> None:  # noqa: ARG001
    r[0] = x[0] + x[1] + y[0] - 1.0


ROBERTSON = Model(
    "robertson",
    Signals("a = 1", "b"),
    robertson_rates,
    parameters=Signals("unit [s] = 100"),  # 1e11 s are too many ns: the unit of time is 100 s
    algebraic=Signals("c"),
    residual=robertson_balance,
)
ROBERTSON_END = [0.2083340149701255e-07, 0.8333360770334713e-13, 0.9999999791665050]
"""At 1e11 s.  Source: Mazzia, Magherini, Test Set for Initial Value Problem Solvers, rober."""


@compiled
def akzo_reactions(x: Any, y: Any, rates: Any) -> None:
    root = math.sqrt(x[1])
    rates[0] = 18.7 * x[0] ** 4 * root
    rates[1] = 0.58 * x[2] * x[3]
    rates[2] = 0.58 / 34.4 * x[0] * x[4]
    rates[3] = 0.09 * x[0] * x[3] ** 2
    rates[4] = 0.42 * y[0] ** 2 * root


def akzo_rates(t: float, x: Any, y: Any, z: Any, u: Any, p: Any, dx: Any) -> None:  # noqa: ARG001
    akzo_reactions(x, y, dx)
    r1, r2, r3, r4, r5 = dx[0], dx[1], dx[2], dx[3], dx[4]
    dx[0] = -2.0 * r1 + r2 - r3 - r4
    dx[1] = -0.5 * r1 - r4 - 0.5 * r5 + 3.3 * (0.9 / 737.0 - x[1])
    dx[2] = r1 - r2 + r3
    dx[3] = -r2 + r3 - 2.0 * r4
    dx[4] = r2 - r3 + r5


def akzo_equilibrium(t: float, x: Any, y: Any, z: Any, u: Any, p: Any, r: Any) -> None:  # noqa: ARG001
    r[0] = 115.83 * x[0] * x[3] - y[0]


AKZO = Model(
    "akzo",
    Signals("y1 = 0.444", "y2 = 0.00123", "y3", "y4 = 0.007", "y5"),
    akzo_rates,
    algebraic=Signals("y6"),
    residual=akzo_equilibrium,
)
AKZO_END = [
    *(0.1150794920661702, 0.1203831471567715e-2, 0.1611562887407974),
    *(0.3656156421249283e-3, 0.1708010885264404e-1, 0.4873531310307455e-2),
]
"""At 180 min.  Source: Mazzia, Magherini, Test Set for Initial Value Problem Solvers, chemakzo."""


def pendulum_rates(t: float, x: Any, y: Any, z: Any, u: Any, p: Any, dx: Any) -> None:  # noqa: ARG001
    dx[0], dx[1] = x[2], x[3]
    dx[2], dx[3] = -y[0] * x[0], -y[0] * x[1] - 9.81


def pendulum_rod(t: float, x: Any, y: Any, z: Any, u: Any, p: Any, r: Any) -> None:  # noqa: ARG001
    r[0] = x[2] ** 2 + x[3] ** 2 - y[0] * (x[0] ** 2 + x[1] ** 2) - 9.81 * x[1]


PENDULUM = Model(
    "pendulum",
    Signals("px [m] = 1", "py [m]", "vx [m/s]", "vy [m/s]"),
    pendulum_rates,
    algebraic=Signals("tension [N/(kg*m)]"),
    residual=pendulum_rod,
)
"""A rod of 1 m in Cartesian coordinates: its length, derived twice, is the residual (index 1)."""

SATURATION, THERMAL, LEAK, SOURCE, LOAD, CAPACITY = 1e-9, 0.03, 1e-7, 1.0, 1e3, 1e-4
"""The diodes' saturation current (A), thermal voltage (V) and leakage (S), the source's resistance
(ohm), the load (ohm) and its capacitor (F).  Without the leakage, the equations are singular while
all diodes block."""


@compiled
def diode(v: float) -> float:
    return SATURATION * (math.exp(v / THERMAL) - 1.0) + LEAK * v


def bridge_rates(t: float, x: Any, y: Any, z: Any, u: Any, p: Any, dx: Any) -> None:  # noqa: ARG001
    dx[0] = (diode(y[0] - x[0]) + diode(y[1] - x[0]) - x[0] / LOAD) / CAPACITY


def bridge_nodes(t: float, x: Any, y: Any, z: Any, u: Any, p: Any, r: Any) -> None:  # noqa: ARG001
    source = (10.0 * math.sin(2.0 * math.pi * 50.0 * t) - y[0] + y[1]) / SOURCE
    r[0] = source - diode(y[0] - x[0]) + diode(-y[0])
    r[1] = -source - diode(y[1] - x[0]) + diode(-y[1])


BRIDGE = Model(
    "bridge",
    Signals("load [V]"),
    bridge_rates,
    algebraic=Signals("left [V]", "right [V]"),
    residual=bridge_nodes,
)
"""Four diodes between a source of 10 V, 50 Hz, and a load with a capacitor; the unknowns are the
voltages of both ends of the source, against the negative end of the load."""
