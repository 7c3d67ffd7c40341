"""The kinds of faults: at which level each acts, and what it must be told."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Level = Literal["signal", "message", "line", "loop"]
Check = Literal["number", "positive", "not negative", "whole", "natural", "seconds", "bit"]

WANTED: dict[Check, str] = {
    "number": "a finite number",
    "positive": "a number > 0",
    "not negative": "a number >= 0",
    "whole": "a whole number >= 0",
    "natural": "a whole number >= 1",
    "seconds": "seconds >= 0, such as 0.05 or '1/60'",
    "bit": "a whole number from 0 to 7",
}


@dataclass(frozen=True)
class Parameter:
    """One parameter of a kind; ``needed`` where it has no value of its own."""

    name: str
    check: Check
    needed: bool = True


@dataclass(frozen=True)
class FaultKind:
    """What a kind of fault does, in the words of an event, and its parameters by name."""

    name: str
    level: Level
    does: str
    parameters: tuple[Parameter, ...] = ()
    once: bool = False
    """It is over as soon as it has happened: no duration, no count."""
    brief: bool = False
    """One item, unless it is told how long."""

    @property
    def has_length(self) -> bool:
        """``length`` items of an activation; no duration, no count."""
        return self.name in ("burst", "load")


_AMOUNT = Parameter("amount", "seconds")
_ALL = (
    FaultKind("stuck", "signal", "stays", (Parameter("value", "number", needed=False),)),
    FaultKind("offset", "signal", "is off by an amount", (Parameter("amount", "number"),)),
    FaultKind("scale", "signal", "is scaled by a factor", (Parameter("factor", "number"),)),
    FaultKind("drift", "signal", "drifts at a rate", (Parameter("rate", "number"),)),
    FaultKind("noise", "signal", "is noisy", (Parameter("deviation", "not negative"),)),
    FaultKind("quantised", "signal", "moves in steps", (Parameter("step", "positive"),)),
    FaultKind("nan", "signal", "is not a number"),
    FaultKind("drop", "message", "is lost"),
    FaultKind("delay", "message", "takes longer", (Parameter("delay", "seconds"),)),
    FaultKind("duplicate", "message", "comes twice", (Parameter("gap", "seconds", needed=False),)),
    FaultKind("reorder", "message", "may be overtaken", (Parameter("extra", "seconds"),)),
    FaultKind("burst", "message", "is lost with those after it", (Parameter("length", "natural"),)),
    FaultKind("bit_flip", "line", "has a bit flipped", (Parameter("bit", "bit", needed=False),)),
    FaultKind("truncation", "line", "is cut", (Parameter("keep", "whole", needed=False),)),
    FaultKind("garbage", "line", "comes behind garbage", (Parameter("length", "natural"),)),
    FaultKind("silence", "line", "carries nothing"),
    FaultKind("slow_line", "line", "is slow", (Parameter("baud", "natural"),)),
    FaultKind("board_reset", "line", "is reset", once=True),
    FaultKind("stall", "loop", "the loop stands still for", (_AMOUNT,), brief=True),
    FaultKind("late_wake", "loop", "the loop is woken late by", (_AMOUNT,), brief=True),
    FaultKind("lost_tick", "loop", "does not tick", brief=True),
    FaultKind("slow_job", "loop", "it takes longer by", (_AMOUNT,)),
    FaultKind(
        "load",
        "loop",
        "another has the CPU, at first for",
        (_AMOUNT, Parameter("length", "natural")),
    ),
)
KINDS = {kind.name: kind for kind in _ALL}
