"""The interface of frames and codecs, which ``check_frame_codec`` checks."""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Protocol, runtime_checkable

from rtsim.core.errors import RtsimError, ScenarioError
from rtsim.core.signals import Signals, Vector

OVERFLOW = ("error", "saturate")
"""What a codec does with a value that its frame cannot hold."""


class FrameError(RtsimError):
    """A frame is malformed, or a value cannot be sent in a frame."""


class Frame(NamedTuple):
    """A frame on a bus, or a datagram."""

    data: bytes
    identifier: int = 0
    """The identifier of a CAN frame; 0 for a datagram."""
    extended: bool = False
    """True if the identifier has 29 bits, false if it has 11."""


class FrameCodec(Protocol):
    """A kind of frame, with name, identifier, signals and bytes."""

    @property
    def name(self) -> str: ...

    @property
    def signals(self) -> Signals:
        """The signals in frames of this kind: scalars and arrays."""
        ...

    @property
    def identifier(self) -> int: ...

    @property
    def extended(self) -> bool: ...

    @property
    def length(self) -> int:
        """Length of each frame, bytes."""
        ...

    @property
    def period_ns(self) -> int:
        """Period of the frame (ns), or 0 if unknown."""
        ...

    def encode(self, values: Vector) -> bytes:
        """Return the bytes of a frame with ``values`` (n,), rounded to raw numbers.

        Raises ``FrameError`` for a value that is not finite or out of range.
        """
        ...

    def decode(self, data: bytes, into: Vector) -> None:
        """Write the values in a frame to ``into`` (n,).

        After a ``FrameError`` for a malformed frame, ``into`` is unchanged.
        """
        ...


@runtime_checkable
class StampedCodec(FrameCodec, Protocol):
    """A codec whose frames contain the simulated time."""

    def encode_at(self, ns: int, values: Vector) -> bytes:
        """Return the bytes of a frame that is sent at the time ``ns``."""
        ...


def check_identifiers(path: Path, codecs: Iterable[FrameCodec]) -> None:
    """Raise ``ScenarioError`` for two frames with the same identifier."""
    known: dict[tuple[int, bool], str] = {}
    for codec in codecs:
        key = codec.identifier, codec.extended
        other = known.setdefault(key, codec.name)
        if other != codec.name:
            raise ScenarioError(
                f"{path}: frames {other} and {codec.name} both have the identifier "
                f"{hexadecimal(*key)}; a receiver cannot tell them apart"
            )


def hexadecimal(identifier: int, extended: bool) -> str:
    """Return an identifier as hexadecimal text with 3 or 8 digits."""
    return f"0x{identifier:08x}" if extended else f"0x{identifier:03x}"


# Raw values: the integers or floats in the bits of a frame, ``value = raw * scale + bias``.

EXACT_BITS = 53
"""Integers of more bits are rounded, because signals are float64."""


@dataclass(frozen=True)
class RawType:
    """The raw type of a number in a frame, with its scale.

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
        """The least and the greatest possible value."""
        if self.float_bits:
            return -math.inf, math.inf
        ends = self.value(self.low), self.value(self.high)
        return min(ends), max(ends)

    def value(self, raw: float) -> float:
        return raw * self.scale + self.bias

    def raw(self, value: float) -> int | float:
        """Return the raw number nearest to ``value``.

        Raises ``FrameError`` for a value that is not finite or, with ``overflow="error"``, out of
        range.
        """
        if not math.isfinite(value):
            raise FrameError(f"{self.name} is {value}; a frame carries finite values only")
        exact = (value - self.bias) / self.scale
        if self.float_bits:
            return self._float(value, exact)
        if not math.isfinite(exact):
            raise FrameError(
                f"{self.name} = {value:g} is too large for the scale {self.scale:g} of the frame; "
                "limit the value"
            )
        raw = round(exact)
        if self.low <= raw <= self.high:
            return raw
        if self.overflow == "saturate":
            return min(max(raw, self.low), self.high)
        low, high = self.limits
        raise FrameError(
            f"{self.name} = {value:g} does not fit the frame, which holds {low:g} to {high:g}; "
            'limit the value, or read the file with overflow="saturate"'
        )

    def _float(self, value: float, exact: float) -> float:
        most = 3.4028235677973366e38 if self.float_bits == 32 else math.inf
        if abs(exact) < most:
            return struct.unpack("f", struct.pack("f", exact))[0] if most < math.inf else exact
        if self.overflow == "saturate" and most < math.inf:
            return math.copysign(3.4028234663852886e38, exact)
        raise FrameError(f"{self.name} = {value:g} does not fit into a float{self.float_bits}")


def integer(
    name: str, bits: int, signed: bool, scale: float, bias: float, overflow: str
) -> RawType:
    low, high = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if signed else (0, (1 << bits) - 1)
    return RawType(name, low, high, 0, scale, bias, overflow)
