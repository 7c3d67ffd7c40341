"""MessagePack encoding, with limits on lengths and nesting that are checked before decoding.

The data may contain numbers, text, bytes, lists, maps, and vectors of float64 and int64.  Vectors
keep every bit.  Only this module uses the library msgpack.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgpack
import numpy as np
from numpy.typing import NDArray

from rtsim.core.errors import RtsimError

FLOATS, INTEGERS = 1, 2
"""Extension types for vectors of float64 and of int64, in little-endian order."""
_TYPES = {FLOATS: np.dtype("<f8"), INTEGERS: np.dtype("<i8")}
_FIXED = dict.fromkeys((0xC0, 0xC2, 0xC3), 0)
_FIXED |= {0xCA: 4, 0xCB: 8, 0xCC: 1, 0xCD: 2, 0xCE: 4, 0xCF: 8, 0xD0: 1, 0xD1: 2, 0xD2: 4, 0xD3: 8}
_FIXED |= {0xD4: 2, 0xD5: 3, 0xD6: 5, 0xD7: 9, 0xD8: 17}
"""Number of further bytes of a value of fixed length, by first byte.

The number includes the type byte of an extension.
"""
_BYTES = {0xC4: (1, 0), 0xC5: (2, 0), 0xC6: (4, 0), 0xC7: (1, 1), 0xC8: (2, 1), 0xC9: (4, 1)}
_BYTES |= {0xD9: (1, 0), 0xDA: (2, 0), 0xDB: (4, 0)}
"""Sizes in bytes of the length field and the type field, by first byte of a value."""
_ITEMS = {0xDC: (2, 1), 0xDD: (4, 1), 0xDE: (2, 2), 0xDF: (4, 2)}
"""Size of the count field [bytes], and values per entry, by first byte of a list or map."""


class EncodingError(RtsimError):
    """The bytes are not the expected MessagePack, or the data cannot be encoded."""


@dataclass(frozen=True)
class Limits:
    """Limits for messages to be decoded."""

    depth: int = 16
    values: int = 1_000_000
    """Maximum total number of values."""
    extensions: bool = True
    """True to accept vectors in addition to numbers, texts, lists and maps."""


def pack(data: Any) -> bytes:
    """Encode plain ``data`` as MessagePack; raise ``EncodingError`` for data of other types."""
    try:
        return msgpack.packb(data, default=_vector)  # type: ignore[no-any-return]
    except (TypeError, ValueError, OverflowError) as error:
        raise EncodingError(f"only plain data can be packed: {error}") from error


def unpack(data: bytes, limits: Limits | None = None) -> Any:
    """Decode MessagePack data; vectors become arrays (n,).

    Raises :class:`EncodingError` if ``data`` is invalid or exceeds ``limits``.  Lengths and nesting
    are checked before memory is allocated.
    """
    check(data, limits or Limits())
    try:
        return msgpack.unpackb(data, ext_hook=_array, raw=False, strict_map_key=False)
    except (ValueError, TypeError, msgpack.UnpackException) as error:
        raise EncodingError(f"the bytes are not MessagePack as rtsim writes it: {error}") from error


def check(data: bytes, limits: Limits) -> None:
    """Raise ``EncodingError`` unless ``data`` is exactly one value within the ``limits``."""
    at, seen = 0, 0
    left = [1]
    """Number of values still expected, for each incomplete nesting level."""
    while left:
        if not left[-1]:
            left.pop()
            continue
        left[-1] -= 1
        seen += 1
        if seen > limits.values:
            raise EncodingError(f"the message has more than {limits.values} values")
        if at >= len(data):
            raise EncodingError(f"the message is cut off after {len(data)} bytes")
        if not limits.extensions and (0xC7 <= data[at] <= 0xC9 or 0xD4 <= data[at] <= 0xD8):
            raise EncodingError("extension types are not allowed here; send numbers as a list")
        skip, inside = _extent(data, at)
        at += skip
        if at > len(data) or inside > len(data) - at:
            raise EncodingError(
                f"the message is cut off: a value extends beyond its {len(data)} bytes"
            )
        if inside:
            left.append(inside)
            if len(left) > limits.depth:
                raise EncodingError(f"the message is nested deeper than {limits.depth} levels")
    if at != len(data):
        raise EncodingError(
            f"the message continues for {len(data) - at} bytes after its value; send one value"
        )


def _extent(data: bytes, at: int) -> tuple[int, int]:
    first = data[at]
    if first < 0x80 or first >= 0xE0:
        return 1, 0
    if first < 0xA0:
        return 1, (first & 15) * (2 if first < 0x90 else 1)
    if first < 0xC0:
        return 1 + (first & 31), 0
    if first in _FIXED:
        return 1 + _FIXED[first], 0
    if first in _BYTES:
        width, kind = _BYTES[first]
        return 1 + width + kind + _number(data, at + 1, width), 0
    if first in _ITEMS:
        width, each = _ITEMS[first]
        return 1 + width, each * _number(data, at + 1, width)
    raise EncodingError(f"byte {at} is 0x{first:02x}, which cannot begin a MessagePack value")


def _number(data: bytes, at: int, width: int) -> int:
    return int.from_bytes(data[at : at + width], "big")


def _vector(value: object) -> msgpack.ExtType:
    if isinstance(value, np.ndarray) and value.ndim == 1:
        for kind, type_ in _TYPES.items():
            if value.dtype == type_:
                return msgpack.ExtType(kind, np.ascontiguousarray(value, type_).tobytes())
    raise TypeError(f"a {type(value).__name__} cannot be packed: {value!r:.80}")


def _array(kind: int, data: bytes) -> NDArray[Any]:
    if kind not in _TYPES or len(data) % 8:
        raise ValueError(f"unknown extension type {kind} with {len(data)} bytes")
    return np.frombuffer(data, _TYPES[kind])
