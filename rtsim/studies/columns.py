"""The column of a signal in the rows of a run."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rtsim.core.errors import ScenarioError, UnknownName
from rtsim.core.signals import Vector
from rtsim.record.schema import TrackSpec

_MESSAGES = "messages/"
"""The outputs of a controller are recorded as messages; a signal may leave this prefix out."""


def is_held(spec: TrackSpec) -> bool:
    """Return whether the values of a track hold until its next row, as those of messages do."""
    return spec.name.startswith(_MESSAGES)


class Column:
    """Where the values of ``signal`` (``"component.name"``) are in the rows of its track."""

    def __init__(self, signal: str) -> None:
        """Raise :class:`ScenarioError` if ``signal`` names no component."""
        self.track, dot, self.name = signal.rpartition(".")
        if not dot:
            raise ScenarioError(
                f"{signal!r} is not a signal of a component; write COMPONENT.SIGNAL"
            )
        self.tracks = (self.track, f"{_MESSAGES}{self.track}")
        """The tracks that may have the signal."""
        self._at = -1

    def of(self, spec: TrackSpec, words: NDArray[np.int64]) -> Vector:
        """Return the values (n,) in the rows ``words`` (n, width).

        Raises :class:`UnknownName` if the track has no such signal.
        """
        if self._at < 0:
            columns = spec.signals.columns
            if self.name not in columns:
                raise UnknownName("signal", self.name, columns, f"track {self.track}")
            self._at = 1 + len(spec.integers) + columns.index(self.name)
        return words[:, self._at].view(np.float64)
