"""Process that writes a recording: ``python -m rtsim.record.writer PATH SOCKET PARENT``.

When its input ends, the process closes the file and exits. A recording can therefore be opened even
after a crash of the simulation. Data are written to the disk on request, and after a quarter of a
second without input. After a disk error, the process reports the cause and keeps reading, so that
the run is not blocked.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryFile
from types import FunctionType
from typing import IO, Any, NoReturn

import google.protobuf.descriptor_pb2  # noqa: F401 - takes 10 ms, which would delay the first rows
import mcap.writer
import numpy as np
from mcap.data_stream import RecordBuilder
from mcap.opcode import Opcode
from mcap.records import ChunkIndex, MessageIndex
from mcap.writer import CompressionType, Writer
from numpy.typing import NDArray
from zlib_ng import zlib_ng

from rtsim.core.child_process import inherited_socket
from rtsim.core.clock import stopwatch
from rtsim.core.tag import Tag
from rtsim.record.events import Event, event_descriptor, overrun_event
from rtsim.record.output_files import LIBRARY
from rtsim.record.schema import (
    EVENT_TOPIC,
    EVENT_TYPE,
    FOOTER,
    HEADER,
    TrackSpec,
    sealed,
    unique_message_types,
)
from rtsim.record.writer_process import FrameBuffer, FrameKind, RecordFrame
from rtsim.timing.background import OffTheLoop, step_back
from rtsim.timing.policy import CaughtUp

# Extension of mcap's writer that takes many messages of one length at once, in a third of the time.

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
    """The index of all chunks for the end of an MCAP file.

    mcap's writer stores this index as a list of objects, which takes 0.8 kB for each MB of the
    file. This class stores bytes. A long index is kept in a temporary file in ``folder``.
    """

    def __init__(self, folder: Path | None) -> None:
        self._bytes = bytearray()
        self._folder = folder
        self._spool: IO[bytes] | None = None
        self._spilled = 0

    def append(self, index: ChunkIndex) -> None:
        builder = RecordBuilder()
        index.write(builder)
        self._bytes += builder.end()  # type: ignore[no-untyped-call]
        if len(self._bytes) > _IN_MEMORY and self._folder is not None:
            self._spill(self._folder)

    def _spill(self, folder: Path) -> None:
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
"""Private names of mcap's writer that :class:`BatchWriter` uses."""


class BatchWriter(Writer):
    """MCAP writer that writes many rows at once.

    The class uses a private part of mcap's writer, because ``add_message`` is slow. One call of
    ``add_message`` takes 6 us, ten times as long as the encoding of a row. With other versions of
    mcap, the class uses ``add_message``, and a test fails. ``pyproject.toml`` limits the version of
    mcap.
    """

    def __init__(self, output: Any, chunk_size: int = 1 << 20, folder: Path | None = None) -> None:
        """Write to ``output``. A recording of many GB needs a temporary file in ``folder``."""
        super().__init__(output, chunk_size, CompressionType.LZ4, enable_data_crcs=True)
        if hasattr(self, "_Writer__chunk_indices"):
            self._Writer__chunk_indices: Any = _ChunkIndices(folder)
        self._messages: dict[int, NDArray[np.void]] = {}
        self.behind = False
        """True if rows arrive faster than they can be compressed.

        Full chunks are then written without compression (docs/decisions/133).
        """

    def add_rows(self, channel: int, words: NDArray[np.int64], spec: TrackSpec, first: int) -> None:
        """Add the rows ``words`` (n, width) of a track to ``channel``, n >= 1.

        ``first`` is the sequence number of the first row.
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
    names = {**vars(mcap.writer), "zlib": zlib_ng}
    for name, method in vars(Writer).items():
        if isinstance(method, FunctionType) and "zlib" in method.__code__.co_names:
            copied = FunctionType(
                method.__code__, names, name, method.__defaults__, method.__closure__
            )
            copied.__kwdefaults__ = method.__kwdefaults__
            setattr(BatchWriter, name, copied)


_use_zlib_ng()


CHUNK_BYTES = 1 << 20
IDLE_S = 0.25
_SPIN_NS = 2_000_000


class _Sink:
    """An unbuffered file. Each write is either complete or raises an error."""

    def __init__(self, path: Path) -> None:
        self._file = open(path, "wb", buffering=0)  # noqa: SIM115
        self.whole = 0
        """Number of bytes of all complete writes. Each write of mcap's writer contains complete
        records.
        """

    def write(self, data: bytes) -> int:
        rest = memoryview(data)
        while len(rest):
            rest = rest[self._file.write(rest) :]
        self.whole += len(data)
        return len(data)

    def tell(self) -> int:
        return self._file.tell()

    def flush(self) -> None:
        """Do nothing, because the file is unbuffered."""

    def cut(self) -> None:
        with contextlib.suppress(OSError):
            self._file.truncate(self.whole)

    def close(self) -> None:
        self._file.close()


class RecordingFile:
    """MCAP file for the rows that a run sends."""

    def __init__(self, path: Path) -> None:
        self._sink = _Sink(path)
        self._writer = BatchWriter(self._sink, CHUNK_BYTES, path.parent)
        try:
            self._writer.start(profile="", library=LIBRARY)
        except OSError:
            self._sink.close()
            raise
        self._tracks: list[tuple[TrackSpec, int]] = []
        self._rows: list[int] = []
        self._events = 0
        self._event_channel = 0
        self.loop = 0
        """Id of the loop's thread; 0 if unknown."""
        self.hurried = False
        """True if the run waits for this process."""
        self.finished = False
        self._latest_ns = self._marked_ns = -1
        """Time of the latest row or event, and time up to which all rows have arrived [ns]; or -1.
        """
        self._written = self._sink.whole
        self._kept_ns = -1

    @property
    def kept_ns(self) -> int:
        """Simulated time [ns] up to which the file is complete, or -1."""
        self._note_written()
        return self._kept_ns

    def _note_written(self) -> None:
        if (
            self._sink.whole != self._written
        ):  # a chunk was written, which contains all rows before the mark
            self._written, self._kept_ns = self._sink.whole, self._marked_ns

    def take(self, frame: RecordFrame, behind: bool = False) -> None:
        """Write one frame. ``behind`` is set if more data are waiting than fit into one chunk."""
        self._writer.behind = behind or self.hurried
        if frame.kind == FrameKind.ROWS:
            self._take_rows(frame.track, frame.data)
        elif frame.kind == FrameKind.EVENT:
            ns, step, kind, source, text, values = json.loads(bytes(frame.data))
            self._take_event(Event(Tag(ns, step), kind, source, text, values))
        elif frame.kind == FrameKind.CAUGHT_UP:
            for overrun in CaughtUp.unpack(bytes(frame.data)):
                self._take_event(overrun_event(overrun))
        elif frame.kind == FrameKind.START:
            self._take_start(json.loads(bytes(frame.data)))
        elif frame.kind == FrameKind.MARK:
            self._note_written()
            self._marked_ns = self._latest_ns
        elif frame.kind == FrameKind.FLUSH:
            self.flush()
        elif frame.kind == FrameKind.HURRY:
            self.hurried = bool(frame.track)
        elif frame.kind == FrameKind.FINISH:
            self.flush()
            self._writer.add_metadata(FOOTER, sealed(json.loads(bytes(frame.data))))
            self.finished = True

    def _take_start(self, start: Mapping[str, Any]) -> None:
        self.loop = int(start.get("thread", 0))
        specs = [TrackSpec.from_json(data) for data in start["tracks"]]
        self._writer.add_metadata(HEADER, sealed({**start["header"], "tracks": start["tracks"]}))
        types = unique_message_types(specs)
        for spec in specs:
            kind = types[spec.name]
            schema = self._writer.register_schema(kind, "protobuf", spec.descriptor(kind))
            channel = self._writer.register_channel(spec.name, "protobuf", schema, spec.metadata())
            self._tracks.append((spec, channel))
            self._rows.append(0)
        schema = self._writer.register_schema(EVENT_TYPE, "protobuf", event_descriptor())
        self._event_channel = self._writer.register_channel(EVENT_TOPIC, "protobuf", schema)
        Event(Tag(0), "", "").encode()  # the first call takes 4 ms and would delay rows
        self._written = self._sink.whole

    def _take_rows(self, number: int, data: bytes | memoryview) -> None:
        spec, channel = self._tracks[number]
        words = np.frombuffer(data, np.int64).reshape(-1, spec.width)
        if len(words):
            self._writer.add_rows(channel, words, spec, self._rows[number])
            self._rows[number] += len(words)
            self._latest_ns = max(self._latest_ns, int(words[-1, 0]))

    def _take_event(self, event: Event) -> None:
        self._add(self._event_channel, event.tag.ns, event.encode(), self._events)
        self._events += 1
        self._latest_ns = max(self._latest_ns, event.tag.ns)

    def _add(self, channel: int, ns: int, data: bytes, sequence: int) -> None:
        self._writer.add_message(channel, ns, data, ns, sequence & 0xFFFFFFFF)

    def flush(self) -> None:
        self._writer.flush()  # type: ignore[no-untyped-call]
        self._written, self._kept_ns = self._sink.whole, self._marked_ns

    def close(self) -> None:
        self._writer.finish()  # type: ignore[no-untyped-call]
        self._sink.close()

    def give_up(self) -> None:
        """Truncate the file after its last complete record, and close the file."""
        self._sink.cut()
        self._sink.close()


class Inlet:
    """Socket through which a run sends its rows."""

    def __init__(self, inlet: socket.socket, parent: int, off: OffTheLoop | None = None) -> None:
        self._socket, self._parent = inlet, parent
        self._frames = FrameBuffer()
        self._off = off
        self._unbroken = 0
        """Number of bytes received since the process last waited for input."""
        self.hurried = False
        """True if the run waits for this process. Each wait for input then begins with a busy wait.
        """

    @property
    def behind(self) -> bool:
        """Return True if more than ``CHUNK_BYTES`` bytes arrived without a pause."""
        return self._unbroken > CHUNK_BYTES

    def received(self) -> Iterator[Iterator[RecordFrame] | None]:
        """Yield the received data, or ``None`` after a quarter of a second without input.

        The iteration ends when the stream ends or the simulation has died.
        """
        while True:
            if self._off is not None and not self.hurried:
                self._off.look()
            if not self.readable(0.0):
                self._unbroken = 0
                if not (self.hurried and self._spin()) and not self.readable(IDLE_S):
                    if self._alone():
                        return
                    yield None
                    continue
            try:
                count = self._socket.recv_into(self._frames.room())
            except ConnectionError:
                return
            if not count:
                return
            self._unbroken += count
            yield self._frames.received(count)

    def readable(self, patience: float) -> bool:
        """Wait up to ``patience`` s for input. Return True if input is available."""
        return bool(select.select([self._socket], [], [], patience)[0])

    def _spin(self) -> bool:
        until = stopwatch() + _SPIN_NS
        while stopwatch() < until:
            if self.readable(0.0):
                return True
            os.sched_yield() if hasattr(os, "sched_yield") else None
        return False

    def _alone(self) -> bool:
        return hasattr(os, "getppid") and sys.platform != "win32" and os.getppid() != self._parent


Say = Callable[..., None]
"""Function that sends keyword arguments to the recording process, as one line of JSON."""
Beside = Callable[[Say], Callable[[RecordFrame], None]]
"""Function that returns another receiver of all frames. The receiver must return at once."""


def _saying(outlet: socket.socket) -> Say:
    lock = threading.Lock()  # another receiver may use a thread

    def say(**status: object) -> None:
        with contextlib.suppress(OSError), lock:
            outlet.sendall(json.dumps(status).encode() + b"\n")

    return say


def serve(
    path: Path,
    inlet: socket.socket,
    parent: int,
    off: OffTheLoop | None = None,
    beside: Beside | None = None,
) -> int:
    """Write the received data until the input ends; return the exit status."""
    source, say = Inlet(inlet, parent, off), _saying(inlet)
    also = None if beside is None else beside(say)
    failed, told_ns = False, -1
    file: RecordingFile | None = None
    try:
        file = RecordingFile(path)
        for frames in source.received():
            if frames is None:
                file.flush()
            for frame in frames or ():
                file.take(frame, source.behind)
                if also is not None:
                    also(frame)
                source.hurried = file.hurried
                if frame.kind == FrameKind.START:
                    if off is not None and file.loop:
                        off.follow(file.loop)
                    say(ready=True)
            if file.kept_ns > told_ns:
                told_ns = file.kept_ns
                say(kept=told_ns)
            if file.finished:
                break
        file.close()
        say(done=True)
    except Exception as error:
        failed = True
        if file is not None:
            file.give_up()
            if file.kept_ns >= 0:
                say(kept=file.kept_ns)
        say(error=_in_words(error))
        for _ in source.received():
            pass  # on some platforms, closing with unread input would discard the error just sent
    return int(failed)


def _in_words(error: Exception) -> str:
    if isinstance(error, OSError):
        return f"{error.strerror or error} (errno {error.errno})"
    return f"{type(error).__name__}: {error}"


def main(arguments: list[str], beside: Beside | None = None) -> int:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    step_back()
    path, inlet, parent = inherited_socket(arguments)
    with inlet:
        return serve(Path(path), inlet, parent, OffTheLoop(parent), beside)


def end_process(status: int) -> NoReturn:
    """End this process at once; the normal end of Python takes 30 ms."""
    sys.stderr.flush()
    os._exit(status)  # all files are closed


if __name__ == "__main__":
    end_process(main(sys.argv[1:]))
