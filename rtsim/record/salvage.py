"""Reads everything that is readable in an MCAP file, even if the file is incomplete or damaged.

The file is read from its start, record by record, and each record is checked.  Reading ends at the
first record that is cut off or damaged.  The ``mcap`` library parses the records.
"""

from __future__ import annotations

import os
import struct
import zlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from mcap.opcode import Opcode
from mcap.records import Channel, DataEnd, Footer, Metadata
from mcap.writer import MCAP0_MAGIC

from rtsim.core.errors import RecordingError
from rtsim.record.chunks import BROKEN, RECORD, Chunks, MessageBlock, Messages, runs, whole

LARGEST_RECORD = 1 << 29
MOST_CHANNELS = 1 << 16
_INDEX = struct.Struct("<HI")


class _Damaged(Exception):
    """Raised where the file is cut off or damaged; the rest of the file is not read."""


@dataclass
class Salvaged:
    """Metadata by name, messages by topic; ``broken`` states where and why reading ended early."""

    chunks: Chunks
    metadata: dict[str, dict[str, str]] = field(default_factory=dict)
    topics: dict[str, Messages] = field(default_factory=dict)
    broken: str | None = None
    complete: bool = False
    """True if all data was read; at most the index after the data is missing."""


def salvage(path: Path) -> Salvaged:
    """Read ``path``; raises :class:`RecordingError` only if nothing of a recording is readable."""
    try:
        file = open(path, "rb")  # noqa: SIM115 -- the chunks are read from it, and close it
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
        """Read and check one record."""
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
            # The index is not needed, but a chunk with a damaged opcode must not count as one.
            if _INDEX.unpack_from(body)[1] != len(body) - _INDEX.size:
                raise ValueError("the message index has a wrong length")
        elif opcode not in (Opcode.HEADER, Opcode.ATTACHMENT, Opcode.SCHEMA):
            raise ValueError(f"a record of type {opcode} is not allowed in the data section")

    def _take_chunk(self, body: bytes) -> None:
        """Read messages from a chunk; only chunks have checksums, so other messages are ignored."""
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
        """Check the index after the data; damage is only reported, because it can be rebuilt."""
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
