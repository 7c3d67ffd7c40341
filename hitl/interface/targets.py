"""Target processors, with their pins and the C types that their compilers lack."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from hitl.interface.fields import SERIAL
from hitl.interface.file import Interface, InterfaceError
from rtsim.core.errors import UnknownName


class Pins(NamedTuple):
    """Pins of a target for Arduino code, numbered from D0 and A0 on."""

    digital: int
    analog: int
    numbers: int
    """Number of pins that have a number, including the analog pins."""
    bank: str = "D"
    """Prefix of a digital pin's name: ``D`` or ``GP``."""

    @classmethod
    def of(cls, names: Iterable[str], channels: Collection[str]) -> Pins | None:
        """Return the pins of a board from their names.

        ``channels`` are the pins with an ADC. Returns None for other names.
        """
        known = [(found[1], name) for name in names if (found := _NAME.match(name))]
        named = [name for bank, name in known if bank == "A"]
        analog = len(named or channels)
        digital = [bank for bank, name in known if bank != "A" and name not in channels]
        if not digital:
            return None
        return cls(len(digital), analog, len(digital) + analog, digital[0])

    def has(self, pin: str) -> bool:
        """Return True if the target has ``pin``; "" (no pin) and ``serial`` always exist."""
        if pin in ("", SERIAL):
            return True
        return int(pin[1:]) < self.analog if pin[0] == "A" else int(pin) < self.numbers

    @property
    def in_words(self) -> str:
        """The names of all pins, such as ``D0 to D13 and A0 to A5``."""
        analog = f" and A0 to A{self.analog - 1}" if self.analog else ""
        return f"{self.bank}0 to {self.bank}{self.digital - 1}{analog}"


@dataclass(frozen=True)
class Target:
    """A target processor. ``lacks`` contains, for each missing type, the reason."""

    name: str
    lacks: Mapping[str, str] = field(default_factory=dict)
    pins: Pins | None = None
    """Pins for Arduino code; None if unknown."""
    phrase: str = "this host"
    """The target in a sentence, with its article."""


_NAME = re.compile(r"(A|D|GP)\d+\Z")
_SINGLE = "its double has 4 bytes; use float32, or a variant with real = 'float32'"


def processor(name: str, double_bytes: int = 8) -> Target:
    return Target(name, {"float64": _SINGLE} if double_bytes == 4 else {})


_OF_HOST = Pins(digital=70, analog=8, numbers=70)
"""Pins that ``hitl/building/c/arduino/Arduino.h`` defines."""
TARGETS = {t.name: t for t in (Target("host", pins=_OF_HOST), processor("avr", double_bytes=4))}


def check_target(interface: Interface, name: str | Target) -> Target:
    """Return a target that has all types and pins of ``interface``.

    Raises :class:`UnknownName` for an unknown target. Raises ``InterfaceError`` for the first
    signal with a missing type or pin.
    """
    if isinstance(name, str) and name not in TARGETS:
        raise UnknownName("target", name, sorted(TARGETS), f"the build of {interface.name}")
    target = TARGETS[name] if isinstance(name, str) else name
    for place in interface.fields:
        reason = target.lacks.get(place.signal.type)
        if reason:
            raise InterfaceError(
                f"{interface.path}:{place.line}: {place.signal.name} is {place.signal.type}, "
                f"which {target.name} does not have: {reason}"
            )
        if target.pins is not None and not target.pins.has(place.pin):
            pin = place.pin if place.pin[0] == "A" else f"{target.pins.bank}{place.pin}"
            raise InterfaceError(
                f"{interface.path}:{place.line}: {place.signal.name} is at pin {pin}, but "
                f"{target.phrase} has only the pins {target.pins.in_words}"
            )
    return target
