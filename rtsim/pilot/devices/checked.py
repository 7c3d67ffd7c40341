"""Checks the entries of a mapping file, one kind of entry per function."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from rtsim.core.errors import RtsimError, UnknownName

_MOST_ENTRIES = 64
_BOUNDS = {
    "dead_zone": (0.0, 0.9),
    "curve": (0.0, 1.0),
    "detent_width": (0.0, 0.5),
    "trim": (-1.0, 1.0),
    "by": (-1.0, 1.0),
    "rate": (-100.0, 100.0),
    "range": (-1.0, 1.0),
    "safe": (-math.inf, math.inf),
    "rest": (-math.inf, math.inf),
    "to": (-math.inf, math.inf),
    "else": (-math.inf, math.inf),
    "detents": (-math.inf, math.inf),
}


class MappingError(RtsimError):
    """A mapping of devices that is malformed."""


def table(given: Any, known: Iterable[str], where: str, example: str) -> Mapping[str, Any]:
    """Return ``given`` if it is a table with the keys ``known`` only."""
    if not isinstance(given, dict):
        raise MappingError(f"{where} is {given!r}; expected a table: {example}")
    known = tuple(known)
    for key in given:
        if key not in known:
            raise UnknownName("key", key, known, where)
    return given


def entries(given: Any, where: str, example: str) -> list[tuple[Any, str]]:
    """Return the entries of a list of tables, each with its name for messages.

    One table counts as a list of one entry.
    """
    listed = [given] if isinstance(given, dict) else given
    if not isinstance(listed, list) or not 0 < len(listed) <= _MOST_ENTRIES:
        raise MappingError(
            f"{where} is {given!r}; expected 1 to {_MOST_ENTRIES} tables: [{example}]"
        )
    return [(one, f"{where}[{k}]" if len(listed) > 1 else where) for k, one in enumerate(listed)]


def number(key: str, value: Any, where: str) -> float:
    low, high = _BOUNDS[key]
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise MappingError(f"{where}.{key} = {value!r}; expected a finite number")
    if not low <= value <= high:
        raise MappingError(f"{where}.{key} = {value:g}; expected {low:g} to {high:g}")
    return float(value)


def flag(value: Any, where: str) -> bool:
    if not isinstance(value, bool):
        raise MappingError(f"{where} = {value!r}; expected true or false")
    return value


def text(value: Any, where: str) -> str:
    if not isinstance(value, str) or not 0 < len(value) <= 100:
        raise MappingError(f"{where} = {value!r}; expected a name of 1 to 100 characters")
    return value
