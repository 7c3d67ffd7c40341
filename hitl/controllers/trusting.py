"""Checks whether C code that a recording, a checkpoint or a case names may be run.

C code that ships with rtsim may be run, and so may the C code of the user's project.
"""

from __future__ import annotations

from pathlib import Path

from hitl.interface import load_interface
from hitl.interface.shipped import ships
from rtsim.scenario.trust import check_compiled


def check_c(reference: str, source: str, recorded: object) -> None:
    """Raise :class:`TrustError` if the C code of interface file ``reference`` may not be compiled.

    ``source`` names the file that refers to the C code.  ``recorded`` is the hash of the recorded C
    code.
    """
    if not ships(path := _file(reference)):
        check_compiled(path, source, recorded, lambda _: load_interface(reference).sha256)


def check_c_of_now(reference: str, source: str) -> None:
    """Check C code like :func:`check_c`, but without the hash of a recording."""
    if not ships(path := _file(reference)):
        check_compiled(path, source)


def _file(reference: str) -> Path:
    """Return the path of the interface file, without its variant."""
    path, dot, _ = reference.rpartition(".toml")
    return Path(path + dot or reference)
