"""Checks of the data of a task: what was found, what was expected, and what to type."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from rtsim.core.errors import ScenarioError, UnknownName


def check_keys(data: Mapping[str, Any], known: Sequence[str], where: str) -> None:
    """Raise :class:`UnknownName` for a key of ``data`` that is not ``known``."""
    for key in data:
        if key not in known:
            raise UnknownName("entry", str(key), known, where)


def number(value: object, what: str) -> float:
    """Return a finite number; raises :class:`ScenarioError` for any other value."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ScenarioError(f"{what} = {value!r}; give a number")
    return float(value)


def numbers(value: object, what: str) -> tuple[float, ...]:
    """Return a list of finite numbers as a tuple."""
    if not isinstance(value, list | tuple):
        raise ScenarioError(f"{what} = {value!r}; give a list of numbers")
    return tuple(number(v, f"{what}, element {i}") for i, v in enumerate(value))


def texts(value: object, what: str) -> tuple[str, ...]:
    """Return a list of texts as a tuple."""
    if not isinstance(value, list | tuple) or not all(isinstance(v, str) for v in value):
        raise ScenarioError(f"{what} = {value!r}; give a list of texts")
    return tuple(value)
