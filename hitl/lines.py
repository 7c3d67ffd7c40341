"""On which line of a TOML file a key stands: the parser does not say."""

from __future__ import annotations

import re
from pathlib import Path

_HEADER = re.compile(r"\s*\[\[?\s*([^\]]+?)\s*\]")
_KEY = re.compile(r"\s*([A-Za-z0-9_\-]+|\"[^\"]*\"|'[^']*')\s*(?:\.|=)")


class Lines:
    """The lines of the keys of ``path``, by table and key; good for what people write by hand."""

    def __init__(self, path: Path, text: str) -> None:
        self.path = path
        self._lines: dict[tuple[str, str], int] = {}
        table = ""
        for number, line in enumerate(text.splitlines(), 1):
            if header := _HEADER.match(line):
                table = header[1]
                self._lines.setdefault(("", table.partition(".")[0]), number)
                parent, _, last = table.rpartition(".")
                self._lines.setdefault((parent, last), number)
            elif key := _KEY.match(line):
                self._lines.setdefault((table, key[1].strip("\"'")), number)

    def of(self, table: str, key: str) -> int:
        """The line of ``key`` in ``[table]``; of the table, or 1, where the key is not there."""
        while (table, key) not in self._lines and table:
            table, _, key = table.rpartition(".")
        return self._lines.get((table, key), 1)

    def where(self, table: str, key: str) -> str:
        """``file:line``, as compilers write it."""
        return f"{self.path}:{self.of(table, key)}"
