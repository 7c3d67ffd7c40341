"""Units as exponents of symbols, to check that the two ends of a wire agree.

``"kg m^2/s"`` is ``{kg: 1, m: 2, s: -1}``.  Derived SI units are replaced by their base units, and
``rad`` is dropped.  All other symbols are kept, and no value is converted.  ``"1"`` means that no
unit was declared; it matches any unit.
"""

from __future__ import annotations

import re
from fractions import Fraction
from functools import lru_cache

from rtsim.core.errors import ScenarioError

ANY = "1"
DERIVED = {
    "rad": "1", "Hz": "1/s", "N": "kg m/s^2", "Pa": "kg/m/s^2", "J": "kg m^2/s^2",
    "W": "kg m^2/s^3", "C": "A s", "V": "kg m^2/s^3/A", "Ohm": "kg m^2/s^3/A^2",
    "F": "A^2 s^4/kg/m^2", "H": "kg m^2/s^2/A^2", "Wb": "kg m^2/s^2/A", "T": "kg/s^2/A",
}  # fmt: skip
_FACTOR = re.compile(r"(?P<symbol>[^\W\d]+|%|°|1)(?:\^(?P<power>-?\d+(?:\.\d+)?))?\Z")


@lru_cache(maxsize=4096)
def exponents(unit: str) -> tuple[tuple[str, Fraction], ...]:
    """Return (symbol, exponent) pairs, sorted; empty for ``"1"``.

    Raises :class:`ScenarioError` if ``unit`` is not a unit.
    """
    found: dict[str, Fraction] = {}
    for i, part in enumerate(unit.split("/")):
        factors = part.replace("*", " ").split()
        if not factors:
            raise ScenarioError(f"cannot read unit {unit!r}; write it like 'kg m^2/s'")
        for factor in factors:
            match = _FACTOR.match(factor)
            if match is None:
                raise ScenarioError(
                    f"cannot read {factor!r} in unit {unit!r}; write it like 'kg m^2/s'"
                )
            power = Fraction(match["power"] or 1) * (-1 if i else 1)
            for symbol, n in _made_of(match["symbol"]):
                found[symbol] = found.get(symbol, Fraction()) + power * n
    return tuple(sorted((s, n) for s, n in found.items() if n))


def _made_of(symbol: str) -> tuple[tuple[str, Fraction], ...]:
    if symbol in DERIVED:
        return exponents(DERIVED[symbol])
    return () if symbol == ANY else ((symbol, Fraction(1)),)


def same(a: str, b: str) -> bool:
    """Return whether a wire may connect units ``a`` and ``b``."""
    return ANY in (a, b) or exponents(a) == exponents(b)


def times(a: str, b: str, power: int = 1) -> str:
    """Return the unit of ``a * b^power``; ``"1"`` (undeclared) if ``a`` or ``b`` is undeclared."""
    if ANY in (a, b):
        return ANY
    found = dict(exponents(a))
    for symbol, n in exponents(b):
        found[symbol] = found.get(symbol, Fraction()) + power * n
    return _text({s: n for s, n in found.items() if n})


def _text(found: dict[str, Fraction]) -> str:
    def factors(sign: int) -> list[str]:
        return [
            symbol if abs(n) == 1 else f"{symbol}^{float(abs(n)):g}"
            for symbol, n in sorted(found.items())
            if n * sign > 0
        ]

    above, below = factors(1), factors(-1)
    return "/".join((" ".join(above) or ANY, *below))
