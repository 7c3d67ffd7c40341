"""Find the line of each key in a TOML file, which Python's parser does not report."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rtsim.core.errors import ScenarioError

_HEADER = re.compile(r"[ \t]*(\[\[?)([^\]\n]+)\]")
_PART = r"(?:[A-Za-z0-9_\-]+|\"[^\"\n]*\"|'[^'\n]*')"
_KEY = re.compile(rf"[ \t]*({_PART}(?:[ \t]*\.[ \t]*{_PART})*)[ \t]*(?==)")
_TOKEN = re.compile(
    r'"""(?:\\.|[^\\])*?"""(?!")|' + r"'''.*?'''(?!')|"
    r'"(?:\\.|[^"\\\n])*"|' + r"'[^'\n]*'|#[^\n]*|[\[\]{},\n]|[ \t\r]+|[^\s\"'#\[\]{},]+",
    re.S,
)


class InterfaceError(ScenarioError):
    """Raised for an error in an interface file; the message begins with ``file:line:``."""


class Lines:
    """The line numbers of the keys in the file ``path``, by table and key.

    ``text`` is the file's text and must be valid TOML.
    """

    def __init__(self, path: Path, text: str) -> None:
        self.path = path
        self._text = text.split("\n")
        self._lines: dict[tuple[str, str], int] = {}
        self._elements: dict[tuple[str, str], list[int]] = {}
        self._scan(text)

    def _scan(self, text: str) -> None:
        at, number, table = 0, 1, ""
        while at < len(text):
            if header := _HEADER.match(text, at):
                table = self._named("", header[2], number)
                if header[1] == "[[":
                    parent, _, last = table.rpartition(".")
                    self._elements.setdefault((parent, last), []).append(number)
                at = header.end()
            elif key := _KEY.match(text, at):
                parent, _, last = self._named(table, key[1], number).rpartition(".")
                at, number = self._value(text, key.end(), number, (parent, last))
            at, number = self._rest(text, at, number)

    def _named(self, table: str, dotted: str, number: int) -> str:
        """Record the line of each part of a dotted key of ``table``; return the full name."""
        for part in dotted.split("."):
            name = part.strip().strip("\"'")
            self._lines.setdefault((table, name), number)
            table = f"{table}.{name}" if table else name
        return table

    def _value(self, text: str, at: int, number: int, name: tuple[str, str]) -> tuple[int, int]:
        """Go to the end of a key's value; record the lines on which elements of an array begin."""
        depth, array, awaited = 0, False, False
        while token := _TOKEN.match(text, at):
            word = token[0]
            if word == "\n" and depth == 0:
                break
            if word == "[" and depth == 0:
                array = awaited = True
            elif array and depth == 1 and word == ",":
                awaited = True
            elif awaited and word != "]" and word[0] != "#" and not word.isspace():
                self._elements.setdefault(name, []).append(number)
                awaited = False
            depth += (word in "[{") - (word in "]}")
            number += word.count("\n")
            at = token.end()
        return at, number

    def _rest(self, text: str, at: int, number: int) -> tuple[int, int]:
        """Go to the start of the next line."""
        end = text.find("\n", at)
        return (len(text), number) if end < 0 else (end + 1, number + 1)

    def of(self, table: str, key: str, element: int | None = None) -> int:
        """Return the line of ``key`` in ``[table]``, or of its element number ``element``.

        Without ``key``, return the line of the table; if there is no such table, return 1.
        """
        lines = self._elements.get((table, key), ())
        if element is not None and element < len(lines):
            return lines[element]
        while (table, key) not in self._lines and table:
            table, _, key = table.rpartition(".")
        return self._lines.get((table, key), 1)

    def text(self, number: int) -> str:
        """Return the text of the line ``number``; "" if there is no such line."""
        return self._text[number - 1].strip() if 0 < number <= len(self._text) else ""

    def using(self, word: str) -> int:
        """Return the first line that contains ``word`` and is no comment; 0 if there is none."""
        found = re.compile(rf"\b{re.escape(word)}\b")
        for number, line in enumerate(self._text, 1):
            if found.search(line) and not line.lstrip().startswith("#"):
                return number
        return 0

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
