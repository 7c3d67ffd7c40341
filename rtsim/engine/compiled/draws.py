"""Random numbers that a stretch may need, drawn before it by those who draw them otherwise.

The numbers come from the same streams in the same order, so a run is the same bit for bit.  What
the stretch did not use is given back: the stream goes back and draws again what was used.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rtsim.components.latency import LatencyModel, draw
from rtsim.core.random_streams import RandomStreams
from rtsim.engine.compiled.layout import LOST

Make = Callable[[np.random.Generator, int], NDArray[Any]]


class Draws:
    """Random numbers of one stream, drawn ahead; each use takes ``width`` numbers."""

    def __init__(self, streams: RandomStreams, stream: str, make: Make, width: int = 1) -> None:
        self._streams, self._stream, self._make = streams, stream, make
        self.width = width
        self.values: NDArray[Any] = np.zeros(0)
        """Those that were drawn ahead, in one dimension."""
        self._before: Any = None

    def fill(self, count: int) -> None:
        """Draw the numbers for ``count`` uses."""
        generator = self._streams.stream(self._stream)
        self._before = generator.bit_generator.state
        self.values = np.ascontiguousarray(self._make(generator, count)).reshape(-1)
        self._whole = self.values.size == count * self.width

    def settle(self, used: int) -> None:
        """Move the stream to the position after the numbers of the first ``used`` uses."""
        if used * self.width == self.values.size and self._whole:
            return
        generator = self._streams.stream(self._stream)
        generator.bit_generator.state = self._before
        if used:
            self._make(generator, used)


def normals(size: int) -> Make:
    """Return a function that draws rows of ``size`` numbers from N(0, 1)."""

    def make(generator: np.random.Generator, count: int) -> NDArray[np.float64]:
        return generator.standard_normal((count, size))

    return make


def delays(model: LatencyModel, streams: RandomStreams, stream: str, size: int, link: str) -> Make:
    """Return a function that draws delays in ns, and :data:`LOST` for a lost message.

    The function stops before a message with several copies and before an invalid delay; the
    interpreter then draws these delays.
    """

    def make(_: np.random.Generator, count: int) -> NDArray[np.int64]:
        found: list[int] = []
        while len(found) < count:
            try:
                drawn = draw(model, streams, stream, size, link)
            except Exception:
                break
            if len(drawn) > 1:
                break
            found.append(drawn[0] if drawn else LOST)
        return np.array(found, dtype=np.int64)

    return make
