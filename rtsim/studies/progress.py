"""The progress of a study: how many runs have ended, their speed, and the results so far."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rtsim.runs.progress import Pulse, display_of
from rtsim.studies.pools import Pool
from rtsim.studies.tally import Tally
from rtsim.studies.texts import runs_of

_LATELY_NS, _LATELY_RUNS = 10_000_000_000, 10
"""The speed is that of the last 10 s, or of a longer time that has 10 runs."""
_EVERY_NS = 500_000_000


class Speed:
    """Runs per second of late."""

    def __init__(self) -> None:
        self._seen: deque[tuple[int, int]] = deque()
        """Times of earlier questions [ns], and the numbers of runs that had ended."""

    def of(self, now: int, runs: int) -> float:
        """Return the runs per second of late; workers that start and compile do not count."""
        seen = self._seen
        seen.append((now, runs))
        while (
            len(seen) > 2 and now - seen[1][0] >= _LATELY_NS and runs - seen[1][1] >= _LATELY_RUNS
        ):
            seen.popleft()
        then, before = seen[0]
        return (runs - before) / ((now - then) * 1e-9) if now > then else 0.0


@contextmanager
def study_shown(wanted: bool | None) -> Iterator[Callable[[Tally, Pool], object]]:
    """Give what shows the progress of a study, where
    :func:`~rtsim.runs.progress.display_of` says."""
    display = display_of(wanted)
    if display is None:
        yield lambda *_: None
        return
    pulse, speed = Pulse(every_ns=_EVERY_NS), Speed()

    def show(tally: Tally, pool: Pool) -> None:  # noqa: ARG001
        if now := pulse.due():
            text = text_of(tally, speed.of(now, tally.new))
            display.write(text, tally.rows / max(1, tally.runs))

    try:
        yield show
    finally:
        display.close()


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
