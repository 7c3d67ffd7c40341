"""An overrun: a tag that began too late, with its cause and the action of the policy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

Cause = Literal["compute", "wake"]
"""``compute`` if the work before the tag took too long, ``wake`` if the loop woke up late."""
Action = Literal["catch_up", "slip", "freeze", "abort"]
"""The actions of the loop for a late tag."""
ACTIONS: tuple[Action, ...] = get_args(Action)


@dataclass(frozen=True)
class Overrun:
    """A tag that began too late; it is recorded as an event at that tag."""

    tag_ns: int
    cause: Cause
    amount_ns: int
    """Lateness of the tag [wall-clock ns]."""
    job: str
    """The job that took most of the longest frame since the loop was last on time; empty if
    computing was not the cause."""
    action: Action
    """The action of the policy; also ``abort`` if the limit of another policy was exceeded."""
    consecutive: int
    allowed: int
    stood_ns: int | None = None
    """Time for which the loop waited for a CPU that other threads used, in the wait that ended
    late. None if the system does not report it, or if the cause was computing."""

    def __str__(self) -> str:
        late = f"{self.amount_ns / 1e6:.3f} ms"
        if self.cause == "wake":
            why = f"the loop woke {late} late"
            if self.stood_ns is not None:
                stood = min(self.stood_ns, self.amount_ns)  # a tag can begin early
                why += f", of which it waited {stood / 1e6:.3f} ms for a CPU in use by others"
        else:
            where = f", most of it in {self.job}" if self.job else ""
            why = f"computing took {late} too long{where}"
        return (
            f"overrun at {self.tag_ns / 1e9:.9f} s: {why}; "
            f"consecutive late frames: {self.consecutive}, allowed: {self.allowed}"
        )
