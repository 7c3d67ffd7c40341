"""Target processors of a controller, and the types that their compilers lack."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from hitl.interface.fields import SERIAL
from hitl.interface.file import Interface, InterfaceError
from rtsim.core.errors import UnknownName


class Pins(NamedTuple):
    """The pins of a target that Arduino code may use: D0 and A0 upwards, without a gap."""

    digital: int
    analog: int
    numbers: int
    """Number of pins with a number; it includes the analog pins, which have numbers, too."""
    bank: str = "D"
    """What precedes the number of a digital pin: ``D`` or ``GP``."""

    @classmethod
    def of(cls, names: Iterable[str], channels: Collection[str]) -> Pins | None:
        """Return the pins of a board with these ``names``, of which ``channels`` have an ADC.

        Returns ``None`` if the board names its pins in another way.
        """
        known = [(found[1], name) for name in names if (found := _NAME.match(name))]
        named = [name for bank, name in known if bank == "A"]
        analog = len(named or channels)
        digital = [bank for bank, name in known if bank != "A" and name not in channels]
        if not digital:
            return None
        return cls(len(digital), analog, len(digital) + analog, digital[0])

    def has(self, pin: str) -> bool:
        """Return True for a pin of the target: ``A0``, ``9``, and no pin or ``serial``."""
        if pin in ("", SERIAL):
            return True
        return int(pin[1:]) < self.analog if pin[0] == "A" else int(pin) < self.numbers

    @property
    def in_words(self) -> str:
        """The names of all pins: ``D0 to D13 and A0 to A5``."""
        analog = f" and A0 to A{self.analog - 1}" if self.analog else ""
        return f"{self.bank}0 to {self.bank}{self.digital - 1}{analog}"


@dataclass(frozen=True)
class Target:
    """A target processor; ``lacks`` gives the reason for each type that its compiler lacks."""

    name: str
    lacks: Mapping[str, str] = field(default_factory=dict)
    pins: Pins | None = None
    """The pins of Arduino code; ``None`` if they are not known."""
    phrase: str = "this host"
    """The target inside a sentence, with its article."""


_NAME = re.compile(r"(A|D|GP)\d+\Z")
_SINGLE = "its double has 4 bytes; use float32, or a variant with real = 'float32'"


def processor(name: str, double_bytes: int = 8) -> Target:
    """Return the target of a processor whose ``double`` has ``double_bytes`` bytes."""
    return Target(name, {"float64": _SINGLE} if double_bytes == 4 else {})


_OF_HOST = Pins(digital=70, analog=8, numbers=70)
"""The pins in ``hitl/building/c/arduino/Arduino.h``."""
TARGETS = {t.name: t for t in (Target("host", pins=_OF_HOST), processor("avr", double_bytes=4))}


def check_target(interface: Interface, name: str | Target) -> Target:
    """Check that a target (or the target called ``name``) has all types and pins; return it.

    Raises :class:`InterfaceError` with the line of the first signal whose type or pin the target
    lacks, and :class:`UnknownName` for an unknown target.
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
