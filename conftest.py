"""Executes README.md and the pages of docs/: Python blocks in order, console blocks by shell.

``python file=NAME``, ``c file=NAME`` and ``toml file=NAME`` are also saved under that name in the
page's own temporary folder; in a console block each ``$ command`` is run there and held against the
lines below it; ``...`` is anything.

And says what a warning is: an error where RTSIM_STRICT is set, as in a continuous integration, and
else a line of the summary. A dependency's next release may warn of anything, here or in a process
that a test starts; that is no fault of this checkout (docs/decisions/092).
"""

from __future__ import annotations

import doctest
import gc
import os
import re
import signal
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from command_server import commands
from sybil import Document, Example, Region, Sybil
from sybil.parsers.markdown import PythonCodeBlockParser

from hitl.building.toolchain import cache_folder
from rtsim.core.extension_point import ExtensionPoint
from tools.marked import MARKS, can_have, wanted
from tools.system import missing

_CONSOLE = re.compile(r"^```console\n(.*?)^```", re.M | re.S)
_FILE = re.compile(r"^```(?:python|c|toml) file=(\S+)\n(.*?)^```", re.M | re.S)
_SYSTEM = re.compile(r"<!-- system: (.*?) -->")
_LONG = "<!-- long -->"
_MATCH = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
_COMPILING = re.compile("^compiling .*\n", re.M)
"""What only the first run on a machine says."""
_COMMANDS = str(Path(sys.executable).parent)
_MOST_S = 400.0
"""For one command, s.  Without a compiler of the system, the first build of C++ compiles the
library of C++, which takes minutes beside other tests."""


def pytest_configure(config: pytest.Config) -> None:
    """A shell that runs this in its background has it ignore SIGINT, and all that it starts.

    The collection makes objects and drops few: garbage collections in it take 30 % of its time.
    Tests with a cache folder of their own share what zig compiles at first: it takes half a minute.
    """
    if not getattr(config.option, "numprocesses", None):  # a process that collects
        gc.disable()
    os.environ.setdefault("RTSIM_PICTURE", "software")  # the same pictures on each machine
    os.environ.setdefault("ZIG_GLOBAL_CACHE_DIR", str(cache_folder() / "zig"))
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if os.environ.get("RTSIM_STRICT"):
        config.addinivalue_line("filterwarnings", "error")
    else:  # what a child prints is often compared word by word
        os.environ.setdefault("PYTHONWARNINGS", "ignore")


def saved_files(document: Document) -> Iterator[Region]:
    """``python file=NAME``, ``c file=NAME`` and ``toml file=NAME`` blocks."""
    for match in _FILE.finditer(document.text):
        yield Region(match.start(), match.end(), match, save_file)


def save_file(example: Example) -> None:
    match: re.Match[str] = example.parsed
    Path(match[1]).parent.mkdir(parents=True, exist_ok=True)
    Path(match[1]).write_text(match[2], encoding="utf-8")


def console_blocks(document: Document) -> Iterator[Region]:
    """``console`` blocks."""
    for match in _CONSOLE.finditer(document.text):
        yield Region(match.start(), match.end(), match[1], run_commands)


def run_commands(example: Example) -> str | None:
    for block in re.split(r"^\$ ", example.parsed, flags=re.M)[1:]:
        command, _, wanted = block.partition("\n")
        folders = [str(commands()), _COMMANDS] if sys.platform == "linux" else [_COMMANDS]
        path = os.pathsep.join([*folders, os.environ["PATH"]])
        done = subprocess.run(
            command,
            shell=True,
            env={**os.environ, "PATH": path},
            capture_output=True,
            text=True,
            timeout=_MOST_S,
        )
        got = done.stdout + _COMPILING.sub("", done.stderr)
        if not doctest.OutputChecker().check_output(wanted, got, _MATCH):
            return f"$ {command}\nexpected:\n{wanted}\ngot:\n{got}"
    return None


def forget_modules(folder: Path) -> None:
    """Remove the modules of ``folder`` from ``sys.modules``: other pages may use their names."""
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if file is not None and Path(file).is_relative_to(folder):
            del sys.modules[name]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A page's own working folder, from which it can import what it saved.

    Whatever the page adds to rtsim, such as a board, is removed at its end, and so are the modules
    that it imported from its folder: the tests that follow in the same process do not expect them.
    """
    before, path = os.getcwd(), tmp_path_factory.mktemp("page")
    added: list[tuple[ExtensionPoint[Any], str]] = []
    add = ExtensionPoint[Any].add

    def noted(point: ExtensionPoint[Any], name: str, made: Any) -> None:
        add(point, name, made)
        added.append((point, name))

    known = os.environ.get("RTSIM_RUNTIME_DIR")
    os.environ["RTSIM_RUNTIME_DIR"] = str(path)  # runs of other pages are none of its business
    os.chdir(path)
    sys.path.insert(0, str(path))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ExtensionPoint, "add", noted)
        yield
    for point, name in added:
        point._added.pop(name, None)
    if known is None:
        del os.environ["RTSIM_RUNTIME_DIR"]
    else:
        os.environ["RTSIM_RUNTIME_DIR"] = known
    os.chdir(before)
    sys.path.remove(str(path))
    forget_modules(path)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """One and a half for each processor: a third of the time, a test waits for a process."""
    processors = os.cpu_count() or 1
    return processors + processors // 2


def pytest_collection_finish() -> None:
    """Keep what the collection has made out of all later garbage collections: 5 % of the time."""
    gc.collect()
    gc.freeze()
    gc.enable()


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out files that cannot have a test with the marks that ``-m`` wants."""
    marks = wanted(config.getoption("markexpr"))
    if not marks or collection_path.suffix not in (".py", ".md"):
        return None
    return None if all(can_have(collection_path, mark) for mark in marks) else True


@pytest.hookimpl(tryfirst=True)  # before -m chooses
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the blocks of pages, and all but a sample of the variants of a test.

    ``<!-- system: gcc -->`` or ``<!-- long -->`` at the head of a page marks all of its blocks,
    which build on each other.  Of the variants of a test marked ``sample(n)``, all but ``n``,
    evenly spread, are marked ``long``.  A file whose marks :func:`pytest_ignore_collect` would not
    find is an error.
    """
    unseen, variants = set[str](), defaultdict[str, list[pytest.Item]](list)
    for item in items:
        if item.get_closest_marker("sample"):
            variants[item.nodeid.partition("[")[0]].append(item)
    for test in variants.values():
        mark = test[0].get_closest_marker("sample")
        chosen = {k * len(test) // mark.args[0] for k in range(mark.args[0])} if mark else ()
        for k, item in enumerate(test):
            if k not in chosen:
                item.add_marker(pytest.mark.long)
    for item in items:
        if item.path.suffix == ".md" and (found := _SYSTEM.match(_text(item.path))):
            item.add_marker(pytest.mark.system(*found[1].split()))
        if item.path.suffix == ".md" and _text(item.path).startswith(_LONG):
            item.add_marker(pytest.mark.long)
        unseen.update(
            f"{item.path}: tools/marked.py does not find the mark {mark!r} in it"
            for mark in MARKS
            if item.get_closest_marker(mark) and not _can_have(item.path, mark)
        )
    if unseen:
        raise pytest.UsageError("\n".join(sorted(unseen)))


_can_have = cache(can_have)


@cache
def _text(page: Path) -> str:
    return page.read_text(encoding="utf-8")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """A test marked ``system`` fails, and says what to install, where that is not there."""
    for mark in item.iter_markers("system"):
        for why in filter(None, map(missing, mark.args)):
            pytest.fail(why, pytrace=False)


pytest_collect_file = Sybil(
    parsers=[saved_files, console_blocks, PythonCodeBlockParser()],
    patterns=["README.md", "docs/*.md"],
    fixtures=["folder"],
).pytest()
