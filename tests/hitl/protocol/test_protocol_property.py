"""Properties of the protocol in Python; the C side is held to the same events elsewhere."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from hitl.protocol.framing import Parser, ProtocolFrame, encode, stuffed, stuffed_size, unstuffed

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
