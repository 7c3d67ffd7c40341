"""A discrete gust: the air moves against one aircraft for a short time.

The speed of the air rises and falls as (1 - cos) / 2, the shape of MIL-F-8785C (3.7.2.3) and of 14
CFR 25.341.  Its components are in body axes, as in MIL-F-8785C, and equal over the whole aircraft.
"""

from __future__ import annotations

import math

from rtsim.core.signals import Signal, Signals
from rtsim.equations.compiling import compiled

GUST_PARAMETERS = Signals(
    Signal("gust_y", "m/s", description="peak speed of the air to the right, in body axes"),
    Signal("gust_z", "m/s", description="peak speed of the air downward, in body axes"),
    Signal("gust_start", "s"),
    Signal("gust_duration", "s", initial=1.0, low=1e-3),
)
GUST_ASSUMPTION = "the gust of the parameters is uniform over the aircraft: it has no rates"


@compiled
def gust_shape(t: float, start: float, duration: float) -> float:
    """Return the speed of the air at ``t`` s as a fraction of its peak; 0 outside the gust."""
    since = t - start
    if since <= 0.0 or since >= duration:
        return 0.0
    return 0.5 - 0.5 * math.cos(2.0 * math.pi * since / duration)
