"""Warnings to the pilot: stick shaker, horn and text.

A scenario declares the signal of each warning (``rtsim.scenario.shown.Cue``). A warning has no
effect on the simulation. This module uses no SDL, clock or sound.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from rtsim.core.signals import Signals
from rtsim.pilot.scenes.scene import Shown, Warned
from rtsim.scenario.shown import Cue, Sound

S = TypeVar("S", Cue, Sound)
PULSE_NS = 60_000_000
"""Duration of one pulse, ns. A shaker alternates strong and weak pulses, 8 pairs per second."""
_PULSE_MS = 150
"""A device stops shaking if no new command arrives within this time, ms."""
_LEAST = 0.35
"""Lowest strength of a shaker. A weaker one cannot be felt."""
_WEAK = 0.3


class Cues:
    """Determine which warnings are active in a sample."""

    def __init__(self, cues: Iterable[Cue]) -> None:
        self._states = [_State(cue) for cue in cues]

    def look(self, plants: Mapping[str, Shown]) -> tuple[Warned, ...]:
        found = (state.look(plants) for state in self._states)
        return tuple(warned for warned in found if warned is not None)


class _State:
    def __init__(self, cue: Cue) -> None:
        self._cue = cue
        self._plant, _, self._signal = cue.signal.partition(".")
        self._way = -1.0 if cue.below else 1.0
        self._shakes = self._sounds = False

    def look(self, plants: Mapping[str, Shown]) -> Warned | None:
        shown, cue = plants.get(self._plant), self._cue
        if shown is None:
            return None
        value = shown[self._signal]
        strength = 0.0
        if cue.shaker is not None:
            begins, fully = cue.shaker
            self._shakes = self._past(value, begins, self._shakes)
            if self._shakes:
                share = (value - begins) / (fully - begins) if fully != begins else 1.0
                strength = _LEAST + (1.0 - _LEAST) * max(0.0, min(1.0, share))
        if cue.horn is not None:
            self._sounds = self._past(value, cue.horn, self._sounds)
        if not (self._shakes or self._sounds):
            return None
        return Warned(cue.text or cue.name.upper(), cue.signal, strength, self._sounds)

    def _past(self, value: float, limit: float, before: bool) -> bool:
        beyond = self._way * (value - limit)
        return math.isfinite(value) and beyond > (-self._cue.band if before else 0.0)


@dataclass(frozen=True)
class Pulse:
    """A command to a shaker, with the strengths (0 to 1) of its two motors.

    ``low`` is the heavy motor and ``high`` the light one.
    """

    low: float
    high: float
    milliseconds: int


class Shaker:
    """Determine when and how strongly a device shakes.

    A command can take a millisecond, so ``due`` returns only necessary commands.
    """

    def __init__(self) -> None:
        self._next_ns: int | None = None
        self._strong = True

    def due(self, strength: float, ns: int) -> Pulse | None:
        """Return the command to send now, or ``None``.

        ``strength`` is from 0 to 1. ``ns`` is the present time (ns) of any clock.
        """
        if strength <= 0.0:
            if self._next_ns is None:
                return None
            self._next_ns, self._strong = None, True
            return Pulse(0.0, 0.0, 0)
        if self._next_ns is not None and ns < self._next_ns:
            return None
        self._next_ns = ns + PULSE_NS
        low = strength if self._strong else _WEAK * strength
        self._strong = not self._strong
        return Pulse(low, 0.5 * low, _PULSE_MS)


def checked_signals(items: Iterable[S], plants: Mapping[str, Signals]) -> tuple[S, ...]:
    """Return ``items``; raise an error if a signal is unknown or not a scalar."""
    out = tuple(items)
    for item in out:
        item.check(plants)
    return out
