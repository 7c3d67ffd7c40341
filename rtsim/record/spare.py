"""Recording a run once more, to be read at once: in memory, or beside it where it is too large."""

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
from rtsim.record.tape import MemoryRecorder

LARGE_FOLDERS = ("/var/tmp",)
"""Where temporary files of any size belong; ``TMPDIR`` comes before them."""


class SpareRecorder(FileRecorder):
    """Into a file that is gone as soon as its :meth:`recording` is."""

    def __init__(self) -> None:
        folder = Path(tempfile.mkdtemp(prefix="rtsim-", dir=_folder()))
        self._forget = weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
        super().__init__(folder / "spare.mcap")

    @cached_property
    def _recorded(self) -> Recording:
        self.close()
        if self.failed is not None:
            raise RecordingError(
                f"the run was recorded once more in {self.path.parent.parent}, and that failed: "
                f"{self.failed}; set TMPDIR to a folder with room for it"
            )
        out = Recording.open(self.path)
        self._forget()
        return replace(out, source="memory")

    def recording(self) -> Recording:
        """What was recorded; its rows stay in the file, which nobody else can find any more."""
        return self._recorded


def recorder_for_again(recording: Recording) -> MemoryRecorder | SpareRecorder:
    """For a run that records as much as ``recording`` holds."""
    return SpareRecorder() if recording.large else MemoryRecorder()


def _folder() -> str | None:
    if os.environ.get("TMPDIR"):
        return None  # what was asked for
    return next((f for f in LARGE_FOLDERS if os.access(f, os.W_OK)), None)
