"""Execution times of the steps of C code, on the host or on a board.

These times are observations.  A later step can take longer than the longest observed step.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hitl.building.build import PLAIN
from hitl.controllers.protocols import kind_of_build
from rtsim.core.tag import Period
from rtsim.record.markup import duration

STEP, EXCHANGE = "execution time per step", "time of an exchange"
HOST, TARGET = "host time", "target clock"
"""The clock that measured the times: the clock of this machine or of the board."""
MODELLED = "modelled by execution, firmware and wire time"
"""The clock of exchanges in real time: their times are modelled, not measured."""
LABEL = f"{STEP}, {HOST}"
FEWEST_FOR_P99 = 100


def p99(values: NDArray[Any]) -> Any:
    """Return the 99th percentile of sorted ``values`` (k,): at most 1 % of them are greater."""
    return values[math.ceil(0.99 * len(values)) - 1]


@dataclass(frozen=True)
class Execution:
    """Statistics of the durations of the steps of one run, in ns of ``clock``."""

    steps: int
    min: int
    mean: float
    p99: int | None
    """The 99th percentile; ``None`` for fewer than 100 steps."""
    max: int
    """The longest observed time."""
    max_step: int
    """Index of the first step with the longest time."""
    period_ns: float | None
    took_ns: NDArray[np.int64]
    what: str = STEP
    clock: str = HOST

    @classmethod
    def of(
        cls,
        took_ns: Sequence[int] | NDArray[np.int64],
        period: Period | None = None,
        *,
        what: str = STEP,
        clock: str = HOST,
    ) -> Execution | None:
        """Return the statistics of the durations ``took_ns`` (k,); ``None`` if there are none."""
        took = np.array(took_ns, np.int64)
        if not len(took):
            return None
        return cls(
            steps=len(took),
            min=int(took.min()),
            mean=float(took.mean()),
            p99=int(p99(np.sort(took))) if len(took) >= FEWEST_FOR_P99 else None,
            max=int(took.max()),
            max_step=int(took.argmax()),
            period_ns=None if period is None else float(period.ns),
            took_ns=took,
            what=what,
            clock=clock,
        )

    @property
    def label(self) -> str:
        """Return a text that says what was measured and by which clock."""
        return f"{self.what}, {self.clock}"

    @property
    def share(self) -> float | None:
        """The longest step as a share of the period; ``None`` if the period is not known."""
        return None if self.period_ns is None else self.max / self.period_ns

    @property
    def in_words(self) -> str:
        """A sentence on the times: min, mean, p99, maximum observed, share of the period."""
        p99 = "" if self.p99 is None else f", p99 {duration(self.p99)}"
        share = "" if self.share is None else f", {100 * self.share:.3g} % of the period"
        return (
            f"{self.label}: min {duration(self.min)}, mean {duration(self.mean)}{p99}, "
            f"maximum observed {duration(self.max)} at step {self.max_step}{share}"
        )

    def cells(self) -> tuple[str, ...]:
        """Return the texts of a table row: min, mean, p99, max, step of max, share of period."""
        return (
            duration(self.min),
            duration(self.mean),
            "" if self.p99 is None else duration(self.p99),
            duration(self.max),
            str(self.max_step),
            "" if self.share is None else f"{100 * self.share:.3g} %",
        )

    def to_json(self) -> dict[str, object]:
        """Return plain data; ``clock`` is ``host``, ``target`` or ``modelled`` (exchanges only)."""
        return {
            "clock": self.clock.partition(" ")[0],
            "steps": self.steps,
            "min_ns": self.min,
            "mean_ns": self.mean,
            "p99_ns": self.p99,
            "max_observed_ns": self.max,
            "max_step": self.max_step,
            "share_of_period": self.share,
        }


def timed(controller: object) -> bool:
    """Return False for an instrumented build (sanitize, coverage), whose times do not count."""
    return kind_of_build(controller) == PLAIN


def clock_of(controller: object) -> str:
    """Return which clock measures the steps of a controller: the board's or the host's."""
    return TARGET if on_board(controller) else HOST


def on_board(controller: object) -> bool:
    """Return True if the controller runs on a board, where a step is timed in processor cycles."""
    return hasattr(controller, "cycles")
