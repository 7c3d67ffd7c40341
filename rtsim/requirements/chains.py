"""Chains of a scenario, and limits of their data ages and reaction times."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rtsim.core.errors import RecordingError, UnknownName
from rtsim.core.tag import NS_PER_S


@dataclass(frozen=True)
class Chain:
    """A declared chain: its name, and its signals ``"component.signal"``."""

    name: str
    elements: tuple[str, ...]

    def to_plain(self) -> dict[str, Any]:
        """Return JSON data for the header of a recording."""
        return {"name": self.name, "elements": list(self.elements)}


def chains_of(header: Mapping[str, Any]) -> tuple[Chain, ...]:
    """Return the chains in the header of a recording.

    A malformed header raises :class:`RecordingError`.
    """
    try:
        return tuple(
            Chain(str(one["name"]), tuple(map(str, one["elements"])))
            for one in header.get("chains", ())
        )
    except (TypeError, KeyError) as error:
        raise RecordingError(f"the chains in the header are not valid: {error!r}") from None


AGE, REACTION = "age", "reaction"


@dataclass(frozen=True)
class ChainLimit:
    """The largest data age or reaction time of a chain (:mod:`rtsim.record.ages`)."""

    elements: tuple[str, ...]
    measure: str
    """``age`` or ``reaction``."""
    limit_ns: int

    def __str__(self) -> str:
        what = {AGE: "data age", REACTION: "reaction time"}[self.measure]
        return f"{what} of {' -> '.join(self.elements)} <= {self.limit_ns / NS_PER_S:g} s"

    def to_plain(self) -> dict[str, Any]:
        return {"of": list(self.elements), "measure": self.measure, "limit_ns": self.limit_ns}

    @classmethod
    def of_plain(cls, plain: Mapping[str, Any]) -> ChainLimit:
        if plain["measure"] not in (AGE, REACTION):
            raise UnknownName("measure of a chain", plain["measure"], (AGE, REACTION))
        return cls(tuple(map(str, plain["of"])), plain["measure"], int(plain["limit_ns"]))
