"""Read faults from data: place, kind, parameters, trigger, duration and seed.

=============  ===========================================================================
``at``         s; alone it is a trigger, else the other triggers start at this time
``every``      s; acts at ``at`` (default: one period after the start) and then every period
``probability``  of an activation at each item (sample, message, byte or frame)
``when``       a condition on signals; acts each time it becomes true
=============  ===========================================================================

Without a trigger, the fault begins with the run. An activation lasts ``duration`` s, ``count``
items, or as long as the kind defines. Otherwise, an activation by ``probability`` lasts one item,
and one by ``when`` lasts while the condition is true. A fault with the trigger ``every`` needs a
duration. Any other activation lasts to the end of the run. The fault ends at ``until``.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any, TypeVar

from rtsim.core.errors import ScenarioError, UnknownName
from rtsim.core.extension_point import ExtensionPoint
from rtsim.core.tag import Period
from rtsim.core.toml import (
    Entries,
    Key,
    ListKey,
    Place,
    TableKey,
    number,
    open_toml,
    read,
    seconds,
    text,
    to_toml,
    whole,
)
from rtsim.engine.faults.at_loop import LOOP_KINDS
from rtsim.engine.faults.at_messages import MESSAGE_KINDS
from rtsim.engine.faults.at_signals import SIGNAL_KINDS
from rtsim.engine.faults.kind import (
    CHECKS,
    Fault,
    FaultError,
    FaultKind,
    parse_condition,
)
from rtsim.engine.faults.line_kinds import LINE_KINDS

# Kinds of faults that a fault file can name.  To add a kind, write a subclass of SignalFault,
# MessageFault, LineFault, BoardFault or LoopFault.  Register it in KINDS by the entry point
# rtsim.faults or by add_fault_kind (docs/extending.md).

COMMON = {
    "name": text(wanted="a unique name, such as name = 'alpha_stuck'"),
    "where": text(),
    "kind": text(),
    "at": seconds(zero=True),
    "every": seconds(),
    "probability": number(0.0, 1.0, None),
    "when": text(None, "a condition, such as when = 'f16.alpha > 0.3'"),
    "until": seconds(),
    "duration": seconds(),
    "count": whole(1, default=None),
    "seed": whole(default=None),
    "period": seconds(),
}
"""Entries of a fault; ``period`` applies to faults of signals only."""
K = TypeVar("K", bound=FaultKind)
_BASES = "SignalFault, MessageFault, LineFault, BoardFault or LoopFault"


def _checked(name: str, made: object) -> type[FaultKind]:
    """Check that ``made`` is a complete fault kind with the name ``name``, and return it.

    Raises :class:`ScenarioError` otherwise.
    """
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
            f"the fault kind registered as {name!r} has another name in its class, "
            f"{made.__name__}.name = {made.name!r}; make both names equal"
        )
    _check_parameters(made)
    made.check_kind()
    return made


def _check_parameters(kind: type[FaultKind]) -> None:
    taken = [*COMMON]
    for parameter in kind.parameters:
        if parameter.name in taken:
            raise ScenarioError(
                f"fault kind {kind.name!r}: parameter {parameter.name} has the same name as "
                "another entry of its faults; give the parameter another name"
            )
        if parameter.check not in CHECKS:
            raise ScenarioError(
                f"fault kind {kind.name!r}: parameter {parameter.name} has the check "
                f"{parameter.check!r}; choose one of {', '.join(CHECKS)}"
            )
        taken.append(parameter.name)


OWN_KINDS: dict[str, type[FaultKind]] = {
    kind.name: kind for kind in (*SIGNAL_KINDS, *MESSAGE_KINDS, *LINE_KINDS, *LOOP_KINDS)
}
KINDS: ExtensionPoint[type[FaultKind]] = ExtensionPoint(
    "rtsim.faults", "fault kind", OWN_KINDS, _checked
)
"""Class of each kind, by the kind's name in a fault file."""


def add_fault_kind(kind: type[K]) -> type[K]:
    """Register a kind of fault in this process; also a class decorator."""
    KINDS.add(kind.name, kind)
    return kind


_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,59}\Z")
_WHAT_KIND = text(wanted="the kind, such as kind = 'offset'")


def fault_of(given: Mapping[str, Any], place: Place | None = None) -> Fault:
    """Return the fault that a table describes.

    ``place`` is the position of the table in a file. Raises :class:`FaultError` with the name of
    the wrong entry.
    """
    place = place or Place(error_class=FaultError)
    kind = _kind(given, place)
    every = {key: COMMON[key] for key in COMMON if key != "period" or key in kind.entries}
    keys = {
        **every,
        "where": text(wanted=kind.wanted()),
        **{p.name: replace(CHECKS[p.check], default=None) for p in kind.parameters},
    }
    row = read(given, keys, place, kind.name)
    name = row["name"]
    if not _NAME.match(name):
        problem = f"name {name!r}: write a letter, then letters, digits, _ or -, at most 60 in all"
        raise row.error("name", problem)
    for parameter in kind.parameters:
        if parameter.needed and parameter.name not in given:
            wanted = CHECKS[parameter.check].wanted
            raise row.error("kind", f"{kind.name} needs {parameter.name}: {wanted}")
    _check_triggers(row, kind)
    if row["until"] is not None and row["until"] <= (row["at"] or 0):
        problem = "until is not after at, so the fault would never act; give a later until"
        raise row.error("until", problem)
    with row.checking("where"):
        kind.check_where(row["where"])
    with row.checking("when"):
        when = None if row["when"] is None else parse_condition(row["when"])
    return Fault(
        name=name,
        where=row["where"],
        kind=kind,
        parameters={p.name: float(row[p.name]) for p in kind.parameters if p.name in given},
        at_ns=row["at"],
        every=_period(row, "every"),
        probability=row["probability"],
        when=when,
        until_ns=row["until"],
        duration_ns=row["duration"],
        count=_count(row, kind),
        period=_period(row, "period"),
        seed=row["seed"],
        given={k: str(v) if isinstance(v, Fraction) else v for k, v in given.items()},
        place=place.at("where"),
    )


def _kind(given: Mapping[str, Any], place: Place) -> type[FaultKind]:
    if "name" not in given:
        COMMON["name"].absent(place, "name")
    name = _WHAT_KIND.value(given.get("kind"), place, "kind")
    if name not in KINDS:
        raise place.error("kind", UnknownName("kind", name, KINDS))
    with place.checking("kind"):  # the package that provides a kind may be missing
        return KINDS[name]


def _check_triggers(row: Entries, kind: type[FaultKind]) -> None:
    triggers = [k for k in ("every", "probability", "when") if k in row.given]
    if len(triggers) > 1:
        problem = f"{' and '.join(triggers)} are all triggers; give only one of them"
        raise row.error(triggers[1], problem)
    lasting = [k for k in ("duration", "count") if k in row.given]
    if len(lasting) > 1:
        raise row.error("count", "both duration and count are given; give only one of them")
    if lasting and (kind.once or kind.has_length):
        instead = "length sets how long it lasts" if kind.has_length else "it acts only once"
        raise row.error(lasting[0], f"{kind.name} takes no {lasting[0]}: {instead}")
    ends = lasting or kind.once or kind.brief or kind.has_length
    if "every" in row.given and not ends:
        raise row.error(
            "every",
            "a fault with the key 'every' also needs the key 'duration' (s) or the key 'count' "
            "(number of rows, messages or bytes)",
        )


def _period(row: Entries, key: str) -> Period | None:
    return None if row.get(key) is None else Period.of(row.given[key])


def _count(row: Entries, kind: type[FaultKind]) -> int | None:
    if kind.has_length:
        return int(row["length"])
    count: int | None = row["count"]
    if count is None and (kind.once or kind.brief or row["probability"] is not None):
        return None if row["duration"] is not None else 1
    return count


# Read a fault file: TOML with a table ``[[fault]]`` for each fault.

MOST_FAULTS = 1000
_TWICE = "another fault has the same name; give it another name"
_FILE = {"fault": ListKey("a table [[fault]] for each fault", of=TableKey(of=Key()))}

Given = str | Path | Fault | Mapping[str, Any]
"""The path of a fault file, a fault, or the entries of a fault."""


def read_faults(path: str | Path) -> tuple[Fault, ...]:
    """Return the faults in the file ``path``.

    Raises :class:`FaultError`, whose text begins with ``file:line:``.
    """
    file = open_toml(Path(path), "a fault file", "faults.toml", FaultError)
    tables = read(file.data, _FILE, file.place)["fault"]
    if not tables:
        raise file.place.error("fault", f"the file has no faults; write {_FILE['fault'].wanted}")
    if len(tables) > MOST_FAULTS:
        problem = f"the file has {len(tables)} faults; at most {MOST_FAULTS} are allowed"
        raise file.place.error("fault", problem)
    out: dict[str, Fault] = {}
    for index, given in enumerate(tables):
        place = file.place.inner("fault", index, label="")
        fault = fault_of(given, place)
        if fault.name in out:
            raise place.error("name", f"fault {fault.name}: {_TWICE}")
        out[fault.name] = fault
    return all_different(out.values())


def gather(given: Iterable[Given]) -> tuple[Fault, ...]:
    """Return the faults in files, objects and dicts; raise FaultError for equal names."""
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
    """Return the faults sorted by name.

    Raises :class:`FaultError` if two faults have the same name.
    """
    by_name: dict[str, Fault] = {}
    for fault in faults:
        if fault.name in by_name:
            raise fault.error(_TWICE)
        by_name[fault.name] = fault
    return tuple(by_name[name] for name in sorted(by_name))


# Write a fault file with exact times, for :func:`rtsim.engine.faults.read_faults`.


def write_faults(
    path: str | Path, faults: Sequence[Fault], about: Iterable[str] = (), *, force: bool = False
) -> None:
    """Write faults to a file, with the comment lines ``about``.

    With ``force``, an existing fault file is replaced, but no other file. Raises
    :class:`ScenarioError` if the file cannot be written.
    """
    path = Path(path)
    if len(faults) > MOST_FAULTS:
        raise ScenarioError(
            f"there are {len(faults)} faults, but a fault file can have at most {MOST_FAULTS}"
        )
    lines = [*(f"# {line}" for line in about), *fault_tables(faults)]
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


def fault_tables(faults: Iterable[Fault]) -> list[str]:
    """Return the lines of a table ``[[fault]]`` for each fault, each after an empty line."""
    lines = []
    for fault in faults:
        entries = (f"{k} = {to_toml(_decimal(v))}" for k, v in fault.describe().items())
        lines += ["", "[[fault]]", *entries]
    return lines


def _refuse_to_overwrite(path: Path) -> None:
    if not path.is_file() or path.stat().st_size == 0:
        return
    try:
        read_faults(path)
    except FaultError:
        raise ScenarioError(
            f"{path} is not a fault file and is not overwritten; give another path with -o PATH"
        ) from None


def _decimal(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    try:
        exact = Fraction(value) * 10**9
    except (ValueError, ZeroDivisionError):
        return value
    if exact.denominator != 1 or exact < 0:
        return value
    whole, rest = divmod(int(exact), 10**9)
    return f"{whole}.{rest:09d}".rstrip("0").rstrip(".")
