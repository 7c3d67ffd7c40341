"""Frames and messages in Python: published check values, golden frames, damage."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from protocol_parts import GOLDEN, GOOD

from hitl.protocol import messages
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
)  # fmt: skip
from hitl.protocol.messages import MOST_PAYLOAD, MessageKind, Why

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
