"""Views of a run: named plots that every reader of the run shows.

A scenario declares views with ``plot()``, and its recordings contain them.  Without a declaration,
:func:`views_of` derives views from the wires of the scenario
(:mod:`rtsim.record.default_views`).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Protocol

from rtsim.core.errors import ScenarioError, UnknownName
from rtsim.core.signals import Signals

LONGEST_TITLE = 200
MOST_SIGNALS = 50
"""Greatest number of signals of one view."""
MOST_PUBLISHED = 10_000
"""Greatest number of published values of one source."""


@dataclass(frozen=True)
class Published:
    """Values of another source, such as a published trajectory, which a view shows as points.

    ``name``: the source; ``times`` (n,) in s, increasing; ``values`` (n,) in the unit of the view.
    Raises :class:`ScenarioError` for a wrong value.
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
                f"{where}: {len(self.times)} times and {len(self.values)} values; give as many"
            )
        if any(b <= a for a, b in itertools.pairwise(self.times)):
            raise ScenarioError(f"{where}: the times do not increase")


@dataclass(frozen=True)
class View:
    """One plot: signals (``"component.signal"``) over time, or over another signal.

    ``title`` names the view; all views of a scenario have different titles.  A response stands
    before its command.  ``over`` is the signal of the horizontal axis; ``None`` means the time.
    ``band`` is a tolerance, drawn above and below the last signal, which is the command; with one
    signal it is drawn above and below 0.  ``band`` has the unit of the signals.  ``unit`` is the
    text at the vertical axis; ``None`` means the units of the signals.  ``marks`` draws events and
    faults.  ``published`` are values of other sources; reports and pages draw them as points.

    Raises :class:`ScenarioError` for a wrong value.

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
        """Return all names of signals, with the one of the horizontal axis last."""
        return self.signals if self.over is None else (*self.signals, self.over)

    def to_dict(self) -> dict[str, Any]:
        """Return the view as plain data, for :meth:`from_dict`."""
        published = [
            {"name": one.name, "times": list(one.times), "values": list(one.values)}
            for one in self.published
        ]
        return {**asdict(self), "signals": list(self.signals), "published": published}

    @classmethod
    def from_dict(cls, data: object) -> View:
        """Return a view from plain data; raises :class:`ScenarioError` for wrong data."""
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
    """What views are made from: declared views, descriptions of components, and their signals."""

    declared: Sequence[View] = ()
    parts: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """The description of each component by its name, as a recording contains it."""
    signals: Mapping[str, Signals] = field(default_factory=dict)
    """The signals that can be shown, by the name of their component."""


class Viewable(Protocol):
    """A scenario or a recording."""

    def viewed(self) -> Viewed:
        """Return the data from which views are made."""
        ...


def check_views(views: Iterable[View], signals: Mapping[str, Signals]) -> None:
    """Raise :class:`UnknownName` if a view has a signal that no component has."""
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
    """Return ``title`` with its unit; the unit ``1`` (none) is left out."""
    return title if unit in ("", "1") else f"{title} [{unit}]"
