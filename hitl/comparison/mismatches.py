"""What a design and its translation do not share, in words: said beside figures, never an error."""

from __future__ import annotations

from collections.abc import Iterator

from rtsim.controller import Controller
from rtsim.signals import Signals
from rtsim.tag import Period


def mismatches(
    name: str, design: Controller, translation: Controller, period: Period | None
) -> Iterator[str]:
    """Of controller ``name``, which the scenario samples every ``period``."""
    own = getattr(getattr(translation, "interface", None), "period", None)
    if own is not None and period is not None and own != period:
        yield (
            f"{name}: its interface declares a period of {float(own.ns) / 1e9:g} s, the "
            f"scenario samples it every {float(period.ns) / 1e9:g} s"
        )
    # What is set of a parameter that only one of them has reaches that one alone.
    ours, theirs = (getattr(c, "parameters", Signals()).names for c in (design, translation))
    for whose, here, there in (("design", ours, theirs), ("interface", theirs, ours)):
        if alone := [parameter for parameter in here if parameter not in there]:
            yield f"{name}: only its {whose} has the parameters {', '.join(alone)}"
