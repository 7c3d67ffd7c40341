"""A module's mutants, one after the other, in a copy of the source; what is done stays done.

The only file that knows cosmic-ray, which ``tools/setup.sh mutants`` installs.
"""

from __future__ import annotations

import contextlib
import difflib
import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from cosmic_ray.commands import init
from cosmic_ray.mutating import use_mutation
from cosmic_ray.plugins import get_operator
from cosmic_ray.work_db import WorkDB, use_db
from cosmic_ray.work_item import TestOutcome, WorkerOutcome, WorkItem, WorkResult

from rtsim.core.clock import stopwatch
from rtsim.core.tag import NS_PER_S
from tools.mutants.choosing import Change, chosen
from tools.mutants.judging import Score, Tables, of_diff
from tools.mutants.running import TIMEOUT, passes

PATIENCE, GRACE_S = 4.0, 20.0
"""A mutant's tests are ended after so many times what they take, and so many seconds more."""
OUTPUT = 4000
"""Characters of a test's output that are kept."""


class NotDecided(Exception):
    """Nothing can be said of a module's tests."""


class Session:
    """The mutants of one module in ``folder``, kept in a file of their own."""

    def __init__(self, module: str, tests: tuple[str, ...], folder: Path, root: Path) -> None:
        self.module = module
        self.tests = tests
        self._tree = folder / "tree"
        self._folder = folder
        self.source = (root / module).read_text(encoding="utf-8")
        digest = hashlib.sha256(self.source.encode()).hexdigest()[:12]
        name = module.removesuffix(".py").replace("/", ".")
        self._file = folder / f"{name}.{digest}.sqlite"

    @property
    def known(self) -> bool:
        return self._file.is_file()

    @contextlib.contextmanager
    def _open(self) -> Iterator[WorkDB]:
        with contextlib.chdir(self._tree), use_db(str(self._file.resolve())) as db:
            if not db.num_work_items:
                init([Path(self.module)], db, {})
            yield db

    def _chosen(self, db: WorkDB, every: int, seed: int) -> list[WorkItem]:
        items = {item.job_id: item for item in db.work_items}
        changes = []
        for job, item in items.items():
            (spec,) = item.mutations
            within = spec.definition_name or ""
            changes.append(Change(job, spec.operator_name, within, spec.start_pos, spec.occurrence))
        return [items[change.job] for change in chosen(changes, self.source, every, seed)]

    def run(self, every: int, seed: int, until_ns: int, again: bool) -> Iterator[str]:
        """Try what was not tried yet, until ``until_ns`` of the stopwatch; tells what it does.

        ``again`` tries once more what no test noticed.
        """
        with self._open() as db:
            items = self._chosen(db, every, seed)
            done = dict(db.results)
            ahead = [i for i in items if i.job_id not in done or _again(done[i.job_id], again)]
            if not ahead:
                return
            command = _command(self.tests)
            took = self._baseline(command)
            timeout = PATIENCE * took + GRACE_S
            yield f"{self.module}: {len(ahead)} of {len(items)} to try, the tests take {took:.1f} s"
            for item in ahead:
                if stopwatch() > until_ns:
                    yield f"{self.module}: time is up"
                    return
                result = _tried(item, command, timeout)
                db.set_result(item.job_id, result)
                if result.test_outcome == TestOutcome.SURVIVED:
                    yield of_diff(self.module, _within(item), result.diff or "").told

    def _baseline(self, command: list[str]) -> float:
        """How long (s) the tests take, which have to pass as the source is.

        The first time writes the bytecode that every mutant's tests then read.
        """
        subprocess.run(command, check=False, capture_output=True)
        began = stopwatch()
        good, output = passes(command, 600)
        if not good:
            raise NotDecided(
                f"the tests of {self.module} fail without a change; mend them first:\n"
                f"{output[-OUTPUT:]}"
            )
        return (stopwatch() - began) / NS_PER_S

    def score(self, every: int, seed: int, table: Tables) -> Score:
        """Of what was tried so far."""
        with self._open() as db:
            items = self._chosen(db, every, seed)
            done = dict(db.results)
        out = Score(self.module, len(items))
        for item in items:
            result = done.get(item.job_id)
            if result is None:
                continue
            if result.test_outcome == TestOutcome.KILLED:
                out.killed += 1
                out.timeouts += result.output == TIMEOUT
            elif result.test_outcome == TestOutcome.SURVIVED:
                out.count(of_diff(self.module, _within(item), result.diff or ""), table)
            else:
                out.broken.append(result.output or "")
        return out


def _again(result: WorkResult, again: bool) -> bool:
    return result.test_outcome != TestOutcome.KILLED and again


def _within(item: WorkItem) -> str:
    return item.mutations[0].definition_name or ""


def _tried(item: WorkItem, command: list[str], timeout_s: float) -> WorkResult:
    """What the tests say of a mutant; the source is then as it was."""
    (spec,) = item.mutations
    operator = get_operator(spec.operator_name)(**spec.operator_args)
    try:
        with use_mutation(spec.module_path, operator, spec.occurrence) as (was, now):
            if now is None:
                return WorkResult(WorkerOutcome.NO_TEST, output="there is no such change")
            good, output = passes(command, timeout_s)
    except Exception as error:  # of whatever cosmic-ray cannot change, as ``except (*A, B)``
        told = f"{type(error).__name__}: {error}"
        return WorkResult(WorkerOutcome.EXCEPTION, told, TestOutcome.INCOMPETENT)
    outcome = TestOutcome.SURVIVED if good else TestOutcome.KILLED
    lines = difflib.unified_diff(was.splitlines(), now.splitlines(), lineterm="")
    return WorkResult(WorkerOutcome.NORMAL, output[-OUTPUT:], outcome, "\n".join(lines))


def _command(tests: tuple[str, ...]) -> list[str]:
    """pytest, until the first failure; the same examples of Hypothesis each time."""
    options = ["-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "--hypothesis-seed=0"]
    marks = ["-m", "not realtime and not full and not system"]
    return [sys.executable, "-m", "pytest", *options, *marks, *tests]


def copy_source(root: Path, folder: Path) -> Path:
    """All that git knows of or could know of, into ``folder/tree``; bytecode there stays."""
    tree = folder / "tree"
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard", "-z"],
        cwd=root, check=True, capture_output=True, text=True,
    )  # fmt: skip
    names = {name for name in listed.stdout.split("\0") if name and (root / name).is_file()}
    for name in names:
        source, target = root / name, tree / name
        if not target.is_file() or target.read_bytes() != source.read_bytes():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, target)
    for path in tree.rglob("*.py"):
        if path.relative_to(tree).as_posix() not in names:
            path.unlink()
    return tree


def environment(tree: Path, folder: Path) -> None:
    """What tests and the processes that they start find: the copy, and a cache of their own."""
    os.environ["PYTHONPATH"] = str(tree)
    os.environ["RTSIM_CACHE_DIR"] = str(folder / "cache")
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
