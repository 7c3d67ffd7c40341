"""The process that writes a recording: its checksums, and the wait for its end."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import zlib
from pathlib import Path
from unittest.mock import patch

import mcap.writer
import numpy as np
import pytest
from mcap.opcode import Opcode
from mcap.reader import make_reader
from mcap.records import Chunk
from mcap.stream_reader import StreamReader, breakup_chunk
from zlib_ng import zlib_ng

from rtsim.core.signals import Signals
from rtsim.record.schema import TrackSpec
from rtsim.record.writer import BatchWriter, RecordingFile
from rtsim.record.writer_process import FrameKind, RecordFrame, await_end


def written(path: Path) -> list[Chunk]:
    """Write a recording of several chunks; return the chunks, whose checksums mcap has checked."""
    spec = TrackSpec("p", (), Signals("x"))
    text = json.dumps({"header": {}, "tracks": [spec.to_json()]}).encode()
    words = np.stack([np.arange(30_000), np.ones(30_000).view(np.int64)], axis=1)
    file = RecordingFile(path)
    file.take(RecordFrame(FrameKind.START, 0, text))
    for behind in (True, False):
        file.take(RecordFrame(FrameKind.ROWS, 0, words.tobytes()), behind)
    file.close()
    with path.open("rb") as stream:
        records = list(StreamReader(stream, emit_chunks=True, validate_crcs=True).records)
    return [record for record in records if isinstance(record, Chunk)]


def test_zlib_ng_computes_all_checksums_of_much_data(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An mcap that calls another function would compute them four times as slowly."""
    summed = [0]

    def counted(data: bytes, start: int = 0) -> int:
        summed[0] += len(data)
        return zlib.crc32(data, start)

    monkeypatch.setattr("zlib_ng.zlib_ng.crc32", counted)
    chunks = written(tmp_path / "a.mcap")
    assert summed[0] >= sum(chunk.uncompressed_size + len(chunk.data) for chunk in chunks)


def test_checksums_are_those_of_mcap(tmp_path: Path) -> None:
    chunks = written(tmp_path / "a.mcap")
    assert all(chunk.uncompressed_crc for chunk in chunks)
    assert all(breakup_chunk(chunk, validate_crc=True) for chunk in chunks)
    assert zlib.crc32(b"recording") == zlib_ng.crc32(b"recording")


def test_the_module_of_mcap_keeps_its_own_checksums() -> None:
    """A program that writes MCAP files beside rtsim uses mcap as it was installed."""
    assert mcap.writer.zlib is zlib  # type: ignore[attr-defined]
    assert mcap.writer.Writer.finish is not BatchWriter.finish


@pytest.mark.parametrize("in_memory", [1 << 20, 100])
def test_mcap_reads_the_index_of_the_chunks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, in_memory: int
) -> None:
    monkeypatch.setattr("rtsim.record.writer._IN_MEMORY", in_memory)
    path = tmp_path / "a.mcap"
    chunks = written(path)
    assert len(chunks) > 1
    assert list(tmp_path.iterdir()) == [path], "the temporary file is gone"
    data = path.read_bytes()
    with path.open("rb") as stream:
        summary = make_reader(stream).get_summary()
    assert summary is not None
    found = [
        (i.message_start_time, i.message_end_time, i.compression, i.uncompressed_size)
        for i in summary.chunk_indexes
    ]
    assert found == [
        (c.message_start_time, c.message_end_time, c.compression, c.uncompressed_size)
        for c in chunks
    ]
    for index in summary.chunk_indexes:
        assert data[index.chunk_start_offset] == Opcode.CHUNK
        assert {data[at] for at in index.message_index_offsets.values()} == {Opcode.MESSAGE_INDEX}


def test_an_index_that_finds_no_folder_stays_in_memory(tmp_path: Path) -> None:
    spec = TrackSpec("p", (), Signals("x"))
    words = np.zeros((1, 2), np.int64)
    summaries = []
    for folder in (tmp_path, tmp_path / "gone"):
        data = io.BytesIO()
        with patch("rtsim.record.writer._IN_MEMORY", 200):
            writer = BatchWriter(data, 1 << 20, folder)
            writer.start()
            channel = writer.register_channel("p", "", writer.register_schema("p", "", b""))
            for i in range(9):
                writer.add_rows(channel, words, spec, i)
                writer.flush()  # type: ignore[no-untyped-call]
            writer.finish()  # type: ignore[no-untyped-call]
        data.seek(0)
        summaries.append(make_reader(data).get_summary())
    assert summaries[0] is not None
    assert len(summaries[0].chunk_indexes) == 9
    assert vars(summaries[0]) == vars(summaries[1])


def test_the_end_of_a_process_is_waited_for_in_one_call() -> None:
    """``Popen.wait`` with a limit would look at it after sleeps that double."""
    ended = subprocess.Popen([sys.executable, "-c", ""])
    with pytest.MonkeyPatch.context() as patch:
        if hasattr(os, "pidfd_open"):
            patch.setattr("time.sleep", lambda _: pytest.fail("the wait sleeps"))
        await_end(ended, 60.0)
    assert ended.returncode == 0
    await_end(ended, 60.0)


def test_a_process_that_does_not_end_is_waited_for_no_longer_than_asked() -> None:
    command = [sys.executable, "-c", "input()"]
    with subprocess.Popen(command, stdin=subprocess.PIPE) as stays:
        with pytest.raises(subprocess.TimeoutExpired):
            await_end(stays, 0.01)
        stays.kill()
