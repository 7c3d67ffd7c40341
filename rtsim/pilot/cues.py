"""Warnings to the pilot, computed from the states that are shown; without SDL, clock or sound.

The scenario declares the signal of each warning (:class:`rtsim.scenario.shown.Cue`). Warnings are
never inputs: a run with cues has the same results as a run without cues.
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
"""Duration of one pulse; a shaker alternates strong and weak pulses, 8 pairs per second."""
_PULSE_MS = 150
"""Time after which a device stops shaking if no new command arrives, ms."""
_LEAST = 0.35
"""The least strength of a shaker; nobody can feel a weaker one."""
_WEAK = 0.3


class Cues:
    """Finds the cues that are on, for a sequence of samples."""

    def __init__(self, cues: Iterable[Cue]) -> None:
        self._states = [_State(cue) for cue in cues]

    def look(self, plants: Mapping[str, Shown]) -> tuple[Warned, ...]:
        found = (state.look(plants) for state in self._states)
        return tuple(warned for warned in found if warned is not None)


class _State:
    """A cue with its state: whether shaker and horn were on in the last sample."""

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
        """Return whether ``value`` is beyond ``limit``, with hysteresis; false for NaN."""
        beyond = self._way * (value - limit)
        return math.isfinite(value) and beyond > (-self._cue.band if before else 0.0)


@dataclass(frozen=True)
class Pulse:
    """A command to shake: strengths of the heavy (``low``) and light (``high``) motor, 0 to 1."""

    low: float
    high: float
    milliseconds: int


class Shaker:
    """Decides when and how to shake a device.

    A pulse is returned only if a command is due, because each command can take a millisecond.
    """

    def __init__(self) -> None:
        self._next_ns: int | None = None
        self._strong = True

    def due(self, strength: float, ns: int) -> Pulse | None:
        """Return the command due at ``ns`` for ``strength`` 0 to 1, or ``None`` if none is due.

        ``ns`` is a time of any clock.
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
    """Return ``items``; raises an error if the signal of one is unknown or not a scalar."""
    out = tuple(items)
    for item in out:
        item.check(plants)
    return out
