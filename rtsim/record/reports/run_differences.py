"""Differences between the settings of several runs, as a table for the start of a page."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

from rtsim.core.tag import NS_PER_S, Tag
from rtsim.record.component_values import described
from rtsim.record.markup import flat, mapping, table, text
from rtsim.record.reading import Recording

MOST_DIFFERENCES = 100
"""Maximum number of differences on a page."""
_LONGEST = 300
"""Maximum number of characters of a value."""
_ABSENT = "\N{EM DASH}"
_OWN = ("parameters", "states", "discrete", "values")
"""Settings of a component that are listed by their name alone: ``cart.mass``."""
_IN_NS = ("step", "period", "offset", "update_period", "update_offset", "until")
_OF_THE_RUN = ("until", "pace", "policy", "compile", "checked", "rtsim")
_NO_SETTING = ("about", "assumptions", "limits")


class Difference(NamedTuple):
    """A setting, with its value in each run as text."""

    name: str
    values: tuple[str, ...]


def differences(runs: Sequence[Recording]) -> list[Difference]:
    """Return the settings in which the runs differ.

    The last entries are the machine and the versions of packages.
    """
    settings = [dict(_settings(run)) for run in runs]
    names = dict.fromkeys(name for one in settings for name in one)
    found = [Difference(name, tuple(one.get(name, _ABSENT) for one in settings)) for name in names]
    return [one for one in found if len(set(one.values)) > 1]


def differences_table(names: Sequence[str], runs: Sequence[Recording]) -> str:
    found = differences(runs)
    if not found:
        return "<p>The runs have the same settings, seed, code and machine.</p>"
    left = len(found) - MOST_DIFFERENCES
    note = f"<p class=soft>{text(str(left))} more settings differ.</p>" if left > 0 else ""
    rows = [(one.name, *map(_cut, one.values)) for one in found[:MOST_DIFFERENCES]]
    return f"<div class=scroll>{table(('', *names), rows)}</div>{note}"


def _settings(run: Recording) -> Iterator[tuple[str, str]]:
    header = run.header
    yield "seed", _text(header.get("seed"))
    scenario = mapping(header.get("scenario"))
    yield "scenario", _text(scenario.get("name"))
    for component, part in described(header).items():
        yield from _of_component(component, part)
    for event in run.changes:
        values = ", ".join(map(_text, event.values.values()))
        yield f"{event.source} from {event.tag} on", values
    for fault in scenario.get("faults") or ():
        yield f"fault {mapping(fault).get('name', '')}", _text(fault)
    yield "order", _text(scenario.get("order"))
    for key in _OF_THE_RUN:
        yield key, _seconds(key, header.get(key))
    if run.continues:
        yield "continues from", str(Tag(int(run.continues.get("ns", 0))))
    yield "code of the functions", str(header.get("source_hash", ""))[:12]
    for key, value in flat("origin", mapping(scenario.get("origin"))):
        yield key, _text(value)
    for key, value in flat("machine", mapping(header.get("fingerprint"))):
        yield key, _text(value)


def _of_component(component: str, part: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for key, value in part.items():
        if key in _NO_SETTING:
            continue
        if key in _OWN and isinstance(value, Mapping):
            yield from ((f"{component}.{name}", _text(one)) for name, one in value.items())
        elif isinstance(value, Mapping):
            yield from ((f"{component}.{name}", _text(one)) for name, one in flat(key, value))
        else:
            yield f"{component}.{key}", _seconds(key, value)


def _seconds(key: str, value: Any) -> str:
    if key not in _IN_NS or not isinstance(value, int | str):
        return _text(value)
    try:
        seconds = Fraction(value) / NS_PER_S
    except ValueError:
        return _text(value)
    exact = Fraction(repr(float(seconds))) == seconds
    return f"{float(seconds)!r} s" if exact else f"{seconds} s"


def _cut(value: str) -> str:
    return value if len(value) <= _LONGEST else f"{value[:_LONGEST]}…"


def _text(value: Any) -> str:
    if value is None:
        return _ABSENT
    return value if isinstance(value, str) else json.dumps(value, default=str)
