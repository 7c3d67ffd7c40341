"""The explicit midpoint method, of order 2."""

from __future__ import annotations

from fractions import Fraction

from rtsim.solve.base import Tableau
from rtsim.solve.explicit import ExplicitRungeKutta

_HALF = Fraction(1, 2)

MIDPOINT = ExplicitRungeKutta(
    Tableau(
        name="midpoint",
        order=2,
        a=((), (_HALF,)),
        b=(Fraction(0), Fraction(1)),
        c=(Fraction(0), _HALF),
        source="Runge, Mathematische Annalen 46, 1895, p. 167",
    )
)
"""The explicit midpoint method, of order 2, with two evaluations per step."""
