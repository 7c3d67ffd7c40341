"""An overrun: a tag that began too late, its cause, and what was done about it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

Cause = Literal["compute", "wake"]
"""``compute``: the work before it took too long; ``wake``: the machine woke the loop late."""
Action = Literal["catch_up", "slip", "freeze", "abort"]
"""What the loop can do about a late tag."""
ACTIONS: tuple[Action, ...] = get_args(Action)


@dataclass(frozen=True)
class Overrun:
    """One tag that began too late: recorded as an event at that tag."""

    tag_ns: int
    cause: Cause
    amount_ns: int
    """Own ns between when it was due and when the loop was there."""
    job: str
    """What took most of the longest frame since the loop was last on time; empty when it was not
    computing."""
    action: Action
    """What was done about it; ``abort`` also where another policy's limit was exceeded."""
    consecutive: int
    allowed: int
    stood_ns: int | None = None
    """For how long the loop stood in line behind other threads, in the wait that ended late;
    None: the system does not say, or it was by computing."""

    def __str__(self) -> str:
        late = f"{self.amount_ns / 1e6:.3f} ms"
        if self.cause == "wake":
            why = f"the wake came {late} late"
            if self.stood_ns is not None:
                stood = min(self.stood_ns, self.amount_ns)  # it may have begun before it was due
                why += f", {stood / 1e6:.3f} ms of it in line behind other programs"
        else:
            where = f", most of it in {self.job}" if self.job else ""
            why = f"computing took {late} too long{where}"
        return (
            f"overrun at {self.tag_ns / 1e9:.9f} s: {why}; "
            f"consecutive {self.consecutive} / allowed {self.allowed}"
        )
