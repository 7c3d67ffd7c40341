"""The checkpoints to which a run in progress can go back."""

from __future__ import annotations

from rtsim.core.errors import ScenarioError
from rtsim.core.tag import NS_PER_S, Duration, to_ns
from rtsim.engine.checkpoint.file import Checkpoint
from rtsim.engine.checkpoint.kept import Files, Ring

_KEPT = 100
_SHORTEST_NS = NS_PER_S // 10
"""The most checkpoints in a ring, and the shortest interval between two checkpoints, ns."""


class CheckpointHistory:
    """The checkpoints of all segments of a run; a new segment begins when the run goes back.

    ``seconds``: time span of a ring in memory. ``start``: the checkpoint from which the first
    segment continued. ``first``: also keep the initial state. ``if_savable``: keep nothing if the
    state of a component cannot be saved.
    """

    def __init__(
        self,
        seconds: Duration | None = None,
        start: Checkpoint | None = None,
        *,
        first: bool = False,
        if_savable: bool = False,
    ) -> None:
        self.if_savable = if_savable
        self.lacks_first = first and start is None
        """True if the initial state is wanted and has not been kept yet."""
        self.ring = None if seconds is None else Ring(seconds)
        self.every_ns: int | None = None
        """Interval between two checkpoints in the ring, ns."""
        if seconds is not None:
            span_ns = to_ns(seconds, "span of a ring")
            if span_ns <= 0:
                raise ScenarioError(f"rewind span {seconds} s must be > 0")
            self.every_ns = max(span_ns // _KEPT, _SHORTEST_NS)
        self._files: list[Files] = []
        self._start = start

    def add(self, files: Files) -> None:
        """Add the checkpoint files of the segment that begins."""
        self._files.append(files)

    def begin(self, ns: int) -> None:
        """Begin a segment at ``ns``; forget the checkpoints after ``ns``."""
        if self.ring is not None:
            self.ring.forget_after(ns)
        for files in self._files:
            files.forget_after(ns)

    def keep(self, checkpoint: Checkpoint) -> None:
        """Add ``checkpoint`` to the ring, if the run has a ring."""
        if self.lacks_first:
            self._start, self.lacks_first = checkpoint, False
        if self.ring is not None:
            self.ring.keep(checkpoint)

    def before(self, ns: int) -> Checkpoint | None:
        """Return the latest checkpoint at or before ``ns``, or ``None``.

        Raises :class:`CheckpointError` if a checkpoint file cannot be read.
        """
        held = None if self.ring is None else self.ring.before(ns)
        found = [c for c in (held, self._start) if c is not None and c.ns <= ns]
        latest = max(found, key=lambda c: c.ns, default=None)
        for files in self._files:
            least = -1 if latest is None else latest.ns
            latest = files.between(least, ns) or latest
        return latest
