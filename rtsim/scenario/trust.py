"""What a file from somebody else may have executed: docs/trust.md.

A recording, a checkpoint and a saved case name the file that made them.  To run them again is to
run that file.  What is installed runs; a file of the current project runs where it is byte for byte
the one that was recorded; anything else is for the user to say: which file instead, or that the one
named is trusted.
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
    """What the user said."""

    scenario: str | None = None
    """To be run instead of the one that a file names."""
    everything: bool = False


_NOTHING = Given()
_GIVEN: ContextVar[Given] = ContextVar("trust", default=_NOTHING)


@contextmanager
def permitted(scenario: str | None = None, everything: bool = False) -> Iterator[None]:
    """Within it, ``scenario`` stands for whatever a file names, or everything is trusted."""
    before = _GIVEN.set(Given(scenario, everything))
    try:
        yield
    finally:
        _GIVEN.reset(before)


def anything_given() -> bool:
    """The user said something of it."""
    return _GIVEN.get() != _NOTHING


def project() -> Path | None:
    """The folder whose files are the user's own work.

    The nearest one above that has a ``pyproject.toml`` or a ``.git``, or else the current one;
    ``None`` in a home folder, above one, at the root, and in a folder such as ``/tmp`` into which
    everybody may put files: below them anything may have been put.
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
    """The user's home folder and those above it; nothing for a user who has none."""
    try:
        home = Path.home().resolve()
    except (RuntimeError, KeyError):
        return ()
    return (home, *home.parents)


def _everybodys(folder: Path) -> bool:
    """Whether every user of this machine may put files there; Windows does not say it so."""
    return os.name == "posix" and bool(folder.stat().st_mode & stat.S_IWOTH)


def scenario_to_load(origin: Mapping[str, Any], source: str) -> str:
    """The reference to load for what ``source`` names; :class:`TrustError` where it may not be."""
    reference, given = str(origin["reference"]), _GIVEN.get()
    if given.scenario is not None:
        return given.scenario
    path = file_of(reference)
    if path is not None and (why := _why_not(path, origin.get("sha256"), file_hash)):
        raise TrustError(
            f"{source} was made of {path}, which would be imported and run: {why}. "
            "To run a file of yours, type --scenario FILE.py; to run that one, type --trust "
            "(docs/trust.md)"
        )
    return reference


def check_compiled(
    path: Path, source: str, recorded: object = None, hash_of: Hash | None = None
) -> None:
    """That the C of interface file ``path``, which ``source`` names, may be compiled and run.

    Without ``hash_of`` it may have changed: to run it again is the purpose of ``source``.
    """
    if why := _why_not(path, recorded, hash_of):
        raise TrustError(
            f"{source} is of the C of {path}, which would be compiled and run: {why}. "
            "Type --trust to do so (docs/trust.md)"
        )


def check_device(url: str, source: str) -> None:
    """That a real device at ``url``, which ``source`` names, may be opened."""
    if not _GIVEN.get().everything:
        raise TrustError(
            f"{source} was flown by the device at {url}, which would be opened and written to. "
            "Type --trust to do so (docs/trust.md)"
        )


def _why_not(path: Path, recorded: object, hash_of: Hash | None) -> str:
    """In words; empty where it may be run."""
    if _GIVEN.get().everything:
        return ""
    root = project()
    if root is None:
        return f"the current folder {Path.cwd()} is no project, so that file is of none"
    if root not in path.resolve().parents:
        return f"it is not of the current project, {root}"
    if hash_of is None:
        return ""
    if not recorded:
        return "what it held then was not recorded, as older versions of rtsim did not"
    try:
        now = hash_of(path)
    except OSError as error:
        return f"it cannot be read now ({error.strerror})"
    if now != recorded:
        return "it, or a file that it reads, is not what it was then"
    return ""
