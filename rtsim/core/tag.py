"""Superdense time: tags, and periods that do not drift.

A ``Tag`` consists of the time in ns since the start of the run, and a microstep that orders events
of equal time. ``docs/semantics.md`` ("Time") describes the rules. To add a delay to a tag, use
``Tag.after``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from fractions import Fraction
from typing import NamedTuple

from rtsim.core.errors import ScenarioError

NS_PER_S = 1_000_000_000
LONGEST_NS = 2**62
"""Upper limit of all times and durations [ns].  The sum of two of them fits 64 bits."""
_EXPONENT = re.compile(r"[eE][+-]?0*[0-9]{4}")


class Tag(NamedTuple):
    """A point in superdense time: ``ns`` since the start of the run, and a microstep ``step``.

    Tags compare as tuples.
    """

    ns: int
    step: int = 0

    def after(self, delay_ns: int) -> Tag:
        """Return the tag after a delay of ``delay_ns``; a delay of 0 leads to the next microstep.

        Raises :class:`ValueError` for a negative delay.
        """
        if delay_ns > 0:
            return Tag(self.ns + delay_ns, 0)
        if delay_ns == 0:
            return Tag(self.ns, self.step + 1)
        raise ValueError(f"a delay of {delay_ns} ns is negative; give 0 ns or more")

    @property
    def seconds(self) -> float:
        """Seconds since the start of the run, rounded.  Compare tags instead of rounded seconds."""
        return self.ns / NS_PER_S

    def __str__(self) -> str:
        whole, rest = divmod(abs(self.ns), NS_PER_S)
        text = f"{'-' if self.ns < 0 else ''}{whole}.{rest:09d} s"
        return text if self.step == 0 else f"{text} +{self.step}"


START = Tag(0, 0)
NEVER = Tag(2**63 - 1, 0)

Duration = int | float | str | Fraction
"""A time in seconds: an int, a float, a Fraction, or a text such as ``"1/60"``.

A float is read as its shortest decimal, so 0.1 is exactly one tenth.
"""


def exact_seconds(value: Duration, what: str = "duration") -> Fraction:
    """Return ``value`` in s as an exact fraction.

    A float stands for its shortest decimal, so 0.1 is exactly one tenth. ``what`` names the value
    in the error message. Raises :class:`ScenarioError` if ``value`` is not a number of seconds or
    is 146 years or longer.
    """
    try:
        if isinstance(value, str) and (len(value) > 40 or _EXPONENT.search(value)):
            raise ValueError(value)  # a number such as 1e999999999 would fill the memory
        exact = Fraction(repr(value)) if isinstance(value, float) else Fraction(value)
    except (ValueError, ZeroDivisionError, TypeError) as error:
        raise ScenarioError(
            f"{what} {str(value)[:40]!r} is not a number of seconds; "
            "write 0.02, '1/50' or Fraction(1, 50)"
        ) from error
    if abs(exact) * NS_PER_S >= LONGEST_NS:
        shown = f"{float(exact):g}" if abs(exact) < 10**300 else str(value)[:40]
        raise ScenarioError(
            f"{what} {shown} s exceeds the largest time of {LONGEST_NS // NS_PER_S:,} s "
            "(146 years); give a smaller value"
        )
    return exact


def to_ns(value: Duration, what: str = "duration") -> int:
    """Return ``value`` seconds as the nearest whole ns.

    Arguments and errors are those of :func:`exact_seconds`.
    """
    exact = exact_seconds(value, what) * NS_PER_S
    return (2 * exact.numerator + exact.denominator) // (2 * exact.denominator)


def declared_ns(value: Duration, what: str = "duration") -> int:
    """Return a time or duration that a user declared, in whole ns.

    Raises ``ScenarioError`` if rounding to ns would change the value by more than 0.1 %, as for 1.5
    ns. Otherwise this function behaves like :func:`to_ns`.
    """
    ns, exact = to_ns(value, what), exact_seconds(value, what) * NS_PER_S
    if abs(ns - exact) * 1000 > abs(exact):
        low = exact.numerator // exact.denominator
        raise ScenarioError(
            f"{what} {value!r} s is {float(exact):g} ns, but the time resolution is 1 ns; give "
            + " or ".join(f"{n}e-9" if n else "0" for n in (low, low + 1))
        )
    return ns


@dataclass(frozen=True)
class Period:
    """A period in nanoseconds, stored as an exact fraction.

    Tick ``k`` is at ``offset + round(k * period)``; halves round up. Each tick is computed from its
    number ``k``, so rounding errors do not accumulate. Ticks of 10 ms and 15 ms coincide exactly at
    30 ms.
    """

    ns: Fraction
    _ratio: tuple[int, int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.ns < 1:
            raise ScenarioError(
                f"a period of {float(self.ns):g} ns is shorter than the time resolution of 1 ns; "
                "give a period of at least 1e-9 s"
            )
        # Tick times are computed in the real-time loop, where integers are ten times faster.
        object.__setattr__(self, "_ratio", (self.ns.numerator, self.ns.denominator))

    @classmethod
    def of(cls, value: Duration | Period, what: str = "period") -> Period:
        """Return a period of ``value`` s; error messages call the value ``what``.

        Raises ``ScenarioError`` if the period is shorter than 1 ns.
        """
        if isinstance(value, Period):
            return value
        exact = exact_seconds(value, what)
        if exact <= 0:
            raise ScenarioError(f"a {what} must be > 0 s, got {value!r}")
        if exact * NS_PER_S < 1:
            raise ScenarioError(
                f"a {what} of {float(exact * NS_PER_S):g} ns is shorter than the time resolution "
                f"of 1 ns; give a {what} of at least 1e-9 s"
            )
        return cls(exact * NS_PER_S)

    @property
    def ratio(self) -> tuple[int, int]:
        """Numerator and denominator of the period in ns."""
        return self._ratio

    def tick(self, k: int, offset_ns: int = 0) -> int:
        """Return the time of tick ``k`` [ns]."""
        n, d = self._ratio
        return offset_ns + (2 * k * n + d) // (2 * d)

    def ticks_before(self, limit_ns: int, k: int, most: int) -> list[int]:
        """Return the times [ns] of up to ``most`` ticks before ``limit_ns``, from tick ``k`` on."""
        n, d = self._ratio
        if d == 1:
            return list(range(k * n, min(limit_ns, (k + most) * n), n))
        found: list[int] = []
        while len(found) < most and (ns := self.tick(k + len(found))) < limit_ns:
            found.append(ns)
        return found

    def index_after(self, ns: int, offset_ns: int = 0) -> int:
        """Return the number of the first tick after ``ns``."""
        k = max(0, int((ns - offset_ns) // self.ns) - 1)
        while self.tick(k, offset_ns) <= ns:
            k += 1
        return k

    @property
    def seconds(self) -> float:
        return float(self.ns / NS_PER_S)

    def __str__(self) -> str:
        return f"{self.seconds:g} s"
