"""The results of one run, from its rows: reductions, functions of a recording, margins, digest."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rtsim.core.errors import ScenarioError, UnknownName
from rtsim.core.signals import Vector
from rtsim.core.tag import NS_PER_S
from rtsim.record.schema import TrackSpec
from rtsim.studies.columns import Column, Points, Series
from rtsim.studies.histories import History
from rtsim.studies.reductions import Reduction, Running
from rtsim.studies.requirements import Requirement

if TYPE_CHECKING:
    from rtsim.record.reading import Recording

FromRecording = Callable[["Recording"], float]
"""A result that is a function of the recording of a run."""
Result = Reduction | FromRecording


def margin_name(requirement: Requirement) -> str:
    """Return the column that holds the margin of ``requirement``."""
    return margin_column(requirement.name)


def margin_column(requirement: str) -> str:
    """Return the column that holds the margin of the requirement with this name."""
    return f"{requirement}.margin"


class _Reduced:
    """One reduction of one run: the series that it reads, and its value so far."""

    def __init__(self, of: Reduction) -> None:
        self.of, self.series = of, Series(of.signal, of.after, of.before)
        self.column = self.series.column
        self.running: Running = of.begin()

    def take(self, spec: TrackSpec, words: NDArray[np.int64]) -> None:
        if self.of.of_rows:
            self._give(self.series.rows(spec, words))
        else:
            self._give(self.series.take(spec, words))

    def end(self, ended_ns: int) -> None:
        if not self.of.of_rows:
            self._give(self.series.end(ended_ns))

    def value(self, ended_ns: int) -> float:
        return math.nan if self.series.uncovered(ended_ns) else self.running.value()

    def _give(self, points: Points) -> None:
        ns, v = points
        if len(ns):
            self.running.held = self.series.held
            self.running.take(ns / NS_PER_S, v)


class Measures:
    """Takes the rows of one run and gives its results."""

    def __init__(
        self,
        results: Mapping[str, Result],
        requirements: Sequence[Requirement],
        histories: Sequence[History] = (),
    ) -> None:
        self._results, self._requirements, self._histories = results, requirements, histories
        self._reduced = {n: _Reduced(r) for n, r in results.items() if isinstance(r, Reduction)}
        self._of_track: dict[str, list[_Reduced | History]] = {}
        readers: list[_Reduced | History] = [*self._reduced.values(), *histories]
        for one in readers:
            for track in one.column.tracks:
                self._of_track.setdefault(track, []).append(one)
        self._tracks: set[str] = set()
        self._digests: dict[str, tuple[str, Any]] = {}
        self._rows: dict[str, int] = {}

    @property
    def needs_recording(self) -> bool:
        """True if a result is a function of the recording."""
        return len(self._reduced) < len(self._results)

    def take(self, spec: TrackSpec, words: NDArray[np.int64]) -> None:
        """Take further rows (n, width) of a track."""
        self._tracks.add(spec.name)
        if spec.deterministic:
            if spec.name not in self._digests:
                layout = _layout(spec.name, spec.integers, spec.signals.columns)
                self._digests[spec.name] = layout, hashlib.sha256()
            self._digests[spec.name][1].update(np.ascontiguousarray(words, "<i8").data)
            self._rows[spec.name] = self._rows.get(spec.name, 0) + len(words)
        for one in self._of_track.get(spec.name, ()):
            one.take(spec, words)

    def take_recording(self, recording: Recording) -> None:
        """Take all rows of a recording."""
        for track in recording.tracks.values():
            self.take(track.spec, np.asarray(track.words))

    def digest(self) -> str:
        """Return the SHA-256 of all rows of the deterministic tracks, as 64 hex digits.

        Equal runs have equal digests, at any pace and on any engine.
        """
        out = hashlib.sha256()
        for name, (layout, rows) in sorted(self._digests.items()):
            out.update(f'[{layout}, {self._rows[name]}, "{rows.hexdigest()}"]'.encode())
        return out.hexdigest()

    def values(self, ended_ns: int, recording: Callable[[], Recording]) -> dict[str, float]:
        """Return all results and the margins of the requirements, by the names of their columns.

        ``ended_ns``: the end of the run.  Call this once, after the last row.  Raises
        :class:`UnknownName` if a reduction reads a track that the run does not have.
        """
        out: dict[str, float] = {}
        for name, result in self._results.items():
            if name in self._reduced:
                one = self._reduced[name]
                self._check(one.column, f"result {name}")
                one.end(ended_ns)
                out[name] = one.value(ended_ns)
            else:
                assert not isinstance(result, Reduction)
                out[name] = _number(name, result(recording()))
        for requirement in self._requirements:
            out[margin_name(requirement)] = requirement.margin(out[requirement.result])
        return out

    def uncovered(self, ended_ns: int) -> list[str]:
        """Return for each result whose window exceeds the run why it has no value."""
        whys = {name: one.series.uncovered(ended_ns) for name, one in self._reduced.items()}
        return [f"result {name}: {why}" for name, why in whys.items() if why]

    def histories(self, ended_ns: int) -> dict[str, Vector]:
        """Return the time histories (points,) of a run that ended at ``ended_ns``, by signal.

        Raises :class:`UnknownName` if the run does not have the track of a signal.
        """
        for one in self._histories:
            self._check(one.column, f"the history of {one.signal}")
        return {one.signal: one.values(ended_ns) for one in self._histories}

    def _check(self, column: Column, where: str) -> None:
        if not set(column.tracks) & self._tracks:
            raise UnknownName("track", column.track, sorted(self._tracks), where)


@cache
def _layout(name: str, integers: tuple[str, ...], columns: tuple[str, ...]) -> str:
    """Return the names of a track as JSON text, without the brackets around it."""
    return json.dumps([name, integers, columns])[1:-1]


def _number(name: str, value: object) -> float:
    try:
        return float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        raise ScenarioError(
            f"the function of the result {name} returned {value!r}; return one number"
        ) from None
