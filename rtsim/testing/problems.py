"""A problem with a known solution, for checks of solvers."""

from __future__ import annotations

import math

import numpy as np

from rtsim.core.signals import Signal, Signals, Vector
from rtsim.equations.model import Model


def forced(t: float, x: Vector, z: Vector, u: Vector, p: Vector, dx: Vector) -> None:  # noqa: ARG001
    """The derivative of :data:`FORCED`."""
    dx[0] = x[1]
    dx[1] = -x[0] + 2.0 * math.cos(t) - p[0] * (x[1] - math.sin(t) - t * math.cos(t))


FORCED = Model(
    name="forced oscillator",
    states=Signals(Signal("x", "m"), Signal("v", "m/s", derivative_of="x")),
    parameters=Signals("damping [1/s] = 0.3"),
    derivative=forced,
)
"""x'' = -x + 2 cos t - c (x' - sin t - t cos t), with the solution x = t sin t from rest.

The equation depends on t, x and x', so a wrong node or weight of a solver changes the solution.
"""
END_NS = 10_000_000_000
NONE = np.zeros(0)


def exact(t: float, from_s: float = 0.0, x: Vector | None = None) -> Vector:
    """Return the exact solution (2,) of ``FORCED`` at ``t`` s.

    The initial state is ``x`` (2,) at ``from_s`` s. Without ``x``, the motion begins at rest at 0
    s.
    """
    now = np.array([t * math.sin(t), math.sin(t) + t * math.cos(t)])
    if x is None:
        return now
    half = FORCED.parameters.initial()[0] / 2
    # The solution minus t sin t is a damped oscillation.
    away, speed = x - exact(from_s)
    rate, since = math.sqrt(1 - half**2), t - from_s
    c, s = math.cos(rate * since), math.sin(rate * since)
    other = (speed + half * away) / rate
    off = away * c + other * s
    slope = rate * (other * c - away * s) - half * off
    return now + math.exp(-half * since) * np.array([off, slope])
