"""The clocks: simulated nanoseconds, and when on the wall they are due.

Only this module reads wall time (``CLOCK_MONOTONIC``); everybody else is handed a :class:`Clock`,
or measures a duration with :func:`stopwatch`.  :class:`VirtualClock` never waits.
:class:`WallClock` waits on absolute deadlines: it sleeps until shortly before one and spins the
rest.  A third, for tests, ships in :mod:`rtsim.testing`.  All of them pass ``check_clock``.

Two times run through this module and must not be mixed: *simulated* ns, which start at 0, and the
clock's *own* ns (``now()``, ``wall(ns)``), which on a real clock start 36 to 73 years further on.
"""

from __future__ import annotations

import contextlib
import math
import os
import random
import sys
import threading
import time
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Protocol

from rtsim.core.errors import ScenarioError

if sys.platform == "win32":  # time.monotonic steps by 15.6 ms there before Python 3.13
    stopwatch = time.perf_counter_ns
else:
    stopwatch = time.monotonic_ns
"""Nanoseconds for measuring durations; only differences mean anything."""

civil = time.time_ns
"""Nanoseconds since 1970, UTC: a label for people, which may jump; nothing is measured with it."""

_loaded_ns = stopwatch()


def age_ns() -> int:
    """How long this process has lived, to 10 ms: since a command was started, what a user waited.

    Where the system does not say, since this module was loaded.
    """
    try:
        fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
        began = int(fields[19]) * 1_000_000_000 // os.sysconf("SC_CLK_TCK")
        return time.clock_gettime_ns(time.CLOCK_BOOTTIME) - began
    except (OSError, AttributeError, ValueError, IndexError):
        return stopwatch() - _loaded_ns


DEFAULT_SPIN_NS = 200_000
MIN_SPIN_NS = 20_000
MAX_SPIN_NS = 500_000
MAX_SPIN_SHARE = 4
"""A tuned tail is at most 1/4 of the loop's period and at most 500 us, so spinning never takes more
than a quarter of one core, and at 200 Hz no more than a tenth.  A machine whose sleeps come later
than that has a problem that burning the CPU does not solve; the timing certificate shows it."""

_LONGEST_SLEEP_S = 3600.0  # far deadlines are slept in pieces: no overflow in the C library
_FAR_NS = 3_600_000_000_000
_REHEARSAL_NS = 10_000  # a tail shorter than this is left alone
_SPARE_NS = 20_000  # beyond what would have covered a sleep that came late
_COARSE = 6  # CLOCK_MONOTONIC_COARSE: Linux moves it on at each tick
_IN_THE_TAIL_NS = 30_000  # how long after the earliest end of a sleep a tick may best come
_EASE_NS = 20  # less for each one that did not: some seconds at 1 kHz until all is given back


class Wake:
    """An event input that can cut a wait short; any thread may :meth:`set` it.

    It stays set until the waiting side clears it, before it looks at what came in, so that nothing
    that comes in later is missed.  Built on one lock: no file descriptor, the same on every
    platform, safe in a signal handler.  A source that has a descriptor of its own may subclass it;
    clocks only use :meth:`is_set` and :meth:`wait`.
    """

    def __init__(self) -> None:
        self._gate = threading.Lock()  # open (unlocked) means set
        self._gate.acquire()

    def set(self) -> None:
        """Wake the waiter, now or at its next wait."""
        with contextlib.suppress(RuntimeError):  # it was set already
            self._gate.release()

    def clear(self) -> None:
        """Forget it; called by the waiting side only."""
        self._gate.acquire(blocking=False)

    def is_set(self) -> bool:
        return not self._gate.locked()

    def wait(self, seconds: float) -> bool:
        """Wait at most so long; whether it is set, and it stays set."""
        if not self._gate.acquire(timeout=max(0.0, seconds)):
            return False
        self.set()
        return True


class Clock(Protocol):
    """Where simulated time meets the wall.  ``check_clock`` in :mod:`rtsim.testing` is the law."""

    paced: bool
    """False: it never waits, and nothing is ever late."""

    def now(self) -> int:
        """The clock's own time [ns]; never goes back."""
        ...

    def wall(self, ns: int) -> int:
        """W(ns): the clock's own time at which simulated ``ns`` is due."""
        ...

    def simulated(self, own: int) -> int:
        """The simulated ns that the clock's own time ``own`` falls into: the inverse of W."""
        ...

    def anchor(self, ns: int, own: int | None = None) -> None:
        """Simulated ``ns`` is now: at the start, and after a pause, a restore or a slip.

        Or it was due at ``own``, of the clock's own time, which has gone by.
        """
        ...

    def set_rate(self, rate: float | Fraction | None, ns: int, own: int | None = None) -> None:
        """From simulated ``ns`` on run at ``rate`` simulated seconds a second.

        ``None`` is as fast as possible; ``ns`` and ``own`` are anchored as by :meth:`anchor`.
        """
        ...

    def wait_until(self, ns: int, wake: Wake | None = None) -> bool:
        """Wait until simulated ``ns`` is due; never returns True early.

        False: an event input woke it (or was set when it came), look again.  A deadline that has
        passed returns at once.
        """
        ...

    def spend(self, ns: int) -> None:
        """Be busy for ``ns`` of its own time, as computing is; nothing where it never waits."""
        ...


def exact_rate(rate: float | Fraction) -> Fraction:
    """``rate`` exactly (0.1 means one tenth); :class:`ScenarioError` unless finite and > 0."""
    if isinstance(rate, Fraction):
        exact = rate
    else:
        exact = Fraction(repr(float(rate))) if math.isfinite(rate) else Fraction(0)
    if exact <= 0:
        raise ScenarioError(
            f"a rate of {rate} does not let time pass; it must be finite and > 0, "
            "such as --pace 1.0 (or --pace max, which does not wait at all)"
        )
    return exact


class VirtualClock:
    """The clock of a run that is as fast as possible: it never waits, so nothing can wake it.

    Its own time is the latest simulated time that it was asked to wait for.
    """

    paced = False

    def __init__(self) -> None:
        self._now = 0

    def now(self) -> int:
        return self._now

    def wall(self, ns: int) -> int:
        return ns

    def simulated(self, own: int) -> int:
        return own

    def anchor(self, ns: int, own: int | None = None) -> None:  # noqa: ARG002
        self._now = ns

    def set_rate(self, rate: float | Fraction | None, ns: int, own: int | None = None) -> None:  # noqa: ARG002
        if rate is not None:
            exact_rate(rate)
        self.anchor(ns)

    def wait_until(self, ns: int, wake: Wake | None = None) -> bool:  # noqa: ARG002
        if ns > self._now:
            self._now = ns
        return True

    def spend(self, ns: int) -> None:
        """Nobody waits: nothing takes time."""


class Timeline:
    """The exact map between simulated and own time, shared by every clock that is paced.

    Integers and a rational rate: W is off by less than 1 ns after any number of months.  W rounds
    up, so that a deadline is never early.
    """

    __slots__ = ("_denominator", "_numerator", "_own", "_simulated")

    def __init__(self, rate: float | Fraction, own: int) -> None:
        self._simulated, self._own = 0, own
        self.rate = exact_rate(rate)

    @property
    def rate(self) -> Fraction:
        return Fraction(self._numerator, self._denominator)

    @rate.setter
    def rate(self, rate: Fraction) -> None:
        self._numerator, self._denominator = rate.numerator, rate.denominator

    def anchor(self, ns: int, own: int) -> None:
        self._simulated, self._own = ns, own

    def wall(self, ns: int) -> int:
        return self._own - (self._simulated - ns) * self._denominator // self._numerator

    def simulated(self, own: int) -> int:
        return self._simulated + (own - self._own) * self._numerator // self._denominator


class WallClock:
    """``CLOCK_MONOTONIC`` against absolute deadlines; sleeps, then spins the last ``spin_ns``.

    ``rate`` is simulated seconds a second; while it is ``None`` it waits for nothing, as a
    :class:`VirtualClock`, until :meth:`set_rate` paces it again.  CPython 3.11+ sleeps with
    ``clock_nanosleep`` on Linux; how late it returns is the machine's affair, which
    :meth:`calibrate` measures.  ``spin_ns=0`` is a plain sleep.
    """

    def __init__(self, rate: float | Fraction | None = 1.0, spin_ns: int = DEFAULT_SPIN_NS) -> None:
        if spin_ns < 0:
            raise ScenarioError(f"a spin tail of {spin_ns} ns; it must be >= 0")
        self.spin_ns = self.most_spin_ns = spin_ns
        """The tail now, and the longest that it was [ns]."""
        self._least_spin_ns = self._bound_ns = spin_ns
        self.offset_ns = random.SystemRandom().randrange(2**60, 2**61)
        """Own time less ``CLOCK_MONOTONIC``: translates stamps that another process took."""
        self.rehearsal: Callable[[], object] | None = None
        """Called between the sleep and the spin: what its owner wants in the CPU's caches."""
        self.paced = rate is not None
        self.begun_ns = 0
        """When simulated time first ran since :meth:`calibrate`, by :func:`stopwatch` [ns]."""
        self._period_ns = 0  # of the loop, once it is known
        self._line = Timeline(1.0 if rate is None else rate, self.now())

    @property
    def rate(self) -> Fraction:
        return self._line.rate

    def now(self) -> int:
        return stopwatch() + self.offset_ns

    def wall(self, ns: int) -> int:
        return self._line.wall(ns)

    def simulated(self, own: int) -> int:
        return self._line.simulated(own)

    def anchor(self, ns: int, own: int | None = None) -> None:
        """Without ``own``, once calibrated: now, or up to a tick later (:func:`until_quiet`)."""
        if own is None:
            now = self.now()
            own = now + self._until_quiet(ns, now)
            self.begun_ns = self.begun_ns or own - self.offset_ns
        self._line.anchor(ns, own)

    def _until_quiet(self, ns: int, now: int) -> int:
        if not (self.paced and self._period_ns):
            return 0
        period = self._line.wall(ns + self._period_ns) - self._line.wall(ns)
        return until_quiet(now - self.offset_ns, period, self._bound_ns, tick_ns())

    def set_rate(self, rate: float | Fraction | None, ns: int, own: int | None = None) -> None:
        self.paced = rate is not None
        if rate is not None:
            self._line.rate = exact_rate(rate)
        self.anchor(ns, own)

    def wait_until(self, ns: int, wake: Wake | None = None) -> bool:
        if not self.paced:
            return True
        due = self._line.wall(ns)
        bell = due - self.spin_ns - self.offset_ns
        slept = False
        while (rest := bell - stopwatch()) > 0:
            seconds = rest * 1e-9 if rest < _FAR_NS else _LONGEST_SLEEP_S
            if wake is None:
                time.sleep(seconds)
            elif wake.wait(seconds):
                return False
            slept = True
        if slept:
            left = due - self.now()
            if left < 0 or self.spin_ns > self._least_spin_ns:
                self._retune(left)
            if left > _REHEARSAL_NS and self.rehearsal is not None:
                self.rehearsal()
        if wake is not None:
            return self._spin_or_wake(due, wake)
        while self.now() < due:
            pass
        return True

    def spend(self, ns: int) -> None:
        if not self.paced:
            return
        over = self.now() + ns
        while self.now() < over:
            pass

    def _retune(self, left_ns: int) -> None:
        """A sleep ended so long before the deadline; less than 0 is after it.

        What the longest tail would not have covered is not chased.
        """
        if left_ns >= 0:
            self.spin_ns = max(self._least_spin_ns, self.spin_ns - _EASE_NS)
        elif self.spin_ns - left_ns <= self._bound_ns:
            self.spin_ns = min(self._bound_ns, self.spin_ns - left_ns + _SPARE_NS)
            self.most_spin_ns = max(self.most_spin_ns, self.spin_ns)

    def _spin_or_wake(self, due: int, wake: Wake) -> bool:
        while not wake.is_set():
            if self.now() >= due:
                return True
        return False

    def calibrate(self, period_ns: int | None = None, samples: int = 100) -> int:
        """Tune the spin tail to this machine as it is scheduled now; returns it [ns].

        Sleeps ``samples`` times for 1 ms and takes twice the tail that would have covered 99 in
        100 of the late returns, within the bounds stated at :data:`MAX_SPIN_SHARE` (``period_ns``:
        the shortest wait of the loop to come).  Twice, because with just enough one wake in a
        hundred is late by definition.  Ask for scheduling first: it changes the answer.  From then
        on a sleep that came too late lengthens the tail within these bounds, and those that do not
        give it back little by little: whoever joins a run later changes the answer too.
        """
        late = []
        for _ in range(max(1, samples)):
            due = stopwatch() + 1_000_000
            time.sleep(0.001)
            late.append(stopwatch() - due)
        self.spin_ns = self.most_spin_ns = self._least_spin_ns = tail_for(late, period_ns)
        self._bound_ns = _longest_tail(period_ns)
        self._period_ns, self.begun_ns = period_ns or 0, 0
        return self.spin_ns


def tick_ns() -> int:
    """Between two ticks of the system's scheduler; 0 where it does not say."""
    if sys.platform != "linux":
        return 0
    try:
        return round(time.clock_getres(_COARSE) * 1e9)
    except OSError:
        return 0


def until_quiet(now_ns: int, period_ns: int, tail_ns: int, tick_ns: int) -> int:
    """How long after ``now_ns`` a loop best begins, so that no tick meets it while it runs [ns].

    At a tick Linux asks whether another thread has waited longer, and a loop that spins or computes
    then loses its processor, until the next one.  Ticks come at multiples of ``tick_ns`` of
    ``CLOCK_MONOTONIC``, so they meet a loop whose period has a common divisor with theirs always at
    the same few phases.  The best is the beginning of the tail: what holds the processor then, when
    the sleep ends, is asked to go, the loop has a fresh slice, and all other ticks find it asleep.
    0 where the common divisor leaves no room beside a tail of ``tail_ns``.
    """
    divisor = math.gcd(period_ns, tick_ns)
    if not (period_ns and tick_ns) or divisor < 2 * tail_ns:
        return 0
    return (max(0, tail_ns - _IN_THE_TAIL_NS) - now_ns) % divisor


def tail_for(late: list[int], period_ns: int | None = None) -> int:
    """The spin tail [ns] for sleeps that came so ``late`` [ns]; see :meth:`WallClock.calibrate`."""
    nearly_all = sorted(late)[math.ceil(0.99 * len(late)) - 1]
    return min(max(nearly_all * 2, MIN_SPIN_NS), _longest_tail(period_ns))


def _longest_tail(period_ns: int | None) -> int:
    return MAX_SPIN_NS if period_ns is None else min(MAX_SPIN_NS, period_ns // MAX_SPIN_SHARE)
