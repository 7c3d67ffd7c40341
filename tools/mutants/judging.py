"""What came of a module's mutants: noticed, not noticed, or nothing that anybody could notice."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).parent
GOAL = 0.85


class Mutant(NamedTuple):
    """A change, by what it says: the lines of the source may move."""

    module: str
    within: str
    was: str
    now: str

    @property
    def told(self) -> str:
        within = self.within or "the module"
        return f"{self.module}, in {within}:\n    - {self.was}\n    + {self.now}"


class Tables(NamedTuple):
    """What is kept beside the tool."""

    tests: dict[str, tuple[str, ...]]
    """Of each module its tests: files, or files with ``::test``; first what fails first."""
    equivalent: dict[Mutant, str]
    """Why no test can notice."""


def read(folder: Path = HERE) -> Tables:
    """``modules.toml`` and ``equivalent.toml``."""
    modules = tomllib.loads((folder / "modules.toml").read_text(encoding="utf-8"))
    found = tomllib.loads((folder / "equivalent.toml").read_text(encoding="utf-8"))
    equivalent = {}
    for entry in found.get("equivalent", []):
        key = mutant(entry["module"], entry.get("within", ""), entry["was"], entry["now"])
        equivalent[key] = str(entry["why"])
    return Tables({name: tuple(tests) for name, tests in modules.items()}, equivalent)


def mutant(module: str, within: str, was: str, now: str) -> Mutant:
    """Without the spaces that a change adds: ``x[ 1]`` is ``x[1]``."""
    return Mutant(module, within, _plain(was), _plain(now))


def _plain(text: str) -> str:
    return " ".join(text.split())


def of_diff(module: str, within: str, diff: str) -> Mutant:
    """The lines that a unified diff takes away, and those that it adds."""
    lines = [line for line in diff.splitlines() if not line.startswith(("---", "+++", "@@"))]
    was = " ".join(line[1:] for line in lines if line.startswith("-"))
    now = " ".join(line[1:] for line in lines if line.startswith("+"))
    return mutant(module, within, was, now)


@dataclass
class Score:
    """Of one module."""

    module: str
    mutants: int
    """In the sample."""
    killed: int = 0
    timeouts: int = 0
    """Of those that are killed: the tests did not end."""
    survived: list[Mutant] = field(default_factory=list)
    equivalent: list[Mutant] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)
    """Why a mutant could not be tried."""

    @property
    def tried(self) -> int:
        return self.killed + len(self.survived) + len(self.equivalent) + len(self.broken)

    @property
    def share(self) -> float | None:
        """Of those that a test could notice, how many were; ``None`` where there are none."""
        able = self.killed + len(self.survived)
        return self.killed / able if able else None

    def count(self, found: Mutant, table: Tables) -> None:
        """One that no test noticed."""
        (self.equivalent if _known(found, table) else self.survived).append(found)


def _known(found: Mutant, table: Tables) -> bool:
    squeezed = {_squeezed(one) for one in table.equivalent}
    return _squeezed(found) in squeezed


def _squeezed(one: Mutant) -> Mutant:
    """Spaces within a line are the tool's, not the source's."""
    return one._replace(was=one.was.replace(" ", ""), now=one.now.replace(" ", ""))


def stale(table: Tables, root: Path) -> list[Mutant]:
    """Those of ``equivalent.toml`` whose source is gone: the code is another one now."""
    out = []
    for one in table.equivalent:
        path = root / one.module
        text = path.read_text(encoding="utf-8") if path.is_file() else ""
        if one.was.replace(" ", "") not in "".join(text.split()):
            out.append(one)
    return out


HEADS = ("module", "sample", "tried", "noticed", "not", "equivalent", "score")


def rows(scores: Sequence[Score]) -> Iterable[tuple[str, ...]]:
    """Cells of a table, as :data:`HEADS` calls them."""
    for one in scores:
        share = "" if one.share is None else f"{100 * one.share:.0f} %"
        counts = one.mutants, one.tried, one.killed, len(one.survived), len(one.equivalent)
        yield (one.module, *map(str, counts), share)
