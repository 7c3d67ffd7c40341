"""Measure the rates that this machine can sustain, for ``rtsim doctor``.

The machine sustains a rate if 99.9 % of the wake-ups are late by at most a tenth of the period.
With fewer than 1000 wakes, the criterion is 99 %. The verdict states which criterion was used.
Fewer than 100 wake-ups are too few for a verdict.

Only wakes are measured.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import numpy as np
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from rtsim.core.clock import Clock, WallClock, tail_for
from rtsim.core.errors import ScenarioError
from rtsim.timing.certificate import show_ns
from rtsim.timing.scheduling import (
    UNKNOWN,
    Granted,
    Machine,
    SchedulingRequest,
    examine_machine,
    probe,
    request,
)
from rtsim.timing.statistics import Spread, Summary

RATES_HZ = (100, 1000)
ENOUGH = 1000
"""Number of wakes needed to detect one late wake in 1000."""
FEWEST = 100
"""Number of wakes needed to decide whether the machine sustains a rate."""
SHARE = 10
"""The allowed lateness of a wake is the period divided by this number."""
BUSY = 0.25
"""Load average per usable CPU above which other processes affect the measurement."""
_PIECE_S = 0.25  # progress is shown between pieces, not within a piece

Progress = Callable[[float, str], object]
MakeClock = Callable[[int], Clock]


@dataclass(frozen=True)
class Measurement:
    """Wake-up latency measured at one rate. ``spin_ns`` is 0 for a plain sleep."""

    rate_hz: int
    spin_ns: int
    lateness: Summary

    @property
    def allowed_ns(self) -> int:
        return 10**9 // self.rate_hz // SHARE

    @property
    def judged(self) -> tuple[str, int | None]:
        s = self.lateness
        if s.p99_9 is not None:
            return f"999 in 1000 of {s.count} wakes", s.p99_9
        if s.p99 is not None:
            return f"99 in 100 of {s.count} wakes", s.p99
        return f"all {s.count} wakes", s.max

    @property
    def judged_ns(self) -> int:
        late = self.judged[1]
        return 2**63 - 1 if late is None else late

    @property
    def enough(self) -> bool:
        return self.lateness.count >= FEWEST

    @property
    def late(self) -> bool:
        """Return whether the machine does not sustain the rate."""
        return self.enough and self.judged_ns > self.allowed_ns

    @property
    def held(self) -> bool:
        """Return whether the machine sustains the rate."""
        return self.enough and self.judged_ns <= self.allowed_ns

    @property
    def finding(self) -> str:
        """The result, such as ``the latest of 200 wakes was 4.08 ms late; 1 ms is allowed``."""
        s, (which, late) = self.lateness, self.judged
        allowed = f"{show_ns(self.allowed_ns)} is allowed"
        if late == s.max:
            return f"the latest of {s.count} wakes was {show_ns(late)} late; {allowed}"
        text = f"{which} were at most {show_ns(late)} late; {allowed}"
        beyond = s.max is not None and s.max > self.allowed_ns
        return text + (
            f" (the latest was {show_ns(s.max)} late)" if beyond and not self.late else ""
        )


@dataclass(frozen=True)
class Diagnosis:
    """The result of :func:`examine`.

    ``scheduling`` is the scheduling during the measurement. ``possible`` is the scheduling that
    this machine permits for ``--realtime``. ``load`` is the load average of the minute before, or
    ``None``. ``seconds`` is the duration of the whole measurement, s.
    """

    machine: Machine
    scheduling: Granted
    possible: Granted
    measurements: tuple[Measurement, ...]
    seconds: float
    load: float | None = None

    @property
    def realtime(self) -> bool:
        """True if the measurement used real-time scheduling."""
        return any(i.name == "class" and i.asked != "no" for i in self.scheduling.items)

    @property
    def busy(self) -> bool:
        """True if other processes used the CPUs before the measurement."""
        return self.load is not None and self.load >= BUSY * self.machine.cpus_usable

    @property
    def spun(self) -> tuple[Measurement, ...]:
        return tuple(m for m in self.measurements if m.spin_ns)

    @property
    def holds_hz(self) -> int | None:
        """Greatest rate (Hz) that the machine sustained with busy-waiting, or ``None``."""
        return max((m.rate_hz for m in self.spun if m.held), default=None)

    @property
    def estimate_hz(self) -> int:
        """Estimated greatest rate (Hz) that this machine can sustain.

        The estimate is at most the greatest measured rate. The estimate is rounded down to 1, 2 or
        5 times a power of ten.
        """
        fastest = max(self.spun, key=lambda m: m.rate_hz)
        allowed = 10**9 / SHARE / max(1, fastest.judged_ns)
        return max(min(_round_down(allowed), fastest.rate_hz), self.holds_hz or 0)

    @property
    def _subject(self) -> str:
        return "With --realtime this machine" if self.realtime else "This machine"

    @property
    def decided(self) -> bool:
        """Return whether the measurement suffices for a verdict on a rate."""
        return any(m.held or m.late for m in self.spun)

    @property
    def verdict(self) -> str:
        if not self.decided:
            return self._undecided
        if self.holds_hz is None:
            slowest = min((m for m in self.spun if m.late), key=lambda m: m.rate_hz)
            return (
                f"{self._subject} does not hold {slowest.rate_hz} Hz: {slowest.finding}. By the "
                f"same measure it would hold about {self.estimate_hz} Hz (not measured)."
            )
        best = max((m for m in self.spun if m.held), key=lambda m: m.rate_hz)
        text = f"{self._subject} holds {best.rate_hz} Hz: {best.finding}."
        if self.estimate_hz > best.rate_hz:
            text += (
                f" It does not hold {max(RATES_HZ)} Hz; "
                f"it might hold about {self.estimate_hz} Hz (not measured)."
            )
        elif best.rate_hz < max(RATES_HZ):
            text += f" It does not hold {max(RATES_HZ)} Hz."
        return text

    @property
    def _undecided(self) -> str:
        wakes = " and ".join(f"{m.lateness.count} wakes at {m.rate_hz} Hz" for m in self.spun)
        needed = math.ceil(2 * len(RATES_HZ) * FEWEST / min(RATES_HZ))
        return (
            f"It could not be decided which rate this machine holds: {wakes} are too few; at "
            f"least {FEWEST} are needed. Type rtsim doctor --seconds {needed} or more."
        )

    @property
    def advice(self) -> tuple[str, ...]:
        """Advice for sustaining higher rates. Each text contains a command to type."""
        m = self.machine
        lines = [*self._of_load(), *self._of_samples()]
        lines += [f"{i.name} ({i.asked}): {i.reason}. {i.remedy}" for i in self.possible.refused]
        if not self.possible.refused:
            lines.append(
                "this machine grants all that --realtime requests: type rtsim run … --realtime"
            )
        if not self.realtime:
            lines.append("to measure with --realtime: type rtsim doctor --realtime")
        if m.governor not in (UNKNOWN, "performance"):
            lines.append(
                f"CPU governor is {m.governor}: type sudo cpupower frequency-set -g performance"
            )
        if m.virtual:
            lines.append("this is a virtual machine: its host may take the CPU away at any time")
        if m.cpus_usable < 2:
            lines.append("only one CPU is usable: the recorder and the loop share it")
        return tuple(lines)

    def _of_load(self) -> list[str]:
        if not self.busy:
            return []
        return [
            f"other processes load this machine (load average {self.load:.2f} before the "
            f"measurement, {self.machine.cpus_usable} usable CPUs) and affect the result: "
            f"end them and measure again{'' if self.realtime else ', or measure with --realtime'}"
        ]

    def _of_samples(self) -> list[str]:
        few = [m for m in self.spun if m.lateness.p99_9 is None]
        if not few:
            return []
        slowest = min(few, key=lambda m: m.rate_hz)
        needed = math.ceil(2 * len(RATES_HZ) * ENOUGH / slowest.rate_hz)
        return [
            f"{slowest.lateness.count} wakes at {slowest.rate_hz} Hz in {self.seconds:g} s are too "
            "few to show one late wake in 1000: to judge by 999 wakes in 1000, type "
            f"rtsim doctor --seconds {needed}"
        ]

    def to_json(self) -> dict[str, Any]:
        return {
            "machine": asdict(self.machine),
            "scheduling": self.scheduling.to_json(),
            "possible": self.possible.to_json(),
            "measurements": [
                asdict(m) | {"allowed_ns": m.allowed_ns, "judged_ns": m.judged_ns, "held": m.held}
                for m in self.measurements
            ],
            "decided": self.decided,
            "holds_hz": self.holds_hz,
            "estimate_hz": self.estimate_hz,
            "seconds": self.seconds,
            "load_average": self.load,
            "verdict": self.verdict,
            "advice": list(self.advice),
        }

    def table(self) -> RenderableType:
        m = self.machine
        table = Table(title="Wake lateness", title_justify="left")
        for heading in ("rate", "spin", "median", "p99", "p99.9", "max", "allowed", "held"):
            table.add_column(heading, justify="right", no_wrap=True)
        for row in self.measurements:
            s = row.lateness
            table.add_row(
                f"{row.rate_hz} Hz",
                show_ns(row.spin_ns) if row.spin_ns else "none",
                *map(show_ns, (s.median, s.p99, s.p99_9, s.max, row.allowed_ns)),
                "yes" if row.held else "no" if row.late else "too few wakes",
            )
        return Group(
            Text(
                f"{m.processor}, {m.cpus} CPUs ({m.cpus_usable} usable), governor {m.governor}; "
                f"{m.system} {m.kernel}, {m.preemption}; {m.python}"
            ),
            table,
            self.scheduling.table("Measured with --realtime")
            if self.realtime
            else self.possible.table("What --realtime would be granted"),
            Text(self.verdict, style="bold"),
            Text(
                "load average: unknown on this system"
                if self.load is None
                else f"load average in the minute before: {self.load:.2f} "
                f"on {m.cpus_usable} usable CPUs"
            ),
            *(Text(f"- {line}") for line in self.advice),
        )


def examine(
    seconds: float = 8.0,
    progress: Progress | None = None,
    *,
    make_clock: MakeClock | None = None,
    asked: SchedulingRequest | None = None,
) -> Diagnosis:
    """Measure the wake-up latency of this machine.

    The rates 100 Hz and 1 kHz are measured, with sleeping and with busy-waiting. Each of the four
    measurements takes a quarter of the time.

    Args:
        seconds: Duration of the whole measurement, 0.1 to 3600 s.
        progress: Called repeatedly as ``progress(done, what)``, with ``done`` from 0 to 1.
        make_clock: Called as ``make_clock(spin_ns)``; a test can return another clock.
        asked: Scheduling for the measurement; by default that of a plain paced run.

    Raises:
        ScenarioError: If ``seconds`` is invalid.
    """
    if not (math.isfinite(seconds) and 0.1 <= seconds <= 3600.0):
        raise ScenarioError(
            f"a measurement of {seconds} s is not possible; give 0.1 to 3600 s, such as 8"
        )
    tell = progress or (lambda _done, _what: None)
    make = make_clock or (lambda spin_ns: WallClock(spin_ns=spin_ns))
    load = _load_average()
    possible = probe()
    rows: list[Measurement] = []
    total = 2 * len(RATES_HZ)
    with request(asked) as granted:
        for rate_hz in RATES_HZ:
            tail = 0
            for _ in range(2):
                what = f"{rate_hz} Hz, " + (f"spinning {show_ns(tail)}" if tail else "plain sleep")
                part = partial(_tell_part, tell, len(rows) / total, 1 / total, what)
                late = _measure(make(tail), rate_hz, seconds / total, part)
                rows.append(Measurement(rate_hz, tail, _summarise(late)))
                tail = tail_for(late, 10**9 // rate_hz)
    tell(1.0, "done")
    return Diagnosis(examine_machine(), granted, possible, tuple(rows), seconds, load)


def _load_average() -> float | None:
    try:
        return os.getloadavg()[0]
    except (OSError, AttributeError):  # Windows raises AttributeError
        return None


def _tell_part(tell: Progress, start: float, share: float, what: str, part: float) -> None:
    tell(start + share * part, what)


def _measure(
    clock: Clock, rate_hz: int, seconds: float, tell: Callable[[float], object]
) -> list[int]:
    period, count = 10**9 // rate_hz, max(2, int(seconds * rate_hz))
    piece = max(1, int(_PIECE_S * rate_hz))
    late: list[int] = []
    for k in range(count):
        if k % piece == 0:
            tell(k / count)
            clock.anchor(k * period)
        due = (k + 1) * period
        clock.wait_until(due)
        late.append(clock.now() - clock.wall(due))
    return late


def _summarise(late: list[int]) -> Summary:
    spread = Spread()
    spread.add(np.array(late, dtype=np.int64))
    return spread.summary()


def _round_down(rate: float) -> int:
    if rate < 1.0:
        return 1
    power = 10 ** math.floor(math.log10(rate))
    return int(next(step * power for step in (5, 2, 1) if step * power <= rate * (1 + 1e-12)))
