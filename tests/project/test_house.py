"""The house rules that a machine can keep; each check is also shown a source that breaks it."""

from __future__ import annotations

import ast
import functools
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SHIPPED = ("rtsim", "hitl", "tools")
LONGEST = 800
WALL_CLOCKS = {"time", "datetime"}
UNSAFE_MODULES = {"pickle", "marshal", "shelve", "dill", "cloudpickle", "joblib", "multiprocessing"}
"""What unpickles, or sends pickles between processes."""
UNSAFE_CALLS = {"eval", "exec", "compile", "__import__"}


parsed = functools.cache(ast.parse)


def sources(*rooms: str) -> list[Path]:
    """Every Python file of these rooms."""
    return sorted(path for room in rooms for path in (ROOT / room).rglob("*.py"))


def imported(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """(line, top-level module) of each import, wherever it stands."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name.partition(".")[0]) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.lineno, node.module.partition(".")[0]
        elif isinstance(node, ast.Call) and getattr(node.func, "id", "") == "extra":
            yield (
                node.lineno,
                ast.unparse(node.args[0]).removeprefix("f").strip("'").partition(".")[0],
            )


def wall_clocks(source: str) -> list[int]:
    """Lines by which a module could read a wall clock."""
    return [line for line, module in imported(parsed(source)) if module in WALL_CLOCKS]


def unsafe(source: str) -> list[int]:
    """Lines that unpickle, or run text as code."""
    tree = parsed(source)
    lines = [line for line, module in imported(tree) if module in UNSAFE_MODULES]
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            if isinstance(node.func, ast.Name) and node.func.id in UNSAFE_CALLS:
                lines.append(node.lineno)
            lines += [node.lineno for word in node.keywords if word.arg == "allow_pickle"]
    return sorted(lines)


def sleeps(source: str) -> list[int]:
    """Lines that sleep, or hold a program that does, in tests without the mark for that."""
    tree = parsed(source)
    if any(isinstance(node, ast.Assign) and _marks(node) for node in tree.body):
        return []
    unmarked = [node for node in tree.body if not _is_realtime(node)]
    users = [node for node in tree.body if _is_realtime(node)]
    theirs = _loaded(users) - _loaded(unmarked)  # helpers of nothing but realtime tests
    return sorted(line for top in unmarked if not _defined(top) & theirs for line in _sleeping(top))


_MARKS = {"realtime", "live"}


def _marks(node: ast.Assign) -> bool:
    names = {target.id for target in node.targets if isinstance(target, ast.Name)}
    return "pytestmark" in names and bool(_MARKS & set(re.findall(r"\w+", ast.unparse(node.value))))


def _is_realtime(node: ast.stmt) -> bool:
    decorators = getattr(node, "decorator_list", [])
    return any(
        f"mark.{mark}" in ast.unparse(decorator) for decorator in decorators for mark in _MARKS
    )


def _loaded(nodes: list[ast.stmt]) -> set[str]:
    """The names that these statements use."""
    found = (n for node in nodes for n in ast.walk(node) if isinstance(n, ast.Name))
    return {name.id for name in found if isinstance(name.ctx, ast.Load)}


def _defined(node: ast.stmt) -> set[str]:
    """What a statement at the top of a module defines."""
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return {node.name}
    if isinstance(node, ast.Assign):
        return {target.id for target in node.targets if isinstance(target, ast.Name)}
    return set()


def _sleeping(top: ast.stmt) -> Iterator[int]:
    for node in ast.walk(top):
        if isinstance(node, ast.Call):
            if ast.unparse(node.func) in ("time.sleep", "sleep", "asyncio.sleep"):
                yield node.lineno
        elif isinstance(node, ast.Constant) and "time.sleep(" in str(node.value):
            yield node.lineno


def offenders(check: Callable[[str], list[int]], paths: list[Path]) -> dict[str, list[int]]:
    """The lines that ``check`` finds, by file."""
    found = {str(path.relative_to(ROOT)): check(path.read_text("utf-8")) for path in paths}
    return {path: lines for path, lines in found.items() if lines}


def test_only_the_clock_reads_a_wall_clock() -> None:
    found = offenders(wall_clocks, sources("rtsim"))
    assert list(found) == ["rtsim/core/clock.py"], "take a Clock, or rtsim.core.clock.stopwatch"


def test_nothing_unpickles_and_no_text_becomes_code() -> None:
    found = offenders(unsafe, sources(*SHIPPED))
    assert list(found) == ["rtsim/blocks/source.py"]
    assert len(found["rtsim/blocks/source.py"]) == 2, "exec(compile(...)) of its own equations"


def test_tests_sleep_only_where_marked_realtime() -> None:
    others = [path for path in sources("tests") if path != Path(__file__)]
    assert not offenders(sleeps, others), "use rtsim.testing's clock"


def test_files_stay_short() -> None:
    lengths = {
        str(path.relative_to(ROOT)): len(path.read_text(encoding="utf-8").splitlines())
        for path in sources(*SHIPPED, "tests")
    }
    long = {path: lines for path, lines in lengths.items() if lines > LONGEST}
    assert not long, f"over {LONGEST} lines; each holds two things that want names: {long}"


@pytest.mark.parametrize(
    ("check", "source"),
    [
        (wall_clocks, "import time"),
        (wall_clocks, "def f():\n    from time import monotonic"),
        (wall_clocks, "from datetime import datetime"),
        (unsafe, "import pickle"),
        (unsafe, "from multiprocessing.connection import Connection"),
        (unsafe, "x = eval('1')"),
        (unsafe, "np.load(path, allow_pickle=True)"),
        (sleeps, "def test_it():\n    time.sleep(1)"),
        (sleeps, "PROGRAM = 'import time; time.sleep(1)'"),
        (sleeps, "def wait():\n    sleep(1)\n\ndef test_it():\n    wait()"),
        (
            sleeps,
            "def wait():\n    sleep(1)\n\ndef test_a():\n    wait()\n\n"
            "@pytest.mark.realtime\ndef test_b():\n    wait()",
        ),
    ],
)
def test_a_planted_violation_is_caught(check: object, source: str) -> None:
    assert callable(check)
    assert check(source)


@pytest.mark.parametrize(
    "source",
    [
        "@pytest.mark.realtime\ndef test_it():\n    time.sleep(1)",
        "pytestmark = pytest.mark.realtime\ndef test_it():\n    time.sleep(1)",
        "def wait():\n    sleep(1)\n\n@pytest.mark.realtime\ndef test_it():\n    wait()",
        "def test_it(monkeypatch):\n    monkeypatch.setattr('time.sleep', print)",
    ],
)
def test_marked_sleeps_pass(source: str) -> None:
    assert not sleeps(source)


LIBRARIES: dict[str, list[str]] = tomllib.loads(
    (ROOT / "pyproject.toml").read_text(encoding="utf-8")
)["tool"]["rtsim"]["libraries"]


def strangers(module: str, source: str) -> list[str]:
    """The libraries of the table that ``module`` imports although it is not listed there."""
    return sorted(
        {
            library
            for _, library in imported(parsed(source))
            if library in LIBRARIES
            and not any(f"{module}.".startswith(f"{owner}.") for owner in LIBRARIES[library])
        }
    )


def test_a_library_is_imported_only_in_its_modules() -> None:
    for path in sources("rtsim", "hitl"):
        assert not strangers(_name(path), path.read_text(encoding="utf-8")), path


def test_every_owner_of_a_library_imports_it() -> None:
    used = {
        (library, _name(path))
        for path in sources("rtsim", "hitl")
        for _, library in imported(parsed(path.read_text(encoding="utf-8")))
    }
    for library, owners in LIBRARIES.items():
        for owner in owners:
            assert any(
                library == one and f"{module}.".startswith(f"{owner}.") for one, module in used
            ), f"{owner} does not import {library}: take it from the table in pyproject.toml"


def _name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@pytest.mark.parametrize(
    ("module", "source", "expected"),
    [
        ("rtsim.engine.executive", "from mcap.writer import Writer", ["mcap"]),
        ("rtsim.runs.simulation", "def f():\n    import click", ["click"]),
        ("rtsim.cli.run", "import click, zmq", ["zmq"]),
        ("rtsim.recorder", "import lz4.frame", ["lz4"]),
    ],
)
def test_a_planted_library_is_named(module: str, source: str, expected: list[str]) -> None:
    assert strangers(module, source) == expected


def contracts(folder: Path) -> subprocess.CompletedProcess[str]:
    """The import contracts of pyproject.toml, held against the packages in ``folder``."""
    program = "import sys, importlinter.cli as c; sys.exit(c.lint_imports(no_cache=True))"
    return subprocess.run(
        [sys.executable, "-c", program],
        cwd=folder,
        capture_output=True,
        encoding="utf-8",
        env={**os.environ, "COLUMNS": "200", "PYTHONUTF8": "1"},
    )


def test_imports_point_one_way() -> None:
    told = contracts(ROOT)
    assert told.returncode == 0, told.stdout + told.stderr


@pytest.mark.parametrize(
    ("file", "line", "contract"),
    [
        (
            "rtsim/models/ball.py",
            "from rtsim.cli.main import main",
            "imports point one way",
        ),
        ("rtsim/components/bus.py", "import hitl", "hitl plugs into rtsim"),
        (
            "rtsim/solve/base.py",
            "from rtsim.solve.adaptive import DP54",
            "the modules of a package",
        ),
        ("rtsim/testing/solvers.py", "import pytest", "what ships needs no test tool"),
        ("rtsim/stray.py", "", "imports point one way"),
    ],
)
def test_a_planted_import_breaks_its_contract(
    tmp_path: Path, file: str, line: str, contract: str
) -> None:
    for package in ("rtsim", "hitl"):
        shutil.copytree(ROOT / package, tmp_path / package, ignore=shutil.ignore_patterns("__py*"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    with (tmp_path / file).open("a", encoding="utf-8") as culprit:
        culprit.write(f"\n{line}\n")
    told = contracts(tmp_path)
    assert told.returncode == 1
    broken = [text for text in told.stdout.splitlines() if " BROKEN" in text]
    assert any(text.startswith(contract) for text in broken), told.stdout


def test_every_decision_has_the_number_of_its_file_in_its_heading() -> None:
    pages = sorted((ROOT / "docs" / "decisions").glob("[0-9]*.md"))
    assert len(pages) > 100
    heads = {page.name: page.read_text(encoding="utf-8").partition("\n")[0] for page in pages}
    assert [n for n, head in heads.items() if not head.startswith(f"# {n[:3]}: ")] == []
