"""A solver: Heun's method of order 2, from its tableau."""

from __future__ import annotations

from fractions import Fraction

from rtsim.solve import ExplicitRungeKutta, Tableau

HEUN = ExplicitRungeKutta(
    Tableau(
        name="heun",
        order=2,
        a=((), (Fraction(1),)),
        b=(Fraction(1, 2), Fraction(1, 2)),
        c=(Fraction(0), Fraction(1)),
        source="Heun 1900",
    )
)
