"""A discrete gust: the air moves against one aircraft for a short time.

The speed of the air rises and falls as (1 - cos) / 2, the shape of MIL-F-8785C (3.7.2.3) and of 14
CFR 25.341.  Its components are in body axes, as in MIL-F-8785C, and equal over the whole aircraft.
"""

from __future__ import annotations

import math

from rtsim.core.signals import Signal, Signals, Vector
from rtsim.equations.compiling import compiled
from rtsim.models.atmosphere import SEA_LEVEL_DENSITY
from rtsim.models.body import LOWEST_AIRSPEED, air_flow

GUST_PARAMETERS = Signals(
    Signal("gust_y", "m/s", description="peak speed of the air to the right, in body axes"),
    Signal("gust_z", "m/s", description="peak speed of the air downward, in body axes"),
    Signal("gust_start", "s"),
    Signal("gust_duration", "s", initial=1.0, low=1e-3),
)
GUST_ASSUMPTION = "the air moves in a gust only; a gust is uniform over the aircraft: no rates"


@compiled
def gust_shape(t: float, start: float, duration: float) -> float:
    """Return the speed of the air at ``t`` s as a fraction of its peak; 0 outside the gust."""
    since = t - start
    if since <= 0.0 or since >= duration:
        return 0.0
    return 0.5 - 0.5 * math.cos(2.0 * math.pi * since / duration)


@compiled
def see_gust(x: Vector, p: Vector, gust_y: float, gust_z: float, y: Vector) -> None:
    """Compute the outputs airspeed to equivalent airspeed of ``BODY_OUTPUTS`` again, in a gust.

    ``gust_y`` and ``gust_z`` are the present speed of the air in body axes, m/s.
    """
    _, _, _, _, _, _, _, _, _, u, v, w, _, _, _, _ = air_flow(x, p)
    v -= gust_y
    w -= gust_z
    density, sound = y[21], y[22]
    airspeed = math.sqrt(u * u + v * v + w * w)
    y[9] = airspeed
    y[10] = math.atan2(w, u)
    y[11] = math.asin(max(-1.0, min(1.0, v / max(airspeed, LOWEST_AIRSPEED))))
    y[12] = airspeed / sound
    y[13] = 0.5 * density * airspeed * airspeed
    y[14] = airspeed * math.sqrt(density / SEA_LEVEL_DENSITY)
