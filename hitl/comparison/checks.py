"""What is asked of a translation beside its answers: its period, its own values, its start."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from hitl.comparison.tolerances import DOUBLE, SINGLE
from hitl.controllers.protocols import OwnParameters, interface_of
from hitl.interface import Field, Interface
from rtsim.components.controller import Controller
from rtsim.components.protocols import parameters_of, values_of
from rtsim.core.signals import Vector
from rtsim.core.tag import Period

PERIOD = "its period is that of the scenario"
OWN_VALUES = "its own parameters are those of its design"
INITIALIZED_AGAIN = "initialised a second time, it starts the same"


class Check(NamedTuple):
    """Something that has to hold; ``problem`` says why it does not, and is empty where it does."""

    what: str
    problem: str = ""


def of_interface(
    name: str, design: Controller, translation: Controller, period: Period | None
) -> Iterator[Check]:
    """Of the translation ``name`` that has an interface file and was started."""
    interface = interface_of(translation)
    if interface is None:
        return
    if period is not None:
        yield Check(PERIOD, another_period(name, interface, period))
    own = translation.own if isinstance(translation, OwnParameters) else None
    shared = [s for s in interface.parameters if s.name in parameters_of(design)]
    if own is not None and shared:
        yield Check(OWN_VALUES, _other_values(name, design, interface, own))


def another_period(name: str, interface: Interface, period: Period) -> str:
    """That the interface file and the scenario's ``period`` differ, in words; else empty."""
    if interface.period == period or interface.any_period:
        return ""
    return (
        f"{name}: its interface declares a period of {float(interface.period.ns) / 1e9:g} s, the "
        f"scenario samples it every {float(period.ns) / 1e9:g} s: make them the same, or, where "
        f"its step does not depend on the period, write any_period = true in {interface.path.name}"
    )


def _other_values(name: str, design: Controller, interface: Interface, own: Vector) -> str:
    """The first parameter whose value in the C is another one than in the design.

    One of zeros is taken for one that the C leaves to its caller.  A value that the scenario sets
    is as good as the one that the design declares.
    """
    theirs = parameters_of(design)
    declared, flown = theirs.initial({}), theirs.initial(values_of(design))
    for place in interface.parameter_fields:
        signal = place.signal
        if signal.name not in theirs or place.set_by_caller:
            continue
        here = own[interface.parameters.slice(signal.name)]
        wanted = [v[theirs.slice(signal.name)] for v in (declared, flown)]
        if here.any() and not any(_same(place, here, values) for values in wanted):
            at = int(np.argmin([_same(place, here[k], wanted[0][k]) for k in range(len(here))]))
            return (
                f"{name}: {signal.columns[at]} is {float(here[at])!r} in the C by itself, and "
                f"{float(wanted[0][at])!r} in its design; the comparison sets it to the design's "
                "before the first step, which nobody does on the target: mend the C, or, where "
                f"its caller sets it, write set_by_caller = true for {signal.name} in "
                f"{interface.path.name}"
            )
    return ""


def _same(place: Field, here: Vector, wanted: Vector) -> bool:
    """But for what the type of the C cannot hold."""
    if place.scaled or "int" in place.signal.type:
        allowed = abs(place.scale) if place.scaled else 0.0
        return bool((np.abs(here - wanted) <= allowed * (1.0 + 1e-9)).all())
    if place.signal.type == "bool":
        return bool(((here != 0) == (wanted != 0)).all())
    relative = (SINGLE if place.signal.type == "float32" else DOUBLE).relative
    with np.errstate(invalid="ignore"):
        near = np.isfinite(wanted) & (np.abs(here - wanted) <= relative * np.abs(wanted))
    return bool((near | (here == wanted) | (np.isnan(here) & np.isnan(wanted))).all())
