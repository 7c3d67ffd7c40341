"""Chunks of an MCAP file, which are decompressed when their data are read.

A recording may be larger than memory. The decompressed chunks of a small file stay in memory. The
declared size of a chunk is checked, so that a malicious file cannot fill the memory.
"""

from __future__ import annotations

import io
import itertools
import os
import struct
import weakref
import zlib
from array import array
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, NamedTuple, TypeAlias

import lz4.frame  # type: ignore[import-untyped]
import numpy as np
import zstandard
from mcap.data_stream import ReadDataStream
from mcap.exceptions import McapError
from mcap.opcode import Opcode
from mcap.records import Channel, Chunk, DataEnd, Footer, Metadata
from mcap.writer import MCAP0_MAGIC
from numpy.typing import NDArray

from rtsim.core.errors import RecordingError
from rtsim.record.schema import TrackSpec, Words

SMALL = 1 << 26
"""Maximum decompressed size of a file that is kept in memory [bytes]."""
LARGEST_CHUNK = 1 << 26
DENSEST = 1024
"""Maximum accepted compression ratio of a large file. Recordings of 1000 constant signals have a
lower ratio.
"""
MOST_CACHED = 1 << 23
RECORD = struct.Struct("<BQ")
MESSAGE = struct.Struct("<HIQQ")
HEAD = RECORD.size + MESSAGE.size
"""Size of a message before its payload [bytes]."""
BROKEN = (McapError, struct.error, ValueError, OverflowError, RuntimeError, zstandard.ZstdError)
_LZ4_DENSEST = 256  # an LZ4 block expands at most 255 times
_PIECE = 1 << 20
_ALIKE = RECORD.size + 2  # type, length and channel
_LOOKED = 64  # number of messages in the first comparison
_CHANNEL = struct.Struct("<HHI")  # id, schema, and the length of the topic


class MessageBlock(NamedTuple):
    """``many`` messages of equal length in one channel, from byte ``at`` on."""

    channel: int
    at: int
    many: int
    size: int
    """Size of a payload [bytes]."""


class Declared(NamedTuple):
    """The declaration of a channel."""

    channel: int
    topic: str


class Chunks:
    """The chunks of ``file``, by number.

    ``name`` is the name of the file in error messages. The file is closed when this object is
    garbage-collected.
    """

    def __init__(self, name: str, file: IO[bytes]) -> None:
        self.name, self.file = name, file
        self.unpacked = 0
        """Decompressed size of all chunks so far [bytes]."""
        self._at, self._length = array("q"), array("q")
        self._kept: OrderedDict[int, bytes] = OrderedDict()
        self._kept_bytes = 0
        self._then = _state(file)
        self.columns: dict[int, tuple[int, NDArray[np.int64]]] = {}
        """Cached columns of each reader: the number of the first cached column, and the columns."""
        weakref.finalize(self, file.close)

    def __len__(self) -> int:
        return len(self._at)

    @property
    def small(self) -> bool:
        return self.unpacked <= SMALL

    def add(self, at: int, body: bytes, read: int) -> bytes:
        """Add the chunk at the file position ``at``, and return its decompressed data.

        ``read`` is the number of bytes of the file that were read so far. Raises ``ValueError`` for
        a damaged chunk, and ``RecordingError`` for a chunk of impossible size.
        """
        chunk = whole(Chunk, body)
        _check_size(chunk)
        if self.unpacked + chunk.uncompressed_size > SMALL + DENSEST * read:
            raise RecordingError(
                f"{self.name} is refused: its first {read} bytes would unpack to "
                f"{self.unpacked + chunk.uncompressed_size} bytes, which is more than a recording "
                "can contain and could fill the memory of this machine"
            )
        data = _checked(chunk)
        self.unpacked += len(data)
        self._at.append(at)
        self._length.append(len(body))
        self._keep(len(self._at) - 1, data)
        return data

    def data(self, number: int) -> bytes:
        """Return the data of chunk ``number``.

        Raises ``RecordingError`` if the file cannot be read or has changed.
        """
        found = self._kept.get(number)
        if found is not None:
            self._kept.move_to_end(number)
            return found
        try:
            self.file.seek(self._at[number])
            chunk = whole(Chunk, self.file.read(self._length[number]))
            data = _checked(chunk) if _state(self.file) != self._then else _unpacked(chunk)
        except OSError as error:
            raise RecordingError(f"cannot read {self.name}: {error.strerror}") from error
        except BROKEN as error:
            raise RecordingError(
                f"{self.name} was changed while it was read ({error}); read it again"
            ) from error
        self._keep(number, data)
        return data

    def _keep(self, number: int, data: bytes) -> None:
        self._kept[number] = data
        self._kept_bytes += len(data)
        most = SMALL if self.small else MOST_CACHED
        while self._kept_bytes > most and len(self._kept) > 1:
            self._kept_bytes -= len(self._kept.popitem(last=False)[1])


@dataclass
class Messages:
    """The messages of a topic in file order, as blocks of messages with equal lengths."""

    chunks: Chunks
    count: int = 0
    size: int | None = None
    """Size of a payload [bytes]; ``None`` before the first message."""
    uneven: bool = False
    """True if the payloads have different sizes."""
    total: int = 0
    """Size of all payloads [bytes]."""
    _where: array[int] = field(default_factory=lambda: array("q"))
    _first: array[int] = field(default_factory=lambda: array("q"))
    _at: array[int] = field(default_factory=lambda: array("q"))
    """Position of each block.

    The arrays contain the number of the chunk, the number of messages before the block, and the
    first byte of the block within the chunk.
    """

    def add(self, chunk: int, run: MessageBlock) -> None:
        self._where.append(chunk)
        self._first.append(self.count)
        self._at.append(run.at)
        self.uneven |= self.size not in (None, run.size)
        self.size = run.size
        self.count += run.many
        self.total += run.many * run.size

    def runs(self, first: int = 0) -> Iterator[tuple[int, int, bytes, int]]:
        """Yield the blocks from message ``first`` on.

        A block is a tuple: number of its first message, number of messages, data, and position in
        the data.
        """
        begin = max(0, bisect_right(self._first, first) - 1)
        for k in range(begin, len(self._where)):
            number = self._first[k]
            behind = self._first[k + 1] if k + 1 < len(self._first) else self.count
            yield number, behind - number, self.chunks.data(self._where[k]), self._at[k]

    def each(self) -> Iterator[tuple[int, bytes]]:
        """Yield time [ns] and payload of every message."""
        for _, many, data, at in self.runs():
            for _ in range(many):
                _, length = RECORD.unpack_from(data, at)
                _, _, time, _ = MESSAGE.unpack_from(data, at + RECORD.size)
                stop = at + RECORD.size + length
                yield time, data[at + HEAD : stop]
                at = stop


def runs(data: bytes) -> Iterator[MessageBlock | Declared]:
    """Yield the contents of a chunk in file order; raise ``ValueError`` if damaged."""
    at, end = 0, len(data)
    while at < end:
        opcode, length = RECORD.unpack_from(data, at)
        stop = at + RECORD.size + length
        if stop > end:
            raise ValueError("a message is longer than its chunk")
        if opcode == Opcode.MESSAGE:
            if length < MESSAGE.size:
                raise ValueError(f"a message has {length} bytes, which is too short")
            (channel,) = struct.unpack_from("<H", data, at + RECORD.size)
            count = _alike(data, at, stop - at)
            yield MessageBlock(channel, at, count, length - MESSAGE.size)
            stop = at + count * (stop - at)
        elif opcode == Opcode.CHANNEL:
            yield _declared(data[at + RECORD.size : stop])
        at = stop


def _alike(data: bytes, at: int, stride: int) -> int:
    if data[at + stride : at + stride + _ALIKE] != data[at : at + _ALIKE]:
        return 1
    count, look = 1, _LOOKED
    while True:
        begin = at + count * stride
        there = min(look, (len(data) - begin) // stride)
        if not there:
            return count
        same = np.ones(there, np.bool_)
        for part in (0, _ALIKE - 8):  # two overlapping words cover type, length and channel
            words = np.ndarray(there, "<u8", data, begin + part, (stride,))
            same &= words == int.from_bytes(data[at + part : at + part + 8], "little")
        if not same.all():
            return count + int(same.argmin())
        count += there
        look = len(data)


def _declared(body: bytes) -> Declared:
    channel, _, length = _CHANNEL.unpack_from(body)
    topic = body[_CHANNEL.size : _CHANNEL.size + length]
    if len(topic) != length:
        raise ValueError("the name of a channel is cut off")
    return Declared(channel, str(topic, "utf-8"))


def whole(kind: Any, body: bytes) -> Any:
    """Parse ``body`` as one record; raise ``ValueError`` if bytes remain."""
    stream = ReadDataStream(io.BytesIO(body))
    record = kind.read(stream)
    if stream.count != len(body):
        raise ValueError(f"the record is {len(body) - stream.count} bytes too long")
    return record


def _state(file: IO[bytes]) -> tuple[int, int]:
    found = os.fstat(file.fileno())
    return found.st_size, found.st_mtime_ns


def _checked(chunk: Chunk) -> bytes:
    data = _unpacked(chunk)
    if chunk.uncompressed_crc and zlib.crc32(data) != chunk.uncompressed_crc:
        raise ValueError("the checksum of the chunk is wrong")
    return data


def _check_size(chunk: Chunk) -> int:
    size: int = chunk.uncompressed_size
    if size > LARGEST_CHUNK:
        raise ValueError(f"a chunk declares {size} bytes; at most {LARGEST_CHUNK} are accepted")
    return size


def _unpacked(chunk: Chunk) -> bytes:
    size = _check_size(chunk)
    data: bytes = chunk.data
    if chunk.compression == "lz4":
        if size > _LZ4_DENSEST * len(data):
            raise ValueError(
                f"a chunk of {len(data)} bytes declares {size} unpacked bytes, which is more than "
                "lz4 can pack into the chunk"
            )
        data = lz4.frame.LZ4FrameDecompressor().decompress(data, max_length=size + 1)
    elif chunk.compression == "zstd":
        with zstandard.ZstdDecompressor().stream_reader(data) as reader:
            parts = list(itertools.takewhile(len, _pieces(reader, size + 1)))
        data = b"".join(parts)
    elif chunk.compression:
        raise ValueError(f"the compression {chunk.compression!r} is unknown")
    if len(data) != size:
        found = "more" if len(data) > size else f"only {len(data)}"
        raise ValueError(f"a chunk declares {size} unpacked bytes, but contains {found}")
    return data


def _pieces(reader: IO[bytes], most: int) -> Iterator[bytes]:
    for _ in range(most // _PIECE + 1):
        yield reader.read(_PIECE)


# Reading of incomplete or damaged files. The file is read record by record from its start, and each
# record is checked. Reading ends at the first record that is incomplete or damaged. The mcap
# library parses the records.

LARGEST_RECORD = 1 << 29
MOST_CHANNELS = 1 << 16
_INDEX = struct.Struct("<HI")


class _Damaged(Exception):
    """The file is incomplete or damaged at this position."""


@dataclass
class Salvaged:
    """The readable part of a file: metadata and messages.

    ``broken`` says where and why reading ended early.
    """

    chunks: Chunks
    metadata: dict[str, dict[str, str]] = field(default_factory=dict)
    topics: dict[str, Messages] = field(default_factory=dict)
    broken: str | None = None
    complete: bool = False
    """True if all data were read. The index behind the data may still be missing."""


def salvage(path: Path) -> Salvaged:
    """Read the file ``path`` as far as possible.

    Raises ``RecordingError`` if no part of the file is readable, or if its data are too large.
    """
    try:
        file = open(path, "rb")  # noqa: SIM115 -- the chunks use the file and close it
        return _Walk(path, file, os.fstat(file.fileno()).st_size).run()
    except IsADirectoryError:
        raise RecordingError(f"{path} is a folder; give the recording's file name") from None
    except FileNotFoundError:
        raise RecordingError(f"there is no file {path}") from None
    except OSError as error:
        raise RecordingError(f"cannot read {path}: {error.strerror}") from error


class _Walk:
    def __init__(self, path: Path, file: IO[bytes], size: int) -> None:
        self.path = path
        self.file = file
        self.size = size
        self.crc = 0
        self.out = Salvaged(Chunks(str(path), file))
        self.channels: dict[int, Messages] = {}
        self.declared = self.messages = 0

    def run(self) -> Salvaged:
        magic = self._read(len(MCAP0_MAGIC))
        if magic != MCAP0_MAGIC:
            found = "it is empty" if not magic else f"it begins with {magic!r}"
            raise RecordingError(f"{self.path} is not an MCAP recording: {found}")
        try:
            while not self.out.complete:
                self._step()
            self._check_end()
        except _Damaged as error:
            self.out.broken = str(error)
        return self.out

    def _read(self, size: int) -> bytes:
        data = self.file.read(size)
        self.crc = zlib.crc32(data, self.crc)
        return data

    def _step(self) -> None:
        at = self.file.tell()
        before = self.crc
        head = self._read(RECORD.size)
        if len(head) < RECORD.size:
            raise _Damaged(f"the file ends at byte {self.size}")
        opcode, length = RECORD.unpack(head)
        if length > self.size - at - RECORD.size:
            raise _Damaged(f"the file is cut off inside a record, at byte {self.size}")
        if length > LARGEST_RECORD:
            raise _Damaged(f"the record at byte {at} declares {length} bytes, which is too long")
        body = self._read(length)
        if opcode == Opcode.DATA_END:
            self.crc = before
        try:
            self._take(opcode, body)
        except BROKEN as error:
            raise _Damaged(f"the record at byte {at} is damaged ({error})") from error

    def _take(self, opcode: int, body: bytes) -> None:
        if opcode == Opcode.CHUNK:
            self._take_chunk(body)
        elif opcode == Opcode.METADATA:
            metadata = whole(Metadata, body)
            self.out.metadata[metadata.name] = metadata.metadata
        elif opcode == Opcode.CHANNEL:
            channel = whole(Channel, body)
            self._take_channel(channel.id, channel.topic)
        elif opcode == Opcode.DATA_END:
            expected = whole(DataEnd, body).data_section_crc
            if expected not in (0, self.crc):
                raise ValueError("the checksum of the whole file is wrong")
            self.out.complete = True
        elif opcode == Opcode.MESSAGE_INDEX:
            # The index is not used, but a damaged opcode could make a chunk look like an index.
            if _INDEX.unpack_from(body)[1] != len(body) - _INDEX.size:
                raise ValueError("the message index has a wrong length")
        elif opcode not in (Opcode.HEADER, Opcode.ATTACHMENT, Opcode.SCHEMA):
            raise ValueError(f"a record of type {opcode} is not allowed in the data section")

    def _take_chunk(self, body: bytes) -> None:
        read = self.file.tell()
        chunks = self.out.chunks
        data = chunks.add(read - len(body), body, read)
        for found in runs(data):
            if not isinstance(found, MessageBlock):
                self._take_channel(*found)
                continue
            into = self.channels.get(found.channel)
            if into is None:
                raise ValueError(
                    f"a message belongs to channel {found.channel}, which the file does not declare"
                )
            self.messages += found.many
            if self.messages > self.size:
                raise RecordingError(
                    f"{self.path} is refused: it declares {self.messages} messages in "
                    f"{self.size} bytes, which is more than a recording can contain; the file "
                    "could fill the memory of this machine"
                )
            into.add(len(chunks) - 1, found)

    def _take_channel(self, number: int, topic: str) -> None:
        self.declared += 1
        if self.declared > MOST_CHANNELS:
            raise ValueError(f"the file declares more than {MOST_CHANNELS} channels")
        into = self.out.topics.setdefault(topic, Messages(self.out.chunks))
        if self.channels.setdefault(number, into) is not into:
            raise ValueError(f"channel {number} is declared twice, last as {topic}")

    def _check_end(self) -> None:
        self.file.seek(max(0, self.size - len(MCAP0_MAGIC) - 29))
        tail = self.file.read()
        if not tail.endswith(MCAP0_MAGIC) or tail[:1] != bytes([Opcode.FOOTER]):
            self.out.broken = "the index at its end is incomplete, but its data is complete"
            return
        body = tail[RECORD.size : -len(MCAP0_MAGIC)]
        try:
            whole(Footer, body)
        except BROKEN:
            self.out.broken = "the index at its end is damaged, but its data is not"


# Rows in a file. A slice of rows is not read yet; columns and single rows are read as arrays.

TOGETHER = 100 << 20
"""Size of the columns that are read in one pass and cached [bytes].

One pass over the file takes the same time for ten columns as for one.
"""
PIECE = 1 << 24
"""Default size of the pieces of :func:`pieces` [bytes]."""

_NONE = np.empty((0, 0), np.int64)


class StoredWords:
    """The rows of a track from index ``first`` to index ``stop`` (excluded).

    :class:`TrackSpec` describes the columns.
    """

    def __init__(
        self, spec: TrackSpec, messages: Messages, first: int = 0, stop: int | None = None
    ) -> None:
        self._spec, self._messages = spec, messages
        self._first = first
        self._stop = messages.count if stop is None else stop

    @property
    def shape(self) -> tuple[int, int]:
        return len(self), self._spec.width

    def __len__(self) -> int:
        return self._stop - self._first

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        if copy is False:
            raise ValueError(
                "rows that are stored in a file can only be copied into an array; leave "
                "copy=False out"
            )
        out = self._read(0, self._spec.width, self._first, self._stop, "C")
        return out if dtype is None else out.astype(dtype, copy=False)

    def tobytes(self) -> bytes:
        return np.asarray(self).tobytes()

    def tolist(self) -> list[list[int]]:
        out: list[list[int]] = np.asarray(self).tolist()
        return out

    def __getitem__(self, key: Any) -> Any:
        """Return the rows of a slice or a mask, or a single row. A second index selects columns."""
        rows, columns = key if isinstance(key, tuple) else (key, slice(None))
        if isinstance(rows, slice):
            part = self._between(rows)
            if part is None:
                return np.asarray(self)[key]
            return part if not isinstance(key, tuple) else part._columns(columns)
        if isinstance(rows, int | np.integer):
            at = range(len(self))[int(rows)] + self._first
            return self._read(0, self._spec.width, at, at + 1, "C")[0][columns]
        chosen = np.asarray(rows)
        if chosen.dtype == bool and not isinstance(key, tuple):
            there = np.flatnonzero(chosen)
            if not len(there) or there[-1] - there[0] + 1 == len(there):
                begin = int(there[0]) if len(there) else 0
                return self[begin : begin + len(there)]
        return np.asarray(self)[key]

    def _between(self, rows: slice) -> StoredWords | None:
        first, stop, step = rows.indices(len(self))
        if step != 1:
            return None
        first, stop = self._first + first, self._first + max(first, stop)
        return StoredWords(self._spec, self._messages, first, stop)

    def _columns(self, columns: Any) -> NDArray[np.int64]:
        if not isinstance(columns, int | np.integer | slice):
            return np.asarray(self)[:, columns]
        chosen = range(self._spec.width)[columns]
        if isinstance(chosen, int):
            return self._column(chosen).copy()
        out = np.empty((len(self), len(chosen)), np.int64, "F")
        for k, column in enumerate(chosen):
            out[:, k] = self._column(column)
        return out

    def _column(self, column: int) -> NDArray[np.int64]:
        all_rows = self._messages.count
        kept = self._messages.chunks.columns
        first, block = kept.get(id(self._messages), (0, _NONE))
        if not first <= column < first + block.shape[1]:
            block = _NONE
            kept.clear()  # free the memory of the previous columns first
            many = max(1, TOGETHER // max(1, 8 * all_rows))
            first, last = column, min(self._spec.width, column + many)
            block = self._read(first, last, 0, all_rows, "F")
            kept[id(self._messages)] = first, block
        return block[self._first : self._stop, column - first]

    def _read(self, low: int, high: int, first: int, stop: int, order: Any) -> NDArray[np.int64]:
        out = np.empty((max(0, stop - first), high - low), np.int64, order)
        for at, rows in self._records(first, stop):
            begin = max(0, first - at)
            rows = rows[begin : stop - at]
            into = out[at + begin - first : at + begin - first + len(rows)]
            if low == 0 and high > 0:
                into[:, 0] = rows["time"].astype(np.int64)
            if high > max(low, 1) and "row" in (rows.dtype.names or ()):
                fields = max(low, 1)
                self._spec.decode_columns(rows["row"], fields, into[:, fields - low :])
        return out

    def _records(self, first: int, stop: int) -> Iterator[tuple[int, NDArray[np.void]]]:
        if first >= stop:
            return
        layout = [("record", f"V{RECORD.size + 6}"), ("time", "<u8"), ("published", "<u8")]
        wire = self._spec.wire
        kind = np.dtype([*layout, ("row", wire)] if wire.itemsize else layout)
        assert kind.itemsize == HEAD + (self._messages.size or 0)
        for number, many, data, at in self._messages.runs(first):
            if number >= stop:
                return
            yield number, np.frombuffer(data, kind, many, at)


Table: TypeAlias = Words | StoredWords
"""Rows (n, width), in memory or in a file."""


def pieces(*tables: Table, size: int = PIECE) -> Iterator[tuple[int, tuple[Words, ...]]]:
    """Yield rows of several tables in pieces of about ``size`` bytes.

    A piece consists of the number of its first row, and one array of rows for each table.
    """
    shortest = min(map(len, tables))
    width = max(1, *(table.shape[1] for table in tables))
    rows = max(1, size // (8 * width))
    for first in range(0, shortest, rows):
        last = min(shortest, first + rows)
        yield first, tuple(np.asarray(table[first:last]) for table in tables)
