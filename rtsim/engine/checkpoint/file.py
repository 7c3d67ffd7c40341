"""Checkpoints, which hold the state of a run at a tag, and their files (docs/checkpoints.md).

A file has 8 bytes that name the format, its version (2 bytes), the length of the body (8 bytes),
the SHA-256 of the body (32 bytes), and the body, one MessagePack map.  The body is decoded only if
the other fields are correct.
"""

from __future__ import annotations

import hashlib
import json
import struct
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from rtsim.core.errors import CheckpointError, RtsimError
from rtsim.core.net.messagepack import EncodingError, Limits, pack, unpack
from rtsim.core.tag import LONGEST_NS, Tag
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
    """The state of a run at a tag; :meth:`rtsim.engine.system.System.save` returns ``state``."""

    ns: int
    header: Mapping[str, Any]
    """The header of the recording: scenario, seed, sources, fingerprint."""
    state: Mapping[str, Any]
    rows: Mapping[str, int] = field(default_factory=dict)
    """Number of rows of each track since the start of the run."""
    events: int = 0
    source: str = "memory"
    """The file from which the checkpoint was read."""

    @property
    def tag(self) -> Tag:
        return Tag(self.ns)

    @cached_property
    def body(self) -> bytes:
        """The contents of the checkpoint file after its head, as MessagePack."""
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
        """Write the file atomically; overwrite only a file that is a checkpoint."""
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
        """Return the checkpoint in file ``path``; raises :class:`CheckpointError`."""
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
        # The digest is that of the file's bytes; this version of rtsim might write other bytes.
        out.__dict__["digest"] = hashlib.sha256(body).hexdigest()
        return out

    def restore(self, system: System, inserted: Sequence[int] = ()) -> None:
        """Restore the state into ``system``; if this raises, do not use ``system`` again.

        ``inserted``: as for :meth:`System.restore`.
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
        """Return a reference to this checkpoint for the header of the continued run's recording."""
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


def _others(path: Path) -> str:
    """Return a hint that lists other checkpoints of the run of ``path``; empty if none exist."""
    flight, at, _ = path.name.rpartition("@")
    there = [p.name for p in path.parent.glob(f"*{SUFFIX}")] if at else []
    beside = sorted((n for n in there if n.startswith(f"{flight}@")), key=lambda n: (len(n), n))
    return (
        f"; checkpoints of this run: {', '.join(beside[:8])}"
        if beside and path.name not in beside
        else ""
    )


def _body(path: Path) -> bytes:
    """Return the body of the checkpoint file; raises :class:`CheckpointError` if it is damaged."""
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
        raise CheckpointError(f"cannot read {path}: {error.strerror}{_others(path)}") from error
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
