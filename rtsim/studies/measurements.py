"""Measured signals for a fit, from a recording or a CSV file."""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from rtsim.core.errors import RecordingError, UnknownName
from rtsim.core.signals import Vector
from rtsim.record.reading import Recording

TIMES = ("time", "t", "time_s", "seconds")
"""Names of the column with the times (s); a unit in brackets may follow."""
_HEAD = re.compile(r"\s*(?P<name>[^\[\]]+?)\s*(?:\[(?P<unit>[^\]]*)\])?\s*\Z")
_SKIPPED = ("time_ns", "ns")


@dataclass(frozen=True)
class Measurements:
    """Measured signals over ``time`` (s), each (n,), with NaN for missing values."""

    source: str
    time: Vector
    signals: Mapping[str, Vector]

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
        names = [name for name in recording.names if np.ndim(recording[name]) == 1]
        return cls(source, recording.time, {name: recording[name] for name in names})

    @classmethod
    def _from_csv(cls, path: Path) -> Measurements:
        try:
            with path.open(newline="", encoding="utf-8-sig") as file:
                rows = [row for row in csv.reader(file) if row]
        except (OSError, UnicodeDecodeError, csv.Error) as error:
            raise RecordingError(f"cannot read {path}: {error}") from None
        if len(rows) < 2:
            raise RecordingError(f"{path} has no rows below its header")
        names = [_name(path, text) for text in rows[0]]
        times = [k for k, name in enumerate(names) if name.lower() in TIMES]
        if len(times) != 1:
            raise RecordingError(
                f"{path} needs one column with the times in s, named {' or '.join(TIMES)}; its "
                f"header is {', '.join(rows[0])}"
            )
        for k, row in enumerate(rows[1:], start=2):
            if len(row) != len(names):
                raise RecordingError(
                    f"{path}, line {k} has {len(row)} values; the header has {len(names)}"
                )
        columns = {
            name: np.array([_number(path, k, row[i]) for k, row in enumerate(rows[1:], start=2)])
            for i, name in enumerate(names)
            if name not in _SKIPPED
        }
        time = columns.pop(names[times[0]])
        if not (np.isfinite(time).all() and time[0] >= 0.0 and (np.diff(time) > 0).all()):
            raise RecordingError(f"the times of {path} must be >= 0 s and in ascending order")
        return cls(str(path), time, columns)

    def chosen(self, names: Sequence[str]) -> dict[str, Vector]:
        """Return the signals ``names``; raise :class:`UnknownName` for an unknown name."""
        for name in names:
            if name not in self.signals:
                raise UnknownName("signal", name, self.signals, self.source)
        return {name: self.signals[name] for name in names}


def _name(path: Path, text: str) -> str:
    match = _HEAD.match(text)
    if match is None:
        raise RecordingError(f"{path}: cannot read the title {text!r}; write 'cart.x [m]'")
    if match["name"].lower() in TIMES and match["unit"] not in (None, "", "s"):
        raise RecordingError(f"{path}: the times are in {match['unit']}; give them in s")
    return match["name"]


def _number(path: Path, line: int, text: str) -> float:
    if not text.strip():
        return math.nan
    try:
        return float(text)
    except ValueError:
        raise RecordingError(f"{path}, line {line}: {text!r} is not a number") from None
