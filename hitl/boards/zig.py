"""The compiler of boards with a Cortex-M: clang in the Python package ziglang."""

from __future__ import annotations

from hitl.boards.description import Compiler


def zig(machine: tuple[str, ...], script: str, entry: str, *more: str) -> Compiler:
    """Return the compiler for a processor without an operating system (docs/decisions/150).

    Args:
        machine: Flags that select the processor.
        script: Linker script among the board's C code.
        entry: Name of the first function.
        more: Further flags for compiler and linker.
    """
    return Compiler(
        prefix="",
        package="ziglang",
        headers=("lib/libc/include/arm-linux-musl", "lib/libc/include/generic-musl"),
        install="pip install 'rtsim[sil]'",
        machine=machine,
        flags=(
            "-Os", "-g0", "-ffreestanding", "-ffunction-sections", "-fdata-sections",
            "-ffp-contract=off", "-fno-sanitize=undefined", *more,
        ),
        cpp=("-std=gnu++11", "-fno-exceptions", "-fno-rtti", "-fno-threadsafe-statics"),
        libraries=(),  # the run-time library of zig contains its mathematical functions
        link=(
            f"-Wl,-T,{{hal}}/{script}", f"-Wl,--entry={entry}", "-Wl,--gc-sections",
        ),
    )  # fmt: skip
