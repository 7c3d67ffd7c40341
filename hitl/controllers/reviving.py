"""Starts controllers again from their description in a recording."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hitl.boards import parse_url
from hitl.building.build import FLAGS
from hitl.controllers.board import BoardController
from hitl.controllers.in_process import InProcess
from hitl.controllers.sil import SilController
from hitl.controllers.trusting import check_c
from rtsim.core.errors import CheckpointError
from rtsim.scenario.trust import check_device

_THE_RUN = "the recorded run"


def sil(about: Mapping[str, Any], values: Mapping[str, object]) -> SilController:
    """Return a controller with the parameters ``values`` from its recorded description.

    ``about`` is the description of :meth:`SilController.describe`. Raises :class:`CheckpointError`
    if the controller cannot be built again, :class:`TrustError` for C code that may not be run.
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
    """Return the interface file with its variant; raises an error if its C code may not be run."""
    variant = about.get("variant")
    reference = f"{about['interface']}:{variant}" if variant else str(about["interface"])
    check_c(reference, _THE_RUN, about.get("sha256"))
    return reference


def _kind(about: Mapping[str, Any]) -> str:
    kind = str(about.get("build"))
    if kind not in FLAGS:
        raise CheckpointError(
            f"the recorded run used a {kind} build of {about['interface']}, which cannot be rebuilt"
        )
    return kind
