"""The load of a CAN bus, and the longest latency of its periodic frames.

The analysis is that of R. I. Davis, A. Burns, R. J. Bril and J. J. Lukkien, "Controller Area
Network (CAN) schedulability analysis: Refuted, revisited and revised", Real-Time Systems 35 (2007)
239-272, for frames without jitter.  It assumes the most stuff bits and no error frames.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from rtsim.components.can_bus import INTERMISSION, CanFrame, arbitration


class PeriodicFrame(NamedTuple):
    """A frame that is ready for its bus every ``period_ns``, with its sender."""

    sender: str
    frame: CanFrame
    period_ns: int

    @property
    def taken_ns(self) -> int:
        """The longest time that one frame takes on the bus, with the intermission, ns."""
        return self.frame.bus.ns(self.frame.worst_bits + INTERMISSION)

    @property
    def load(self) -> float:
        """The greatest share of the time in which the bus carries this frame."""
        return self.taken_ns / self.period_ns


def worst_latencies(frames: Sequence[PeriodicFrame]) -> dict[str, int | None]:
    """Return the longest time from ready to arrival of each frame of one bus, ns, by its sender.

    It is None if the frame and those of higher priority need all the time of the bus.
    """
    ordered = sorted(frames, key=lambda f: arbitration(f.frame.identifier, f.frame.extended))
    out: dict[str, int | None] = {}
    for m, own in enumerate(ordered):
        higher = ordered[:m]
        blocking = max((lower.taken_ns for lower in ordered[m + 1 :]), default=0)
        if sum(f.load for f in (*higher, own)) >= 1.0:
            out[own.sender] = None
        else:
            out[own.sender] = _worst(own, higher, blocking)
    return out


def _worst(own: PeriodicFrame, higher: Sequence[PeriodicFrame], blocking: int) -> int:
    """Return the longest latency among all instances of ``own`` in the longest busy period."""
    bit = own.frame.bus.ns(1)

    def interference(t: int) -> int:
        return sum(-(-t // f.period_ns) * f.taken_ns for f in higher)

    def busy(t: int) -> int:
        return blocking + interference(t) - (-t // own.period_ns) * own.taken_ns

    instances = -(-_fixed_point(busy, own.taken_ns) // own.period_ns)
    worst, begins = 0, blocking
    for instance in range(instances):
        before = blocking + instance * own.taken_ns

        def queued(t: int, before: int = before) -> int:
            return before + interference(t + bit)

        # What comes before an instance grows with it, so the search goes on from the last one.
        begins = _fixed_point(queued, max(begins, before))
        arrives = begins + own.frame.bus.ns(own.frame.worst_bits)
        worst = max(worst, arrives - instance * own.period_ns)
    return worst


def _fixed_point(step: Callable[[int], int], start: int) -> int:
    while (found := step(start)) != start:
        start = found
    return start
