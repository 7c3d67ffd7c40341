"""Every clock passes the suite that ships for users' own, and the suite catches broken ones."""

from __future__ import annotations

import pytest

from rtsim.core.clock import VirtualClock, Wake, WallClock
from rtsim.testing import FakeClock, check_clock


def test_virtual_clock() -> None:
    check_clock(VirtualClock)


def test_fake_clock() -> None:
    check_clock(FakeClock)


@pytest.mark.realtime
@pytest.mark.parametrize("spin_ns", [0, 200_000])
def test_wall_clock(spin_ns: int) -> None:
    check_clock(lambda: WallClock(spin_ns=spin_ns))


class Early(FakeClock):
    def wait_until(self, ns: int, wake: Wake | None = None) -> bool:
        return super().wait_until(ns - 1, wake)


class Deaf(FakeClock):
    def wait_until(self, ns: int, wake: Wake | None = None) -> bool:  # noqa: ARG002
        return super().wait_until(ns)


class Sprints(FakeClock):
    """Keeps its first anchor, as a loop does that pays its backlog after a pause."""

    anchored = False

    def anchor(self, ns: int, own: int | None = None) -> None:
        if not self.anchored:
            self.anchored = True
            super().anchor(ns, own)


class Stalls(FakeClock):
    def anchor(self, ns: int, own: int | None = None) -> None:
        super().anchor(ns - 1_000_000, own)


class AnyRate(FakeClock):
    def set_rate(self, rate: object, ns: int, own: int | None = None) -> None:  # noqa: ARG002
        self.anchor(ns, own)


class Drifts(FakeClock):
    def wall(self, ns: int) -> int:
        return super().wall(int(float(ns) * 1.000_000_01))


class Clears(FakeClock):
    def wait_until(self, ns: int, wake: Wake | None = None) -> bool:
        reached = super().wait_until(ns, wake)
        if wake is not None:
            wake.clear()
        return reached


@pytest.mark.parametrize("broken", [Early, Deaf, Sprints, Stalls, AnyRate, Drifts, Clears])
def test_the_suite_catches(broken: type[FakeClock]) -> None:
    with pytest.raises(AssertionError):
        check_clock(broken)
