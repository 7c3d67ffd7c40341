"""The progress line of a study."""

from __future__ import annotations

import os
import sys
from collections import deque
from contextlib import suppress

from rtsim.core.clock import stopwatch
from rtsim.studies.folder import Folder
from rtsim.studies.pools import Pool
from rtsim.studies.tally import Tally
from rtsim.studies.texts import runs_of

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
        self._write_cut(text_of(tally, self._speed(now, tally.new)))

    def keeping(self, done: int, wanted: int) -> None:
        """Write how many of the ``wanted`` recordings are there, if it is time to."""
        now, first = stopwatch(), not self._keeps
        self._keeps = True
        if self._enabled and (first or now >= self._next):
            self._next = now + _EVERY_NS
            self._write_cut(f"{done} / {wanted} recordings written")

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
        elif tally.rows:
            words.append(f"{name} {_worst(tally, name)}")
    return "  ".join(words)


def _worst(tally: Tally, requirement: str) -> str:
    """Return how many runs have no margin, which is the worst, and the smallest margin so far."""
    none, words = tally.without_margin[requirement], []
    if none:
        words.append(f"no margin in {runs_of(none)}")
    if none < tally.rows:
        words.append(f"worst margin {tally.worst[requirement]:.4g}")
    return ", ".join(words)
