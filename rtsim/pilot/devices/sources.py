"""Sources of a stick value (axes, keys, switches and trimmers), and the response to an axis."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np

from rtsim.core.signals import Signal
from rtsim.pilot.devices.device import Which
from rtsim.pilot.devices.switches import Switch, Trimmer

GAMEPAD_AXES = ("leftx", "lefty", "rightx", "righty", "triggerleft", "triggerright")
MOUSE_AXES = ("x", "y")
MOST_AXES = 64
LEAST_TRAVEL = 0.1
"""Smallest half travel of a calibrated axis, in units of the raw position."""
Points = tuple[tuple[float, float], ...]


@dataclass(frozen=True)
class AxisSource:
    """An axis of the first device that ``which`` selects, or of the mouse.

    If ``rate`` is 0, the value follows the position of the axis. ``span`` contains the raw
    positions of the axis at its low end, middle and high end. ``invert`` and ``dead_zone`` replace
    the settings of the value. If ``which`` is empty and several devices have the axis, a person
    chooses one of them.
    """

    axis: int
    which: Which = Which()
    rate: float = 0.0
    span: tuple[float, float, float] = (-1.0, 0.0, 1.0)
    invert: bool | None = None
    dead_zone: float | None = None

    def position(self, raw: float) -> float:
        """Return the position (-1 to 1) for a raw position of the axis. NaN gives the middle."""
        low, middle, high = self.span
        away = raw - middle if math.isfinite(raw) else 0.0
        return max(-1.0, min(1.0, away / (high - middle if away > 0.0 else middle - low)))


@dataclass(frozen=True)
class KeySource:
    """Two keys or buttons that move a value while they are held; one of the two may be empty.

    ``rate`` is in half travels per second. With ``spring``, the value returns after the release.
    ``which`` selects the device of the buttons.
    """

    minus: str
    plus: str
    rate: float = 2.0
    spring: bool = True
    which: Which = Which()


@dataclass(frozen=True)
class Curve:
    """The response to an axis, with dead zone, curve and trim."""

    cubic: float = 0.0
    """Share of the cubic response. 0 is linear; 1 is fine around the middle."""
    points: Points = ()
    """Corners (position, deflection) of a piecewise linear response, instead of ``cubic``."""
    detents: tuple[float, ...] = ()
    """Deflections at which a lever rests, in rising order."""
    width: float = 0.0
    """Half the part of the travel in which the lever stays at a detent."""

    def __call__(self, x: float) -> float:
        if self.points:
            x = _between(self.points, x)
        else:
            x = (1.0 - self.cubic) * x + self.cubic * x * x * x
        return _between(self._notches, x) if self.detents else x

    @cached_property
    def _notches(self) -> Points:
        inner = []
        for at in self.detents:
            # narrow a detent near an end, so that the end stays reachable
            left = (1.0 - abs(at)) / 2.0
            half = min(self.width, left) if left else self.width
            inner += [(max(-1.0, at - half), at), (min(1.0, at + half), at)]
        first, last = inner[0], inner[-1]
        before = [(-1.0, -1.0)] if first[0] > -1.0 else []
        return (*before, *inner, *([(1.0, 1.0)] if last[0] < 1.0 else []))


def _between(points: Points, x: float) -> float:
    across, up = zip(*points, strict=True)
    return float(np.interp(x, across, up))


_ANY_AXIS = AxisSource(0)
_LINEAR = Curve()


@dataclass(frozen=True)
class Value:
    """The sources of one value. The first available source moves the value."""

    name: str
    joystick: AxisSource | None = None
    gamepad: AxisSource | None = None
    keyboard: KeySource | None = None
    buttons: KeySource | None = None
    mouse: AxisSource | None = None
    switches: tuple[Switch, ...] = ()
    trimmers: tuple[Trimmer, ...] = ()
    dead_zone: float = 0.0
    curve: Curve = _LINEAR
    invert: bool = False
    trim: float = 0.0
    rest: float = 0.0
    safe: float = 0.0
    lever: bool = False
    """True if an axis must reach the value before it moves the value."""
    ends: tuple[str, str] = ("-", "+")
    """Effects of the low and the high end, as text for the help."""

    @property
    def pressed(self) -> tuple[Switch | Trimmer, ...]:
        return (*self.switches, *self.trimmers)

    @property
    def by_hand(self) -> str:
        """The keys and the mouse movements that move the value, as text."""
        names = []
        if self.keyboard is not None:
            keys = (self.keyboard.plus, self.ends[1]), (self.keyboard.minus, self.ends[0])
            names += [", ".join(f"{key}: {end}" for key, end in keys if key)]
        names += [f"{s.press.key}: {s}" for s in self.pressed if s.press.key]
        if self.mouse is not None:
            names.append("mouse (M)")
        return "; ".join(names)

    @property
    def by_device(self) -> bool:
        """True if an axis or a button of a device moves the value."""
        return any(s is not None for s in (self.joystick, self.gamepad, self.buttons)) or any(
            s.press.button for s in self.pressed
        )

    def shape(self, raw: float, source: AxisSource = _ANY_AXIS, trim: float | None = None) -> float:
        """Return the deflection (-1 to 1) for the raw position ``raw`` of an axis.

        ``trim`` replaces the declared trim.
        """
        x = source.position(raw)
        if self.invert if source.invert is None else source.invert:
            x = -x
        dead = self.dead_zone if source.dead_zone is None else source.dead_zone
        x = math.copysign(max(0.0, (abs(x) - dead) / (1.0 - dead)), x)
        return max(-1.0, min(1.0, self.curve(x) + (self.trim if trim is None else trim)))

    def raw(
        self, position: float, source: AxisSource = _ANY_AXIS, trim: float | None = None
    ) -> float:
        if self.shape(0.0, source, trim) == position:
            return 0.0
        low, high = -1.0, 1.0
        rises = self.shape(high, source, trim) >= self.shape(low, source, trim)
        for _ in range(40):
            middle = (low + high) / 2.0
            below = self.shape(middle, source, trim) < position
            low, high = (middle, high) if below is rises else (low, middle)
        return (low + high) / 2.0


def travel(signal: Signal) -> tuple[float, float]:
    """Return the lowest and the highest value that a control can give to a signal.

    Without a declared limit, the value differs from its initial value by at most 1.
    """
    initial = float(np.ravel(signal.initial)[0])
    low, high = signal.low, signal.high
    if not np.isfinite((low, high)).all():
        low, high = max(low, initial - 1.0), min(high, initial + 1.0)
    return low, high


def rising(points: Sequence[float]) -> bool:
    return all(a < b for a, b in pairwise(points))
