"""A recording opens after any accident to its file, or one clear error says why not."""

from __future__ import annotations

import random
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from mcap.opcode import Opcode
from record_samples import MS, fly, ticking

from rtsim.core.errors import RecordingError
from rtsim.record.file import FileRecorder
from rtsim.record.reading import Recording
from rtsim.record.writer import RecordingFile


@pytest.fixture(scope="module")
def flown(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("flown") / "run.mcap"
    fly(FileRecorder(path, ticking(3 * MS)))  # some five chunks
    return path


@pytest.fixture(scope="module")
def short(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """As many chunks and records with fewer rows: it opens in a quarter of the time."""
    path = tmp_path_factory.mktemp("short") / "run.mcap"
    fly(FileRecorder(path, ticking(15 * MS)), rows=60)
    return path


def assert_prefix(read: Recording, whole: Recording) -> None:
    for name, track in read.tracks.items():
        assert np.array_equal(track.words, whole.tracks[name].words[: len(track)])
    assert read.events == whole.events[: len(read.events)]
    assert read.footer in (None, whole.footer)


def open_damaged(data: bytes, path: Path, whole: Recording) -> Recording | None:
    """A prefix of the whole, or one clear error (None); whatever else happens fails the test."""
    path.write_bytes(data)
    try:
        read = Recording.open(path)
    except RecordingError:
        return None
    assert_prefix(read, whole)
    return read


@pytest.mark.long
def test_truncated_at_every_byte_of_its_last_kilobyte(short: Path, tmp_path: Path) -> None:
    data, whole = short.read_bytes(), Recording.open(short)
    for size in range(len(data) - 1024, len(data)):
        read = open_damaged(data[:size], tmp_path / "cut.mcap", whole)
        assert read is not None
        assert read.truncated is not None
        assert len(read.tracks["f16"]) == 60


def test_truncated_anywhere(flown: Path, tmp_path: Path) -> None:
    data, whole = flown.read_bytes(), Recording.open(flown)
    cuts = random.Random(3).sample(range(len(data)), 300)
    most = 0
    for size in sorted([*range(40), *cuts]):
        read = open_damaged(data[:size], tmp_path / "cut.mcap", whole)
        rows = 0 if read is None else len(read.tracks["f16"])
        assert rows >= most, "a longer file holds no less"
        most = rows
    assert most == 300


@pytest.mark.long
@settings(
    max_examples=300,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(data=st.data())
def test_flipped_bits_are_noticed(short: Path, tmp_path: Path, data: st.DataObject) -> None:
    raw = bytearray(short.read_bytes())
    whole = Recording.open(short)
    for bit in data.draw(st.lists(st.integers(0, 8 * len(raw) - 1), min_size=1, max_size=3)):
        raw[bit // 8] ^= 1 << bit % 8
    open_damaged(bytes(raw), tmp_path / "flipped.mcap", whole)


@pytest.mark.long
def test_every_flipped_bit_that_steers_the_reader_is_noticed(short: Path, tmp_path: Path) -> None:
    """All bits of each record's type and length, and one of each third byte after."""
    raw, whole = short.read_bytes(), Recording.open(short)
    steering, following, at, data_end = list(range(8)), list[int](), 8, 0
    while at < len(raw) - 8:
        steering += range(at, at + 9)
        following += range(at + 9, min(at + 50, len(raw)), 3)
        data_end = at if raw[at] == Opcode.DATA_END else data_end
        at += 9 + int.from_bytes(raw[at + 1 : at + 9], "little")
    bits = [8 * byte + bit for byte in steering for bit in range(8)]
    for bit in bits + [8 * byte + byte % 8 for byte in following]:
        damaged = bytearray(raw)
        damaged[bit // 8] ^= 1 << bit % 8
        read = open_damaged(bytes(damaged), tmp_path / "flipped.mcap", whole)
        if bit < 8 * data_end:
            assert read is None or read.truncated is not None


def test_a_length_is_not_believed(flown: Path, tmp_path: Path) -> None:
    """Neither of a record nor of what a chunk unpacks to."""
    raw = flown.read_bytes()
    at = 8
    while raw[at] != Opcode.CHUNK:
        at += 9 + int.from_bytes(raw[at + 1 : at + 9], "little")
    for where, size in (
        (at + 1, 1 << 28),
        (at + 1, 1 << 62),
        (at + 25, 1 << 27),
        (at + 25, 1 << 62),
    ):
        damaged = bytearray(raw)
        damaged[where : where + 8] = size.to_bytes(8, "little")
        (tmp_path / "long.mcap").write_bytes(damaged)
        tracemalloc.start()
        read = Recording.open(tmp_path / "long.mcap")
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert most < 1 << 24
        assert read.truncated is not None


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.binary(max_size=400), st.booleans())
def test_any_bytes_are_refused_in_words(
    tmp_path_factory: pytest.TempPathFactory, data: bytes, magic: bool
) -> None:
    path = tmp_path_factory.getbasetemp() / "bytes.mcap"
    path.write_bytes((b"\x89MCAP0\r\n" if magic else b"") + data)
    with pytest.raises(RecordingError):
        Recording.open(path)


def test_what_is_no_recording_is_refused_in_words(tmp_path: Path) -> None:
    with pytest.raises(RecordingError, match="there is no file"):
        Recording.open(tmp_path / "missing.mcap")
    with pytest.raises(RecordingError, match="is a folder"):
        Recording.open(tmp_path)
    (tmp_path / "empty.mcap").touch()
    with pytest.raises(RecordingError, match="it is empty"):
        Recording.open(tmp_path / "empty.mcap")
    (tmp_path / "text.mcap").write_text("time,altitude\n")
    with pytest.raises(RecordingError, match="not an MCAP recording"):
        Recording.open(tmp_path / "text.mcap")
    RecordingFile(tmp_path / "other.mcap").close()
    with pytest.raises(RecordingError, match="the run ended before its start was recorded"):
        Recording.open(tmp_path / "other.mcap")
