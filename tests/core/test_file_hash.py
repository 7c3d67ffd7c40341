"""The hash of a file and of what it imports, and who may have a file run."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from rtsim.core import file_hash as file_hash_module
from rtsim.core.errors import TrustError
from rtsim.core.file_hash import file_hash
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
