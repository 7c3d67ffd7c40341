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

from rtsim.core.errors import RecordingError, UnknownName
from rtsim.core.signals import Signal, Vector
from rtsim.record.reading import Recording

TIMES = ("time", "t", "time_s", "seconds")
"""Names of the column with the times (s); a unit in brackets may follow."""
_HEAD = re.compile(r"\s*(?P<name>[^\[\]]+?)\s*(?:\[(?P<unit>[^\]]*)\])?\s*\Z")
_SKIPPED = ("time_ns", "ns")


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
    def of(cls, given: str | Path | Recording | Measurements) -> Measurements:
        """Return the measurements of a recording or of a file (``.mcap`` or CSV).

        Raises ``RecordingError`` if the file cannot be read.
        """
        if isinstance(given, Measurements):
            return given
        if isinstance(given, Recording):
            return cls._recorded("the recording", given)
        path = Path(given)
        if path.suffix == ".mcap":
            return cls._recorded(str(path), Recording.open(path))
        return cls._from_csv(path)

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
    def _from_csv(cls, path: Path) -> Measurements:
        try:
            with path.open(newline="", encoding="utf-8-sig") as file:
                reader = csv.reader(file)
                lines = [(reader.line_num, row) for row in reader if row]
        except (OSError, UnicodeDecodeError, csv.Error) as error:
            raise RecordingError(f"cannot read {path}: {error}") from None
        if len(lines) < 2:
            raise RecordingError(f"{path} has no rows below its header")
        head = lines[0][1]
        titles = [_title(path, text) for text in head]
        names = [name for name, _ in titles]
        if twice := [name for name, many in Counter(names).items() if many > 1]:
            raise RecordingError(
                f"{path} has two columns with the name {twice[0]}; rename or remove one"
            )
        times = [k for k, name in enumerate(names) if name.lower() in TIMES]
        if len(times) != 1:
            raise RecordingError(
                f"{path} needs one column with the times in s, named {' or '.join(TIMES)}; its "
                f"header is {', '.join(head)}"
            )
        for k, row in lines[1:]:
            if len(row) != len(names):
                raise RecordingError(
                    f"{path}, line {k} has {len(row)} values; the header has {len(names)}"
                )
        columns = {
            name: np.array([_number(path, k, row[i]) for k, row in lines[1:]])
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
                raise UnknownName("signal", name, self.signals, self.source)
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
            "separate the titles by commas"
        )
    if match["name"].lower() in TIMES and match["unit"] not in (None, "", "s"):
        raise RecordingError(f"{path}: the times are in {match['unit']}; give them in s")
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
