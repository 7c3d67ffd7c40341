"""Compute the values of the stick from samples of the devices.

``Controls.update`` receives a sample of the devices with its time, and returns the values.

The first available source moves a value: joystick axis, gamepad axis, mouse, keys or buttons.
Values never jump: a lever takes effect only after it has reached the present value.

SDL reports the position 0.0 for unplugged devices, which rtsim ignores. If a device is unplugged,
its values stay constant for one second, then move to their fail-safe values.

If several devices have the axis, the person must first press a button of one device. Otherwise, the
throttle lever of another device could move the pitch.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field

from rtsim.core.signals import Signals, Vector
from rtsim.core.tag import NS_PER_S
from rtsim.pilot.devices.device import DeviceSample, Stick
from rtsim.pilot.devices.mapping import DeviceMapping
from rtsim.pilot.devices.sources import AxisSource, KeySource, Value, travel
from rtsim.pilot.devices.switches import Presses, Repeats, Switch

# The device of each value: named in the mapping, or chosen by pressing a button.


@dataclass
class Choice:
    """The devices among which the person must choose, and the chosen one."""

    _chosen: dict[str, tuple[int, str]] = field(default_factory=dict)
    """Instance id and name of the chosen device, by kind."""
    _asked: dict[str, frozenset[int]] = field(default_factory=dict)
    """Devices among which the person must still choose, by kind."""
    _settled: dict[str, frozenset[int]] = field(default_factory=dict)
    """Devices among which the person has chosen, by kind."""
    _buttons: dict[int, frozenset[str]] = field(default_factory=dict)

    @property
    def open(self) -> bool:
        """True if a person must choose a device.

        While this is True, a button only chooses its device.
        """
        return bool(self._asked)

    def look(self, sticks: Mapping[int, Stick]) -> None:
        """Choose the device whose button was pressed, if a choice is necessary."""
        for number, stick in sticks.items():
            pressed = stick.buttons - self._buttons.get(number, stick.buttons)
            if pressed and number in self._asked.get(stick.kind, ()):
                self._chosen[stick.kind] = number, stick.name
                self._settled[stick.kind] = self._asked.pop(stick.kind)
        self._buttons = {number: stick.buttons for number, stick in sticks.items()}
        for kind, asked in list(self._asked.items()):
            if len(asked & sticks.keys()) < 2:
                del self._asked[kind]

    def question(self, sticks: Mapping[int, Stick]) -> list[str]:
        """Return one instruction for each kind of device that a person must choose."""
        return [
            f"press a button on the {kind} that flies: "
            + " or ".join(_named(sorted(asked), sticks))
            + "; rtsim joystick calibrate assigns several devices by name"
            for kind, asked in self._asked.items()
        ]

    def device(
        self, kind: str, source: AxisSource, current: int, sticks: Mapping[int, Stick]
    ) -> int | None:
        """Return the instance id of the device whose axis moves the value, or ``None``.

        The device ``current`` keeps the value until it is unplugged or the person chooses another
        device.
        """
        fitting = [
            number
            for number in sorted(sticks)
            if sticks[number].kind == kind
            and source.axis < len(sticks[number].axes)
            and source.which.fits(sticks[number])
        ]
        if source.which.given:
            return _first(current, fitting)
        if kind in self._chosen:
            return self._by_choice(kind, fitting, sticks)
        if len(fitting) > 1:
            self._ask(kind, fitting)
            return current if current in fitting else None
        return _first(current, fitting)

    def _by_choice(
        self, kind: str, fitting: Sequence[int], sticks: Mapping[int, Stick]
    ) -> int | None:
        number, name = self._chosen[kind]
        alike = [n for n in fitting if sticks[n].name == name]
        if new := [n for n in fitting if n not in self._settled[kind]]:
            if number in sticks:
                self._ask(kind, [number, *new])
            elif alike:  # the chosen device was plugged in again
                self._chosen[kind] = alike[0], name
                self._settled[kind] |= {alike[0]}
        if number in fitting:
            return number
        if number not in sticks:
            return alike[0] if alike else None
        return fitting[0] if len(fitting) == 1 else None

    def _ask(self, kind: str, among: Sequence[int]) -> None:
        self._asked[kind] = self._asked.get(kind, frozenset()) | frozenset(among)


def _first(current: int, fitting: Sequence[int]) -> int | None:
    return current if current in fitting else next(iter(fitting), None)


def _named(numbers: Sequence[int], sticks: Mapping[int, Stick]) -> list[str]:
    names = [sticks[n].name for n in numbers if n in sticks]
    return [f"{name} ({k + 1})" if names.count(name) > 1 else name for k, name in enumerate(names)]


# A lever or the mouse takes over a value without a jump.

_REACHED = 0.04
"""Distance at which a lever takes over a value, in half travels."""


class Lever:
    """A lever that moves a value only after its position has reached the value."""

    def __init__(self) -> None:
        self.device = ""
        """Name of the device whose lever has not reached the value yet."""
        self.held_by = -1
        self._number = -1
        self._before = 0.0

    def reaches(self, number: int, name: str, lever: float, value: float) -> bool:
        """Return whether the lever has reached the value, and therefore moves the value.

        ``lever`` and ``value`` are positions, -1 to 1.
        """
        if number == self.held_by:
            return True
        near = abs(lever - value) <= _REACHED
        passed = number == self._number and (self._before - value) * (lever - value) <= 0.0
        self.held_by = number if near or passed else -1
        self.device = "" if self.held_by == number else name
        self._number, self._before = number, lever
        return self.held_by == number

    def release(self) -> None:
        """Ignore the lever until it reaches the value again."""
        self.held_by = self._number = -1

    def look(self, sticks: Container[int]) -> None:
        if self._number not in sticks:
            self.release()
            self.device = ""


class Pointer:
    """A position from -1 to 1 that follows the mouse."""

    def __init__(self) -> None:
        self._at = self._mouse = 0.0

    def take(self, at: float, mouse: float) -> None:
        self._at, self._mouse = at, mouse

    def moved(self, mouse: float) -> float:
        """Return the new position. ``mouse`` is the sum of the mouse's movements so far."""
        self._at = max(-1.0, min(1.0, self._at + mouse - self._mouse))
        self._mouse = mouse
        return self._at


HOLD_NS = NS_PER_S
FADE_NS = NS_PER_S
_SAME = 1e-9
_LONGEST_LOOK_S = 0.1
"""Longest time between two samples for which a held key moves a value, s."""


@dataclass(frozen=True)
class Moved:
    """The source that moves a value, other possible sources, and the trim."""

    by: str
    """Name of the moving device, ``keyboard`` or ``mouse``; empty before the first movement."""
    by_hand: str = ""
    by_device: bool = True
    """True if the mapping has an axis or a button of a device for the value."""
    trim: float = 0.0
    """Trim of the value, which trimmers can move, in half travels."""


class Controls:
    """Compute the values of the stick and the source of each value."""

    def __init__(self, mapping: DeviceMapping, stick: Signals) -> None:
        self.signals = stick
        self.orders: list[str] = []
        """Window commands given by presses. The reader clears the list."""
        self.news: list[str] = []
        """Messages about trims. The reader clears the list."""
        self._choice, self._presses = Choice(), Presses()
        self._commands = mapping.commands
        self._sticks: Mapping[int, Stick] = {}
        self._movers = [_Mover(v, self._choice, self._presses, stick) for v in mapping]
        self.values: Vector = stick.initial()
        self._before: int | None = None

    def update(self, look: DeviceSample, ns: int) -> Vector:
        """Return the values (n,) of the stick at the time ``ns`` of any monotonic clock."""
        elapsed = 0.0 if self._before is None else (ns - self._before) / NS_PER_S
        self._before = ns
        self._sticks = look.sticks
        answers = self._choice.open  # the press that chooses a device has no other effect
        self._choice.look(look.sticks)
        self._presses.look(look)
        for k, mover in enumerate(self._movers):
            self.values[k] = mover.update(look, min(elapsed, _LONGEST_LOOK_S), ns)
            if not answers:
                self.values[k] = mover.switched(ns, self.news)
        if not answers:
            self.orders += [name for press, name in self._commands if self._presses.by(press)]
        return self.values

    @property
    def lost(self) -> list[str]:
        found: dict[tuple[str, bool], list[str]] = {}
        for mover in self._movers:
            if mover.lost:
                found.setdefault((mover.lost, mover.safe), []).append(mover.value.name)
        return [
            f"{device} was unplugged: {', '.join(names)} "
            + ("at fail-safe values" if safe else "held")
            for (device, safe), names in found.items()
        ]

    @property
    def asked(self) -> list[str]:
        """Instructions to the person: choose a device, or move a lever to the present value."""
        return [
            *self._choice.question(self._sticks),
            *(mover.to_reach for mover in self._movers if mover.to_reach),
        ]

    @property
    def flying(self) -> frozenset[int]:
        """Instance ids of the devices that move a value."""
        return frozenset(mover.device for mover in self._movers if mover.device >= 0)

    @property
    def movers(self) -> dict[str, Moved]:
        """The source of each value, by name of the value."""
        return {
            m.value.name: Moved(m.lost or m.by, m.value.by_hand, m.value.by_device, m.trim)
            for m in self._movers
        }


class _Mover:
    def __init__(self, value: Value, choice: Choice, presses: Presses, stick: Signals) -> None:
        self.value = value
        self.trim = value.trim
        self._choice, self._presses = choice, presses
        low, high = travel(stick[value.name])
        initial = float(stick.initial()[stick.slice(value.name)][0])
        self.by = ""
        self.lost = ""
        self.safe = False
        self._middle, self._half = (low + high) / 2.0, (high - low) / 2.0
        self._position = (initial - self._middle) / self._half
        self._rest = (value.rest - self._middle) / self._half
        self._lever = Lever()
        self._pointer = Pointer()
        self._exact: float | None = initial
        """The exact value until an axis or a key moves it. Scaling would change the last bit."""
        self._repeats = Repeats()
        self._momentary: Switch | None = None
        """The held switch that sets the value again when it is released."""
        self.device = -1
        self._keys: KeySource | None = None
        """The keys or buttons that moved the value last, which decide whether it springs back."""
        self._lost_ns = 0
        self._held = 0.0

    @property
    def to_reach(self) -> str:
        if not self._lever.device:
            return ""
        share = round(50.0 * (self._position + 1.0))
        return f"{self.value.name}: move {self._lever.device} through {share} % to take over"

    def update(self, look: DeviceSample, elapsed: float, ns: int) -> float:
        moved = self._by_stick(look, elapsed)
        if not moved and self.device >= 0 and self.device not in look.sticks:
            self._lose(ns)
        if not moved:
            moved = self._by_hand(look, elapsed)
        if moved:
            if self.device < 0 or self.device != self._lever.held_by:
                self._lever.release()
            self._exact = None
            self.lost, self.safe = "", False
        elif self.lost:
            self._fall_back(ns)
        return self.present

    @property
    def present(self) -> float:
        return self._middle + self._half * self._position if self._exact is None else self._exact

    def switched(self, ns: int, news: list[str]) -> float:
        held = self._momentary
        if held is not None and not self._presses.held(held.press):
            self._momentary = None
            if held.released is not None:
                self._set(held.released)
        for switch in self.value.switches:
            if by := self._presses.by(switch.press):
                self._set(switch.pressed(self.present, _SAME * self._half), by)
                self._momentary = switch
        before = self.trim
        for trimmer in self.value.trimmers:
            if times := self._repeats.due(trimmer, self._presses, ns):
                self._trim_to(trimmer.moved(self.trim, times))
        if self.trim != before:
            news.append(f"trim of {self.value.name}: {self.trim:+.3g}")
        return self.present

    def _set(self, value: float, by: str = "") -> None:
        self._exact, self._position = value, (value - self._middle) / self._half
        self.by, self.device, self._keys = by or self.by, -1, None
        self.lost, self.safe = "", False
        self._lever.release()

    def _trim_to(self, trim: float) -> None:
        position = _limited(self._position + trim - self.trim)
        self.trim = trim
        if position != self._position:
            self._exact, self._position = None, position

    def _by_stick(self, look: DeviceSample, elapsed: float) -> bool:
        for kind, source in (("joystick", self.value.joystick), ("gamepad", self.value.gamepad)):
            if source is None:
                continue
            number = self._choice.device(kind, source, self.device, look.sticks)
            if number is None:
                continue
            stick = look.sticks[number]
            shaped = self.value.shape(stick.axes[source.axis], source, self._offset(source))
            reaches = self._lever.reaches
            waits = self.value.lever and not source.rate
            if waits and not reaches(number, stick.name, shaped, self._position):
                continue
            self.device, self.by = number, stick.name
            self._follow(source, shaped, elapsed)
            return True
        self._lever.look(look.sticks)
        return False

    def _by_hand(self, look: DeviceSample, elapsed: float) -> bool:
        mouse, keys = self.value.mouse, self.value.keyboard
        if mouse is not None and look.mouse is not None:
            if self.by != "mouse":
                raw = self.value.raw(self._position, mouse, self._offset(mouse))
                self._pointer.take(raw, look.mouse[mouse.axis])
            self.device, self.by, self._keys = -1, "mouse", keys
            raw = self._pointer.moved(look.mouse[mouse.axis])
            self._follow(mouse, self.value.shape(raw, mouse, self._offset(mouse)), elapsed)
            return True
        if keys is not None and self._turn(keys, look.keys, elapsed):
            self.device, self.by = -1, "keyboard"
            return True
        buttons = self.value.buttons
        if buttons is not None:
            for number in sorted(look.sticks):
                stick = look.sticks[number]
                meant = buttons.which.fits(stick)
                if meant and self._turn(buttons, stick.buttons, elapsed):
                    self.device, self.by = number, stick.name
                    return True
        if self._keys is not None and self._keys.spring and self.by:
            way = _limited(self._rest + self.trim) - self._position
            step = 2.0 * self._keys.rate * elapsed
            self._position += max(-step, min(step, way))
        return False

    def _offset(self, source: AxisSource) -> float:
        return 0.0 if source.rate else self.trim

    def _turn(self, keys: KeySource, held: frozenset[str], elapsed: float) -> bool:
        held = held - {""}
        turn = (keys.plus in held) - (keys.minus in held)
        if turn:
            self._keys = keys
            self._position = _limited(self._position + turn * keys.rate * elapsed)
        return bool(turn)

    def _follow(self, source: AxisSource, shaped: float, elapsed: float) -> None:
        if source.rate:
            self._position = _limited(self._position + shaped * source.rate * elapsed)
        else:
            self._position = shaped

    def _lose(self, ns: int) -> None:
        self.lost, self.by, self.device, self._keys = self.by, "", -1, None
        self._lost_ns, self._held = ns, self._position

    def _fall_back(self, ns: int) -> None:
        share = max(0.0, min(1.0, (ns - self._lost_ns - HOLD_NS) / FADE_NS))
        self.safe = share >= 1.0
        safe = (self.value.safe - self._middle) / self._half
        self._position = self._held + share * (safe - self._held)


def _limited(position: float) -> float:
    return max(-1.0, min(1.0, position))
