"""Switches and trimmers: buttons, hats and keys that set a value or its trim; without SDL.

A switch has four numbers in the unit of its signal, and the kinds of switches differ only in them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from rtsim.core.errors import UnknownName
from rtsim.core.tag import NS_PER_S
from rtsim.pilot.devices import checked, presses
from rtsim.pilot.devices.checked import MappingError
from rtsim.pilot.devices.presses import Press, Presses

REPEAT_AFTER_NS = NS_PER_S // 2
REPEAT_NS = NS_PER_S // 10
"""A held trimmer acts again after this time, ns."""
_SWITCH = ("do", "to", "else", *presses.KEYS)
_TRIMMER = ("by", "to", *presses.KEYS)
SWITCH_EXAMPLE = '{ button = "button4", do = "toggle" }'
TRIMMER_EXAMPLE = '{ button = "hat0up", by = -0.02 }'


@dataclass(frozen=True)
class Switch:
    """A press that sets a value; the numbers are in the unit of the signal."""

    press: Press
    kind: str
    to: float
    """The value that a press sets."""
    again: float
    """The value that a press sets if the value is ``to`` already."""
    released: float | None = None
    """The value after the release; ``None`` if the value then stays."""

    def pressed(self, present: float, least: float) -> float:
        """Return the new value; ``least`` is the difference below which two values are equal."""
        return self.again if abs(present - self.to) <= least else self.to

    def __str__(self) -> str:
        return self.kind if self.kind != "set" else f"= {self.to:g}"


@dataclass(frozen=True)
class Trimmer:
    """A press that moves the trim of a value by ``by``, or sets it to ``to``, in half travels."""

    press: Press
    by: float = 0.0
    to: float | None = None

    def moved(self, trim: float, times: int) -> float:
        return max(-1.0, min(1.0, trim + times * self.by if self.to is None else self.to))

    def __str__(self) -> str:
        return f"trim {self.by:+g}" if self.to is None else f"trim = {self.to:g}"


class Repeats:
    """How often a trimmer acts: at once, and again and again while its button is held."""

    def __init__(self) -> None:
        self._next: dict[Trimmer, int] = {}

    def due(self, trimmer: Trimmer, held: Presses, ns: int) -> int:
        """Return how many times ``trimmer`` acts at ``ns``."""
        if held.by(trimmer.press):
            self._next[trimmer] = ns + REPEAT_AFTER_NS
            return 1
        if not held.held(trimmer.press):
            self._next.pop(trimmer, None)
        if trimmer not in self._next or trimmer.to is not None or ns < self._next[trimmer]:
            return 0
        times = 1 + (ns - self._next[trimmer]) // REPEAT_NS
        self._next[trimmer] += times * REPEAT_NS
        return times


def _toggle(press: Press, high: float, low: float, rest: float) -> Switch:  # noqa: ARG001
    return Switch(press, "toggle", high, low)


def _hold(press: Press, high: float, low: float, rest: float) -> Switch:  # noqa: ARG001
    return Switch(press, "momentary", high, high, rest)


def _set(press: Press, high: float, low: float, rest: float) -> Switch:  # noqa: ARG001
    return Switch(press, "set", high, high)


KINDS: dict[str, Callable[[Press, float, float, float], Switch]] = {
    "toggle": _toggle, "momentary": _hold, "set": _set,
}  # fmt: skip
"""The kinds of switches by name: what a press, a second press and the release do."""


def read_switches(
    given: Any, span: tuple[float, float], rest: float, where: str
) -> tuple[Switch, ...]:
    """Return the switches of a mapping; ``span`` and ``rest`` are those of the value."""
    found = checked.entries(given, where, SWITCH_EXAMPLE)
    return tuple(_switch(table, span, rest, at) for table, at in found)


def _switch(given: Any, span: tuple[float, float], rest: float, where: str) -> Switch:
    table = checked.table(given, _SWITCH, where, SWITCH_EXAMPLE)
    kind = table.get("do")
    if kind not in KINDS:
        raise UnknownName("do", str(kind), KINDS, where)
    if kind == "set" and "to" not in table:
        raise MappingError(f"{where} sets nothing; add to = VALUE")
    if "else" in table and kind != "toggle":
        raise MappingError(f"{where}.else belongs to do = 'toggle'; leave it out")
    to = _within("to", table, span[1], span, where)
    other = _within("else", table, span[0], span, where)
    if kind == "toggle" and to == other:
        raise MappingError(f"{where}: both positions of the toggle are {to:g}; give two values")
    return KINDS[kind](Press.of(table, where), to, other, rest)


def _within(
    key: str, table: Mapping[str, Any], default: float, span: tuple[float, float], where: str
) -> float:
    value = checked.number(key, table.get(key, default), where)
    low, high = span
    if not low <= value <= high:
        raise MappingError(
            f"{where}.{key} = {value:g} is outside the range of the value, {low:g} to {high:g}"
        )
    return value


def read_trimmers(given: Any, where: str) -> tuple[Trimmer, ...]:
    found = checked.entries(given, where, TRIMMER_EXAMPLE)
    return tuple(_trimmer(table, at) for table, at in found)


def _trimmer(given: Any, where: str) -> Trimmer:
    table = checked.table(given, _TRIMMER, where, TRIMMER_EXAMPLE)
    if ("by" in table) == ("to" in table):
        raise MappingError(f"{where} needs either by or to, such as {TRIMMER_EXAMPLE}")
    press = Press.of(table, where)
    if "by" in table:
        return Trimmer(press, checked.number("by", table["by"], where))
    return Trimmer(press, to=checked.number("trim", table["to"], where))
