"""Measured signals for a fit, from a recording or a CSV file."""

from __future__ import annotations

import csv
import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from rtsim.core.errors import RecordingError, ScenarioError, UnknownName
from rtsim.core.signals import Signal, Vector
from rtsim.record.reading import Recording

TIMES = ("time", "t", "time_s", "seconds")
"""Names of the column with the times (s); a unit in brackets may follow."""
_HEAD = re.compile(r"\s*(?P<name>[^\[\]]+?)\s*(?:\[(?P<unit>[^\]]*)\])?\s*\Z")
_SKIPPED = ("time_ns", "ns")
_DELIMITERS = (",", ";", "\t")


@dataclass(frozen=True)
class Column:
    """A column of a CSV file, and how its values are converted: ``scale * value + offset``."""

    title: str
    scale: float = 1.0
    offset: float = 0.0

    @classmethod
    def of(cls, text: str) -> Column:
        """Return the column for ``TITLE[,scale=NUMBER][,offset=NUMBER]``."""
        title, *options = (part.strip() for part in text.split(","))
        found: dict[str, float] = {}
        for option in options:
            name, _, number = option.partition("=")
            try:
                found[name.strip()] = float(number)
            except ValueError:
                found = {"": math.nan}
        wrong = set(found) - {"scale", "offset"} or not all(map(math.isfinite, found.values()))
        if wrong or not title or found.get("scale") == 0.0:
            raise ScenarioError(
                f"{text!r} names no column; write TITLE, or TITLE,scale=NUMBER,offset=NUMBER with "
                "a scale other than 0"
            )
        return cls(title, **found)

    @property
    def converts(self) -> bool:
        return (self.scale, self.offset) != (1.0, 0.0)

    def converted(self, values: Vector) -> Vector:
        return self.scale * values + self.offset if self.converts else values


_UNCHANGED = Column("")


@dataclass(frozen=True)
class Measurements:
    """Signals over ``time`` (s), each of shape (n,); a missing value is NaN.

    ``units`` contains the declared units by name. ``table`` is true for a file in which each column
    is a measurement; a recording also contains signals that nobody wants to fit.
    """

    source: str
    time: Vector
    signals: Mapping[str, Vector]
    units: Mapping[str, str] = field(default_factory=dict)
    table: bool = False

    @classmethod
    def of(
        cls,
        given: str | Path | Recording | Measurements,
        columns: Mapping[str, str] | None = None,
    ) -> Measurements:
        """Return the measurements of a recording or of a file (``.mcap`` or CSV).

        ``columns`` contains columns of a CSV file by the name of their signal, or by ``"time"``:
        ``{"cart.x": "pos,scale=0.001"}``; :class:`Column` describes the texts.  Raises
        ``RecordingError`` if the file cannot be read.
        """
        table = isinstance(given, str | Path) and Path(given).suffix != ".mcap"
        if columns and not table:
            raise ScenarioError("columns have names of their own in a CSV file only; omit columns=")
        if isinstance(given, Measurements):
            return given
        if isinstance(given, Recording):
            return cls._recorded("the recording", given)
        path = Path(given)
        if path.suffix == ".mcap":
            return cls._recorded(str(path), Recording.open(path))
        return cls._from_csv(
            path, {name: Column.of(text) for name, text in (columns or {}).items()}
        )

    @classmethod
    def _recorded(cls, source: str, recording: Recording) -> Measurements:
        elements = {name: one.columns for name, one in _signals_of(recording)}
        signals: dict[str, Vector] = {}
        for name in recording.names:
            values = recording[name]
            if values.ndim == 1:
                signals[name] = values
            else:
                owner = name.rpartition(".")[0]
                columns = [f"{owner}.{column}" for column in elements[name]]
                signals |= dict(zip(columns, values.T, strict=True))
        return cls(source, recording.time, signals, units_of(recording))

    @classmethod
    def _from_csv(cls, path: Path, given: Mapping[str, Column]) -> Measurements:
        try:
            with path.open(newline="", encoding="utf-8-sig") as file:
                first = file.readline()
                file.seek(0)
                delimiter = next((one for one in _DELIMITERS if one in first), ",")
                reader = csv.reader(file, delimiter=delimiter)
                lines = [(reader.line_num, row) for row in reader if row]
        except (OSError, UnicodeDecodeError, csv.Error) as error:
            raise RecordingError(f"cannot read {path}: {error}") from None
        if len(lines) < 2:
            raise RecordingError(f"{path} has no rows below its header")
        head = lines[0][1]
        titles = [_title(path, text) for text in head]
        changed = {}
        for name, column in given.items():
            if column.title not in (known := [title for title, _ in titles]):
                raise UnknownName("column", column.title, known, str(path))
            if known.index(column.title) in changed:
                raise ScenarioError(f"columns give the column {column.title} twice; omit one")
            changed[known.index(column.title)] = (name, column)
        titles = [
            (changed[k][0], "1" if changed[k][1].converts else unit)
            if k in changed
            else (name, unit)
            for k, (name, unit) in enumerate(titles)
        ]
        names = [name for name, _ in titles]
        if twice := [name for name, many in Counter(names).items() if many > 1]:
            raise RecordingError(
                f"{path} has two columns with the name {twice[0]}; rename or remove one"
            )
        times = [k for k, name in enumerate(names) if name.lower() in TIMES]
        if "time" in given:
            times = [names.index("time")]
        if len(times) != 1:
            raise RecordingError(
                f"{path} needs one column with the times in s, named {' or '.join(TIMES)}; its "
                f"header is {', '.join(head)}. Name the column: --column time=TITLE"
            )
        if (unit := titles[times[0]][1]) not in ("1", "s"):
            title = _title(path, head[times[0]])[0]
            raise RecordingError(
                f"{path}: the times are in {unit}; give them in s, or convert them: "
                f"--column time={title},scale=0.001"
            )
        for k, row in lines[1:]:
            if len(row) != len(names):
                raise RecordingError(
                    f"{path}, line {k} has {len(row)} values; the header has {len(names)}"
                )
        columns = {
            name: changed.get(i, ("", _UNCHANGED))[1].converted(
                np.array([_number(path, k, row[i]) for k, row in lines[1:]])
            )
            for i, name in enumerate(names)
            if name not in _SKIPPED
        }
        time = columns.pop(names[times[0]])
        if not (np.isfinite(time).all() and time[0] >= 0.0 and (np.diff(time) > 0).all()):
            raise RecordingError(f"the times of {path} must be >= 0 s and in ascending order")
        return cls(str(path), time, columns, dict(titles), table=True)

    def chosen(self, names: Sequence[str]) -> dict[str, Vector]:
        """Return the signals ``names``; raise :class:`UnknownName` for an unknown name."""
        for name in names:
            if name not in self.signals:
                error = UnknownName("signal", name, self.signals, self.source)
                if self.table:
                    error.add_note(f"to name the column of this signal: --column {name}=TITLE")
                raise error
        return {name: self.signals[name] for name in names}


def _signals_of(recording: Recording) -> Iterator[tuple[str, Signal]]:
    """Yield the signals of a recording with their names ``component.signal``."""
    for one in recording.component_values:
        owner = one.name.partition(".")[0]
        for signal in one.rows.signals:
            yield f"{owner}.{signal.name}", signal


def units_of(recording: Recording) -> dict[str, str]:
    """Return the units of all columns, by ``component.column``."""
    return {
        f"{name.rpartition('.')[0]}.{column}": signal.unit
        for name, signal in _signals_of(recording)
        for column in signal.columns
    }


def _title(path: Path, text: str) -> tuple[str, str]:
    """Return name and unit of a column: ``cart.x [m]`` gives ``("cart.x", "m")``."""
    match = _HEAD.match(text)
    if match is None:
        raise RecordingError(
            f"{path}: cannot read the title {text!r}; write 'cart.x [m]', and "
            "separate the titles by commas, semicolons or tabs"
        )
    unit = (match["unit"] or "").strip()
    return match["name"], "1" if unit in ("", "-") else unit


def _number(path: Path, line: int, text: str) -> float:
    if not text.strip():
        return math.nan
    try:
        value = float(text)
    except ValueError:
        raise RecordingError(f"{path}, line {line}: {text!r} is not a number") from None
    if math.isinf(value):
        raise RecordingError(
            f"{path}, line {line}: {text!r} is not finite; leave the cell of a missing value empty"
        )
    return value
