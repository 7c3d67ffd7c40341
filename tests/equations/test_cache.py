"""A cache folder that cannot be used costs time and one line; it never ends a run."""

from __future__ import annotations

import errno
import logging
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hitl.building import toolchain as of_hitl
from rtsim.core import cache
from rtsim.core.cache import LEFT_NS, UNUSED_NS, cache_folder, prune
from rtsim.equations import compiling
from rtsim.equations.addresses import EQUATION
from rtsim.equations.compiling import compile_function
from rtsim.equations.machine_code import MachineCode

NONE = np.zeros(0)


def law(t: Any, x: Any, z: Any, u: Any, p: Any, out: Any) -> None:  # noqa: ARG001
    out[0] = 5.0 * x[0] + t


def allocates(t: Any, x: Any, z: Any, u: Any, p: Any, out: Any) -> None:  # noqa: ARG001
    out[:] = np.dot(np.ones((x.size, x.size)), x)


def value(function: Any) -> float:
    compiling._ready.cache_clear()
    out = np.zeros(1)
    compile_function(function, EQUATION, "law").call(0.5, np.ones(1), NONE, NONE, NONE, out)
    return float(out[0])


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("RTSIM_CACHE_DIR", str(tmp_path / "cache"))
    cache._not_kept.cache_clear()
    return tmp_path / "cache"


def told(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records]


@pytest.mark.parametrize("function", [law, allocates], ids=lambda f: f.__name__)
def test_a_folder_that_cannot_be_written_is_told_of_once(
    function: Any, folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder.write_text("in the way")
    with caplog.at_level(logging.WARNING):
        first, second = value(function), value(function)
    assert first == second == value(function)
    (line,) = told(caplog)
    assert line.startswith(f"compiled functions cannot be stored in {folder}/compiled (")
    assert line.endswith("set RTSIM_CACHE_DIR to a writable folder")


@pytest.mark.sample(2)
@pytest.mark.parametrize("function", [law, allocates], ids=lambda f: f.__name__)
@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EACCES, errno.EROFS, errno.EDQUOT])
def test_a_full_disk_is_told_of_once(
    number: int, function: Any, folder: Path, monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    def fails(*_: Any, **__: Any) -> Any:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(MachineCode, "write", fails)
    monkeypatch.setattr("rtsim.equations.lowering._keep", fails)
    with caplog.at_level(logging.WARNING):
        assert value(function) in (5.5, 1.0)
        value(function)
    (line,) = told(caplog)
    assert f"{folder}/compiled ({os.strerror(number)})" in line


@pytest.mark.sample(1)
@pytest.mark.parametrize("name", [".nbi", ".nbc"])
@pytest.mark.parametrize("damage", [b"", b"not what numba wrote", None])
def test_numbas_files_heal(name: str, damage: bytes | None, folder: Path) -> None:
    assert value(allocates) == 1.0
    (kept,) = (folder / "compiled").glob("*.numba")
    files = [file for file in kept.rglob("*") if file.suffix == name]
    assert files
    for file in files:
        good = file.read_bytes()
        file.write_bytes(good[: len(good) // 2] if damage is None else damage)
    assert value(allocates) == 1.0
    assert value(allocates) == 1.0
    assert all(file.read_bytes() != damage for file in kept.rglob("*") if file.suffix == name), (
        "written anew"
    )


def test_both_packages_have_one_folder(folder: Path) -> None:
    assert of_hitl.cache_folder is cache_folder
    assert cache_folder() == folder


PROGRAM = """
import os, pwd, sys
from rtsim.core.cache import cache_folder
for name in ("HOME", "XDG_CACHE_HOME", "RTSIM_CACHE_DIR"):
    os.environ.pop(name, None)
def nobody(*_):
    raise KeyError("no such user")
pwd.getpwuid = nobody
sys.path.insert(0, sys.argv[1])
from test_cache import value, law
assert value(law) == 5.5
print(cache_folder())
"""


def test_without_a_home_it_is_a_folder_of_the_process(tmp_path: Path) -> None:
    here = Path(__file__).parent
    path = os.pathsep.join((str(here.parents[1]), os.environ.get("PYTHONPATH", "")))
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(here)], cwd=tmp_path, text=True, check=True,
        capture_output=True, env={**os.environ, "PYTHONPATH": path},
    )  # fmt: skip
    made = Path(done.stdout.strip())
    assert made.is_absolute()
    assert not made.exists(), "it ends with the process"
    assert list(tmp_path.iterdir()) == [], "no folder called ~"
    assert done.stderr.count("no home folder") == 1


def test_what_is_old_goes_and_what_is_used_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 10 * UNUSED_NS

    def entry(name: str, age: int) -> Path:
        path = tmp_path / name
        if name.endswith(".numba"):
            path.mkdir()
            (path / "inside").write_text("x")
            os.utime(path / "inside", ns=(now - age, now - age))
        else:
            path.write_text("x")
        os.utime(path, ns=(now - age, now - age))
        return path

    old = [entry("a.code", UNUSED_NS + 1), entry("b.numba", UNUSED_NS + 1)]
    old.append(entry("left.part", LEFT_NS + 1))
    used = [entry("c.code", UNUSED_NS - 1), entry("d.numba", 5), entry("now.part", 5)]
    prune(tmp_path, now)
    assert sorted(tmp_path.iterdir()) == sorted(used)
    assert not any(path.exists() for path in old)

    monkeypatch.setattr(cache, "MOST_ENTRIES", 1)
    prune(tmp_path, now)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["d.numba", "now.part"]
    prune(tmp_path / "nowhere", now)


def test_only_who_compiles_tidies(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tidied: list[Path] = []
    monkeypatch.setattr(compiling, "prune", tidied.append)
    compiling._tidy.cache_clear()
    value(law)
    assert tidied == [folder / name for name in ("compiled", "diagrams", "indices")]
    value(law)
    assert len(tidied) == 3
    compiling._tidy.cache_clear()
    value(law)  # read from its file
    assert len(tidied) == 3


def test_an_empty_folder_of_a_program_that_did_not_compile_ends_no_later_program(
    tmp_path: Path,
) -> None:
    """As a first use of a function makes it, whose compilation then fails."""
    (tmp_path / "0123.numba").mkdir()
    prune(tmp_path)
    assert [one.name for one in tmp_path.iterdir()] == ["0123.numba"]
    prune(tmp_path, now_ns=(tmp_path / "0123.numba").stat().st_mtime_ns + UNUSED_NS + 1)
    assert list(tmp_path.iterdir()) == []
