"""Checks whether C that a recording, a checkpoint or a case names may be compiled and run.

C that ships with rtsim may be run, and C that is known to be the user's own.
"""

from __future__ import annotations

from pathlib import Path

from hitl.interface import load_interface
from hitl.interface.shipped import ships
from rtsim.scenario.trust import check_compiled


def check_c(reference: str, source: str, recorded: object) -> None:
    """Raise :class:`TrustError` if the C of interface file ``reference`` may not be compiled.

    ``source`` names the file that refers to the C.  ``recorded`` is the hash of the recorded C.
    """
    if not ships(path := _file(reference)):
        check_compiled(path, source, recorded, lambda _: load_interface(reference).sha256)


def check_c_of_now(reference: str, source: str) -> None:
    """The same as :func:`check_c` for C that is run as it is now, whatever was recorded."""
    if not ships(path := _file(reference)):
        check_compiled(path, source)


def _file(reference: str) -> Path:
    """The path of the interface file, without its variant."""
    path, dot, _ = reference.rpartition(".toml")
    return Path(path + dot or reference)
