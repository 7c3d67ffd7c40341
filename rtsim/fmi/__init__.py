"""Functional Mock-up Units (FMI 2.0 and 3.0): plants from other tools, and plants for them.

docs/fmi.md describes the use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rtsim.core.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from rtsim.fmi.importing import Fmu

__all__ = ["Fmu"]

__getattr__, __dir__ = lazy_exports(__name__)
