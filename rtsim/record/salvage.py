"""Everything that can be had out of an MCAP file, whole or not.

The file is walked from its start, record by record, and each is checked before it is believed; the
walk ends at the first one that is cut off or damaged.  Records are parsed by the ``mcap`` library.
"""

from __future__ import annotations

import io
import itertools
import os
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import lz4.frame  # type: ignore[import-untyped]
import zstandard
from mcap.data_stream import ReadDataStream
from mcap.exceptions import McapError
from mcap.opcode import Opcode
from mcap.records import Channel, Chunk, DataEnd, Footer, Metadata
from mcap.writer import MCAP0_MAGIC

from rtsim.errors import RecordingError

LARGEST_CHUNK = 1 << 28
LARGEST_RECORD = 1 << 29
_LZ4_DENSEST = 256  # no LZ4 block unpacks to more than 255 times its size
_PIECE = 1 << 20
_RECORD = struct.Struct("<BQ")
_MESSAGE = struct.Struct("<HIQQ")
_INDEX = struct.Struct("<HI")
_BROKEN = (McapError, struct.error, ValueError, OverflowError, RuntimeError, zstandard.ZstdError)


class _Damaged(Exception):
    """The rest of the file cannot be trusted."""


@dataclass
class Messages:
    """The messages of one topic, in the order of the file."""

    times: list[int] = field(default_factory=list)
    payloads: list[bytes] = field(default_factory=list)


@dataclass
class Salvaged:
    """Metadata by name, messages by topic; ``broken`` says where and why the walk ended early."""

    metadata: dict[str, dict[str, str]] = field(default_factory=dict)
    topics: dict[str, Messages] = field(default_factory=dict)
    broken: str | None = None
    complete: bool = False
    """All data was read; only the index after it may be missing."""


def salvage(path: Path) -> Salvaged:
    """Read ``path``; :class:`RecordingError` only where there is nothing to read at all."""
    try:
        with open(path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            return _Walk(path, file, size).run()
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
        self.out = Salvaged()
        self.channels: dict[int, Messages] = {}

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
        """One record."""
        at = self.file.tell()
        before = self.crc
        head = self._read(_RECORD.size)
        if len(head) < _RECORD.size:
            raise _Damaged(f"the file ends at byte {self.size}")
        opcode, length = _RECORD.unpack(head)
        if length > self.size - at - _RECORD.size:
            raise _Damaged(f"the file ends at byte {self.size}, inside a record")
        if length > LARGEST_RECORD:
            raise _Damaged(f"the record at byte {at} claims {length} bytes")
        body = self._read(length)
        if opcode == Opcode.DATA_END:
            self.crc = before
        try:
            self._take(opcode, body)
        except _BROKEN as error:
            raise _Damaged(f"the record at byte {at} is damaged ({error})") from error

    def _take(self, opcode: int, body: bytes) -> None:
        if opcode == Opcode.CHUNK:
            self._take_chunk(_whole(Chunk, body))
        elif opcode == Opcode.METADATA:
            metadata = _whole(Metadata, body)
            self.out.metadata[metadata.name] = metadata.metadata
        elif opcode == Opcode.CHANNEL:
            self._take_channel(_whole(Channel, body))
        elif opcode == Opcode.DATA_END:
            expected = _whole(DataEnd, body).data_section_crc
            if expected not in (0, self.crc):
                raise ValueError("the checksum of the whole file does not fit")
            self.out.complete = True
        elif opcode == Opcode.MESSAGE_INDEX:
            # Not needed, but a chunk whose opcode was damaged must not pass for one.
            if _INDEX.unpack_from(body)[1] != len(body) - _INDEX.size:
                raise ValueError("not a message index")
        elif opcode not in (Opcode.HEADER, Opcode.ATTACHMENT, Opcode.SCHEMA):
            raise ValueError(f"record type {opcode} where data was expected")

    def _take_chunk(self, chunk: Chunk) -> None:
        data = _unpacked(chunk)
        if chunk.uncompressed_crc and zlib.crc32(data) != chunk.uncompressed_crc:
            raise ValueError("its checksum does not fit")
        self._take_messages(data)

    def _take_messages(self, data: bytes) -> None:
        """The records of a chunk; runs once for each row of the recording.

        Messages stand in chunks only: those have a checksum, a message alone has none.
        """
        at, end = 0, len(data)
        record, message = _RECORD.unpack_from, _MESSAGE.unpack_from
        channels = self.channels
        head = _RECORD.size + _MESSAGE.size
        while at < end:
            opcode, length = record(data, at)
            stop = at + _RECORD.size + length
            if stop > end:
                raise ValueError("a message longer than its chunk")
            if opcode == Opcode.MESSAGE:
                channel, _, time, _ = message(data, at + _RECORD.size)
                into = channels.get(channel)
                if into is None:
                    raise ValueError(f"a message of channel {channel}, which is not declared")
                into.times.append(time)
                into.payloads.append(data[at + head : stop])
            elif opcode == Opcode.CHANNEL:
                self._take_channel(_whole(Channel, data[at + _RECORD.size : stop]))
            at = stop

    def _take_channel(self, channel: Channel) -> None:
        self.channels[channel.id] = self.out.topics.setdefault(channel.topic, Messages())

    def _check_end(self) -> None:
        """What follows the data is an index that can be rebuilt: worth a word, no more."""
        self.file.seek(max(0, self.size - len(MCAP0_MAGIC) - 29))
        tail = self.file.read()
        if not tail.endswith(MCAP0_MAGIC) or tail[:1] != bytes([Opcode.FOOTER]):
            self.out.broken = "its index at the end is incomplete, its data is not"
            return
        body = tail[_RECORD.size : -len(MCAP0_MAGIC)]
        try:
            _whole(Footer, body)
        except _BROKEN:
            self.out.broken = "its index at the end is damaged, its data is not"


def _whole(kind: Any, body: bytes) -> Any:
    """``body`` as one record, to its last byte."""
    stream = ReadDataStream(io.BytesIO(body))
    record = kind.read(stream)
    if stream.count != len(body):
        raise ValueError(f"{len(body) - stream.count} bytes too many")
    return record


def _unpacked(chunk: Chunk) -> bytes:
    """Its data, in memory that grows with what is there and not with what it claims."""
    size = chunk.uncompressed_size
    if size > LARGEST_CHUNK:
        raise ValueError(f"a chunk that claims {size} bytes; at most {LARGEST_CHUNK} are accepted")
    data: bytes = chunk.data
    if chunk.compression == "lz4":
        if size > _LZ4_DENSEST * len(data):
            raise ValueError(f"a chunk of {len(data)} bytes that claims {size}")
        data = lz4.frame.LZ4FrameDecompressor().decompress(data, max_length=size + 1)
    elif chunk.compression == "zstd":
        with zstandard.ZstdDecompressor().stream_reader(data) as reader:
            parts = list(itertools.takewhile(len, _pieces(reader, size + 1)))
        data = b"".join(parts)
    elif chunk.compression:
        raise ValueError(f"compression {chunk.compression!r} is not known")
    if len(data) != size:
        raise ValueError(f"a chunk of {len(data)} bytes that claims {size}")
    return data


def _pieces(reader: IO[bytes], most: int) -> Iterator[bytes]:
    for _ in range(most // _PIECE + 1):
        yield reader.read(_PIECE)
