"""``rtsim doctor``: what rate this machine can hold, measured, and how to be granted more.

The criterion: a rate is held if 999 wakes in 1000 (where there were fewer than 1000, all of them)
come later than due by at most a tenth of the period.  It is about wakes only; what a model's
computing leaves of the period is in the timing certificate of its run.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import numpy as np
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from rtsim.clock import Clock, WallClock, tail_for
from rtsim.errors import ScenarioError
from rtsim.timing.certificate import show_ns
from rtsim.timing.machine import UNKNOWN, Machine, examine_machine
from rtsim.timing.scheduling import Granted, Request, probe, request
from rtsim.timing.statistics import Spread, Summary

RATES_HZ = (100, 1000)
SHARE = 10
"""A wake may be late by one tenth of the period."""
_PIECE_S = 0.25  # progress is shown between pieces, never within one

Progress = Callable[[float, str], object]
MakeClock = Callable[[int], Clock]


@dataclass(frozen=True)
class Measurement:
    """Wake lateness at one rate; ``spin_ns`` is 0 for a plain sleep."""

    rate_hz: int
    spin_ns: int
    lateness: Summary

    @property
    def allowed_ns(self) -> int:
        return 10**9 // self.rate_hz // SHARE

    @property
    def judged_ns(self) -> int:
        """p99.9, or where the wakes are too few for it the latest, which is no less strict."""
        judged = self.lateness.p99_9 if self.lateness.p99_9 is not None else self.lateness.max
        return 2**63 - 1 if judged is None else judged

    @property
    def held(self) -> bool:
        return self.judged_ns <= self.allowed_ns


@dataclass(frozen=True)
class Diagnosis:
    """What :func:`examine` found.  ``scheduling`` is what the measurement ran under, ``possible``
    what ``--realtime`` would be granted."""

    machine: Machine
    scheduling: Granted
    possible: Granted
    measurements: tuple[Measurement, ...]

    @property
    def spun(self) -> tuple[Measurement, ...]:
        return tuple(m for m in self.measurements if m.spin_ns)

    @property
    def holds_hz(self) -> int | None:
        """The greatest rate that was measured and held, spinning; None if none was."""
        return max((m.rate_hz for m in self.spun if m.held), default=None)

    @property
    def estimate_hz(self) -> int:
        """The rate (1, 2 or 5 times a power of ten) that the lateness at the greatest measured rate
        would allow; no more than that rate, because nothing faster was measured."""
        fastest = max(self.spun, key=lambda m: m.rate_hz)
        allowed = 10**9 / SHARE / max(1, fastest.judged_ns)
        return max(min(_round_down(allowed), fastest.rate_hz), self.holds_hz or 0)

    @property
    def verdict(self) -> str:
        """One plain sentence."""
        if self.holds_hz is None:
            slowest = min(self.spun, key=lambda m: m.rate_hz)
            return (
                f"This machine does not hold {slowest.rate_hz} Hz: {_finding(slowest)}. By the "
                f"same measure it would hold about {self.estimate_hz} Hz (not measured)."
            )
        best = max((m for m in self.spun if m.held), key=lambda m: m.rate_hz)
        text = f"This machine holds {best.rate_hz} Hz: {_finding(best)}."
        if self.estimate_hz > best.rate_hz:
            text += (
                f" {max(RATES_HZ)} Hz it does not hold; "
                f"about {self.estimate_hz} Hz it might (not measured)."
            )
        elif best.rate_hz < max(RATES_HZ):
            text += f" {max(RATES_HZ)} Hz it does not hold."
        return text

    @property
    def advice(self) -> tuple[str, ...]:
        """What would make it better, with what to type."""
        m = self.machine
        lines = [f"{i.name} ({i.asked}): {i.reason}. {i.remedy}" for i in self.possible.refused]
        if not self.possible.refused:
            lines.append("--realtime would be granted in full: type rtsim run … --realtime")
        if m.governor not in (UNKNOWN, "performance"):
            lines.append(
                f"CPU governor is {m.governor}: type sudo cpupower frequency-set -g performance"
            )
        if m.virtual:
            lines.append("a virtual machine: its host may take the CPU away at any time")
        if m.cpus_usable < 2:
            lines.append("one usable CPU: the recorder and the loop share it")
        return tuple(lines)

    def to_json(self) -> dict[str, Any]:
        return {
            "machine": asdict(self.machine),
            "scheduling": self.scheduling.to_json(),
            "possible": self.possible.to_json(),
            "measurements": [
                asdict(m) | {"allowed_ns": m.allowed_ns, "judged_ns": m.judged_ns, "held": m.held}
                for m in self.measurements
            ],
            "holds_hz": self.holds_hz,
            "estimate_hz": self.estimate_hz,
            "verdict": self.verdict,
            "advice": list(self.advice),
        }

    def table(self) -> RenderableType:
        """For a terminal."""
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
                "yes" if row.held else "no",
            )
        return Group(
            Text(
                f"{m.processor}, {m.cpus} CPUs ({m.cpus_usable} usable), governor {m.governor}; "
                f"{m.system} {m.kernel}, {m.preemption}; {m.python}"
            ),
            table,
            self.possible.table("What --realtime would be granted"),
            Text(self.verdict, style="bold"),
            *(Text(f"- {line}") for line in self.advice),
        )


def examine(
    seconds: float = 8.0,
    progress: Progress | None = None,
    *,
    make_clock: MakeClock | None = None,
    asked: Request | None = None,
) -> Diagnosis:
    """Measure this machine for about ``seconds``, a quarter each for 100 Hz and 1 kHz, with a plain
    sleep and with a tuned spin tail.

    ``progress(done, what)`` is called between pieces, ``done`` from 0 to 1.  ``asked`` is the
    scheduling to measure under (default: what a plain paced run asks for).  ``make_clock(spin_ns)``
    lets tests measure another clock.
    """
    if not (math.isfinite(seconds) and 0.1 <= seconds <= 3600.0):
        raise ScenarioError(f"{seconds} s of measuring; expected 0.1 to 3600, such as 8")
    tell = progress or (lambda _done, _what: None)
    make = make_clock or (lambda spin_ns: WallClock(spin_ns=spin_ns))
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
    return Diagnosis(examine_machine(), granted, possible, tuple(rows))


def _tell_part(tell: Progress, start: float, share: float, what: str, part: float) -> None:
    tell(start + share * part, what)


def _measure(
    clock: Clock, rate_hz: int, seconds: float, tell: Callable[[float], object]
) -> list[int]:
    """The lateness [ns] of the wakes of ``seconds`` at ``rate_hz``."""
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
    """To 1, 2 or 5 times a power of ten; at least 1 Hz."""
    if rate < 1.0:
        return 1
    power = 10 ** math.floor(math.log10(rate))
    return int(next(step * power for step in (5, 2, 1) if step * power <= rate * (1 + 1e-12)))


def _finding(m: Measurement) -> str:
    few = m.lateness.p99_9 is None
    share = f"all {m.lateness.count} wakes" if few else "999 wakes in 1000"
    return (
        f"{share} came within {show_ns(m.judged_ns)} of when they were due "
        f"(allowed: a tenth of the period, {show_ns(m.allowed_ns)})"
    )
