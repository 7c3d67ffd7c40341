"""An overrun: a tag that began too late, with its cause and the action of the policy."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, Self, get_args

import numpy as np
from numpy.typing import NDArray

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


UNKNOWN_NS = -1
"""In a row of :class:`CaughtUp`: the system does not report the wait for a CPU."""


@dataclass(frozen=True)
class CaughtUp:
    """Overruns that the loop caught up with, as compiled code notes them; one row each.

    A row costs the loop 0.3 us; an :class:`Overrun` and its text cost 10 us, which at 10 kHz would
    cause the next overruns.  The process that writes the recording makes them from the rows.
    """

    rows: NDArray[np.int64]
    """(n, 6): tag [ns], lateness [ns], 1 if the loop woke late, index of the job in ``jobs``, wait
    for a CPU [ns] or :data:`UNKNOWN_NS`, and the number of late frames in a row."""
    jobs: tuple[str, ...]
    allowed: int

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[Overrun]:
        for ns, late, by_wake, job, stood, consecutive in self.rows.tolist():
            yield Overrun(
                tag_ns=ns, cause="wake" if by_wake else "compute", amount_ns=late,
                job=self.jobs[job], action="catch_up", consecutive=consecutive,
                allowed=self.allowed, stood_ns=None if stood == UNKNOWN_NS else stood,
            )  # fmt: skip

    def pack(self) -> bytes:
        """Return the overruns for another process: a line of JSON, then the rows."""
        return _head(self.allowed, self.jobs) + self.rows.tobytes()

    @classmethod
    def unpack(cls, data: bytes) -> Self:
        """Return the overruns that :meth:`pack` wrote."""
        head, _, rows = data.partition(b"\n")
        allowed, *jobs = json.loads(head)
        return cls(np.frombuffer(rows, np.int64).reshape(-1, 6), tuple(jobs), allowed)


@lru_cache(maxsize=16)
def _head(allowed: int, jobs: tuple[str, ...]) -> bytes:
    return json.dumps([allowed, *jobs]).encode() + b"\n"
