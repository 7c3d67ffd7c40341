"""Read a fault from data: its place, kind, parameters, trigger, duration and seed.

=============  ===========================================================================
``at``         s; alone it is a trigger, else the other triggers start at this time
``every``      s; acts at ``at`` (default: one period after the start) and then every period
``probability``  of an activation at each item (sample, message, byte or frame)
``when``       a condition on signals; acts each time it becomes true
=============  ===========================================================================

Without a trigger the fault begins with the run.  An activation lasts ``duration`` s or ``count``
items.  Without these entries an activation lasts one item (``probability``), while the condition is
true (``when``), or to the end of the run.  ``every`` needs one of these entries, unless the kind
ends by itself.  The fault does not act from ``until`` on.
"""

from __future__ import annotations

import inspect
import json
import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any, TypeVar

from rtsim.core.errors import RtsimError, ScenarioError, UnknownName
from rtsim.core.extension_point import ExtensionPoint
from rtsim.core.tag import Period, declared_ns
from rtsim.engine.faults.at_loop import LOOP_KINDS
from rtsim.engine.faults.at_messages import MESSAGE_KINDS
from rtsim.engine.faults.at_signals import SIGNAL_KINDS
from rtsim.engine.faults.kind import (
    WANTED,
    Condition,
    Fault,
    FaultError,
    FaultKind,
    parse_condition,
    passes,
)
from rtsim.engine.faults.line_kinds import LINE_KINDS

# The kinds of faults that a fault file can name.  To add a kind, write a subclass of SignalFault,
# MessageFault, LineFault, BoardFault or LoopFault and register it in KINDS, by the entry point
# rtsim.faults or by add_fault_kind (docs/extending.md).

COMMON = (
    "name", "where", "kind", "at", "every", "probability", "when", "until", "duration", "count",
    "seed",
)  # fmt: skip
"""The entries that every fault can have."""
K = TypeVar("K", bound=FaultKind)
_BASES = "SignalFault, MessageFault, LineFault, BoardFault or LoopFault"


def _checked(name: str, made: object) -> type[FaultKind]:
    """Return ``made`` if it is a complete kind of this name; raises :class:`ScenarioError`."""
    if not (isinstance(made, type) and issubclass(made, FaultKind)):
        raise ScenarioError(f"fault kind {name!r} is {made!r}; expected a subclass of {_BASES}")
    if inspect.isabstract(made):
        missing = ", ".join(sorted(made.__abstractmethods__))
        raise ScenarioError(
            f"fault kind {name!r} has no method {missing}; define it in {made.__name__}, a "
            f"subclass of {_BASES}"
        )
    for attribute in ("name", "does", "level", "example"):
        if not isinstance(getattr(made, attribute, None), str):
            raise ScenarioError(
                f"fault kind {name!r}: the class {made.__name__} needs a text as the attribute "
                f"{attribute} = '...'"
            )
    if made.name != name:
        raise ScenarioError(
            f"fault kind {name!r} has another name in {made.__name__}.name, {made.name!r}; "
            "make the names equal"
        )
    _check_parameters(made)
    made.check_kind()
    return made


def _check_parameters(kind: type[FaultKind]) -> None:
    taken = [*COMMON, *kind.entries]
    for parameter in kind.parameters:
        if parameter.name in taken:
            raise ScenarioError(
                f"fault kind {kind.name!r}: {parameter.name} is already the name of another "
                "entry of a fault; give the parameter another name"
            )
        if parameter.check not in WANTED:
            raise ScenarioError(
                f"fault kind {kind.name!r}: parameter {parameter.name} has the check "
                f"{parameter.check!r}; choose one of {', '.join(WANTED)}"
            )
        taken.append(parameter.name)


OWN_KINDS: dict[str, type[FaultKind]] = {
    kind.name: kind for kind in (*SIGNAL_KINDS, *MESSAGE_KINDS, *LINE_KINDS, *LOOP_KINDS)
}
"""The kinds that come with rtsim."""
KINDS: ExtensionPoint[type[FaultKind]] = ExtensionPoint(
    "rtsim.faults", "fault kind", OWN_KINDS, _checked
)
"""The class of every kind, by the kind's name in a fault file."""


def add_fault_kind(kind: type[K]) -> type[K]:
    """Register a kind for this process; it can be used as a decorator of the class."""
    KINDS.add(kind.name, kind)
    return kind


# Faults as a file describes them.

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,59}\Z")
_TIMES = ("at", "until", "duration")
_LONGEST_SHOWN = 60


def fault_of(given: Mapping[str, Any], place: str = "") -> Fault:
    """Return the fault that the entries of a table describe; ``place`` is ``file:line``.

    Raises :class:`FaultError` with the name of the wrong entry.
    """
    return _Reader(given, place).fault()


class _Reader:
    def __init__(self, given: Mapping[str, Any], place: str) -> None:
        self.given, self.place = dict(given), place

    def fault(self) -> Fault:
        given = self.given
        name = self._text("name", "a unique name, such as name = 'alpha_stuck'")
        if not _NAME.match(name):
            text = f"name {name!r}: write a letter, then letters, digits, _ or -, at most 60 in all"
            raise FaultError.of("name", text)
        kind = self._kind()
        known = (*COMMON, *(p.name for p in kind.parameters), *kind.entries)
        for key in given:
            if key not in known:
                raise FaultError.of(key, str(UnknownName("entry", key, known, kind.name)))
        self._trigger(kind)
        times = {k: self._ns(k) for k in _TIMES}
        if times["until"] is not None and times["until"] <= (times["at"] or 0):
            text = "until is not after at, so the fault would never act; give a later until"
            raise FaultError.of("until", text)
        return Fault(
            name=name,
            where=self._where(kind),
            kind=kind,
            parameters=self._parameters(kind),
            at_ns=times["at"],
            every=self._period("every"),
            probability=self._probability(),
            when=self._condition(),
            until_ns=times["until"],
            duration_ns=times["duration"],
            count=self._count(kind),
            period=self._period("period"),
            seed=self._whole("seed", 0),
            given={k: _plain(v) for k, v in given.items()},
            place=self.place,
        )

    def _kind(self) -> type[FaultKind]:
        name = self._text("kind", "the kind, such as kind = 'offset'")
        if name not in KINDS:
            raise FaultError.of("kind", str(UnknownName("kind", name, KINDS)))
        try:
            return KINDS[name]
        except ScenarioError as error:  # the package that provides this kind cannot be loaded
            raise FaultError.of("kind", str(error)) from None

    def _trigger(self, kind: type[FaultKind]) -> None:
        triggers = [k for k in ("every", "probability", "when") if k in self.given]
        if len(triggers) > 1:
            text = f"{' and '.join(triggers)} are all triggers; give only one of them"
            raise FaultError.of(triggers[1], text)
        lasting = [k for k in ("duration", "count") if k in self.given]
        if len(lasting) > 1:
            raise FaultError.of("count", "both duration and count are given; give only one of them")
        if lasting and (kind.once or kind.has_length):
            instead = "length sets how long it lasts" if kind.has_length else "it acts only once"
            raise FaultError.of(lasting[0], f"{kind.name} takes no {lasting[0]}: {instead}")
        ends = lasting or kind.once or kind.brief or kind.has_length
        if "every" in self.given and not ends:
            raise FaultError.of(
                "every",
                "a fault with every also needs duration (in s) or count (a number of rows, "
                "messages or bytes)",
            )

    def _text(self, key: str, wanted: str) -> str:
        value = self.given.get(key)
        if not isinstance(value, str) or not value.strip():
            raise FaultError.of(key, f"{key} is missing or not a text; give {wanted}")
        return value.strip()

    def _where(self, kind: type[FaultKind]) -> str:
        where = self._text("where", kind.wanted())
        kind.check_where(where)
        return where

    def _parameters(self, kind: type[FaultKind]) -> dict[str, float]:
        out = {}
        for parameter in kind.parameters:
            name, wanted = parameter.name, WANTED[parameter.check]
            if name not in self.given:
                if parameter.needed:
                    text = f"{kind.name} needs {name}: {wanted}"
                    raise FaultError.of("kind", text)
                continue
            value = self.given[name]
            if parameter.check == "seconds":
                out[name] = float(self._ns(name, zero=True) or 0)
            elif not passes(parameter.check, value):
                raise FaultError.of(name, f"{name} = {_shown(value)} is not valid; write {wanted}")
            else:
                out[name] = float(value)
        return out

    def _ns(self, key: str, zero: bool = False) -> int | None:
        if key not in self.given:
            return None
        value = self.given[key]
        wanted = f"write {key} in s" + (", >= 0" if zero or key == "at" else ", > 0")
        try:
            if isinstance(value, bool) or not isinstance(value, int | float | str | Fraction):
                raise ScenarioError("not a number of seconds")
            ns = declared_ns(value, key)
        except (RtsimError, OverflowError, ValueError) as error:
            raise FaultError.of(
                key, f"{key} = {_shown(value)} is not valid ({error}); {wanted}"
            ) from None
        if ns < 0 or (ns == 0 and not zero and key != "at"):
            raise FaultError.of(key, f"{key} = {_shown(value)} is not valid; {wanted}")
        return ns

    def _period(self, key: str) -> Period | None:
        return None if self._ns(key) is None else Period.of(self.given[key])

    def _probability(self) -> float | None:
        if "probability" not in self.given:
            return None
        value = self.given["probability"]
        if not passes("number", value) or not 0.0 <= value <= 1.0:
            raise FaultError.of(
                "probability",
                f"probability = {_shown(value)} is not valid; write a number from 0 to 1",
            )
        return float(value)

    def _condition(self) -> Condition | None:
        if "when" not in self.given:
            return None
        text = self._text("when", "a condition, such as when = 'f16.alpha > 0.3'")
        try:
            return parse_condition(text)
        except ScenarioError as error:
            raise FaultError.of("when", str(error)) from None

    def _count(self, kind: type[FaultKind]) -> int | None:
        if kind.has_length:
            return int(self.given["length"])
        count = self._whole("count", 1)
        if count is None and (kind.once or kind.brief or "probability" in self.given):
            return None if "duration" in self.given else 1
        return count

    def _whole(self, key: str, least: int) -> int | None:
        value = self.given.get(key)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value < 2**63:
            raise FaultError.of(
                key, f"{key} = {_shown(value)} is not valid; write a whole number >= {least}"
            )
        return value


def _shown(value: object) -> str:
    """Return a short text of ``value``, also of numbers that are too long for ``repr``."""
    try:
        text = repr(value)
    except ValueError:
        return "a very large number"
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}…"


def _plain(value: Any) -> Any:
    return str(value) if isinstance(value, Fraction) else value


# Read a fault file: TOML with a table ``[[fault]]`` for each fault.

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


# Write a fault file that :func:`rtsim.engine.faults.read_faults` reads with exact times.


def write_faults(
    path: str | Path, faults: Sequence[Fault], about: Iterable[str] = (), *, force: bool = False
) -> None:
    """Write ``faults`` to the fault file ``path``; ``about``: comment lines at its head.

    ``force``: overwrite an existing fault file.  Files of other kinds are never overwritten.
    Raises :class:`ScenarioError` if the file cannot be written.
    """
    path = Path(path)
    if len(faults) > MOST_FAULTS:
        raise ScenarioError(
            f"there are {len(faults)} faults, but a fault file can have at most {MOST_FAULTS}"
        )
    lines = [f"# {line}" for line in about]
    for fault in faults:
        lines += ["", "[[fault]]", *(f"{k} = {_toml(v)}" for k, v in fault.describe().items())]
    try:
        if force:
            _refuse_to_overwrite(path)
        with path.open("w" if force else "x", encoding="utf-8") as file:
            file.write("\n".join(lines) + "\n")
    except FileExistsError:
        raise ScenarioError(
            f"{path} exists already; give another path with -o PATH, or --force to overwrite it"
        ) from None
    except OSError as error:
        raise ScenarioError(
            f"cannot write {path}: {error.strerror}; give another path with -o PATH"
        ) from None


def _refuse_to_overwrite(path: Path) -> None:
    if not path.is_file() or path.stat().st_size == 0:
        return
    try:
        read_faults(path)
    except FaultError:
        raise ScenarioError(
            f"{path} is not a fault file and is not overwritten; give another path with -o PATH"
        ) from None


def _toml(value: Any) -> str:
    """Return ``value`` as TOML; a text is written as JSON, which is valid TOML."""
    if isinstance(value, str):
        return json.dumps(_decimal(value))
    return repr(value)


def _decimal(text: str) -> str:
    """Return an exact time as a decimal number if possible, such as 0.03 for 3/100."""
    try:
        exact = Fraction(text) * 10**9
    except (ValueError, ZeroDivisionError):
        return text
    if exact.denominator != 1 or exact < 0:
        return text
    whole, rest = divmod(int(exact), 10**9)
    return f"{whole}.{rest:09d}".rstrip("0").rstrip(".")
