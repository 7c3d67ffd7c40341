"""C that a recording, a checkpoint or a case names: what ships runs, and what is known to be the
user's own."""

from __future__ import annotations

from pathlib import Path

from hitl.interface import load_interface
from hitl.interface.shipped import ships
from rtsim.trust import check_compiled


def check_c(reference: str, recorded: object, source: str) -> None:
    """Raises :class:`TrustError` where the C of interface ``reference`` may not be compiled."""
    path, dot, _ = reference.rpartition(".toml")
    file = Path(path + dot)
    if not ships(file):
        check_compiled(file, recorded, lambda _: load_interface(reference).sha256, source)
