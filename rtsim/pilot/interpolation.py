"""Interpolate between two states of a plant, to draw the plant at any time.

The kind of a signal, which the model declares, selects the method:

- a quaternion: slerp;
- an angle: linear, in the shorter direction;
- a quantity whose derivative is also a signal: cubic Hermite polynomial;
- any other signal: linear.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rtsim.core.signals import Signal, Signals, Vector
from rtsim.core.tag import NS_PER_S
from rtsim.pilot.shared import Record

_NEARLY_ALIGNED = 1.0 - 1e-9
"""Above this cosine between two quaternions, slerp divides by a sine so small that digits are lost.
"""

Indices = NDArray[np.intp]


@dataclass(frozen=True)
class StatePair:
    """The states of a plant at the beginning and the end of a step.

    ``last_ns`` and ``next_ns`` are simulated times, ns. ``last_wall`` and ``next_wall`` are the
    wall-clock times (ns) of both states.
    """

    last_ns: int
    next_ns: int
    last_wall: int
    next_wall: int
    withdrawn: bool
    """True if the next state became invalid; another pair will follow."""
    last: Vector
    next: Vector

    @classmethod
    def of(cls, record: Record) -> StatePair:
        """Return the states at both ends of a step from the record of a plant."""
        last_ns, next_ns, last_wall, next_wall, withdrawn = map(int, record.integers[:5])
        half = record.floats.size // 2
        ends = record.floats[:half], record.floats[half:]
        return cls(last_ns, next_ns, last_wall, next_wall, bool(withdrawn), *ends)

    @property
    def span(self) -> float:
        """Simulated time between the two states, s."""
        return (self.next_ns - self.last_ns) / NS_PER_S

    def fraction(self, wall: int, ahead: int = 0) -> float:
        """Return the fraction of the step that has passed at the wall-clock time ``wall`` (ns).

        After the step, the fraction exceeds 1 for at most ``ahead`` ns. If the next state has
        become invalid, the fraction is at most 1.
        """
        length = self.next_wall - self.last_wall
        if length <= 0:
            return 1.0
        limit = self.next_wall + (0 if self.withdrawn else min(ahead, length))
        return max(0, min(wall, limit) - self.last_wall) / length

    def ns(self, fraction: float) -> int:
        """Return the simulated time at ``fraction`` (0 to 1) of the step, ns."""
        return self.last_ns + round(fraction * (self.next_ns - self.last_ns))


class Interpolation:
    """Interpolate the states of one plant."""

    def __init__(self, signals: Signals) -> None:
        self.signals = signals
        self._quaternions = [signals.slice(s.name) for s in signals if s.kind == "quaternion"]
        self._angles, self._half_turns = _angles(signals)
        self._curved, self._slopes = _curved(signals)

    def at(self, pair: StatePair, fraction: float) -> Vector:
        """Return the state vector (n,) at a fraction of the step, from 0 to 1.

        For a fraction above 1, the state is extrapolated.
        """
        if fraction <= 0.0:
            return pair.last.copy()
        if fraction == 1.0:
            return pair.next.copy()
        last, next_ = pair.last, pair.next
        step = next_ - last
        if self._angles.size:
            half = self._half_turns
            turn = step[self._angles]
            step[self._angles] = turn - 2.0 * half * np.floor(turn / (2.0 * half) + 0.5)
        out = last + fraction * step
        if self._curved.size and pair.span > 0.0:
            out[self._curved] = self._hermite(pair, fraction, step[self._curved])
        if self._angles.size:
            turned = out[self._angles]
            out[self._angles] = turned - 2.0 * half * np.floor(turned / (2.0 * half) + 0.5)
        for where in self._quaternions:
            out[where] = slerp(last[where], next_[where], fraction)
        return out

    def slope(self, pair: StatePair) -> Vector:
        """Return the mean rates of change (n,) during the step, per simulated second.

        The rates of quaternion elements have no meaning.
        """
        return (pair.next - pair.last) / pair.span if pair.span > 0.0 else np.zeros_like(pair.last)

    def _hermite(self, pair: StatePair, f: float, step: Vector) -> Vector:
        start = pair.last[self._curved]
        before, after = pair.span * pair.last[self._slopes], pair.span * pair.next[self._slopes]
        if f > 1.0:
            return start + step + (f - 1.0) * after
        rest = 1.0 - f
        out: Vector = start + f * f * (3.0 - 2.0 * f) * step
        out += f * rest * (rest * before - f * after)
        return out


def slerp(q: Vector, r: Vector, fraction: float) -> Vector:
    """Return the unit quaternion (4,) at ``fraction`` of the shorter rotation from ``q`` to ``r``.

    Source: Shoemake, "Animating rotation with quaternion curves", SIGGRAPH 1985.
    """
    cosine = float(q @ r)
    if cosine < 0.0:
        r, cosine = -r, -cosine
    if cosine > _NEARLY_ALIGNED:
        out = q + fraction * (r - q)
    else:
        angle = math.acos(cosine)
        out = (math.sin((1.0 - fraction) * angle) * q + math.sin(fraction * angle) * r) / math.sin(
            angle
        )
    length = float(np.sqrt(out @ out))
    return out / length if length > 0.0 else out


def _angles(signals: Signals) -> tuple[Indices, Vector]:
    found: list[int] = []
    half: list[float] = []
    for signal in signals:
        if signal.kind == "angle":
            where = range(signals.size)[signals.slice(signal.name)]
            found += where
            half += [180.0 if signal.unit == "deg" else math.pi] * len(where)
    return np.array(found, dtype=np.intp), np.array(half)


def _curved(signals: Signals) -> tuple[Indices, Indices]:
    values: list[int] = []
    slopes: list[int] = []
    for signal in signals:
        if _is_slope(signal, signals):
            values += range(signals.size)[signals.slice(signal.derivative_of)]
            slopes += range(signals.size)[signals.slice(signal.name)]
    return np.array(values, dtype=np.intp), np.array(slopes, dtype=np.intp)


def _is_slope(signal: Signal, signals: Signals) -> bool:
    if signal.derivative_of not in signals:
        return False
    of = signals[signal.derivative_of]
    return of.shape == signal.shape and of.kind != "quaternion"
