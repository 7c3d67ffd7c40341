"""C that a recording, a checkpoint or a case names: what ships runs, and what is known to be the
user's own."""

from __future__ import annotations

from pathlib import Path

from hitl.interface import load_interface
from hitl.interface.shipped import ships
from rtsim.scenario.trust import check_compiled


def check_c(reference: str, source: str, recorded: object) -> None:
    """Raises :class:`TrustError` where the C of interface ``reference`` may not be compiled.

    ``recorded`` is the hash of what it was.
    """
    if not ships(path := _file(reference)):
        check_compiled(path, source, recorded, lambda _: load_interface(reference).sha256)


def check_c_of_now(reference: str, source: str) -> None:
    """The same where it may have changed since, to be run as it is now."""
    if not ships(path := _file(reference)):
        check_compiled(path, source)


def _file(reference: str) -> Path:
    """Without its variant."""
    path, dot, _ = reference.rpartition(".toml")
    return Path(path + dot or reference)
