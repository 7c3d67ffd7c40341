"""Check that the flags of an interface file generate code for the width of this process."""

from __future__ import annotations

import struct
from pathlib import Path
from tempfile import TemporaryDirectory

from hitl.building.complaints import located
from hitl.building.toolchain import BuildError, Toolchain
from hitl.interface import Interface, InterfaceError

MACHINE = ("-m", "--target", "--sysroot", "-isysroot")
"""Prefixes of the flags that choose a processor."""
_OURS = struct.calcsize("P")
"""Bytes of a pointer in this process and in its libzmq."""
_OTHER = "rtsim: pointers of another width"


def check_width(interface: Interface, toolchain: Toolchain) -> None:
    """Raise :class:`InterfaceError` if the flags generate code of another width than this process.

    A worker of another width would need a libzmq of that width, which no Python package provides.
    A library of another width cannot be loaded into this process (docs/decisions/113).
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
        f"{' '.join(flags)} generates code of another width than the {8 * _OURS} bits of this "
        f"process, which can neither load it as a library nor run it as a worker. Build it for "
        f"{8 * _OURS} bits with types of fixed size (int32_t instead of long), or run it on a "
        f"machine of that width: rtsim sil serve {interface.path.name}"
    )
    return located(interface, line or lines.of("", "flags"), text)
