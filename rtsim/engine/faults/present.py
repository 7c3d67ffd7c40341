"""The data that all faults of a run share: the present time, and the receiver of events."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from rtsim.core.tag import NS_PER_S, Tag
from rtsim.record.events import FAULT, FAULT_ENDED, lasts

if TYPE_CHECKING:
    from rtsim.engine.faults.kind import Fault

BEFORE_THE_RUN = -1
EventSink = Callable[[Tag, str, str, str, dict[str, float]], None]


class Present:
    """The present simulated time, ns (-1 before the run), and the receiver of events."""

    def __init__(self) -> None:
        self.ns = BEFORE_THE_RUN
        self.event: EventSink = _unrecorded

    def began(self, fault: Fault, ns: int, text: str, values: Mapping[str, float]) -> None:
        """Record the start of an activation of ``fault``."""
        what = f"{fault.kind.name} at {fault.where}: {text}"
        self.event(Tag(ns), FAULT, fault.name, what, {k: float(v) for k, v in values.items()})

    def ended(self, fault: Fault, ns: int, items: int) -> None:
        """Record the end of an activation, unless its description limits it to one item."""
        if items > 1 or fault.count is None or lasts(fault.given):
            text = f"{fault.kind.name} at {fault.where} is over"
            self.event(Tag(ns), FAULT_ENDED, fault.name, text, {"items": float(items)})


def seconds(ns: float) -> float:
    return ns / NS_PER_S


def _unrecorded(tag: Tag, kind: str, source: str, text: str, values: dict[str, float]) -> None:
    """Ignore an event that occurs before the run is recorded."""
