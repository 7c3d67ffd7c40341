"""The classical fourth-order Runge-Kutta method.

::

      0 |
    1/2 | 1/2
    1/2 |   0  1/2
      1 |   0    0    1
    ----+--------------------
        | 1/6  1/3  1/3  1/6
"""

from __future__ import annotations

from fractions import Fraction

from rtsim.solve.base import Tableau
from rtsim.solve.explicit import ExplicitRungeKutta

_HALF, _ONE, _NONE = Fraction(1, 2), Fraction(1), Fraction(0)

RK4 = ExplicitRungeKutta(
    Tableau(
        name="rk4",
        order=4,
        a=((), (_HALF,), (_NONE, _HALF), (_NONE, _NONE, _ONE)),
        b=(Fraction(1, 6), Fraction(1, 3), Fraction(1, 3), Fraction(1, 6)),
        c=(_NONE, _HALF, _HALF, _ONE),
        source="Kutta, Zeitschrift fuer Mathematik und Physik 46, 1901, p. 443",
    )
)
"""The classical Runge-Kutta method, of order 4, with four evaluations per step."""
