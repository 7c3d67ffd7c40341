"""Signals of a recording as a table: one row for each time, one column for each signal.

A recording has one track for each plant and one for the messages of each controller, each with
times of its own, and up to two values at one instant.  :func:`signal_table` puts them together; the
table then becomes an Arrow table, a DataFrame of pandas or polars, or a Dataset of xarray.  These
packages are optional.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypedDict, Unpack

import numpy as np
from numpy.typing import NDArray

from rtsim.core.errors import RecordingError, ScenarioError, UnknownName
from rtsim.core.extras import extra
from rtsim.core.signals import Signals, Vector
from rtsim.core.tag import NS_PER_S, Duration, to_ns
from rtsim.record import markup

if TYPE_CHECKING:
    from rtsim.record.events import Event
    from rtsim.record.schema import TrackSpec


Side = Literal["plus", "minus", "+", "-"]
_AFTER, _BEFORE = ("plus", "+"), ("minus", "-")
MESSAGES = "messages/"
"""What the names of tracks of messages begin with."""
TIME, TIME_NS = "time [s]", "time_ns"
MOST_CELLS = 500_000_000
"""Greatest number of values of a table: 4 GB."""


class Rows(Protocol):
    """What a table needs of a track of a recording."""

    @property
    def spec(self) -> TrackSpec: ...

    @property
    def integers(self) -> tuple[str, ...]: ...

    @property
    def signals(self) -> Signals: ...

    @property
    def ns(self) -> NDArray[np.int64]: ...

    def column(self, name: str) -> Vector: ...

    def integer(self, name: str) -> NDArray[np.int64]: ...


class Recorded(Protocol):
    """What a table needs of a recording."""

    @property
    def source(self) -> str: ...

    @property
    def header(self) -> Mapping[str, Any]: ...

    @property
    def tracks(self) -> Mapping[str, Rows]: ...


class TableKeywords(TypedDict, total=False):
    """How signals become a table: the keyword arguments of :func:`signal_table`."""

    side: Side
    rate: float | None
    own: bool
    span: tuple[Duration, Duration] | None


class Tabular(ABC):
    """A run with signals by name, which becomes a table of other packages, or a plot."""

    @abstractmethod
    def table(self, *names: str, **how: Unpack[TableKeywords]) -> SignalTable:
        """Return signals at common times, as :func:`signal_table` says."""

    @abstractmethod
    def facts(self) -> Mapping[str, object]:
        """Return what identifies the run, by name, for a notebook or a terminal."""

    def plot(self, *names: str, **how: Unpack[TableKeywords]) -> Any:
        """Return :meth:`table` as a plotly figure: signals of one unit share one plot."""
        from rtsim.record.plotly_html import plotted

        table = self.table(*names, **how)
        return plotted(table.time, table.columns, table.units)

    def __repr__(self) -> str:
        said = ", ".join(f"{name} {value}" for name, value in self.facts().items())
        return f"<{type(self).__name__}: {said}>"

    def _repr_html_(self) -> str:
        return markup.shown(type(self).__name__, self.facts())

    def to_arrow(self, *names: str, **how: Unpack[TableKeywords]) -> Any:
        """Return :meth:`table` as a ``pyarrow.Table`` with the time in ns."""
        return self.table(*names, **how).to_arrow()

    def to_pandas(self, *names: str, **how: Unpack[TableKeywords]) -> Any:
        """Return :meth:`table` as a ``pandas.DataFrame`` over the time in s."""
        return self.table(*names, **how).to_pandas()

    def to_polars(self, *names: str, **how: Unpack[TableKeywords]) -> Any:
        """Return :meth:`table` as a ``polars.DataFrame`` with the time in s and in ns."""
        return self.table(*names, **how).to_polars()

    def to_xarray(self, *names: str, **how: Unpack[TableKeywords]) -> Any:
        """Return :meth:`table` as an ``xarray.Dataset`` over the time in s."""
        return self.table(*names, **how).to_xarray()


@dataclass(frozen=True)
class SignalTable:
    """Columns (n,) of doubles or integers at the times ``ns`` (n,), which may repeat for messages.

    ``units`` has the unit of each signal by the name of its column.
    """

    ns: NDArray[np.int64]
    columns: Mapping[str, NDArray[Any]]
    units: Mapping[str, str] = field(default_factory=dict)
    about: Mapping[str, str] = field(default_factory=dict)
    """Where the table comes from, by name."""

    def __len__(self) -> int:
        return len(self.ns)

    def __getitem__(self, name: str) -> NDArray[Any]:
        """Return one column (n,); raises :class:`UnknownName` if there is none."""
        try:
            return self.columns[name]
        except KeyError:
            raise UnknownName("column", name, self.columns, "this table") from None

    @property
    def time(self) -> Vector:
        """Simulated time of each row, s (n,)."""
        return self.ns / NS_PER_S

    def to_arrow(self) -> Any:
        """Return a ``pyarrow.Table`` with ``time_ns`` first; the columns are not copied.

        The unit of a column is in the metadata of its field.
        """
        arrow = extra("pyarrow", "data", "an Arrow table")
        fields = [arrow.field(TIME_NS, arrow.int64(), metadata={"unit": "ns"})]
        arrays = [arrow.array(np.ascontiguousarray(self.ns))]
        for name, values in self.columns.items():
            array = arrow.array(np.ascontiguousarray(values))
            unit = {"unit": self.units[name]} if self.units.get(name) else None
            fields.append(arrow.field(name, array.type, metadata=unit))
            arrays.append(array)
        return arrow.Table.from_arrays(arrays, schema=arrow.schema(fields, dict(self.about)))

    def to_pandas(self) -> Any:
        """Return a ``pandas.DataFrame``, whose index is the time in s; ``attrs`` has the units."""
        pandas = extra("pandas", "data", "a DataFrame")
        frame = pandas.DataFrame(dict(self.columns), index=pandas.Index(self.time, name=TIME))
        frame.attrs["units"] = dict(self.units)
        return frame

    def to_polars(self) -> Any:
        """Return a ``polars.DataFrame`` whose first columns are the time in s and in ns."""
        polars = extra("polars", "data", "a DataFrame of polars")
        return polars.DataFrame({TIME: self.time, TIME_NS: self.ns, **self.columns})

    def to_xarray(self) -> Any:
        """Return an ``xarray.Dataset`` over the time in s; each variable has its ``units``."""
        xarray = extra("xarray", "data", "a Dataset")
        units = {name: {"units": unit} for name, unit in self.units.items() if unit}
        data = {
            name: ("time", values, units.get(name, {})) for name, values in self.columns.items()
        }
        coords = {
            "time": ("time", self.time, {"units": "s"}),
            TIME_NS: ("time", self.ns, {"units": "ns"}),
        }
        return xarray.Dataset(data, coords, dict(self.about))

    def _repr_html_(self) -> str:
        """Return the table for a notebook: its first and last rows."""
        return str(self.thinned(10).to_pandas()._repr_html_())

    def thinned(self, rows: int) -> SignalTable:
        """Return at most ``rows`` rows: the first and last ones."""
        if len(self) <= rows:
            return self
        first = rows // 2
        at = np.r_[0:first, len(self) - (rows - first) : len(self)]
        return SignalTable(
            self.ns[at], {n: v[at] for n, v in self.columns.items()}, self.units, self.about
        )

    def __repr__(self) -> str:
        names = ", ".join(list(self.columns)[:4]) + (", ..." if len(self.columns) > 4 else "")
        return f"<SignalTable of {len(self)} rows and {len(self.columns)} columns: {names}>"


@dataclass(frozen=True)
class _Chosen:
    """The chosen columns of one track, and the rows to take, at increasing times without repeats.

    ``name`` is what the columns' names begin with.
    """

    track: Rows
    name: str
    ns: NDArray[np.int64]
    rows: NDArray[np.int64]
    columns: list[str]


def signal_table(
    recording: Recorded,
    names: Sequence[str] = (),
    *,
    side: Side = "plus",
    rate: float | None = None,
    own: bool = False,
    span: tuple[Duration, Duration] | None = None,
    ns: NDArray[np.int64] | None = None,
) -> SignalTable:
    """Return signals of ``recording`` at common times.

    ``names`` are names of tracks (``"f16"``), of signals (``"f16.altitude"``) or patterns
    (``"*.x"``); without names, all signals of plants.  ``"autopilot.elevator"`` is the signal in
    the messages of ``autopilot``, at the time of their arrival; lost messages have none.

    At an instant with two values, ``side="plus"`` or ``"+"`` takes the value after the discrete
    changes, ``"minus"`` or ``"-"`` the one before, so no time repeats.  The times are those of all
    tracks together, the increasing times ``ns`` (n,), or, with ``rate`` in Hz, a grid that begins
    at the first row.  Where a track has no row, its columns hold the last value (NaN before the
    first row); with ``own=True`` they are NaN there.  ``span``: first and last time, s.

    Raises :class:`UnknownName` for a name without a signal, and :class:`ScenarioError` for another
    side or an impossible rate.
    """
    if side not in _AFTER + _BEFORE:
        raise UnknownName("side of an instant", str(side), _AFTER + _BEFORE)
    chosen = [
        _rows(track, name, columns, side) for track, name, columns in _chosen(recording, names)
    ]
    ns = _times(chosen, rate, _limits(span)) if ns is None else ns
    wide = sum(len(one.columns) for one in chosen)
    if len(ns) * wide > MOST_CELLS:
        raise ScenarioError(
            f"a table of {len(ns)} rows and {wide} columns would take {8e-9 * len(ns) * wide:.1f} "
            "GB; choose signals, a part of the time, or a lower rate"
        )
    data: dict[str, NDArray[Any]] = {}
    units: dict[str, str] = {}
    for one in chosen:
        rows, known = _taken(one, ns, own)
        for column in one.columns:
            values = np.full(len(ns), np.nan)
            values[known] = one.track.column(column)[rows]
            data[f"{one.name}.{column}"] = values
            units[f"{one.name}.{column}"] = one.track.spec.units[column]
    return SignalTable(ns, data, units, _about(recording))


def message_table(
    recording: Recorded, port: str, span: tuple[Duration, Duration] | None = None
) -> SignalTable:
    """Return all messages of ``port`` with their integers, such as the three times in ns.

    ``span``: first and last time of the rows, s.  Raises :class:`UnknownName` if the recording has
    no messages of ``port``.
    """
    track = _messages(recording).get(port)
    if track is None:
        raise UnknownName("port with messages", port, _messages(recording), recording.source)
    first, last = _limits(span)
    here = (track.ns >= first) & (track.ns <= last)
    data: dict[str, NDArray[Any]] = {name: track.integer(name)[here] for name in track.integers}
    data |= {name: track.column(name)[here] for name in track.signals.columns}
    return SignalTable(track.ns[here], data, track.spec.units, _about(recording))


def event_table(events: Iterable[Event]) -> SignalTable:
    """Return the events: step, kind, source and text of each, as columns of objects."""
    found = list(events)
    data: dict[str, NDArray[Any]] = {"step": np.array([e.tag.step for e in found], np.int64)}
    for name in ("kind", "source", "text"):
        data[name] = np.array([str(getattr(e, name)) for e in found], object)
    return SignalTable(np.array([e.tag.ns for e in found], np.int64), data)


def _messages(recording: Recorded) -> dict[str, Rows]:
    return {
        name.removeprefix(MESSAGES): track
        for name, track in recording.tracks.items()
        if name.startswith(MESSAGES)
    }


def _about(recording: Recorded) -> dict[str, str]:
    known = {name: recording.header.get(name) for name in ("rtsim", "scenario", "seed")}
    return {name: str(value) for name, value in known.items() if value is not None}


def _chosen(recording: Recorded, names: Sequence[str]) -> list[tuple[Rows, str, list[str]]]:
    """Return track, name and columns for each chosen track, in the order of the recording."""
    tracks = {name: track for name, track in recording.tracks.items() if "side" in track.integers}
    if not names:
        if not tracks:
            raise RecordingError(f"{recording.source} has no rows of a plant")
        return [(t, name, list(t.signals.columns)) for name, t in tracks.items()]
    every = tracks | _messages(recording)
    wanted: dict[str, list[str]] = {}
    known = [f"{name}.{column}" for name, t in every.items() for column in t.signals.columns]
    for name in names:
        found = False
        for of, track in every.items():
            for column in _matching(name, of, track):
                found = True
                have = wanted.setdefault(of, [])
                have += [] if column in have else [column]
        if not found:
            raise UnknownName("signal", name, [*every, *known], recording.source)
    return [(every[name], name, wanted[name]) for name in every if name in wanted]


def _matching(name: str, of: str, track: Rows) -> list[str]:
    """Return the columns of ``track`` that ``name`` means, in the order of the track."""
    if name == of:
        return list(track.signals.columns)
    out = []
    for signal in track.signals:
        whole = fnmatchcase(f"{of}.{signal.name}", name)
        out += [c for c in signal.columns if whole or f"{of}.{c}" == name]
    return out


def _rows(track: Rows, name: str, columns: list[str], side: Side) -> _Chosen:
    """Return the rows to take: one for each time."""
    if "arrival" in track.integers:
        arrival = track.integer("arrival")
        rows = np.flatnonzero(arrival >= 0)
        keys = (track.integer("arrival_step")[rows], arrival[rows])
        rows = rows[np.lexsort(keys)]
        ns = arrival[rows]
    else:
        ns = np.asarray(track.ns)
        rows = np.arange(len(ns))
    if len(ns):
        change = np.flatnonzero(np.diff(ns)) + 1
        at = np.r_[change, len(ns)] - 1 if side in _AFTER else np.r_[0, change]
        ns, rows = ns[at], rows[at]
    return _Chosen(track, name, ns, rows, columns)


def _limits(span: tuple[Duration, Duration] | None) -> tuple[int, int]:
    """Return the first and the last time, ns."""
    if span is None:
        return 0, np.iinfo(np.int64).max
    first, last = to_ns(span[0], "the first time"), to_ns(span[1], "the last time")
    if last < first:
        raise ScenarioError(
            f"no time lies from {first / NS_PER_S:g} to {last / NS_PER_S:g} s; give the earlier "
            "one first"
        )
    return first, last


def _times(chosen: list[_Chosen], rate: float | None, limits: tuple[int, int]) -> NDArray[np.int64]:
    """Return the common times within ``limits``, ns."""
    ns = np.unique(np.concatenate([np.empty(0, np.int64), *(one.ns for one in chosen)]))
    if rate is not None and not 0.0 < rate <= NS_PER_S:
        raise ScenarioError(f"a rate of {rate:g} Hz is impossible; give more than 0, at most 1e9")
    if rate is not None and len(ns):
        first, last = max(int(ns[0]), limits[0]), min(int(ns[-1]), limits[1])
        count = int(max(-1, last - first) * rate / NS_PER_S) + 1
        if count > MOST_CELLS:
            raise ScenarioError(f"a rate of {rate:g} Hz gives {count} rows; choose a lower rate")
        ns = first + np.rint(np.arange(count) * (NS_PER_S / rate)).astype(np.int64)
    return ns[(ns >= limits[0]) & (ns <= limits[1])]


def _taken(
    one: _Chosen, ns: NDArray[np.int64], own: bool
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return the row whose value counts at each time that has one, and which times have one."""
    at = np.searchsorted(one.ns, ns, side="right") - 1
    known = at >= 0
    if own:
        known &= one.ns[np.maximum(at, 0)] == ns if len(one.ns) else False
    return one.rows[at[known]], known
