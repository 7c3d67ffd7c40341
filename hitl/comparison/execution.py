"""What a step of the C took, on the host: observed, so never a bound of what it can take."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rtsim.record.markup import duration
from rtsim.tag import Period

LABEL = "execution time per step, host time"
"""Of this machine's processor: the target's is another one."""
_FEWEST_FOR_P99 = 100


@dataclass(frozen=True)
class Execution:
    """Execution times of the steps of one run [ns of the host's monotonic clock]."""

    steps: int
    min: int
    mean: float
    p99: int | None
    """``None`` below 100 steps: none of them lies beyond it."""
    max: int
    """The maximum observed."""
    max_step: int
    """The first step that took as long."""
    period_ns: float | None
    took_ns: NDArray[np.int64]

    @classmethod
    def of(
        cls, took_ns: Sequence[int] | NDArray[np.int64], period: Period | None = None
    ) -> Execution | None:
        """From the times of all steps (k,); ``None`` where there were none."""
        took = np.array(took_ns, np.int64)
        if not len(took):
            return None
        rank = math.ceil(0.99 * len(took)) - 1
        p99 = int(np.sort(took)[rank]) if len(took) >= _FEWEST_FOR_P99 else None
        return cls(
            steps=len(took),
            min=int(took.min()),
            mean=float(took.mean()),
            p99=p99,
            max=int(took.max()),
            max_step=int(took.argmax()),
            period_ns=None if period is None else float(period.ns),
            took_ns=took,
        )

    @property
    def share(self) -> float | None:
        """Of the period, by the longest step; ``None`` where the period is not known."""
        return None if self.period_ns is None else self.max / self.period_ns

    @property
    def in_words(self) -> str:
        p99 = "" if self.p99 is None else f", p99 {duration(self.p99)}"
        share = "" if self.share is None else f", {100 * self.share:.3g} % of the period"
        return (
            f"{LABEL}: min {duration(self.min)}, mean {duration(self.mean)}{p99}, maximum observed "
            f"{duration(self.max)} at step {self.max_step}{share}"
        )

    def cells(self) -> tuple[str, ...]:
        """Text: min, mean, p99, max, its step, share of the period."""
        return (
            duration(self.min),
            duration(self.mean),
            "" if self.p99 is None else duration(self.p99),
            duration(self.max),
            str(self.max_step),
            "" if self.share is None else f"{100 * self.share:.3g} %",
        )

    def to_json(self) -> dict[str, object]:
        return {
            "clock": "host",
            "steps": self.steps,
            "min_ns": self.min,
            "mean_ns": self.mean,
            "p99_ns": self.p99,
            "max_observed_ns": self.max,
            "max_step": self.max_step,
            "share_of_period": self.share,
        }
