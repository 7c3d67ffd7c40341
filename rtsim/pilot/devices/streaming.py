"""Plays blocks of samples one after the other through SDL's mixer, without gaps."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rtsim.pilot.devices.horn import open_mixer


class Stream:
    """A channel of the mixer that plays block after block.

    Raises :class:`rtsim.pilot.devices.horn.NoSound` if no sound device can be opened.
    """

    def __init__(self) -> None:
        self._mixer = open_mixer()
        self._mixer.set_reserved(1)  # the horn takes one of the other channels
        self._channel = self._mixer.Channel(0)

    @property
    def dry(self) -> bool:
        """True if nothing is playing, so that the next block begins after silence."""
        return not self._channel.get_busy()

    @property
    def wants(self) -> bool:
        """True if the stream takes another block now; it plays one, and one waits."""
        return self.dry or self._channel.get_queue() is None

    def feed(self, block: NDArray[np.int16]) -> None:
        sound = self._mixer.Sound(buffer=block.tobytes())
        if self.dry:
            self._channel.play(sound)
        else:
            self._channel.queue(sound)

    def close(self) -> None:
        self._mixer.quit()
