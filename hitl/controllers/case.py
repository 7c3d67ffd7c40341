"""A case: the inputs of a step that went wrong, and all before it, so that it can be run again."""

from __future__ import annotations

import json
import tempfile
import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from rtsim.core.errors import RtsimError
from rtsim.core.tag import Tag

_NO_CASE = (
    OSError, EOFError, ValueError, KeyError, TypeError, AttributeError,
    zipfile.BadZipFile, zlib.error,
)  # fmt: skip
"""What reading a file raises that is something else, or damaged."""


class CaseError(RtsimError):
    """A file that is no case."""


@dataclass(frozen=True)
class Case:
    """Steps of one controller from its start; the last is the one that went wrong."""

    interface: str
    """Path of the interface file, with its variant."""
    kind: str
    names: tuple[str, ...]
    """Of the inputs, by column."""
    parameters: dict[str, list[float]]
    tags: NDArray[np.int64]
    inputs: NDArray[np.float64]
    forgotten: int = 0
    """Steps before the first of these that were not kept."""
    error: str = ""

    @property
    def path(self) -> Path:
        """Of the interface file, without the variant."""
        before, _, _ = self.interface.rpartition(":")
        return Path(before if before.endswith(".toml") else self.interface)

    @property
    def tag(self) -> Tag:
        return Tag(int(self.tags[-1][0]), int(self.tags[-1][1]))

    @property
    def last(self) -> dict[str, float]:
        """The inputs of the last step by name."""
        return self.at(-1)

    def at(self, row: int) -> dict[str, float]:
        """The inputs of a step by name."""
        return dict(zip(self.names, self.inputs[row].tolist(), strict=True))

    def save(self, path: Path) -> Path:
        """Write it; numbers keep every bit.

        Not compressed: a loop in real time may be waiting.
        """
        about = {
            "interface": self.interface,
            "kind": self.kind,
            "names": list(self.names),
            "parameters": self.parameters,
            "forgotten": self.forgotten,
            "error": self.error,
        }
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as file:
            try:
                text = np.array(json.dumps(about))
                np.savez(file, tags=self.tags, inputs=self.inputs, about=text)
                Path(file.name).replace(path)
            except BaseException:
                Path(file.name).unlink(missing_ok=True)
                raise
        return path

    @classmethod
    def load(cls, path: Path) -> Case:
        """Read one; :class:`CaseError` where it is none."""
        try:
            if path.is_file() and not zipfile.is_zipfile(path):
                raise CaseError(f"{path} is not a case of rtsim sil; those are in cases/*.npz")
            with path.open("rb") as file, np.load(file) as data:
                about = json.loads(str(data["about"]))
                tags, inputs = data["tags"], data["inputs"]
            case = cls(
                interface=str(about["interface"]),
                kind=str(about["kind"]),
                names=tuple(map(str, about["names"])),
                parameters={str(k): list(map(float, v)) for k, v in about["parameters"].items()},
                tags=tags.astype(np.int64),
                inputs=inputs.astype(np.float64),
                forgotten=int(about["forgotten"]),
                error=str(about["error"]),
            )
        except FileNotFoundError:
            raise CaseError(f"no file {path}") from None
        except _NO_CASE as error:
            raise CaseError(f"{path} is not a case of rtsim sil: {error}") from None
        if tags.shape != (len(inputs), 2) or inputs.shape != (len(tags), len(case.names)):
            raise CaseError(f"{path}: {len(tags)} tags, inputs of shape {inputs.shape}")
        if not len(tags):
            raise CaseError(f"{path} holds no step")
        return case
