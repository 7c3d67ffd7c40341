"""The progress line of a study."""

from __future__ import annotations

import math
import sys
from contextlib import suppress

from rtsim.core.clock import stopwatch
from rtsim.studies.folder import Folder
from rtsim.studies.pools import Pool
from rtsim.studies.tally import Tally

_EVERY_NS = 500_000_000


class StudyLine:
    """One line on the terminal that is written again twice per second."""

    def __init__(self, folder: Folder, enabled: bool) -> None:
        self._folder, self._enabled = folder, enabled
        self._began = stopwatch()
        self._next = 0

    def show(self, tally: Tally, pool: Pool) -> None:
        """Write the line, if it is time to."""
        now = stopwatch()
        if not self._enabled or now < self._next:
            return
        self._next = now + _EVERY_NS
        self._write(text_of(tally, (now - self._began) * 1e-9, pool.about))

    def close(self) -> None:
        """Remove the line."""
        if self._enabled:
            self._write("")

    def _write(self, text: str) -> None:
        with suppress(OSError):  # a terminal that is gone
            sys.stderr.write(f"\r{text}\x1b[K")
            sys.stderr.flush()


def text_of(tally: Tally, seconds: float, about: str) -> str:
    """Return the progress after ``seconds`` of wall-clock time as one line."""
    speed = tally.new / seconds if seconds > 0.0 else 0.0
    words = [f"{tally.rows} / {tally.runs} runs", f"{speed:.3g} runs/s"]
    words.append(f"{tally.failures} failed")
    for name in list(tally.passed)[:1]:
        share = tally.rate(name)
        if share is not None:
            words.append(f"{name} met in {share.share:.4g} ({share.low:.4g} to {share.high:.4g})")
        elif tally.worst[name] < math.inf:
            words.append(f"{name} worst margin {tally.worst[name]:.4g}")
    if speed:
        words.append(f"{(tally.runs - tally.rows) / speed:.0f} s left")
    return "  ".join([*words, about] if about else words)
