"""A table of an interface file: keys are checked as they are read, errors name their lines."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hitl.interface.lines import InterfaceError, Lines


class Table:
    """``data`` of ``[name]`` (empty: the top level); ``moved`` are keys that stand in another."""

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
                raise self.error(key, f"{key!r} is not known in {where}; known: {', '.join(known)}")

    def error(self, key: str, text: str, element: int | None = None) -> InterfaceError:
        return self.lines.error(self._moved.get(key, self.name), key, text, element)

    def table(self, key: str) -> dict[str, Any]:
        """A table within; empty where there is none."""
        table = self.data.get(key, {})
        if not isinstance(table, dict):
            raise self.error(key, f"{key} is not a table; write [{key}] on its own line")
        return table

    def text(self, key: str) -> str:
        value = self.data.get(key, "")
        if not isinstance(value, str) or not value.strip():
            raise self.error(key, f'{key} is missing or no text; write {key} = "..."')
        return value.strip()

    def texts(self, key: str) -> tuple[str, ...]:
        """A text or a list of them; empty where there is none."""
        value = self.data.get(key, [])
        listed = [value] if isinstance(value, str) else value
        if not isinstance(listed, list) or not all(isinstance(v, str) for v in listed):
            raise self.error(key, f"{key} is neither a text nor a list of texts")
        for element, text in enumerate(listed):
            if not text.strip() or "\0" in text:
                raise self.error(key, f"{key} holds an empty text; leave it out", element)
        return tuple(text.strip() for text in listed)
