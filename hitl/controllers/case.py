"""Cases: the inputs of a controller up to a step that failed, saved to repeat the failure."""

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
"""Errors that Python raises if a file is damaged or is not a case."""


class CaseError(RtsimError):
    """Raised for a file that is not a usable case."""


@dataclass(frozen=True)
class Case:
    """Steps of one controller from its start; the last step failed.

    ``parameters`` are values by name.  ``tags`` (k, 2) are ns and microstep, ``inputs`` (k, m) are
    the inputs of each step.  ``error`` is the message of the failure.
    """

    interface: str
    """Path of the interface file, with its variant."""
    kind: str
    names: tuple[str, ...]
    """Names of the input columns."""
    parameters: dict[str, list[float]]
    tags: NDArray[np.int64]
    inputs: NDArray[np.float64]
    forgotten: int = 0
    """Number of earlier steps that were not saved."""
    error: str = ""

    @property
    def path(self) -> Path:
        """Path of the interface file, without the variant."""
        before, _, _ = self.interface.rpartition(":")
        return Path(before if before.endswith(".toml") else self.interface)

    @property
    def tag(self) -> Tag:
        """The tag of the last step."""
        return Tag(int(self.tags[-1][0]), int(self.tags[-1][1]))

    @property
    def last(self) -> dict[str, float]:
        """The inputs of the last step, by name."""
        return self.at(-1)

    def at(self, row: int) -> dict[str, float]:
        """Return the inputs of step ``row``, by name."""
        return dict(zip(self.names, self.inputs[row].tolist(), strict=True))

    def save(self, path: Path) -> Path:
        """Write the case to ``path``, with every bit of its numbers.

        The file is not compressed, because a loop in real time may be waiting.
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
        """Read the case at ``path``; raises :class:`CaseError` if the file is not a case."""
        try:
            if path.is_file() and not zipfile.is_zipfile(path):
                raise CaseError(f"{path} is not a case of rtsim sil; give a file cases/*.npz")
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
            raise CaseError(f"the case {path} does not exist") from None
        except _NO_CASE as error:
            raise CaseError(f"{path} is not a case of rtsim sil: {error}") from None
        if tags.shape != (len(inputs), 2) or inputs.shape != (len(tags), len(case.names)):
            raise CaseError(
                f"{path} is damaged: it has {len(tags)} tags, but its inputs have shape "
                f"{inputs.shape}"
            )
        if not len(tags):
            raise CaseError(f"{path} has no steps to run")
        return case
