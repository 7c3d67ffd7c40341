"""Interim analyses, after which a study can stop early."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from rtsim.core.errors import ScenarioError
from rtsim.core.estimates import LEVEL, Estimate
from rtsim.studies.measures import decided, margin_name
from rtsim.studies.texts import call_of, listed, made

if TYPE_CHECKING:
    from rtsim.studies.folder import Folder


@dataclass(frozen=True)
class Stop:
    """Rule that stops a study early.

    ``looks`` contains the numbers of runs, in ascending order, after which the study is analysed.
    The study stops if the half-width of the confidence interval of ``result`` is at most
    ``half_width``. ``result`` is the name of a result or of a requirement. The end of the study
    counts as an analysis too.

    With several analyses, a study would stop by chance too often. Bonferroni's correction therefore
    raises the confidence level to 1 - (1 - ``level``) / n for n analyses. The probability that all
    intervals contain the true value is then at least ``level``.
    """

    result: str
    half_width: float
    looks: tuple[int, ...]
    level: float = LEVEL

    def __post_init__(self) -> None:
        looks = self.looks if isinstance(self.looks, list | tuple) else (self.looks,)
        object.__setattr__(self, "looks", tuple(looks))
        if not self.half_width > 0.0:
            raise ScenarioError(f"half_width is {self.half_width!r}; give a number > 0")
        whole = all(isinstance(one, int) and one >= 2 for one in self.looks)
        if not self.looks or not whole or any(a >= b for a, b in pairwise(self.looks)):
            raise ScenarioError(
                f"looks are {self.looks!r}; give numbers of runs >= 2 in rising order"
            )

    @property
    def corrected(self) -> float:
        """The corrected confidence level at each interim analysis."""
        return 1.0 - (1.0 - self.level) / (len(self.looks) + 1)

    @property
    def stated(self) -> str:
        looks = ", ".join(map(str, self.looks))
        return (
            f"the study stops if the half-width of {self.result} is at most {self.half_width:g} "
            f"after {looks} runs; its intervals have the level {self.corrected:.4g}, because it "
            f"looks {len(self.looks) + 1} times"
        )

    def to_plain(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def of(cls, plain: Mapping[str, Any]) -> Stop:
        return cls(**{**plain, "looks": tuple(plain["looks"])})

    @classmethod
    def of_text(cls, text: str) -> Stop:
        call = call_of(text)
        named = {name: listed(value) for name, value in call.named.items()}
        return made(f"stop {text!r}", cls, [call.name, *call.values], named)


def needed(folder: Folder) -> int:
    """Return the number of runs up to the next interim analysis or the end.

    An interim analysis uses exactly the runs with smaller numbers. The decision is therefore
    independent of the order of the runs. For a search, the result is the largest allowed number of
    runs.
    """
    plan, stop = folder.plan, folder.plan.stopping
    if not plan.sampled.planned and folder.ended.why:
        return folder.ended.runs
    if stop is None:
        return plan.runs
    columns = folder.columns()
    for look in stop.looks:
        if look >= plan.runs:
            break
        before = columns["run"] < look
        if before.sum() < look:
            return look
        low, high = _interval_at(folder, stop, {n: c[before] for n, c in columns.items()})
        if 0.5 * (high - low) <= stop.half_width:
            return look
    return plan.runs


def _interval_at(folder: Folder, stop: Stop, columns: dict[str, Any]) -> tuple[float, float]:
    plan, level = folder.plan, stop.corrected
    ended = decided(columns["state"])
    for requirement in plan.job.required:
        if requirement.name == stop.result and stop.result not in plan.results:
            met = columns[margin_name(requirement)][ended].astype(np.float64) >= 0.0
            own = {n: c[ended] for n, c in columns.items()}
            found = plan.sampled.share(own, met, level)
            return (0.0, 1.0) if found is None else (found.low, found.high)
    values = columns[stop.result].astype(np.float64)
    good = ended & np.isfinite(values)
    kept = {n: c[good] for n, c in columns.items()}
    estimate: Estimate | None = plan.sampled.mean(kept, values[good], level)
    # Equal values contain no information about the variance.
    if estimate is None or np.ptp(values[good]) == 0.0:
        return -np.inf, np.inf
    return estimate.low, estimate.high
