"""What simulation and viewer share: a small file that both map into memory.

A mapped file and not ``multiprocessing.shared_memory``: that one unlinks a block when a process
that merely looked at it ends (before Python 3.13), keeps a tracker process for it, and belongs to a
package that unpickles.  A file works alike on Linux, macOS and Windows; on Linux it lies in
``/dev/shm`` and never reaches a disk.

The file opens with a head (magic, version, sizes, hash), then the schema as JSON, then one record
(:mod:`rtsim.pilot.sequence`) for each :data:`RUN`, :data:`STICK`, :data:`VIEWER`, :data:`ORDERS`,
:data:`ANSWER` and each plant.  Nothing in it is believed before it is checked: sizes are bounded,
the schema's hash must fit, and a record's place follows from the schema alone.
"""

from __future__ import annotations

import hashlib
import json
import mmap
import os
import struct
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

from rtsim.core.clock import stopwatch
from rtsim.core.errors import RtsimError
from rtsim.core.signals import Signals
from rtsim.core.tag import NS_PER_S
from rtsim.pilot.memory import memory_folder, new_file, sweep
from rtsim.pilot.orders import REASON_WORDS
from rtsim.pilot.sequence import LINE, Reader, Shape, Writer

VERSION = 2
MOST_BYTES = 16 << 20
MOST_SCHEMA = 1 << 20
_MAGIC = b"rtsimPIL"
_LOOK_NS = NS_PER_S // 4
_HEAD = struct.Struct("<8sIIQ32s")

PAIR = (
    "last_ns", "next_ns", "last_wall", "next_wall", "withdrawn", "applied", "applied_initiated",
)  # fmt: skip
"""Integers of a plant's record: tags in simulated ns, and when they are due (ns of
:data:`rtsim.core.clock.stopwatch`); the number of the stick's record that was latched by then,
and when that was read from the device.  Its floats are ``[x, z, u, y]`` at last, then at next."""
RUN = (
    "ns", "wall", "standing", "paced", "frames", "margin", "overruns_compute", "overruns_wake",
    "late", "missed", "latency_median", "latency_p95", "latency_max", "orders", "ended",
    "unrecorded",
)  # fmt: skip
"""How the run stands.  Latencies are from a device's reading to the tag that latches it, in ns;
``orders``: how many were heard; ``unrecorded``: the recording is lost.  Its float is the rate."""
STICK = ("initiated", "completed", "lost", "who")
"""When the device was read and when that was decoded (ns of the stopwatch), whether a device is
gone and the values are held or safe ones, and which viewer says so (:mod:`rtsim.pilot.seat`).  Its
floats are the external input's values."""
VIEWER = ("wall", "frames", "dropped", "interval_p99", "pictures", "picture_median", "picture_p95",
          "picture_max", "interpolation_median", "interpolation_p95",
          "interpolation_max")  # fmt: skip
"""How the viewer does; latencies from a device's reading to the picture that shows it, and how long
before the newest state the moment was that this picture showed, in ns."""
MOST_ORDERS = 8
ORDERS = (
    "count", *(f"kind_{k}" for k in range(MOST_ORDERS)),
    *(f"initiated_{k}" for k in range(MOST_ORDERS)),
)  # fmt: skip
"""What the person told the run: the last few kinds, when each was told, each with a float;
``count`` of all so far."""
ANSWER = ("refused", "order", "length", *(f"word_{k}" for k in range(REASON_WORDS)))
"""The order that was refused last, and why, as text in so many bytes; ``refused``: how many."""


class SharedError(RtsimError):
    """The file between simulation and viewer is none, or of another version."""


_NO_SCHEMA = (
    KeyError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError, RtsimError,
)  # fmt: skip


@dataclass(frozen=True)
class Schema:
    """Who is flown and with what.  ``about`` is plain data for the viewer: scene, scenario."""

    plants: tuple[tuple[str, Signals], ...]
    """Name, and the signals of ``[x, z, u, y]``."""
    stick: Signals = field(default_factory=Signals)
    about: dict[str, Any] = field(default_factory=dict)

    def to_json(self) -> str:
        plants = [{"name": name, "signals": signals.to_json()} for name, signals in self.plants]
        return json.dumps({"plants": plants, "stick": self.stick.to_json(), "about": self.about})

    @classmethod
    def from_json(cls, text: str) -> Schema:
        """What :meth:`to_json` wrote; whatever is wrong with it is a :class:`SharedError`."""
        try:
            data = json.loads(text)
            plants = tuple(
                (str(p["name"]), Signals.from_json(p["signals"])) for p in data["plants"]
            )
            schema = cls(plants, Signals.from_json(data["stick"]), dict(data["about"]))
            if not all(isinstance(shape.floats, int) for _, shape in schema.shapes()):
                raise ValueError("a size that is no whole number")
            return schema
        except _NO_SCHEMA as error:
            raise SharedError(f"its schema cannot be read: {error!r}") from error

    def shapes(self) -> Iterator[tuple[str, Shape]]:
        """Each record's name and shape, in their order in the file."""
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
        """32 bytes over the schema and the fields of the fixed records."""
        fixed = repr((VERSION, PAIR, RUN, STICK, VIEWER, ORDERS, ANSWER, sys.byteorder))
        return hashlib.sha256(fixed.encode() + self._text).digest()

    def places(self) -> tuple[dict[str, tuple[int, Shape]], int]:
        """Where each record begins, and the size of the file."""
        at = _aligned(_HEAD.size + len(self._text))
        found = {}
        for name, shape in self.shapes():
            found[name] = (at, shape)
            at += shape.size
        return found, at

    def check_size(self) -> int:
        """Bytes of the file; :class:`SharedError` where they are more than anybody takes."""
        size = self.places()[1]
        if size > MOST_BYTES or len(self._text) > MOST_SCHEMA:
            told = min(size, 1 << 60)  # Python refuses to print integers of any length
            raise SharedError(f"{told} bytes to share with a viewer; at most {MOST_BYTES}")
        return size

    def head(self) -> bytes:
        """The file up to its first record."""
        size = self.check_size()
        return _HEAD.pack(_MAGIC, VERSION, len(self._text), size, self.hash) + self._text


class Exchange(Protocol):
    """What a viewer sees of a run and tells it, whatever carries the records."""

    schema: Schema

    def writer(self, record: str) -> Writer: ...

    def reader(self, record: str) -> Reader: ...

    def look(self) -> None:
        """Take in what has come and hand over what was written; never waits."""
        ...

    @property
    def over(self) -> str:
        """Why nobody is at the other end any more; empty while somebody is."""
        ...

    def close(self) -> None: ...


class Shared:
    """The mapped file.  :meth:`create` it in the simulation, :meth:`open` it in the viewer."""

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
        """A new file that only this user may read; :meth:`close` removes it."""
        head, size = schema.head(), schema.places()[1]
        where = folder or memory_folder()
        sweep(where, _MAGIC)
        try:
            path, memory = new_file(where, head.ljust(size, b"\0"))
        except OSError as error:
            raise SharedError(
                f"{size} bytes to share with a viewer cannot be had in {where}: "
                f"{error.strerror or error}; make room there"
            ) from error
        return cls(path, memory, schema, owner=True)

    @classmethod
    def open(cls, path: Path) -> Shared:
        """What :meth:`create` made; :class:`SharedError` for anything else."""
        try:
            with path.open("r+b") as file:
                schema = _checked(file.read(_HEAD.size), file.read(MOST_SCHEMA), path)
                size = os.fstat(file.fileno()).st_size
                if size != schema.places()[1]:
                    raise SharedError(f"{path} has {size} bytes, not {schema.places()[1]}")
                return cls(path, mmap.mmap(file.fileno(), size), schema, owner=False)
        except OSError as error:
            raise SharedError(f"{path} cannot be opened: {error}; is the run over?") from error

    def writer(self, record: str) -> Writer:
        """Of ``run``, ``stick``, ``viewer``, ``orders`` or ``plant/NAME``; one process may."""
        at, shape = self._places[record]
        return Writer(self._view[at : at + shape.size], shape)

    def reader(self, record: str) -> Reader:
        """Of the same."""
        at, shape = self._places[record]
        return Reader(self._view[at : at + shape.size], shape)

    def look(self) -> None:
        """Nothing is to be carried: it is the same memory."""

    @property
    def over(self) -> str:
        """The process that made it, or its file, is gone; looked at a few times a second."""
        now = stopwatch()
        if not self._over and now >= self._next_look_ns:
            self._next_look_ns = now + _LOOK_NS
            if not self.path.exists():
                self._over = "the run is over"
            elif not _alive(self.schema.about.get("pid")):
                self._over = "the run was killed"
                self.remove()
        return self._over

    def close(self) -> None:
        """The owner removes the file; who has it mapped keeps its own view until it ends."""
        if self._owner:
            self.remove()

    def remove(self) -> None:
        """Also for a viewer whose simulation is gone and did not."""
        with suppress(OSError):  # on Windows not while it is mapped: the last one's end does it
            self.path.unlink()


def _alive(pid: object) -> bool:
    if not isinstance(pid, int) or pid <= 0 or sys.platform == "win32":  # a file tells it there
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
        raise SharedError(f"{path} is not shared by a run of rtsim")
    _, version, length, size, digest = _HEAD.unpack(head)
    if version != VERSION:
        raise SharedError(f"{path} is of version {version}, this viewer of {VERSION}")
    if length > len(rest) or size > MOST_BYTES:
        raise SharedError(f"{path} claims a schema of {length} bytes and {size} bytes in all")
    try:
        schema = Schema.from_json(rest[:length].decode())
    except (UnicodeDecodeError, SharedError) as error:
        raise SharedError(f"{path}: {error}") from error
    if schema.hash != digest:
        raise SharedError(f"{path} was laid out by another release of rtsim; run both from one")
    return schema


def _aligned(at: int) -> int:
    return -(-at // LINE) * LINE
