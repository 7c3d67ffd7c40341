"""Recordings of runs: how to write, read, compare and report them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rtsim.core.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from rtsim.record.comparison import compare
    from rtsim.record.reading import Recording
    from rtsim.record.recorders import MemoryRecorder
    from rtsim.record.replay_comparison import compare_exact
    from rtsim.record.views import views_of

__all__ = ["MemoryRecorder", "Recording", "compare", "compare_exact", "views_of"]

__getattr__, __dir__ = lazy_exports(__name__)
