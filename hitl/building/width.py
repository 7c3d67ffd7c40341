"""The width of the code that an interface file asks for: that of its worker, or it is refused."""

from __future__ import annotations

import struct
from pathlib import Path
from tempfile import TemporaryDirectory

from hitl.building.complaints import located
from hitl.building.toolchain import BuildError, Toolchain
from hitl.interface import Interface, InterfaceError

MACHINE = ("-m", "--target", "--sysroot", "-isysroot")
"""What flags that choose a processor begin with."""
_OURS = struct.calcsize("P")
"""Bytes of a pointer in this process, and in its libzmq."""
_OTHER = "rtsim: pointers of another width"


def check_width(interface: Interface, toolchain: Toolchain) -> None:
    """Raise :class:`InterfaceError` where the flags make code of another width than this process.

    A worker of that width would want a libzmq of that width, which no package of Python brings; a
    library of that width cannot be loaded into this process (docs/decisions/113).
    """
    flags = [flag for flag in interface.flags if flag.startswith(MACHINE)]
    if not flags:
        return
    with TemporaryDirectory(prefix="rtsim-") as scratch:
        unit = Path(scratch) / "width.c"
        asserted = f'_Static_assert(sizeof(void *) == {_OURS}, "{_OTHER}");\n'
        unit.write_text(asserted, encoding="utf-8")
        try:
            toolchain.run([*flags, "-c", unit, "-o", f"{unit}.o"], interface.path.parent)
        except BuildError as error:
            if _OTHER not in str(error):
                raise
            raise InterfaceError(_refusal(interface, flags)) from error


def _refusal(interface: Interface, flags: list[str]) -> str:
    lines = interface.lines
    line = next((n for flag in flags if (n := lines.using(flag.lstrip("-")))), 0)
    text = (
        f"{' '.join(flags)} makes code of another width than the {8 * _OURS} bits of this "
        f"process: neither a worker with its libzmq nor a library can be made of it here. Build "
        f"it for {8 * _OURS} bits with types of fixed size (int32_t in the place of long), or run "
        f"it on a machine of its own width: rtsim sil serve {interface.path.name}"
    )
    return located(interface, line or lines.of("", "flags"), text)
