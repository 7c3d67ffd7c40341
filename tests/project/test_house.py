"""The house rules that a machine can keep; each check is also shown a source that breaks it.

The figures of ``python -m tools.house``: kinds of lines, importers, classes, an installation.

No two modules import each other in a circle; imports for type checkers alone count too.

Names that other packages keep to themselves: used in one place each, and there in this version.

A test here fails after an upgrade of numba, mcap or SimPy.  Then either adapt the module that it
names, or lower the upper bound of that package in pyproject.toml.
"""

from __future__ import annotations

import ast
import functools
import importlib
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator, Mapping, Set
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Any

import grimp
import numba
import numpy as np
import pytest
import simpy
from click.testing import CliRunner
from numba.core import cgutils, types
from numba.extending import intrinsic

from rtsim.core.errors import ScenarioError
from rtsim.core.random_streams import RandomStreams
from rtsim.core.signals import Signals
from rtsim.discrete import Agenda, Processes
from rtsim.equations import numba_private
from rtsim.record.schema import TrackSpec
from rtsim.record.writer import PRIVATE, BatchWriter
from tools import house

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


_CLOCK_NAMED = re.compile(r"^ *(import|from) .*\b(time|datetime)\b|\bextra\(", re.M)
_UNSAFE_NAMED = re.compile(
    rf"\b({'|'.join(UNSAFE_MODULES)}|allow_pickle)\b|(?<!\.)\b({'|'.join(UNSAFE_CALLS)})\("
)
"""A text in the project's format without such a place needs no closer look, which takes time."""


def wall_clocks(source: str) -> list[int]:
    """Lines by which a module could read a wall clock."""
    if not _CLOCK_NAMED.search(source):
        return []
    return [line for line, module in imported(parsed(source)) if module in WALL_CLOCKS]


def unsafe(source: str) -> list[int]:
    """Lines that unpickle, or run text as code."""
    if not _UNSAFE_NAMED.search(source):
        return []
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
    if "sleep" not in source:
        return []
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
    assert list(found) == ["rtsim/blocks/source.py", "rtsim/equations/rewriting.py"]
    assert len(found["rtsim/blocks/source.py"]) == 2, "exec(compile(...)) of its own equations"
    assert len(found["rtsim/equations/rewriting.py"]) == 2, (
        "the user's own methods, and calls of them"
    )


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


@pytest.mark.sample(2)
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


MODULE = '''"""A module."""

from os import (
    path,
)

# why
NUMBER = 1  # and a remark


class Thing:
    """A thing
    of two lines."""

    name = """text
    # of a value"""
'''


def test_each_line_has_one_kind() -> None:
    assert house.lines(MODULE) == {
        "docstrings": 3,
        "imports": 3,
        "comments": 1,
        "code": 4,
        "empty": 5,
    }


@pytest.mark.parametrize(
    "statement",
    ["import a.b", "from a.b import c", "from a import b", "def f():\n    from a.b import c"],
)
def test_importers_are_found_for_each_form_of_import(statement: str) -> None:
    trees = {"a.__init__": ast.parse(""), "a.b": ast.parse(""), "d": ast.parse(statement)}
    assert house.importers(trees) == {"a.b": {"d"}, "d": set()}


def test_figures_of_a_small_project(tmp_path: Path) -> None:
    for name, text in {
        "rtsim/one.py": MODULE,
        "hitl/two.py": "from rtsim.one import Thing\n",
        "tests/unit/test_one.py": "import rtsim.one\n",
        "tests/helpers.py": "",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    found = house.figures(tmp_path)
    assert found["lines of rtsim and hitl"] == 17
    assert (found["modules"], found["classes"], found["modules with one importer"]) == (2, 1, 1)
    assert (found["test files"], found["test files in tests/unit"]) == (1, 1)


def test_an_installation_holds_what_rtsim_requires_and_no_extra() -> None:
    sizes = house.installed()
    assert {"rtsim", "numpy", "numba", "llvmlite", "click"} <= set(sizes)
    assert not {"pytest", "dask", "pygame"} & set(sizes)
    assert sizes["llvmlite"] > sizes["click"] > 10_000


def test_saved_figures_are_shown_beside_new_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(house, "figures", lambda _: {"modules": 12.0})
    kept = tmp_path / "before.json"
    kept.write_text(json.dumps({"modules": 12345}))
    told = CliRunner().invoke(house.main, ["--before", str(kept), "--test-seconds", "800"])
    assert told.exit_code == 0
    heading, modules, seconds = told.output.splitlines()
    assert heading.split() == ["figure", "before", "now"]
    assert modules.split() == ["modules", "12,345", "12"]
    assert seconds.split()[-1] == "800"


def circle(imports: Mapping[str, Set[str]]) -> list[str]:
    """The modules of one circle, each importing the next; empty where there is none."""
    try:
        TopologicalSorter(imports).prepare()
    except CycleError as error:
        return list(reversed(error.args[1]))
    return []


def imports_of(package: str, *more: str) -> dict[str, set[str]]:
    """What each module of these packages imports of them, wherever the import stands."""
    graph = grimp.build_graph(package, *more, cache_dir=None)
    return {name: graph.find_modules_directly_imported_by(name) for name in graph.modules}


FOR_TYPES_ALONE = {
    ("rtsim.record.events", "rtsim.record.reading"),
    ("rtsim.studies.interim_analysis", "rtsim.studies.folder"),
    ("rtsim.studies.measures", "rtsim.studies.plan"),
    ("rtsim.studies.study", "rtsim.studies.interim_analysis"),
}
"""Imports for type checkers alone that close a circle: to be removed, and no more of them."""


def test_no_two_modules_import_each_other_in_a_circle() -> None:
    imports = imports_of("rtsim", "hitl")
    for importer, imported in FOR_TYPES_ALONE:
        assert imported in imports[importer], "take it from the list"
        imports[importer] -= {imported}
    found = circle(imports)
    assert not found, f"{' -> '.join(found)}: move what both need to a module below them"


@pytest.mark.parametrize(
    "second",
    [
        "from planted.first import A\n",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from planted.first import A\n",
        "def late():\n    import planted.first\n",
    ],
)
def test_a_planted_circle_is_found(
    second: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "planted"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "first.py").write_text("from planted.second import B\n", encoding="utf-8")
    (package / "second.py").write_text(second, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    importlib.invalidate_caches()
    try:
        found = circle(imports_of("planted"))
    finally:
        sys.modules.pop("planted", None)
    assert set(found) == {"planted.first", "planted.second"}
    assert found[0] == found[-1]


def test_what_imports_one_way_is_no_circle() -> None:
    assert circle({"a": {"b", "c"}, "b": {"c"}, "c": set()}) == []


PLACES = {
    "numba": "rtsim/equations/numba_private.py",
    "mcap": "rtsim/record/writer.py",
    "simpy": "rtsim/discrete/agenda.py",
}
PRIVATE_NAMES = {
    "numba": r"\b_getvalue\b|\b_get_compiled_object\b|\b_cache\.|\b_helperlib\b|\b_nrt_python\b"
    r"|\b_numba_unpickle\b|\b_library_class\b|\b_final_module\b",
    "mcap": r"\b_Writer__\w+",
    "simpy": r"\b_resume\b|\bevent\._\w+|\b_queue\b|\b_eid\b|\b_defused\b",
}


def users(package: str, sources: dict[str, str]) -> list[str]:
    """The files that import ``package`` and use its private names."""
    names, imports = re.compile(PRIVATE_NAMES[package]), re.compile(rf"(from|import) {package}\b")
    return [name for name, text in sources.items() if imports.search(text) and names.search(text)]


def shipped() -> dict[str, str]:
    folders = (ROOT / "rtsim", ROOT / "hitl")
    return {
        path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8")
        for folder in folders
        for path in folder.rglob("*.py")
    }


@pytest.mark.parametrize("package", PLACES)
def test_private_names_are_used_in_one_place(package: str) -> None:
    assert users(package, shipped()) == [PLACES[package]]
    planted = f"import {package}; array._getvalue(); writer._Writer__statistics; event._ok"
    assert users(package, {"planted.py": planted}) == ["planted.py"]


@pytest.mark.parametrize("package", PLACES)
def test_a_package_with_private_names_in_use_has_an_upper_bound(package: str) -> None:
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    (wanted,) = (
        d for d in tomllib.loads(text)["project"]["dependencies"] if re.match(rf"{package}\W", d)
    )
    assert re.search(r",<\d", wanted), f"{wanted}: {PLACES[package]} uses its private names"


def said(package: str, version: str, lacks: str) -> str:
    return (
        f"{package} {version} {lacks}: adapt {PLACES[package]}, or lower the upper bound of "
        f"{package} in pyproject.toml"
    )


# -- numba


def doubled(x: float) -> float:
    if x < 0.0:
        raise ValueError("less than nothing")
    return 2.0 * x


@pytest.fixture(scope="module")
def jitted() -> Any:
    out = numba.njit(doubled)
    out.compile((types.float64,))
    return out


def test_numba_gives_object_code(jitted: Any) -> None:
    library = jitted.overloads[types.float64,].library
    try:
        code = numba_private.object_code(library)
    except AttributeError as error:
        pytest.fail(said("numba", numba.__version__, f"gives no object code ({error})"))
    assert code[:4] in (b"\x7fELF", b"\xcf\xfa\xed\xfe") or code[:2] == b"\x64\x86"


def test_numba_keeps_files_under_a_signature(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "def tripled(x):\n    return 3.0 * x\n"
    (tmp_path / "kept_by_numba.py").write_text(text, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path / "files"))
    out = numba.njit(importlib.import_module("kept_by_numba").tripled)
    out.compile((types.float64,))
    try:
        out.enable_caching()
        numba_private.name_files_by_signature(out)
        numba_private.save_files(out, out.overloads[types.float64,])
    except (AttributeError, TypeError) as error:
        pytest.fail(said("numba", numba.__version__, f"keeps files in another way ({error})"))
    assert list(tmp_path.rglob("*.nbi")), said("numba", numba.__version__, "wrote no file")


def test_numba_builds_structures() -> None:
    @intrinsic  # type: ignore[untyped-decorator]
    def pair(_: Any) -> Any:
        def made(context: Any, builder: Any, signature: Any, __: Any) -> Any:
            complex_number = cgutils.create_struct_proxy(signature.return_type)(context, builder)
            complex_number.real = context.get_constant(types.float64, 1.0)
            complex_number.imag = context.get_constant(types.float64, 2.0)
            return numba_private.value_of(complex_number)

        return types.complex128(), made

    assert numba.njit(lambda: pair())() == 1.0 + 2.0j, said("numba", numba.__version__, "differs")


def test_numba_counts_allocations() -> None:
    made = numba.njit(lambda n: np.zeros(n).sum())
    made(3)
    with numba_private.counting_allocations() as count:
        before = count()
        made(4)
        assert count() > before, said("numba", numba.__version__, "counts no allocations")


def test_numba_optimises_a_function_when_it_is_asked_for() -> None:
    """One that others call alone is not; one that Python calls, in the context or later, is."""
    inner = numba.njit(no_cpython_wrapper=True, no_cfunc_wrapper=True)(doubled)
    outer, called = numba.njit(lambda x: inner(x) + 1.0), numba.njit(lambda x: inner(x) - 1.0)
    differs = said("numba", numba.__version__, "makes machine code in another way")
    with numba_private.optimised_as_a_whole():
        outer.compile((types.float64,))
    (late,) = (made.library for made in inner.overloads.values())
    assert not getattr(late, "_emitted", True), differs
    assert (outer(3.0), called(3.0)) == (7.0, 5.0), differs
    with pytest.raises(ValueError, match="less than nothing"):
        outer(-1.0)
    numba_private.optimise(late)
    assert numba_private.object_code(late), differs


# -- mcap


def test_mcap_takes_many_rows_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    def slowly(*_: object) -> None:
        pytest.fail(said("mcap", "here", "has no chunk builder to add many rows to"))

    monkeypatch.setattr(BatchWriter, "_add_one_by_one", slowly)
    writer = BatchWriter(io.BytesIO())
    writer.start()
    schema = writer.register_schema("s", "jsonschema", b"{}")
    channel = writer.register_channel("t", "json", schema)
    writer.add_rows(channel, np.array([[1, 5], [2, 6]]), TrackSpec("t", (), Signals("x")), 0)
    writer.finish()  # type: ignore[no-untyped-call]
    assert all(hasattr(writer, name) for name in PRIVATE)


# -- SimPy


def test_simpy_goes_on_with_a_process_where_it_is_watched() -> None:
    def setup(agenda: Agenda) -> None:
        other = simpy.Environment()

        def waits() -> Any:
            yield agenda.timeout(1.0)
            yield other.timeout(1.0)

        agenda.process(waits())

    agenda = Agenda("shop", Processes(setup), (), np.zeros(0), RandomStreams(1))
    agenda.begin()
    agenda.react(0)
    found = ""
    try:
        agenda.react(1_000_000_000)
    except ScenarioError as error:
        found = str(error)
    missing = said("simpy", simpy.__version__, "goes on with a process in another way")
    assert "of another simpy.Environment" in found, missing
