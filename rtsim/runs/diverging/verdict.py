"""The result of the search for the first difference of two runs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from rtsim.core.outcome import Judged, Outcome
from rtsim.core.tag import Tag
from rtsim.record.events import RunEnding
from rtsim.runs.diverging.first import Place
from rtsim.runs.diverging.inputs import Feeding


@dataclass(frozen=True)
class Verdict(Judged):
    """The first difference of two runs; ``place`` is ``None`` if there is none."""

    a: str
    b: str
    began: Tag
    ended: Tag
    """The runs were compared from ``began`` to ``ended``."""
    place: Place | None = None
    agreed: Tag | None = None
    """The last tag at which everything agreed; ``None`` if the runs differ at the first tag."""
    fed: Feeding | None = None
    drawn: tuple[list[str], list[str]] | None = None
    """Random streams that each run used after ``agreed`` up to ``place``; ``None`` if not known."""
    visible: Place | None = None
    """The first difference in the recordings, if it comes after ``place``."""
    also: tuple[Place, ...] = ()
    """Other differences at the same tag."""
    notes: list[str] = field(default_factory=list)
    endings: tuple[RunEnding, ...] = ()
    """How each run ended."""
    undecided: str = ""
    """Why the comparison is undecided although no difference was found; empty otherwise."""

    @property
    def equal(self) -> bool:
        """True if no difference was found."""
        return self.place is None

    def _judge(self) -> Outcome:
        if self.place is not None:
            return Outcome.FAILED
        return Outcome.UNDECIDED if self.undecided else Outcome.PASSED

    @property
    def in_words(self) -> str:
        """The first difference, or why there may be one, or up to which tag all is equal."""
        if self.place is not None:
            return f"{self.a} and {self.b} differ first in {self.place.name} at {self.place.tag}"
        return self.undecided or f"{self.a} and {self.b} are equal up to {self.ended}"

    def to_json(self) -> dict[str, Any]:
        """Return plain data: tags as ``{"ns": .., "step": ..}``, doubles with their bits."""
        return {
            "a": self.a,
            "b": self.b,
            "equal": self.equal,
            "outcome": self._judge().name.lower(),
            "undecided": self.undecided,
            "began": _tag(self.began),
            "ended": _tag(self.ended),
            "endings": [ending.to_json() for ending in self.endings],
            "agreed": _tag(self.agreed),
            "first": None if self.place is None else _place(self.place),
            "fed": None if self.fed is None else _fed(self.fed),
            "drawn": None if self.drawn is None else {"a": self.drawn[0], "b": self.drawn[1]},
            "recorded": None if self.visible is None else _place(self.visible),
            "also": [_place(place) for place in self.also],
            "notes": self.notes,
        }


def _tag(tag: Tag | None) -> dict[str, int] | None:
    return None if tag is None else {"ns": tag.ns, "step": tag.step}


def _place(place: Place) -> dict[str, Any]:
    return {
        "tag": _tag(place.tag),
        "what": place.what,
        "name": place.name,
        "moment": place.moment,
        "initiated": _tag(place.initiated),
        "values": [pair.to_json() for pair in place.pairs],
    }


def _fed(fed: Feeding) -> dict[str, Any]:
    return {
        "at": _tag(fed.at),
        "how": fed.how,
        "equal": fed.equal,
        "inputs": [pair.to_json() for pair in fed.inputs],
        "arrived": {"a": fed.arrived[0], "b": fed.arrived[1]},
        "happened": {"a": fed.happened[0], "b": fed.happened[1]},
    }
