"""One row of a study's results: what happened to one run."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rtsim.core.signals import Vector
from rtsim.studies.plan import Ordered

OK, NAN, FAILED, ERROR, TIMEOUT, LOST = "ok", "nan", "failed", "error", "timeout", "lost"
STATES = (OK, NAN, FAILED, ERROR, TIMEOUT, LOST)
"""``ok``: the run has all its results.  ``nan``: a result is not a number.  ``failed``: the run
ended at a guard that declares a failure.  ``error``: the run, or the function of a result, raised
an error.  ``timeout``: the run took longer than its limit.  ``lost``: the process of the run
ended."""
DECIDED = (OK, NAN, FAILED)
"""The states of runs that count in pass rates; a failed run misses every requirement."""


def decided(states: NDArray[Any]) -> NDArray[np.bool_]:
    """Return which of the runs (n,) with these states count in pass rates."""
    return np.isin(states.astype(np.str_), DECIDED)


def guard_of(cause: str) -> str:
    """Return the guard, ``component.guard``, from the cause of a failed run."""
    return cause.partition(": ")[0]


class Row(NamedTuple):
    """The results of one run, or why it has none."""

    order: Ordered
    state: str
    cause: str = ""
    """Why the state is not ``ok``."""
    reason: str = ""
    """Why the run ended, as in a recording: ``end``, ``terminal``, ..."""
    ended_s: float | None = None
    """Simulated time at the end of the run."""
    values: Mapping[str, float] = MappingProxyType({})
    """Results and margins by the names of their columns."""
    digest: str = ""
    wall_s: float = 0.0
    attempts: int = 1
    histories: Mapping[str, Vector] = MappingProxyType({})
    """Time histories (points,) by signal; they are stored in files of their own."""
    sources: str = ""
    """The files that the run read, with their hashes, as JSON text; without imported modules."""
    sources_sha256: str = ""
    """Hash of all that the run depended on: its files, the scenario's modules, the versions."""

    @property
    def complete(self) -> bool:
        """True if the run ended with all its results."""
        return self.state == OK

    def columns(self) -> dict[str, Any]:
        """Return the values of all columns that this row has."""
        order = self.order
        return {
            "run": order.run,
            "seed": order.seed,
            "state": self.state,
            "cause": self.cause,
            "reason": self.reason,
            "ended_s": self.ended_s,
            "attempts": self.attempts,
            "wall_s": self.wall_s,
            "digest": self.digest,
            "sources": self.sources,
            "sources_sha256": self.sources_sha256,
            **order.marks,
            **order.factors,
            **self.values,
        }
