"""The chunks of an MCAP file: unpacked on demand, and split into blocks of equal messages.

A recording may be larger than memory.  Unpacked chunks of a small file stay in memory; chunks of a
large file are unpacked again when needed.  The size that a chunk declares is checked against what
its bytes can contain, so that a malicious file cannot fill memory.
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
from typing import IO, Any, NamedTuple

import lz4.frame  # type: ignore[import-untyped]
import numpy as np
import zstandard
from mcap.data_stream import ReadDataStream
from mcap.exceptions import McapError
from mcap.opcode import Opcode
from mcap.records import Chunk
from numpy.typing import NDArray

from rtsim.core.errors import RecordingError

SMALL = 1 << 26
"""A file that unpacks to at most this many bytes stays in memory."""
LARGEST_CHUNK = 1 << 26
DENSEST = 1024
"""Greatest accepted compression ratio of a large file; 1000 constant signals stay below it."""
MOST_CACHED = 1 << 23
RECORD = struct.Struct("<BQ")
MESSAGE = struct.Struct("<HIQQ")
HEAD = RECORD.size + MESSAGE.size
"""Size of a message before its payload, bytes."""
BROKEN = (McapError, struct.error, ValueError, OverflowError, RuntimeError, zstandard.ZstdError)
_LZ4_DENSEST = 256  # no LZ4 block unpacks to more than 255 times its size
_PIECE = 1 << 20
_ALIKE = RECORD.size + 2  # type, length and channel
_LOOKED = 64  # number of messages in the first comparison
_CHANNEL = struct.Struct("<HHI")  # id, schema, and the length of the topic


class MessageBlock(NamedTuple):
    """``many`` consecutive messages of one channel and one length, the first at byte ``at``."""

    channel: int
    at: int
    many: int
    size: int
    """Bytes of a payload."""


class Declared(NamedTuple):
    """The declaration of a channel."""

    channel: int
    topic: str


class Chunks:
    """The chunks of ``file``, by number.

    ``name`` is the name of the file in error messages.  The file is closed when this object is
    garbage-collected.
    """

    def __init__(self, name: str, file: IO[bytes]) -> None:
        self.name, self.file = name, file
        self.unpacked = 0
        """Unpacked bytes of all chunks so far."""
        self._at, self._length = array("q"), array("q")
        self._kept: OrderedDict[int, bytes] = OrderedDict()
        self._kept_bytes = 0
        self._then = _state(file)
        self.columns: dict[int, tuple[int, NDArray[np.int64]]] = {}
        """The columns read last, by reader: number of the first cached column, and the columns."""
        weakref.finalize(self, file.close)

    def __len__(self) -> int:
        return len(self._at)

    @property
    def small(self) -> bool:
        """True if the whole file is in memory."""
        return self.unpacked <= SMALL

    def add(self, at: int, body: bytes, read: int) -> bytes:
        """Add the chunk that begins at byte ``at`` of the file, and return its unpacked data.

        ``read``: bytes of the file that were read so far.  Raises ``ValueError`` for a damaged
        chunk, and :class:`RecordingError` for a chunk that declares more data than a recording can
        contain.
        """
        chunk = whole(Chunk, body)
        _check_size(chunk)
        if self.unpacked + chunk.uncompressed_size > SMALL + DENSEST * read:
            raise RecordingError(
                f"{self.name} is refused: its first {read} bytes declare "
                f"{self.unpacked + chunk.uncompressed_size} unpacked bytes, which is more than "
                "a recording can contain; the file could fill the memory of this machine"
            )
        data = _checked(chunk)
        self.unpacked += len(data)
        self._at.append(at)
        self._length.append(len(body))
        self._keep(len(self._at) - 1, data)
        return data

    def data(self, number: int) -> bytes:
        """Return the data of chunk ``number``.

        Raises :class:`RecordingError` if the file has changed since it was opened.
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
    """The messages of one topic in the order of the file, as blocks of equal messages."""

    chunks: Chunks
    count: int = 0
    size: int | None = None
    """Bytes of a payload; ``None`` before the first."""
    uneven: bool = False
    """True if the payloads have different sizes."""
    total: int = 0
    """Bytes of all payloads."""
    _where: array[int] = field(default_factory=lambda: array("q"))
    _first: array[int] = field(default_factory=lambda: array("q"))
    _at: array[int] = field(default_factory=lambda: array("q"))
    """For each block: the number of its chunk, the number of messages before the block, and the
    byte in the chunk at which the block begins."""

    def add(self, chunk: int, run: MessageBlock) -> None:
        """Append a block of messages that is in ``chunk``."""
        self._where.append(chunk)
        self._first.append(self.count)
        self._at.append(run.at)
        self.uneven |= self.size not in (None, run.size)
        self.size = run.size
        self.count += run.many
        self.total += run.many * run.size

    def runs(self, first: int = 0) -> Iterator[tuple[int, int, bytes, int]]:
        """Give the blocks from message ``first`` on: number, count, data, and byte in the data."""
        begin = max(0, bisect_right(self._first, first) - 1)
        for k in range(begin, len(self._where)):
            number = self._first[k]
            behind = self._first[k + 1] if k + 1 < len(self._first) else self.count
            yield number, behind - number, self.chunks.data(self._where[k]), self._at[k]

    def each(self) -> Iterator[tuple[int, bytes]]:
        """Give time (ns) and payload of every message."""
        for _, many, data, at in self.runs():
            for _ in range(many):
                _, length = RECORD.unpack_from(data, at)
                _, _, time, _ = MESSAGE.unpack_from(data, at + RECORD.size)
                stop = at + RECORD.size + length
                yield time, data[at + HEAD : stop]
                at = stop


def runs(data: bytes) -> Iterator[MessageBlock | Declared]:
    """Give the contents of a chunk in order; raises ``ValueError`` if they are damaged."""
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
    """Return the number of consecutive messages from ``at`` on with this channel and length."""
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
    """Return ``body`` as one record; raises ``ValueError`` if bytes are left over."""
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
    """Return the data of a chunk; memory grows with the actual data, not with the declared size."""
    size = _check_size(chunk)
    data: bytes = chunk.data
    if chunk.compression == "lz4":
        if size > _LZ4_DENSEST * len(data):
            raise ValueError(f"a chunk of {len(data)} bytes declares {size} unpacked bytes")
        data = lz4.frame.LZ4FrameDecompressor().decompress(data, max_length=size + 1)
    elif chunk.compression == "zstd":
        with zstandard.ZstdDecompressor().stream_reader(data) as reader:
            parts = list(itertools.takewhile(len, _pieces(reader, size + 1)))
        data = b"".join(parts)
    elif chunk.compression:
        raise ValueError(f"the compression {chunk.compression!r} is unknown")
    if len(data) != size:
        raise ValueError(f"a chunk of {len(data)} bytes declares {size} unpacked bytes")
    return data


def _pieces(reader: IO[bytes], most: int) -> Iterator[bytes]:
    for _ in range(most // _PIECE + 1):
        yield reader.read(_PIECE)
