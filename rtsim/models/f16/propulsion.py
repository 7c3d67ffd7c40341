"""Static thrust of the F-16's engine as a function of power, altitude and Mach number; no lag.

Source: NASA's ``F16_prop.dml`` (see ``f16.json``): idle at 0 %, military at 50 %, maximum at 100 %.
"""

from __future__ import annotations

import numpy as np

from rtsim.equations.compiling import compiled
from rtsim.models.f16.aerodynamics import segment
from rtsim.models.f16.data import grid, table

_MACH_LOW, _MACH_PER, _MACH_LAST = grid("mach")
_ALT_LOW, _ALT_PER, _ALT_LAST = grid("altitude_ft")
_LEVELS = np.ascontiguousarray(
    np.stack(
        [
            table("propulsion", name, "mach", "altitude_ft")
            for name in ("idle_lbf", "military_lbf", "maximum_lbf")
        ],
        axis=-1,
    )
)
_MILITARY = 50.0


@compiled
def thrust_lbf(power: float, altitude_ft: float, mach: float) -> float:
    """Return the thrust in lbf at ``power`` in %.

    ``altitude_ft`` and ``mach`` are clamped to the ends of the tables.
    """
    i, h = segment(mach, _MACH_LOW, _MACH_PER, _MACH_LAST, False)
    j, f = segment(altitude_ft, _ALT_LOW, _ALT_PER, _ALT_LAST, False)
    k = 0 if power < _MILITARY else 1
    part = (power - k * _MILITARY) / _MILITARY
    low = (1.0 - part) * (1.0 - h)
    low_next = (1.0 - part) * h
    high = part * (1.0 - h)
    high_next = part * h
    t = _LEVELS
    return (  # type: ignore[no-any-return]
        (1.0 - f) * (
            low * t[i, j, k] + high * t[i, j, k + 1]
            + low_next * t[i + 1, j, k] + high_next * t[i + 1, j, k + 1]
        )
        + f * (
            low * t[i, j + 1, k] + high * t[i, j + 1, k + 1]
            + low_next * t[i + 1, j + 1, k] + high_next * t[i + 1, j + 1, k + 1]
        )
    )  # fmt: skip
