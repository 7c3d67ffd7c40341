"""Shakes the stick and sounds the horn for cues, and lets the sounds of the scenario be heard."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from typing import Protocol

from rtsim.pilot.cues import Cues, Shaker
from rtsim.pilot.scenes.scene import Shown, Warned
from rtsim.pilot.sounds import Sounding
from rtsim.scenario.shown import Cue


class Hooting(Protocol):
    """The interface of a horn, :class:`rtsim.pilot.devices.horn.Horn`."""

    def sound(self, on: bool) -> None: ...
    def close(self) -> None: ...


Rumble = Callable[[float, float, int, AbstractSet[int]], object]
"""The type of :meth:`rtsim.pilot.devices.sdl.Devices.rumble`."""


class Cueing:
    """Shakes the stick and sounds the horn; call :meth:`follow` in every frame.

    If ``shakes`` and ``sounds`` are false, :meth:`follow` only returns the cues. ``news`` are
    messages for the window; the reader clears the list.
    """

    def __init__(
        self,
        cues: Iterable[Cue],
        *,
        shakes: bool = True,
        sounds: bool = True,
        sounding: Sounding | None = None,
    ) -> None:
        """``sounding`` plays the sounds of the scenario, which need no cue."""
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
        """Signal the cues that are on, and return them.

        ``flying`` has the instance ids of the devices to shake; ``ns`` is a time of any clock.
        While the run is paused (``standing``), nothing shakes or sounds.
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
            told = f"no sound: {error}"
            if told not in self.news:  # the sounds of the run have the same device
                self.news.append(told)
            return None
