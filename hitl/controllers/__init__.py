"""Controllers in C: in a separate process, in this process, or on a board."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rtsim.core.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from hitl.controllers.board import BoardController
    from hitl.controllers.in_process import InProcess
    from hitl.controllers.sil import SilController

__all__ = ["BoardController", "InProcess", "SilController"]

__getattr__, __dir__ = lazy_exports(__name__)
