"""Which values of a stimulus the interface file allows for an input."""

from __future__ import annotations

import math
from collections.abc import Mapping

from hitl.interface import Field, Interface

_ROUNDING = 1e-6
"""Share of a count by which a scaled value may exceed a limit through rounding."""
_ROUNDING_32 = 2.0**-24
"""Share by which a value in float32 may exceed a limit through rounding."""


def inputs_by_column(interface: Interface) -> Mapping[str, Field]:
    """Return the input that each input column belongs to."""
    return {name: place for place in interface.input_fields for name in place.signal.columns}


def _spare(place: Field, limit: float) -> float:
    """Return by how much a value may exceed ``limit`` through rounding to the input's type."""
    if "int" in place.signal.type:
        return _ROUNDING * abs(place.scale)
    return abs(limit) * _ROUNDING_32 if place.signal.type == "float32" and limit else 0.0


def why_refused(place: Field, value: float) -> str:
    """Return why the interface file does not allow ``value`` for an input, as a clause; or ""."""
    signal = place.signal
    if math.isnan(value):
        return "" if any(map(math.isnan, place.specials)) else "NaN needs nan = true"
    if math.isinf(value):
        side = "high = inf" if value > 0 else "low = -inf"
        return "" if value in place.specials else f"an infinite value needs {side}"
    if signal.type == "bool" and value not in (0.0, 1.0):
        return "a bool is 0 or 1"
    for limit, excess, name in (
        (signal.low, signal.low - value, "low"), (signal.high, value - signal.high, "high"),
    ):  # fmt: skip
        if excess > _spare(place, limit):
            return f"{name} = {limit:g}"
    return "" if place.holds(value) else f"{signal.type} cannot hold it"
