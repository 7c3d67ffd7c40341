"""One value of each of two runs, side by side, with every bit."""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

Value: TypeAlias = float | int | str | None
"""``None``: there is none, or nobody knows it."""


def bits(value: float) -> int:
    """The double as an unsigned word."""
    word: int = struct.unpack("<Q", struct.pack("<d", value))[0]
    return word


def same(a: Value, b: Value) -> bool:
    """Bit for bit: -0.0 is not 0.0, and a NaN equals itself."""
    if isinstance(a, float) and isinstance(b, float):
        return bits(a) == bits(b)
    return type(a) is type(b) and a == b


def in_full(value: Value) -> str:
    """As text that leaves no bit open."""
    if isinstance(value, float):
        return f"{value!r} (0x{bits(value):016x})"
    return "not known" if value is None else str(value)


@dataclass(frozen=True)
class ValuePair:
    """A named value in both runs; ``source`` says where it came from."""

    name: str
    a: Value
    b: Value
    source: str = ""

    @property
    def equal(self) -> bool:
        return same(self.a, self.b)

    @property
    def apart(self) -> str:
        """How far two doubles are from each other, in representable numbers; else nothing."""
        a, b = self.a, self.b
        if not (isinstance(a, float) and isinstance(b, float)) or self.equal:
            return ""
        if not (math.isfinite(a) and math.isfinite(b)):
            return ""
        steps = abs(_rank(a) - _rank(b))
        if not steps:
            return "the other zero"
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
    """Doubles numbered in their order; both zeros are 0."""
    word = bits(value)
    return -(word & (1 << 63) - 1) if word >> 63 else word


def columns(name: str, size: int) -> Sequence[str]:
    """Names of the elements of a value with ``size`` of them, as :class:`Signals` names them."""
    return [name] if size == 1 else [f"{name}_{i}" for i in range(size)]
