"""The request log of a controller outside this process, to explain and to repeat a failure."""

from __future__ import annotations

from pathlib import Path

from hitl.controllers.case import Case
from hitl.interface import Interface
from rtsim.components.request_log import RequestLog
from rtsim.core.errors import ControllerError
from rtsim.core.signals import Vector
from rtsim.core.tag import Tag


class Evidence:
    """The steps of one run with their inputs; only the first of several failures is explained.

    ``p`` (k,) are the parameters.  ``kind`` is the kind of build, which is part of the case and of
    its file name.  ``cases`` is the folder for the case (``None``: no case is saved).  ``again`` is
    the text before the command that repeats the steps.
    """

    def __init__(
        self, interface: Interface, p: Vector, kind: str, cases: Path | None, again: str = "again"
    ) -> None:
        self.failed = False
        """True after a failure was explained."""
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
        """Return ``error`` with its step's inputs and the command that repeats the failure."""
        if self.failed or not self.history.steps:
            return error
        self.failed = True
        case = self.case(str(error))
        inputs = ", ".join(f"{name}={value:.6g}" for name, value in case.last.items())
        text = f"{self._interface.name} failed at {tag}: {error}\ninputs: {inputs or 'none'}"
        error.args = ("\n".join((text, *self._saved(tag, case))),)
        return error

    def _saved(self, tag: Tag, case: Case) -> list[str]:
        """Save the case; return lines that say how to run it again."""
        if self._cases is None:
            return []
        path = self._cases / f"{self._interface.name}-{tag.ns}-{self._kind}.npz"
        try:
            case.save(path)
        except OSError as problem:
            return [f"the case cannot be written to {path}: {problem.strerror}"]
        return [f"{self.again}: rtsim sil case {path}"]

    def case(self, error: str = "") -> Case:
        """Return a case with all steps so far."""
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
