"""The emulator simavr: a program with simavr's library, which rtsim compiles at its first use."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
from pathlib import Path

from hitl.boards.contract import BoardError
from hitl.building import store
from hitl.building.toolchain import BuildError, find_toolchain

FILES = Path(__file__).parent / "simavr"
_SOURCES = ("board.c", "usart.h")
_PROGRAM = "board"
_HEADER = "simavr/sim_avr.h"
_FLAGS = ("-std=gnu11", "-O2", "-Wall", "-Wextra")
_INSTALL = "sudo apt install libsimavr-dev gcc"


def command() -> list[str | Path]:
    """Return the command that starts the emulator; compile the emulator first if necessary.

    Raises :class:`BoardError` if simavr's library or a compiler is missing; the message gives the
    command to install it.
    """
    try:
        return [_built() / _PROGRAM]
    except BuildError as error:
        text = str(error)
        missing = f"{_HEADER.split('/')[0]}/" in text and "No such file" in text
        if missing or "-lsimavr" in text:
            text = "simavr's library is not installed"
        raise BoardError(f"cannot build the emulator simavr: {text}; type: {_INSTALL}") from None


def _built() -> Path:
    toolchain = find_toolchain()
    sources = [FILES / name for name in _SOURCES]
    version = _version()
    identity = repr([toolchain.identity(), [store.hash_of(s) for s in sources], version, _FLAGS])
    stem = f"simavr-{hashlib.sha256(identity.encode()).hexdigest()[:12]}"
    if (found := store.find(stem, [_PROGRAM])) is not None:
        return found
    header = Path("/usr/include") / _HEADER
    snapshot = store.Snapshot.of([*sources, *([header] if header.is_file() else [])])
    with store.workshop() as work:
        made = work / "made"
        made.mkdir()
        define = f'-DSIMAVR_VERSION="{version}"'
        libraries = ["-lsimavr", "-lm"]
        toolchain.run([*_FLAGS, define, "-o", made / _PROGRAM, FILES / "board.c", *libraries], work)
        folder = snapshot.folder(stem)
        store.settle(made, folder, snapshot, [_PROGRAM])
    return folder


def _version() -> str:
    """Return simavr's version from pkg-config; ``unknown`` if pkg-config does not know it."""
    tool = shutil.which("pkg-config")
    if tool is None:
        return "unknown"
    done = subprocess.run(
        [tool, "--modversion", "simavr"], capture_output=True, text=True, stdin=subprocess.DEVNULL
    )
    said = done.stdout.strip()
    return said if done.returncode == 0 and said.replace(".", "").isalnum() else "unknown"
