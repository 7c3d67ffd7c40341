"""Whether a controller fits a target: it is compiled and linked for it, and its size is counted."""

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
    """What was checked, and what could not be checked: only where that is nothing does it fit."""

    checked: tuple[str, ...]
    unchecked: str = ""
    """And why."""
    warnings: str = ""
    """What compilers said of the controller's own C."""

    @property
    def decided(self) -> bool:
        return not self.unchecked


def fit(interface: Interface, target: str = HOST, toolchain: Toolchain | None = None) -> Fit:
    """Compile and link ``interface`` for ``target``; what was made is kept for who needs it next.

    Raises :class:`InterfaceError`, :class:`BuildError` or :class:`BoardError` where it does not
    fit, :class:`CannotBuild` where no compiler works.
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
        f"{made.flash_bytes} bytes of flash, {made.ram_bytes} of RAM; {left} are left for the stack"
    )
