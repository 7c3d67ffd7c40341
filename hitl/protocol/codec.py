"""Convert vectors of float64 to the packed C types of an interface, and back.

The conversions equal those of ``rtsim_unit.h`` for SIL: they round to the nearest raw value, half
to even, and reject the same values.  Scaling is done on the host.  Fixed-point numbers are
transmitted as raw integers, since the ``double`` of a small processor could not hold them.
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
"""Greatest float64 that fits the type, for types whose greatest value is not a float64."""


class _Run:
    """Consecutive elements of a vector that are converted in the same way."""

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
        """Pack ``values``; return the bytes and a status.

        The status is 0, or 1 + the index in ``values`` of the first element that does not fit.
        """
        if self.type == "float64":
            return values.astype(self.format).tobytes(), 0
        if self.type == "float32":
            try:
                return self._floats.pack(*values.tolist()), 0
            except OverflowError:
                pass  # find the first element that does not fit
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
        """Fill this part of ``values`` from ``data[at:]``; return a status.

        The status is 0, or 1 + the index in this part of the first integer that no float64
        represents exactly.
        """
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
    """The conversion of one vector of an interface: ``(n,)`` float64 to packed bytes and back.

    :attr:`size` is ``n``, and :attr:`bytes` the number of packed bytes.
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
        """Pack ``values`` (n,) and return the bytes and a status.

        The status is 0, or 1 + the index of the first element that does not fit its C type.  Raises
        ValueError for a wrong number of values.
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
        """Unpack ``data`` and return the values (n,) and a status.

        The status is 0, or -(1 + the index) of the first integer that no float64 represents
        exactly.  Raises ValueError for a wrong number of bytes.
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
    """Return a 64-bit hash of the meaning of the packed bytes: names, types, scale, bias."""
    parts = [f"{interface.schema:x}"]
    parts += [f"{f.signal.name} {f.scale!r} {f.bias!r}" for f in interface.fields]
    return int.from_bytes(hashlib.sha256("\n".join(parts).encode()).digest()[:8], "little")


def name_hash(name: str) -> int:
    """Return a 32-bit hash of the name; it identifies a controller even if the schema differs."""
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:4], "little")
