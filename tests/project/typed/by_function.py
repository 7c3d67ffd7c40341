"""A plant and a controller as functions of vectors, which is the lower level."""

import rtsim as rt


def derivative(
    t: float, x: rt.Vector, z: rt.Vector, u: rt.Vector, p: rt.Vector, dx: rt.Vector
) -> None:
    dx[0] = (u[0] - x[0]) / p[0]


def level(t: float, x: rt.Vector, z: rt.Vector, u: rt.Vector, p: rt.Vector, g: rt.Vector) -> None:
    g[0] = x[0] - 300.0


def reset(i: int, t: float, x: rt.Vector, z: rt.Vector, u: rt.Vector, p: rt.Vector) -> None:
    z[0] += 1.0


def law(t: float, u: rt.Vector, s: rt.Vector, p: rt.Vector, y: rt.Vector) -> None:
    y[0] = 293.0 + p[0] * (293.0 - u[0])


heater = rt.Model(
    "heater",
    states=rt.Signals("temperature [K]"),
    discrete=rt.Signals("warm"),
    inputs=rt.Signals("supply [K]"),
    parameters=rt.Signals(rt.Signal("time_constant", "s", initial=20.0)),
    derivative=derivative,
    guards=(rt.Guard("warmed", direction=1),),
    guard=level,
    reset=reset,
)
thermostat = rt.PythonController(
    law,
    inputs=rt.Signals("temperature [K]"),
    outputs=rt.Signals("supply [K]"),
    parameters=rt.Signals(rt.Signal("gain", initial=2.0)),
)
room = rt.Scenario("room", until=60)
plant = room.plant(
    "heater",
    heater,
    step=0.1,
    states={"temperature": 285.0},
    inputs={"supply": "thermostat.supply"},
)
room.controller(
    "thermostat",
    thermostat,
    period=1,
    transport=rt.Uniform(0.01, 0.02),
    inputs={"temperature": "heater.temperature"},
)
run = rt.simulate(room, seed=1)
final: float = float(run["heater.temperature"][-1])
assert 285.0 < final < 300.0
