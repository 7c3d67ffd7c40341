"""Check that a controller fits a target: compile and link it, and measure its size."""

from __future__ import annotations

from dataclasses import dataclass

from hitl.boards.description import BoardDescription
from hitl.boards.known import board_of
from hitl.building.build import build
from hitl.building.toolchain import Toolchain
from hitl.firmware.compiling import NoTools
from hitl.firmware.firmware import Firmware, firmware
from hitl.interface import Interface
from hitl.interface.targets import check_target

HOST = "host"


@dataclass(frozen=True)
class Fit:
    """The result of a check that found no error; parts of the check may be undecided."""

    checked: tuple[str, ...]
    """Descriptions of the properties that were checked."""
    unchecked: str = ""
    """Properties that could not be checked, with the reason; "" if there are none."""
    warnings: str = ""
    """Warnings of the compilers for the controller's own C code."""

    @property
    def decided(self) -> bool:
        """True if everything could be checked."""
        return not self.unchecked


def fit(
    interface: Interface, target: str = HOST, toolchain: Toolchain | None = None,
    board: BoardDescription | None = None,
) -> Fit:  # fmt: skip
    """Compile and link the controller of ``interface`` for ``target``, and keep the build.

    ``target`` is ``"host"`` or a family of processors, such as ``"avr"``.  ``toolchain`` is the
    host's compiler.  ``board`` replaces ``target``; without it, the first board with this processor
    is used.  Raises :class:`InterfaceError`, :class:`BuildError` or :class:`BoardError` if the
    controller does not fit, and :class:`CannotBuild` if no compiler works.
    """
    if board is None:
        check_target(interface, target)
        if target == HOST:
            return _on_host(interface, toolchain)
        board = board_of(target)
    target = board.target.name
    check_target(interface, board.target)
    try:
        made = firmware(interface, board=board)
    except NoTools as error:
        host = _on_host(interface, toolchain)
        checked = (f"the types of its signals for {target}", *host.checked)
        return Fit(checked, f"the build for {target} and its size: {error}", host.warnings)
    return Fit((_built(made), _room(made)), warnings=made.warnings)


def _on_host(interface: Interface, toolchain: Toolchain | None) -> Fit:
    made = build(interface, toolchain=toolchain)
    return Fit((f"compiled and linked for this host by {made.compiler}",), warnings=made.warnings)


def _built(made: Firmware) -> str:
    image = "; the image of these sources ships with rtsim" if made.prebuilt else ""
    return f"compiled and linked for {made.board.phrase} by {made.compiler}{image}"


def _room(made: Firmware) -> str:
    return (
        f"{made.flash_bytes} bytes of flash, {made.ram_bytes} bytes of static RAM; "
        f"{made.stack_bytes} bytes of RAM are left for the stack"
    )
