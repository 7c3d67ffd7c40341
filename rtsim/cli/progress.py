"""What the terminal is told while a run is prepared and while it flies."""

from __future__ import annotations

import sys
from contextlib import suppress

from rtsim.core.clock import stopwatch
from rtsim.core.tag import NS_PER_S
from rtsim.runs.simulation import Progress

_EVERY_NS = 200_000_000


class ProgressLine:
    """One line on the terminal, rewritten five times a second from the slack of a frame.

    Text is made and written here by hand: a progress bar of a library takes milliseconds to draw,
    and this is the loop's own thread.
    """

    def __init__(self, name: str, enabled: bool, noted: bool = False) -> None:
        """``noted``: where no terminal shows the line, a first compilation still has one."""
        self.begun = False
        """A frame was flown."""
        self._name = name
        self._enabled, self._noted = enabled, noted and not enabled
        self._next = 0
        self._shown = (0, 0)
        """Wall and simulated ns when the line was last written: the rate is that since then."""

    def compiling(self, what: str) -> None:
        """``what`` has to be compiled, which takes seconds and is kept for the next time."""
        if self._enabled:
            self._write(f"compiling {self._name} (once; some seconds): {what} …")
        elif self._noted:
            self._noted = False
            sys.stderr.write(f"compiling {self._name} (once; some seconds)\n")
            sys.stderr.flush()

    def show(self, progress: Progress) -> None:
        self.begun = True
        now = stopwatch()
        if not self._enabled or now < self._next:
            return
        self._next = now + _EVERY_NS
        pacer = progress.pacer
        then, ns = self._shown
        self._shown = (now, progress.ns)
        rate = (progress.ns - ns) / (now - then) if then else 0.0
        text = f"{progress.ns / NS_PER_S:9.2f} / {progress.until_ns / NS_PER_S:g} s  x{rate:<8.4g}"
        if pacer.clock.paced:
            text += (
                f" margin {pacer.margin_ns / 1e6:7.3f} ms  overruns {sum(pacer.overruns.values())}"
            )
        self._write(text)

    def say(self, text: str) -> None:
        """What is being done, where that is not a flight."""
        if self._enabled:
            self._write(text)

    def tell(self, text: str) -> None:
        """What must not wait for the end, on a line of its own, terminal or not."""
        if self._enabled:
            self._write("")
        sys.stderr.write(f"{text}\n")
        sys.stderr.flush()

    @property
    def when_interrupted(self) -> str:
        """What an interrupt from outside of the loop has cut short."""
        if self.begun:
            return "interrupted while the run was being finished; its recording may be cut off"
        return "interrupted before the run began"

    def close(self) -> None:
        if self._enabled:
            self._write("")

    def _write(self, text: str) -> None:
        with suppress(OSError):  # a terminal that is gone
            sys.stderr.write(f"\r{text}\x1b[K")
            sys.stderr.flush()
