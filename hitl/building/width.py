"""Check that the compiler flags generate code with pointers of the same size as in this process."""

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
"""Size of a pointer in this process and in its libzmq, bytes."""
_OTHER = "rtsim: pointers of another width"


def check_width(interface: Interface, toolchain: Toolchain) -> None:
    """Check that the flags of ``interface`` generate code with pointers as in this process.

    Raises :class:`InterfaceError` if the pointers have another size.  Then a worker would need a
    libzmq for that size, which no Python package provides, and a library could not be loaded into
    this process (docs/decisions/113).
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
        f"{' '.join(flags)} generates code with pointers of another size than the {8 * _OURS} bits "
        f"of this process. Build for {8 * _OURS} bits with types of fixed size (int32_t instead of "
        "long), or run the controller on a machine for which the flags are right: rtsim sil serve "
        f"{interface.path.name}"
    )
    return located(interface, line or lines.of("", "flags"), text)
