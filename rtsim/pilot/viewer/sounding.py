"""Lets the sounds of a scenario be heard: gives the mixer a block whenever it wants one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from rtsim.pilot.scenes.scene import Shown
from rtsim.pilot.synthesis import Synthesiser
from rtsim.scenario.sounds import Sound

_MOST_AT_ONCE = 2


class Heard(Protocol):
    """The interface of a stream, :class:`rtsim.pilot.devices.streaming.Stream`."""

    @property
    def dry(self) -> bool: ...
    @property
    def wants(self) -> bool: ...
    def feed(self, block: NDArray[np.int16]) -> None: ...
    def close(self) -> None: ...


class Sounding:
    """The sounds of a window; call :meth:`follow` in every frame.

    ``news`` are messages for the window; the reader clears the list.
    """

    def __init__(self, sounds: Sequence[Sound] = ()) -> None:
        self.news: list[str] = []
        self._synthesiser = Synthesiser(sounds)
        self._stream = self._opened() if sounds else None

    def follow(self, plants: Mapping[str, Shown], standing: bool) -> None:
        """Play on, with the sounds of the states ``plants``; a paused run becomes silent."""
        stream = self._stream
        if stream is None:
            return
        if stream.dry:
            self._synthesiser.restart()
        for _ in range(_MOST_AT_ONCE):
            if not stream.wants or (standing and self._synthesiser.silent):
                return
            stream.feed(self._synthesiser.block(plants, silent=standing))

    def close(self) -> None:
        if self._stream is not None:
            self._stream.close()

    def _opened(self) -> Heard | None:
        from rtsim.pilot.devices.horn import NoSound
        from rtsim.pilot.devices.streaming import Stream

        try:
            return Stream()
        except NoSound as error:
            self.news.append(f"no sound: {error}")
            return None
