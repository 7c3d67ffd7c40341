"""The progress line of a study."""

from __future__ import annotations

import os
import sys
from contextlib import suppress

from rtsim.core.clock import stopwatch
from rtsim.studies.campaign import Pool
from rtsim.studies.folder import Folder
from rtsim.studies.progress import Speed, Tally, text_of

_EVERY_NS = 500_000_000


class StudyLine:
    """One line on the terminal that is written again twice per second.

    The address of the dashboard gets a line of its own, which stays.
    """

    def __init__(self, folder: Folder, enabled: bool) -> None:
        self._folder, self._enabled = folder, enabled
        self._speed = Speed()
        self._next = 0
        self._told, self._keeps = "", False

    def show(self, tally: Tally, pool: Pool) -> None:
        """Write the line, if it is time to."""
        now = stopwatch()
        if not self._enabled or now < self._next:
            return
        self._next = now + _EVERY_NS
        if pool.about != self._told:
            self._told = pool.about
            self._write(f"dashboard: {pool.about}\n")
        self._write_cut(text_of(tally, self._speed.of(now, tally.new)))

    def keeping(self, done: int, wanted: int) -> None:
        """Write how many of the ``wanted`` recordings are there, if it is time to."""
        now, first = stopwatch(), not self._keeps
        self._keeps = True
        if self._enabled and (first or now >= self._next):
            self._next = now + _EVERY_NS
            self._write_cut(f"{done} / {wanted} recordings written")

    def close(self) -> None:
        """Remove the line."""
        if self._enabled:
            self._write("")

    def _write_cut(self, text: str) -> None:
        """Write as much as fits; a line that wraps could not be written again."""
        self._write(text[: _columns() - 1])

    def _write(self, text: str) -> None:
        with suppress(OSError):  # a terminal that is gone
            sys.stderr.write(f"\r{text}\x1b[K")
            sys.stderr.flush()


def _columns() -> int:
    """Return the width of the terminal in characters; 80 if it is unknown."""
    try:
        return os.get_terminal_size(sys.stderr.fileno()).columns or 80
    except (OSError, ValueError):
        return 80
