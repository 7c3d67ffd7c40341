"""Convert float64 vectors to packed C types, and back.

As in ``rtsim_unit.h``, numbers are rounded half to even. The host scales fixed-point numbers,
because a ``double`` on a small processor may have only 4 bytes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from itertools import groupby
from struct import Struct

import numpy as np
from numpy.typing import NDArray

from hitl.interface import Interface
from hitl.interface.fields import Field
from rtsim.core.signals import Vector

_FORMATS = {"bool": "u1", "float32": "<f4", "float64": "<f8"} | {
    f"{sign}int{8 * size}": f"<{sign or 'i'}{size}" for sign in ("", "u") for size in (1, 2, 4, 8)
}
_GREATEST = {"int64": 9223372036854774784.0, "uint64": 18446744073709549568.0}
"""Greatest float64 within each integer type whose maximum is not a float64."""


class _Run:
    def __init__(self, place: Field, first: int, count: int) -> None:
        self.type = place.signal.type
        self.format = np.dtype(_FORMATS[self.type])
        self.first, self.count = first, count
        self.slice = slice(first, first + count)
        self.bytes = count * self.format.itemsize
        self._floats = Struct(f"<{count}f")
        self.scale, self.bias = place.scale, place.bias
        self.saturates = place.overflow == "saturate"
        self.low, self.high = 0.0, 0.0
        if "int" in self.type:
            limits = np.iinfo(self.format)
            self.low, self.high = float(limits.min), _GREATEST.get(self.type, float(limits.max))

    def pack(self, values: Vector) -> tuple[bytes, int]:
        if self.type == "float64":
            return values.astype(self.format).tobytes(), 0
        if self.type == "float32":
            try:
                return self._floats.pack(*values.tolist()), 0
            except OverflowError:
                pass  # continue below, to find the first element that does not fit
            with np.errstate(over="ignore", invalid="ignore"):
                raw = values.astype(self.format)
            if np.isfinite(raw).all():
                return raw.tobytes(), 0
            return raw.tobytes(), _first(np.isinf(raw) & np.isfinite(values))
        if self.type == "bool":
            return (values != 0.0).astype(self.format).tobytes(), _first(np.isnan(values))
        return self._pack_integers(values)

    def _pack_integers(self, values: Vector) -> tuple[bytes, int]:
        with np.errstate(over="ignore"):
            rounded = np.rint((values - self.bias) / self.scale)
        bad = np.isnan(rounded)
        if not self.saturates:
            bad |= (rounded < self.low) | (rounded > self.high)
        if refused := _first(bad):
            return b"", refused
        return np.clip(rounded, self.low, self.high).astype(self.format).tobytes(), 0

    def unpack(self, data: bytes, at: int, values: Vector) -> int:
        raw = np.frombuffer(data, self.format, self.count, at)
        if self.type in _GREATEST:
            refused = self._unpack_wide(raw, values)
            if refused:
                return refused
        elif self.type == "bool":
            values[self.slice] = raw != 0
        else:
            values[self.slice] = raw
        if self.scale != 1.0 or self.bias != 0.0:
            values[self.slice] = values[self.slice] * self.scale + self.bias
        return 0

    def _unpack_wide(self, raw: NDArray[np.generic], values: Vector) -> int:
        integers = [int(x) for x in raw]
        for k, integer in enumerate(integers):
            if int(float(integer)) != integer:
                return 1 + k
        values[self.slice] = integers
        return 0


def _first(bad: NDArray[np.bool_]) -> int:
    return 1 + int(np.argmax(bad)) if bad.any() else 0


class Codec:
    """Convert float64 vectors (n,) to packed C types, and back.

    :attr:`size` is ``n``; :attr:`bytes` is the number of packed bytes.
    """

    def __init__(self, fields: Iterable[Field]) -> None:
        self._runs: list[_Run] = []
        at = 0
        for _, group in groupby(fields, lambda f: (f.signal.type, f.scale, f.bias, f.overflow)):
            members = list(group)
            count = sum(f.signal.size for f in members)
            self._runs.append(_Run(members[0], at, count))
            at += count
        self.size = at
        self.bytes = sum(run.bytes for run in self._runs)

    def pack(self, values: Vector) -> tuple[bytes, int]:
        """Pack ``values``, shape (n,), and return ``(data, status)``.

        ``status`` is 0, or 1 + the index of the first value that does not fit its C type. Raises
        ValueError if the number of values is not n.
        """
        if len(values) != self.size:
            raise ValueError(
                f"got {len(values)} values, but the signals of the interface have {self.size} "
                "elements"
            )
        parts = []
        for run in self._runs:
            data, refused = run.pack(values[run.slice])
            if refused:
                return b"", run.first + refused
            parts.append(data)
        return b"".join(parts), 0

    def unpack(self, data: bytes) -> tuple[Vector, int]:
        """Unpack ``data`` and return ``(values, status)``, with ``values`` of shape (n,).

        ``status`` is 0, or ``-1 - k`` if float64 cannot represent the integer with the index ``k``.
        Raises ValueError if the number of bytes is wrong.
        """
        if len(data) != self.bytes:
            raise ValueError(
                f"received {len(data)} bytes, but the signals of the interface have "
                f"{self.bytes} bytes"
            )
        values = np.zeros(self.size)
        at = 0
        for run in self._runs:
            if refused := run.unpack(data, at, values):
                return values, -(run.first + refused)
            at += run.bytes
        return values, 0


def wire_schema(interface: Interface) -> int:
    """Return a hash (64 bits) of names, types, scales and biases of the signals.

    The host compares this hash with that of the board.
    """
    parts = [f"{interface.schema:x}"]
    parts += [f"{f.signal.name} {f.scale!r} {f.bias!r}" for f in interface.fields]
    return int.from_bytes(hashlib.sha256("\n".join(parts).encode()).digest()[:8], "little")


def name_hash(name: str) -> int:
    """Return a hash (32 bits) of a controller's name.

    The hash identifies a controller even after a change of its signals.
    """
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:4], "little")
