"""The hash of a file and of what it imports, and who may have a file run.

The source hash changes with what is computed, and with nothing else.
"""

from __future__ import annotations

import copyreg
import dis
import itertools
import math
import os
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import numba
import numpy as np
import pytest
import simpy

from rtsim.core import file_hash as file_hash_module
from rtsim.core.errors import TrustError
from rtsim.core.file_hash import file_hash
from rtsim.core.signals import Signal, Signals
from rtsim.equations import source_hash as hashes
from rtsim.equations.source_hash import source_hash
from rtsim.scenario import trust
from rtsim.scenario.trust import anything_given, check_compiled, check_device, permitted, project
from rtsim.scenario.trust import scenario_to_load as to_load

Write = Callable[..., Path]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path / "elsewhere"))
    return tmp_path


def write(folder: Path, **files: str) -> Path:
    """``a__b="..."`` is a/b.py; the path of the first."""
    paths = [folder / f"{name.replace('__', '/', 1)}.py" for name in files]
    for path, text in zip(paths, files.values(), strict=True):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return paths[0]


def counts(main: Path, other: Path) -> bool:
    """Whether the hash of ``main`` goes with what ``other`` holds."""
    before, text = file_hash(main), other.read_text()
    other.write_text(text + "\nz = 1\n")
    changed = file_hash(main)
    other.write_text(text)
    assert file_hash(main) == before
    return changed != before


def test_a_package_of_packages_without_an_init_counts(folder: Path) -> None:
    main = write(folder, main="from outer.inner.one import x")
    other = folder / "outer" / "inner" / "one.py"
    other.parent.mkdir(parents=True)
    other.write_text("x = 1")
    assert counts(main, other)


@pytest.mark.parametrize(
    ("statement", "module"),
    [
        ("import one", "one"),
        ("import one, two", "two"),
        ("import pack.one", "pack__one"),
        ("import pack.one", "pack____init__"),
        ("from pack import one", "pack__one"),
        ("from pack.one import x", "pack__one"),
        ("from pack import absent, one", "pack__one"),
        ("def f():\n    import one", "one"),
        ("import absent\nimport one", "one"),
        ("import os.path\nimport one", "one"),
        ("import numpy\nimport one", "one"),
        ("import middle", "one"),
        ("import pack.json", "pack__json"),  # though there is one in the standard library
    ],
)
def test_what_a_file_imports_counts(folder: Path, statement: str, module: str) -> None:
    files = dict.fromkeys(("one", "two", "pack____init__", "pack__one", "pack__json"), "x = 1\n")
    main = write(folder, main=statement, middle="import one\n", **files)
    name = module.replace("__", "/", 1)
    assert counts(main, folder / f"{name}.py")


@pytest.mark.parametrize("statement", ["", "x = 'import one'", "import rtsim.one", "import two"])
def test_what_it_does_not_import_does_not_count(folder: Path, statement: str) -> None:
    main = write(folder, main=statement, one="x = 1", two="x = 1")
    assert not counts(main, folder / "one.py")


@pytest.mark.parametrize(
    ("statement", "module"),
    [
        ("from . import sister", "pack/deep/sister.py"),
        ("from .sister import x", "pack/deep/sister.py"),
        ("from .. import aunt", "pack/aunt.py"),
        ("from ..aunt import x", "pack/aunt.py"),
    ],
)
@pytest.mark.parametrize("where", ["__init__", "inner"])
def test_dots_mean_the_package_that_a_module_is_in(
    folder: Path, statement: str, module: str, where: str
) -> None:
    deep = folder / "pack" / "deep"
    deep.mkdir(parents=True)
    for path in (folder / "pack", deep):
        (path / "__init__.py").write_text("")
    for path in (deep / "sister.py", folder / "pack" / "aunt.py", deep / "inner.py"):
        path.write_text("x = 1\n")
    (deep / f"{where}.py").write_text(statement)
    main = write(folder, main="import pack.deep.inner")
    assert counts(main, folder / module)


def test_modules_on_the_path_count_and_those_of_its_own_folder_stand_before_them(
    folder: Path,
) -> None:
    main = write(folder, main="import one")
    there = write(folder / "elsewhere", one="x = 1")
    assert counts(main, there)
    write(folder, one="x = 2")
    assert not counts(main, there)


def test_what_is_installed_does_not_count(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    main = write(folder, main="import one")
    for name in ("site-packages", "dist-packages"):
        there = write(folder / name, one="x = 1")
        monkeypatch.syspath_prepend(str(there.parent))
        assert not counts(main, there)


def test_rings_of_imports_and_files_that_do_not_parse_end(folder: Path) -> None:
    main = write(folder, main="import one", one="import two", two="import one\nimport main")
    assert counts(main, folder / "two.py")
    (folder / "two.py").write_text("import (")
    assert counts(main, folder / "two.py"), "its bytes count"
    (folder / "two.py").write_bytes(b"\0")
    assert len(file_hash(main)) == 64
    with pytest.raises(OSError, match="none"):
        file_hash(folder / "none.py")


def test_files_are_followed_up_to_a_limit(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert file_hash_module.MOST_FILES == 1000
    main = write(folder, main="import a\nimport b\nimport c", a="", b="", c="")
    monkeypatch.setattr(file_hash_module, "MOST_FILES", 3)
    assert [counts(main, folder / f"{name}.py") for name in "abc"] == [True, True, False]


def test_one_that_cannot_be_read_is_left_out(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    main = write(folder, main="import one\nimport two", one="", two="")
    read = Path.read_bytes

    def read_bytes(path: Path) -> bytes:
        if path.name == "one.py":
            raise PermissionError(path)
        return read(path)

    monkeypatch.setattr(Path, "read_bytes", read_bytes)
    assert not counts(main, folder / "one.py")
    assert counts(main, folder / "two.py")


# -- who may


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's project, below a home; the current folder is a part of it."""
    home = tmp_path / "home"
    out = home / "work"
    (out / "part").mkdir(parents=True)
    (out / ".git").mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.chdir(out / "part")
    return out


def refused(call: Callable[[], object]) -> str:
    with pytest.raises(TrustError) as told:
        call()
    return str(told.value)


def test_the_nearest_root_above_is_the_project(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert project() == work
    (work / "part" / "pyproject.toml").touch()
    assert project() == work / "part"
    for wide in (work.parent, work.parent.parent, Path("/")):
        monkeypatch.chdir(wide)
        assert project() is None, wide


@pytest.mark.skipif(os.name != "posix", reason="modes of POSIX")
def test_a_root_that_everybody_may_write_to_is_none(work: Path) -> None:
    work.chmod(0o777)
    assert project() == work / "part"
    (work / "part").chmod(0o777)
    assert project() is None
    work.chmod(0o775)
    assert project() == work, "those of a group are known"


def test_a_scenario_by_name_is_loaded_and_a_file_where_it_is_the_users_own(work: Path) -> None:
    own, other = write(work, own="x = 1"), write(work.parent, other="x = 1")
    assert to_load({"reference": "ball"}, "run.mcap") == "ball"
    told = file_hash(own)
    assert to_load({"reference": f"{own}", "sha256": told}, "run.mcap") == f"{own}"
    assert to_load({"reference": f"{own}:make", "sha256": told}, "run.mcap") == f"{own}:make"
    text = refused(lambda: to_load({"reference": f"{own}", "sha256": "0"}, "run.mcap"))
    assert text.startswith(
        f"run.mcap was made with the scenario file {own}, which rtsim does not run: the file, or"
    )
    text = refused(lambda: to_load({"reference": f"{own}"}, "run.mcap"))
    assert "no hash of the file was recorded" in text
    text = refused(lambda: to_load({"reference": f"{other}", "sha256": told}, "run.mcap"))
    assert f"the file is not in the current project {work}" in text
    own.unlink()
    text = refused(lambda: to_load({"reference": f"{own}", "sha256": told}, "run.mcap"))
    assert "the file cannot be read (No such file or directory)" in text


def test_where_there_is_no_project_no_file_is_run(
    work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = write(work, own="x = 1")
    monkeypatch.chdir(work.parent)
    text = refused(lambda: to_load({"reference": f"{own}", "sha256": file_hash(own)}, "a"))
    assert "is not a project folder" in text


def test_the_users_word_counts_while_it_is_given(work: Path) -> None:
    other = {"reference": str(write(work.parent, other="x = 1"))}
    assert not anything_given()
    with permitted(scenario="mine.py"):
        assert anything_given()
        assert to_load(other, "a") == "mine.py"
        assert to_load({"reference": "ball"}, "a") == "mine.py"
        assert refused(lambda: check_device("board:uno", "a"))
        with permitted(everything=True):
            assert to_load(other, "a") == other["reference"]
            check_device("board:uno", "a")
        assert to_load(other, "a") == "mine.py"
    with permitted():
        assert not anything_given()
    assert not anything_given()
    assert refused(lambda: to_load(other, "a"))


def test_c_of_the_project_may_have_changed_unless_its_hash_is_asked_for(work: Path) -> None:
    path = work / "law.toml"
    path.write_text("x")

    def length(path: Path) -> str:
        return str(len(path.read_text()))

    check_compiled(path, "case.json")
    check_compiled(path, "case.json", "1", length)
    assert "has changed since then" in refused(lambda: check_compiled(path, "a", "2", length))
    assert "no hash of the file was recorded" in refused(
        lambda: check_compiled(path, "a", None, length)
    )
    outside = work.parent / "law.toml"
    text = refused(lambda: check_compiled(outside, "case.json"))
    assert text.startswith(
        f"case.json was made with the C code of {outside}, which rtsim does not compile:"
    )
    with permitted(everything=True):
        check_compiled(outside, "case.json")
        check_compiled(path, "a", "2", length)


def test_a_device_is_opened_by_the_users_word_alone(work: Path) -> None:  # noqa: ARG001
    text = refused(lambda: check_device("board:uno", "run.mcap"))
    assert text.startswith(
        "run.mcap was made with the device at board:uno, which rtsim does not open"
    )
    with permitted(scenario="x"):
        assert refused(lambda: check_device("board:uno", "run.mcap"))


def test_on_windows_nobody_asks_for_modes(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    work.chmod(0o777)
    monkeypatch.setattr("os.name", "nt")
    found = trust._everybodys(work)
    monkeypatch.undo()
    assert not found


BASE = """
import math
import numpy as np
TABLE = np.array([1.0, 2.0, 3.0])
GAIN = 2.5
NAMES = {"roll", "pitch", "yaw"}

def helper(x):
    "Twice."
    return GAIN * x

class Law:
    limit = 3.0
    def act(self, x):
        return min(helper(x), self.limit)

def derivative(x):
    if x in {1.0, 2.0, "a", "b", "c"}:
        return 0.0
    return helper(x) + TABLE[0] * math.sin(x) + Law().act(x) + len(NAMES)
"""


def load(source: str, file: str = "a.py") -> dict[str, Any]:
    names: dict[str, Any] = {"__name__": "somewhere"}
    exec(compile(source, file, "exec"), names)
    return names


def hashed(source: str, file: str = "a.py") -> str:
    return source_hash(load(source, file)["derivative"])


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("GAIN = 2.5", "GAIN = 2.6"),
        ("GAIN = 2.5", "GAIN = -2.5"),
        ("[1.0, 2.0, 3.0]", "[1.0, 2.0, 3.5]"),
        ("GAIN * x", "x * GAIN"),
        ("limit = 3.0", "limit = 4.0"),
        ('"yaw"', '"yow"'),
        ('"c"}:', '"d"}:'),
        ("return 0.0", "return -0.0"),
        ("math.sin", "math.cos"),
        ("min(", "max("),
    ],
)
def test_what_is_computed_shows(old: str, new: str) -> None:
    assert old in BASE
    assert hashed(BASE) != hashed(BASE.replace(old, new))


def test_where_it_stands_and_how_it_is_described_does_not_show() -> None:
    moved = "\n\n# a comment\n" + BASE.replace('"Twice."', '"Twice the value."')
    assert hashed(BASE) == hashed(moved, "/elsewhere/b.py")
    assert hashed(BASE) == hashed(BASE + "\nUNUSED = 5\n")


def test_a_docstring_that_is_also_used_counts() -> None:
    one = 'def derivative():\n    "abc"\n    return "abc"\n'
    assert hashed(one) != hashed(one.replace("abc", "abd"))


def test_same_in_every_process(tmp_path: Path) -> None:
    (tmp_path / "somewhere.py").write_text(BASE)
    program = (
        "import somewhere; from rtsim.equations.source_hash import source_hash;"
        "print(source_hash(somewhere.derivative, somewhere.Law, somewhere, somewhere.NAMES))"
    )
    out = set()
    for seed in ("0", "1", "77"):
        path = os.pathsep.join((str(tmp_path), str(Path(__file__).resolve().parents[2])))
        environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": path}
        done = subprocess.run(
            [sys.executable, "-c", program],
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        )
        out.add(done.stdout)
    assert len(out) == 1


def make(gain: float) -> Callable[[float], float]:
    def inner(x: float) -> float:
        return gain * x

    return inner


def test_closures_defaults_and_instances_count() -> None:
    assert source_hash(make(1.0)) == source_hash(make(1.0))
    assert source_hash(make(1.0)) != source_hash(make(2.0))
    one = load("def derivative(x=1.0): return x")["derivative"]
    two = load("def derivative(x=2.0): return x")["derivative"]
    assert source_hash(one) != source_hash(two)


def test_recursion_ends() -> None:
    names = load("def derivative(x): return other(x)\ndef other(x): return derivative(x)")
    assert source_hash(names["derivative"])
    loop: list[object] = []
    loop.append(loop)
    assert source_hash(loop)


def test_names_and_constants_are_those_that_dis_finds() -> None:
    """In the functions of rtsim and of the standard library, with and without long arguments."""
    found = [
        value.__code__
        for module in (hashes, file_hash_module, subprocess, warnings, dis)
        for value in vars(module).values()
        if isinstance(value, FunctionType)
    ]
    many = "".join(f"    x = name_{k}.attribute_{k} + {k}.5\n" for k in range(400))
    found.append(load(f"def derivative(x):\n{many}    return x")["derivative"].__code__)
    assert len(found) > 60
    for code in found:
        loads, attributes = hashes._names_used(code)
        steps = [step for one in hashes._codes(code) for step in dis.get_instructions(one)]
        assert loads == {s.argval for s in steps if s.opname in LOADS}
        assert attributes == {s.argval for s in steps if s.opname in ("LOAD_ATTR", "LOAD_METHOD")}
        first = any(s.arg == 0 and s.opcode in dis.hasconst for s in dis.get_instructions(code))
        assert hashes._loads_first_constant(code) == first


LOADS = ("LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS")


def plain(x: float) -> float:
    return math.sin(x) + 1.0


def test_numba_functions_are_followed() -> None:
    jitted: Any = numba.njit(plain)
    fast: Any = numba.njit(fastmath=True)(plain)
    again: Any = numba.njit(plain)
    assert source_hash(jitted) == source_hash(again) != source_hash(fast)
    before = source_hash(jitted)
    jitted(1.0)
    assert source_hash(jitted) == before


def test_running_a_function_does_not_change_its_hash() -> None:
    function = make(2.0)
    before = source_hash(function)
    for _ in range(10_000):
        function(1.0)
    assert source_hash(function) == before


def test_filled_caches_do_not_count() -> None:
    signals = Signals(Signal("x", "m"), Signal("q", shape=(4,)))
    before = source_hash(signals)
    assert signals.columns
    assert signals.slice("q")
    assert source_hash(signals) == before
    assert before != source_hash(Signals(Signal("x", "ft"), Signal("q", shape=(4,))))


def test_arrays_count_by_content() -> None:
    a = np.arange(6.0).reshape(2, 3)
    assert source_hash(a) == source_hash(np.asfortranarray(a))
    assert source_hash(a) != source_hash(a.reshape(3, 2))
    assert source_hash(a) != source_hash(a.astype(np.float32))
    assert source_hash(np.array([0.0])) != source_hash(np.array([-0.0]))


def test_attributes_of_own_modules_are_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    air = ModuleType("air_for_test")
    air.__file__ = "/project/air_for_test.py"
    monkeypatch.setitem(sys.modules, "air_for_test", air)
    exec("def density(h): return 1.2 * h\nOTHER = 1", air.__dict__)
    names = load("def derivative(x): return air.density(x)")
    names["air"] = air
    before = source_hash(names["derivative"])
    air.__dict__["OTHER"] = 2
    assert source_hash(names["derivative"]) == before
    exec("def density(h): return 1.3 * h", air.__dict__)
    assert source_hash(names["derivative"]) != before


def of_global(value: object) -> str:
    """Return the hash of a function that uses ``value``."""
    names = load("def derivative(x):\n    return next(SOURCE)\n")
    names["SOURCE"] = value
    return source_hash(names["derivative"])


ITERATORS: list[tuple[Callable[[], object], Callable[[], object]]] = [
    (lambda: itertools.count(3), lambda: itertools.count(4)),
    (lambda: itertools.count(3), lambda: itertools.count(3, 2)),
    (lambda: itertools.repeat(2.0), lambda: itertools.repeat(2.0, 4)),
    (lambda: itertools.cycle([1, 2]), lambda: itertools.cycle([1, 3])),
    (lambda: itertools.chain([1], [2]), lambda: itertools.chain([1], [3])),
    (lambda: itertools.product([1], [2]), lambda: itertools.product([1], [3])),
    (lambda: itertools.accumulate([1, 2]), lambda: itertools.accumulate([1, 3])),
    (lambda: itertools.repeat(2.0), lambda: itertools.cycle([2.0])),
]


@pytest.mark.parametrize(("one", "other"), ITERATORS)
def test_objects_of_itertools_count_and_are_never_pickled(
    one: Callable[[], object], other: Callable[[], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    """From Python 3.14 on, they cannot be pickled; 3.12 and 3.13 warn of it."""

    def pickled(value: object) -> tuple[object, ...]:
        raise AssertionError(f"{value} was pickled")

    for kind in (type(one()), type(other())):
        monkeypatch.setitem(copyreg.dispatch_table, kind, pickled)
    assert of_global(one()) == of_global(one())
    assert of_global(one()) != of_global(other())


def test_an_installed_object_with_a_counter_inside_has_a_hash() -> None:
    """An environment of SimPy numbers its events with itertools.count."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        first, other = of_global(simpy.Environment(1.0)), of_global(simpy.Environment(2.0))
        assert first == of_global(simpy.Environment(1.0))
    assert first != other
