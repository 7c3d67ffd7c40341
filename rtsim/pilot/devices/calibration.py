"""Calibration of axes in steps, with a device mapping as the result.

:class:`Calibration` receives samples of all devices and returns the next step for the person. The
class uses no SDL, terminal or clock. In the first and the last step, all controls are at rest. In
the other steps, the user holds one control at an end of its travel. The dead zone of an axis covers
its noise at rest and the difference between both rest positions.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rtsim.core.signals import Signals
from rtsim.core.toml import open_toml, to_toml
from rtsim.pilot.devices.device import DeviceSample, Stick, Which
from rtsim.pilot.devices.mapping import COMMANDS, DeviceMapping, mapping_of
from rtsim.pilot.devices.sources import GAMEPAD_AXES, LEAST_TRAVEL, AxisSource

LEAST_LOOKS = 30
_WINDOW = 300
_STILL, _MOVED, _ALSO = 0.2, 0.3, 0.6
_CENTRED = 0.4
"""An axis has a spring if its rest position is within this share of half the travel."""
_ENDS = 0.02
"""Share of the travel that is cut off at each end, so that drift cannot make an end unreachable."""
_LEAST_DEAD, _MOST_DEAD, _MARGIN = 0.01, 0.5, 1.5
_RATE = 1.0

REST, PLUS, MINUS, AGAIN = "rest", "plus", "minus", "again"
Axis = tuple[int, int]
"""An axis: instance id of its device, and number of the axis on the device."""


@dataclass(frozen=True)
class MeasuredAxis:
    """A calibrated axis that moves a value; ``noise`` is the peak-to-peak movement at rest."""

    kind: str
    device: str
    number: int
    source: AxisSource
    noise: float
    springs: bool


@dataclass
class _Moved:
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
    """Calibration of the axis for each value.

    Call ``look`` with each sample of the devices until ``done`` is True. When the user has finished
    a step, call ``go_on`` or ``skip``.
    """

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
        self._sticks: dict[int, Stick] = {}
        self._chosen: dict[str, tuple[Axis, float]] = {}
        """The axis of each value, and its raw position at the upper end of the value."""
        self._ends: dict[str, float] = {}

    @property
    def done(self) -> bool:
        return self._at == len(self._steps)

    @property
    def step(self) -> tuple[str, str]:
        return self._steps[self._at]

    @property
    def count(self) -> tuple[int, int]:
        return self._at + 1, len(self._steps)

    @property
    def moving(self) -> Axis | None:
        """The axis that is farthest from its rest position."""
        return max(self._away(), key=lambda found: abs(found[1]), default=(None, 0.0))[0]

    def look(self, look: DeviceSample) -> None:
        """Process a sample of the devices, and discard the results of unplugged devices."""
        for number in [n for n in self._sticks if n not in look.sticks]:
            del self._sticks[number]
            for known in (self._moved, self._rests, self._again):
                for axis in [axis for axis in known if axis[0] == number]:
                    del known[axis]
            for name in [n for n, (axis, _) in self._chosen.items() if axis[0] == number]:
                self._forget(name)
        for number, stick in look.sticks.items():
            self._sticks[number] = stick
            for k, position in enumerate(stick.axes):
                if (number, k) in self._moved:
                    self._moved[number, k].add(position)
                else:
                    self._moved[number, k] = _Moved(
                        position, position, deque([position], maxlen=_WINDOW)
                    )

    def go_on(self) -> str:
        """End the present step; return the reason if the step cannot end, or ""."""
        kind, name = self.step
        complaint = {REST: self._rest, PLUS: self._plus, MINUS: self._minus, AGAIN: self._rest}[
            kind
        ](name)
        if not complaint:
            self._next()
        return complaint

    def skip(self) -> str:
        """Skip the present value; return the reason if this is not allowed, or ""."""
        kind, name = self.step
        if kind not in (PLUS, MINUS):
            return "this step cannot be skipped: let go of all controls, then continue"
        self._forget(name)
        self._next()
        if self.step == (MINUS, name):
            self._next()
        return ""

    @property
    def found(self) -> dict[str, MeasuredAxis]:
        """The measured axis of each value. The result is complete when ``done`` is True."""
        return {name: self._measured(name) for name in self._chosen if name in self._ends}

    def twins(self) -> list[str]:
        """Return the names of measured devices that occur twice."""
        used = {found.device for found in self.found.values()}
        return sorted(name for name in used if self._count(name) > 1)

    def _count(self, name: str) -> int:
        return [stick.name for stick in self._sticks.values()].count(name)

    # -- steps

    def _next(self) -> None:
        self._at += 1
        self._moved = {}

    def _forget(self, name: str) -> None:
        self._chosen.pop(name, None)
        self._ends.pop(name, None)

    def _rest(self, _: str) -> str:
        if not self._moved:
            return "no joystick or gamepad is plugged in: plug one in"
        for axis, moved in self._moved.items():
            if len(moved.lately) < LEAST_LOOKS:
                return "too few samples: wait a second, then continue"
            if moved.noise > _STILL:
                self._moved = {}  # forget earlier movements once the controls are released
                return f"{self._axis_name(axis)} moves: let go of all controls and wait a second"
        if self.step[0] == REST:
            self._rests = self._moved
        else:
            self._again = self._moved
        return ""

    def _away(self) -> Iterator[tuple[Axis, float]]:
        for axis, moved in self._moved.items():
            if axis in self._rests:
                yield axis, moved.now - self._rests[axis].rest

    def _plus(self, name: str) -> str:
        away = sorted(self._away(), key=lambda found: -abs(found[1]))
        late = {axis[0] for axis in self._moved if axis not in self._rests}
        if late:
            names = ", ".join(self._sticks[number].name for number in sorted(late))
            return f"{names} was plugged in after the first step: start the calibration again"
        if not away or abs(away[0][1]) < _MOVED:
            return f"no axis moved: hold the control of {name} at its end, or skip {name}"
        if len(away) > 1 and abs(away[1][1]) > _ALSO * abs(away[0][1]):
            return (
                f"{self._axis_name(away[0][0])} and {self._axis_name(away[1][0])} both moved: "
                f"move only the control of {name}"
            )
        axis, far = away[0]
        for other, (taken, _) in self._chosen.items():
            if taken == axis:
                return f"{self._axis_name(axis)} already moves {other}: move the control of {name}"
        moved = self._moved[axis]
        self._chosen[name] = axis, moved.most if far > 0 else moved.least
        return ""

    def _minus(self, name: str) -> str:
        if name not in self._chosen:  # the axis's device was unplugged meanwhile
            return (
                f"the device of {name} was unplugged: skip {name}, and calibrate again afterwards"
            )
        axis, high = self._chosen[name]
        moved = self._moved.get(axis)
        if moved is None or abs(high - moved.now) < max(_MOVED, 2.0 * LEAST_TRAVEL):
            return f"{self._axis_name(axis)} has not moved: hold the control at its other end"
        rest = self._rests[axis].rest
        if self.values[name].low < 0.0 and abs(moved.now - rest) < _STILL * abs(high - rest):
            return f"{self._axis_name(axis)} is at rest: hold the control at its other end"
        self._ends[name] = moved.least if moved.now < high else moved.most
        return ""

    def _measured(self, name: str) -> MeasuredAxis:
        axis, plus = self._chosen[name]
        stick = self._sticks[axis[0]]
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
        else:  # a lever has no rest position in the middle
            middle = (low + high) / 2.0
        lever = self.values[name].low >= 0.0
        source = AxisSource(
            axis[1],
            Which(stick.name[:100], number=stick.order if self._count(stick.name) > 1 else 0),
            _RATE if lever and springs else 0.0,
            (round(low, 4), round(middle, 4), round(high, 4)),
            plus < self._ends[name],
            round(dead, 3),
        )
        return MeasuredAxis(stick.kind, stick.name, axis[0], source, noise, springs)

    def _axis_name(self, axis: Axis) -> str:
        return f"axis {axis[1]} of {self._sticks[axis[0]].name}"


# The mapping as TOML: an earlier mapping with the measured axes.

OWN_MAPPING = Path(__file__).with_name("aircraft.toml")
_ORDER = ("joystick", "gamepad", "buttons", "keyboard", "mouse")


def own_tables(stick: Signals) -> dict[str, Any]:
    """Return the tables of rtsim's default mapping for the signals of ``stick``."""
    tables = open_toml(OWN_MAPPING, "a mapping").data
    return {name: table for name, table in tables.items() if name in (*stick.names, COMMANDS)}


def own_mapping(stick: Signals) -> DeviceMapping:
    return mapping_of(own_tables(stick), stick, str(OWN_MAPPING))


def calibrated(
    tables: Mapping[str, Any], found: Mapping[str, MeasuredAxis], stick: Signals
) -> dict[str, Any]:
    """Return a mapping: ``tables`` with the calibrated axes ``found``.

    The keys for window commands are taken from ``tables`` unchanged.
    """
    out: dict[str, Any] = {}
    for name in stick.names:
        table = {"curve": 0.0, "trim": 0.0, **tables.get(name, {})}
        if name in found:
            table[found[name].kind] = _source(found[name])
        out[name] = table
    return out | {name: tables[name] for name in (COMMANDS,) if name in tables}


def _source(found: MeasuredAxis) -> dict[str, Any]:
    source = found.source
    low, middle, high = source.span
    named = GAMEPAD_AXES[source.axis] if found.kind == "gamepad" else source.axis
    out: dict[str, Any] = {"axis": named, **source.which.to_plain()}
    out["range"] = [low, middle, high] if found.springs else [low, high]
    out["invert"] = bool(source.invert)
    out["dead_zone"] = source.dead_zone
    if source.rate:
        out["rate"] = source.rate
    return out


def mapping_text(tables: Mapping[str, Any], remarks: Iterable[str], stick: Signals) -> str:
    lines = [f"# {_one_line(remark)}" for remark in remarks]
    for name, table in tables.items():
        about = stick[name].description if name in stick else ""
        lines += ["", f"[{name}]" + (f"  # {_one_line(about)}" if about else "")]
        sources = [key for key in _ORDER if key in table]
        for key in [*sources, *(key for key in table if key not in _ORDER)]:
            lines.append(f"{key} = {to_toml(table[key])}")
    return "\n".join(lines) + "\n"


def _one_line(text: str) -> str:
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())
