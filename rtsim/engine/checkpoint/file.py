"""Checkpoints contain the state of a run at a tag (docs/checkpoints.md).

A checkpoint file begins with 8 bytes that identify the format. The next fields are the version of
the format (2 bytes), the length of the body (8 bytes), and the SHA-256 of the body (32 bytes). The
body is one MessagePack map. The body is decoded only if all other fields are correct.
"""

from __future__ import annotations

import hashlib
import json
import struct
import tempfile
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from rtsim.core.errors import CheckpointError, RtsimError, ScenarioError
from rtsim.core.net.messagepack import EncodingError, Limits, pack, unpack
from rtsim.core.tag import LONGEST_NS, NS_PER_S, Duration, Tag, to_ns
from rtsim.engine.system import System

MAGIC = b"\x89RTSIM\r\n"
VERSION = 1
SUFFIX = ".checkpoint"
MOST_BYTES = 1 << 31
_HEAD = struct.Struct("<8sHQ32s")
_LIMITS = Limits(depth=12, values=4_000_000)
_FOREIGN = (KeyError, TypeError, ValueError, IndexError, AttributeError, OverflowError)
"""Exceptions that can arise when the restored state does not fit the scenario."""


@dataclass(frozen=True)
class Checkpoint:
    """The state of a run at a tag. :meth:`rtsim.engine.system.System.save` returns ``state``."""

    ns: int
    header: Mapping[str, Any]
    """Header of the recording: scenario, seed, sources, fingerprint."""
    state: Mapping[str, Any]
    rows: Mapping[str, int] = field(default_factory=dict)
    """Number of rows of each track since the start of the run."""
    events: int = 0
    source: str = "memory"
    """File from which the checkpoint was read."""

    @property
    def tag(self) -> Tag:
        return Tag(self.ns)

    @cached_property
    def body(self) -> bytes:
        """Contents of the file after its head, as MessagePack."""
        return pack(
            {
                "ns": self.ns,
                "header": json.dumps(self.header),
                "rows": dict(self.rows),
                "events": self.events,
                "state": self.state,
            }
        )

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the body, in hexadecimal."""
        return hashlib.sha256(self.body).hexdigest()

    def save(self, path: Path) -> Path:
        """Write the file; replace an existing file only if it is a checkpoint."""
        head = _HEAD.pack(MAGIC, VERSION, len(self.body), bytes.fromhex(self.digest))
        try:
            _refuse_to_overwrite(path)
            with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as file:
                try:
                    file.write(head)
                    file.write(self.body)
                    Path(file.name).replace(path)
                except BaseException:
                    Path(file.name).unlink(missing_ok=True)
                    raise
        except OSError as error:
            raise CheckpointError(f"cannot write {path}: {error.strerror}") from error
        return path

    @classmethod
    def open(cls, path: str | Path) -> Checkpoint:
        """Read a checkpoint file; raise ``CheckpointError`` if invalid."""
        path = Path(path)
        body = _body(path)
        try:
            data = unpack(body, _LIMITS)
            out = cls(
                ns=_whole(data["ns"]),
                header=_map(json.loads(data["header"])),
                state=_map(data["state"]),
                rows={str(name): _whole(count) for name, count in _map(data["rows"]).items()},
                events=_whole(data["events"]),
                source=str(path),
            )
        except EncodingError as error:
            raise CheckpointError(f"{path} is damaged: {error}") from error
        except (*_FOREIGN, RecursionError) as error:
            raise CheckpointError(
                f"{path} has unexpected contents ({type(error).__name__}: {error}); "
                "it was not written by rtsim"
            ) from error
        # The digest is computed from the bytes of the file, because this version of rtsim might
        # encode the body differently.
        out.__dict__["digest"] = hashlib.sha256(body).hexdigest()
        return out

    def restore(self, system: System, inserted: Sequence[int] = ()) -> None:
        """Restore the state into ``system``.

        After an exception, ``system`` is unusable. ``inserted`` is passed to
        :meth:`System.restore`.
        """
        try:
            system.restore(self.state, inserted)
        except RtsimError:
            raise
        except _FOREIGN as error:
            raise CheckpointError(
                f"{self.source} does not fit this scenario: {type(error).__name__}: {error}"
            ) from error
        if system.ns != self.ns:
            raise CheckpointError(
                f"{self.source} is damaged: its header names the tag {self.tag}, but it "
                f"contains the state at {Tag(system.ns)}"
            )

    def reference(self) -> dict[str, Any]:
        """Return the reference to this checkpoint for the header of a recording."""
        return {
            "checkpoint": self.source,
            "sha256": self.digest,
            "ns": self.ns,
            "rows": dict(self.rows),
            "events": self.events,
        }


def _refuse_to_overwrite(path: Path) -> None:
    if not path.exists():
        return
    with path.open("rb") as file:
        start = file.read(len(MAGIC))
    if start not in (b"", MAGIC):
        raise CheckpointError(
            f"{path} is not a checkpoint, so it is not overwritten; move the file to another folder"
        )


def _hint_to_other_checkpoints(path: Path) -> str:
    flight, at, _ = path.name.rpartition("@")
    there = [p.name for p in path.parent.glob(f"*{SUFFIX}")] if at else []
    beside = sorted((n for n in there if n.startswith(f"{flight}@")), key=lambda n: (len(n), n))
    return (
        f"; checkpoints of this run: {', '.join(beside[:8])}"
        if beside and path.name not in beside
        else ""
    )


def _body(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            head = file.read(_HEAD.size)
            if head[: len(MAGIC)] != MAGIC[: len(head)] or len(head) < len(MAGIC):
                raise CheckpointError(_what_it_is(path, head))
            if len(head) < _HEAD.size:
                raise CheckpointError(f"{path} is cut off after {len(head)} bytes")
            _, version, size, digest = _HEAD.unpack(head)
            if version > VERSION:
                raise CheckpointError(
                    f"{path} has format {version}, but this rtsim reads formats up to {VERSION}; "
                    "use the newer rtsim that wrote the file"
                )
            there = path.stat().st_size - _HEAD.size
            if version < 1 or size > MOST_BYTES or there > size:
                raise CheckpointError(
                    f"{path} is damaged, or is not a checkpoint: its first {_HEAD.size} bytes are "
                    "not those of a checkpoint"
                )
            if there < size:
                raise CheckpointError(f"{path} is cut off: only {there} of {size} bytes remain")
            body = file.read(size)
    except OSError as error:
        raise CheckpointError(
            f"cannot read {path}: {error.strerror}{_hint_to_other_checkpoints(path)}"
        ) from error
    if hashlib.sha256(body).digest() != digest:
        raise CheckpointError(f"{path} is damaged: its checksum does not match")
    return body


def _what_it_is(path: Path, head: bytes) -> str:
    if head.startswith(b"\x89MCAP"):
        return f"{path} is a recording, not a checkpoint; type rtsim replay {path}"
    return f"{path} is not a checkpoint; rtsim run --checkpoint-every writes checkpoints"


def _map(value: object) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise TypeError(f"expected a map, got {type(value).__name__}")
    return value


def _whole(value: object, least: int = 0) -> int:
    if type(value) is not int or not least <= value < LONGEST_NS:
        raise ValueError(f"expected a whole number, got {value!r:.40}")
    return value


MOST_FILES = 100_000
"""Largest number of checkpoint files that one run can write."""


class Ring:
    """Checkpoints in memory of the last ``seconds`` of a run."""

    most = None

    def __init__(self, seconds: Duration) -> None:
        self._span_ns = to_ns(seconds, "span of a ring")
        self._kept: deque[Checkpoint] = deque()

    def keep(self, checkpoint: Checkpoint) -> None:
        kept = self._kept
        while kept and kept[-1].ns >= checkpoint.ns:  # the run went back to an earlier time
            kept.pop()
        kept.append(checkpoint)
        while len(kept) > 1 and kept[1].ns <= checkpoint.ns - self._span_ns:
            kept.popleft()

    def finish(self) -> None: ...

    def forget_after(self, ns: int) -> None:
        """Remove the checkpoints after ``ns``, because the run went back to ``ns``."""
        while self._kept and self._kept[-1].ns > ns:
            self._kept.pop()

    def __len__(self) -> int:
        return len(self._kept)

    def before(self, ns: int) -> Checkpoint | None:
        """Return the last checkpoint at or before ``ns``, or ``None``."""
        return next((c for c in reversed(self._kept) if c.ns <= ns), None)


class Files:
    """Checkpoint files of a run, next to its recording, such as ``run@12.340.checkpoint``.

    :meth:`finish` writes the files. ``start`` is the checkpoint from which the run continued. Its
    file is never replaced, because the recording refers to it by its SHA-256.
    """

    most = MOST_FILES

    def __init__(self, recording: Path, start: Checkpoint | None = None) -> None:
        self._start = None if start is None else Path(start.source).resolve()
        self.paths: list[Path] = []
        self._recording = recording
        self._waiting: list[Checkpoint] = []
        self._written: list[tuple[int, Path]] = []

    def keep(self, checkpoint: Checkpoint) -> None:
        self._waiting.append(checkpoint)

    def finish(self) -> None:
        waiting, self._waiting = self._waiting, []
        for checkpoint in waiting:
            path = path_beside(self._recording, checkpoint.ns)
            if path.resolve() != self._start:
                self.paths.append(checkpoint.save(path))
            self._written.append((checkpoint.ns, path))

    def forget_after(self, ns: int) -> None:
        """Remove the checkpoints after ``ns``, because the run went back to ``ns``.

        Their files remain.
        """
        self._written = [(at, path) for at, path in self._written if at <= ns]

    def between(self, after: int, ns: int) -> Checkpoint | None:
        """Return the last checkpoint in ``after < t <= ns``, or ``None``."""
        held = max((c for c in self._waiting if after < c.ns <= ns), key=_at, default=None)
        on_file = max((w for w in self._written if after < w[0] <= ns), default=None)
        if on_file is None or (held is not None and held.ns >= on_file[0]):
            return held
        return Checkpoint.open(on_file[1])


def _at(checkpoint: Checkpoint) -> int:
    return checkpoint.ns


def path_beside(recording: Path, ns: int) -> Path:
    decimals = f"{ns % NS_PER_S:09d}".rstrip("0").ljust(3, "0")
    return recording.with_name(f"{recording.stem}@{ns // NS_PER_S}.{decimals}{SUFFIX}")


def beside(recording: Path) -> list[Path]:
    start = f"{recording.stem}@"
    folder = recording.parent
    if not folder.is_dir():
        return []
    return [p for p in folder.iterdir() if p.name.startswith(start) and p.suffix == SUFFIX]


_KEPT = 100
_SHORTEST_NS = NS_PER_S // 10
"""Largest number of checkpoints in a ring, and shortest interval between two checkpoints, ns."""


class CheckpointHistory:
    """The checkpoints to which a run can go back.

    When a run goes back, a new segment begins.

    Args:
        seconds: Length of the time covered in memory; None for no checkpoints in memory.
        start: Checkpoint from which the run continued.
        first: Also keep the initial state.
        if_savable: Keep nothing if the state of a component cannot be saved.
    """

    def __init__(
        self,
        seconds: Duration | None = None,
        start: Checkpoint | None = None,
        *,
        first: bool = False,
        if_savable: bool = False,
    ) -> None:
        self.if_savable = if_savable
        self.lacks_first = first and start is None
        """True if the initial state is requested and has not been stored yet."""
        self.ring = None if seconds is None else Ring(seconds)
        self.every_ns: int | None = None
        """Interval between two checkpoints in the ring, ns."""
        if seconds is not None:
            span_ns = to_ns(seconds, "span of a ring")
            if span_ns <= 0:
                raise ScenarioError(f"rewind span {seconds} s must be > 0")
            self.every_ns = max(span_ns // _KEPT, _SHORTEST_NS)
        self._files: list[Files] = []
        self._start = start

    def add(self, files: Files) -> None:
        self._files.append(files)

    def begin(self, ns: int) -> None:
        if self.ring is not None:
            self.ring.forget_after(ns)
        for files in self._files:
            files.forget_after(ns)

    def keep(self, checkpoint: Checkpoint) -> None:
        """Add a checkpoint; the first one is the initial state."""
        if self.lacks_first:
            self._start, self.lacks_first = checkpoint, False
        if self.ring is not None:
            self.ring.keep(checkpoint)

    def before(self, ns: int) -> Checkpoint | None:
        """Return the last checkpoint at or before ``ns``, or ``None``.

        Raises :class:`CheckpointError` if a checkpoint file cannot be read.
        """
        held = None if self.ring is None else self.ring.before(ns)
        found = [c for c in (held, self._start) if c is not None and c.ns <= ns]
        latest = max(found, key=lambda c: c.ns, default=None)
        for files in self._files:
            least = -1 if latest is None else latest.ns
            latest = files.between(least, ns) or latest
        return latest
