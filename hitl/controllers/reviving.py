"""Controllers started again from what a recording says of them."""

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
    """What :meth:`SilController.describe` told of, built again with parameters ``values``."""
    if "endpoint" in about:
        raise CheckpointError(
            f"{about['interface']} was served at {about['endpoint']}, with keys that no recording "
            "holds; go on from Python: simulate(scenario, start=checkpoint)"
        )
    return SilController(_reference(about), values, kind=_kind(about))


def in_process(about: Mapping[str, Any], values: Mapping[str, object]) -> InProcess:
    """The same for :class:`InProcess`."""
    return InProcess(_reference(about), values, kind=_kind(about))


def board(about: Mapping[str, Any], values: Mapping[str, object]) -> BoardController:
    """The same for :class:`BoardController` in lockstep, with the firmware of its interface."""
    if about.get("paced"):
        raise CheckpointError(
            f"{about['url']} is a board in real time, whose own clock went on; go on from Python: "
            "simulate(scenario, start=checkpoint)"
        )
    url = str(about["url"])
    if not parse_url(url).emulated:
        check_device(url, _THE_RUN)
    return BoardController(_reference(about), values, url=url)


def _reference(about: Mapping[str, Any]) -> str:
    """Of the interface file, where its C may be compiled and run."""
    variant = about.get("variant")
    reference = f"{about['interface']}:{variant}" if variant else str(about["interface"])
    check_c(reference, _THE_RUN, about.get("sha256"))
    return reference


def _kind(about: Mapping[str, Any]) -> str:
    kind = str(about.get("build"))
    if kind not in FLAGS:
        raise CheckpointError(
            f"{about['interface']} was flown as a {kind} build, which cannot be made again"
        )
    return kind
