"""Checks of C code other than its answers: its period, its parameters, its initialisation."""

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

PERIOD = "the period is that of the scenario"
OWN_VALUES = "the parameters of the C are those of the reference model"
INITIALIZED_AGAIN = "a second initialisation gives the same answers"


class Check(NamedTuple):
    """A condition ``what`` that must hold; ``problem`` says why it does not hold, or is empty."""

    what: str
    problem: str = ""


def of_interface(
    name: str, design: Controller, translation: Controller, period: Period | None
) -> Iterator[Check]:
    """Yield the checks of the C controller ``name``, or nothing if it has no interface file.

    ``translation`` is the C controller that replaces the reference controller ``design``;
    ``period`` is the controller's period in the scenario.  The C controller must be running,
    because only running C code reports the values of its parameters.
    """
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
    """Return why the period in the interface file is wrong; empty if it equals ``period``."""
    if interface.period == period or interface.any_period:
        return ""
    return (
        f"{name}: the interface file declares a period of {float(interface.period.ns) / 1e9:g} s, "
        f"but the scenario samples the controller every {float(period.ns) / 1e9:g} s; make both "
        "periods the same, or write any_period = true in "
        f"{interface.path.name} if the step does not depend on the period"
    )


def _other_values(name: str, design: Controller, interface: Interface, own: Vector) -> str:
    """Return a sentence on the first parameter whose value in C differs from the reference model's.

    A parameter that is 0 in the C code is assumed to be set by the C's caller.  Any other value in
    the C code must equal the value that the reference model declares, or the value that the
    scenario sets.
    """
    theirs = parameters_of(design)
    declared, used = theirs.initial({}), theirs.initial(values_of(design))
    for place in interface.parameter_fields:
        signal = place.signal
        if signal.name not in theirs or place.set_by_caller:
            continue
        here = own[interface.parameters.slice(signal.name)]
        wanted = [v[theirs.slice(signal.name)] for v in (declared, used)]
        if here.any() and not any(_same(place, here, values) for values in wanted):
            at = int(np.argmin([_same(place, here[k], wanted[0][k]) for k in range(len(here))]))
            return (
                f"{name}: parameter {signal.columns[at]} is {float(here[at])!r} in the C code and "
                f"{float(wanted[0][at])!r} in the reference model. The comparison sets the "
                "reference model's value before the first step, but on the target nobody sets it: "
                "correct the value in the C code, or write set_by_caller = true for "
                f"{signal.name} in {interface.path.name} if the C's caller sets it"
            )
    return ""


def _same(place: Field, here: Vector, wanted: Vector) -> bool:
    """Return True if both values are equal, apart from rounding to the type of the C code."""
    if place.scaled or "int" in place.signal.type:
        allowed = abs(place.scale) if place.scaled else 0.0
        return bool((np.abs(here - wanted) <= allowed * (1.0 + 1e-9)).all())
    if place.signal.type == "bool":
        return bool(((here != 0) == (wanted != 0)).all())
    relative = (SINGLE if place.signal.type == "float32" else DOUBLE).relative
    with np.errstate(invalid="ignore"):
        near = np.isfinite(wanted) & (np.abs(here - wanted) <= relative * np.abs(wanted))
    return bool((near | (here == wanted) | (np.isnan(here) & np.isnan(wanted))).all())
