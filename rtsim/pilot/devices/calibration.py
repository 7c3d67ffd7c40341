"""Which axis is which, how far it goes and how still it stands: asked step by step.

No SDL, no terminal and no clock: looks at all devices go in, what to ask the person comes out.
First everything is left alone, then each value's control is held at both of its ends, then
everything is left alone again: what differs between the two rests, and how much an axis moves by
itself, makes its dead zone.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

from rtsim.core.signals import Signals
from rtsim.pilot.devices.controls import DeviceSample
from rtsim.pilot.devices.mapping import LEAST_TRAVEL, AxisSource

LEAST_LOOKS = 30
_WINDOW = 300
_STILL, _MOVED, _ALSO = 0.2, 0.3, 0.6
_CENTRED = 0.4
"""Of half the travel: a rest so near to the middle is a spring's."""
_ENDS = 0.02
"""Of the travel given away at each end, so that both are reached on a colder day too."""
_LEAST_DEAD, _MOST_DEAD, _MARGIN = 0.01, 0.5, 1.5
_RATE = 1.0

REST, PLUS, MINUS, AGAIN = "rest", "plus", "minus", "again"
Axis = tuple[int, int]
"""Instance id of its device, and its number there."""


@dataclass(frozen=True)
class MeasuredAxis:
    """A value's axis as measured; ``noise``: how far it moved at rest, raw, peak to peak."""

    kind: str
    device: str
    number: int
    source: AxisSource
    noise: float
    springs: bool


@dataclass
class _Moved:
    """What the axes did during a step: latest, least, most, and lately."""

    least: float
    most: float
    lately: deque[float]

    @property
    def now(self) -> float:
        return self.lately[-1]

    def add(self, position: float) -> None:
        self.least, self.most = min(self.least, position), max(self.most, position)
        self.lately.append(position)

    @property
    def rest(self) -> float:
        return sorted(self.lately)[len(self.lately) // 2]

    @property
    def noise(self) -> float:
        return max(self.lately) - min(self.lately)


class Calibration:
    """:meth:`look` often, :meth:`go_on` when the person says so; until :attr:`done`."""

    def __init__(self, values: Signals) -> None:
        self.values = values
        self._steps = [
            (REST, ""),
            *((kind, name) for name in values.names for kind in (PLUS, MINUS)),
            (AGAIN, ""),
        ]
        self._at = 0
        self._moved: dict[Axis, _Moved] = {}
        self._rests: dict[Axis, _Moved] = {}
        self._again: dict[Axis, _Moved] = {}
        self._names: dict[int, tuple[str, str]] = {}
        self._chosen: dict[str, tuple[Axis, float]] = {}
        """A value's axis and its raw position at the value's upper end."""
        self._ends: dict[str, float] = {}

    @property
    def done(self) -> bool:
        return self._at == len(self._steps)

    @property
    def step(self) -> tuple[str, str]:
        """Its kind, and the value that it asks for."""
        return self._steps[self._at]

    @property
    def count(self) -> tuple[int, int]:
        """Which step of how many."""
        return self._at + 1, len(self._steps)

    @property
    def moving(self) -> Axis | None:
        """The axis that is farthest from its rest."""
        return max(self._away(), key=lambda found: abs(found[1]), default=(None, 0.0))[0]

    def look(self, look: DeviceSample) -> None:
        """As it stands now; a device that is gone is forgotten with all that was asked of it."""
        for number in [n for n in self._names if n not in look.sticks]:
            del self._names[number]
            for known in (self._moved, self._rests, self._again):
                for axis in [axis for axis in known if axis[0] == number]:
                    del known[axis]
            for name in [n for n, (axis, _) in self._chosen.items() if axis[0] == number]:
                self._forget(name)
        for number, stick in look.sticks.items():
            self._names[number] = stick.kind, stick.name
            for k, position in enumerate(stick.axes):
                if (number, k) in self._moved:
                    self._moved[number, k].add(position)
                else:
                    self._moved[number, k] = _Moved(
                        position, position, deque([position], maxlen=_WINDOW)
                    )

    def go_on(self) -> str:
        """The person has done what the step asks: empty, or why it was not seen."""
        kind, name = self.step
        complaint = {REST: self._rest, PLUS: self._plus, MINUS: self._minus, AGAIN: self._rest}[
            kind
        ](name)
        if not complaint:
            self._next()
        return complaint

    def skip(self) -> str:
        """Nothing moves this value; empty, or why that cannot be left out."""
        kind, name = self.step
        if kind not in (PLUS, MINUS):
            return "this cannot be left out: leave everything alone, and go on"
        self._forget(name)
        self._next()
        if self.step == (MINUS, name):
            self._next()
        return ""

    @property
    def found(self) -> dict[str, MeasuredAxis]:
        """Each value that has an axis, when all is done."""
        return {name: self._measured(name) for name in self._chosen if name in self._ends}

    def twins(self) -> list[str]:
        """Names of devices in use that more than one that is plugged in has."""
        used = {found.device for found in self.found.values()}
        names = [name for _, name in self._names.values()]
        return sorted(name for name in used if names.count(name) > 1)

    # -- steps

    def _next(self) -> None:
        self._at += 1
        self._moved = {}

    def _forget(self, name: str) -> None:
        self._chosen.pop(name, None)
        self._ends.pop(name, None)

    def _rest(self, _: str) -> str:
        if not self._moved:
            return "no joystick or gamepad is there: plug one in"
        for axis, moved in self._moved.items():
            if len(moved.lately) < LEAST_LOOKS:
                return "too early: wait a second"
            if moved.noise > _STILL:
                self._moved = {}  # what was before is not held against who lets go now
                return f"{self._called(axis)} moves: let go of everything, wait a second"
        if self.step[0] == REST:
            self._rests = self._moved
        else:
            self._again = self._moved
        return ""

    def _away(self) -> Iterator[tuple[Axis, float]]:
        """How far each is from its rest."""
        for axis, moved in self._moved.items():
            if axis in self._rests:
                yield axis, moved.now - self._rests[axis].rest

    def _plus(self, name: str) -> str:
        away = sorted(self._away(), key=lambda found: -abs(found[1]))
        late = {axis[0] for axis in self._moved if axis not in self._rests}
        if late:
            names = ", ".join(self._names[number][1] for number in sorted(late))
            return f"{names} came after the first step: begin anew"
        if not away or abs(away[0][1]) < _MOVED:
            return f"nothing moved: hold {name}'s control at its end, or leave it out"
        if len(away) > 1 and abs(away[1][1]) > _ALSO * abs(away[0][1]):
            return (
                f"{self._called(away[0][0])} and {self._called(away[1][0])} both moved: "
                f"move only {name}'s control"
            )
        axis, far = away[0]
        for other, (taken, _) in self._chosen.items():
            if taken == axis:
                return f"{self._called(axis)} is that of {other} already: move {name}'s control"
        moved = self._moved[axis]
        self._chosen[name] = axis, moved.most if far > 0 else moved.least
        return ""

    def _minus(self, name: str) -> str:
        if name not in self._chosen:  # its device was unplugged meanwhile
            return f"the control of {name} is gone: leave it out, and begin again afterwards"
        axis, high = self._chosen[name]
        moved = self._moved.get(axis)
        if moved is None or abs(high - moved.now) < max(_MOVED, 2.0 * LEAST_TRAVEL):
            return f"{self._called(axis)} is still where it was: hold it at its other end"
        rest = self._rests[axis].rest
        if self.values[name].low < 0.0 and abs(moved.now - rest) < _STILL * abs(high - rest):
            return f"{self._called(axis)} is at rest: hold it at its other end"
        self._ends[name] = moved.least if moved.now < high else moved.most
        return ""

    def _measured(self, name: str) -> MeasuredAxis:
        axis, plus = self._chosen[name]
        kind, device = self._names[axis[0]]
        low, high = sorted((plus, self._ends[name]))
        give = _ENDS * (high - low)
        low, high = max(-1.0, low + give), min(1.0, high - give)
        half = (high - low) / 2.0
        first, again = self._rests[axis], self._again.get(axis, self._rests[axis])
        middle = (first.rest + again.rest) / 2.0
        noise = max(first.noise, again.noise)
        springs = (
            abs(middle - (low + high) / 2.0) < _CENTRED * half
            and abs(first.rest - again.rest) < _CENTRED * half
        )
        dead = 0.0
        if springs:
            apart = abs(first.rest - again.rest) / 2.0 + noise / 2.0
            dead = min(_MOST_DEAD, max(_LEAST_DEAD, _MARGIN * apart / half))
        else:  # a lever: no middle to stay at
            middle = (low + high) / 2.0
        lever = self.values[name].low >= 0.0
        source = AxisSource(
            axis[1],
            device[:100],
            _RATE if lever and springs else 0.0,
            (round(low, 4), round(middle, 4), round(high, 4)),
            plus < self._ends[name],
            round(dead, 3),
        )
        return MeasuredAxis(kind, device, axis[0], source, noise, springs)

    def _called(self, axis: Axis) -> str:
        return f"axis {axis[1]} of {self._names[axis[0]][1]}"
