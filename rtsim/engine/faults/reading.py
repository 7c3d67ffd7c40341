"""Read a fault file: TOML with a table ``[[fault]]`` for each fault."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from rtsim.core.errors import UnknownName
from rtsim.engine.faults.description import fault_of
from rtsim.engine.faults.kind import Fault, FaultError

MOST_BYTES = 1 << 20
MOST_FAULTS = 1000
_HEADER = re.compile(r"[ \t]*\[\[[ \t]*fault[ \t]*\]\]")
_TWICE = "another fault has the same name; give it another name"
_EXAMPLE = "begin each fault with a line [[fault]]"

Given = str | Path | Fault | Mapping[str, Any]
"""The path of a fault file, a fault, or the entries of a fault."""


def read_faults(path: str | Path) -> tuple[Fault, ...]:
    """Return the faults in file ``path``; a :class:`FaultError` begins with ``file:line:``."""
    path = Path(path)
    text = _text(path)
    try:
        data = tomllib.loads(text)
    except RecursionError:
        raise FaultError(
            f"{path}: the file is not valid TOML: tables or lists are nested too deeply; {_EXAMPLE}"
        ) from None
    except ValueError as error:
        raise FaultError(f"{path}{_line_of(error)}: the file is not valid TOML: {error}") from None
    for key in data:
        if key != "fault":
            raise FaultError(f"{path}: {UnknownName('table', key, ['fault'])}; {_EXAMPLE}")
    tables = data.get("fault", [])
    if not isinstance(tables, list) or not all(isinstance(t, dict) for t in tables):
        raise FaultError(f"{path}: the entry fault is not a list of tables; {_EXAMPLE}")
    if not tables:
        raise FaultError(f"{path}: the file has no faults; {_EXAMPLE}")
    if len(tables) > MOST_FAULTS:
        raise FaultError(
            f"{path}: the file has {len(tables)} faults; at most {MOST_FAULTS} are allowed"
        )
    places = _Places(path, text, len(tables))
    out = []
    for number, table in enumerate(tables):
        try:
            out.append(fault_of(table, places.of(number, "where")))
        except FaultError as error:
            raise FaultError(f"{places.of(number, error.key)}: {error}") from None
        if any(out[-1].name == other.name for other in out[:-1]):
            raise FaultError(f"{places.of(number, 'name')}: fault {out[-1].name}: {_TWICE}")
    return all_different(out)


def gather(given: Iterable[Given]) -> tuple[Fault, ...]:
    """Return the faults of files, faults and dicts; raises if two names are equal."""
    out: list[Fault] = []
    for one in given:
        if isinstance(one, Fault):
            out.append(one)
        elif isinstance(one, Mapping):
            try:
                out.append(fault_of(one))
            except FaultError as error:
                raise FaultError(f"fault {one.get('name', len(out) + 1)}: {error}") from None
        elif isinstance(one, str | Path):
            out.extend(read_faults(one))
        else:
            raise FaultError(
                f"{one!r} is not a fault; give the path of a fault file, or the entries as a dict"
            )
    return all_different(out)


def all_different(faults: Iterable[Fault]) -> tuple[Fault, ...]:
    """Return the faults sorted by name, the order in which they act.

    Raises :class:`FaultError` if two faults have the same name.
    """
    by_name: dict[str, Fault] = {}
    for fault in faults:
        if fault.name in by_name:
            raise fault.error(_TWICE)
        by_name[fault.name] = fault
    return tuple(by_name[name] for name in sorted(by_name))


def _text(path: Path) -> str:
    try:
        if path.stat().st_size > MOST_BYTES:
            raise FaultError(
                f"{path}: the file has more than {MOST_BYTES} bytes, the limit of a fault "
                "file; give a fault file"
            )
        return path.read_text(encoding="utf-8").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        raise FaultError(f"{path}: the file is not UTF-8 text at byte {error.start}") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise FaultError(
            f"{path}: {reason}; give the path of a fault file, such as faults.toml"
        ) from None


def _line_of(error: Exception) -> str:
    found = re.search(r"at line (\d+)", str(error))
    return f":{found[1]}" if found else ""


class _Places:
    """Finds the line numbers of tables and entries, which the parser does not give."""

    def __init__(self, path: Path, text: str, count: int) -> None:
        self._path = path
        self._lines = text.split("\n")
        starts = [n for n, line in enumerate(self._lines) if _HEADER.match(line)]
        # For fault = [{...}], or a header within a text, no line number is known.
        self._starts = starts if len(starts) == count else []

    def of(self, number: int, key: str = "") -> str:
        if not self._starts:
            return f"{self._path}: fault {number + 1}"
        first = self._starts[number]
        end = (*self._starts[number + 1 :], len(self._lines))[0]
        entry = re.compile(rf"[ \t]*[\"']?{re.escape(key)}[\"']?[ \t]*=")
        for line in range(first + 1, end) if key else ():
            if entry.match(self._lines[line]):
                return f"{self._path}:{line + 1}"
        return f"{self._path}:{first + 1}"
