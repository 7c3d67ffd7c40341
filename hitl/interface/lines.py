"""The errors of interface files and rig files, which name file and line."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rtsim.core import toml
from rtsim.core.errors import ScenarioError


class InterfaceError(ScenarioError):
    """Raised for an error in an interface file; the message begins with ``file:line:``."""


class Lines(toml.Lines):
    """The lines of an interface file or a rig file, with its errors."""

    def error(self, table: str, key: str, text: str, element: int | None = None) -> InterfaceError:
        """Return an error whose message begins with ``file:line:``, as a compiler's does."""
        return InterfaceError(f"{self.path}:{self.of(table, key, element)}: {text}")


# Checks the keys in the tables of an interface file; its errors name file and line.


class Table:
    """The table ``[name]`` of an interface file with its ``data``; "" is the top level.

    ``known`` are the allowed keys.  ``moved`` gives the table of each key that another table (a
    variant) defines.  Raises :class:`InterfaceError` for an unknown key.
    """

    def __init__(
        self,
        lines: Lines,
        name: str,
        data: Mapping[str, Any],
        known: tuple[str, ...],
        moved: Mapping[str, str] | None = None,
    ) -> None:
        self.lines, self.name, self.data = lines, name, data
        self._moved = moved or {}
        for key in data:
            if key not in known:
                where = f"[{name}]" if name else "the top level"
                raise self.error(key, f"{where} has no key {key!r}; known: {', '.join(known)}")

    def error(self, key: str, text: str, element: int | None = None) -> InterfaceError:
        """Return an error that names the line of ``key`` or of its element."""
        return self.lines.error(self._moved.get(key, self.name), key, text, element)

    def table(self, key: str) -> dict[str, Any]:
        """Return the table ``key`` within this table; empty if there is none."""
        table = self.data.get(key, {})
        if not isinstance(table, dict):
            raise self.error(key, f"{key} is not a table; write [{key}] on its own line")
        return table

    def text(self, key: str) -> str:
        """Return the text of ``key``, which must not be empty."""
        value = self.data.get(key, "")
        if not isinstance(value, str) or not value.strip():
            raise self.error(key, f'{key} is missing or not a text; write {key} = "..."')
        return value.strip()

    def texts(self, key: str) -> tuple[str, ...]:
        """Return the text or the list of texts under ``key`` as a tuple; empty without the key."""
        value = self.data.get(key, [])
        listed = [value] if isinstance(value, str) else value
        if not isinstance(listed, list) or not all(isinstance(v, str) for v in listed):
            raise self.error(key, f'{key} must be a text or a list of texts; write {key} = ["..."]')
        for element, text in enumerate(listed):
            if not text.strip() or "\0" in text:
                raise self.error(key, f"{key} contains an empty text; remove it", element)
        return tuple(text.strip() for text in listed)
