"""Exact conversions between the units of the published models and SI."""

from __future__ import annotations

import math

FT = 0.3048
"""One foot in m."""
LBF = 4.4482216152605
"""One pound-force in N."""
SLUG = LBF / FT
"""One slug in kg."""
SLUG_FT2 = SLUG * FT * FT
"""One slug ft2 in kg m2."""
KT = 1852.0 / 3600.0
"""One knot in m/s."""
DEG = math.pi / 180.0
"""One degree in rad."""
