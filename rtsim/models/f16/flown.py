"""The F-16 that a person flies: NASA's aircraft with actuators, an engine lag and an accelerometer.

The aircraft is :data:`rtsim.models.f16.plant.F16`.  It has four more states:

- The surfaces follow their commands with a lag of 1/20.2 s, at limited rates and angles.  Source:
  Nguyen and others, NASA TP-1538 (1979), "Simulator study of stall/post-stall characteristics of a
  fighter airplane with relaxed longitudinal static stability".
- The engine's power follows its command with the lag of Stevens, Lewis and Johnson, *Aircraft
  Control and Simulation*, section 3.5.
"""

from __future__ import annotations

from dataclasses import replace

from rtsim.core.signals import Signal, Signals, Vector
from rtsim.equations.compiling import compiled
from rtsim.models.body import accelerate
from rtsim.models.f16.plant import F16, loads_in_air, sense
from rtsim.models.f16.stevens_lewis import power_rate

ELEVATOR_MOST, AILERON_MOST, RUDDER_MOST = 25.0, 21.5, 30.0
"""Greatest angles of the surfaces, deg."""
ELEVATOR_RATE, AILERON_RATE, RUDDER_RATE = 60.0, 80.0, 120.0
"""Greatest rates of the surfaces, deg/s."""
_LAG = 20.2
_G = 9.80665

ACTUATORS = Signals(
    Signal("elevator_angle", "deg", low=-ELEVATOR_MOST, high=ELEVATOR_MOST),
    Signal("aileron_angle", "deg", low=-AILERON_MOST, high=AILERON_MOST),
    Signal("rudder_angle", "deg", low=-RUDDER_MOST, high=RUDDER_MOST),
    Signal("engine_power", "%", low=0.0, high=100.0),
)
"""The states behind those of the body: angles of the surfaces, and the power of the engine."""
_FIRST = F16.states.size
_LOAD = F16.outputs.size


@compiled
def surface_rate(angle: float, command: float, most: float, rate: float) -> float:
    """Return the rate (deg/s) of a surface at ``angle``, with the limits ``most`` and ``rate``."""
    wanted = max(-most, min(most, command))
    return max(-rate, min(rate, _LAG * (wanted - angle)))


def derivative(t: float, x: Vector, z: Vector, u: Vector, p: Vector, dx: Vector) -> None:  # noqa: ARG001
    """Fill ``dx`` (17,) by the equations of motion of the body and of its actuators."""
    elevator, aileron, rudder = x[_FIRST], x[_FIRST + 1], x[_FIRST + 2]
    power = max(0.0, min(100.0, x[_FIRST + 3]))
    c11, c12, c13, c21, c22, c23, c31, c32, c33, fx, fy, fz, mx, my, mz = loads_in_air(
        t, x, u, p, elevator, aileron, rudder, power
    )
    accelerate(x, p, c11, c12, c13, c21, c22, c23, c31, c32, c33, fx, fy, fz, mx, my, mz, dx)
    dx[_FIRST] = surface_rate(elevator, u[0], ELEVATOR_MOST, ELEVATOR_RATE)
    dx[_FIRST + 1] = surface_rate(aileron, u[1], AILERON_MOST, AILERON_RATE)
    dx[_FIRST + 2] = surface_rate(rudder, u[2], RUDDER_MOST, RUDDER_RATE)
    dx[_FIRST + 3] = power_rate(power, max(0.0, min(100.0, u[3])))


def output(t: float, x: Vector, z: Vector, u: Vector, p: Vector, y: Vector) -> None:  # noqa: ARG001
    """Fill ``y`` with the outputs of ``F16`` and the load factor (g)."""
    power = max(0.0, min(100.0, x[_FIRST + 3]))
    sense(t, x, u, p, power, y)
    loaded = loads_in_air(t, x, u, p, x[_FIRST], x[_FIRST + 1], x[_FIRST + 2], power)
    y[_LOAD] = -loaded[11] / (p[0] * _G)


_AT_ONCE = "surfaces and engine follow their commands at once and have no stops of their own"

FLOWN = replace(
    F16,
    name="f16_flown",
    states=F16.states + ACTUATORS,
    outputs=F16.outputs
    + Signals(Signal("load_factor", "g", description="along -z of the body, at the centre")),
    derivative=derivative,
    output=output,
    assumptions=(
        *(a for a in F16.assumptions if a != _AT_ONCE),
        "surfaces: first-order lag of 1/20.2 s with limits of rate and angle (NASA TP-1538)",
        "engine: power follows its command with the lag of Stevens and Lewis",
    ),
)
"""The aircraft of the scenario ``f16-by-hand``."""
