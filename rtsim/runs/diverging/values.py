"""Compares a value of one run with the value of another run, bit for bit."""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

Value: TypeAlias = float | int | str | None
"""``None``: the value does not exist or is not known."""


def bits(value: float) -> int:
    """Return the bits of a double as an unsigned 64-bit integer."""
    word: int = struct.unpack("<Q", struct.pack("<d", value))[0]
    return word


def same(a: Value, b: Value) -> bool:
    """Return True if two values are equal bit for bit: -0.0 is not 0.0, a NaN equals itself."""
    if isinstance(a, float) and isinstance(b, float):
        return bits(a) == bits(b)
    return type(a) is type(b) and a == b


def in_full(value: Value) -> str:
    """Return a value as text that determines every bit."""
    if isinstance(value, float):
        return f"{value!r} (0x{bits(value):016x})"
    return "not known" if value is None else str(value)


@dataclass(frozen=True)
class ValuePair:
    """A named value in both runs; ``source`` is the signal from which it came."""

    name: str
    a: Value
    b: Value
    source: str = ""

    @property
    def equal(self) -> bool:
        return same(self.a, self.b)

    @property
    def apart(self) -> str:
        """Return the distance of two finite doubles in ulp as text; empty for other values."""
        a, b = self.a, self.b
        if not (isinstance(a, float) and isinstance(b, float)) or self.equal:
            return ""
        if not (math.isfinite(a) and math.isfinite(b)):
            return ""
        steps = abs(_rank(a) - _rank(b))
        if not steps:
            return "0.0 and -0.0"
        return f"{steps} ulp apart" if steps < 10**6 else f"{b - a:.3g} apart"

    def to_json(self) -> dict[str, Any]:
        out: dict[str, Any] = {"name": self.name, "equal": self.equal}
        for key, value in (("a", self.a), ("b", self.b)):
            out[key] = value
            if isinstance(value, float):
                out[f"{key}_bits"] = f"0x{bits(value):016x}"
        if self.source:
            out["source"] = self.source
        return out


def _rank(value: float) -> int:
    """Return the position of a double in the order of all doubles; both zeros have position 0."""
    word = bits(value)
    return -(word & (1 << 63) - 1) if word >> 63 else word


def columns(name: str, size: int) -> Sequence[str]:
    """Return the names of the ``size`` elements of a value, as :class:`Signals` names them."""
    return [name] if size == 1 else [f"{name}_{i}" for i in range(size)]
