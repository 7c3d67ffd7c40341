"""Keep the checkpoints of a run in memory, or in files next to its recording."""

from __future__ import annotations

from collections import deque
from pathlib import Path

from rtsim.core.tag import NS_PER_S, Duration, to_ns
from rtsim.engine.checkpoint.file import SUFFIX, Checkpoint

MOST_FILES = 100_000
"""The largest number of checkpoint files that one run can write."""


class Ring:
    """A ring in memory with the checkpoints of the last ``seconds`` of a run."""

    most = None

    def __init__(self, seconds: Duration) -> None:
        self._span_ns = to_ns(seconds, "span of a ring")
        self._kept: deque[Checkpoint] = deque()

    def keep(self, checkpoint: Checkpoint) -> None:
        kept = self._kept
        while kept and kept[-1].ns >= checkpoint.ns:  # the run went back past these
            kept.pop()
        kept.append(checkpoint)
        while len(kept) > 1 and kept[1].ns <= checkpoint.ns - self._span_ns:
            kept.popleft()

    def finish(self) -> None:
        """Do nothing, because a ring writes no files."""

    def forget_after(self, ns: int) -> None:
        """Remove the checkpoints after ``ns``, because the run went back to ``ns``."""
        while self._kept and self._kept[-1].ns > ns:
            self._kept.pop()

    def __len__(self) -> int:
        return len(self._kept)

    def before(self, ns: int) -> Checkpoint | None:
        """Return the latest checkpoint at or before ``ns``, or ``None``."""
        return next((c for c in reversed(self._kept) if c.ns <= ns), None)


class Files:
    """The checkpoint files of a run, next to its recording, such as ``run@12.340.checkpoint``.

    :meth:`finish` writes the files.  ``start`` is the checkpoint from which the run continued.  Its
    file is never replaced, because the recording refers to it by its SHA-256.
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
        """Write the files of all kept checkpoints."""
        waiting, self._waiting = self._waiting, []
        for checkpoint in waiting:
            path = path_beside(self._recording, checkpoint.ns)
            if path.resolve() != self._start:
                self.paths.append(checkpoint.save(path))
            self._written.append((checkpoint.ns, path))

    def forget_after(self, ns: int) -> None:
        """Forget the checkpoints after ``ns``, to which the run went back; keep their files."""
        self._written = [(at, path) for at, path in self._written if at <= ns]

    def between(self, after: int, ns: int) -> Checkpoint | None:
        """Return the latest checkpoint in the interval ``after < t <= ns``, or ``None``."""
        held = max((c for c in self._waiting if after < c.ns <= ns), key=_at, default=None)
        on_file = max((w for w in self._written if after < w[0] <= ns), default=None)
        if on_file is None or (held is not None and held.ns >= on_file[0]):
            return held
        return Checkpoint.open(on_file[1])


def _at(checkpoint: Checkpoint) -> int:
    return checkpoint.ns


def path_beside(recording: Path, ns: int) -> Path:
    """Return the path of the checkpoint at ``ns`` of the run in the file ``recording``."""
    decimals = f"{ns % NS_PER_S:09d}".rstrip("0").ljust(3, "0")
    return recording.with_name(f"{recording.stem}@{ns // NS_PER_S}.{decimals}{SUFFIX}")


def beside(recording: Path) -> list[Path]:
    """Return the checkpoint files next to ``recording``, unsorted."""
    start = f"{recording.stem}@"
    folder = recording.parent
    if not folder.is_dir():
        return []
    return [p for p in folder.iterdir() if p.name.startswith(start) and p.suffix == SUFFIX]
