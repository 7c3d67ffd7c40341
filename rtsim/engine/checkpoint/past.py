"""The checkpoints to which a run in progress can go back."""

from __future__ import annotations

from rtsim.core.errors import ScenarioError
from rtsim.core.tag import NS_PER_S, Duration, to_ns
from rtsim.engine.checkpoint.file import Checkpoint
from rtsim.engine.checkpoint.kept import Files, Ring

_KEPT = 100
_SHORTEST_NS = NS_PER_S // 10
"""Most checkpoints in a ring, and the shortest interval between two of them."""


class CheckpointHistory:
    """Checkpoints of all segments of a run; each time the run goes back, a segment begins.

    ``seconds``: span of a ring in memory.  ``start``: the checkpoint from which the first segment
    continued.  ``first``: also keep the initial state.  ``if_savable``: keep nothing if a component
    cannot be saved.
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
        """Whether the initial state is still to be kept."""
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
        """Add the files of the segment that begins."""
        self._files.append(files)

    def begin(self, ns: int) -> None:
        """Begin a segment at ``ns``; later checkpoints are forgotten."""
        if self.ring is not None:
            self.ring.forget_after(ns)
        for files in self._files:
            files.forget_after(ns)

    def keep(self, checkpoint: Checkpoint) -> None:
        """Add ``checkpoint`` to the ring, if there is one."""
        if self.lacks_first:
            self._start, self.lacks_first = checkpoint, False
        if self.ring is not None:
            self.ring.keep(checkpoint)

    def before(self, ns: int) -> Checkpoint | None:
        """Return the latest checkpoint at or before ``ns``; ``None`` if there is none.

        Raises :class:`CheckpointError` if its file cannot be read.
        """
        held = None if self.ring is None else self.ring.before(ns)
        found = [c for c in (held, self._start) if c is not None and c.ns <= ns]
        latest = max(found, key=lambda c: c.ns, default=None)
        for files in self._files:
            least = -1 if latest is None else latest.ns
            latest = files.between(least, ns) or latest
        return latest
