"""Measure the coverage of C code with gcov and gcovr.

::

    made = build("pid.toml", "coverage")
    with measured(made, "coverage-report") as coverage:
        ...                       # any number of runs and processes of SilController(made)
    print(coverage.in_words)      # lines 97.5 % (39 of 40), branches 83.3 % (10 of 12): ...

A measurement starts at zero. The result includes all processes that start during the measurement
and end by themselves. Only the user's sources and headers count, without generated code.

The folder must not have the name ``coverage``, which numba would import as a package.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hitl.building import store
from hitl.building.build import COVERAGE, Build
from hitl.building.toolchain import Toolchain, captured, find_toolchain, in_english
from rtsim.core.errors import RtsimError

_EVERY_FOLDER = "999"
_VARIABLES = ("GCOV_PREFIX", "GCOV_PREFIX_STRIP")


class CoverageError(RtsimError):
    """Coverage cannot be measured, for the reason in the message."""


@dataclass(frozen=True)
class Counted:
    """Numbers of all lines and branches, and of those that were executed."""

    lines: int = 0
    lines_run: int = 0
    branches: int = 0
    branches_run: int = 0

    @property
    def line_percent(self) -> float:
        return 100.0 * self.lines_run / self.lines if self.lines else 100.0

    @property
    def branch_percent(self) -> float:
        return 100.0 * self.branches_run / self.branches if self.branches else 100.0

    def to_json(self) -> dict[str, float]:
        return {
            "lines": self.lines, "lines_run": self.lines_run, "line_percent": self.line_percent,
            "branches": self.branches, "branches_run": self.branches_run,
            "branch_percent": self.branch_percent,
        }  # fmt: skip


@dataclass
class Coverage:
    """The coverage of a measurement; empty before the end of the measurement."""

    html: Path
    """First page of the HTML report."""
    by_file: dict[str, Counted] = field(default_factory=dict)
    """Counts by path of the source or header."""

    @property
    def total(self) -> Counted:
        counted = self.by_file.values()
        return Counted(
            sum(c.lines for c in counted), sum(c.lines_run for c in counted),
            sum(c.branches for c in counted), sum(c.branches_run for c in counted),
        )  # fmt: skip

    @property
    def line_percent(self) -> float:
        return self.total.line_percent

    @property
    def branch_percent(self) -> float:
        return self.total.branch_percent

    @property
    def in_words(self) -> str:
        t = self.total
        return (
            f"lines {t.line_percent:.1f} % ({t.lines_run} of {t.lines}), "
            f"branches {t.branch_percent:.1f} % ({t.branches_run} of {t.branches}): {self.html}"
        )

    def to_json(self) -> dict[str, Any]:
        files = {path: counted.to_json() for path, counted in self.by_file.items()}
        return {**self.total.to_json(), "files": files, "html": str(self.html)}


@contextmanager
def measured(builds: Build | Sequence[Build], into: str | Path) -> Iterator[Coverage]:
    """Context manager that measures the coverage of ``builds`` and writes a report to ``into``.

    ``builds`` are coverage builds. Measurements cannot be nested. Raises ``CoverageError`` if a
    build is unsuitable, a tool is missing, or no process ended by itself.
    """
    listed = [builds] if isinstance(builds, Build) else list(builds)
    tool = _gcov(listed)
    folder = Path(into).absolute()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CoverageError(f"cannot write coverage to {folder}: {error.strerror}") from None
    coverage = Coverage(folder / "index.html")
    before = {name: os.environ.get(name) for name in _VARIABLES}
    with tempfile.TemporaryDirectory(prefix="rtsim-coverage-") as name:
        os.environ |= dict(zip(_VARIABLES, (name, _EVERY_FOLDER), strict=True))
        try:
            yield coverage
        finally:
            for variable, value in before.items():
                os.environ.pop(variable)
                if value is not None:
                    os.environ[variable] = value
        counters = Path(name)
        if not any(counters.glob("*.gcda")):
            raise CoverageError(
                f"no process of {', '.join(b.interface.name for b in listed)} ran to its end, "
                "so no lines were counted; run the coverage build in a worker process"
            )
        coverage.by_file.update(_report(listed, counters, folder, tool))


def _report(builds: Sequence[Build], counters: Path, into: Path, tool: str) -> dict[str, Counted]:
    for build in builds:
        for notes in build.folder.glob("*.gcno"):
            shutil.copy(notes, counters)
    files = sorted({path for build in builds for path in user_files(build)})
    root = Path(os.path.commonpath([path.parent for path in files]))
    summary = counters / "summary.json"
    command = [
        sys.executable, "-m", "gcovr", "--config", os.devnull, "--root", str(root),
        "--gcov-executable", tool, "--merge-mode-functions", "separate",
        *(f"--filter={re.escape(str(path))}$" for path in files),
        "--json-summary", str(summary), "--html-details", str(into / "index.html"),
        "--html-title", f"Coverage of {', '.join(b.interface.name for b in builds)}",
        str(counters),
    ]  # fmt: skip
    done = captured(command, cwd=counters)
    if done.returncode != 0:
        raise CoverageError(f"gcovr failed:\n{(done.stderr or done.stdout).strip()}")
    return {
        str(root / row["filename"]): Counted(
            row["line_total"], row["line_covered"], row["branch_total"], row["branch_covered"]
        )
        for row in json.loads(summary.read_text(encoding="utf-8"))["files"]
    }


def user_files(build: Build) -> Iterator[Path]:
    """Yield the user's sources and headers."""
    interface = build.interface
    folders = {*(path.parent for path in interface.sources), *interface.include}
    for path in store.read_by(build.folder):
        if any(path.is_relative_to(folder) for folder in folders):
            yield path


def _gcov(builds: Sequence[Build]) -> str:
    for build in builds:
        if build.kind != COVERAGE:
            raise CoverageError(
                f"{build.interface.name} is a {build.kind} build, which does not count the "
                "lines that ran; use --build coverage"
            )
    if importlib.util.find_spec("gcovr") is None:
        raise CoverageError("coverage needs gcovr; type: pip install 'rtsim[sil]'")
    compilers = {build.compiler for build in builds}
    if len(compilers) != 1:
        raise CoverageError(
            f"the builds were made by {len(compilers)} different compilers; build all of them "
            "with the same compiler (CC)"
        )
    compiler = Toolchain(("cc",), compilers.pop())
    found = _candidates(compiler)
    for tool in found:
        if _major(tool) == compiler.major:
            return " ".join(tool)
    package = "llvm" if compiler.family == "clang" else "gcc"
    wanted = f"{compiler.family} {compiler.major}"
    raise CoverageError(
        f"none of {', '.join(t[0] for t in found)} fits the compiler {compiler.version}; install "
        f"the gcov of {wanted}, for example: sudo apt install {package}-{compiler.major}"
    )


def _candidates(compiler: Toolchain) -> list[tuple[str, ...]]:
    if compiler.family == "clang":
        return [(f"llvm-cov-{compiler.major}", "gcov"), ("llvm-cov", "gcov")]
    beside = []
    for word in find_toolchain().command:  # gcc-12 has its gcov-12 beside it
        if path := shutil.which(word):
            real = Path(path).resolve()
            beside.append((str(real.with_name(real.name.replace("gcc", "gcov"))),))
    return [*(b for b in beside if "gcov" in b[0]), (f"gcov-{compiler.major}",), ("gcov",)]


def _major(tool: Sequence[str]) -> int:
    try:
        done = captured([tool[0], "--version"], env=in_english())
    except (OSError, subprocess.TimeoutExpired):
        return -1
    line = next((text for text in done.stdout.splitlines() if re.search(r"\d+\.\d", text)), "")
    return Toolchain((tool[0],), line).major
