"""Restore controllers from their description in a recording, and repeat saved cases.

C code outside the user's project needs permission (``rtsim.scenario.trust``).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hitl.boards import parse_url
from hitl.building.build import FLAGS, PLAIN
from hitl.controllers.board import BoardController
from hitl.controllers.failure_log import Case, CaseError
from hitl.controllers.in_process import InProcess
from hitl.controllers.sil import SilController
from hitl.interface import load_interface
from hitl.interface.shipped import ships
from rtsim.core.errors import CheckpointError, ControllerError
from rtsim.core.outcome import Judged, Outcome
from rtsim.core.tag import Tag
from rtsim.scenario.trust import check_compiled, check_device

# -- checks before the C code of a recording, a checkpoint or a case runs


def check_c(reference: str, source: str, recorded: object) -> None:
    """Raise ``TrustError`` if the C code of an interface file must not be compiled.

    ``source`` is the file that names the C code, and ``recorded`` is the hash of the recorded C
    code.
    """
    if not ships(path := _file(reference)):
        check_compiled(path, source, recorded, lambda _: load_interface(reference).sha256)


def check_c_of_now(reference: str, source: str) -> None:
    """Check the permission for C code without a recorded hash."""
    if not ships(path := _file(reference)):
        check_compiled(path, source)


def _file(reference: str) -> Path:
    path, dot, _ = reference.rpartition(".toml")
    return Path(path + dot or reference)


_THE_RUN = "the recorded run"


def sil(about: Mapping[str, Any], values: Mapping[str, object]) -> SilController:
    """Return a controller from its recorded description, with the parameters ``values``.

    ``about`` is the result of :meth:`SilController.describe`. Raises ``CheckpointError`` if the
    controller cannot be built, and ``TrustError`` without permission for its C code.
    """
    if "endpoint" in about:
        raise CheckpointError(
            f"{about['interface']} was served at {about['endpoint']}, and the recording does "
            "not contain the keys of that server; continue the run from Python: "
            "simulate(scenario, start=checkpoint)"
        )
    return SilController(_reference(about), values, kind=_kind(about))


def in_process(about: Mapping[str, Any], values: Mapping[str, object]) -> InProcess:
    """Return an :class:`InProcess` controller from its recorded description; see :func:`sil`."""
    return InProcess(_reference(about), values, kind=_kind(about))


def board(about: Mapping[str, Any], values: Mapping[str, object]) -> BoardController:
    """Return a :class:`BoardController` from its recorded description; see :func:`sil`."""
    if about.get("paced"):
        raise CheckpointError(
            f"the board {about['url']} ran in real time, and its clock cannot be set back; "
            "continue the run from Python: simulate(scenario, start=checkpoint)"
        )
    url = str(about["url"])
    if not parse_url(url).emulated:
        check_device(url, _THE_RUN)
    return BoardController(_reference(about), values, url=url)


def _reference(about: Mapping[str, Any]) -> str:
    variant = about.get("variant")
    reference = f"{about['interface']}:{variant}" if variant else str(about["interface"])
    check_c(reference, _THE_RUN, about.get("sha256"))
    return reference


def _kind(about: Mapping[str, Any]) -> str:
    kind = str(about.get("build"))
    if kind not in FLAGS:
        raise CheckpointError(
            f"the recorded run used a build of {about['interface']} of the kind {kind}, which this "
            "version of rtsim cannot make; record the run again"
        )
    return kind


# -- saved cases, repeated in a new worker


@dataclass(frozen=True)
class Rerun(Judged):
    """The result of repeating a case."""

    case: Case
    kind: str
    """The kind of build."""
    tag: Tag
    """The tag of the last step that was started."""
    steps: int
    outputs: dict[str, float]
    """The outputs of the last step by name; empty without an answer."""
    error: str
    """Reason why the case failed or could not be run, or ""."""
    environment: bool = False
    """True if the environment caused the error, for example a host without free memory."""

    def _judge(self) -> Outcome:
        if not self.error:
            return Outcome.PASSED
        return Outcome.UNDECIDED if self.environment else Outcome.FAILED

    @property
    def failed(self) -> bool:
        return self._judge() is Outcome.FAILED

    def to_json(self) -> dict[str, Any]:
        return {
            "interface": self.case.interface,
            "build": self.kind,
            "failed": self.failed,
            "outcome": self._judge().name.lower(),
            "error": self.error,
            "error_then": self.case.error,
            "steps": self.steps,
            "steps_saved": len(self.case.tags),
            "steps_forgotten": self.case.forgotten,
            "tag": list(self.tag),
            "inputs": self.case.at(self.steps - 1) if self.steps else {},
            "outputs": self.outputs,
        }


def rerun_case(
    case: Case, kind: str | None = None, silence: float = 10.0, link: str | None = None
) -> Rerun:
    """Repeat all steps of ``case`` in a new process.

    A failure of the C code is part of the result. ``kind`` is the kind of build, by default that of
    the case. ``silence`` is the longest time (s) to wait for an answer. ``link`` is the kind of
    link to the process; see ``SilController``. Raises :class:`CaseError` if the interface file no
    longer exists or now has other inputs.
    """
    if not case.path.is_file():
        raise CaseError(
            f"the interface file {case.path} of the case does not exist; restore it to run the case"
        )
    kind = kind or (case.kind if case.kind in FLAGS else PLAIN)
    values: dict[str, object] = dict(case.parameters)
    controller = SilController(
        case.interface, values, kind=kind, silence=silence, cases=None, link=link
    )
    if controller.inputs.columns != case.names:
        raise CaseError(
            f"{case.interface} now has the inputs {', '.join(controller.inputs.columns)}, but the "
            f"case has {', '.join(case.names)}; restore the interface file of the case"
        )
    return _run(case, kind, controller)


def _run(case: Case, kind: str, prototype: SilController) -> Rerun:
    begun, tag, error, environment = 0, Tag(0), "", False
    outputs: dict[str, float] = {}
    names = prototype.outputs.columns
    controller = None
    try:
        controller = prototype.fresh()
        for (ns, step), inputs in zip(case.tags, case.inputs, strict=True):
            tag = Tag(int(ns), int(step))
            begun, outputs = begun + 1, {}
            outputs = dict(zip(names, controller.step(tag, inputs).tolist(), strict=True))
            bad = [name for name, value in outputs.items() if not math.isfinite(value)]
            if bad:
                text = f"{controller.name} answered {outputs[bad[0]]} for {bad[0]}"
                raise controller.explained(tag, ControllerError(text))
        last, controller = controller, None
        last.close()
    except ControllerError as problem:
        error, environment = str(problem), problem.environment
    finally:
        if controller is not None:
            controller.close()
    return Rerun(case, kind, tag, begun, outputs, error, environment)


def load_and_rerun(
    path: Path, kind: str | None = None, silence: float = 10.0, link: str | None = None
) -> Rerun:
    """Load a case from a file, and repeat its steps.

    Raises ``TrustError`` without permission for the C code of the case.
    """
    case = Case.load(path)
    if case.path.is_file():
        check_c_of_now(case.interface, str(path))
    return rerun_case(case, kind, silence, link)
