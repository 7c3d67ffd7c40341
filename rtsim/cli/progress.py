"""The progress line on the terminal while a run is prepared and while it is in progress."""

from __future__ import annotations

import sys

from rtsim.runs.progress import Pulse, RunText, TerminalLine
from rtsim.runs.request import Progress


class ProgressLine:
    """One line on the terminal, rewritten five times per second in the slack of a frame.

    The text is formatted here, because a library's progress bar takes milliseconds to draw and
    this code runs in the thread of the loop.
    """

    def __init__(self, name: str, enabled: bool, noted: bool = False) -> None:
        """Prepare the line for the run ``name``; the line is written if ``enabled``.

        ``noted``: report a first compilation even if the line is not written.
        """
        self.begun = False
        """True if at least one frame has been computed."""
        self._name = name
        self._enabled, self._noted = enabled, noted and not enabled
        self._texts, self._pulse = RunText(Pulse(first_ns=0)), Pulse(first_ns=0)
        self._line = TerminalLine()

    def compiling(self, what: str) -> None:
        """Report that ``what`` is compiled, which takes seconds; the result is cached."""
        if self._enabled:
            self._write(f"compiling {self._name} (only the first time; some seconds): {what} …")
        elif self._noted:
            self._noted = False
            sys.stderr.write(f"compiling {self._name} (only the first time; some seconds)\n")
            sys.stderr.flush()

    def show(self, progress: Progress) -> None:
        self.begun = True
        if self._enabled and (text := self._texts.due(progress)):
            self._write(text)

    def say(self, text: str) -> None:
        """Show ``text`` as the present line, for work other than a run."""
        if self._enabled:
            self._write(text)

    def count(self, what: str, done: int, of: int) -> None:
        """Show that so many of so many are done, at most five times per second."""
        if self._enabled and self._pulse.due():
            self._write(f"{what} {done} / {of}")

    def tell(self, text: str) -> None:
        """Print ``text`` at once, on a line of its own, even without a terminal."""
        if self._enabled:
            self._write("")
        sys.stderr.write(f"{text}\n")
        sys.stderr.flush()

    @property
    def when_interrupted(self) -> str:
        """Message for an interrupt that came before the loop began or after it ended."""
        if self.begun:
            return "interrupted while the recording was being completed; it may be cut off"
        return "interrupted before the run began"

    def close(self) -> None:
        if self._enabled:
            self._write("")

    def _write(self, text: str) -> None:
        self._line.write(text, 0.0)
