"""What a design and its translation do not share, in words: said beside figures, never an error."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from rtsim.controller import Controller
from rtsim.latency import Fixed, LatencyModel
from rtsim.signals import Signals
from rtsim.tag import Period

ANOTHER_PERIOD = "its interface declares a period of"
"""In a note that a verdict repeats: a step that counts on its period computes something else."""


def mismatches(
    name: str, design: Controller, translation: Controller, period: Period | None
) -> Iterator[str]:
    """Of controller ``name``, which the scenario samples every ``period``."""
    own = getattr(getattr(translation, "interface", None), "period", None)
    if own is not None and period is not None and own != period:
        yield (
            f"{name}: {ANOTHER_PERIOD} {float(own.ns) / 1e9:g} s, the "
            f"scenario samples it every {float(period.ns) / 1e9:g} s"
        )
    # What is set of a parameter that only one of them has reaches that one alone.
    ours, theirs = (getattr(c, "parameters", Signals()).names for c in (design, translation))
    for whose, here, there in (("design", ours, theirs), ("interface", theirs, ours)):
        if alone := [parameter for parameter in here if parameter not in there]:
            yield f"{name}: only its {whose} has the parameters {', '.join(alone)}"


def too_slow(name: str, latency: LatencyModel, period: Period | None) -> Iterator[str]:
    """A latency that leaves no time for each sample."""
    if isinstance(latency, Fixed) and period is not None and latency.constant[0] > period.ns:
        yield (
            f"{name}: a latency of {latency.constant[0] / 1e9:g} s is longer than its period of "
            f"{float(period.ns) / 1e9:g} s: most requests are missed, as the one before is still "
            "under way; give --latency less than the period"
        )


def reservation(notes: Iterable[str]) -> str:
    """What a verdict that all is well has to add; else empty."""
    return "".join(f"; but {note}" for note in notes if ANOTHER_PERIOD in note)
