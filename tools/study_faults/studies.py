"""Studies as commands: start, resume, and what the checks of all points have in common."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

from tools.study_faults.processes import Group, program, wait_for
from tools.study_faults.rows import Rows, count_of, equal_rows, once_each, rows_of, states_of
from tools.study_faults.shown import Shown

RTSIM = program("rtsim")
BAD = "bad/bad.py"
DISPERSED = "from rtsim.models.f16.dispersed import study as study\n"
_HERE = Path(__file__).parent
_LONGEST_S = 24 * 3600.0


@dataclass(frozen=True)
class Work:
    """A folder in which studies are made, with the scenario files in it."""

    folder: Path
    shown: Shown
    groups: list[Group] = field(default_factory=list)

    @classmethod
    def of(cls, folder: Path, shown: Shown) -> Work:
        """Make the folder, and write the scenario files to it."""
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "pyproject.toml").touch()  # a project of its own, whose files are trusted
        (folder / "dispersed.py").write_text(DISPERSED, encoding="utf-8")
        shutil.copytree(_HERE / "bad", folder / "bad", dirs_exist_ok=True)
        return cls(folder, shown)

    def group(self, **env: str) -> Group:
        """Return a group of commands with more variables in their environment."""
        out = Group(self.folder, env)
        self.groups.append(out)
        return out

    def end(self) -> None:
        """Kill all processes that commands have left."""
        for group in self.groups:
            group.end()

    def study(self, group: Group, name: str, *words: str | Path, status: int = 0) -> Rows:
        """Run ``rtsim study start ... -o name``, and check its status and what it leaves."""
        found, text = group.run(RTSIM, "study", "start", *words, "-o", name)
        return self._ended(group, name, found, text, status)

    def resume(self, group: Group, name: str, *words: str | Path, status: int = 0) -> Rows:
        """Run ``rtsim study resume name``, and check its status and what it leaves."""
        found, text = group.run(RTSIM, "study", "resume", name, *words)
        return self._ended(group, name, found, text, status)

    def finish(
        self, group: Group, name: str, process: subprocess.Popen[str], status: int = 0
    ) -> Rows:
        """Wait for a command that was begun before, and check as :meth:`study` does."""
        text, _ = process.communicate()
        return self._ended(group, name, process.returncode, text, status)

    def _ended(self, group: Group, name: str, found: int, text: str, status: int) -> Rows:
        if not self.shown.check(f"{name}: exit status", found, status):
            print(text)
        self.shown.check(f"{name}: processes left", group.left(), "none")
        return rows_of(self.folder / name)

    def whole(self, name: str, rows: Rows, runs: int, like: Rows | None = None) -> None:
        """Check that each of ``runs`` runs has one row, and that all equal those of ``like``."""
        self.shown.check(f"{name}: rows", once_each(rows, runs), f"{runs} runs once")
        self.shown.check(f"{name}: states", states_of(rows), {"ok": runs})
        if like is not None:
            found = equal_rows(rows, like)
            self.shown.check(f"{name}: runs equal bit for bit", found, f"{runs} of {runs} equal")

    def reaches(self, name: str, process: subprocess.Popen[str], rows: int) -> bool:
        """Wait until a study has ``rows`` rows; False if its command ends before."""
        wait_for(
            lambda: process.poll() is not None or count_of(self.folder / name) >= rows, _LONGEST_S
        )
        return process.poll() is None
