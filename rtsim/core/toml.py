"""Read TOML files of users.

Read TOML files, with error messages that state what the user must write.

A table is a mapping from names to :class:`Key`, which describe type, bounds and default::

    LINE = {
        "baud": whole(1200, 2_000_000, default=500_000),
        "parity": choice(("none", "even"), default="none"),
        "watchdog": number(0.0, 60.0, unit="s"),
    }
    file = open_toml(Path("line.toml"), "a file of lines", "line.toml")
    line = read(file.data, LINE, file.place)
    line["baud"]

Unknown keys, missing keys and unusable values raise errors such as ``line.toml:3: baud = 12 is not
valid; write a whole number from 1200 to 2000000``.  :meth:`Entries.error` and
:meth:`Entries.checking` add the file and line to errors that involve several keys.
"""

from __future__ import annotations

import json
import math
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import MISSING, dataclass, field, fields, replace
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar, get_args, get_type_hints

from rtsim.core.errors import RtsimError, ScenarioError, UnknownName
from rtsim.core.tag import declared_ns

T = TypeVar("T")
_MOST = 1 << 63
MOST_BYTES = 1 << 20
"""Default limit of a file's size [bytes]."""


# Line numbers of keys, which Python's parser does not report.

_HEADER = re.compile(r"[ \t]*(\[\[?)([^\]\n]+)\]")
_PART = r"(?:[A-Za-z0-9_\-]+|\"[^\"\n]*\"|'[^'\n]*')"
_KEY = re.compile(rf"[ \t]*({_PART}(?:[ \t]*\.[ \t]*{_PART})*)[ \t]*(?==)")
_TOKEN = re.compile(
    r'"""(?:\\.|[^\\])*?"""(?!")|' + r"'''.*?'''(?!')|"
    r'"(?:\\.|[^"\\\n])*"|' + r"'[^'\n]*'|#[^\n]*|[\[\]{},\n]|[ \t\r]+|[^\s\"'#\[\]{},]+",
    re.S,
)
_ELEMENT = re.compile(r"(.*)\[(\d+)\]\Z")


class Lines:
    """Line numbers of the keys in the file ``path``, by table and key.

    ``text`` is the content of the file and must be valid TOML.  The table of the second
    ``[[fault]]`` is ``fault[1]``.
    """

    def __init__(self, path: Path, text: str) -> None:
        self.path = path
        self._all = text
        self._lines: dict[tuple[str, str], int] = {}
        self._elements: dict[tuple[str, str], list[int]] = {}
        self._arrays: dict[str, int] = {}

    @cached_property
    def _text(self) -> list[str]:
        return self._all.split("\n")

    @cached_property
    def _scanned(self) -> bool:
        text, at, number, table = self._all, 0, 1, ""
        while at < len(text):
            if header := _HEADER.match(text, at):
                table = self._headed(header[2], number, header[1] == "[[")
                at = header.end()
            elif key := _KEY.match(text, at):
                parent, _, last = self._named(table, key[1], number).rpartition(".")
                at, number = self._value(text, key.end(), number, (parent, last))
            end = text.find("\n", at)
            at, number = (len(text), number) if end < 0 else (end + 1, number + 1)
        return True

    def _headed(self, dotted: str, number: int, array: bool) -> str:
        *outer, last = (part.strip().strip("\"'") for part in dotted.split("."))
        table = ""
        for name in outer:
            self._lines.setdefault((table, name), number)
            table = self._inside(table, name)
        self._lines.setdefault((table, last), number)
        if array:
            self._elements.setdefault((table, last), []).append(number)
            full = f"{table}.{last}" if table else last
            self._arrays[full] = self._arrays.get(full, -1) + 1
        return self._inside(table, last)

    def _inside(self, table: str, name: str) -> str:
        full = f"{table}.{name}" if table else name
        return f"{full}[{self._arrays[full]}]" if full in self._arrays else full

    def _named(self, table: str, dotted: str, number: int) -> str:
        for part in dotted.split("."):
            name = part.strip().strip("\"'")
            self._lines.setdefault((table, name), number)
            table = f"{table}.{name}" if table else name
        return table

    def _value(self, text: str, at: int, number: int, name: tuple[str, str]) -> tuple[int, int]:
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

    def of(self, table: str, key: str, element: int | None = None) -> int:
        """Return the line number of a key, or of one element of an array.

        ``element`` is the index of the element. For a missing key, return the first line of the
        innermost existing table.
        """
        assert self._scanned
        while True:
            if numbered := _ELEMENT.match(key):
                key, element = numbered[1], int(numbered[2])
            lines = self._elements.get((table, key), ())
            if element is not None and element < len(lines):
                return lines[element]
            if (table, key) in self._lines or not table:
                return self._lines.get((table, key), 1)
            table, _, key = table.rpartition(".")
            element = None

    def text(self, number: int) -> str:
        return self._text[number - 1].strip() if 0 < number <= len(self._text) else ""

    def using(self, word: str) -> int:
        """Return the number of the first line that contains ``word`` and is no comment, or 0."""
        found = re.compile(rf"\b{re.escape(word)}\b")
        for number, line in enumerate(self._text, 1):
            if found.search(line) and not line.lstrip().startswith("#"):
                return number
        return 0


# The place of a table, with which the text of each error begins.


@dataclass(frozen=True)
class Place:
    """The file and the table in which a value is, for error messages.

    ``error_class`` is the class of the errors. An error message begins with ``file`` and ``label``.
    With ``lines``, the message also contains the line number. ``moved`` names the tables of keys
    that stand in another table of the file.
    """

    file: str = ""
    lines: Lines | None = None
    label: str = ""
    table: str = ""
    error_class: type[RtsimError] = ScenarioError
    moved: Mapping[str, str] = field(default_factory=dict)

    def inner(self, name: str, element: int | None = None, label: str | None = None) -> Place:
        """Return the place of the inner table ``name``, or of one element of an array of tables."""
        number, said = ("", "") if element is None else (f"[{element}]", f" {element + 1}")
        outer = self.moved.get(name, self.table)
        table = f"{outer}.{name}{number}" if outer else f"{name}{number}"
        if label is None:
            label = f"{self.label}.{name}{said}" if self.label else f"{name}{said}"
        return Place(self.file, self.lines, label, table, self.error_class)

    def line(self, key: str = "", element: int | None = None) -> int:
        """Return the line number of ``key``, or of the table if ``key`` is ""; 0 means unknown."""
        if self.lines is None:
            return 0
        return self.lines.of(self.moved.get(key, self.table), key, element)

    def at(self, key: str = "", element: int | None = None) -> str:
        """Return ``file:line`` of ``key``, or only ``file`` if the line is unknown."""
        line = self.line(key, element)
        return f"{self.file}:{line}" if line else self.file

    def error(self, key: str, text: object, element: int | None = None) -> RtsimError:
        said = ": ".join(filter(None, (self.at(key, element), self.label, str(text))))
        error = self.error_class(said)
        error.placed = True
        return error

    @contextmanager
    def checking(self, key: str = "") -> Iterator[None]:
        """Context manager that adds the file and line of ``key`` to errors."""
        try:
            yield
        except (TypeError, ValueError, ArithmeticError, RtsimError) as error:
            if isinstance(error, RtsimError) and error.placed:
                raise
            raise self.error(getattr(error, "key", "") or key, error) from None


@dataclass(frozen=True)
class TomlFile:
    """The tables and the text of a TOML file, and the :class:`Place` of its top-level table."""

    path: Path
    text: str
    data: dict[str, Any]
    place: Place

    @property
    def lines(self) -> Lines:
        assert self.place.lines is not None
        return self.place.lines


def open_toml(
    path: Path,
    what: str,
    example: str = "",
    error: type[RtsimError] = ScenarioError,
    most: int = MOST_BYTES,
) -> TomlFile:
    """Read the TOML file ``path``.

    Args:
        path: The file.
        what: Kind of file for error messages, such as ``a rig file``.
        example: Path that the error suggests if the file cannot be read.
        error: Class of all errors about the file.
        most: Maximum size in bytes.
    """
    remedy = f"give the path of {what}" + (f", such as {example}" if example else "")
    try:
        if path.stat().st_size > most:
            raise error(f"{path}: the file has more than {most} bytes, the limit of {what}")
        text = path.read_bytes().decode().replace("\r\n", "\n")
    except UnicodeDecodeError as problem:
        at = problem.start
        raise error(f"{path}: the file is not UTF-8 text at byte {at}; {remedy}") from None
    except (OSError, ValueError) as problem:
        reason = getattr(problem, "strerror", None) or problem
        raise error(f"{path}: {reason}; {remedy}") from None
    try:
        data = tomllib.loads(text)
        file = TomlFile(path, text, data, Place(str(path), Lines(path, text), error_class=error))
        _check_integers(data, file.place)
    except tomllib.TOMLDecodeError as problem:
        wrong, line, column = str(problem), "", ""
        if found := re.fullmatch(r"(.*) \(at line (\d+), column (\d+)\)", wrong, re.S):
            wrong, line, column = found[1], f":{found[2]}", f" at column {found[3]}"
    except RecursionError:
        wrong, line, column = "tables or lists are nested too deeply", "", ""
    except ValueError:
        wrong = "an integer has thousands of digits; write a number of at most 64 bits"
        line = column = ""
    else:
        return file
    raise error(f"{path}{line}: the file is not valid TOML: {wrong}{column}")


def _check_integers(table: Mapping[str, Any], place: Place) -> None:
    for name, value in table.items():
        listed = value if isinstance(value, list) else [value]
        for k, each in enumerate(listed):
            if isinstance(each, dict):
                element = k if listed is value else None
                _check_integers(each, place.inner(name, element))
            elif isinstance(each, list):
                _check_integers({name: each}, place)
            elif isinstance(each, int) and not -_MOST <= each < _MOST:
                text = (
                    f"{name} = {shown(each)} has {each.bit_length()} bits; write a number of at "
                    "most 64 bits, or one with a decimal point"
                )
                raise place.error(name, text)


# Declaration of a key: how to convert the value, and what to write.

NEEDED: Any = object()
"""Default of a key that must be given."""
_LONGEST_SHOWN = 60


def shown(value: object) -> str:
    """Return a short text for ``value``, even for an integer that is too long for ``repr``."""
    try:
        text = repr(value)
    except ValueError:
        return "a very large number"
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}…"


def _same(given: Any) -> Any:
    return given


@dataclass(frozen=True)
class Key:
    """Declaration of a key; ``wanted`` describes a valid value in error messages.

    ``default`` is the value if the user omits the key. ``convert`` converts the given value. An
    error that ``convert`` raises, such as ValueError, becomes part of the error message.
    """

    wanted: str = "a value"
    default: Any = NEEDED
    convert: Callable[[Any], Any] = _same

    def value(self, given: object, place: Place, name: str, element: int | None = None) -> Any:
        try:
            return self.convert(given)
        except UnknownName as error:
            raise place.error(name, error, element) from None
        except (TypeError, ValueError, ArithmeticError, RtsimError) as error:
            raise self.refused(given, place, name, element, error) from None

    def refused(
        self, given: object, place: Place, name: str, element: int | None, why: object = ""
    ) -> RtsimError:
        what = f"{name} =" if element is None else f"{name}: element {element + 1},"
        because = f" ({why})" if str(why) else ""
        text = f"{what} {shown(given)} is not valid{because}; write {self.wanted}"
        return place.error(name, text, element)

    def absent(self, place: Place, name: str) -> Any:
        """Return the default of an absent key; raise an error if the key is required."""
        if self.default is NEEDED:
            raise place.error(name, f"{name} is missing; write {self.wanted}")
        return self.default


def number(
    low: float = -math.inf,
    high: float = math.inf,
    default: Any = NEEDED,
    *,
    above: float = -math.inf,
    unit: str = "",
) -> Key:
    def convert(given: Any) -> float:
        if isinstance(given, bool) or not isinstance(given, int | float):
            raise ValueError
        if not math.isfinite(given) or not low <= given <= high or given <= above:
            raise ValueError
        return float(given)

    bounds = " and".join(
        f" {sign} {bound:g}"
        for sign, bound in (("<=", high), (">=", low), (">", above))
        if math.isfinite(bound)
    )
    if math.isfinite(low) and math.isfinite(high):
        bounds = f" from {low:g} to {high:g}"
    wanted = f"a number{bounds}" if bounds else "a finite number"
    return Key(wanted + (f", in {unit}" if unit else ""), default, convert)


def whole(low: int = 0, high: int = _MOST - 1, default: Any = NEEDED) -> Key:
    def convert(given: Any) -> int:
        if isinstance(given, bool) or not isinstance(given, int) or not low <= given <= high:
            raise ValueError
        return given

    bounds = f"from {low} to {high}" if high < 2**31 - 1 else f">= {low}"
    return Key(f"a whole number {bounds}", default, convert)


def seconds(zero: bool = False, default: Any = None) -> Key:
    """Declare a key for a time in s, written as a number or as a text such as ``"1/60"``.

    The key converts the time to ns.
    """

    def convert(given: Any) -> int:
        if isinstance(given, bool) or not isinstance(given, int | float | str | Fraction):
            raise ValueError
        ns = declared_ns(given)
        if ns < 0 or (ns == 0 and not zero):
            raise ValueError
        return ns

    return Key(f"seconds {'>=' if zero else '>'} 0, such as 0.05 or '1/60'", default, convert)


def _truth(given: Any) -> bool:
    if not isinstance(given, bool):
        raise ValueError
    return given


def flag(default: Any = False) -> Key:
    return Key("true or false", default, _truth)


def text(
    default: Any = NEEDED, wanted: str = "a text in quotes", *, empty: bool = False, most: int = 0
) -> Key:
    """Declare a key for a text; spaces at both ends are removed.

    ``most`` is the maximum length; 0 means no limit.
    """

    def convert(given: Any) -> str:
        if not isinstance(given, str) or "\0" in given or not (given.strip() or empty):
            raise ValueError
        if most and len(given) > most:
            raise ValueError
        return given.strip()

    return Key(wanted, default, convert)


def choice(names: Iterable[str], default: Any = NEEDED, what: str = "value") -> Key:
    """Declare a key with the allowed values ``names``.

    The error for another value suggests similar values, and calls the value ``what``.
    """

    def convert(given: Any) -> str:
        if not isinstance(given, str) or given not in names:
            raise UnknownName(what, str(given), names)
        return given

    return Key(f"one of {', '.join(names)}", default, convert)


@dataclass(frozen=True)
class ListKey(Key):
    """Declaration of a key whose value is a list.

    The key ``of`` converts each element. With ``single=True``, a list of one element needs no
    brackets.
    """

    of: Key = field(kw_only=True)
    wanted: str = "a list"
    count: range = range(1 << 31)
    single: bool = False

    def value(self, given: object, place: Place, name: str, element: int | None = None) -> Any:
        if self.single and not isinstance(given, list):
            return (self.of.value(given, place, name, element),)
        if not isinstance(given, list | tuple) or len(given) not in self.count:
            raise self.refused(given, place, name, element)
        inner = name if element is None else f"{name}[{element}]"
        return tuple(self.of.value(v, place, inner, k) for k, v in enumerate(given))


def texts(default: Any = (), wanted: str = 'a list of texts, such as ["a"]') -> Key:
    """Return a key for a list of texts.  A single text needs no brackets."""
    return ListKey(wanted, default, of=text(), single=True)


def numbers(default: Any = NEEDED, wanted: str = "a list of numbers", **options: Any) -> Key:
    """Return a key for a list of finite numbers.  ``options`` are fields of :class:`ListKey`."""
    return ListKey(wanted, default, of=number(), **options)


# Tables, with the values of all keys.


class Entries(Mapping[str, Any]):
    """The values of a TOML table, including defaults.

    ``given`` contains the values before conversion.
    """

    def __init__(self, values: Mapping[str, Any], given: Mapping[str, Any], place: Place) -> None:
        self._values, self.given, self.place = values, given, place
        self.error, self.checking = place.error, place.checking

    def __getitem__(self, key: str) -> Any:
        return self._values[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)


def read(data: Mapping[str, Any], keys: Mapping[str, Key], place: Place, of: str = "") -> Entries:
    """Return the values of a TOML table with the allowed keys ``keys``.

    In error messages, ``of`` names the table.
    """
    for name in data:
        if name not in keys:
            raise place.error(name, UnknownName("key", str(name), keys, of))
    values = {
        name: key.value(data[name], place, name) if name in data else key.absent(place, name)
        for name, key in keys.items()
    }
    return Entries(values, data, place)


@dataclass(frozen=True)
class TableKey(Key):
    """Declaration of a key whose value is a table.

    ``keys`` declares the allowed keys of the table. If ``of`` is given, it declares the values of
    all other keys. Without a ``default``, a missing table counts as an empty table.
    """

    keys: Mapping[str, Key] = field(default_factory=dict)
    of: Key | None = None
    wanted: str = "a table"

    def value(self, given: object, place: Place, name: str, element: int | None = None) -> Any:
        if not isinstance(given, Mapping):
            raise self.refused(given, place, name, element, "no table")
        more = dict.fromkeys((k for k in given if k not in self.keys), self.of) if self.of else {}
        return read(given, {**self.keys, **more}, place.inner(name, element))

    def absent(self, place: Place, name: str) -> Any:
        return self.value({}, place, name) if self.default is NEEDED else self.default


def table(keys: Mapping[str, Key], wanted: str = "a table", default: Any = NEEDED) -> TableKey:
    return TableKey(wanted, default, keys=keys)


def named(of: Key, wanted: str = "a table", default: Any = NEEDED) -> TableKey:
    """Declare a key whose value is a table with arbitrary keys. ``of`` declares their values."""
    return TableKey(wanted, default, of=of)


# Dataclasses as declarations of tables.

_OF_TYPE = {float: number(), int: whole(), str: text(empty=True), bool: flag()}


def _key_of(hint: Any, default: Any = NEEDED) -> Key:
    inner = get_args(hint)
    if not inner:
        return replace(_OF_TYPE[hint], default=default)
    word = {str: "texts", float: "numbers", int: "whole numbers"}.get(inner[0], "lists")
    return ListKey(f"a list of {word}", default, of=_key_of(inner[0]))


def read_as(cls: type[T], data: Mapping[str, Any], place: Place) -> T:
    """Return an instance of the dataclass ``cls`` with the values of a TOML table.

    The table has one key for each field, with the type of the field. A field without a default must
    be in the table.
    """
    hints = get_type_hints(cls)
    keys = {
        one.name: _key_of(hints[one.name], NEEDED if one.default is MISSING else one.default)
        for one in fields(cls)  # type: ignore[arg-type]
    }
    with place.checking():
        return cls(**read(data, keys, place))


# Conversion of a value to one line, so that people can compare rows (docs/decisions/202).


def to_toml(value: Any) -> str:
    """Return ``value`` as TOML text on one line."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):  # JSON escapes all that TOML forbids, except DEL
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(to_toml, value)) + "]"
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{k} = {to_toml(v)}" for k, v in value.items()) + " }"
    return repr(value)
