"""Results of one run: requirements, reductions of signals, and the row of a study.

By default, a study stores no recordings. ``Measures`` computes reductions, margins and a digest
during the run, without a recording. A result that is a function of a recording is computed after
the run.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rtsim.core.errors import ScenarioError, UnknownName
from rtsim.core.outcome import Outcome
from rtsim.core.signals import Vector
from rtsim.core.tag import NS_PER_S
from rtsim.record.schema import TrackSpec
from rtsim.requirements.requirement import Requirement, gather
from rtsim.studies.reductions import Reduction, Running

if TYPE_CHECKING:
    from rtsim.record.reading import Recording
    from rtsim.requirements.verdict import RequirementResult
    from rtsim.studies.plan import Ordered


_SIGNS = r"<=|>=|<|>"
_TERM = r"[^<>=]+?"
_TEXT = re.compile(
    rf"\s*(?:(?P<name>{_TERM})\s*=\s*)?"
    rf"(?P<first>{_TERM})\s*(?P<sign>{_SIGNS})\s*(?P<second>{_TERM})\s*"
    rf"(?:(?P<other>{_SIGNS})\s*(?P<third>{_TERM})\s*)?"
)
_HELP = (
    "write, for example, 'peak<0.2', '0.9<end<1.0' or 'NAME=peak<0.2', or a formula with a name, "
    "such as 'SPEED: always cart.v < 2 m/s'"
)


@dataclass(frozen=True)
class Limit:
    """Limit of a result: at most ``below``, at least ``above``, or both.

    The margin is the distance of a result from the nearer limit. A run passes if its margin is not
    negative. A result that is NaN fails.
    """

    result: str
    below: float | None = None
    above: float | None = None
    name: str = ""

    def __post_init__(self) -> None:
        if self.below is None and self.above is None:
            raise ScenarioError(
                f"the requirement of {self.result} has no limit; give below=, above= or both"
            )
        for limit in (self.below, self.above):
            if limit is not None and not math.isfinite(limit):
                raise ScenarioError(
                    f"a limit of {self.result} is {limit}, so the requirement is always or never "
                    "met; give a finite number"
                )
        if self.below is not None and self.above is not None and self.above > self.below:
            raise ScenarioError(
                f"no result {self.result} is at least {self.above:g} and at most {self.below:g}; "
                "exchange the limits"
            )
        if not self.name:
            object.__setattr__(self, "name", self.result)

    @classmethod
    def of_text(cls, text: str) -> Limit:
        """Parse a requirement.

        ``peak < 0.2`` has one limit, ``0.9 < end < 1.0`` has two, and ``NAME = peak < 0.2`` also
        has a name. ``<`` and ``<=`` have the same meaning.
        """
        found = _TEXT.fullmatch(text)
        if found is None:
            raise ScenarioError(f"requirement {text!r} has no limit; {_HELP}")
        first, sign, second = found["first"], found["sign"][0], found["second"]
        name = found["name"] or ""
        if found["other"] is None:
            # The limit comes first, as in 0.2 > peak.
            if _number_of(second) is None and _number_of(first) is not None:
                first, sign, second = second, ">" if sign == "<" else "<", first
            limit = _limit(text, second)
            below, above = (limit, None) if sign == "<" else (None, limit)
            return cls(first, below, above, name)
        if found["other"][0] != sign:
            raise ScenarioError(f"requirement {text!r} contains both < and >; {_HELP}")
        ends = (first, found["third"]) if sign == "<" else (found["third"], first)
        low, high = (_limit(text, end) for end in ends)
        return cls(second, high, low, name)

    def margin(self, value: float) -> float:
        """Return the margin of a run with the result ``value``, or NaN."""
        margins = []
        if self.below is not None:
            margins.append(self.below - value)
        if self.above is not None:
            margins.append(value - self.above)
        return math.nan if math.isnan(value) else min(margins)

    def to_plain(self) -> dict[str, Any]:
        """Return JSON data for :meth:`of`."""
        return {
            "result": self.result, "below": self.below, "above": self.above, "name": self.name,
        }  # fmt: skip

    @classmethod
    def of(cls, plain: Mapping[str, Any]) -> Limit:
        return cls(**plain)

    def __str__(self) -> str:
        low = "" if self.above is None else f"{self.above:g} <= "
        high = "" if self.below is None else f" <= {self.below:g}"
        return f"{low}{self.result}{high}"


def _number_of(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _limit(text: str, part: str) -> float:
    limit = _number_of(part)
    if limit is None:
        raise ScenarioError(f"requirement {text!r}: {part!r} is not a number; {_HELP}")
    return limit


_MESSAGES = "messages/"
_HELD = (_MESSAGES, "inputs/", "values/")
Points = tuple[NDArray[np.int64], Vector]
"""Times (n,) in ns, in ascending order, and values (n,) at these times."""
_NO_POINTS: Points = (np.empty(0, np.int64), np.empty(0))


class Column:
    """Position of a signal (``"component.name"``) in the rows of its track."""

    def __init__(self, signal: str) -> None:
        """Split the name of a signal into component and signal.

        Raises ``ScenarioError`` for a name without a component.
        """
        self.track, dot, self.name = signal.rpartition(".")
        if not dot:
            raise ScenarioError(
                f"{signal!r} is not a signal of a component; write COMPONENT.SIGNAL"
            )
        self.tracks = (self.track, f"{_MESSAGES}{self.track}")
        self._at = -1

    def of(self, spec: TrackSpec, words: NDArray[np.int64]) -> Vector:
        """Return the values (n,) of the signal in n rows of its track.

        Raises ``UnknownName`` if the track lacks the signal.
        """
        if self._at < 0:
            columns = spec.signals.columns
            if self.name not in columns:
                raise UnknownName("signal", self.name, columns, f"track {self.track}")
            self._at = 1 + len(spec.integers) + columns.index(self.name)
        return words[:, self._at].view(np.float64)

    def initial(self, spec: TrackSpec) -> float:
        return float(spec.signals.initial()[spec.signals.columns.index(self.name)])


class Series:
    """Values of a signal within a time window of a run.

    The first and the last point are at the ends of the window.

    - A signal of messages keeps each value until the next message arrives. Before the first
      message, the signal has its declared initial value.
    - A signal of a plant is interpolated linearly between two rows.
    """

    def __init__(self, signal: str, after: float = 0.0, before: float = math.inf) -> None:
        """Set the time window from ``after`` to ``before`` (s)."""
        self.column = Column(signal)
        self.held = False
        """True if the signal keeps each value until the next point. The attribute is valid after
        the first call of :meth:`take`.
        """
        self._begin = round(after * NS_PER_S)
        self._end = None if before == math.inf else round(before * NS_PER_S)
        self._spec: TrackSpec | None = None
        self._value = math.nan
        """For a held signal, its latest value that later rows cannot change."""
        self._t = -1
        self._waiting: tuple[NDArray[np.int64], Vector] = (np.empty((0, 2), np.int64), np.empty(0))
        """For a held signal, arrival tags (n, 2) and values (n,) that are not final, because a
        later row can have an earlier arrival.
        """
        self._last: Points = _NO_POINTS
        """For a linear signal, the latest row, which may lie outside the window."""

    def take(self, spec: TrackSpec, words: NDArray[np.int64]) -> Points:
        """Process rows (n, width), and return the points that are now final."""
        values = self.column.of(spec, words)
        if self._spec is None:
            self._spec, self.held = spec, spec.name.startswith(_HELD)
            self._value = self.column.initial(spec) if self.held else math.nan
        if not len(words):
            return _NO_POINTS
        if not self.held:
            return self._on_lines(words[:, 0], values)
        arrivals, values = _arrivals(spec, words, values)
        arrivals = np.concatenate((self._waiting[0], arrivals))
        values = np.concatenate((self._waiting[1], values))
        order = np.lexsort((arrivals[:, 1], arrivals[:, 0]))
        arrivals, values = arrivals[order], values[order]
        # A message arrives no earlier than it was sent, so times before the last row are final.
        known = int(np.searchsorted(arrivals[:, 0], words[-1, 0], side="left"))
        self._waiting = arrivals[known:], values[known:]
        return self._changes(arrivals[:known, 0], values[:known])

    def rows(self, spec: TrackSpec, words: NDArray[np.int64]) -> Points:
        """Return the rows within the window.

        The time of a message is the time of its sending.
        """
        ns, values = words[:, 0], self.column.of(spec, words)
        inside = ns >= self._begin
        if self._end is not None:
            inside &= ns <= self._end
        return ns[inside], values[inside]

    def end(self, ended_ns: int) -> Points:
        """Return the remaining points after the end of the run at ``ended_ns``."""
        if not self.held:
            return _NO_POINTS
        there = int(np.searchsorted(self._waiting[0][:, 0], ended_ns, side="right"))
        t, v = self._changes(self._waiting[0][:there, 0], self._waiting[1][:there])
        end = ended_ns if self._end is None else min(self._end, ended_ns)
        if end < self._begin:
            return _NO_POINTS
        closing = [self._begin] if self._t < 0 else []
        if end > max(self._t, self._begin):
            closing.append(end)
        self._t = end
        return np.append(t, closing).astype(np.int64), np.append(v, [self._value] * len(closing))

    def uncovered(self, ended_ns: int) -> str:
        """Return why a run that ended at ``ended_ns`` does not cover the window.

        The text is empty if the run covers the window.
        """
        for name, at in (("begins", self._begin), ("ends", self._end)):
            if at is not None and ended_ns < at:
                ended = f"the run ended at {ended_ns / NS_PER_S:g} s"
                return f"{ended}, but its window {name} at {at / NS_PER_S:g} s"
        return ""

    def _changes(self, ns: NDArray[np.int64], values: Vector) -> Points:
        if self._end is not None:
            inside = int(np.searchsorted(ns, self._end, side="right"))
            ns, values = ns[:inside], values[:inside]
        before = int(np.searchsorted(ns, self._begin, side="right"))
        if before:
            self._value = float(values[before - 1])
        if before == len(ns):
            return _NO_POINTS
        ns, values = ns[before:], values[before:]
        if self._t < 0:
            ns = np.insert(ns, 0, self._begin)
            values = np.insert(values, 0, self._value)
        self._t, self._value = int(ns[-1]), float(values[-1])
        return ns, values

    def _on_lines(self, ns: NDArray[np.int64], values: Vector) -> Points:
        old = len(self._last[0])
        t, v = np.concatenate((self._last[0], ns)), np.concatenate((self._last[1], values))
        self._last = t[-1:], v[-1:]
        first = max(old, int(np.searchsorted(t, self._begin, side="left")))
        behind = len(t)
        if self._end is not None:
            behind = max(old, int(np.searchsorted(t, self._end, side="right")))
        out_t, out_v = t[first:behind], v[first:behind]
        if 0 < first < len(t) and t[first - 1] < self._begin < t[first]:
            out_t = np.insert(out_t, 0, self._begin)
            out_v = np.insert(out_v, 0, _between(t, v, first, self._begin))
        end = self._end
        if end is not None and 0 < behind < len(t) and t[behind - 1] < end and self._begin < end:
            out_t = np.append(out_t, end)
            out_v = np.append(out_v, _between(t, v, behind, end))
        return out_t, out_v


def _arrivals(spec: TrackSpec, words: NDArray[np.int64], values: Vector) -> Points:
    if "arrival" not in spec.integers:
        return np.stack((words[:, 0], np.zeros(len(words), np.int64)), axis=1), values
    at = [1 + spec.integers.index(name) for name in ("arrival", "arrival_step")]
    arrived = words[:, at[0]] >= 0
    return words[arrived][:, at], values[arrived]


def _between(t: NDArray[np.int64], v: Vector, after: int, at: int) -> float:
    share = (at - t[after - 1]) / (t[after] - t[after - 1])
    return float(v[after - 1] + share * (v[after] - v[after - 1]))


# Time histories: the values of signals at times that are the same in all runs of a study.

POINTS = 200


def grid_of(until_ns: int) -> NDArray[np.int64]:
    """Return equally spaced times (n,) in ns from 0 to ``until_ns``, at most ``POINTS``."""
    return np.unique(np.round(np.linspace(0, until_ns, POINTS)).astype(np.int64))


class History:
    """Values of a signal at the times ``grid`` (n,) in ns.

    The value at a time is the latest value at or before this time. Before its first message, a
    signal has its declared initial value.
    """

    def __init__(self, signal: str, grid: NDArray[np.int64]) -> None:
        self.signal, self._series = signal, Series(signal)
        self.column = self._series.column
        self._grid, self._out = grid, np.full(len(grid), np.nan)
        self._next, self._last = 0, np.nan

    def take(self, spec: TrackSpec, words: NDArray[np.int64]) -> None:
        self._take(*self._series.take(spec, words))

    def _take(self, ns: NDArray[np.int64], values: Vector) -> None:
        if not len(ns):
            return
        # The next row may have the same time as the last one, so only earlier times are final.
        end = int(np.searchsorted(self._grid, ns[-1], side="left"))
        if end > self._next:
            row = np.searchsorted(ns, self._grid[self._next : end], side="right") - 1
            self._out[self._next : end] = np.where(row < 0, self._last, values[row])
            self._next = end
        self._last = float(values[-1])

    def values(self, ended_ns: int) -> Vector:
        """Return the values (n,) in a run that ended at ``ended_ns``, with NaN after the end.

        Call this method after the last row.
        """
        self._take(*self._series.end(ended_ns))
        out = self._out.copy()
        out[self._next :] = self._last
        out[self._grid > ended_ns] = np.nan
        return out


FromRecording = Callable[["Recording"], float]
Result = Reduction | FromRecording


class Formula(Requirement):
    """A requirement in temporal logic, as a requirement of a study.

    The result is the robustness of a run. The margin of a decided run is its robustness, and that
    of an undecided run is NaN.
    """

    below: ClassVar[None] = None
    above: ClassVar[float] = 0.0

    @property
    def result(self) -> str:
        return robustness_column(self.name)

    def __str__(self) -> str:
        return self.formula

    def columns(self, found: RequirementResult) -> dict[str, float]:
        """Return robustness and margin of a run.

        The robustness of an undecided run is its upper bound.
        """
        robustness = found.high
        if found.result is Outcome.FAILED:
            robustness = min(robustness, -_LEAST)  # a limit that is reached exactly is violated
        decided = found.result is not Outcome.UNDECIDED
        margin = found.low if found.result is Outcome.PASSED else robustness
        return {self.result: robustness, margin_name(self): margin if decided else math.nan}


_LEAST = 5e-324
"""Smallest positive number."""
Required = Limit | Formula


def requirements_of(given: Sequence[Limit | Requirement | str]) -> list[Required]:
    """Return the limits and formulas in texts ``NAME: FORMULA`` and TOML files."""
    out: list[Required] = []
    for one in given:
        if isinstance(one, Limit | Formula):
            out.append(one)
        elif isinstance(one, str) and ":" not in one and not one.endswith(".toml"):
            out.append(Limit.of_text(one))
        else:
            out += [Formula(of.name, of.formula, of.text, of.chain) for of in gather([one])]
    gather(one for one in out if isinstance(one, Formula))  # one name, one formula
    return list({(one.name, str(one)): one for one in out}.values())


def margin_name(requirement: Required) -> str:
    return margin_column(requirement.name)


def robustness_column(requirement: str) -> str:
    return f"{requirement}.robustness"


def margin_column(requirement: str) -> str:
    return f"{requirement}.margin"


class _Reduced:
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
    """Compute the results of one run, row by row."""

    def __init__(
        self,
        results: Mapping[str, Result],
        requirements: Sequence[Required],
        histories: Sequence[History] = (),
    ) -> None:
        self._results, self._histories = results, histories
        self._limits = [one for one in requirements if isinstance(one, Limit)]
        self._formulas = [one for one in requirements if isinstance(one, Formula)]
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
        return len(self._reduced) < len(self._results) or bool(self._formulas)

    def take(self, spec: TrackSpec, words: NDArray[np.int64]) -> None:
        """Process further rows (n, width) of a track."""
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
        for track in recording.tracks.values():
            self.take(track.spec, np.asarray(track.words))

    def digest(self) -> str:
        """Return the SHA-256 hash of the deterministic tracks, as 64 hex digits.

        Equal runs have equal hashes, at any speed and on both engines.
        """
        out = hashlib.sha256()
        for name, (layout, rows) in sorted(self._digests.items()):
            out.update(f'[{layout}, {self._rows[name]}, "{rows.hexdigest()}"]'.encode())
        return out.hexdigest()

    def values(self, ended_ns: int, recording: Callable[[], Recording]) -> dict[str, float]:
        """Return all results and margins, by column.

        Call this method after the last row of a run that ended at ``ended_ns``. Raises
        :class:`UnknownName` if the run does not have the track of a reduction.
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
        for limit in self._limits:
            out[margin_name(limit)] = limit.margin(out[limit.result])
        return out

    def robustness(self, recording: Callable[[], Recording]) -> tuple[dict[str, float], str]:
        """Return robustness and margin of all formulas, by column.

        The text says why requirements are undecided.
        """
        if not self._formulas:
            return {}, ""
        from rtsim.requirements.verdict import check

        found = check(self._formulas, recording())
        columns = [of.columns(one) for of, one in zip(self._formulas, found, strict=True)]
        open_ones = [one.in_words for one in found if one.result is Outcome.UNDECIDED]
        return {name: v for one in columns for name, v in one.items()}, "; ".join(open_ones)

    def uncovered(self, ended_ns: int) -> list[str]:
        """Return a sentence for each result whose window is not within the run."""
        whys = {name: one.series.uncovered(ended_ns) for name, one in self._reduced.items()}
        return [f"result {name}: {why}" for name, why in whys.items() if why]

    def histories(self, ended_ns: int) -> dict[str, Vector]:
        """Return values over time (points,) by signal, for a run that ended at ``ended_ns``.

        Raises ``UnknownName`` for a signal without a track.
        """
        for one in self._histories:
            self._check(one.column, f"the history of {one.signal}")
        return {one.signal: one.values(ended_ns) for one in self._histories}

    def _check(self, column: Column, where: str) -> None:
        if not set(column.tracks) & self._tracks:
            raise UnknownName("track", column.track, sorted(self._tracks), where)


@cache
def _layout(name: str, integers: tuple[str, ...], columns: tuple[str, ...]) -> str:
    return json.dumps([name, integers, columns])[1:-1]


def _number(name: str, value: object) -> float:
    try:
        return float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        raise ScenarioError(
            f"the function of the result {name} returned {value!r}; return one number"
        ) from None


OK, NAN, FAILED, ERROR, TIMEOUT, LOST = "ok", "nan", "failed", "error", "timeout", "lost"
STATES = (OK, NAN, FAILED, ERROR, TIMEOUT, LOST)
"""States of a run.

- ``ok``: the run has all its results.
- ``nan``: a result is NaN.
- ``failed``: the run ended at a guard that declares a failure.
- ``error``: the run, or the function of a result, raised an error.
- ``timeout``: the run exceeded its time limit.
- ``lost``: the process of the run ended.
"""
DECIDED = (OK, NAN, FAILED)
"""States of the runs from which pass rates are computed. A ``failed`` run fails all requirements.
"""


def decided(states: NDArray[Any]) -> NDArray[np.bool_]:
    """Return a mask (n,) of the runs that count for pass rates."""
    return np.isin(states.astype(np.str_), DECIDED)


def guard_of(cause: str) -> str:
    return cause.partition(": ")[0]


class Row(NamedTuple):
    """Results of a run, or why results are missing."""

    order: Ordered
    state: str
    cause: str = ""
    reason: str = ""
    """Why the run ended, such as ``end`` or ``terminal``, as in the footer of a recording."""
    ended_s: float | None = None
    values: Mapping[str, float] = MappingProxyType({})
    digest: str = ""
    wall_s: float = 0.0
    attempts: int = 1
    histories: Mapping[str, Vector] = MappingProxyType({})
    """Time histories (points,) by signal, which are stored in separate files."""
    sources: str = ""
    """JSON text with the files that the run read and their hashes. Imported modules are not
    included.
    """
    sources_sha256: str = ""
    """Hash of everything on which the run depends: its files, the scenario's modules, versions."""

    @property
    def complete(self) -> bool:
        return self.state == OK

    def columns(self) -> dict[str, Any]:
        order = self.order
        return {
            "run": order.run,
            "seed": order.seed,
            "state": self.state,
            "cause": self.cause,
            "reason": self.reason,
            "ended_s": self.ended_s,
            "attempts": self.attempts,
            "wall_s": self.wall_s,
            "digest": self.digest,
            "sources": self.sources,
            "sources_sha256": self.sources_sha256,
            **order.marks,
            **order.factors,
            **self.values,
        }
