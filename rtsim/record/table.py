"""Tables of recorded signals, with a row for each time and a column for each signal.

:func:`signal_table` combines their signals in one table. Methods convert the table to an Arrow
table, a DataFrame of pandas or polars, or a Dataset of xarray. These packages are optional.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, TypedDict

import numpy as np
from numpy.typing import NDArray

from rtsim.core.errors import (
    NotRecorded,
    RecordingError,
    ScenarioError,
    UnknownName,
    memory_is_hidden,
)
from rtsim.core.extras import extra
from rtsim.core.signals import Vector
from rtsim.core.tag import NS_PER_S, Duration, to_ns
from rtsim.record.component_values import MESSAGES, PARAMETERS, SAMPLED, Rows, Values, names_of

if TYPE_CHECKING:
    from rtsim.record.events import Event


Side = Literal["plus", "minus", "+", "-"]
_AFTER, _BEFORE = ("plus", "+"), ("minus", "-")
TIME, TIME_NS = "time [s]", "time_ns"
MOST_CELLS = 500_000_000
"""Maximum number of values in a table, which take 4 GB."""


class Recorded(Protocol):
    """Interface of recordings for tables."""

    @property
    def source(self) -> str: ...

    @property
    def header(self) -> Mapping[str, Any]: ...

    @property
    def footer(self) -> Mapping[str, Any] | None: ...

    @property
    def span_ns(self) -> tuple[int, int]:
        """First and last time of the recording [ns]."""
        ...

    @property
    def from_start(self) -> bool:
        """Return whether the recording contains the start of the run."""
        ...

    @property
    def tracks(self) -> Mapping[str, Rows]: ...

    @property
    def component_values(self) -> Sequence[Values]: ...


class TableKeywords(TypedDict, total=False):
    """Keyword arguments of :func:`signal_table`."""

    side: Side
    rate: float | None
    own: bool
    span: tuple[Duration, Duration] | None


@dataclass(frozen=True)
class SignalTable:
    """Columns (n,) of doubles or integers at the times ``ns`` (n,).

    Times may repeat in tables of messages. ``units`` contains the unit of each column.
    """

    ns: NDArray[np.int64]
    columns: Mapping[str, NDArray[Any]]
    units: Mapping[str, str] = field(default_factory=dict)
    about: Mapping[str, str] = field(default_factory=dict)
    """Origin of the table: version of rtsim, scenario and seed."""
    held: frozenset[str] = frozenset()
    """Columns whose values are constant until the next row, such as those of messages and sources.
    """

    def __len__(self) -> int:
        return len(self.ns)

    def __getitem__(self, name: str) -> NDArray[Any]:
        """Return a column (n,); raise ``UnknownName`` for unknown names."""
        try:
            return self.columns[name]
        except KeyError:
            raise UnknownName("column", name, self.columns, "this table") from None

    @property
    def time(self) -> Vector:
        """Simulated time of each row [s], shape (n,)."""
        return self.ns / NS_PER_S

    def to_arrow(self) -> Any:
        """Return a ``pyarrow.Table`` whose first column is ``time_ns``.

        Columns are not copied. The metadata of a column contain its unit.
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
        """Return a ``pandas.DataFrame`` over the time in s; ``attrs`` contains the units."""
        pandas = extra("pandas", "data", "a DataFrame")
        frame = pandas.DataFrame(dict(self.columns), index=pandas.Index(self.time, name=TIME))
        frame.attrs["units"] = dict(self.units)
        return frame

    def to_polars(self) -> Any:
        """Return a ``polars.DataFrame`` with the time in s and in ns."""
        polars = extra("polars", "data", "a DataFrame of polars")
        return polars.DataFrame({TIME: self.time, TIME_NS: self.ns, **self.columns})

    def to_xarray(self) -> Any:
        """Return an ``xarray.Dataset`` over the time in s.

        Each variable has an attribute ``units``.
        """
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
        return str(self.thinned(10).to_pandas()._repr_html_())

    def thinned(self, rows: int) -> SignalTable:
        """Return a table of at most ``rows`` rows, from the start and the end of this table."""
        if len(self) <= rows:
            return self
        first = rows // 2
        at = np.r_[0:first, len(self) - (rows - first) : len(self)]
        columns = {name: values[at] for name, values in self.columns.items()}
        return replace(self, ns=self.ns[at], columns=columns)

    def __repr__(self) -> str:
        names = ", ".join(list(self.columns)[:4]) + (", ..." if len(self.columns) > 4 else "")
        return f"<SignalTable of {len(self)} rows and {len(self.columns)} columns: {names}>"


@dataclass(frozen=True)
class _Chosen:
    of: Values
    ns: NDArray[np.int64]
    rows: NDArray[np.int64]
    columns: dict[str, str]
    before: bool
    """True if a row takes effect only after its own time."""


def signal_table(
    recording: Recorded,
    names: Sequence[object] = (),
    *,
    side: Side = "plus",
    rate: float | None = None,
    own: bool = False,
    span: tuple[Duration, Duration] | None = None,
    ns: NDArray[np.int64] | None = None,
) -> SignalTable:
    """Return signals of ``recording`` at common times.

    An output of a controller changes when its message arrives. Messages that did not arrive have no
    effect. Between the rows of a component, its signals are constant.

    Before the first row, signals are NaN. Before their first row, messages and external inputs have
    their declared initial values. Sources and parameters have a value at each time.

    Args:
        recording: The recording to read.
        names: Components (``"f16"``), signals (``"f16.altitude"``), patterns (``"*.x"``), handles
            and their signals, sampled inputs of controllers, or parameters. The default is all
            signals of the run.
        side: ``"plus"`` or ``"+"`` for the values after the discrete changes at a time, ``"minus"``
            or ``"-"`` for the values before these changes. Each time occurs once in the table.
        rate: Frequency in Hz of equidistant times, from the first row on. Without a rate, the table
            contains the times of all selected rows. Without names, the times of
            :func:`common_times` are included.
        own: If True, columns are NaN at times at which their component has no row.
        span: First and last time in s.
        ns: Increasing times (n,) of the table, instead of ``rate`` and ``span``.

    Raises:
        UnknownName: A name matches no signal, or ``side`` is unknown.
        ScenarioError: The rate or the span is impossible, the table is too large, or a name has a
            wrong type.
        RecordingError: The recording has no signals.
    """
    if side not in _AFTER + _BEFORE:
        raise UnknownName("side of an instant", str(side), _AFTER + _BEFORE)
    known = recording.component_values
    end = _end_ns(recording)
    chosen = [_rows(one, columns, side, end) for one, columns in _chosen(recording, known, names)]
    if ns is None:
        own_ns = [one.ns for one in chosen if one.of.timed]
        if not names or not own_ns:
            own_ns.append(common_times(recording))
        ns = _times(own_ns, rate, _limits(span))
    wide = sum(len(one.columns) for one in chosen)
    if len(ns) * wide > MOST_CELLS:
        raise ScenarioError(
            f"a table of {len(ns)} rows and {wide} columns would take {8e-9 * len(ns) * wide:.1f} "
            "GB; choose signals, a part of the time, or a lower rate"
        )
    data: dict[str, NDArray[Any]] = {}
    units: dict[str, str] = {}
    held: set[str] = set()
    for one in chosen:
        rows, filled = _taken(one, ns, own and one.of.timed)
        for title, column in one.columns.items():
            values = np.full(len(ns), np.nan)
            if not own:
                values[:] = _first_of(recording, one.of, column)
            values[filled] = one.of.rows.column(column)[rows]
            data[title] = values
            units[title] = one.of.rows.spec.units[column]
        if "side" not in one.of.rows.integers:
            held.update(one.columns)
    return SignalTable(ns, data, units, _about(recording), frozenset(held))


def signal_values(recording: Recorded, name: object, ns: NDArray[np.int64]) -> Vector:
    """Return a signal at the increasing times ``ns`` (n,).

    The shape is (n,), or (n, size) for an array. :func:`signal_table` explains the values. Raises
    :class:`UnknownName` if ``name`` is no signal.
    """
    text, known = _text_of(name), recording.component_values
    found = _signal(known, text)
    if found is None:
        raise _unknown(recording, known, text)
    at, columns = found
    chosen = _rows(known[at], columns, "plus", _end_ns(recording))
    rows, filled = _taken(chosen, ns, own=False)
    signal = text.rpartition(".")[2]
    signals = known[at].rows.signals
    scalar = signal not in signals or not signals[signal].shape
    out: Vector = np.full(len(ns) if scalar else (len(ns), len(columns)), np.nan)
    out[:] = _first_of(recording, known[at], signal)
    out[filled] = known[at].rows.column(signal)[rows]
    return out


class Changes(NamedTuple):
    """Changes of a signal: times (n,) in ns, order (n,) of equal times, and values (n,).

    ``order`` is twice the microstep, plus 1 for the value after the microstep's changes. ``first``
    is the value before the first change, or NaN.
    """

    ns: NDArray[np.int64]
    order: NDArray[np.int64]
    values: Vector
    first: float


def signal_of(recording: Recorded, name: str) -> tuple[Values, str]:
    """Return the component and the column of a scalar signal.

    Raises ``UnknownName`` for an unknown signal, and ``ScenarioError`` for an array.
    """
    known = recording.component_values
    found = _signal(known, name)
    if found is None:
        raise _unknown(recording, known, name)
    at, columns = found
    if len(columns) > 1:
        raise ScenarioError(f"{name} is an array; give one of its elements: {name}[0]")
    return known[at], next(iter(columns.values()))


def signal_changes(recording: Recorded, name: str) -> Changes:
    """Return all values of a scalar signal, even several at the same time.

    An output of a controller changes when its message arrives. Errors are those of
    :func:`signal_of`.
    """
    one, column = signal_of(recording, name)
    track, values = one.rows, one.rows.column(column)
    if one.read and "side" not in track.integers:
        raise NotRecorded(
            name,
            "is recorded only where a controller or a sensor samples it; use the signal of that "
            "component",
        )
    first = float(np.ravel(_first_of(recording, one, column))[0])
    step = track.integer("step") if "step" in track.integers else np.zeros(len(values), np.int64)
    if "arrival" in track.integers:
        ns, step = track.integer("arrival"), track.integer("arrival_step")
        rows = np.flatnonzero((ns >= 0) & (ns <= _end_ns(recording)))
        rows = rows[np.lexsort((step[rows], ns[rows]))]
        ns, step, values = ns[rows], step[rows], values[rows]
    else:
        ns = np.asarray(track.ns)
    after = track.integer("side") if "side" in track.integers else 1
    order = 2 * step + after
    last = np.append((np.diff(ns) > 0) | (np.diff(order) > 0), True)[: len(ns)]
    return Changes(ns[last], order[last], np.asarray(values)[last], first)


def common_times(recording: Recorded) -> NDArray[np.int64]:
    """Return the times (n,) of all rows of plants in ns, each time once.

    Without plants, the result contains the times of all rows and changes, and both ends of the
    recording.
    """
    known, (first, last) = recording.component_values, recording.span_ns
    plants = [one for one in known if one.name in recording.tracks and "side" in one.rows.integers]
    end = _end_ns(recording)
    found = [_rows(one, {}, "plus", end).ns for one in plants or known]
    if plants:
        return _times(found, None, _limits(None))
    return _times([np.array([first, last]), *found], None, (first, last))


def _first_of(recording: Recorded, one: Values, name: str) -> Any:
    if not (one.begins and recording.from_start):
        return np.nan
    signals = one.rows.signals
    first = signals.initial()
    return first[signals.slice(name)] if name in signals else first[signals.columns.index(name)]


def _end_ns(recording: Recorded) -> int:
    footer = recording.footer or {}
    ended = footer.get("ended")
    if isinstance(ended, int):
        return ended
    return max((int(t.ns[-1]) for t in recording.tracks.values() if len(t.ns)), default=0)


def message_table(
    recording: Recorded, port: str, span: tuple[Duration, Duration] | None = None
) -> SignalTable:
    """Return a table of the messages of ``port``, with their times [ns].

    ``span`` contains the first and the last time of the table in s. Raises ``UnknownName`` if
    ``port`` has no messages.
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
    """Return a table of events with microstep, kind, source and text."""
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


def _chosen(
    recording: Recorded, known: Sequence[Values], names: Sequence[object]
) -> list[tuple[Values, dict[str, str]]]:
    if not names:
        found = [(one, _titled(one)) for one in known if one.listed]
        if not found:
            raise RecordingError(f"{recording.source} has no signals")
        return found
    wanted: list[dict[str, str]] = [{} for _ in known]
    for name in map(_text_of, names):
        matches = _named(known, name) or _matching(known, name)
        if not matches:
            raise _unknown(recording, known, name)
        for at, columns in matches:
            wanted[at] |= columns
    return [(one, columns) for one, columns in zip(known, wanted, strict=True) if columns]


def _text_of(name: object) -> str:
    text = name if isinstance(name, str) else getattr(name, "__name__", None)
    if not isinstance(text, str):
        raise ScenarioError(
            f"{name!r} is not the name of a signal; write 'component.signal', or component.signal "
            "of a handle"
        )
    return str(text)


def _titled(one: Values) -> dict[str, str]:
    return {f"{one.name}.{column}": column for column in one.rows.signals.columns}


def _named(known: Sequence[Values], name: str) -> list[tuple[int, dict[str, str]]]:
    whole = [(at, _titled(one)) for at, one in enumerate(known) if one.name == name]
    signal = _signal(known, name)
    return whole or ([] if signal is None else [signal])


def _signal(known: Sequence[Values], name: str) -> tuple[int, dict[str, str]] | None:
    owner, _, signal = name.rpartition(".")
    for of in (owner, owner + SAMPLED, owner + PARAMETERS):
        for at, one in enumerate(known):
            signals = one.rows.signals
            if one.name == of and signal in signals:
                return at, {f"{owner}.{column}": column for column in signals[signal].columns}
            if one.name == of and signal in signals.columns:
                return at, {name: signal}
    return None


def _matching(known: Sequence[Values], pattern: str) -> list[tuple[int, dict[str, str]]]:
    found = []
    for at, one in enumerate(known):
        if not one.name.endswith(PARAMETERS):
            columns = {
                f"{one.name}.{column}": column
                for signal in one.rows.signals
                if fnmatchcase(f"{one.name}.{signal.name}", pattern)
                for column in signal.columns
            }
            found += [(at, columns)] if columns else []
    return found


def _unknown(recording: Recorded, known: Sequence[Values], name: str) -> UnknownName:
    signals = names_of(known)
    owner, _, signal = name.partition(".")
    memory = (recording.header.get("memory") or {}).get(owner) or {}
    if signal in memory:
        return memory_is_hidden(name, str(memory[signal]))
    if owner in signals:
        near = [f"{owner}.{one}" for one in signals[owner]]
    else:
        near = [*signals, *(f"{one}.{each}" for one, some in signals.items() for each in some)]
    return UnknownName("signal", name, near, recording.source)


def _rows(of: Values, columns: dict[str, str], side: Side, end: int) -> _Chosen:
    track = of.rows
    if "arrival" in track.integers:
        arrival = track.integer("arrival")
        rows = np.flatnonzero((arrival >= 0) & (arrival <= end))
        keys = (track.integer("arrival_step")[rows], arrival[rows])
        rows = rows[np.lexsort(keys)]
        ns = arrival[rows]
    else:
        ns = np.asarray(track.ns)
        rows = np.arange(len(ns))
    held, before = "side" not in track.integers, side not in _AFTER
    if len(ns):
        change = np.flatnonzero(np.diff(ns)) + 1
        at = np.r_[0, change] if before and not held else np.r_[change, len(ns)] - 1
        ns, rows = ns[at], rows[at]
    return _Chosen(of, ns, rows, columns, before and held)


def _limits(span: tuple[Duration, Duration] | None) -> tuple[int, int]:
    if span is None:
        return 0, np.iinfo(np.int64).max
    first, last = to_ns(span[0], "the first time"), to_ns(span[1], "the last time")
    if last < first:
        raise ScenarioError(
            f"no time lies from {first / NS_PER_S:g} to {last / NS_PER_S:g} s; give the earlier "
            "one first"
        )
    return first, last


def _times(
    times: Sequence[NDArray[np.int64]], rate: float | None, limits: tuple[int, int]
) -> NDArray[np.int64]:
    ns = np.unique(np.concatenate([np.empty(0, np.int64), *times]))
    if rate is not None and not 0.0 < rate <= NS_PER_S:
        raise ScenarioError(f"a rate of {rate:g} Hz is impossible; give more than 0, at most 1e9")
    if rate is not None and len(ns):
        first, last = max(int(ns[0]), limits[0]), min(int(ns[-1]), limits[1])
        count = int(max(-1, last - first) * rate / NS_PER_S) + 1
        if count > MOST_CELLS:
            raise ScenarioError(
                f"a rate of {rate:g} Hz gives {count} rows, but a table can have at most "
                f"{MOST_CELLS} values; choose a lower rate"
            )
        ns = first + np.rint(np.arange(count) * (NS_PER_S / rate)).astype(np.int64)
    return ns[(ns >= limits[0]) & (ns <= limits[1])]


def _taken(
    one: _Chosen, ns: NDArray[np.int64], own: bool
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    at = np.searchsorted(one.ns, ns, side="left" if one.before else "right") - 1
    known = at >= 0
    if own:
        known &= np.isin(ns, one.ns)
    return one.rows[at[known]], known
