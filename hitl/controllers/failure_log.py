"""Save failed steps of controllers as cases, which can be repeated."""

from __future__ import annotations

import json
import tempfile
import zipfile
import zlib
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hitl.controllers.c_controller import CController
from hitl.interface import Interface
from rtsim.components.request_log import RequestLog
from rtsim.core.errors import ControllerError, RtsimError
from rtsim.core.signals import Vector
from rtsim.core.tag import Tag

_NO_CASE = (
    OSError, EOFError, ValueError, KeyError, TypeError, AttributeError,
    zipfile.BadZipFile, zlib.error,
)  # fmt: skip
"""Errors that Python raises for a file that is damaged or not a case."""


class CaseError(RtsimError):
    """A file is not a usable case."""


@dataclass(frozen=True)
class Case:
    """All steps of a controller from its start to a failed step.

    ``parameters`` contains values by name. ``tags`` (k, 2) contains ns and microstep, and
    ``inputs`` (k, m) the inputs of each step. ``error`` is the message of the failure.
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
        return Tag(int(self.tags[-1][0]), int(self.tags[-1][1]))

    @property
    def last(self) -> dict[str, float]:
        return self.at(-1)

    def at(self, row: int) -> dict[str, float]:
        return dict(zip(self.names, self.inputs[row].tolist(), strict=True))

    def save(self, path: Path) -> Path:
        """Write the case to a file, without rounding.

        The file is not compressed, because a run in real time may wait for it.
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
        """Read a case from a file; raise ``CaseError`` for any other file."""
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


class FailureLog:
    """The inputs of all steps of a run, for the explanation of a failure.

    Args:
        interface: Interface of the controller.
        p: Parameters, shape (k,).
        kind: Kind of build, which is part of the case and of its file name.
        cases: Folder for the case; ``None`` to save no case.
        again: Text before the command that repeats the steps.
    """

    def __init__(
        self, interface: Interface, p: Vector, kind: str, cases: Path | None, again: str = "again"
    ) -> None:
        self.failed = False
        """True after the first failure was explained."""
        self._interface, self._p, self._kind = interface, p, kind
        self.again = again
        self._cases = cases
        self._inputs = interface.inputs
        self.history = RequestLog(self._inputs.size)
        self.add = self.history.add

    @property
    def latest(self) -> Vector:
        """The inputs (m,) of the latest step."""
        latest: Vector = self.history.inputs[-1]
        return latest

    def explained(self, tag: Tag, error: ControllerError) -> ControllerError:
        """Return ``error`` with the inputs of its step, and the command that repeats it."""
        if self.failed or not self.history.steps:
            return error
        self.failed = True
        case = self.case(str(error))
        inputs = ", ".join(f"{name}={value:.6g}" for name, value in case.last.items())
        text = f"{self._interface.name} failed at {tag}: {error}\ninputs: {inputs or 'none'}"
        error.args = ("\n".join((text, *self._saved(tag, case))),)
        return error

    def _saved(self, tag: Tag, case: Case) -> list[str]:
        if self._cases is None:
            return []
        path = self._cases / f"{self._interface.name}-{tag.ns}-{self._kind}.npz"
        try:
            case.save(path)
        except OSError as problem:
            return [f"the case cannot be written to {path}: {problem.strerror}"]
        return [f"{self.again}: rtsim sil case {path}"]

    def case(self, error: str = "") -> Case:
        interface, parameters = self._interface, self._interface.parameters
        tags, inputs = self.history.tags, self.history.inputs
        return Case(
            interface=f"{interface.path}{f':{interface.variant}' if interface.variant else ''}",
            kind=self._kind,
            names=self._inputs.columns,
            parameters={s.name: self._p[parameters.slice(s.name)].tolist() for s in parameters},
            tags=tags,
            inputs=inputs,
            forgotten=self.history.forgotten,
            error=error,
        )


class LoggedController(CController):
    """A controller outside this process, which saves its failed steps as cases."""

    outside = True
    _failures: FailureLog

    def __init__(
        self, interface: Interface, values: Mapping[str, object] | None, silence: float
    ) -> None:
        super().__init__(interface, values)
        self.silence = silence

    def _requests(self) -> RequestLog:
        return self._failures.history

    @abstractmethod
    def silent(self, tag: Tag) -> ControllerError: ...

    def step(self, tag: Tag, inputs: Vector) -> Vector:
        """Execute a step, and return the outputs (n,).

        Raises ``ControllerError`` if the step fails or takes too long.
        """
        self.send(tag, inputs)
        return self._again(tag)

    def explained(self, tag: Tag, error: ControllerError) -> ControllerError:
        """Return ``error`` with the inputs of its step, and the command that repeats it."""
        return self._failures.explained(tag, error)

    def case(self, error: str = "") -> Case:
        return self._failures.case(error)

    def _again(self, tag: Tag) -> Vector:
        answer = self.receive(tag, self.silence)
        if answer is None:
            raise self.silent(tag)
        return answer
