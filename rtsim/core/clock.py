"""Clocks that convert between simulated time and wall-clock time, and wait for a simulated time.

:class:`VirtualClock` never waits.  :class:`WallClock` sleeps until shortly before each deadline and
busy-waits for the rest.  :mod:`rtsim.testing` contains a third clock, for tests, and
``check_clock``, which checks any clock.  Only this module reads the wall clock
(``CLOCK_MONOTONIC``).  Other modules receive a :class:`Clock` or measure durations with
:func:`stopwatch`.

Simulated time and the time of a clock must not be mixed. *Simulated* time starts at 0 ns. The
clock's *own* time (``now()``, ``wall(ns)``) starts at an arbitrary value. A ``WallClock`` adds a
large offset to ``CLOCK_MONOTONIC``, so that mixed-up times are obvious.
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

# Conversion between simulated time and the own time of a clock.

SLOWEST, FASTEST = Fraction(1, 10**6), Fraction(10**9)
"""Limits of the rate.

At the lowest rate, 1 h of simulated time takes 114 years.  Longer times in ns do not fit 64 bits.
"""


def exact_rate(rate: float | Fraction) -> Fraction:
    """Return ``rate`` as an exact fraction; 0.1 gives one tenth.

    Raises :class:`ScenarioError` if ``rate`` is not a finite positive number or is out of range.
    """
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
    """Exact conversion between simulated time and the time of a clock.

    Every clock that waits uses this class.  Integers and a rational rate keep the error of
    :meth:`wall` below 1 ns, however long the run.  :meth:`wall` rounds up, so that no deadline is
    early.
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
        """Simulated time (ns), clock time (ns), and numerator and denominator of the rate."""
        return self._simulated, self._own, self._numerator, self._denominator

    def wall(self, ns: int) -> int:
        return self._own - (self._simulated - ns) * self._denominator // self._numerator

    def simulated(self, own: int) -> int:
        return self._simulated + (own - self._own) * self._numerator // self._denominator


# Addresses and numbers with which compiled code can wait on the wall clock.

_NAMES = ("clock_gettime", "clock_nanosleep", "pread", "recv")
MONOTONIC = 1
"""Number of ``CLOCK_MONOTONIC`` on Linux, the clock of :func:`time.monotonic_ns`."""


@dataclass(frozen=True)
class Calls:
    """Addresses of C functions that compiled code calls.  A test clock can replace them."""

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
    """Parameters with which compiled code waits on a clock. All times are in ns.

    The simulated time ``s`` is due when ``CLOCK_MONOTONIC`` shows
    ``own - (simulated - s) * denominator / numerator``. ``offset`` is the clock's own time minus
    ``CLOCK_MONOTONIC``.
    """

    calls: Calls
    offset: int
    simulated: int
    own: int
    numerator: int
    denominator: int
    spin: int
    """Length of the busy-wait window: a sleep ends this long before the due time."""
    least_spin: int
    most_spin: int
    bound: int
    """Upper limit of the busy-wait window.  Late sleeps lengthen the window up to this limit."""


@cache
def system_calls() -> Calls | None:
    """Return the addresses of the functions in this system's C library.

    Returns None on systems other than Linux with 64-bit times.
    """
    if sys.platform != "linux" or ctypes.sizeof(ctypes.c_long) != 8:
        return None
    library = ctypes.CDLL(None)
    found = (ctypes.cast(getattr(library, name), ctypes.c_void_p).value for name in _NAMES)
    return Calls(*(address or 0 for address in found))


if sys.platform == "win32":  # on Windows, time.monotonic steps by 15.6 ms before Python 3.13
    stopwatch = time.perf_counter_ns
else:
    stopwatch = time.monotonic_ns
"""Read a clock for durations [ns].  Only differences between two readings have a meaning."""

processor_time = time.thread_time_ns
"""Read the processor time of this thread [ns].  Only differences have a meaning."""

civil = time.time_ns
"""Read the date as nanoseconds since 1970, UTC.  The value can jump, so use it for dates only."""


def date_text(ns: int) -> str:
    """Return a date as local time, such as ``2026-03-01 14:05``.

    ``ns`` are nanoseconds since 1970, UTC, as of :func:`civil` or of a file.
    """
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(ns / 1e9))


_loaded_ns = stopwatch()


def age_ns() -> int:
    """Return the time since this process started [ns], with a resolution of 10 ms.

    On systems that do not report the start of a process, the result is the time since the import of
    this module.
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
"""Limit of a tuned busy-wait window: 1/4 of the loop's period on the wall clock.

A second limit is :data:`MAX_SPIN_NS`.  Busy-waiting thus uses at most a quarter of one core, and at
200 Hz at most a tenth.  If a sleep ends too late even for the longest window, the timing
certificate reports a late wake-up.
"""

_LONGEST_SLEEP_S = 3600.0  # the C library overflows in longer sleeps, so a long wait uses several
_FAR_NS = 3_600_000_000_000
_WARM_UP_NS = 10_000  # ``warm_up`` is not called if less time is left before the deadline
_SPARE_NS = 20_000  # after a late sleep, the window becomes longer by the lateness plus this
_COARSE = 6  # CLOCK_MONOTONIC_COARSE, which Linux advances at each scheduler tick
_IN_WINDOW_NS = 30_000  # best time of a scheduler tick, after the start of the window
_TICK_TAKES_NS = 50_000  # longest delay of a thread by a scheduler tick, on a virtual machine
_EASE_NS = 20  # each sleep that ends in time shortens the window by this


class Wake:
    """An event that ends a wait early; any thread and any signal handler may call ``set``.

    The event stays set until the waiting thread clears it. The waiting thread must clear the
    event before it reads its inputs, so that it misses no input. A subclass may use a file
    descriptor, because clocks call only ``is_set`` and ``wait``.
    """

    def __init__(self) -> None:
        self._gate = threading.Lock()  # unlocked if the event is set
        self._gate.acquire()

    def set(self) -> None:
        """End the current wait; without a wait in progress, end the next wait at once."""
        with contextlib.suppress(RuntimeError):  # the event was already set
            self._gate.release()

    def clear(self) -> None:
        """Clear the event.  Only the thread that waits may call this method."""
        self._gate.acquire(blocking=False)

    def is_set(self) -> bool:
        return not self._gate.locked()

    def wait(self, seconds: float) -> bool:
        """Wait at most ``seconds`` for the event; return True if it is set."""
        if not self._gate.acquire(timeout=max(0.0, seconds)):
            return False
        self.set()
        return True


class Clock(Protocol):
    """Protocol of clocks, which wait for a simulated time.

    ``check_clock`` in :mod:`rtsim.testing` checks the full contract.
    """

    paced: bool
    """True if the clock waits.  If False, no tag is ever late."""

    def now(self) -> int:
        """Return the clock's own time [ns], which never decreases."""
        ...

    def wall(self, ns: int) -> int:
        """Return the clock time [ns] at which the simulated time ``ns`` is due."""
        ...

    def simulated(self, own: int) -> int:
        """Return the simulated time [ns] that is due at the clock time ``own`` [ns]."""
        ...

    def anchor(self, ns: int, own: int | None = None) -> None:
        """Set the time at which the simulated time ``ns`` is due: now, or at ``own``.

        A run sets the reference point at its start, after a pause, and to skip lost time.
        """
        ...

    def set_rate(self, rate: float | Fraction | None, ns: int, own: int | None = None) -> None:
        """Set the rate (simulated seconds per wall-clock second) from the simulated time ``ns`` on.

        ``None`` means as fast as possible.  ``ns`` and ``own`` set the reference point as in
        :meth:`anchor`.
        """
        ...

    def wait_until(self, ns: int, wake: Wake | None = None) -> bool:
        """Wait until the simulated time ``ns`` is due, and return True.

        If another thread sets ``wake`` before that time, return False at once.
        """
        ...

    def spend(self, ns: int) -> None:
        """Keep the processor busy for ``ns``, measured by this clock.

        A clock that never waits does nothing.
        """
        ...


class VirtualClock:
    """A clock that never waits, for runs as fast as possible.

    The time of the clock is the latest simulated time for which a caller waited.
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
        """Do nothing, because this clock never waits."""


class WallClock:
    """A clock that waits until ``CLOCK_MONOTONIC`` reaches a deadline.

    The clock sleeps first and busy-waits for the last ``spin_ns``; with ``spin_ns=0``, it only
    sleeps. ``rate`` is in simulated seconds per second. With ``rate=None`` the clock never waits
    until :meth:`set_rate` sets a rate. :meth:`calibrate` measures how late sleeps end on this
    machine.
    """

    def __init__(self, rate: float | Fraction | None = 1.0, spin_ns: int = DEFAULT_SPIN_NS) -> None:
        if spin_ns < 0:
            raise ScenarioError(
                f"the busy-wait window spin_ns = {spin_ns} ns is negative; give 0 ns or more"
            )
        self.spin_ns = self.most_spin_ns = spin_ns
        """Present length of the busy-wait window, and its greatest length so far [ns]."""
        self._least_spin_ns = self._bound_ns = self._tuned_spin_ns = spin_ns
        self.offset_ns = random.SystemRandom().randrange(2**60, 2**61)
        """Own time minus ``CLOCK_MONOTONIC`` [ns], to convert time stamps of another process."""
        self.warm_up: Callable[[int], object] | None = None
        """Function that loads code into the CPU's caches, called between sleep and busy-wait.

        The argument is the time until the deadline [ns].
        """
        self.paced = rate is not None
        self.begun_ns = 0
        """Reading of :func:`stopwatch` [ns] when simulated time began to advance."""
        self._period_ns: int | None = None  # period of the loop [simulated ns], if known
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
        """Set the reference point; without ``own``, ``ns`` is due within one tick."""
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
        """Return the parameters with which compiled code waits on this clock.

        The result is ``None`` if compiled code cannot wait on this system, or if the clock does not
        wait.
        """
        calls = system_calls()
        if calls is None or not self.paced:
            return None
        simulated, own, numerator, denominator = self._line.words
        return Wait(
            calls, self.offset_ns, simulated, own - self.offset_ns, numerator, denominator,
            self.spin_ns, self._least_spin_ns, self.most_spin_ns, self._bound_ns,
        )  # fmt: skip

    def returned(self, spin_ns: int, most_spin_ns: int) -> None:
        """Store the busy-wait times [ns] that compiled code has determined."""
        self.spin_ns, self.most_spin_ns = spin_ns, most_spin_ns

    def spend(self, ns: int) -> None:
        if not self.paced:
            return
        over = self.now() + ns
        while self.now() < over:
            pass

    def _retune(self, left_ns: int) -> None:
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
        """Set the length of the busy-wait from the delays of sleeps on this machine.

        The method sleeps ``samples`` times for 1 ms. The busy-wait lasts twice the 99 % quantile of
        the measured delays, but at most a certain share of the period. ``period_ns`` is the
        shortest period of the loop, in simulated ns.

        Real-time scheduling must be selected before the calibration, because it changes the delays.
        During the run, each late sleep makes the busy-wait longer, and each punctual sleep makes it
        slightly shorter.
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
    """Return the period of the system's scheduler ticks [ns], or 0 if unknown."""
    if sys.platform != "linux":
        return 0
    try:
        return round(time.clock_getres(_COARSE) * 1e9)
    except OSError:
        return 0


def until_quiet(now_ns: int, period_ns: int, tail_ns: int, tick_ns: int) -> int:
    """Return the delay [ns] after which scheduler ticks disturb a loop least.

    At a scheduler tick, Linux may interrupt a busy loop and run another thread until the next tick.
    T A tick disturbs a loop least at the start of its busy-wait. If the busy-wait is too short, a
    tick in the middle of the sleep is best.

    ``now_ns`` is the present time and ``tail_ns`` the length of the busy-wait. The result is 0 if
    ticks occur at too many different phases of the loop.
    """
    divisor = math.gcd(period_ns, tick_ns)
    if not (period_ns and tick_ns) or divisor < 2 * tail_ns:
        return 0
    lead = tail_ns - _IN_WINDOW_NS
    if lead < _TICK_TAKES_NS:
        lead = (divisor + tail_ns) // 2
    return (lead - now_ns) % divisor


def tail_for(late: list[int], period_ns: int | None = None) -> int:
    """Return the length of the busy-wait [ns] for sleeps with the delays ``late`` [ns].

    :meth:`WallClock.calibrate` explains the rule.
    """
    nearly_all = sorted(late)[math.ceil(0.99 * len(late)) - 1]
    return min(max(nearly_all * 2, MIN_SPIN_NS), _longest_tail(period_ns))


def _longest_tail(period_ns: int | None) -> int:
    return MAX_SPIN_NS if period_ns is None else min(MAX_SPIN_NS, period_ns // MAX_SPIN_SHARE)
