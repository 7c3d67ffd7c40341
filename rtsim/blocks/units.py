"""Units as exponents of symbols: enough to check that both ends of a wire agree.

``"kg m^2/s"`` is ``{kg: 1, m: 2, s: -1}``.  Nothing is converted and no symbol is known: ``N`` and
``kg m/s^2`` are two units.  ``"1"`` means that none was declared, and goes with any.
"""

from __future__ import annotations

import re
from fractions import Fraction
from functools import lru_cache

from rtsim.errors import ScenarioError

ANY = "1"
_FACTOR = re.compile(r"(?P<symbol>[^\W\d]+|%|°|1)(?:\^(?P<power>-?\d+(?:/\d+)?))?\Z")


@lru_cache(maxsize=4096)
def exponents(unit: str) -> tuple[tuple[str, Fraction], ...]:
    """Sorted; empty for ``"1"``.  Raises :class:`ScenarioError` for what is no unit."""
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
            if match["symbol"] != ANY:
                power = Fraction(match["power"] or 1) * (-1 if i else 1)
                found[match["symbol"]] = found.get(match["symbol"], Fraction()) + power
    return tuple(sorted((s, n) for s, n in found.items() if n))


def same(a: str, b: str) -> bool:
    """Whether a wire may lead from ``a`` to ``b``."""
    return ANY in (a, b) or exponents(a) == exponents(b)


def times(a: str, b: str, power: int = 1) -> str:
    """The unit of ``a * b^power``; not known where one of the two is not."""
    if ANY in (a, b):
        return ANY
    found = dict(exponents(a))
    for symbol, n in exponents(b):
        found[symbol] = found.get(symbol, Fraction()) + power * n
    return _text({s: n for s, n in found.items() if n})


def _text(found: dict[str, Fraction]) -> str:
    def factors(sign: int) -> list[str]:
        return [
            symbol if abs(n) == 1 else f"{symbol}^{abs(n)}"
            for symbol, n in sorted(found.items())
            if n * sign > 0
        ]

    above, below = factors(1), factors(-1)
    return "/".join((" ".join(above) or ANY, *below))
