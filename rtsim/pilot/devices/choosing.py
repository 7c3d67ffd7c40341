"""Chooses the device of each value: by the mapping, or by a button that a person presses.

If the mapping names no device (:mod:`rtsim.pilot.devices.which`) and several devices have the axis,
no device moves the value until the person has pressed a button on one of them.  A throttle quadrant
that is found before the stick therefore does not get the axis of pitch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from rtsim.pilot.devices.samples import Stick
from rtsim.pilot.devices.sources import AxisSource


@dataclass
class Choice:
    """The devices among which the person must choose, and the device that was chosen."""

    _chosen: dict[str, tuple[int, str]] = field(default_factory=dict)
    """Instance id and name of the chosen device, by kind."""
    _asked: dict[str, frozenset[int]] = field(default_factory=dict)
    """The devices among which the person must choose, by kind."""
    _settled: dict[str, frozenset[int]] = field(default_factory=dict)
    """The devices among which the person has chosen, by kind."""
    _buttons: dict[int, frozenset[str]] = field(default_factory=dict)

    @property
    def open(self) -> bool:
        """True while a person must choose a device; a button then answers and does nothing else."""
        return bool(self._asked)

    def look(self, sticks: Mapping[int, Stick]) -> None:
        """Find a button that is newly pressed on a device of an open question."""
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
        """Return one sentence for each kind of device of which the person must choose one."""
        return [
            f"press a button on the {kind} that flies: "
            + " or ".join(_named(sorted(asked), sticks))
            + "; rtsim joystick calibrate assigns several devices by name"
            for kind, asked in self._asked.items()
        ]

    def device(
        self, kind: str, source: AxisSource, current: int, sticks: Mapping[int, Stick]
    ) -> int | None:
        """Return the instance id of the device of ``source``; ``None`` if no device moves it.

        ``current`` is the device that moves the value now; it keeps the value until the person
        chooses another device.
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
        """Return the chosen device, a device of its name, or the only other one if it is here."""
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
    """Return ``current`` if it fits, else the first device that fits."""
    return current if current in fitting else next(iter(fitting), None)


def _named(numbers: Sequence[int], sticks: Mapping[int, Stick]) -> list[str]:
    """Return the names of devices, with a number where two names are equal."""
    names = [sticks[n].name for n in numbers if n in sticks]
    return [f"{name} ({k + 1})" if names.count(name) > 1 else name for k, name in enumerate(names)]
