"""Raw values: the integers or floats in the bits of a frame, ``value = raw * scale + bias``."""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass

from rtsim.components.frames.contract import OVERFLOW, FrameError
from rtsim.core.errors import ScenarioError

EXACT_BITS = 53
"""Integers of more bits are rounded, because signals are float64."""


@dataclass(frozen=True)
class RawType:
    """The raw type of one number of a frame, and its scale.

    ``float_bits`` is 32 or 64 for a raw float and 0 for a raw integer from ``low`` to ``high``.
    Raises :class:`ScenarioError` for a scale that is 0 or not finite.
    """

    name: str
    low: int = 0
    high: int = 0
    float_bits: int = 0
    scale: float = 1.0
    bias: float = 0.0
    overflow: str = OVERFLOW[0]

    def __post_init__(self) -> None:
        if not (math.isfinite(self.scale) and self.scale and math.isfinite(self.bias)):
            raise ScenarioError(
                f"{self.name}: scale {self.scale} and bias {self.bias} must be finite, and the "
                "scale must not be 0"
            )
        if self.overflow not in OVERFLOW:
            raise ScenarioError(
                f"{self.name}: overflow = {self.overflow!r} is unknown; choose "
                f"{' or '.join(OVERFLOW)}"
            )

    @property
    def limits(self) -> tuple[float, float]:
        """The least and the greatest value; infinite for a raw float."""
        if self.float_bits:
            return -math.inf, math.inf
        ends = self.value(self.low), self.value(self.high)
        return min(ends), max(ends)

    def value(self, raw: float) -> float:
        """Return the value of a raw number."""
        return raw * self.scale + self.bias

    def raw(self, value: float) -> int | float:
        """Return the raw number that is nearest to ``value``.

        Raises :class:`FrameError` if the value is not finite, or cannot be held and
        ``overflow`` is ``"error"``.
        """
        if not math.isfinite(value):
            raise FrameError(f"{self.name} is {value}; a frame carries finite values only")
        exact = (value - self.bias) / self.scale
        if self.float_bits:
            return self._float(value, exact)
        if not math.isfinite(exact):
            raise FrameError(f"{self.name} = {value:g} has no raw value at scale {self.scale:g}")
        raw = round(exact)
        if self.low <= raw <= self.high:
            return raw
        if self.overflow == "saturate":
            return min(max(raw, self.low), self.high)
        low, high = self.limits
        raise FrameError(
            f"{self.name} = {value:g} is outside {low:g} to {high:g}, which the frame can hold; "
            'limit the value, or read the file with overflow="saturate"'
        )

    def _float(self, value: float, exact: float) -> float:
        """Return ``exact`` as the raw float, which has 32 or 64 bits."""
        most = 3.4028235677973366e38 if self.float_bits == 32 else math.inf
        if abs(exact) < most:
            return struct.unpack("f", struct.pack("f", exact))[0] if most < math.inf else exact
        if self.overflow == "saturate" and most < math.inf:
            return math.copysign(3.4028234663852886e38, exact)
        raise FrameError(f"{self.name} = {value:g} does not fit into a float{self.float_bits}")


def integer(
    name: str, bits: int, signed: bool, scale: float, bias: float, overflow: str
) -> RawType:
    """Return the raw type of an integer of ``bits`` bits."""
    low, high = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if signed else (0, (1 << bits) - 1)
    return RawType(name, low, high, 0, scale, bias, overflow)
