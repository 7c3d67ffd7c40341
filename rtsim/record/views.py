"""Views of a run: named plots for viewers and reports.

A scenario declares views with the method ``plot``. If no view is declared, :func:`views_of` derives
views from the connections of the scenario.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from itertools import chain
from typing import Any, NamedTuple, Protocol

from rtsim.core.errors import RecordingError, ScenarioError, UnknownName
from rtsim.core.signals import Signal, Signals
from rtsim.record.component_values import MESSAGES, SAMPLED, Rows, described, owners

LONGEST_TITLE = 200
MOST_SIGNALS = 50
"""Maximum number of signals in one view."""
MOST_PUBLISHED = 10_000
"""Maximum number of published values of one source."""


@dataclass(frozen=True)
class Published:
    """Values from another source, such as a published trajectory, for a plot.

    A view shows them as points.

    ``name`` is the source. ``times`` (n,) are in s and increase. ``values`` (n,) have the unit of
    the view. Raises :class:`ScenarioError` for invalid values.
    """

    name: str
    times: tuple[float, ...]
    values: tuple[float, ...]

    def __post_init__(self) -> None:
        where = f"published values {self.name!r}"
        if not isinstance(self.name, str) or not 0 < len(self.name) <= LONGEST_TITLE:
            raise ScenarioError(f"{where}: the name must be a text of 1 to {LONGEST_TITLE} letters")
        for what in ("times", "values"):
            object.__setattr__(self, what, _numbers_in(getattr(self, what), f"{where}: {what}"))
        if len(self.times) != len(self.values):
            raise ScenarioError(
                f"{where} have {len(self.times)} times, but {len(self.values)} values; give one "
                "value for each time"
            )
        if any(b <= a for a, b in itertools.pairwise(self.times)):
            raise ScenarioError(f"{where}: the times do not increase")


@dataclass(frozen=True)
class View:
    """A plot of signals (``"component.signal"``) over time or over another signal.

    Args:
        title: Name of the view, unique in a scenario.
        signals: The signals, each response before its command.
        over: Signal on the horizontal axis, by default the time.
        band: Tolerance above and below the last signal, in the unit of the signals. The last signal
            is the command. For a single signal, the tolerance is above and below 0.
        unit: Text at the vertical axis, by default the units of the signals.
        marks: True to draw events and faults.
        published: Values from other sources, which reports draw as points.

    Raises:
        ScenarioError: An argument is invalid.

    Example:
        View("altitude [ft]", ("f16.altitude_ft", "pilot.altitude_command"), band=20.0)
    """

    title: str
    signals: tuple[str, ...]
    over: str | None = None
    band: float | None = None
    unit: str | None = None
    marks: bool = True
    published: tuple[Published, ...] = ()

    def __post_init__(self) -> None:
        if not isinstance(self.title, str) or not 0 < len(self.title.strip()) <= LONGEST_TITLE:
            raise ScenarioError(
                f"plot {self.title!r}: the title must be a text of 1 to {LONGEST_TITLE} characters"
            )
        where = f"plot {self.title!r}"
        object.__setattr__(self, "signals", _names_in(self.signals, where))
        for name in self.names():
            _check_name(name, where)
        if twice := [n for n in self.signals if self.signals.count(n) > 1]:
            raise ScenarioError(f"{where}: signal {twice[0]} is given twice; remove one of them")
        self._check_options(where)

    def _check_options(self, where: str) -> None:
        if self.band is not None:
            number = isinstance(self.band, int | float) and not isinstance(self.band, bool)
            if not number or not math.isfinite(self.band) or self.band <= 0:
                raise ScenarioError(f"{where}: band is {self.band!r}; give a finite number > 0")
            if self.over is not None:
                raise ScenarioError(
                    f"{where}: a band needs the time as its horizontal axis; remove over= or band="
                )
            object.__setattr__(self, "band", float(self.band))
        if self.unit is not None and not isinstance(self.unit, str):
            raise ScenarioError(f"{where}: unit is {self.unit!r}; give a text, such as 'deg'")
        if not isinstance(self.marks, bool):
            raise ScenarioError(f"{where}: marks is {self.marks!r}; give True or False")
        if self.published and self.over is not None:
            raise ScenarioError(
                f"{where}: published values need the time as their axis; remove over= or published="
            )

    def names(self) -> tuple[str, ...]:
        """Return the names of all signals, with the horizontal axis last."""
        return self.signals if self.over is None else (*self.signals, self.over)

    def to_dict(self) -> dict[str, Any]:
        published = [
            {"name": one.name, "times": list(one.times), "values": list(one.values)}
            for one in self.published
        ]
        return {**asdict(self), "signals": list(self.signals), "published": published}

    @classmethod
    def from_dict(cls, data: object) -> View:
        """Return a view from plain data; raise :class:`ScenarioError` for invalid data."""
        known = {one.name for one in fields(cls)}
        if not isinstance(data, Mapping):
            raise ScenarioError(f"a view must be a table with title and signals, got {data!r}")
        if unknown := sorted(map(str, data.keys() - known)):
            raise UnknownName("key", unknown[0], sorted(known), f"view {data.get('title')!r}")
        if missing := [key for key in ("title", "signals") if key not in data]:
            raise ScenarioError(f"view {dict(data)!r} has no {missing[0]}")
        published = data.get("published", ())
        if not isinstance(published, list | tuple):
            raise ScenarioError(f"view {data['title']!r}: published is {published!r}; give a list")
        return cls(**{**data, "published": tuple(map(_published, published))})


def _published(data: object) -> Published:
    keys = {"name", "times", "values"}
    if not isinstance(data, Mapping) or data.keys() != keys:
        raise ScenarioError(f"published values need name, times and values, got {data!r:.200}")
    return Published(**data)


def _numbers_in(given: object, where: str) -> tuple[float, ...]:
    if isinstance(given, str) or not isinstance(given, Sequence):
        raise ScenarioError(f"{where} are {given!r}; give numbers")
    if not 0 < len(given) <= MOST_PUBLISHED:
        raise ScenarioError(f"{where} has {len(given)} elements; give 1 to {MOST_PUBLISHED}")
    for one in given:
        number = isinstance(one, int | float) and not isinstance(one, bool)
        if not number or not math.isfinite(one):
            raise ScenarioError(f"{where} contains {one!r}; give finite numbers")
    return tuple(map(float, given))


def _names_in(given: object, where: str) -> tuple[str, ...]:
    if isinstance(given, str) or not isinstance(given, Sequence):
        raise ScenarioError(f"{where}: signals are {given!r}; give texts 'component.signal'")
    if not 0 < len(given) <= MOST_SIGNALS:
        raise ScenarioError(f"{where} has {len(given)} signals; give 1 to {MOST_SIGNALS}")
    return tuple(given)


def _check_name(name: object, where: str) -> None:
    if not isinstance(name, str):
        raise ScenarioError(f"{where}: signal {name!r} is not a text; give 'component.signal'")
    component, dot, signal = name.rpartition(".")
    if not (component and dot and signal):
        raise ScenarioError(f"{where}: {name!r} names no signal; write 'component.signal'")


@dataclass(frozen=True)
class Viewed:
    """Declared views, components and signals, from which views are made."""

    declared: Sequence[View] = ()
    parts: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """The description of each component by name, as in a recording."""
    signals: Mapping[str, Signals] = field(default_factory=dict)
    """The signals available for plots, by component name."""


class Viewable(Protocol):
    """Interface of scenarios and recordings, which have views."""

    def viewed(self) -> Viewed: ...


def check_views(views: Iterable[View], signals: Mapping[str, Signals]) -> None:
    """Raise :class:`UnknownName` if a view contains an unknown signal."""
    known = {f"{owner}.{name}" for owner, some in signals.items() for name in _names(some)}
    for view in views:
        for name in view.names():
            if name not in known:
                choices = [
                    f"{owner}.{one}" for owner, some in signals.items() for one in some.names
                ]
                raise UnknownName("signal", name, choices, f"plot {view.title!r}")


def _names(signals: Signals) -> set[str]:
    return {*signals.names, *signals.columns}


def with_unit(title: str, unit: str) -> str:
    return title if unit in ("", "1") else f"{title} [{unit}]"


# Views that are derived from the connections of a scenario.

_COMMAND = re.compile(
    r"(?P<stem>.*?)_?(command|commanded|cmd|setpoint|set_point|reference|target|demand|wanted)\Z"
)
_NO_MEASUREMENT = ("controller", "source")
"""Kinds of components whose signals are not treated as measurements of a controller."""


class _Wire(NamedTuple):
    reader: str
    input: str
    source: str


def views_of(run: Viewable) -> tuple[View, ...]:
    """Return the views of a scenario or a recording, by default views of all signals.

    Raises ``ScenarioError`` for an invalid view.
    """
    data = run.viewed()
    return tuple(data.declared) or default_views(data)


def default_views(data: Viewed) -> tuple[View, ...]:
    """Return views of all signals, with the most useful first.

    A command and the response to it are in the same view. An array has one view.
    """
    return tuple(_Defaults(data).views())


class _Defaults:
    def __init__(self, data: Viewed) -> None:
        self._data = data
        self._signals = {
            f"{owner}.{one.name}": one for owner, some in data.signals.items() for one in some
        }
        self._kinds = {name: str(part.get("kind", "")) for name, part in data.parts.items()}
        self._wires = [
            _Wire(name, wanted, source)
            for name, part in data.parts.items()
            for wanted, source in _mapping(part.get("inputs")).items()
            if isinstance(source, str) and source in self._signals
        ]
        self._shown: set[str] = set()

    def views(self) -> Iterator[View]:
        states = self._states()
        orders = (
            self._of_controllers(),
            self._sent_by_controllers(),
            self._rest(self._of_kind("plant", but=states)),
            self._rest(n for n in self._signals if n not in states),
            self._rest(states),
        )
        yield from chain.from_iterable(orders)

    def _of_controllers(self) -> Iterator[View]:
        for controller in self._named("controller"):
            wires = [w for w in self._wires if w.reader == controller]
            for command, response in self._pairs(wires):
                yield from self._view(response, command)
            for wire in wires:
                if self._kinds.get(wire.source.partition(".")[0]) not in _NO_MEASUREMENT:
                    yield from self._view(wire.source)

    def _pairs(self, wires: Sequence[_Wire]) -> Iterator[tuple[str, str]]:
        commands = [w for w in wires if _COMMAND.match(w.input)]
        others = [w for w in wires if w not in commands]
        for command in commands:
            match = _COMMAND.match(command.input)
            stem = match["stem"] if match else ""
            found = [
                w for w in others
                if self._unit(w.source) == self._unit(command.source)
                and stem in w.input
            ]  # fmt: skip
            if found and (stem or len(found) == 1):
                yield command.source, found[0].source

    def _sent_by_controllers(self) -> Iterator[View]:
        for controller in self._named("controller"):
            for name in self._of(controller):
                driven = [
                    f"{w.reader}.{w.input}"
                    for w in self._wires
                    if w.source == name and self._kinds.get(w.reader) == "plant"
                ]
                yield from self._view(*[n for n in driven if n in self._signals][:1], name)

    def _rest(self, names: Iterable[str]) -> Iterator[View]:
        wired = {f"{w.reader}.{w.input}" for w in self._wires if w.source in self._shown}
        for name in names:
            if name not in wired:  # an input has the same values as its source
                yield from self._view(name)

    def _view(self, *names: str) -> Iterator[View]:
        new = [n for n in names if n not in self._shown]
        if new and names[0] in new:
            self._shown.update(names)
            yield View(with_unit(names[0], self._unit(names[0])), names)

    def _states(self) -> list[str]:
        return [
            f"{owner}.{name}"
            for owner, part in self._data.parts.items()
            for key in ("states", "discrete")
            for name in _mapping(part.get(key))
            if f"{owner}.{name}" in self._signals
        ]

    def _named(self, kind: str) -> list[str]:
        return [name for name, known in self._kinds.items() if known == kind]

    def _of_kind(self, kind: str, but: Iterable[str]) -> list[str]:
        left_out = set(but)
        return [n for owner in self._named(kind) for n in self._of(owner) if n not in left_out]

    def _of(self, owner: str) -> list[str]:
        return [f"{owner}.{one.name}" for one in self._data.signals.get(owner, ())]

    def _unit(self, name: str) -> str:
        return self._signals[name].unit


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


# Signals of views in a recording. Plants, messages and external inputs have tracks. Sources have no
# track, so their values come from the controllers that sample them.


class Place(NamedTuple):
    """Track and column of a recorded signal."""

    track: str
    column: str


def viewed_in(source: str, header: Mapping[str, Any], tracks: Mapping[str, Rows]) -> Viewed:
    """Return the views, components and signals of a recording.

    Raises ``RecordingError`` for an invalid view.
    """
    signals = {o: tracks[n].signals for o, n in owners(tracks) if not n.endswith(SAMPLED)}
    sources: dict[str, list[Signal]] = {}
    for name, place in _sources(header, tracks).items():
        owner, _, signal = name.rpartition(".")
        if owner not in signals:
            found = tracks[place.track].signals[place.column]
            sources.setdefault(owner, []).append(replace(found, name=signal))
    try:
        declared = [View.from_dict(one) for one in header.get("views") or ()]
    except (ScenarioError, TypeError) as error:
        raise RecordingError(f"the header of {source} contains an invalid view: {error}") from error
    return Viewed(
        declared, described(header), {**signals, **{n: Signals(*s) for n, s in sources.items()}}
    )


def places(header: Mapping[str, Any], tracks: Mapping[str, Rows]) -> dict[str, Place]:
    """Return the track and column of each signal and array element.

    The sampled inputs of a controller have names such as ``controller.inputs.signal``.
    """
    out = dict(_sources(header, tracks))
    for owner, name in sorted(owners(tracks), key=lambda one: not one[1].endswith(SAMPLED)):
        some = tracks[name].signals
        out.update({f"{owner}.{one}": Place(name, one) for one in (*some.columns, *some.names)})
    return out


def _sources(header: Mapping[str, Any], tracks: Mapping[str, Rows]) -> dict[str, Place]:
    out: dict[str, Place] = {}
    for name, part in described(header).items():
        track = f"{MESSAGES}{name}{SAMPLED}"
        if track in tracks:
            wires = part.get("inputs")
            for column, source in (wires if isinstance(wires, Mapping) else {}).items():
                if isinstance(source, str) and column in tracks[track].signals:
                    out.setdefault(source, Place(track, column))
    return out
