"""Which values of a stimulus the interface file allows for an input."""

from __future__ import annotations

import math
from collections.abc import Mapping

from hitl.interface import Field, Interface

_ROUNDING = 1e-6
"""Share of a count by which a scaled value may exceed a limit through rounding."""


def inputs_by_column(interface: Interface) -> Mapping[str, Field]:
    """Return the input that each input column belongs to."""
    return {name: place for place in interface.input_fields for name in place.signal.columns}


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
    spare = _ROUNDING * abs(place.scale) if "int" in signal.type else 0.0
    if value < signal.low - spare:
        return f"low = {signal.low:g}"
    if value > signal.high + spare:
        return f"high = {signal.high:g}"
    return "" if place.holds(value) else f"{signal.type} cannot hold it"
