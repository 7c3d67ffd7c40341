"""Where the checkpoints of a run are kept: in memory, or in files beside its recording."""

from __future__ import annotations

from collections import deque
from pathlib import Path

from rtsim.core.tag import NS_PER_S, Duration, to_ns
from rtsim.engine.checkpoint.file import SUFFIX, Checkpoint

MOST_FILES = 100_000
"""Checkpoints that one run may write."""


class Ring:
    """The last ``seconds`` of a run, in memory: where a pilot or a debugger can go back to."""

    most = None

    def __init__(self, seconds: Duration) -> None:
        self._span_ns = to_ns(seconds, "span of a ring")
        self._kept: deque[Checkpoint] = deque()

    def keep(self, checkpoint: Checkpoint) -> None:
        kept = self._kept
        while kept and kept[-1].ns >= checkpoint.ns:  # the run went back, and on from there
            kept.pop()
        kept.append(checkpoint)
        while len(kept) > 1 and kept[1].ns <= checkpoint.ns - self._span_ns:
            kept.popleft()

    def finish(self) -> None:
        """It stays as it is."""

    def forget_after(self, ns: int) -> None:
        """The run went back to ``ns``: what came later is of another."""
        while self._kept and self._kept[-1].ns > ns:
            self._kept.pop()

    def __len__(self) -> int:
        return len(self._kept)

    def before(self, ns: int) -> Checkpoint | None:
        """The latest that is not after ``ns``; ``None`` where that is too long ago."""
        return next((c for c in reversed(self._kept) if c.ns <= ns), None)


class Files:
    """One file for each, beside the recording: ``run.mcap``, ``run@12.340.checkpoint``.

    Written where :meth:`finish` says that there is time.  ``start`` is what the run went on from:
    its recording names that one by its bits, so that another of the same tag never takes its place.
    """

    most = MOST_FILES

    def __init__(self, recording: Path, start: Checkpoint | None = None) -> None:
        self._start = None if start is None else Path(start.source).resolve()
        self.paths: list[Path] = []
        self._recording = recording
        self._waiting: list[Checkpoint] = []
        self._written: list[tuple[int, Path]] = []

    def keep(self, checkpoint: Checkpoint) -> None:
        self._waiting.append(checkpoint)

    def finish(self) -> None:
        """Write those that wait."""
        waiting, self._waiting = self._waiting, []
        for checkpoint in waiting:
            path = path_beside(self._recording, checkpoint.ns)
            if path.resolve() != self._start:
                self.paths.append(checkpoint.save(path))
            self._written.append((checkpoint.ns, path))

    def forget_after(self, ns: int) -> None:
        """The run went back to ``ns``: what came later is of another, though its files stay."""
        self._written = [(at, path) for at, path in self._written if at <= ns]

    def between(self, after: int, ns: int) -> Checkpoint | None:
        """The latest behind ``after`` that is not after ``ns``; ``None`` where there is none."""
        held = max((c for c in self._waiting if after < c.ns <= ns), key=_at, default=None)
        on_file = max((w for w in self._written if after < w[0] <= ns), default=None)
        if on_file is None or (held is not None and held.ns >= on_file[0]):
            return held
        return Checkpoint.open(on_file[1])


def _at(checkpoint: Checkpoint) -> int:
    return checkpoint.ns


def path_beside(recording: Path, ns: int) -> Path:
    """Where a checkpoint of the run that is recorded there lies."""
    decimals = f"{ns % NS_PER_S:09d}".rstrip("0").ljust(3, "0")
    return recording.with_name(f"{recording.stem}@{ns // NS_PER_S}.{decimals}{SUFFIX}")


def beside(recording: Path) -> list[Path]:
    """All that lie there, in no order."""
    start = f"{recording.stem}@"
    folder = recording.parent
    if not folder.is_dir():
        return []
    return [p for p in folder.iterdir() if p.name.startswith(start) and p.suffix == SUFFIX]
