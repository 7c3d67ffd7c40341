"""Messages between the runtime and a worker: round trips, and bytes that are none."""

from __future__ import annotations

import struct

import fake_worker
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hitl.worker.messages import (
    HEADER_BYTES,
    MAGIC,
    MalformedMessage,
    MessageWriter,
    WorkerMessage,
    WorkerMessageKind,
    parse,
    text_message,
)
from rtsim.core.tag import Tag

MOST = 16
SCHEMA = 0xFEDC_BA98_7654_3210
int64 = st.integers(-(2**63), 2**63 - 1)
uint64 = st.integers(0, 2**64 - 1)
said_by_runtime = st.sampled_from(
    [
        WorkerMessageKind.HELLO,
        WorkerMessageKind.START,
        WorkerMessageKind.STEP,
        WorkerMessageKind.STOP,
    ]
)


@given(said_by_runtime, uint64, int64, int64, st.lists(st.floats(width=64), max_size=MOST))
def test_round_trip(
    kind: WorkerMessageKind, sequence: int, ns: int, step: int, values: list[float]
) -> None:
    data = bytes(
        MessageWriter(MOST, SCHEMA).message(kind, sequence, Tag(ns, step), np.array(values))
    )
    heard = parse(data, MOST)
    assert isinstance(heard, WorkerMessage)
    assert (heard.kind, heard.sequence, heard.tag) == (kind, sequence, Tag(ns, step))
    assert (heard.schema, heard.status) == (SCHEMA, 0)
    assert heard.values.tobytes() == np.array(values, "<f8").tobytes(), "NaN payloads too"


@given(st.binary(max_size=300))
def test_noise_is_garbage(data: bytes) -> None:
    assert isinstance(parse(data, MOST), MalformedMessage) or data[:4] == MAGIC


@given(st.data(), st.integers(0, HEADER_BYTES - 1), st.integers(1, 255))
def test_a_changed_header_never_raises(data: st.DataObject, at: int, change: int) -> None:
    values = np.array(data.draw(st.lists(st.floats(), max_size=MOST)))
    good = bytearray(
        MessageWriter(MOST, SCHEMA).message(WorkerMessageKind.STEP, 1, Tag(2, 3), values)
    )
    good[at] ^= change
    heard = parse(bytes(good), MOST)
    if at < 5 or 12 <= at < 16:  # magic, version, count
        assert isinstance(heard, MalformedMessage)
    if isinstance(heard, WorkerMessage):
        assert len(heard.values) == len(values)


@given(st.integers(0, MOST), st.integers(0, HEADER_BYTES + 8 * MOST + 8))
def test_a_cut_message_is_garbage(count: int, length: int) -> None:
    good = bytes(
        MessageWriter(MOST, 0).message(WorkerMessageKind.STEP, 1, Tag(0), np.zeros(count))
    ) + bytes(8)
    whole = len(good) - 8
    heard = parse(good[:length], MOST)
    assert isinstance(heard, WorkerMessage) == (min(length, len(good)) == whole)


@pytest.mark.parametrize(
    ("what", "why"),
    [
        ("random bytes", "it begins with b'\\x07\\x08\\t\\n'"),
        ("nothing", "it has 0 bytes, a header has 64"),
        ("half a header", "it has 26 bytes, a header has 64"),
        ("huge count", "it announces 4294967295 values, at most 16 are expected"),
        ("wrong version", "it has version 9 of the protocol, expected 1"),
        ("unknown kind", "its kind 77 is not known"),
        ("too short", "0 bytes follow its header, expected 8"),
    ],
)
def test_why_it_is_garbage(what: str, why: str) -> None:
    assert parse(fake_worker.GARBAGE[what], MOST) == MalformedMessage(why)


def test_layout() -> None:
    """Little-endian, 64 bytes, packed here by hand: what hitl/building/c/worker.c sends."""
    data = fake_worker.packed(fake_worker.ANSWER, SCHEMA, (7, 20_000_000, 1), [0.5, -1.0])
    heard = parse(data, 2)
    assert isinstance(heard, WorkerMessage)
    assert (heard.kind, heard.sequence, heard.tag) == (
        WorkerMessageKind.ANSWER,
        7,
        Tag(20_000_000, 1),
    )
    assert heard.values.tolist() == [0.5, -1.0]
    assert data[:8] == b"RTSM\x01\x05\x00\x00"
    assert struct.unpack_from("<I", data, 12) == (2,)
    assert len(data) == HEADER_BYTES + 16


@pytest.mark.parametrize("text", ["", "x", "a text of some length", "ünicode " * 9, "z" * 20_000])
def test_words(text: str) -> None:
    heard = parse(text_message(WorkerMessageKind.FAULT, 1, text), 0)
    assert isinstance(heard, WorkerMessage)
    assert heard.text == text.encode()[:16384].decode()
    assert isinstance(
        parse(text_message(WorkerMessageKind.FAULT, 1, text)[:-1], 0), MalformedMessage
    )


def test_the_buffer_is_used_again() -> None:
    speaker = MessageWriter(3, 0)
    first = bytes(speaker.message(WorkerMessageKind.STEP, 1, Tag(1), np.array([1.0, 2.0, 3.0])))
    speaker.message(WorkerMessageKind.STEP, 2, Tag(2), np.array([4.0]))
    again = bytes(speaker.message(WorkerMessageKind.STEP, 1, Tag(1), np.array([1.0, 2.0, 3.0])))
    assert first == again
