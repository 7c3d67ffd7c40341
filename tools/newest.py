"""Run a sample of the tests with the newest Python of this machine, beside the one of the tests.

``make test-newest`` calls it with options for pytest.  The sample has the tests that touch what
differs between versions of Python: bytecode, syntax trees, pickling, sums, packaging, processes.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from tools.setup import ROOT

OLDEST, NEWEST = (3, 11), (3, 14)
"""The versions of Python that rtsim runs on."""
SAMPLE = (
    "tests/project/test_wheel.py",
    "tests/core/test_file_hash.py",
    "tests/runs/test_diverge.py::test_an_unordered_set",
    "tests/linear/test_linear_derivatives.py",
    "tests/equations/test_compilable.py",
    "tests/project/test_extension_wheel.py",
    "tests/scenario/test_trust.py",
    "tests/record/test_record_file.py",
    "tests/discrete/test_discrete_processes.py",
    "tests/blocks/test_blocks_scratch.py",
)
_VERSION = "import sys; print(*sys.version_info[:2])"


def candidates() -> Iterator[Path]:
    """Yield the Pythons on PATH by their versions, and those that pyenv has installed."""
    for minor in range(NEWEST[1], OLDEST[1] - 1, -1):
        for folder in os.environ.get("PATH", "").split(os.pathsep):
            if found := shutil.which(f"python3.{minor}", path=folder):
                yield Path(found)
    versions = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv", "versions")
    yield from sorted(versions.glob("*/bin/python3"))


def version_of(python: Path) -> tuple[int, int] | None:
    """Return the version of ``python``; ``None`` if it does not run or makes no environments."""
    code = f"import ensurepip, venv; {_VERSION}"
    try:
        said = subprocess.run(
            [python, "-c", code], capture_output=True, text=True, timeout=60, check=True
        ).stdout.split()
    except (OSError, subprocess.SubprocessError):
        return None
    return int(said[0]), int(said[1])


def suitable(pythons: Iterable[Path]) -> dict[tuple[int, int], Path]:
    """Return the first of ``pythons`` of each version that rtsim runs on."""
    found: dict[tuple[int, int], Path] = {}
    for path in pythons:
        version = version_of(path)
        if version is not None and OLDEST <= version <= NEWEST:
            found.setdefault(version, path)
    return found


def newest(pythons: Iterable[Path]) -> tuple[tuple[int, int], Path] | None:
    """Return version and path of the newest of ``pythons`` that rtsim runs on."""
    return max(suitable(pythons).items(), default=None)


def main(options: list[str]) -> int:
    """Return pytest's exit status; 0 if the tests run with the newest Python anyway."""
    here = sys.version_info[:2]
    found = newest(candidates())
    if found is None or found[0] <= here:
        print(
            f"newest: no Python newer than {here[0]}.{here[1]} is on PATH or in pyenv, so the "
            "tests ran with this one only"
        )
        return 0
    (major, minor), python = found
    place = ROOT / (os.environ.get("VENV", ".venv") + "-newest")
    environment = {
        **os.environ, "VENV": str(place), "PYTHON": str(python),
        "RTSIM_CACHE_DIR": str(place / "cache"),
    }  # fmt: skip
    if status := subprocess.call([ROOT / "tools" / "setup.sh", "dev"], env=environment):
        return status
    print(f"newest: {len(SAMPLE)} files of tests with Python {major}.{minor}", flush=True)
    command = [str(place / "bin" / "python"), "-m", "pytest", *options, *SAMPLE]
    return subprocess.call(command, cwd=ROOT, env=environment)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
