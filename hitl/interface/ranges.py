"""Ranges of a controller's inputs, from the interface file and the C types."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hitl.interface.fields import Field, limits
from hitl.interface.file import Interface
from rtsim.core.signals import Vector

WITHOUT_A_RUN = 1000.0
"""Largest absolute value to try for an input without a declared range or a recorded run."""
_WIDER = 2.0
"""Factor from the largest recorded value to the limit of an input without a declared range."""


@dataclass(frozen=True)
class Range:
    """Allowed values of an input: ``low`` to ``high``, in steps of ``grain``."""

    name: str
    low: float
    high: float
    grain: float
    """Distance between neighbouring values of an integer type; 0 for floating point."""
    bias: float
    specials: tuple[float, ...]
    single: bool = False

    def fitted(self, value: float) -> float:
        """Return the allowed value nearest to ``value``.

        An allowed infinity or NaN is returned unchanged.
        """
        if math.isnan(value) or math.isinf(value):
            return value if _among(value, self.specials) else self.fitted(_finite(value))
        value = min(max(value, self.low), self.high)
        if self.grain:
            inside = math.ceil((self.low - self.bias) / self.grain - 1e-9)
            most = math.floor((self.high - self.bias) / self.grain + 1e-9)
            raw = min(max(round((value - self.bias) / self.grain), inside), most)
            value = raw * self.grain + self.bias
        return value + 0.0

    @property
    def rest(self) -> float:
        return self.fitted(0.0)

    def at(self, share: float) -> float:
        """Interpolate from ``low`` (``share`` 0) to ``high`` (1) to the nearest allowed value."""
        return self.fitted(self.low * (1.0 - share) + self.high * share)

    @property
    def width(self) -> float:
        return self.high - self.low


def range_of(place: Field, name: str, usual: float) -> Range:
    """Return the range of one element of an input.

    ``usual`` is the largest absolute value if the interface file declares no range.
    """
    signal = place.signal
    low, high = signal.low, signal.high
    specials = place.specials
    if signal.type == "bool":
        return Range(name, max(low, 0.0), min(high, 1.0), 1.0, 0.0, ())
    grain = 0.0
    if "int" in signal.type:
        grain = abs(place.scale)
        ends = sorted(raw * place.scale + place.bias for raw in limits(signal.type))
        low, high = max(low, ends[0]), min(high, ends[1])
    if signal.type == "float32":
        largest_float = float(np.finfo(np.float32).max)
        low, high = max(low, -largest_float), min(high, largest_float)
    if math.isinf(signal.low) and math.isinf(signal.high) and not _narrow(signal.type):
        low, high = max(low, -usual), min(high, usual)
    elif math.isinf(signal.low):
        low = max(low, high - 2.0 * max(usual, abs(high)))
    elif math.isinf(signal.high):
        high = min(high, low + 2.0 * max(usual, abs(low)))
    return Range(name, low, high, grain, place.bias, specials, signal.type == "float32")


def _narrow(type: str) -> bool:
    return type in ("int8", "uint8", "int16", "uint16")


def usual_of(seen: Vector | None, largest: float) -> float:
    """Return the largest absolute value of an input without a declared range.

    ``seen`` contains values of the input in a recorded run, or is None.
    """
    if seen is None:
        return max(WITHOUT_A_RUN, _WIDER * largest)
    finite = np.abs(seen[np.isfinite(seen)])
    return short(_WIDER * max(float(finite.max(initial=0.0)), largest, 1.0), 2)


def ranges_of(interface: Interface, usual: float = WITHOUT_A_RUN) -> list[Range]:
    return [
        range_of(place, name, usual)
        for place in interface.input_fields
        for name in place.signal.columns
    ]


def short(value: float, digits: int) -> float:
    return float(f"{value:.{digits - 1}e}") if math.isfinite(value) else value


def _among(value: float, values: Sequence[float]) -> bool:
    return any(v == value or (math.isnan(v) and math.isnan(value)) for v in values)


def _finite(value: float) -> float:
    return 0.0 if math.isnan(value) else math.copysign(1.7976931348623157e308, value)
