"""The clocks, which map simulated time to wall-clock time and wait for a simulated time.

Only this module reads wall time (``CLOCK_MONOTONIC``).  All other modules receive a :class:`Clock`
or measure a duration with :func:`stopwatch`.  :class:`VirtualClock` never waits.
:class:`WallClock` waits for absolute deadlines: it sleeps until shortly before a deadline and
busy-waits for the rest.  A third clock, for tests, is in :mod:`rtsim.testing`.  All three pass
``check_clock``.

Do not mix the two time scales: *simulated* ns start at 0; the clock's *own* ns (``now()``,
``wall(ns)``) have an arbitrary start, and on a real clock differ from ``CLOCK_MONOTONIC`` by years.
"""

from __future__ import annotations

import contextlib
import ctypes
import math
import os
import random
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Protocol

from rtsim.core.errors import ScenarioError

# The exact map between simulated time and the own time of a clock.

SLOWEST, FASTEST = Fraction(1, 10**6), Fraction(10**9)
"""A frame of 1 h takes 114 years at the lowest rate, and times in ns have 64 bits."""


def exact_rate(rate: float | Fraction) -> Fraction:
    """Return ``rate`` exactly (0.1 is one tenth); ScenarioError if no clock can keep it."""
    if isinstance(rate, Fraction):
        exact = rate
    else:
        exact = Fraction(repr(float(rate))) if math.isfinite(rate) else Fraction(0)
    if exact <= 0:
        raise ScenarioError(
            f"rate {rate} is not a finite number > 0; type --pace 1.0 for real time, "
            "or --pace max to run without waiting"
        )
    if not SLOWEST <= exact <= FASTEST:
        raise ScenarioError(
            f"rate {float(exact):g} is out of range; give a rate from {float(SLOWEST):g} to "
            f"{float(FASTEST):g}, or --pace max to run without waiting"
        )
    return exact


class Timeline:
    """The exact map between simulated time and a clock's own time, used by every paced clock.

    It uses integers and a rational rate: :meth:`wall` is off by less than 1 ns after any number of
    months.  It rounds up, so that a deadline is never early.
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

    @property
    def words(self) -> tuple[int, int, int, int]:
        """Reference point (simulated ns, own ns), numerator and denominator of the rate."""
        return self._simulated, self._own, self._numerator, self._denominator

    def wall(self, ns: int) -> int:
        return self._own - (self._simulated - ns) * self._denominator // self._numerator

    def simulated(self, own: int) -> int:
        return self._simulated + (own - self._own) * self._numerator // self._denominator


# What compiled code needs to wait on the wall clock: functions of the C library, and numbers.

_NAMES = ("clock_gettime", "clock_nanosleep", "pread", "recv")
MONOTONIC = 1
"""``CLOCK_MONOTONIC`` of Linux, which :func:`time.monotonic_ns` reads."""


@dataclass(frozen=True)
class Calls:
    """Addresses of C functions.  A clock of a test puts functions of its own here."""

    clock_gettime: int
    """``int (int clock, int64_t time[2])``"""
    clock_nanosleep: int
    """``int (int clock, int flags, int64_t until[2], int64_t rest[2])``"""
    pread: int
    """``ssize_t (int file, void *into, size_t count, off_t from)``"""
    recv: int
    """``ssize_t (int socket, void *into, size_t count, int flags)``"""


@dataclass(frozen=True)
class Wait:
    """How a clock waits: simulated ``s`` [ns] is due at
    ``own - (simulated - s) * denominator / numerator``, in ns of ``CLOCK_MONOTONIC``.

    All times are in ns.  ``offset`` is the own time of the clock minus ``CLOCK_MONOTONIC``.
    """

    calls: Calls
    offset: int
    simulated: int
    own: int
    numerator: int
    denominator: int
    spin: int
    """The busy-wait window: the sleep ends this long before the due time."""
    least_spin: int
    most_spin: int
    bound: int
    """No late sleep lengthens the window beyond this."""


@cache
def system_calls() -> Calls | None:
    """The functions of this system; None on a system other than Linux with 64-bit times."""
    if sys.platform != "linux" or ctypes.sizeof(ctypes.c_long) != 8:
        return None
    library = ctypes.CDLL(None)
    found = (ctypes.cast(getattr(library, name), ctypes.c_void_p).value for name in _NAMES)
    return Calls(*(address or 0 for address in found))


if sys.platform == "win32":  # on Windows, time.monotonic steps by 15.6 ms before Python 3.13
    stopwatch = time.perf_counter_ns
else:
    stopwatch = time.monotonic_ns
"""Nanoseconds for measuring durations; only differences mean anything."""

processor_time = time.thread_time_ns
"""Processor time of this thread in nanoseconds; only differences mean anything."""

civil = time.time_ns
"""Nanoseconds since 1970, UTC, for dates.  It may jump, so do not measure durations with it."""

_loaded_ns = stopwatch()


def age_ns() -> int:
    """Return the time since this process started [ns], with a resolution of 10 ms.

    If the system does not report the start, return the time since this module was loaded.
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
"""A tuned busy-wait window is at most 1/4 of the loop's period divided by the rate, and at most
500 us.  Busy-waiting thus uses at most a quarter of one core, and at 200 Hz at most a tenth.  If a
sleep ends later than the longest window covers, the timing certificate shows the late wake-up."""

_LONGEST_SLEEP_S = 3600.0  # longer waits use several sleeps, because the C library overflows
_FAR_NS = 3_600_000_000_000
_WARM_UP_NS = 10_000  # if less time is left before the deadline, ``warm_up`` is not called
_SPARE_NS = 20_000  # margin added when a late sleep lengthens the window
_COARSE = 6  # CLOCK_MONOTONIC_COARSE: Linux advances it at each scheduler tick
_IN_WINDOW_NS = 30_000  # a scheduler tick is best this long after the window begins
_TICK_TAKES_NS = 50_000  # a scheduler tick can hold up a thread for this long, on a virtual machine
_EASE_NS = 20  # a sleep that ends in time shortens the window by this


class Wake:
    """An event that ends a wait early; any thread may :meth:`set` it.

    It stays set until the waiting side clears it.  The waiting side clears it first and then reads
    its inputs, so that it misses no later input.  It is built on one lock: it needs no file
    descriptor, works the same on every platform and is safe in a signal handler.  A source with a
    file descriptor of its own may subclass it; clocks only use :meth:`is_set` and :meth:`wait`.
    """

    def __init__(self) -> None:
        self._gate = threading.Lock()  # unlocked if the event is set
        self._gate.acquire()

    def set(self) -> None:
        """End the current wait, or the next wait if none is in progress."""
        with contextlib.suppress(RuntimeError):  # the event was already set
            self._gate.release()

    def clear(self) -> None:
        """Clear the event; only the waiting side may call this."""
        self._gate.acquire(blocking=False)

    def is_set(self) -> bool:
        return not self._gate.locked()

    def wait(self, seconds: float) -> bool:
        """Wait until the event is set, at most ``seconds``; return whether it is set."""
        if not self._gate.acquire(timeout=max(0.0, seconds)):
            return False
        self.set()
        return True


class Clock(Protocol):
    """A map between simulated time and a clock's own time, with a way to wait.

    ``check_clock`` in :mod:`rtsim.testing` defines and checks the contract.
    """

    paced: bool
    """Whether the clock waits.  If False, it never waits and no tag is ever late."""

    def now(self) -> int:
        """Return the clock's own time [ns]; it never goes back."""
        ...

    def wall(self, ns: int) -> int:
        """Return W(ns): the clock's own time at which simulated ``ns`` is due."""
        ...

    def simulated(self, own: int) -> int:
        """Return the simulated time [ns] at the clock's own time ``own`` [ns]: the inverse of W."""
        ...

    def anchor(self, ns: int, own: int | None = None) -> None:
        """Set the reference point: simulated ``ns`` is due now, or was due at own time ``own``.

        Called at the start, and after a pause, a restore or a slip.  ``own`` lies in the past.
        """
        ...

    def set_rate(self, rate: float | Fraction | None, ns: int, own: int | None = None) -> None:
        """Run at ``rate`` simulated seconds per second from simulated ``ns`` on.

        ``None`` means as fast as possible.  ``ns`` and ``own`` set the reference point as in
        :meth:`anchor`.
        """
        ...

    def wait_until(self, ns: int, wake: Wake | None = None) -> bool:
        """Wait until simulated ``ns`` is due; never return True before that.

        Returns False if ``wake`` was set before or during the wait: the caller reads its inputs
        and waits again.  If the deadline has passed, the method returns at once.
        """
        ...

    def spend(self, ns: int) -> None:
        """Keep the CPU busy for ``ns`` of own time; a clock that never waits does nothing."""
        ...


class VirtualClock:
    """The clock of a run that is as fast as possible: it never waits.

    Its own time is the latest simulated time for which a wait was requested.
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
        """Do nothing: this clock never waits, so no time passes."""


class WallClock:
    """A clock that waits for absolute deadlines of ``CLOCK_MONOTONIC``.

    It sleeps, and busy-waits for the last ``spin_ns``; with ``spin_ns=0`` it only sleeps.
    ``rate`` is in simulated seconds per second.  With ``rate=None`` it never waits, like a
    :class:`VirtualClock`, until :meth:`set_rate` sets a rate.  CPython 3.11+ sleeps with
    ``clock_nanosleep`` on Linux; :meth:`calibrate` measures how late that returns on this machine.
    """

    def __init__(self, rate: float | Fraction | None = 1.0, spin_ns: int = DEFAULT_SPIN_NS) -> None:
        if spin_ns < 0:
            raise ScenarioError(
                f"the busy-wait window spin_ns = {spin_ns} ns is negative; give 0 ns or more"
            )
        self.spin_ns = self.most_spin_ns = spin_ns
        """The present length of the busy-wait window, and its greatest length so far [ns]."""
        self._least_spin_ns = self._bound_ns = self._tuned_spin_ns = spin_ns
        self.offset_ns = random.SystemRandom().randrange(2**60, 2**61)
        """Own time minus ``CLOCK_MONOTONIC`` [ns]: converts time stamps of another process."""
        self.warm_up: Callable[[int], object] | None = None
        """Function called between the sleep and the busy-wait, to load code into the CPU's caches.

        It gets the time until the deadline [ns]."""
        self.paced = rate is not None
        self.begun_ns = 0
        """Reading of :func:`stopwatch` [ns] when simulated time began to advance."""
        self._period_ns: int | None = None  # period of the loop, simulated ns, once it is known
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
        """Set the reference point; without ``own``, it is at most one scheduler tick after now."""
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
            if self._period_ns is not None:
                self._bound_spin(ns, self._period_ns)
        self.anchor(ns, own)

    def _bound_spin(self, ns: int, period_ns: int) -> None:
        """Bound the busy-wait window by the wall-clock time of the period at the present rate."""
        self._bound_ns = _longest_tail(self._line.wall(ns + period_ns) - self._line.wall(ns))
        self._least_spin_ns = min(self._tuned_spin_ns, self._bound_ns)
        self.spin_ns = min(max(self.spin_ns, self._least_spin_ns), self._bound_ns)

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
            if left > _WARM_UP_NS and self.warm_up is not None:
                self.warm_up(left)
        if wake is not None:
            return self._spin_or_wake(due, wake)
        while self.now() < due:
            pass
        return True

    def lend(self) -> Wait | None:
        """How compiled code waits on this clock; None where it cannot."""
        calls = system_calls()
        if calls is None or not self.paced:
            return None
        simulated, own, numerator, denominator = self._line.words
        return Wait(
            calls, self.offset_ns, simulated, own - self.offset_ns, numerator, denominator,
            self.spin_ns, self._least_spin_ns, self.most_spin_ns, self._bound_ns,
        )  # fmt: skip

    def returned(self, spin_ns: int, most_spin_ns: int) -> None:
        """Continue with the busy-wait window that compiled code tuned."""
        self.spin_ns, self.most_spin_ns = spin_ns, most_spin_ns

    def spend(self, ns: int) -> None:
        if not self.paced:
            return
        over = self.now() + ns
        while self.now() < over:
            pass

    def _retune(self, left_ns: int) -> None:
        """Adapt the busy-wait window to a sleep that ended ``left_ns`` before its deadline.

        ``left_ns`` is negative if the sleep ended after its deadline.  A sleep that even the
        longest window would not have covered does not change the window.
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
        """Tune the busy-wait window to this machine and scheduling; return it [ns].

        Sleeps ``samples`` times for 1 ms.  The window is twice the length that would have covered
        99 of 100 late returns, within the bounds stated at :data:`MAX_SPIN_SHARE`.  ``period_ns``
        is the shortest period of the coming loop [simulated ns].  Without the factor of two, one
        wake-up in a hundred would be late.  Request real-time scheduling before the calibration,
        because it changes the result.  During the run, a sleep that ends too late lengthens the
        window within these bounds, and sleeps that end in time shorten it little by little.
        """
        late = []
        for _ in range(max(1, samples)):
            due = stopwatch() + 1_000_000
            time.sleep(0.001)
            late.append(stopwatch() - due)
        self._period_ns, self.begun_ns = period_ns, 0
        self._tuned_spin_ns = self._least_spin_ns = self.spin_ns = tail_for(late)
        self._bound_ns = MAX_SPIN_NS
        if period_ns is not None:
            self._bound_spin(0, period_ns)
        self.most_spin_ns = self.spin_ns
        return self.spin_ns


def tick_ns() -> int:
    """Return the period of the system's scheduler ticks [ns]; 0 if it is not reported."""
    if sys.platform != "linux":
        return 0
    try:
        return round(time.clock_getres(_COARSE) * 1e9)
    except OSError:
        return 0


def until_quiet(now_ns: int, period_ns: int, tail_ns: int, tick_ns: int) -> int:
    """Return how long after ``now_ns`` a loop must start so that no tick interrupts it [ns].

    At a tick, Linux checks whether another thread has waited longer.  A loop that busy-waits or
    computes then loses its CPU until the next tick.  Ticks come at multiples of ``tick_ns`` of
    ``CLOCK_MONOTONIC``.  If the period and ``tick_ns`` have a common divisor, ticks always meet the
    loop at the same few phases.  The best phase is the beginning of the busy-wait window: the tick
    then removes another thread from the CPU just as the sleep ends, the loop gets a fresh time
    slice, and all other ticks find the loop asleep.  In a short window, the tick itself would make
    the loop late; then the best phase is the middle of the sleep.  Returns 0 if the common divisor
    leaves no room beside a window of ``tail_ns``.
    """
    divisor = math.gcd(period_ns, tick_ns)
    if not (period_ns and tick_ns) or divisor < 2 * tail_ns:
        return 0
    lead = tail_ns - _IN_WINDOW_NS
    if lead < _TICK_TAKES_NS:
        lead = (divisor + tail_ns) // 2
    return (lead - now_ns) % divisor


def tail_for(late: list[int], period_ns: int | None = None) -> int:
    """Return the busy-wait window [ns] for sleeps that ended ``late`` [ns]; see ``calibrate``."""
    nearly_all = sorted(late)[math.ceil(0.99 * len(late)) - 1]
    return min(max(nearly_all * 2, MIN_SPIN_NS), _longest_tail(period_ns))


def _longest_tail(period_ns: int | None) -> int:
    return MAX_SPIN_NS if period_ns is None else min(MAX_SPIN_NS, period_ns // MAX_SPIN_SHARE)
