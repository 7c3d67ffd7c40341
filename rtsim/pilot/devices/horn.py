"""Sounds through SDL: a horn that repeats without a gap, and a stream of samples."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

import numpy as np
import pygame
from numpy.typing import NDArray

os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "1")

RATE = 22050
PITCH_HZ, BEAT_HZ = 420, 5
_HARMONICS = ((1, 1.0), (2, 0.5), (3, 0.6), (4, 0.25), (5, 0.35), (7, 0.15))
_LOUD = 0.35
_EDGE_S = 0.008
_BUFFER = 512
"""Size of the sound buffer, samples. The buffer delays the horn by 23 ms."""
_FADE_MS = 30


class NoSound(Exception):
    """SDL can open no sound device. The message is the reason."""


def tone() -> NDArray[np.int16]:
    """Return samples (RATE,) of one second of the horn's sound.

    The samples can be repeated without a gap.
    """
    t = np.arange(RATE) / RATE
    wave = np.zeros(RATE)
    for number, share in _HARMONICS:
        wave += share * np.sin(2.0 * np.pi * number * PITCH_HZ * t)
    phase = (t * BEAT_HZ) % 1.0
    edge = _EDGE_S * BEAT_HZ
    gate = np.clip(np.minimum(phase, 0.7 - phase) / edge, 0.0, 1.0)  # a soft start prevents a click
    wave *= gate / np.abs(wave).max()
    return np.round(_LOUD * 32767.0 * wave).astype(np.int16)


def open_mixer() -> Any:
    """Open SDL's mixer and return its module; raise ``NoSound`` on failure."""
    try:
        # Use import_module: if a system library is missing, pygame.mixer is a stand-in that warns.
        mixer = import_module("pygame.mixer")
        with _without_error_output():
            mixer.init(RATE, -16, 1, _BUFFER, allowedchanges=0)
    except (pygame.error, NotImplementedError, ImportError) as error:
        raise NoSound(" ".join(str(error).split())) from error
    return mixer


class Horn:
    """The horn. Opening a sound device takes time, so create the horn before the run.

    Raises :class:`NoSound` if no sound device can be opened.
    """

    def __init__(self) -> None:
        self.sounds = False
        self._mixer = open_mixer()
        self._sound = self._mixer.Sound(buffer=tone().tobytes())

    def sound(self, on: bool) -> None:
        """Start or stop the horn. Repeated calls have no effect."""
        if on == self.sounds:
            return
        self.sounds = on
        if on:
            self._sound.play(loops=-1, fade_ms=_FADE_MS)
        else:
            self._sound.fadeout(_FADE_MS)

    def close(self) -> None:
        self._mixer.quit()


@contextmanager
def _without_error_output() -> Iterator[None]:
    kept = os.dup(2)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)


class Stream:
    """A channel of the mixer that plays blocks of samples one after another.

    Raises :class:`NoSound` if no sound device can be opened.
    """

    def __init__(self) -> None:
        self._mixer = open_mixer()
        self._mixer.set_reserved(1)  # the horn uses one of the other channels
        self._channel = self._mixer.Channel(0)

    @property
    def dry(self) -> bool:
        return not self._channel.get_busy()

    @property
    def wants(self) -> bool:
        """True if ``feed`` can accept another block of samples."""
        return self.dry or self._channel.get_queue() is None

    def feed(self, block: NDArray[np.int16]) -> None:
        sound = self._mixer.Sound(buffer=block.tobytes())
        if self.dry:
            self._channel.play(sound)
        else:
            self._channel.queue(sound)

    def close(self) -> None:
        self._mixer.quit()
