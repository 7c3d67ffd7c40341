"""What a design and its translation do not share, in words: said beside figures, never an error."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from hitl.comparison.checks import another_period
from hitl.controllers.protocols import interface_of
from rtsim.components.controller import Controller
from rtsim.components.latency import Fixed, LatencyModel
from rtsim.components.protocols import parameters_of
from rtsim.core.tag import Period


def mismatches(
    name: str, design: Controller, translation: Controller, period: Period | None = None
) -> Iterator[str]:
    """Of controller ``name``; with its ``period``, whether the interface file declares that one.

    A comparison asks that as a check of its own (:mod:`hitl.comparison.checks`).
    """
    interface = interface_of(translation)
    if interface is not None and period is not None:
        yield from filter(None, [another_period(name, interface, period)])
    # What is set of a parameter that only one of them has reaches that one alone.
    ours, theirs = (parameters_of(c).names for c in (design, translation))
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


def reservation(reserved: Iterable[str]) -> str:
    """What a verdict that all is well has to add; else empty."""
    text = "; ".join(dict.fromkeys(reserved))
    return f"; but {text}" if text else ""
