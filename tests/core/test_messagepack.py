"""MessagePack within bounds: what goes in comes out, and bytes from anywhere do no harm."""

from __future__ import annotations

import struct
from contextlib import suppress
from typing import Any

import msgpack
import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rtsim.core.net.messagepack import EncodingError, Limits, pack, unpack

_LEAVES = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False)
    | st.text(max_size=40)
    | st.binary(max_size=300)
)
PLAIN = st.recursive(
    _LEAVES,
    lambda inner: st.lists(inner, max_size=20) | st.dictionaries(st.text(max_size=9), inner),
    max_leaves=60,
)


@given(PLAIN)
def test_plain_data_come_back(data: Any) -> None:
    assert unpack(pack(data)) == data


@pytest.mark.parametrize("word", [0x7FF8000000000123, 0x8000000000000000, 1, 0x7FF0000000000000])
def test_every_bit_of_a_double_comes_back(word: int) -> None:
    value = struct.unpack("<d", word.to_bytes(8, "little"))[0]
    alone, vector = unpack(pack([value, np.array([value, 1.0])]))
    assert struct.pack("<d", alone) == struct.pack("<d", value)
    assert vector.tobytes() == np.array([value, 1.0]).tobytes()


@pytest.mark.parametrize("size", [0, 1, 2, 3, 31, 32, 33, 8191, 8192, 70_000])
def test_vectors_of_any_length_keep_type_and_bits(size: int) -> None:
    floats, integers = np.arange(size) / 7.0, np.arange(size) * 2**40
    back = unpack(pack({"f": floats, "i": integers}))
    assert back["f"].dtype == np.float64
    assert back["i"].dtype == np.int64
    assert np.array_equal(back["f"], floats)
    assert np.array_equal(back["i"], integers)


@pytest.mark.parametrize("data", [object(), {1, 2}, np.zeros((2, 2)), np.zeros(2, np.float32), 1j])
def test_what_is_not_plain_is_refused(data: object) -> None:
    with pytest.raises(EncodingError, match="only plain data can be packed"):
        pack({"x": data})


@given(st.binary(max_size=200))
@example(b"\xdd\xff\xff\xff\xff" * 40)
@example(b"\xc9\xff\xff\xff\xff\x01")
@example(b"\xc1")
@example(b"\x81\xc0\xc0")
@example(b"\xa1\xff")
@example(b"\xc7\x08\x05" + bytes(8))
@example(b"\xd6\xff" + bytes(4))
@example(b"")
def test_bytes_from_anywhere_are_read_or_refused(data: bytes) -> None:
    with suppress(EncodingError):
        unpack(data)


@given(PLAIN, st.data())
def test_damaged_bytes_are_read_or_refused(data: Any, draw: st.DataObject) -> None:
    packed = bytearray(pack(data))
    for _ in range(draw.draw(st.integers(1, 3))):
        packed[draw.draw(st.integers(0, len(packed) - 1))] = draw.draw(st.integers(0, 255))
    with suppress(EncodingError):
        unpack(bytes(packed))


@given(PLAIN)
def test_whatever_the_check_lets_through_the_library_reads_whole(data: Any) -> None:
    packed = pack(data)
    for cut in range(len(packed)):
        with pytest.raises(EncodingError):
            unpack(packed[:cut])
    with pytest.raises(EncodingError, match="continues for 1 bytes after its value"):
        unpack(packed + b"\x00")


def test_depth_and_number_are_bounded() -> None:
    nested: Any = 1
    for _ in range(15):
        nested = [nested]
    assert unpack(pack(nested)) == nested
    with pytest.raises(EncodingError, match="nested deeper than 16 levels"):
        unpack(pack([nested]))
    with pytest.raises(EncodingError, match="more than 10 values"):
        unpack(pack(list(range(10))), Limits(values=10))


def test_a_claimed_length_takes_no_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """The library is not even asked: it would make room for what is claimed."""
    monkeypatch.setattr(msgpack, "unpackb", lambda *_, **__: pytest.fail("believed"))
    for claim in (b"\xdd\x7f\xff\xff\xff", b"\xdf\x7f\xff\xff\xff", b"\xdc\xff\xff" * 5):
        with pytest.raises(EncodingError, match="cut off"):
            unpack(claim + bytes(100))
