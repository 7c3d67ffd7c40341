"""Exact conversions between the units of the published models and SI."""

from __future__ import annotations

import math

FT = 0.3048
"""Metres in a foot."""
LBF = 4.4482216152605
"""Newtons in a pound-force."""
SLUG = LBF / FT
"""Kilograms in a slug."""
SLUG_FT2 = SLUG * FT * FT
"""kg m2 in a slug ft2."""
KT = 1852.0 / 3600.0
"""Metres per second in a knot."""
DEG = math.pi / 180.0
"""Radians in a degree."""
