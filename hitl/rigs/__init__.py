"""Rigs: an I/O node, the signals at its pins, and the emulated boards at these pins."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rtsim.core.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from hitl.rigs.controller import RigController
    from hitl.rigs.file import load_rig

__all__ = ["RigController", "load_rig"]

__getattr__, __dir__ = lazy_exports(__name__)
