"""A clock for tests, and conformance checks for clocks. Nothing in this module sleeps."""

from __future__ import annotations

import itertools
import threading
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fractions import Fraction

from rtsim.core.clock import Clock, Timeline, Wake
from rtsim.core.errors import ScenarioError

FAKE_START = 1_152_921_504_606_846_976  # 2**60, far from any simulated time.


@dataclass(frozen=True)
class Wait:
    """A wait until the simulated time ``ns``.

    The start, the due time and the end of the wait are in ns of this clock.
    """

    ns: int
    asked: int
    due: int
    ended: int
    reached: bool


class FakeClock:
    """Clock for tests, whose time advances only in waits and in ``advance``.

    - ``late`` contains wake-up latencies (ns) for the next waits. Further waits have a latency of
      0.
    - :meth:`advance` simulates computing time.
    - ``call_at`` calls a function, such as ``wake.set``, at a given time.
    - ``waits`` lists all waits.
    - With ``autojump=False``, a wait blocks until another thread advances the clock. A wait raises
      ``TimeoutError`` after ``patience`` s of wall-clock time.
    """

    paced = True

    def __init__(
        self,
        rate: float | Fraction = 1.0,
        *,
        late: Iterable[int] = (),
        autojump: bool = True,
        patience: float = 5.0,
    ) -> None:
        self._own = FAKE_START
        self._line = Timeline(rate, self._own)
        self._late = deque(late)
        self._agenda: list[tuple[int, int, Callable[[], object]]] = []
        self._order = itertools.count()
        self._moved = threading.Condition(threading.RLock())
        self.autojump = autojump
        self.patience = patience
        self.waits: list[Wait] = []

    @property
    def rate(self) -> Fraction:
        return self._line.rate

    def now(self) -> int:
        return self._own

    def wall(self, ns: int) -> int:
        return self._line.wall(ns)

    def simulated(self, own: int) -> int:
        return self._line.simulated(own)

    def anchor(self, ns: int, own: int | None = None) -> None:
        self._line.anchor(ns, self._own if own is None else own)

    def set_rate(self, rate: float | Fraction | None, ns: int, own: int | None = None) -> None:
        self.paced = rate is not None
        self._line = Timeline(self.rate if rate is None else rate, self._own)
        self.anchor(ns, own)

    def advance(self, ns: int) -> None:
        """Advance the clock by ``ns``, as if the program computed."""
        if ns < 0:
            raise ValueError(f"cannot advance a clock by {ns} ns; give a number >= 0")
        with self._moved:
            self._move_to(self._own + ns)

    def spend(self, ns: int) -> None:
        if self.paced:
            self.advance(ns)

    def call_at(self, own: int, action: Callable[[], object]) -> None:
        """Call ``action`` when the clock reaches the time ``own`` (ns)."""
        with self._moved:
            self._agenda.append((own, next(self._order), action))
            self._agenda.sort(key=lambda entry: entry[:2])

    def wake_late(self, *late: int) -> None:
        """Add wake-up latencies (ns) for further waits."""
        self._late.extend(late)

    def wait_until(self, ns: int, wake: Wake | None = None) -> bool:
        if not self.paced:
            return True
        with self._moved:
            asked, due = self._own, self.wall(ns)
            turns = int(self.patience * 1000)
            while self._own < due and not (wake is not None and wake.is_set()):
                if self.autojump:
                    self._move_to(min(due, self._agenda[0][0]) if self._agenda else due)
                elif turns <= 0:
                    raise TimeoutError(
                        f"the FakeClock waits for the simulated time {ns} ns, but no thread "
                        "advanced the clock; call advance() from another thread, or use "
                        "autojump=True"
                    )
                else:
                    # A Wake cannot notify this condition, so the loop polls it.
                    self._moved.wait(0.001)
                    turns -= 1
            reached = not (wake is not None and wake.is_set())
            if reached and asked < due and self._late:
                self._move_to(max(self._own, due + self._late.popleft()))
            self.waits.append(Wait(ns, asked, due, self._own, reached))
            return reached

    def _move_to(self, own: int) -> None:
        while self._agenda and self._agenda[0][0] <= own:
            at, _, action = self._agenda.pop(0)
            self._own = max(self._own, at)
            action()
        self._own = max(self._own, own)
        self._moved.notify_all()


def check_clock(make_clock: Callable[[], Clock]) -> None:
    """Assert the contract of :class:`rtsim.core.clock.Clock`.

    ``make_clock`` must return a new clock at rate 1. All waits together take a few milliseconds.
    """
    _check_map(make_clock())
    _check_rates(make_clock())
    _check_waiting(make_clock())
    _check_spending(make_clock())
    _check_wake(make_clock())


def _check_map(clock: Clock) -> None:
    clock.anchor(1_000)
    month = 30 * 86_400 * 1_000_000_000
    for ns in (0, 1_000, 1_001, 1_000 + month):
        step = clock.wall(ns) - clock.wall(1_000)
        assert step == ns - 1_000, f"at rate 1, wall() rises by {step} in {ns - 1_000} ns"
        assert clock.simulated(clock.wall(ns)) == ns, "simulated() is not the inverse of wall()"
    if clock.paced:
        assert clock.now() > 2**50, "own time must start far away from simulated time"
        assert clock.now() >= clock.wall(1_000), "after anchor(ns), ns must be due now, not later"
        before = clock.now() - 500
        clock.anchor(2_000, before)
        assert clock.wall(2_000) == before, "after anchor(ns, own), wall(ns) must be own"
        clock.set_rate(1, 3_000, before)
        assert clock.wall(3_000) == before, "after set_rate(rate, ns, own), wall(ns) must be own"


def _check_rates(clock: Clock) -> None:
    clock.anchor(0)
    for rate in (0.0, -1.0, float("nan"), float("inf")):
        try:
            clock.set_rate(rate, 0)
        except ScenarioError:
            continue
        raise AssertionError(f"a rate of {rate} was accepted; expected a ScenarioError")
    clock.set_rate(10, 5_000)
    step = clock.wall(5_000 + 10_000_000) - clock.wall(5_000)
    expected = 1_000_000 if clock.paced else 10_000_000
    assert step == expected, f"rate 10: 10 simulated ms took {step} ns of own time"
    paced = clock.paced
    clock.set_rate(None, 5_000)
    assert not clock.paced, "after set_rate(None), paced must be False"
    assert clock.wait_until(3_600_000_000_000), "after set_rate(None), wait_until must not wait"
    clock.set_rate(1, 5_000)
    assert clock.paced == paced, "after set_rate(1), paced must be as it was at the start"


def _check_waiting(clock: Clock) -> None:
    clock.anchor(0)
    last = clock.now()
    for ns in (0, 300_000, 300_000, 900_000):
        assert clock.wait_until(ns), "without a wake, wait_until must return True"
        now = clock.now()
        assert now >= clock.wall(ns), f"returned {clock.wall(ns) - now} ns before {ns} was due"
        assert now >= last, f"own time went back by {last - now} ns"
        last = now
    for there in (10**15, 500):  # A restore moves the time forward or back.
        clock.anchor(there)
        before = clock.now()
        assert clock.wait_until(there + 200_000)
        assert clock.now() >= clock.wall(there + 200_000), (
            "after a new anchor, wait_until returned before the due time"
        )
        assert clock.wall(there + 200_000) - before <= 200_000, (
            "after a new anchor, the due time is too late"
        )


def _check_spending(clock: Clock) -> None:
    clock.anchor(0)
    before = clock.now()
    clock.spend(200_000)
    spent = clock.now() - before
    assert spent >= (200_000 if clock.paced else 0), f"spend(200000) took {spent} ns"
    clock.set_rate(None, 0)
    before = clock.now()
    clock.spend(3_600_000_000_000)
    assert clock.now() - before < 3_600_000_000_000, "after set_rate(None), spend() must not wait"


def _check_wake(clock: Clock) -> None:
    wake = Wake()
    wake.set()
    clock.anchor(0)
    far = 3_600_000_000_000
    if not clock.paced:
        assert clock.wait_until(far, wake), "a clock that never waits must ignore a wake"
        return
    assert not clock.wait_until(far, wake), "wait_until must return False if the wake is set"
    assert not clock.wait_until(-far, wake), (
        "wait_until must return False if the wake is set, even after the deadline"
    )
    assert wake.is_set(), "wait_until must not clear the wake"
    wake.clear()
    assert clock.wait_until(200_000, wake), "with the wake clear, wait_until must return True"
    assert clock.now() >= clock.wall(200_000), "a wait with a wake returned before it was due"
