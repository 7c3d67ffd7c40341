"""Numeric entries of a fault as values that ``--set``, a study or a search can change."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np

from rtsim.core.signals import Signal, Signals
from rtsim.engine.faults.description import COMMON, fault_of
from rtsim.engine.faults.kind import Fault, FaultError

_TEXTS = ("name", "where", "kind", "when")
_TIMES = ("at", "every", "until", "duration", "period")


def entries_of(fault: Fault) -> Signals:
    """Return the entries of the fault's kind that hold a number, also those without a value."""
    kind = fault.kind
    common = [one for one in COMMON if one not in _TEXTS]
    common = [one for one in common if one != "period" or one in kind.entries]
    times = {*_TIMES, *(one.name for one in kind.parameters if one.check == "seconds")}
    names = [*common, *(one.name for one in kind.parameters)]
    return Signals(*(Signal(name, "s" if name in times else "1") for name in names))


def numbers_of(fault: Fault) -> dict[str, float]:
    """Return the numbers that the fault has; times are in s."""
    return {
        name: float(Fraction(fault.given[name]))
        for name in entries_of(fault).names
        if name in fault.given
    }


def with_entry(fault: Fault, entry: str, value: Any) -> Fault:
    """Return the fault with another number for ``entry``; a time is in s.

    Raises :class:`FaultError` if the fault cannot have this number.
    """
    number = value.item() if isinstance(value, np.generic | np.ndarray) else value
    if isinstance(number, float) and number.is_integer():
        number = int(number)
    try:
        return replace(fault_of({**fault.given, entry: number}), place=fault.place)
    except FaultError as error:
        raise fault.error(error) from None


def with_values(
    faults: Iterable[Fault], values: Mapping[str, Any]
) -> tuple[tuple[Fault, ...], dict[str, Any]]:
    """Return the faults with their numbers among ``values``, and the values of other owners.

    The keys of ``values`` are names such as ``"stuck.at"``.
    """
    by_name = {fault.name: fault for fault in faults}
    others = {}
    for target, value in values.items():
        name, _, entry = target.partition(".")
        if name in by_name and entry in entries_of(by_name[name]):
            by_name[name] = with_entry(by_name[name], entry, value)
        else:
            others[target] = value
    return tuple(by_name.values()), others
