"""Check that a controller fits a target: compile and link it there, and measure its size."""

from __future__ import annotations

from dataclasses import dataclass

from hitl.building.build import build
from hitl.building.toolchain import Toolchain
from hitl.firmware.compiling import RAM, NoTools
from hitl.firmware.firmware import Firmware, firmware
from hitl.interface import Interface
from hitl.interface.targets import check_target

HOST = "host"


@dataclass(frozen=True)
class Fit:
    """The result of a check: the controller fits if everything could be checked."""

    checked: tuple[str, ...]
    """The properties that were checked."""
    unchecked: str = ""
    """The properties that could not be checked, and the reason."""
    warnings: str = ""
    """The compilers' warnings of the controller's own C."""

    @property
    def decided(self) -> bool:
        """True if everything could be checked."""
        return not self.unchecked


def fit(interface: Interface, target: str = HOST, toolchain: Toolchain | None = None) -> Fit:
    """Compile and link the controller of ``interface`` for ``target``; builds are kept.

    ``target`` is ``"host"`` or ``"avr"``, and ``toolchain`` the host's compiler.  Raises
    :class:`InterfaceError`, :class:`BuildError` or :class:`BoardError` if the controller does not
    fit, and :class:`CannotBuild` if no compiler works.
    """
    check_target(interface, target)
    if target == HOST:
        return _on_host(interface, toolchain)
    try:
        made = firmware(interface)
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
    return f"compiled and linked for an Uno by {made.compiler}{image}"


def _room(made: Firmware) -> str:
    left = RAM - made.ram_bytes
    return (
        f"{made.flash_bytes} bytes of flash, {made.ram_bytes} bytes of static RAM; {left} bytes of "
        "RAM are left for the stack"
    )
