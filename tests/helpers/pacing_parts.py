"""A loop on a fake clock, for the tests of the pacer."""

from __future__ import annotations

from collections.abc import Sequence

from rtsim.testing import FakeClock
from rtsim.timing.pacing import Pacer
from rtsim.timing.policy import Overrun, Policy

MS = 1_000_000


def fly(pacer: Pacer, clock: FakeClock, compute: Sequence[int], period: int = MS) -> list[Overrun]:
    """One frame for each computing time [ns]; what the executive would record."""
    recorded = []
    pacer.start(0)
    for k, spent in enumerate(compute, 1):
        clock.advance(spent)
        pacer.lap("plant")
        try:
            assert pacer.wait(k * period)
        finally:
            if pacer.overrun is not None:
                recorded.append(pacer.overrun)
    return recorded


class LaterClock(FakeClock):
    """A clock on which a run begins later than now, as where ticks of the system are avoided."""

    def __init__(self, later_ns: int, late: Sequence[int] = ()) -> None:
        super().__init__(late=late)
        self._later_ns = later_ns

    def anchor(self, ns: int, own: int | None = None) -> None:
        super().anchor(ns, self.now() + self._later_ns if own is None else own)


def make(policy: Policy, late: Sequence[int] = ()) -> tuple[Pacer, FakeClock]:
    clock = FakeClock(late=late)
    return Pacer(clock, policy, frame_ns=MS), clock
