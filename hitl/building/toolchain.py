"""Run the system's C compiler, or the one of the package ``ziglang``."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import cache
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as package_version
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from rtsim.core.cache import cache_folder as cache_folder
from rtsim.core.errors import RtsimError


def not_writable(folder: Path, error: OSError) -> str:
    return (
        f"cannot write to the cache folder {folder}: {error.strerror}; "
        "set RTSIM_CACHE_DIR to a writable folder"
    )


_PATIENCE_S = 300.0
"""Timeout of a tool, s."""
_PATIENCES_OF_ZIG = (90.0, 300.0)
"""Timeouts (s) of two attempts, because zig hangs once in thousands of calls."""
_SLOW_S = 5.0
_NAMES = ("cc", "gcc", "clang")
_INSTALL = "pip install 'rtsim[sil]'   (or: sudo apt install gcc)"
_CPP_OF = (("gcc", "g++"), ("clang", "clang++"), ("cc", "c++"))
"""Names of C compilers, each with the name of its C++ compiler."""
_ENVIRONMENT = (
    "CPATH", "C_INCLUDE_PATH", "CPLUS_INCLUDE_PATH", "LIBRARY_PATH", "LD_LIBRARY_PATH",
    "LD_RUN_PATH", "LDEMULATION", "COMPILER_PATH", "GCC_EXEC_PREFIX", "CCC_OVERRIDE_OPTIONS",
    "SDKROOT", "MACOSX_DEPLOYMENT_TARGET", "SOURCE_DATE_EPOCH",
)  # fmt: skip
"""Environment variables that compilers and linkers read in addition to their arguments."""
_PARTS = ("cc1", "cc1plus", "as", "ld", "collect2")
"""Programs that gcc starts."""
_PROGRAMS = (
    b"\x7fELF", b"MZ", b"\xfe\xed\xfa", b"\xce\xfa\xed\xfe", b"\xcf\xfa\xed\xfe", b"\xca\xfe\xba",
)  # fmt: skip
"""First bytes of ELF, PE and Mach-O programs; Mach-O in both byte orders and multi-part."""
_AS_OTHERS = ("-fno-sanitize=undefined", "-mcpu=baseline")
"""Options that make zig behave like gcc and clang.

Without these options, zig generates code for the processor of this machine. Unoptimised code would
also trap on undefined behaviour and use its own implementation of sinf.
"""


def captured(
    command: Sequence[str | Path], patience: float = _PATIENCE_S, **how: Any
) -> subprocess.CompletedProcess[str]:
    """Run a tool, and return its exit status and its output.

    ``how`` are arguments of :func:`subprocess.run`. Raises ``subprocess.TimeoutExpired`` after
    ``patience`` s, and ``OSError`` if the tool cannot be run.
    """
    return subprocess.run(
        command, capture_output=True, text=True, errors="replace", stdin=subprocess.DEVNULL,
        timeout=patience, **how,
    )  # fmt: skip


def in_english() -> dict[str, str]:
    """Return environment variables with which tools print English messages."""
    return {**os.environ, "LC_ALL": "C"}


class BuildError(RtsimError):
    """The C code cannot be compiled; the message contains the output of the compiler."""


class CannotBuild(BuildError):
    """No compiler works, or a folder is not writable; the C code is not the cause."""


@dataclass(frozen=True)
class CompilerOutput:
    """Output and warnings of a successful compilation."""

    output: str
    warnings: str


@dataclass(frozen=True)
class Toolchain:
    """A compiler driver with gcc-compatible options."""

    command: tuple[str, ...]
    version: str
    """Version line of the compiler, which is part of the key of a build."""

    @property
    def family(self) -> str:
        """``gcc``, ``clang`` or ``zig`` (clang without sanitizers and coverage)."""
        if "ziglang" in self.command or Path(self.command[0]).stem == "zig":
            return "zig"
        return "clang" if "clang" in self.version.lower() else "gcc"

    @property
    def major(self) -> int:
        """Major version, such as 12 for ``gcc (Debian 12.2.0-14) 12.2.0``; 0 if unknown."""
        found = re.search(r"\)\s+(\d+)\.", self.version) or re.search(r"(\d+)\.", self.version)
        return int(found[1]) if found else 0

    def cpp(self) -> Toolchain:
        """Return the C++ compiler of the same make, or the one that ``$CXX`` names.

        Raises ``CannotBuild`` if the C++ compiler is missing.
        """
        if self.family == "zig":
            at = max(k for k, word in enumerate(self.command) if word in ("cc", "c++"))
            command = (*self.command[:at], "c++", *self.command[at + 1 :])
            return replace(self, command=command)
        first, wanted = Path(self.command[0]), os.environ.get("CXX", "").strip()
        for name, cpp in _CPP_OF:
            stem, found, version = first.name.rpartition(name)
            if not found:
                continue
            if wanted and not stem:  # CXX is no compiler of a board
                break
            path = str(first.with_name(f"{stem}{cpp}{version}"))
            if shutil.which(path):
                command = (path, *self.command[1:])
                return replace(self, command=command, version=_version(command))
        if wanted:
            return _named(wanted, "CXX", "C++")
        raise CannotBuild(
            f"there is no C++ compiler beside {self.command[0]}; type: sudo apt install g++   "
            "(or name one: CXX=g++-12)"
        )

    def with_cpp(self) -> Toolchain:
        """Return this toolchain; raise ``CannotBuild`` without a C++ compiler."""
        self.cpp()
        return self

    def identity(self) -> list[object]:
        """Return all properties of the compiler that affect its output."""
        programs = [_file(path) for path in self._programs()]
        return [self.command, self.version, _environment(), programs]

    def script(self) -> str:
        """Return a sentence if a program of the compiler is a script, else "".

        A script may read any file.
        """
        scripts = (p for p in self._programs() if not _is_program(p))
        return next((f"{path} is a script, which may read other files" for path in scripts), "")

    def _programs(self) -> list[str]:
        found = [path for word in self.command if (path := shutil.which(word) or _a_file(word))]
        if self.family != "zig":  # its parts have the version of its package
            variables = json.dumps(_environment())
            found += _programs(self.command, os.environ.get("PATH"), variables)
        return found

    def _done(self, command: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
        for patience in _PATIENCES_OF_ZIG if self.family == "zig" else (_PATIENCE_S,):
            with _caches(self) as caches, _message_if_slow(self.family):
                try:
                    return captured(command, patience, cwd=folder, env=in_english() | caches)
                except subprocess.TimeoutExpired as error:
                    late = error
        raise late

    def run(self, arguments: Iterable[str | Path], folder: Path) -> CompilerOutput:
        """Run the compiler in ``folder``, and return its output.

        Raises :class:`BuildError` with the compiler's output if the compiler fails, and
        :class:`CannotBuild` if it cannot be run or does not finish in time.
        """
        command = [*self.command, *map(str, arguments)]
        try:
            done = self._done(command, folder)
        except subprocess.TimeoutExpired as late:
            raise CannotBuild(
                f"{self.command[0]} did not finish within {late.timeout:g} s"
            ) from None
        except OSError as error:
            raise CannotBuild(f"cannot run {self.command[0]}: {error.strerror}") from None
        if done.returncode != 0:
            said = (done.stderr or done.stdout).strip()
            raise BuildError(f"{shlex.join(self.command)} failed:\n{said}")
        return CompilerOutput(done.stdout, done.stderr)


@contextmanager
def _message_if_slow(compiler: str) -> Iterator[None]:
    def tell() -> None:
        sys.stderr.write(
            f"{compiler} is still compiling"
            + (
                "; its first build of C or C++ compiles the language's library\n"
                if compiler == "zig"
                else "\n"
            )
        )
        sys.stderr.flush()

    timer = threading.Timer(_SLOW_S, tell)
    timer.daemon = True
    if sys.stderr is not None and sys.stderr.isatty():
        timer.start()
    try:
        yield
    finally:
        timer.cancel()


@contextmanager
def _caches(compiler: Toolchain) -> Iterator[dict[str, str]]:
    if compiler.family != "zig":
        yield {}
        return
    folder = cache_folder() / "zig"
    try:
        if "ZIG_GLOBAL_CACHE_DIR" in os.environ:
            folder = Path(os.environ["ZIG_GLOBAL_CACHE_DIR"])
        folder.mkdir(parents=True, exist_ok=True)
        scratch = TemporaryDirectory(prefix="rtsim-zig-", ignore_cleanup_errors=True)
    except OSError as error:
        raise CannotBuild(not_writable(folder, error)) from None
    with scratch as name:
        yield {"ZIG_GLOBAL_CACHE_DIR": str(folder), "ZIG_LOCAL_CACHE_DIR": name}


def find_toolchain(cpp: bool = False) -> Toolchain:
    """Return the compiler that ``$CC`` names, or else cc, gcc or clang, or else that of ziglang.

    With ``cpp``, a compiler without a C++ compiler is not considered. Raises :class:`CannotBuild`
    if no compiler works; the message gives the command to install one.
    """
    if wanted := os.environ.get("CC", "").strip():
        return _named(wanted)
    broken: BuildError | None = None
    for name in _NAMES:
        if path := shutil.which(name):
            try:
                found = Toolchain((path,), _version((path,)))
                return found if not cpp else found.with_cpp()
            except BuildError as error:  # such as macOS's stub before its tools are installed
                broken = broken or error
    if find_spec("ziglang") is not None:
        command = (sys.executable, "-m", "ziglang", "cc", *_AS_OTHERS)
        return Toolchain(command, _version_of_ziglang())
    if broken is not None:
        raise CannotBuild(f"{broken}\nno C compiler works; type: {_INSTALL}")
    raise CannotBuild(f"no C compiler was found; type: {_INSTALL}")


def in_package(package: str) -> Toolchain:
    """Return the compiler of the Python package ``package``.

    Raises :class:`CannotBuild` for another package.
    """
    if package != "ziglang":
        raise CannotBuild(f"the compiler of the package {package} is unknown; use ziglang")
    return Toolchain((sys.executable, "-m", package, "cc"), _version_of_ziglang())


def _named(wanted: str, variable: str = "CC", language: str = "C") -> Toolchain:
    hint = f"unset {variable}, or name a {language} compiler"
    try:
        command = tuple(shlex.split(wanted))
    except ValueError as error:
        raise CannotBuild(f"{variable}={wanted}: {error}; {hint}") from None
    if not command or shutil.which(command[0]) is None:
        raise CannotBuild(f"{variable}={wanted}: no such program; {hint}")
    return Toolchain(command, _version(command))


def named(command: str) -> Toolchain:
    """Return the compiler ``command``; raise ``CannotBuild`` if it does not run."""
    return Toolchain((command,), _version((command,)))


def _version(command: tuple[str, ...]) -> str:
    path = Path(shutil.which(command[0]) or command[0])
    try:
        changed = path.stat().st_mtime_ns
    except OSError:
        changed = 0
    return _asked(command, changed)


@cache
def _programs(command: tuple[str, ...], path: str | None, environment: str) -> list[str]:  # noqa: ARG001
    out = []
    for name in _PARTS:
        with suppress(OSError, subprocess.TimeoutExpired):
            done = captured([*command, f"-print-prog-name={name}"])
            out += [found] if (found := shutil.which(done.stdout.strip())) else []
    return out


def _environment() -> dict[str, str | None]:
    return {name: os.environ.get(name) for name in _ENVIRONMENT}


def _a_file(word: str) -> str:
    return word if os.path.isfile(word) else ""


def _is_program(path: str) -> bool:
    with suppress(OSError), open(path, "rb") as file:
        return file.read(4).startswith(_PROGRAMS)
    return False


def _file(path: str) -> list[object]:
    real = os.path.realpath(path)
    with suppress(OSError):
        now = os.stat(real)
        return [real, now.st_size, now.st_mtime_ns]
    return [real]


@cache
def _asked(command: tuple[str, ...], changed: int) -> str:  # noqa: ARG001
    try:
        done = captured([*command, "--version"], env=in_english())
    except (OSError, subprocess.TimeoutExpired) as error:
        raise CannotBuild(f"{shlex.join(command)} --version: {error}") from None
    if done.returncode != 0:
        raise CannotBuild(f"{shlex.join(command)} --version failed: {done.stderr.strip()}")
    return done.stdout.partition("\n")[0].strip()


def _version_of_ziglang() -> str:
    try:
        return f"clang of ziglang {package_version('ziglang')}"
    except PackageNotFoundError:
        return "clang of ziglang, unknown version"
