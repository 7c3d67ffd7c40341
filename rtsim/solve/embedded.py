"""Embedded Runge-Kutta pairs: Bogacki-Shampine 3(2) and Dormand-Prince 5(4)."""

from __future__ import annotations

from fractions import Fraction

from rtsim.solve.base import EmbeddedTableau


def _row(*terms: str) -> tuple[Fraction, ...]:
    """Return numbers given as text as exact fractions."""
    return tuple(map(Fraction, terms))


BS32_TABLEAU = EmbeddedTableau(
    name="bs32",
    order=3,
    a=((), _row("1/2"), _row("0", "3/4"), _row("2/9", "1/3", "4/9")),
    b=_row("2/9", "1/3", "4/9", "0"),
    c=_row("0", "1/2", "3/4", "1"),
    source="Bogacki, Shampine, Applied Mathematics Letters 2, 1989, p. 321",
    hat=_row("7/24", "1/4", "1/3", "1/8"),
    lower=2,
    dense=(  # the cubic with the states and the derivatives at both ends
        _row("1", "-4/3", "5/9"),
        _row("0", "1", "-2/3"),
        _row("0", "4/3", "-8/9"),
        _row("0", "-1", "1"),
    ),
)
"""The pair of Bogacki and Shampine, of order 3(2)."""

DP54_TABLEAU = EmbeddedTableau(
    name="dp54",
    order=5,
    a=(
        (),
        _row("1/5"),
        _row("3/40", "9/40"),
        _row("44/45", "-56/15", "32/9"),
        _row("19372/6561", "-25360/2187", "64448/6561", "-212/729"),
        _row("9017/3168", "-355/33", "46732/5247", "49/176", "-5103/18656"),
        _row("35/384", "0", "500/1113", "125/192", "-2187/6784", "11/84"),
    ),
    b=_row("35/384", "0", "500/1113", "125/192", "-2187/6784", "11/84", "0"),
    c=_row("0", "1/5", "3/10", "4/5", "8/9", "1", "1"),
    source="Dormand, Prince, J. Comp. Appl. Math. 6, 1980, p. 19; dense output of fourth order: "
    "Shampine, Mathematics of Computation 46, 1986, p. 135",
    hat=_row(
        "5179/57600", "0", "7571/16695", "393/640", "-92097/339200", "187/2100", "1/40"
    ),
    lower=4,
    dense=(
        _row("1", "-8048581381/2820520608", "8663915743/2820520608", "-12715105075/11282082432"),
        _row("0", "0", "0", "0"),
        _row("0", "131558114200/32700410799", "-68118460800/10900136933",
             "87487479700/32700410799"),
        _row("0", "-1754552775/470086768", "14199869525/1410260304", "-10690763975/1880347072"),
        _row("0", "127303824393/49829197408", "-318862633887/49829197408",
             "701980252875/199316789632"),
        _row("0", "-282668133/205662961", "2019193451/616988883", "-1453857185/822651844"),
        _row("0", "40617522/29380423", "-110615467/29380423", "69997945/29380423"),
    ),
)  # fmt: skip
"""The pair of Dormand and Prince, of order 5(4)."""
