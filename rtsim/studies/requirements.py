"""Requirements: a result with a limit, which a run meets by a margin or misses."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rtsim.core.errors import ScenarioError

_TEXT = re.compile(r"\s*(?P<result>[\w.]+)\s*(?P<sign><=|>=|<|>)\s*(?P<limit>\S+)\s*")


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
        if not self.name:
            object.__setattr__(self, "name", self.result)

    @classmethod
    def of_text(cls, text: str) -> Requirement:
        """Return the requirement of a text such as ``peak < 0.2``."""
        found = _TEXT.fullmatch(text)
        if found is None:
            raise ScenarioError(
                f"requirement {text!r} has no limit; write, for example, 'peak<0.2'"
            )
        try:
            limit = float(found["limit"])
        except ValueError:
            raise ScenarioError(
                f"requirement {text!r}: {found['limit']!r} is not a number"
            ) from None
        if found["sign"].startswith("<"):
            return cls(found["result"], below=limit)
        return cls(found["result"], above=limit)

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
