"""Euler's method, of order 1: for comparison with other methods and with old code."""

from __future__ import annotations

from fractions import Fraction

from rtsim.solve.base import Tableau
from rtsim.solve.explicit import ExplicitRungeKutta

EULER = ExplicitRungeKutta(
    Tableau(
        name="euler",
        order=1,
        a=((),),
        b=(Fraction(1),),
        c=(Fraction(0),),
        source="Euler, Institutionum calculi integralis, 1768, section 650",
    )
)
"""Euler's method, of order 1, with one evaluation per step."""
