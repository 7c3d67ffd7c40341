"""The progress line of a study."""

from __future__ import annotations

import math
import os
import sys
from collections import deque
from contextlib import suppress

from rtsim.core.clock import stopwatch
from rtsim.studies.folder import Folder
from rtsim.studies.pools import Pool
from rtsim.studies.tally import Tally

_EVERY_NS = 500_000_000
_LATELY_NS, _LATELY_RUNS = 10_000_000_000, 10
"""The speed is that of the last 10 s, or of a longer time that has 10 runs."""


class StudyLine:
    """One line on the terminal that is written again twice per second.

    The address of the dashboard gets a line of its own, which stays.
    """

    def __init__(self, folder: Folder, enabled: bool) -> None:
        self._folder, self._enabled = folder, enabled
        self._seen: deque[tuple[int, int]] = deque()
        """Times of earlier lines [ns], and the numbers of runs that had ended."""
        self._next = 0
        self._told = ""

    def show(self, tally: Tally, pool: Pool) -> None:
        """Write the line, if it is time to."""
        now = stopwatch()
        if not self._enabled or now < self._next:
            return
        self._next = now + _EVERY_NS
        if pool.about != self._told:
            self._told = pool.about
            self._write(f"dashboard: {pool.about}\n")
        text = text_of(tally, self._speed(now, tally.new))
        self._write(text[: _columns() - 1])  # a line that wraps could not be written again

    def _speed(self, now: int, runs: int) -> float:
        """Return the runs per second of late; workers that start and compile do not count."""
        seen = self._seen
        seen.append((now, runs))
        while (
            len(seen) > 2 and now - seen[1][0] >= _LATELY_NS and runs - seen[1][1] >= _LATELY_RUNS
        ):
            seen.popleft()
        then, before = seen[0]
        return (runs - before) / ((now - then) * 1e-9) if now > then else 0.0

    def close(self) -> None:
        """Remove the line."""
        if self._enabled:
            self._write("")

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


def text_of(tally: Tally, speed: float) -> str:
    """Return the progress as one line; ``speed`` in runs per second, 0 if it is not known yet.

    What is most often wanted comes first, because a narrow terminal cuts the line.
    """
    words = [f"{tally.rows} / {tally.runs} runs"]
    if speed:
        words.append(f"{speed:.3g} runs/s")
        words.append(f"{(tally.runs - tally.rows) / speed:.0f} s left")
    words.append(f"{tally.failures} failed")
    for name, mean in tally.estimates():
        words.append(f"{name} {mean.mean:.4g} ({mean.low:.4g} to {mean.high:.4g})")
    for name in list(tally.passed)[:1]:
        share = tally.rate(name)
        if share is not None:
            words.append(f"{name} met in {share.share:.4g} ({share.low:.4g} to {share.high:.4g})")
        elif tally.worst[name] < math.inf:
            words.append(f"{name} worst margin {tally.worst[name]:.4g}")
    return "  ".join(words)
