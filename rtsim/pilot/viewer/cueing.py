"""Output warnings with stick shaker and horn, and synthesise sounds.

Sounds are computed in blocks of samples. A tone is a sum of harmonics with one phase. Noise is
low-pass filtered and shifted in frequency to the pitch. The filter therefore never changes. Within
a block, pitch and level vary linearly, so that the sound is continuous.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Protocol
from zlib import crc32

import numpy as np
from numpy.typing import NDArray
from scipy.signal import lfilter

from rtsim.pilot.cues import Cues, Shaker
from rtsim.pilot.scenes.scene import Shown, Warned
from rtsim.scenario.shown import Cue, Sound

RATE = 22050
BLOCK = 2048
_LOUD = 0.35
_PEAK = 3.0
"""Number of standard deviations of the noise that correspond to full level."""
_HIGHEST, _BAND = 0.45 * RATE, 0.05 * RATE
Wave = NDArray[np.float64]


class Synthesiser:
    """The sum of all sounds. Each call of ``block`` returns the next samples."""

    def __init__(self, sounds: Sequence[Sound]) -> None:
        self._voices = [_Voice(sound) for sound in sounds]

    def block(self, plants: Mapping[str, Shown], silent: bool = False) -> NDArray[np.int16]:
        """Return the next samples (BLOCK,) for the present states; fade out with ``silent``."""
        wave = np.zeros(BLOCK)
        for voice in self._voices:
            wave += voice.block(plants, silent)
        return np.round(32767.0 * np.clip(_LOUD * wave, -1.0, 1.0)).astype(np.int16)

    @property
    def silent(self) -> bool:
        """True if the last block ended in silence."""
        return all(voice.level == 0.0 for voice in self._voices)

    def restart(self) -> None:
        """Begin the next block in silence."""
        for voice in self._voices:
            voice.level = 0.0


class _Voice:
    def __init__(self, sound: Sound) -> None:
        self.level = 0.0
        self._sound = sound
        self._plant, _, self._signal = sound.signal.partition(".")
        self._pitch = sound.pitch[0][1]
        self._phase = 0.0
        self._total = sum(sound.harmonics)
        self._keeps = math.exp(-math.pi * sound.width / RATE)
        """Pole of both low-pass filters. The bandwidth counts both sides of the pitch."""
        self._memory: Wave = np.zeros((2, 2))
        self._random = np.random.default_rng(crc32(sound.name.encode()))

    def block(self, plants: Mapping[str, Shown], silent: bool) -> Wave:
        shown = plants.get(self._plant)
        value = math.nan if silent or shown is None else shown[self._signal]
        pitch, level = self._pitch, 0.0
        if math.isfinite(value):
            pitch, level = _at(self._sound.pitch, value), _at(self._sound.level, value)
        ramp = np.arange(1, BLOCK + 1) / BLOCK
        pitches = self._pitch + ramp * (pitch - self._pitch)
        levels = self.level + ramp * (level - self.level)
        phases = self._phase + np.cumsum(2.0 * math.pi * pitches / RATE)
        self._pitch, self.level = pitch, level
        self._phase = float(phases[-1]) % (2.0 * math.pi)
        wave = self._noise(phases) if self._sound.width else self._tone(phases, pitches)
        return np.asarray(levels * wave, dtype=np.float64)

    def _tone(self, phases: Wave, pitches: Wave) -> Wave:
        wave = np.zeros(BLOCK)
        for k, amplitude in enumerate(self._sound.harmonics, start=1):
            heard = np.clip((_HIGHEST - k * pitches) / _BAND, 0.0, 1.0)
            wave += amplitude / self._total * heard * np.sin(k * phases)
        return wave

    def _noise(self, phases: Wave) -> Wave:
        a = self._keeps
        parts = self._random.standard_normal((2, BLOCK))
        low, self._memory = lfilter(
            [(1.0 - a) ** 2], [1.0, -2.0 * a, a * a], parts, zi=self._memory
        )
        deviation = math.sqrt((1.0 - a) ** 4 * (1.0 + a * a) / (1.0 - a * a) ** 3)
        moved = low[0] * np.cos(phases) - low[1] * np.sin(phases)
        return np.asarray(moved / (_PEAK * deviation), dtype=np.float64)


def _at(points: Sequence[tuple[float, float]], value: float) -> float:
    across, up = zip(*points, strict=True)
    return float(np.interp(value, across, up))


# The stream to the mixer, which receives a block whenever it has room for one.

_MOST_AT_ONCE = 2


class Heard(Protocol):
    """Interface of a stream (:class:`rtsim.pilot.devices.horn.Stream`)."""

    @property
    def dry(self) -> bool: ...
    @property
    def wants(self) -> bool: ...
    def feed(self, block: NDArray[np.int16]) -> None: ...
    def close(self) -> None: ...


class Sounding:
    """The sounds of a window; call :meth:`follow` in every frame.

    ``news`` contains messages for the window. The reader clears the list.
    """

    def __init__(self, sounds: Sequence[Sound] = ()) -> None:
        self.news: list[str] = []
        self._synthesiser = Synthesiser(sounds)
        self._stream = self._opened() if sounds else None

    def follow(self, plants: Mapping[str, Shown], standing: bool) -> None:
        """Continue the sounds for the states ``plants``. A paused run becomes silent."""
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
        from rtsim.pilot.devices.horn import NoSound, Stream

        try:
            return Stream()
        except NoSound as error:
            self.news.append(f"no sound: {error}")
            return None


# Output of cues to horn and stick shaker.


class Hooting(Protocol):
    """Interface of a horn (:class:`rtsim.pilot.devices.horn.Horn`)."""

    def sound(self, on: bool) -> None: ...
    def close(self) -> None: ...


Rumble = Callable[[float, float, int, AbstractSet[int]], object]


class Cueing:
    """Shake the stick and sound the horn; call ``follow`` in each frame.

    With ``shakes=False`` or ``sounds=False``, the stick shaker or the horn is off. ``news``
    contains messages for the window. The reader clears the list.
    """

    def __init__(
        self,
        cues: Iterable[Cue],
        *,
        shakes: bool = True,
        sounds: bool = True,
        sounding: Sounding | None = None,
    ) -> None:
        self._sounding = sounding or Sounding()
        self.news: list[str] = list(self._sounding.news)
        known = tuple(cues)
        self._cues, self._shaker, self._shakes = Cues(known), Shaker(), shakes
        self._horn: Hooting | None = None
        self._shaken: AbstractSet[int] = frozenset()
        if sounds and any(cue.horn is not None for cue in known):
            self._horn = self._opened()

    def follow(
        self,
        plants: Mapping[str, Shown],
        standing: bool,
        rumble: Rumble,
        flying: AbstractSet[int],
        ns: int,
    ) -> tuple[Warned, ...]:
        """Output all active cues and return them.

        ``flying`` contains the instance ids of the devices to shake. ``ns`` is the time of any
        clock. While the run is paused (``standing``), all outputs are off.
        """
        warned = self._cues.look(plants)
        self._sounding.follow(plants, standing)
        strength = 0.0 if standing else max((w.shaker for w in warned), default=0.0)
        pulse = self._shaker.due(strength, ns) if self._shakes else None
        if pulse is not None:
            if pulse.milliseconds:
                self._shaken = flying
            rumble(pulse.low, pulse.high, pulse.milliseconds, self._shaken)
        if self._horn is not None:
            self._horn.sound(not standing and any(w.horn for w in warned))
        return warned

    def close(self, rumble: Rumble) -> None:
        """Stop the shaker, and close the horn and the sounds."""
        pulse = self._shaker.due(0.0, 0)
        if pulse is not None:
            rumble(0.0, 0.0, 0, self._shaken)
        if self._horn is not None:
            self._horn.close()
        self._sounding.close()

    def _opened(self) -> Hooting | None:
        from rtsim.pilot.devices.horn import Horn, NoSound

        try:
            return Horn()
        except NoSound as error:
            reason = f"no sound: {error}"
            if reason not in self.news:  # the scenario's sounds use the same device
                self.news.append(reason)
            return None
