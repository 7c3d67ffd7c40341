"""Requirements: a result with a limit, which a run meets by a margin or misses."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rtsim.core.errors import ScenarioError

_SIGNS = r"<=|>=|<|>"
_TERM = r"[^<>=]+?"
_TEXT = re.compile(
    rf"\s*(?:(?P<name>{_TERM})\s*=\s*)?"
    rf"(?P<first>{_TERM})\s*(?P<sign>{_SIGNS})\s*(?P<second>{_TERM})\s*"
    rf"(?:(?P<other>{_SIGNS})\s*(?P<third>{_TERM})\s*)?"
)
_HELP = "write, for example, 'peak<0.2', '0.9<end<1.0' or 'NAME=peak<0.2'"


@dataclass(frozen=True)
class Requirement:
    """The result ``result`` must be at most ``below``, at least ``above``, or both.

    The margin is the distance from the nearest limit, in the unit of the result.  It is negative if
    the run misses the requirement; a margin of 0 passes.  A result that is not a number misses it.
    """

    result: str
    below: float | None = None
    above: float | None = None
    name: str = ""

    def __post_init__(self) -> None:
        if self.below is None and self.above is None:
            raise ScenarioError(
                f"the requirement of {self.result} has no limit; give below=, above= or both"
            )
        for limit in (self.below, self.above):
            if limit is not None and not math.isfinite(limit):
                raise ScenarioError(
                    f"a limit of {self.result} is {limit}, which every run or no run meets; give a "
                    "finite number"
                )
        if self.below is not None and self.above is not None and self.above > self.below:
            raise ScenarioError(
                f"no result {self.result} is at least {self.above:g} and at most {self.below:g}; "
                "exchange the limits"
            )
        if not self.name:
            object.__setattr__(self, "name", self.result)

    @classmethod
    def of_text(cls, text: str) -> Requirement:
        """Return the requirement of a text.

        ``peak < 0.2`` has one limit, ``0.9 < end < 1.0`` has two, and ``NAME = peak < 0.2`` also
        has a name.  ``<`` and ``<=`` mean the same.
        """
        found = _TEXT.fullmatch(text)
        if found is None:
            raise ScenarioError(f"requirement {text!r} has no limit; {_HELP}")
        first, sign, second = found["first"], found["sign"][0], found["second"]
        name = found["name"] or ""
        if found["other"] is None:
            if _number(second) is None and _number(first) is not None:  # 0.2 > peak
                first, sign, second = second, ">" if sign == "<" else "<", first
            limit = _limit(text, second)
            below, above = (limit, None) if sign == "<" else (None, limit)
            return cls(first, below, above, name)
        if found["other"][0] != sign:
            raise ScenarioError(f"requirement {text!r} has signs of two directions; {_HELP}")
        ends = (first, found["third"]) if sign == "<" else (found["third"], first)
        low, high = (_limit(text, end) for end in ends)
        return cls(second, high, low, name)

    def margin(self, value: float) -> float:
        """Return the margin of a run with this result; NaN if ``value`` is NaN."""
        margins = []
        if self.below is not None:
            margins.append(self.below - value)
        if self.above is not None:
            margins.append(value - self.above)
        return math.nan if math.isnan(value) else min(margins)

    def to_plain(self) -> dict[str, Any]:
        """Return plain JSON data; ``Requirement(**data)`` reads it."""
        return {
            "result": self.result, "below": self.below, "above": self.above, "name": self.name,
        }  # fmt: skip

    @classmethod
    def of(cls, plain: Mapping[str, Any]) -> Requirement:
        return cls(**plain)

    def __str__(self) -> str:
        low = "" if self.above is None else f"{self.above:g} <= "
        high = "" if self.below is None else f" <= {self.below:g}"
        return f"{low}{self.result}{high}"


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _limit(text: str, part: str) -> float:
    """Return the limit ``part`` of the requirement ``text``."""
    limit = _number(part)
    if limit is None:
        raise ScenarioError(f"requirement {text!r}: {part!r} is not a number; {_HELP}")
    return limit
