"""Recorders that note when the recording was ready to begin, and when it was finished."""

from __future__ import annotations

from collections.abc import Mapping

from rtsim.core.clock import stopwatch
from rtsim.record.file import FileRecorder
from rtsim.record.recorders import NullRecorder


class TimedFile(FileRecorder):
    """Records to a file."""

    ready = finished = 0

    def start(self, header: Mapping[str, object]) -> None:
        super().start(header)
        self.ready = stopwatch()

    def finish(self, footer: Mapping[str, object]) -> None:
        super().finish(footer)
        self.finished = stopwatch()


class TimedNothing(NullRecorder):
    """Records nothing."""

    ready = finished = 0

    def start(self, header: Mapping[str, object]) -> None:  # noqa: ARG002
        self.ready = stopwatch()

    def finish(self, footer: Mapping[str, object]) -> None:  # noqa: ARG002
        self.finished = stopwatch()
