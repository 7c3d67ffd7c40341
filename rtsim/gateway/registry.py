"""List of the user's runs in progress: one small file for each run."""

from __future__ import annotations

import json
import os
import stat
import sys
import warnings
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

import platformdirs

from rtsim.core.errors import ScenarioError

_MOST_BYTES = 1 << 16
_MOST_PID = 2**31 - 1


@dataclass(frozen=True)
class RegisteredRun:
    """A run that clients can reach.

    ``pid`` is the process of the run, and ``gateway`` the process that serves clients. ``endpoint``
    is the address of the gateway, or the path of the shared memory.
    """

    pid: int
    gateway: int
    scenario: str
    endpoint: str

    @property
    def alive(self) -> bool:
        try:
            os.kill(self.gateway, 0)
        except ProcessLookupError:
            return False
        except OSError:
            pass
        return True

    @property
    def stopped(self) -> str:
        """A message if a process of the run is stopped by a Unix signal; otherwise empty."""
        for what, pid in (("the run", self.pid), ("the gateway of the run", self.gateway)):
            try:
                state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
            except (OSError, IndexError):  # Linux only
                continue
            if state in "Tt":
                return f"{what} (process {pid}) is stopped; type: kill -CONT {pid}"
        return ""


RUNS, VIEWED = "runs", "viewed"
"""Kinds of runs: those that clients can control, and those that a window can show."""
_START_ONE = {
    RUNS: "no run can be reached; start one with: rtsim run SCENARIO --pace 1.0 --control",
    VIEWED: "no run can be viewed; start one with: rtsim run SCENARIO --view, or rtsim fly f16",
}


def folder(kind: str = RUNS) -> Path:
    """Return the folder of the list of runs; ``RTSIM_RUNTIME_DIR`` selects another folder."""
    with warnings.catch_warnings():
        # If XDG_RUNTIME_DIR is not set (ssh, sudo, containers), platformdirs warns and uses another
        # folder, which works as well.
        warnings.simplefilter("ignore")
        place = os.environ.get("RTSIM_RUNTIME_DIR") or platformdirs.user_runtime_dir("rtsim")
    return Path(place) / kind


def open_folder(kind: str = RUNS) -> Path:
    """Return the folder of the list of runs, and create the folder if necessary.

    Raises :class:`ScenarioError` if this user cannot use the folder.
    """
    where = folder(kind)
    try:
        where.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise ScenarioError(
            f"cannot make {where}, where other commands find this run: {error.strerror}; set "
            "RTSIM_RUNTIME_DIR to another folder"
        ) from error
    _check_own(where)
    return where


def enter(entry: RegisteredRun, kind: str = RUNS) -> Path:
    """Add the run ``entry`` to the list of runs in progress. The caller removes the file."""
    where = open_folder(kind)
    path = where / f"{entry.pid}.json"
    scratch = path.with_suffix(".new")
    with os.fdopen(os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        json.dump(asdict(entry), file)
    scratch.replace(path)
    return path


def runs(kind: str = RUNS) -> list[RegisteredRun]:
    """Return the runs in progress, ordered by process id."""
    found = []
    where = folder(kind)
    _check_own(where)
    for path in sorted(where.glob("*.json")):
        entry = _read(path)
        if entry is not None and entry.alive:
            found.append(entry)
        elif entry is not None:
            with suppress(OSError):
                path.unlink()
    return sorted(found, key=lambda e: e.pid)


def find(which: str = "", kind: str = RUNS) -> RegisteredRun:
    """Return the run with the process id or scenario ``which``, by default the only run.

    The beginning of the scenario's name is enough. Raises :class:`ScenarioError` if no run or
    several runs match.
    """
    known = runs(kind)
    if not known:
        raise ScenarioError(_START_ONE[kind])
    named = [e for e in known if which in (str(e.pid), e.scenario)]
    chosen = named or [e for e in known if e.scenario.startswith(which)]
    if len(chosen) == 1:
        return chosen[0]
    listed = ", ".join(f"{e.pid} ({e.scenario})" for e in chosen or known)
    if chosen:
        raise ScenarioError(f"several runs are in progress; name one of {listed}")
    raise ScenarioError(f"no run {which!r} is in progress; runs in progress: {listed}")


def _check_own(where: Path) -> None:
    if sys.platform == "win32":
        return
    try:
        about = where.lstat()
    except OSError:
        return  # the folder does not exist
    wrong = ""
    if not stat.S_ISDIR(about.st_mode):
        wrong = "is not a folder"
    elif about.st_uid != os.getuid():
        wrong = "belongs to another user"
    elif about.st_mode & 0o077:
        wrong = "is accessible to other users (chmod 700 prevents that)"
    if wrong:
        raise ScenarioError(
            f"{where} {wrong}; remove {where}, or set RTSIM_RUNTIME_DIR to another folder"
        )


def _read(path: Path) -> RegisteredRun | None:
    try:
        with path.open(encoding="utf-8") as file:
            data = json.loads(file.read(_MOST_BYTES))
        pid, gateway = int(data["pid"]), int(data["gateway"])
        if not (0 < pid <= _MOST_PID and 0 < gateway <= _MOST_PID):
            return None
        return RegisteredRun(pid, gateway, str(data["scenario"]), str(data["endpoint"]))
    except (OSError, ValueError, OverflowError, KeyError, TypeError, RecursionError):
        return None
