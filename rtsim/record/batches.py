"""mcap's writer, extended to take many messages of one length at once, in a third of the time."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryFile
from types import FunctionType
from typing import IO, Any

import mcap.writer
import numpy as np
from mcap.data_stream import RecordBuilder
from mcap.opcode import Opcode
from mcap.records import ChunkIndex, MessageIndex
from mcap.writer import CompressionType, Writer
from numpy.typing import NDArray
from zlib_ng import zlib_ng

from rtsim.record.schema import TrackSpec

_HEAD = [
    ("opcode", "u1"),
    ("length", "<u8"),
    ("channel", "<u2"),
    ("sequence", "<u4"),
    ("log", "<i8"),
    ("publish", "<i8"),
]
_AFTER_LENGTH = 2 + 4 + 8 + 8


class _RowIndex(MessageIndex):
    """A message index that is filled with blocks of (time, offset)."""

    def __init__(self, channel: int) -> None:
        super().__init__(channel, [])
        self.blocks: list[NDArray[np.int64]] = []

    def write(self, stream: RecordBuilder) -> None:
        data = b"".join(block.tobytes() for block in self.blocks)
        stream.start_record(Opcode.MESSAGE_INDEX)
        stream.write2(self.channel_id)
        stream.write4(len(data))
        stream.write(data)
        stream.finish_record()  # type: ignore[no-untyped-call]


class _ChunkIndices:
    """The index of all chunks, which is written at the end of a file.

    mcap's writer keeps it as a list of objects, 0.8 kB for each MB of the file.  Here it is kept as
    bytes, and in a temporary file without a name if it is long and ``folder`` can have one.
    """

    def __init__(self, folder: Path | None) -> None:
        self._bytes = bytearray()
        self._folder = folder
        self._spool: IO[bytes] | None = None
        self._spilled = 0
        """Bytes in the temporary file that count."""

    def append(self, index: ChunkIndex) -> None:
        builder = RecordBuilder()
        index.write(builder)
        self._bytes += builder.end()  # type: ignore[no-untyped-call]
        if len(self._bytes) > _IN_MEMORY and self._folder is not None:
            self._spill(self._folder)

    def _spill(self, folder: Path) -> None:
        """Move the bytes to the temporary file; if this fails, they all stay in memory."""
        try:
            if self._spool is None:
                self._spool = TemporaryFile(dir=folder, buffering=0)  # noqa: SIM115
            rest = memoryview(self._bytes)
            while rest:
                rest = rest[self._spool.write(rest) :]
        except OSError:
            self._folder = None
        else:
            self._spilled += len(self._bytes)
            self._bytes = bytearray()

    def __iter__(self) -> Iterator[_ChunkIndices]:
        """Give one record, which writes all of them."""
        yield self

    def write(self, stream: RecordBuilder) -> None:
        if self._spool is not None:
            with self._spool as spool:
                spool.seek(0)
                while left := self._spilled - spool.tell():
                    stream.write(spool.read(min(left, _IN_MEMORY)))
        stream.write(self._bytes)


_IN_MEMORY = 1 << 20
PRIVATE = (
    "_Writer__chunk_builder",
    "_Writer__chunk_indices",
    "_Writer__compression",
    "_Writer__maybe_finalize_chunk",
    "_Writer__statistics",
)
"""The private names of mcap's writer that :class:`BatchWriter` uses."""


class BatchWriter(Writer):
    """A writer that adds arrays of rows directly to the private chunk builder of mcap's writer.

    mcap's ``add_message`` takes 6 us a row, ten times the time of encoding the row.  If a version
    of mcap has no such chunk builder, rows are added with ``add_message``. pyproject.toml bounds
    the version of mcap, and ``tests/unit/test_private_names.py`` fails for a version without the
    chunk builder.
    """

    def __init__(self, output: Any, chunk_size: int = 1 << 20, folder: Path | None = None) -> None:
        """``folder``: for a temporary file, which a recording of many GB needs."""
        super().__init__(output, chunk_size, CompressionType.LZ4, enable_data_crcs=True)
        if hasattr(self, "_Writer__chunk_indices"):
            self._Writer__chunk_indices: Any = _ChunkIndices(folder)
        self._messages: dict[int, NDArray[np.void]] = {}
        self.behind = False
        """If True, rows arrive faster than they can be compressed, and full chunks are not
        compressed (docs/decisions/133)."""

    def add_rows(self, channel: int, words: NDArray[np.int64], spec: TrackSpec, first: int) -> None:
        """Add the rows ``words`` (n, width) of a track to ``channel``, n >= 1.

        ``first``: sequence number of the first row.
        """
        if not all(hasattr(self, name) for name in PRIVATE):
            self._add_one_by_one(channel, words, spec, first)
            return
        count, ns = len(words), words[:, 0]
        rows = self._rows(channel, spec, count)
        rows["sequence"] = (first + np.arange(count)) & 0xFFFFFFFF
        rows["log"] = rows["publish"] = ns
        if spec.wire.names:
            spec.fill(rows["data"], words)
        chunk: Any = self._Writer__chunk_builder  # type: ignore[attr-defined]
        index = chunk.message_indices.get(channel)
        if index is None:
            index = chunk.message_indices[channel] = _RowIndex(channel)
        offsets = chunk.count + rows.itemsize * np.arange(count)
        index.blocks.append(np.stack([ns, offsets], axis=1))
        chunk.record_writer.write(rows.view(np.uint8).data)
        low, high = int(ns.min()), int(ns.max())
        for known in (chunk, self._Writer__statistics):  # type: ignore[attr-defined]
            empty = (chunk.num_messages if known is chunk else known.message_count) == 0
            known.message_start_time = low if empty else min(low, known.message_start_time)
            known.message_end_time = max(high, known.message_end_time)
        chunk.num_messages += count
        statistics: Any = self._Writer__statistics  # type: ignore[attr-defined]
        statistics.message_count += count
        statistics.channel_message_counts[channel] += count
        self._Writer__compression = CompressionType.NONE if self.behind else CompressionType.LZ4
        self._Writer__maybe_finalize_chunk()  # type: ignore[attr-defined]
        self._Writer__compression = CompressionType.LZ4

    def _rows(self, channel: int, spec: TrackSpec, count: int) -> NDArray[np.void]:
        """Return memory for ``count`` messages; everything that all messages share is there."""
        known = self._messages.get(channel)
        if known is None or len(known) < count:
            layout = [*_HEAD, ("data", spec.wire)] if spec.wire.names else _HEAD
            known = np.empty(count, layout)
            self._messages[channel] = known
            known["opcode"] = Opcode.MESSAGE
            known["length"] = spec.wire.itemsize + _AFTER_LENGTH
            known["channel"] = channel
            if spec.wire.names:
                known["data"] = spec.blank(count)
        return known[:count]

    def _add_one_by_one(
        self, channel: int, words: NDArray[np.int64], spec: TrackSpec, first: int
    ) -> None:
        payload, size = spec.encode(words), spec.wire.itemsize
        for i, time in enumerate(words[:, 0].tolist()):
            data = payload[i * size : (i + 1) * size]
            self.add_message(channel, time, data, time, (first + i) & 0xFFFFFFFF)


def _use_zlib_ng() -> None:
    """Give :class:`BatchWriter` copies of mcap's methods that compute checksums with zlib-ng.

    The checksums of Python's zlib took a quarter of the time of the writing process
    (docs/decisions/154).  mcap's own module keeps Python's zlib, because the user's program may use
    mcap too.
    """
    names = {**vars(mcap.writer), "zlib": zlib_ng}
    for name, method in vars(Writer).items():
        if isinstance(method, FunctionType) and "zlib" in method.__code__.co_names:
            copied = FunctionType(
                method.__code__, names, name, method.__defaults__, method.__closure__
            )
            copied.__kwdefaults__ = method.__kwdefaults__
            setattr(BatchWriter, name, copied)


_use_zlib_ng()
