"""Exact conversions between the units of the published models and SI."""

from __future__ import annotations

import math

FT = 0.3048
"""m in a foot"""
LBF = 4.4482216152605
"""N in a pound-force"""
SLUG = LBF / FT
"""kg in a slug"""
SLUG_FT2 = SLUG * FT * FT
"""kg m2 in a slug ft2"""
KT = 1852.0 / 3600.0
"""m/s in a knot"""
DEG = math.pi / 180.0
"""rad in a degree"""
