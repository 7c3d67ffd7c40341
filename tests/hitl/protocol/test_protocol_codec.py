"""Packing: the same conversions and refusals as the generated C makes, and back.

Frames and messages in Python: published check values, golden frames, damage.

Properties of the protocol in Python; the C side is held to the same events elsewhere.
"""

from __future__ import annotations

import ctypes
import math
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from protocol_parts import GOLDEN, GOOD, f16

from hitl.building.build import build
from hitl.interface import Interface, load_interface
from hitl.protocol import messages
from hitl.protocol.codec import Codec, name_hash, wire_schema
from hitl.protocol.framing import (
    GarbageBytes,
    Parser,
    ProtocolFrame,
    crc16,
    decode_message,
    encode,
    encode_message,
    stuffed,
    stuffed_size,
    unstuffed,
    wire_size,
)
from hitl.protocol.messages import MOST_PAYLOAD, MessageKind, Why

TYPES = (
    "float64", "float32", "bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64",
    "uint64",
)  # fmt: skip
ROWS = [f'a_{t} = {{ type = "{t}" }}' for t in TYPES] + [
    'b_fixed = { type = "int16", scale = "1/256", bias = 3.5 }',
    'c_fixed = { type = "uint8", scale = 0.1, overflow = "saturate" }',
    'd_many = { type = "float32", shape = [3] }',
    'e_wide = { type = "int64", scale = 1e-7, overflow = "saturate" }',
    'f_wide = { type = "uint64", scale = 3.0, bias = -1.0 }',
]
EDGES = (
    0.0, -0.0, 0.5, 1.5, 2.5, -0.5, -1.5, 127.49, 127.5, 128.0, -128.5, -129.0, 255.0, 256.0,
    32767.4, 65535.5, 2.0**31 - 1, 2.0**31, 2.0**32 - 0.5, 2.0**53 + 2, 2.0**63 - 1024, 2.0**63,
    2.0**64 - 2048, 2.0**64, -(2.0**63), 1e300, -1e300, 3.4028235e38, 3.40282356e38, 3.5e38,
    1e-45, 1e-320, math.inf, -math.inf, math.nan, 45.5017, 25.45, 25.55, -1e-9, 131.49, 131.51,
)  # fmt: skip


def interface(folder: Path, rows: list[str] = ROWS) -> Interface:
    """A controller that hands its inputs on."""
    names = [row.split()[0] for row in rows]
    outputs = [
        f"o_{row}".replace(', overflow = "saturate"', "").replace("o_d_many = {", "o_d_many = {")
        for row in rows
    ]
    copies = [
        f"for (int k = 0; k < 3; k++) o_{n}[k] = {n}[k]" if "many" in n else f"o_{n} = {n}"
        for n in names
    ]
    (folder / "echo.h").write_text("")
    text = (
        'name = "echo"\nperiod = 0.01\nsources = []\nheaders = ["echo.h"]\n[code]\n'
        f"step = {copies!r}\n[inputs]\n" + "\n".join(rows) + "\n[outputs]\n" + "\n".join(outputs)
    )
    (folder / "echo.toml").write_text(text)
    return load_interface(folder / "echo.toml")


def test_layout_is_packed_and_little_endian(tmp_path: Path) -> None:
    rows = ['a = { type = "uint8" }', 'b = { type = "float32" }', 'c = { type = "int16" }']
    codec = Codec(interface(tmp_path, rows).input_fields)
    data, refused = codec.pack(np.array([7.0, 1.5, -2.0]))
    assert (data, refused) == (struct.pack("<Bfh", 7, 1.5, -2), 0)
    values, refused = codec.unpack(data)
    assert (values.tolist(), refused) == ([7.0, 1.5, -2.0], 0)


def test_it_converts_and_refuses_as_the_generated_c_does(tmp_path: Path) -> None:
    """Each edge for each element, through the library of SIL and through the codec."""
    made = build(interface(tmp_path))
    library = ctypes.CDLL(str(made.library))
    library.rtsim_step.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
    inputs, outputs = Codec(made.interface.input_fields), Codec(made.interface.output_fields)
    assert inputs.size == len(TYPES) + 7
    refusals = 0
    for column in range(inputs.size):
        for edge in EDGES:
            given, by_c = np.zeros(inputs.size), np.zeros(inputs.size)
            given[column] = edge
            status = library.rtsim_step(given.ctypes.data, by_c.ctypes.data)
            data, refused = inputs.pack(given)
            if status >= 0:
                assert refused == status, (made.interface.inputs.columns[column], edge)
            refusals += bool(refused)
            if refused:
                continue
            values, unheld = outputs.unpack(data)
            assert min(status, 0) == unheld
            if not unheld:
                np.testing.assert_array_equal(values, by_c)
    assert refusals > 100


def test_integers_that_no_float64_holds_are_refused(tmp_path: Path) -> None:
    rows = ['a = { type = "int8" }', 'b = { type = "int64" }', 'c = { type = "uint64" }']
    codec = Codec(interface(tmp_path, rows).output_fields)
    for b, c, status in (
        (2**53, 2**64 - 2048, 0), (2**53 + 1, 0, -2), (2**63 - 1, 0, -2), (0, 2**64 - 1, -3),
    ):  # fmt: skip
        assert codec.unpack(struct.pack("<bqQ", 1, b, c))[1] == status


def test_a_wrong_number_of_values_is_the_callers_mistake() -> None:
    codec = Codec(f16().input_fields)
    assert (codec.size, codec.bytes) == (20, 80)
    with pytest.raises(ValueError, match="got 19 values, but the signals of the interface have 20"):
        codec.pack(np.zeros(19))
    with pytest.raises(
        ValueError, match="received 81 bytes, but the signals of the interface have 80"
    ):
        codec.unpack(bytes(81))


def test_an_interface_without_parameters_packs_to_nothing() -> None:
    assert Codec(()).pack(np.zeros(0)) == (b"", 0)
    assert Codec(()).unpack(b"")[0].shape == (0,)


def test_the_schema_knows_the_scale(tmp_path: Path) -> None:
    def schema(scale: str) -> int:
        return wire_schema(interface(tmp_path, [f'a = {{ type = "int16", scale = "{scale}" }}']))

    assert schema("1/256") == schema("1/256")
    assert schema("1/256") != schema("1/128")
    assert name_hash("f16_control") != name_hash("pid")


RAMP = bytes(range(256))
COBS = [  # https://en.wikipedia.org/wiki/Consistent_Overhead_Byte_Stuffing#Encoding_examples
    (b"", b"\x01"),
    (b"\0", b"\x01\x01"),
    (b"\0\0", b"\x01\x01\x01"),
    (b"\0\x11\0", b"\x01\x02\x11\x01"),
    (bytes.fromhex("11220033"), bytes.fromhex("0311220233")),
    (bytes.fromhex("11223344"), bytes.fromhex("0511223344")),
    (bytes.fromhex("11000000"), bytes.fromhex("0211010101")),
    (RAMP[1:255], b"\xff" + RAMP[1:255]),
    (RAMP[:255], b"\x01\xff" + RAMP[1:255]),
    (RAMP[1:], b"\xff" + RAMP[1:255] + b"\x02\xff"),
    (RAMP[2:] + b"\0", b"\xff" + RAMP[2:] + b"\x01\x01"),
    (RAMP[3:] + b"\0\x01", b"\xfe" + RAMP[3:] + b"\x02\x01"),
    # The figure in Cheshire and Baker, IEEE/ACM Transactions on Networking 7 (1999), 159.
    (bytes.fromhex("4500002c4c79000040064f37"), bytes.fromhex("024501042c4c79010540064f37")),
]
FRAMES = [bytes.fromhex(row["frame"]) for row in GOLDEN]


def test_the_crc_is_ccitt_false() -> None:
    """Check value of the catalogue of parametrised CRC algorithms: CRC-16/IBM-3740."""
    assert crc16(b"123456789") == 0x29B1
    assert crc16(b"") == 0xFFFF


@pytest.mark.parametrize(("plain", "coded"), COBS)
def test_cobs_is_the_published_one(plain: bytes, coded: bytes) -> None:
    assert stuffed(plain) == coded
    assert unstuffed(coded) == (plain, True)


@pytest.mark.parametrize("size", [0, 1, 253, 254, 255, 507, 508, 509, 1024])
@pytest.mark.parametrize("byte", [b"\0", b"\x01", b"\xff"])
def test_sizes_are_bounds(size: int, byte: bytes) -> None:
    assert len(stuffed(size * byte)) <= stuffed_size(size)
    assert len(encode(1, 1, size * byte)) <= wire_size(size)
    assert 0 not in stuffed(size * byte)
    assert unstuffed(stuffed(size * byte)) == (size * byte, True)


def class_of(row: Mapping[str, object]) -> Any:
    """The class of a golden frame's message; that of ``Step`` has another name in Python."""
    name = str(row["message"])
    return getattr(messages, "StepMessage" if name == "Step" else name)


@pytest.mark.parametrize("row", GOLDEN, ids=lambda row: f"{row['message']}-{row['sequence']}")
def test_golden_frames(row: dict[str, object]) -> None:
    given = row["fields"]
    assert isinstance(given, dict)
    fields = {k: bytes.fromhex(v) if isinstance(v, str) else v for k, v in given.items()}
    message = class_of(row)(**fields)
    frame = bytes.fromhex(str(row["frame"]))
    assert encode_message(message, int(str(row["sequence"]))) == frame
    (heard,) = Parser().feed(frame)
    assert isinstance(heard, ProtocolFrame)
    assert (decode_message(heard), heard.sequence) == (message, row["sequence"])


def test_every_kind_has_a_golden_frame() -> None:
    named = {class_of(row) for row in GOLDEN}
    assert named == set(messages.KINDS)
    assert set(messages.LAYOUTS) == set(MessageKind) == set(messages.KINDS.values())


def test_pieces_of_any_size() -> None:
    line = b"\0".join(FRAMES)
    whole = Parser().feed(line)
    assert len(whole) == len(FRAMES)
    for size in (1, 2, 3, 7, 64):
        parser = Parser()
        pieces = [line[k : k + size] for k in range(0, len(line), size)]
        assert [event for piece in pieces for event in parser.feed(piece)] == whole


def harmless(events: list[ProtocolFrame | GarbageBytes], original: ProtocolFrame) -> bool:
    """What damage may leave of a frame: garbage, or itself.

    Itself where its delimiter alone was lost, or became an empty block after a full one.
    """
    return all(isinstance(event, GarbageBytes) or event == original for event in events)


@pytest.mark.parametrize("frame", FRAMES, ids=lambda f: f"{len(f)}-{f[:4].hex()}")
def test_every_single_bit_flip_and_every_truncation_is_found(frame: bytes) -> None:
    (original,) = Parser().feed(frame)
    (good,) = Parser().feed(GOOD)
    assert isinstance(original, ProtocolFrame)
    damaged = [frame[:k] for k in range(len(frame))]
    for at in range(len(frame)):
        for bit in range(8):
            flipped = bytearray(frame)
            flipped[at] ^= 1 << bit
            damaged.append(bytes(flipped))
    for damage in damaged:
        *events, last = Parser().feed(damage + b"\0" + GOOD)
        assert last == good, "the frame after it is found"
        assert harmless(events, original), damage.hex()
        assert events or not damage, "something came, and something is said"


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"\x05\x01\x00", Why.TRUNCATED),
        (b"\xff\x00", Why.TRUNCATED),
        (b"\x01\x00", Why.TOO_SHORT),
        (b"\x04\x01\x02\x03\x00", Why.TOO_SHORT),
        (b"\x05\x01\x02\x03\x04\x00", Why.BAD_CRC),
        (bytes([255, *254 * b"x"]) * 5 + b"\0", Why.TOO_LONG),
        (b"\x01" * 3000 + b"\0", Why.TOO_LONG),
    ],
)
def test_garbage_says_why(data: bytes, why: Why) -> None:
    assert Parser().feed(data) == [GarbageBytes(why)]


def test_the_longest_payload_passes_and_one_byte_more_does_not() -> None:
    for payload in (bytes(MOST_PAYLOAD), MOST_PAYLOAD * b"\1"):
        assert Parser().feed(encode(1, 2, payload)) == [ProtocolFrame(1, 2, payload)]
        assert Parser().feed(encode(1, 2, payload + b"\1")) == [GarbageBytes(Why.TOO_LONG)]


def test_noise_without_end_takes_no_memory() -> None:
    parser = Parser()
    for _ in range(100):
        assert parser.feed(b"\xaa" * 10_000) == []
    assert len(parser._held) <= stuffed_size(MOST_PAYLOAD + 4) + 1
    assert parser.feed(b"\0" + GOOD)[0] == GarbageBytes(Why.TOO_LONG)


@pytest.mark.parametrize("kind", [0, 6, 127, 128, 255])
def test_an_unknown_kind_means_nothing(kind: int) -> None:
    assert decode_message(ProtocolFrame(kind, 0, b"")) is None


@pytest.mark.parametrize("kind", list(MessageKind))
def test_a_payload_of_a_wrong_length_means_nothing(kind: MessageKind) -> None:
    _, layout, tailed = messages.LAYOUTS[kind]
    assert decode_message(ProtocolFrame(kind, 0, bytes(layout.size))) is not None
    assert (decode_message(ProtocolFrame(kind, 0, bytes(layout.size + 1))) is not None) == tailed
    if layout.size:
        assert decode_message(ProtocolFrame(kind, 0, bytes(layout.size - 1))) is None


byte = st.integers(0, 255)
lumpy = st.lists(st.sampled_from([b"\0", b"\1" * 253, b"\2" * 254, b"\3" * 255, b"\xff"])).map(
    b"".join
)
payloads = st.binary(max_size=1024) | lumpy.filter(lambda b: len(b) <= 1024)


@given(payloads)
def test_cobs_round_trip(data: bytes) -> None:
    coded = stuffed(data)
    assert 0 not in coded
    assert len(coded) <= stuffed_size(len(data))
    assert unstuffed(coded) == (data, True)


@given(st.lists(st.tuples(byte, byte, payloads), max_size=4), st.lists(st.integers(0, 5000)))
def test_frames_come_out_as_they_went_in_however_they_are_cut(
    frames: list[tuple[int, int, bytes]], cuts: list[int]
) -> None:
    line = b"".join(encode(*frame) for frame in frames)
    places = sorted({0, len(line), *(c for c in cuts if c < len(line))})
    parser = Parser()
    pieces = [line[a:b] for a, b in zip(places, [*places[1:], len(line)], strict=True)]
    heard = [event for piece in pieces for event in parser.feed(piece)]
    assert heard == [ProtocolFrame(*frame) for frame in frames]


@given(st.binary(max_size=300), byte, byte, payloads)
def test_whatever_came_before_the_next_frame_is_found(
    noise: bytes, kind: int, sequence: int, payload: bytes
) -> None:
    parser = Parser()
    parser.feed(noise + b"\0")
    assert parser.feed(encode(kind, sequence, payload)) == [ProtocolFrame(kind, sequence, payload)]
