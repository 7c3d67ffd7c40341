"""Temporary recording of a repeated run: in memory, or in a temporary file if it is too large."""

from __future__ import annotations

import os
import shutil
import tempfile
import weakref
from dataclasses import replace
from functools import cached_property
from pathlib import Path

from rtsim.core.errors import RecordingError
from rtsim.record.file import FileRecorder
from rtsim.record.reading import Recording
from rtsim.record.recorders import MemoryRecorder

LARGE_FOLDERS = ("/var/tmp",)
"""Folders for large temporary files; ``TMPDIR`` takes precedence."""


class SpareRecorder(FileRecorder):
    """Records into a temporary file, which is removed when its :meth:`recording` is released."""

    def __init__(self) -> None:
        folder = Path(tempfile.mkdtemp(prefix="rtsim-", dir=_folder()))
        self._forget = weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
        super().__init__(folder / "spare.mcap")

    @cached_property
    def _recorded(self) -> Recording:
        self.close()
        if self.failed is not None:
            raise RecordingError(
                f"the temporary recording of the repeated run in {self.path.parent.parent} failed: "
                f"{self.failed}; set TMPDIR to a folder with enough space"
            )
        out = Recording.open(self.path)
        self._forget()
        return replace(out, source="memory")

    def recording(self) -> Recording:
        """Return the recording; its rows stay in the open file, whose name is already deleted."""
        return self._recorded


def recorder_for_again(recording: Recording) -> MemoryRecorder | SpareRecorder:
    """Return a recorder for a run that records as much data as ``recording`` contains."""
    return SpareRecorder() if recording.large else MemoryRecorder()


def _folder() -> str | None:
    if os.environ.get("TMPDIR"):
        return None  # the tempfile module uses TMPDIR
    return next((f for f in LARGE_FOLDERS if os.access(f, os.W_OK)), None)
