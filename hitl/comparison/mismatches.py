"""Differences between a reference model and its translation other than in their answers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from hitl.comparison.checks import another_period
from hitl.comparison.open_loop import OpenLoop
from hitl.comparison.sides import REFERENCE_MODEL
from hitl.controllers.protocols import interface_of
from hitl.interface import Interface
from hitl.interface.lines import InterfaceError
from hitl.worker.refusal import MISFIT
from rtsim.components.controller import Controller
from rtsim.components.latency import Fixed, LatencyModel
from rtsim.components.protocols import parameters_of
from rtsim.core.outcome import Outcome
from rtsim.core.tag import Period


def mismatches(
    name: str, design: Controller, translation: Controller, period: Period | None = None
) -> Iterator[str]:
    """Yield sentences on the differences between both versions of controller ``name``.

    If the scenario's ``period`` is given, a different period in the interface file is reported too.
    A comparison does not give ``period``, because :mod:`hitl.comparison.checks` checks the period.
    """
    interface = interface_of(translation)
    if interface is not None and period is not None:
        yield from filter(None, [another_period(name, interface, period)])
    # The other side never gets the value of a parameter that only one side has.
    ours, theirs = (parameters_of(c).names for c in (design, translation))
    sides = ((REFERENCE_MODEL, ours, theirs), ("interface file", theirs, ours))
    for whose, here, there in sides:
        if alone := [parameter for parameter in here if parameter not in there]:
            yield f"{name}: only the {whose} has the parameters {', '.join(alone)}"


def refuse_misfit(loop: OpenLoop, translation: Controller) -> None:
    """Raise :class:`InterfaceError` if the run of ``loop`` ended for a lack of the interface file.

    Then the comparison says nothing about the code, unless an earlier answer differs.
    """
    interface = interface_of(translation)
    if interface is not None and replace(loop, environment=True).outcome is Outcome.UNDECIDED:
        refuse_lack(loop.error, interface)


def refuse_lack(error: str, interface: Interface) -> None:
    """Raise :class:`InterfaceError` if ``error``, which ended the C, is a lack of ``interface``."""
    _, found, lacking = error.partition(MISFIT)
    if found:
        text = lacking.partition("\n")[0]
        raise InterfaceError(f"{interface.place('inputs', '')}: {MISFIT}{text}")


def too_slow(name: str, latency: LatencyModel, period: Period | None) -> Iterator[str]:
    """Yield a sentence if the latency is longer than the period."""
    if isinstance(latency, Fixed) and period is not None and latency.constant[0] > period.ns:
        yield (
            f"{name}: a latency of {latency.constant[0] / 1e9:g} s is longer than its period of "
            f"{float(period.ns) / 1e9:g} s, so most requests are missed because the last one is "
            "still pending; give --latency less than the period"
        )


def reservation(reserved: Iterable[str]) -> str:
    """Return the end of a passed verdict: ``; but ...`` if it has reservations, else empty."""
    text = "; ".join(dict.fromkeys(reserved))
    return f"; but {text}" if text else ""
