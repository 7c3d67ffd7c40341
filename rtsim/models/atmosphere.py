"""US Standard Atmosphere 1976, from 5 km below sea level to 86 km.

Source: NOAA/NASA/USAF, "U.S. Standard Atmosphere, 1976", tables 2 to 4 and equations 18, 23, 33, 42
and 50. The temperature is the molecular-scale temperature, which differs from the kinetic
temperature only above 80 km.
"""

from __future__ import annotations

import math

import numpy as np

from rtsim.equations.compiling import compiled

GEOPOTENTIAL_RADIUS = 6356766.0
"""Effective radius of the Earth, m."""
STANDARD_GRAVITY = 9.80665
GAS_CONSTANT = 8314.32 / 28.9644
"""Gas constant of dry air, J/(kg K)."""
HEAT_RATIO = 1.4
SEA_LEVEL_TEMPERATURE = 288.15
SEA_LEVEL_PRESSURE = 101325.0
SEA_LEVEL_DENSITY = SEA_LEVEL_PRESSURE / (GAS_CONSTANT * SEA_LEVEL_TEMPERATURE)

_G_OVER_R = STANDARD_GRAVITY / GAS_CONSTANT
_TOP = 84852.0
_BASE = np.array([0.0, 11e3, 20e3, 32e3, 47e3, 51e3, 71e3])
_LAPSE = np.array([-6.5e-3, 0.0, 1e-3, 2.8e-3, 0.0, -2.8e-3, -2e-3])


def _layer_bases() -> tuple[np.ndarray, np.ndarray]:
    temperature, pressure = [SEA_LEVEL_TEMPERATURE], [SEA_LEVEL_PRESSURE]
    for i in range(len(_BASE) - 1):
        t, p, lapse, rise = temperature[i], pressure[i], _LAPSE[i], _BASE[i + 1] - _BASE[i]
        above = t + lapse * rise
        if lapse == 0.0:
            p *= math.exp(-_G_OVER_R * rise / t)
        else:
            p *= (t / above) ** (_G_OVER_R / lapse)
        temperature.append(above)
        pressure.append(p)
    return np.array(temperature), np.array(pressure)


_TEMPERATURE, _PRESSURE = _layer_bases()
_EXPONENT = np.array([0.0 if lapse == 0.0 else _G_OVER_R / lapse for lapse in _LAPSE])


@compiled
def standard_atmosphere(altitude: float) -> tuple[float, float, float, float]:
    """Return density (kg/m3), speed of sound (m/s), temperature (K) and pressure (Pa).

    ``altitude`` is the geometric altitude in m. Above 86 km the temperature is constant and the
    pressure decreases exponentially. No published source covers that range.
    """
    height = GEOPOTENTIAL_RADIUS * altitude / (GEOPOTENTIAL_RADIUS + altitude)
    layer = 0
    for k in range(1, 7):
        if not height >= _BASE[k]:
            break
        layer = k
    inside = min(height, _TOP)
    base = _TEMPERATURE[layer]
    temperature = base + _LAPSE[layer] * (inside - _BASE[layer])
    if _EXPONENT[layer] == 0.0:
        pressure = _PRESSURE[layer] * math.exp(-_G_OVER_R / base * (inside - _BASE[layer]))
    else:
        pressure = _PRESSURE[layer] * (base / temperature) ** _EXPONENT[layer]
    if height > _TOP:
        pressure *= math.exp(-_G_OVER_R / temperature * (height - _TOP))
    density = pressure / (GAS_CONSTANT * temperature)
    return density, math.sqrt(HEAT_RATIO * GAS_CONSTANT * temperature), temperature, pressure
