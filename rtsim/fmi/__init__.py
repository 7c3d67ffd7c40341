"""Models of other tools, and models for other tools: Functional Mock-up Units (FMI 2.0 and 3.0).

docs/fmi.md contains examples.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rtsim.core.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from rtsim.fmi.exporting import export_c, export_fmu
    from rtsim.fmi.importing import Fmu

__all__ = ["Fmu", "export_c", "export_fmu"]

__getattr__, __dir__ = lazy_exports(__name__)
