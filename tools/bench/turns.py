"""Opponents measured in turns, so that whatever else the machine does falls on all of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike

Contenders = Mapping[str, Callable[[], float]]
"""By name: does its work once and returns its figure."""


def in_turns(contenders: Contenders, rounds: int) -> dict[str, list[float]]:
    """``rounds`` figures of each, each round in the reverse order of the one before."""
    out: dict[str, list[float]] = {name: [] for name in contenders}
    order = list(contenders)
    for contender in contenders.values():
        contender()  # caches, branch predictors and lazy imports are not what is measured
    for _ in range(rounds):
        for name in order:
            out[name].append(contenders[name]())
        order.reverse()
    return out


def spread(samples: ArrayLike, unit: str = "ns") -> dict[str, float | None]:
    """Median and tail; a percentile only where at least one sample lies beyond it."""
    values = np.asarray(samples, dtype=np.float64)
    if values.size == 0:
        return {}
    out: dict[str, float | None] = {f"median [{unit}]": float(np.median(values))}
    for name, p in (("p99", 99.0), ("p99.9", 99.9)):
        known = values.size * (100.0 - p) >= 100.0 - 1e-9
        out[f"{name} [{unit}]"] = float(np.percentile(values, p)) if known else None
    out[f"max [{unit}]"] = float(values.max())
    return out


def median_ratio(ours: Sequence[float], theirs: Sequence[float]) -> float:
    """Median over the rounds of the ratio within a round."""
    return float(np.median(np.asarray(ours) / np.asarray(theirs)))
