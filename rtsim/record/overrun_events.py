"""The events of overruns."""

from __future__ import annotations

from rtsim.core.tag import Tag
from rtsim.record.event import Event, Value
from rtsim.timing.overrun import Overrun

OVERRUN = "Overrun"
"""Kind of the event of an overrun."""


def overrun_event(overrun: Overrun) -> Event:
    """Return the event that records ``overrun`` at its tag."""
    values: dict[str, Value] = {
        "amount": float(overrun.amount_ns), "consecutive": float(overrun.consecutive),
        "cause": overrun.cause, "action": overrun.action,
    }  # fmt: skip
    if overrun.stood_ns is not None:
        values["stood"] = float(overrun.stood_ns)
    source = overrun.job or overrun.cause
    return Event(Tag(overrun.tag_ns), OVERRUN, source, str(overrun), values)
