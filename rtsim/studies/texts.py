"""Parser for texts such as ``norm:2,0.1`` or ``max:plant.x,after=2``.

Such a text consists of a name, positional values and named values.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, TypeVar

from rtsim.core.errors import ScenarioError

T = TypeVar("T")
Value = float | str | bool


class Call(NamedTuple):
    name: str
    values: list[Any]
    named: dict[str, Any]


def value_of(text: str) -> Value:
    """Convert a text to int, float or bool if possible, or else return it."""
    text = text.strip()
    if text in ("true", "false"):
        return text == "true"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def call_of(text: str) -> Call:
    """Parse ``NAME`` or ``NAME:VALUE,NAME=VALUE,...``."""
    name, _, rest = (part.strip() for part in text.partition(":"))
    values: list[Any] = []
    named: dict[str, Any] = {}
    for given in rest.split(",") if rest else ():
        key, equals, value = given.partition("=")
        if equals:
            named[key.strip()] = value_of(value)
        else:
            values.append(value_of(given))
    return Call(name, values, named)


def listed(value: object) -> Any:
    """Convert values separated by spaces to a tuple; return any other value unchanged."""
    if isinstance(value, str) and " " in value.strip():
        return tuple(value_of(one) for one in value.split())
    return value


def made(what: str, make: Callable[..., T], values: list[Any], named: dict[str, Any]) -> T:
    """Return ``make(*values, named)``; raise ``ScenarioError`` for wrong arguments.

    The error message begins with ``what``.
    """
    try:
        inspect.signature(make).bind(*values, **named)
    except TypeError as error:
        takes = ", ".join(
            one.name if one.default is one.empty else f"{one.name}={one.default!r}"
            for one in inspect.signature(make).parameters.values()
        )
        raise ScenarioError(f"{what}: {error}; it takes ({takes})") from None
    try:
        return make(*values, **named)
    except (TypeError, ValueError) as error:
        raise ScenarioError(f"{what}: {error}") from None


def split(text: str, option: str) -> tuple[str, str]:
    """Split an argument ``NAME=TEXT`` of a command-line option."""
    name, equals, rest = text.partition("=")
    if not equals or not name.strip() or not rest.strip():
        raise ScenarioError(f"{option} {text!r} is incomplete; write {option} NAME=TEXT")
    return name.strip(), rest.strip()


def split_all(texts: Iterable[str], option: str) -> dict[str, str]:
    """Return the texts of a repeated command-line option by name.

    Raises ``ScenarioError`` for an incomplete argument or a repeated name.
    """
    out: dict[str, str] = {}
    for name, text in (split(one, option) for one in texts):
        if name in out:
            raise ScenarioError(f"{option} {name} is given twice; leave one of them out")
        out[name] = text
    return out


def runs_of(count: int) -> str:
    return f"{count} run" if count == 1 else f"{count} runs"
