"""The two levels after the reference model: the C code on this host and on a board."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

from hitl.boards.description import BoardDescription
from hitl.boards.known import DEFAULT_BOARD, DEFAULT_URL
from hitl.boards.paced import check_posix
from hitl.boards.serial_port import pyserial
from hitl.boards.urls import parse_url
from hitl.building.build import build
from hitl.comparison.back_to_back import Rung
from hitl.controllers.board import BoardController
from hitl.controllers.parameters import unnamed
from hitl.controllers.protocols import warnings_of
from hitl.controllers.sil import CASES, SilController
from hitl.firmware import Firmware
from hitl.firmware import firmware as firmware_of
from hitl.interface import Interface, InterfaceError, load_interface
from hitl.interface.targets import check_target
from hitl.protocol.line import Budget
from hitl.protocol.messages import HelloReply
from rtsim.core.errors import ScenarioError
from rtsim.engine.faults.line_kinds import BoardFault
from rtsim.scenario.controller_component import ControllerComponent
from rtsim.scenario.scenario import Scenario

HOST, BOARD = "host C", "board"


class OnBoards(NamedTuple):
    """The result of :func:`rungs`: both levels, and the firmware images."""

    rungs: list[Rung]
    images: dict[str, Firmware]
    """The firmware that was built for emulated boards, by controller."""

    @property
    def board(self) -> Rung:
        """The level with the board."""
        return self.rungs[-1]

    @property
    def warnings(self) -> dict[str, str]:
        """Compiler warnings about the C code, by controller and level; empty if there were none."""
        return {
            f"{name} ({rung.name})": warnings_of(controller)
            for rung in self.rungs
            for name, controller in rung.controllers.items()
        }


class Met(NamedTuple):
    """A board that was contacted before the first run: its identity and its time budget."""

    board: HelloReply
    budget: Budget
    baud: int


def rungs(
    controllers: Mapping[str, str | Path],
    url: str,
    *,
    paced: bool = False,
    firmware: Path | None = None,
    cases: Path | None = CASES,
    link: str | None = None,
) -> OnBoards:
    """Build the C code for this host and for the board at ``url``, but start nothing.

    ``controllers`` are interface files by the component that each replaces.  With ``paced``
    the closed loop on the board is paced by the wall clock; the open loop is in lockstep in any
    case.  ``firmware`` is an Intel HEX file for an emulated board; ``link`` is the link to the C
    code on this host, as for :class:`SilController`.  Raises :class:`InterfaceError` for types that
    the board's processor does not have, :class:`ScenarioError` for two controllers on one real
    board, :class:`BoardError` if an emulated board cannot be paced on this system.
    """
    at = parse_url(url)
    emulated = at.emulated
    if not emulated and len(controllers) > 1:
        raise ScenarioError(
            f"the board at {url} can run only one controller, but {', '.join(controllers)} are "
            f"given; give one of them, or use emulated boards: --board {DEFAULT_URL}"
        )
    if not emulated and firmware is not None:
        raise ScenarioError(
            f"the image {firmware} is for an emulated board, but {url} is a real board, which runs "
            f"the firmware that it was flashed with; type: rtsim flash {firmware} --port PORT"
        )
    if paced and emulated:  # the run opens the board's port last, so check now
        check_posix()
        pyserial()
    interfaces = {name: load_interface(reference) for name, reference in controllers.items()}
    for interface in interfaces.values() if emulated else ():  # a real board reports its types
        check_processor(interface, at.description)
    images = {}
    if emulated and firmware is None:
        images = {
            n: firmware_of(i, baud=at.baud, board=at.description) for n, i in interfaces.items()
        }
    hosts = {n: SilController(build(i), cases=cases, link=link) for n, i in interfaces.items()}
    kept = {name: own_values(host) for name, host in hosts.items()}

    def boards(paced: bool) -> dict[str, BoardController]:
        return {
            name: BoardController(
                interface,
                url=url,
                firmware=images[name].path if name in images else firmware,
                cases=cases,
                paced=paced,
                warnings=images[name].warnings if name in images else "",
                kept=kept[name],
            )
            for name, interface in interfaces.items()
        }

    board = Rung(BOARD, boards(False), boards(True) if paced else None)
    return OnBoards([Rung(HOST, hosts), board], images)


def own_values(host: SilController) -> dict[str, object]:
    """Return the values of the parameters that only the C code has, by name, for the board."""
    names = unnamed(host.interface, host.values)
    if not names:
        return {}
    with closing(host.fresh()) as running:
        own = running.p
        return {name: own[host.parameters.slice(name)].tolist() for name in names}


def check_faults(scenario: Scenario, board: Rung, url: str) -> None:
    """Raise :class:`ScenarioError` for a fault that this host cannot cause on the board."""
    for fault in () if parse_url(url).emulated else scenario.declared_faults:
        if issubclass(fault.kind, BoardFault) and fault.part in board.controllers:
            raise ScenarioError(
                f"fault {fault.name}: the board at {url} cannot be {fault.kind.needs} by the "
                f"host; run on {DEFAULT_URL}, or leave the fault out"
            )


def check_processor(interface: Interface, board: BoardDescription = DEFAULT_BOARD) -> None:
    """Raise :class:`InterfaceError`, with a variant that fits, for a type that ``board`` lacks."""
    try:
        check_target(interface, board.target)
    except InterfaceError as error:
        fitting = _fitting(interface, board)
        if not fitting:
            raise
        text = str(error).partition(";")[0]
        raise InterfaceError(f"{text}; type: {interface.path.name}:{fitting[0]}") from None


def _fitting(interface: Interface, board: BoardDescription) -> list[str]:
    """Return the variants of the interface file whose types the board has."""
    out = []
    for variant in tomllib.loads(interface.path.read_text(encoding="utf-8")).get("variants", {}):
        try:
            check_target(load_interface(f"{interface.path}:{variant}"), board.target)
        except InterfaceError:
            continue
        out.append(variant)
    return out


def in_words(image: Firmware) -> str:
    """Return one line about an image: its origin, its compiler and its size."""
    made = "shipped with rtsim" if image.prebuilt else "built here"
    return (
        f"{made} ({image.compiler}), {image.flash_bytes} bytes of flash, {image.ram_bytes} bytes "
        f"of RAM beside the stack"
    )


def meet(rung: Rung, scenario: Scenario) -> dict[str, Met]:
    """Connect to each board of ``rung`` once, to find an absent board before the first run.

    Returns the identity and the time budget by controller, at the period of ``scenario``.  Raises
    the error of the connection.
    """
    out, periods = {}, scenario.of(ControllerComponent)
    for name, prototype in rung.controllers.items():
        assert isinstance(prototype, BoardController)
        controller = prototype.fresh()
        try:
            assert controller.board is not None
            budget = controller.budget.every(periods[name].period)
            out[name] = Met(controller.board, budget, controller.baud)
        finally:
            controller.close()
    return out
