"""Permission to execute the code that a recording, checkpoint or saved case names (docs/trust.md).

To repeat a run, rtsim executes a scenario file whose path is in another file. Installed code may
run. A scenario file of the current project is permitted if its content is unchanged. For any other
code, the user must name the file or declare it as trusted.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rtsim.core.errors import TrustError
from rtsim.core.file_hash import file_hash
from rtsim.scenario.loading import file_of

Hash = Callable[[Path], str]
_ROOTS = ("pyproject.toml", ".git")


@dataclass(frozen=True)
class Given:
    """The permissions that the user gave."""

    scenario: str | None = None
    """The scenario to run instead of the recorded scenario."""
    everything: bool = False


_NOTHING = Given()
_GIVEN: ContextVar[Given] = ContextVar("trust", default=_NOTHING)


@contextmanager
def permitted(scenario: str | None = None, everything: bool = False) -> Iterator[None]:
    """Context manager that permits all code, or replaces the recorded scenario by ``scenario``."""
    before = _GIVEN.set(Given(scenario, everything))
    try:
        yield
    finally:
        _GIVEN.reset(before)


def anything_given() -> bool:
    """Return whether the user gave any permission."""
    return _GIVEN.get() != _NOTHING


def project() -> Path | None:
    """Return the folder with the user's own files, or ``None``.

    The folder is the nearest parent of the current folder with a file ``pyproject.toml`` or
    ``.git``. Without such a parent, the result is the current folder. Folders that can contain
    files of other users are excluded, such as ``/tmp``.
    """
    here = Path.cwd().resolve()
    too_wide = {Path(here.anchor), *_homes()}
    for folder in (here, *here.parents):
        if folder in too_wide:
            break
        if any((folder / name).exists() for name in _ROOTS) and not _everybodys(folder):
            return folder
    return None if here in too_wide or _everybodys(here) else here


def _homes() -> tuple[Path, ...]:
    try:
        home = Path.home().resolve()
    except (RuntimeError, KeyError):
        return ()
    return (home, *home.parents)


def _everybodys(folder: Path) -> bool:
    return os.name == "posix" and bool(folder.stat().st_mode & stat.S_IWOTH)


def scenario_to_load(origin: Mapping[str, Any], source: str) -> str:
    """Return the scenario to load for the recording or checkpoint ``source``.

    Raises :class:`TrustError` if the code is not permitted.
    """
    reference, given = str(origin["reference"]), _GIVEN.get()
    if given.scenario is not None:
        return given.scenario
    path = file_of(reference)
    if path is not None and (why := _why_not(path, origin.get("sha256"), file_hash)):
        this = "; to run this file, add --trust" if path.is_file() else ""
        raise TrustError(
            f"{source} was made with the scenario file {path}, which rtsim does not run: "
            f"{why}. To run a file of your own instead, add --scenario FILE.py{this} "
            "(docs/trust.md)"
        )
    return reference


def check_compiled(
    path: Path, source: str, recorded: object = None, hash_of: Hash | None = None
) -> None:
    """Raise ``TrustError`` if the C code of an interface file is not permitted.

    ``source`` is the file that names the interface file. Without ``hash_of``, the C code may differ
    from the recorded code.
    """
    if why := _why_not(path, recorded, hash_of):
        raise TrustError(
            f"{source} was made with the C code of {path}, which rtsim does not compile: "
            f"{why}. To compile and run this code, add --trust (docs/trust.md)"
        )


def check_device(url: str, source: str) -> None:
    """Raise ``TrustError`` if the device at ``url`` is not permitted."""
    if not _GIVEN.get().everything:
        raise TrustError(
            f"{source} was made with the device at {url}, which rtsim does not open by itself. "
            "To open the device, add --trust (docs/trust.md)"
        )


def _why_not(path: Path, recorded: object, hash_of: Hash | None) -> str:
    if _GIVEN.get().everything:
        return ""
    root = project()
    if root is None:
        return f"the current folder {Path.cwd()} is not a project folder"
    if root not in path.resolve().parents:
        return f"the file is not in the current project {root}"
    if hash_of is None:
        return ""
    if not recorded:
        return "no hash of the file was recorded, as in older versions of rtsim"
    try:
        now = hash_of(path)
    except OSError as error:
        return f"the file cannot be read ({error.strerror})"
    if now != recorded:
        return "the file, or a file that it reads, has changed since then"
    return ""
