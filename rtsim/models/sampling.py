"""Plants with a sample period of their own, and new random numbers for each sample."""

from __future__ import annotations

from functools import cache
from typing import Any, TypeVar, cast

import rtsim as rt
from rtsim.core.tag import Duration, Period


class Sampled(rt.Plant):
    """Base class of plants with a sample period."""

    def sample(self, period: float) -> None:
        """Advance the memory by one sample; ``period`` is the sample period, s."""


S = TypeVar("S", bound=Sampled)


def sampled(plant: type[S], period: Duration | Period) -> type[S]:
    """Return a class like ``plant`` that takes samples every ``period`` s, first at the start.

    The memory ``normal`` of ``plant`` receives new random numbers from N(0, 1) before each sample.

    Example:
        loop.plant("gps", sampled(Gps, 0.2)(latency=0.1), step=0.01)
    """
    found: type[S] = _ticking(cast(Any, plant), Period.of(period))
    return found


@cache
def _ticking(plant: Any, ticks: Period) -> Any:
    seconds = ticks.seconds

    class Ticking(plant, name=plant.default_name()):  # type: ignore[call-arg, misc]
        @rt.every(ticks, draws=("normal",))
        def tick(self) -> None:
            self.sample(seconds)

    return Ticking
