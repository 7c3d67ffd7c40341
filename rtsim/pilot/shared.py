"""Memory shared by a simulation and its viewers: a small file that each process maps.

Mapped files exist on Linux, macOS and Windows. On Linux, the file is in ``/dev/shm`` and never on a
disk. ``multiprocessing.shared_memory`` has three disadvantages. The module starts a tracker
process. Its package ``multiprocessing`` unpickles data.

The file begins with a header and a description of its records as JSON. Then one :class:`Record`
follows for each of :data:`RUN`, :data:`STICK`, :data:`VIEWER`, :data:`ORDERS`, :data:`ANSWER` and
each plant. A reader checks the file before use: sizes are limited, the hash of the schema must
match, and the schema alone determines the positions of the records.

Each record has one writer and any number of readers, synchronised by a sequence lock. All fields
have 64 bits. The layout in memory is::

    latest | slot 0: sequence, checksum, integers, floats | slot 1: ...

The writer uses the slots in turn. The writer marks a slot as unfinished, fills the slot, and then
sets ``latest`` to its number. The previous record therefore stays valid while the next record is
written. A reader copies the latest slot, and rejects the copy if the slot changed meanwhile.
Neither side ever waits. On x86, the number alone would suffice. On processors such as ARM, the
writes of one core can reach another core in a different order. A checksum with the record's number
detects such writes.

One viewer controls the run; other viewers only watch. The controlling viewer must write the stick's
record regularly. A lock would be unsuitable, because a viewer that hangs would keep the lock.
"""

from __future__ import annotations

import hashlib
import json
import mmap
import os
import secrets
import stat
import struct
import sys
import tempfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from rtsim.core.clock import stopwatch
from rtsim.core.errors import RtsimError
from rtsim.core.signals import Signals, Vector
from rtsim.core.tag import NS_PER_S

WORD = 8
LINE = 64
"""Size of a cache line, bytes. Each slot begins at a new cache line."""
SLOTS = 2
TRIES = 8
_UNFINISHED = 0

Integers = NDArray[np.int64]


@dataclass(frozen=True)
class Record:
    """A complete record. ``number`` counts the records from 1."""

    number: int
    integers: Integers
    floats: Vector


@dataclass(frozen=True)
class Shape:
    """The number of integers and the number of floats of a record."""

    integers: int
    floats: int

    @property
    def payload(self) -> int:
        """Size of a record's integers and floats, bytes."""
        return WORD * (self.integers + self.floats)

    @property
    def slot(self) -> int:
        """Distance (bytes) between two slots of a record."""
        return _whole_lines(2 * WORD + self.payload)

    @property
    def size(self) -> int:
        """Size (bytes) of a record with all its slots."""
        return LINE + SLOTS * self.slot


class _Slots:
    """The memory of a record as arrays.

    Each field is an aligned word, which a processor writes as a whole.
    """

    def __init__(self, memory: memoryview, shape: Shape) -> None:
        if len(memory) < shape.size:
            raise ValueError(
                f"the memory has {len(memory)} bytes, but the record needs {shape.size} bytes"
            )
        self.shape = shape
        self.latest = np.frombuffer(memory, np.uint64, 1)
        self.heads: list[NDArray[np.uint64]] = []
        self.integers: list[Integers] = []
        self.floats: list[Vector] = []
        self.payloads: list[NDArray[np.uint8]] = []
        for k in range(SLOTS):
            at = LINE + k * shape.slot
            body = at + 2 * WORD
            self.heads.append(np.frombuffer(memory, np.uint64, 2, at))
            self.integers.append(np.frombuffer(memory, np.int64, shape.integers, body))
            floats = body + WORD * shape.integers
            self.floats.append(np.frombuffer(memory, np.float64, shape.floats, floats))
            self.payloads.append(np.frombuffer(memory, np.uint8, shape.payload, body))


class Writer:
    """The only writer of a record.

    Set :attr:`integers` and :attr:`floats`, then call :meth:`publish`. The call keeps their values.
    """

    def __init__(self, memory: memoryview, shape: Shape) -> None:
        self._slots = _Slots(memory, shape)
        self._payload = np.zeros(shape.payload, np.uint8)
        words = self._payload.view(np.int64)
        self.integers: Integers = words[: shape.integers]
        self.floats: Vector = words[shape.integers :].view(np.float64)
        self.number = int(self._slots.latest[0])

    def publish(self) -> int:
        """Publish the values as the latest record, and return the record's number."""
        slots = self._slots
        number = self.number + 1
        k = number % SLOTS
        head = slots.heads[k]
        head[0] = _UNFINISHED
        slots.payloads[k][:] = self._payload
        head[1] = zlib.crc32(self._payload.data, number & 0xFFFFFFFF)
        head[0] = number
        slots.latest[0] = number
        self.number = number
        return number


class Reader:
    """Reader of the latest record. A partly written record is never returned."""

    def __init__(self, memory: memoryview, shape: Shape) -> None:
        self._slots = _Slots(memory, shape)
        self._split = shape.integers
        self.overtaken = 0
        """Number of copies discarded because the writer used the slot at the same time."""

    @property
    def number(self) -> int:
        """Number of the latest record, or 0.

        This check is cheaper than :meth:`read`.
        """
        return int(self._slots.latest[0])

    def read(self) -> Record | None:
        """Return the latest record, or ``None`` if no complete record exists."""
        for _ in range(TRIES):
            number = self.number
            if number == 0:
                return None
            payload = self._copy(number)
            if payload is not None:
                words = payload.view(np.int64)
                return Record(number, words[: self._split], words[self._split :].view(np.float64))
            self.overtaken += 1
        return None

    def _copy(self, number: int) -> NDArray[np.uint8] | None:
        k = number % SLOTS
        head = self._slots.heads[k]
        if head[0] != number:
            return None
        payload = self._slots.payloads[k].copy()
        checksum = head[1]
        if head[0] != number or checksum != zlib.crc32(payload.data, number & 0xFFFFFFFF):
            return None
        return payload


def _whole_lines(size: int) -> int:
    return -(-size // LINE) * LINE


if sys.platform != "win32":
    import fcntl

# Files in memory, allocated completely. Files of killed runs are removed.

_PREFIX = "rtsim-pilot-"


def memory_folder() -> Path:
    """Return ``/dev/shm`` if it is writable, else the folder for temporary files."""
    memory = Path("/dev/shm")
    there = memory.is_dir() and os.access(memory, os.W_OK)
    return memory if there else Path(tempfile.gettempdir())


def new_file(folder: Path, data: bytes) -> tuple[Path, mmap.mmap]:
    """Create a file with ``data`` that only this user can read, and map the file into memory.

    Raises ``OSError`` if the memory is full. All bytes are written at once, because the system can
    kill a process that uses unallocated memory later.
    """
    number, name = tempfile.mkstemp(prefix=_PREFIX, dir=folder)
    path = Path(name)
    try:
        with os.fdopen(number, "r+b") as file:
            _lock(number)
            file.write(data)
            file.flush()
            return path, mmap.mmap(number, len(data))
    except BaseException:
        with suppress(OSError):
            path.unlink()
        raise


def sweep(folder: Path, magic: bytes) -> None:
    """Remove the shared files of this user's killed runs.

    Only files that begin with ``magic`` are removed.
    """
    for path in folder.glob(f"{_PREFIX}*"):
        with suppress(OSError):
            if _is_abandoned(path, magic):
                path.unlink()


def _lock(number: int) -> None:
    if sys.platform != "win32":
        with suppress(OSError):
            fcntl.flock(number, fcntl.LOCK_SH | fcntl.LOCK_NB)


def _is_abandoned(path: Path, magic: bytes) -> bool:
    if sys.platform == "win32":  # Windows removes the file when the last process unmaps it
        return False
    about = path.lstat()
    if not stat.S_ISREG(about.st_mode) or about.st_uid != os.getuid():
        return False
    with path.open("rb") as file:
        if file.read(len(magic)) != magic:  # incomplete, or from another program
            return False
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)  # raises OSError if the file is locked
    return True


# Orders from the viewer to the run, and reasons of refusals, encoded as numbers.

PAUSE, RESUME, STEP, RATE, MARK, CHECKPOINT, QUIT, RESET, REWIND, RETURN = range(1, 11)
"""Kinds of orders.

The argument of RATE is the rate. The argument of REWIND is the time to go back, s. RETURN goes back
to the last CHECKPOINT.
"""
REASON_WORDS = 64
_REASON_BYTES = 8 * REASON_WORDS


def order_to_command(
    kind: int, value: float, began_ns: int = 0, kept_ns: int = 0
) -> dict[str, Any] | None:
    """Convert a viewer's order to a command of the run.

    An unknown order becomes ``None``. RESET goes back to ``began_ns``, the time at which the run
    began. RETURN goes back to ``kept_ns``, the time of the last checkpoint.
    """
    commands: dict[int, dict[str, Any]] = {
        PAUSE: {"kind": "pause"},
        RESUME: {"kind": "resume"},
        STEP: {"kind": "step", "tags": 1.0},
        RATE: {"kind": "rate", "rate": value},
        MARK: {"kind": "mark", "text": "pilot"},
        CHECKPOINT: {"kind": "checkpoint"},
        QUIT: {"kind": "quit"},
        RESET: {"kind": "restore", "at": began_ns / NS_PER_S},
        REWIND: {"kind": "restore", "back": value},
        RETURN: {"kind": "restore", "at": kept_ns / NS_PER_S},
    }
    return commands.get(kind)


def reason_to_words(text: str) -> tuple[int, list[int]]:
    """Return the length of a text in bytes, and the text as 64-bit integers.

    Long texts are cut off.
    """
    data = text.encode()[:_REASON_BYTES]
    filled = data.ljust(_REASON_BYTES, b"\0")
    words = [
        int.from_bytes(filled[k : k + 8], "little", signed=True) for k in range(0, len(filled), 8)
    ]
    return len(data), words


def words_to_reason(length: int, words: Sequence[int]) -> str:
    data = b"".join(int(word).to_bytes(8, "little", signed=True) for word in words)
    text = data[: max(0, min(length, _REASON_BYTES))].decode(errors="replace")
    return "".join(c if c.isprintable() else " " for c in text)


# The shared file.

VERSION = 3
MOST_BYTES = 16 << 20
MOST_SCHEMA = 1 << 20
_MAGIC = b"rtsimPIL"
_LOOK_NS = NS_PER_S // 4
_HEAD = struct.Struct("<8sIIQ32s")

PAIR = (
    "last_ns", "next_ns", "last_wall", "next_wall", "withdrawn", "applied", "applied_initiated",
)  # fmt: skip
"""Integers of a plant's record.

``last_ns`` and ``next_ns`` are tags in simulated ns. ``last_wall`` and ``next_wall`` are the times
at which they are due, ns of :data:`rtsim.core.clock.stopwatch`. ``applied`` is the number of the
stick's record that was latched last, and ``applied_initiated`` is the stamp ``initiated`` of this
record. The floats are ``[x, z, u, y]`` at the last tag, then at the next.
"""
RUN = (
    "ns", "wall_ns", "standing", "late", "missed", "overruns_compute", "overruns_wake", "margin_ns",
    "frames", "paced", "latency_median", "latency_p95", "latency_max", "orders", "ended",
    "unrecorded",
)  # fmt: skip
"""Integers of the record of the run's state.

The first integers are those of :meth:`rtsim.engine.commands.commands.Inbox.state`. Latencies are
measured from the stick's stamp ``initiated`` to the tag that latches the stick, ns. ``orders`` is
the number of orders that the run has read. ``unrecorded`` is 1 if the recording is lost. The only
float is the rate.
"""
STICK = ("initiated", "completed", "lost", "who")
"""Integers of the stick's record, with times in ns of the stopwatch.

``initiated`` is the earliest time at which the change can have happened
(:attr:`rtsim.pilot.devices.sdl.Devices.since_ns`). ``completed`` is the time at which the devices
were read and decoded. ``lost`` is 1 if a device was unplugged, so that values are held or
fail-safe. ``who`` identifies the viewer (:class:`ControlAuthority`). The floats are the values of
the external input.
"""
VIEWER = ("wall", "frames", "dropped", "interval_p99", "pictures", "picture_median", "picture_p95",
          "picture_max", "interpolation_median", "interpolation_p95",
          "interpolation_max")  # fmt: skip
"""Integers of the viewer's figures, with times in ns.

``picture_...`` are latencies from a change at a device to the picture that shows its effect.
``interpolation_...`` are delays of pictures behind the newest state.
"""
MOST_ORDERS = 8
ORDERS = (
    "count", *(f"kind_{k}" for k in range(MOST_ORDERS)),
    *(f"initiated_{k}" for k in range(MOST_ORDERS)),
)  # fmt: skip
"""Integers of the record of orders: count of all orders, then kinds and times of the last ones.

The floats are the arguments of the last orders.
"""
ANSWER = ("refused", "order", "length", *(f"word_{k}" for k in range(REASON_WORDS)))
"""Integers of the record of refusals.

``refused`` is the number of refused orders so far, and ``order`` is the kind of the last one.
``length`` is the length of the reason in bytes, and the words contain the reason as text.
"""


class SharedError(RtsimError):
    """The shared file or the run on another machine cannot be used."""


_NO_SCHEMA = (
    KeyError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError, RtsimError,
)  # fmt: skip


@dataclass(frozen=True)
class Schema:
    """Description of the records of a run: signals of the plants and of the stick.

    ``about`` contains data for the viewer, such as the names of scenario and scene.
    """

    plants: tuple[tuple[str, Signals], ...]
    """Name of each plant, with the signals of its vectors ``[x, z, u, y]``."""
    stick: Signals = field(default_factory=Signals)
    about: dict[str, Any] = field(default_factory=dict)

    def to_json(self) -> str:
        plants = [{"name": name, "signals": signals.to_json()} for name, signals in self.plants]
        return json.dumps({"plants": plants, "stick": self.stick.to_json(), "about": self.about})

    @classmethod
    def from_json(cls, text: str) -> Schema:
        try:
            data = json.loads(text)
            plants = tuple(
                (str(p["name"]), Signals.from_json(p["signals"])) for p in data["plants"]
            )
            schema = cls(plants, Signals.from_json(data["stick"]), dict(data["about"]))
            if not all(isinstance(shape.floats, int) for _, shape in schema.shapes()):
                raise ValueError("the size of a record is not an integer")
            return schema
        except _NO_SCHEMA as error:
            raise SharedError(f"the schema of the run cannot be read: {error!r}") from error

    def shapes(self) -> Iterator[tuple[str, Shape]]:
        """Yield the name and shape of each record, in the order of the file."""
        yield "run", Shape(len(RUN), 1)
        yield "stick", Shape(len(STICK), self.stick.size)
        yield "viewer", Shape(len(VIEWER), 0)
        yield "orders", Shape(len(ORDERS), MOST_ORDERS)
        yield "answer", Shape(len(ANSWER), 0)
        for name, signals in self.plants:
            yield f"plant/{name}", Shape(len(PAIR), 2 * signals.size)

    @cached_property
    def _text(self) -> bytes:
        return self.to_json().encode()

    @cached_property
    def hash(self) -> bytes:
        """Hash (32 bytes) of the description and of the fixed fields."""
        fixed = repr((VERSION, PAIR, RUN, STICK, VIEWER, ORDERS, ANSWER, sys.byteorder))
        return hashlib.sha256(fixed.encode() + self._text).digest()

    def places(self) -> tuple[dict[str, tuple[int, Shape]], int]:
        """Return the position (bytes) and the shape of each record, and the file size (bytes)."""
        at = _whole_lines(_HEAD.size + len(self._text))
        found = {}
        for name, shape in self.shapes():
            found[name] = (at, shape)
            at += shape.size
        return found, at

    def check_size(self) -> int:
        """Return the file size (bytes); raise ``SharedError`` if too large."""
        size = self.places()[1]
        if size > MOST_BYTES or len(self._text) > MOST_SCHEMA:
            shown = min(size, 1 << 60)  # Python refuses to print very long integers
            raise SharedError(
                f"the plants of this run need {shown} bytes of memory to be shared with a viewer; "
                f"the limit is {MOST_BYTES}"
            )
        return size

    def head(self) -> bytes:
        """Return the bytes that precede the first record of the file."""
        size = self.check_size()
        return _HEAD.pack(_MAGIC, VERSION, len(self._text), size, self.hash) + self._text


class Exchange(Protocol):
    """Interface for the exchange of records between a viewer and a run."""

    schema: Schema

    def writer(self, record: str) -> Writer: ...

    def reader(self, record: str) -> Reader: ...

    def look(self) -> None:
        """Exchange new records without blocking."""
        ...

    @property
    def over(self) -> str:
        """Reason why the run ended or cannot be reached; empty during the run."""
        ...

    def close(self) -> None: ...


class Shared:
    """The mapped file. The simulation uses :meth:`create`, the viewer :meth:`open`."""

    def __init__(self, path: Path, memory: mmap.mmap, schema: Schema, owner: bool) -> None:
        self.path = path
        self.schema = schema
        self._memory = memory
        self._view = memoryview(memory)
        self._places = schema.places()[0]
        self._owner = owner
        self._next_look_ns = 0
        self._over = ""

    @classmethod
    def create(cls, schema: Schema, folder: Path | None = None) -> Shared:
        """Create a file that only this user can read."""
        head, size = schema.head(), schema.places()[1]
        where = folder or memory_folder()
        sweep(where, _MAGIC)
        try:
            path, memory = new_file(where, head.ljust(size, b"\0"))
        except OSError as error:
            raise SharedError(
                f"cannot create a file of {size} bytes in {where} to share with a viewer: "
                f"{error.strerror or error}; free some space there"
            ) from error
        return cls(path, memory, schema, owner=True)

    @classmethod
    def open(cls, path: Path) -> Shared:
        """Open a file from ``create``; raise ``SharedError`` for any other file."""
        try:
            with path.open("r+b") as file:
                schema = _checked(file.read(_HEAD.size), file.read(MOST_SCHEMA), path)
                size = os.fstat(file.fileno()).st_size
                if size != schema.places()[1]:
                    raise SharedError(
                        f"{path} has {size} bytes; expected {schema.places()[1]} bytes"
                    )
                return cls(path, mmap.mmap(file.fileno(), size), schema, owner=False)
        except OSError as error:
            raise SharedError(
                f"{path} cannot be opened: {error}; perhaps the run has ended"
            ) from error

    def writer(self, record: str) -> Writer:
        """Return the writer of a record. Only one process may write a record.

        ``record`` is ``run``, ``stick``, ``viewer``, ``orders``, ``answer`` or ``plant/NAME``.
        """
        at, shape = self._places[record]
        return Writer(self._view[at : at + shape.size], shape)

    def reader(self, record: str) -> Reader:
        """Return a reader of a record.

        Any number of processes may read a record at the same time.
        """
        at, shape = self._places[record]
        return Reader(self._view[at : at + shape.size], shape)

    def look(self) -> None:
        """Do nothing, because both processes use the same memory."""

    @property
    def over(self) -> str:
        """Reason why the run ended, or ""."""
        now = stopwatch()
        if not self._over and now >= self._next_look_ns:
            self._next_look_ns = now + _LOOK_NS
            if not self.path.exists():
                self._over = "the run has ended"
            elif not _alive(self.schema.about.get("pid")):
                self._over = "the run was killed"
                self.remove()
        return self._over

    def close(self) -> None:
        if self._owner:
            self.remove()

    def remove(self) -> None:
        """Remove the file. A viewer calls this method after the simulation was killed."""
        with suppress(OSError):  # Windows removes the file when the last process unmaps it
            self.path.unlink()


def _alive(pid: object) -> bool:
    if not isinstance(pid, int) or pid <= 0 or sys.platform == "win32":  # no such check on Windows
        return True
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        pass
    return True


def _checked(head: bytes, rest: bytes, path: Path) -> Schema:
    if len(head) < _HEAD.size or not head.startswith(_MAGIC):
        raise SharedError(f"{path} is not a file that a run of rtsim shares with a viewer")
    _, version, length, size, digest = _HEAD.unpack(head)
    if version != VERSION:
        raise SharedError(
            f"{path} has version {version}; this viewer reads version {VERSION}; use the release "
            "of rtsim that started the run"
        )
    if length > len(rest) or size > MOST_BYTES:
        raise SharedError(
            f"the header of {path} is not valid: it declares a schema of {length} bytes and a "
            f"total of {size} bytes"
        )
    try:
        schema = Schema.from_json(rest[:length].decode())
    except (UnicodeDecodeError, SharedError) as error:
        raise SharedError(f"{path}: {error}") from error
    if schema.hash != digest:
        raise SharedError(
            f"{path} has the record layout of another release of rtsim; use the release that "
            "started the run"
        )
    return schema


# Control authority.

NOBODY = 0
FREE_NS = NS_PER_S
"""Control authority is free if no stick record came for this time, ns.

Keep-alives come every 0.1 s.
"""
_WHO = STICK.index("who")


def new_viewer_number() -> int:
    return secrets.randbits(62) | 1


class ControlAuthority:
    """Determine from the stick's record whether another viewer controls the run."""

    def __init__(self, stick: Reader, clock: Callable[[], int] = stopwatch) -> None:
        self._stick, self._clock = stick, clock
        self._number = self._seen_ns = 0
        self._who = NOBODY

    def free_for(self, who: int) -> bool:
        now, number = self._clock(), self._stick.number
        if number != self._number:
            record = self._stick.read()
            if record is not None:
                self._number, self._seen_ns = record.number, now
                self._who = int(record.integers[_WHO])
        return self._who in (NOBODY, who) or now - self._seen_ns >= FREE_NS
