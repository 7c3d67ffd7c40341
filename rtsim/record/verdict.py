"""Compare one signal of two runs, and judge the differences."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from rtsim.core.errors import ScenarioError
from rtsim.core.outcome import Judged, Outcome
from rtsim.core.signals import Kind, Signal
from rtsim.core.tag import Tag
from rtsim.record.events import RunEnding
from rtsim.record.reading import Recording, TrackData

_TURN = {"deg": 360.0, "rad": 2.0 * math.pi}
TOGETHER = 1 << 17
"""Number of rows that are compared at once."""
LARGE = 0.1
"""A tolerance above this fraction of a signal's range causes a remark in the result."""

Matrix: TypeAlias = NDArray[np.float64]
Values: TypeAlias = NDArray[np.float64] | NDArray[np.int64]
Index: TypeAlias = NDArray[np.intp]


class Tolerance(NamedTuple):
    """Tolerances of a signal.

    The allowed difference is max(absolute, relative * |baseline|). ``absolute`` is in the signal's
    unit.
    """

    absolute: float = 0.0
    relative: float = 0.0


def tolerance_of(pattern: str, values: Sequence[float]) -> Tolerance:
    """Return a tolerance; ``values`` are the absolute and the relative tolerance.

    Raises :class:`ScenarioError` unless ``values`` are two finite numbers >= 0.
    """
    if len(values) != 2 or not all(0.0 <= v < math.inf for v in values):
        raise ScenarioError(
            f"the tolerance {tuple(values)} of {pattern!r} is not valid; give two finite numbers "
            ">= 0: (absolute, relative)"
        )
    return Tolerance(*values)


EXACT = Tolerance()
CELLS = ("signal", "unit", "rows", "largest difference", "relative", "first differs", "verdict")
"""Column titles for :meth:`SignalResult.cells`."""


@dataclass(frozen=True)
class SignalResult(Judged):
    """The result of the comparison of one signal.

    ``reason`` says why the signal fails, or is empty.
    """

    name: str
    unit: str = ""
    tolerance: Tolerance = EXACT
    rows: int = 0
    """Number of compared rows."""
    there: int = 0
    """Number of rows in the baseline."""
    max_abs: float = 0.0
    max_rel: float = 0.0
    worst: Tag | None = None
    first: Tag | None = None
    """The first tag with any difference."""
    first_failed: Tag | None = None
    column: str = ""
    """The element of an array with the largest difference."""
    reason: str = ""
    remark: str = ""
    """Remark on a passed signal whose tolerance is large compared with its range."""
    stamp: bool = False
    """True for an integer column that is not a signal, such as the arrival time of a message."""

    def _judge(self) -> Outcome:
        if self.reason:
            return Outcome.FAILED
        return Outcome.PASSED if self.rows else Outcome.UNDECIDED

    @property
    def in_words(self) -> str:
        return f"{self.name}: {self.verdict}"

    @property
    def empty(self) -> bool:
        """Return whether the signal has no rows to compare."""
        return not self.reason and not self.rows

    @property
    def verdict(self) -> str:
        if self.empty:
            return "nothing to compare"
        return self.reason or (f"ok, {self.remark}" if self.remark else "ok")

    def cells(self) -> tuple[str, ...]:
        first = "" if self.first is None else short(self.first)
        numbers = f"{self.max_abs:.6g}", f"{self.max_rel:.6g}"
        return self.name, self.unit, self._rows, *numbers, first, self.verdict

    @property
    def _rows(self) -> str:
        return str(self.rows) if self.rows >= self.there else f"{self.rows} of {self.there}"

    def to_json(self) -> dict[str, object]:
        def tag(one: Tag | None) -> list[int] | None:
            return None if one is None else [one.ns, one.step]

        return {
            "signal": self.name,
            "unit": self.unit,
            "ok": self._judge() is Outcome.PASSED,
            "outcome": self._judge().name.lower(),
            "stamp": self.stamp,
            "reason": self.reason,
            "remark": self.remark,
            "rows": self.rows,
            "rows_there": self.there,
            "max_abs": _json_number(self.max_abs),
            "max_rel": _json_number(self.max_rel),
            "worst_tag": tag(self.worst),
            "first_difference": tag(self.first),
            "first_failure": tag(self.first_failed),
            "column": self.column,
            "tolerance": list(self.tolerance),
        }


class Measured(NamedTuple):
    """Absolute, relative and allowed differences, and which values are equal or pass.

    All arrays have the shape (n, size).
    """

    gap: Matrix
    rel: Matrix
    allowed: Matrix
    same: NDArray[np.bool_]
    good: NDArray[np.bool_]


@dataclass(frozen=True)
class ComparedSignal:
    """A signal to compare, with its rows in the baseline and its tolerance."""

    track: TrackData
    left: Index
    name: str
    signal: Signal | None
    tolerance: Tolerance

    def measure(self, a: Values, b: Values) -> Measured:
        """Return the differences between ``a`` and ``b`` (n, size), and which values pass."""
        unit = self.signal.unit if self.signal else ""
        x, y = a.astype(np.float64), b.astype(np.float64)
        kind: Kind = self.signal.kind if self.signal else "scalar"
        gap = _distances_of_integers(a, b) if a.dtype.kind == "i" else _gap(x, y, kind, unit)
        same = _same(a, b) if kind == "scalar" else gap == 0
        gap[same] = 0.0
        size = np.where(np.isfinite(x), np.abs(x), 0.0)
        with np.errstate(over="ignore"):
            allowed = np.maximum(self.tolerance.absolute, self.tolerance.relative * size)
            rel = np.divide(gap, size, out=np.where(gap > 0, math.inf, 0.0), where=size > 0)
        good = same | ((gap <= allowed) & (allowed > 0) & np.isfinite(gap))
        return Measured(gap, rel, allowed, same, good)

    def judge(self, a: Values, b: Values) -> SignalResult:
        """Compare ``a`` and ``b``, shape (n, size), row by row, and return the result.

        Long signals are compared in parts, to save memory.
        """
        tally = _Tally(self, a.shape[1])
        for at in range(0, len(a), TOGETHER):
            tally.add(at, a[at : at + TOGETHER], b[at : at + TOGETHER])
        return tally.result(len(a))

    def _tag(self, row: int) -> Tag:
        return self.track.tag(int(self.left[row]))

    def _against(self, at: int, x: Matrix, y: Matrix) -> str:
        when = f"at {short(self._tag(at))}"
        if not np.array_equal(np.isnan(x), np.isnan(y)):
            return f"NaN in the {'baseline' if np.isnan(x).any() else 'candidate'} only {when}"
        if np.array_equal(x, y):
            return f"equal values with different bits {when}"
        return f"fails {when}"


class _Tally:
    def __init__(self, pair: ComparedSignal, size: int) -> None:
        self._pair = pair
        self._worst, self._max_abs, self._max_rel = (0, 0), 0.0, 0.0
        self._first: int | None = None
        self._first_failed: int | None = None
        self._failed = 0
        self._reason = ""
        self._used, self._allowed, self._extent = np.zeros(size), np.zeros(size), Extent(size)

    def add(self, at: int, a: Values, b: Values) -> None:
        gap, rel, allowed, same, good = self._pair.measure(a, b)
        x, y = a.astype(np.float64), b.astype(np.float64)
        differs, failed = np.flatnonzero(~same.all(axis=1)), np.flatnonzero(~good.all(axis=1))
        if gap.size and float(gap.max()) > self._max_abs:
            row, column = divmod(int(gap.argmax()), gap.shape[1])
            self._worst, self._max_abs = (at + row, column), float(gap.max())
        self._max_rel = max(self._max_rel, float(rel.max(initial=0.0)))
        if self._first is None and len(differs):
            row = int(differs[0])
            self._first = at + row
            if not self._max_abs:  # equal values with different bits have a difference of 0
                self._worst = (at + row, int(np.argmin(same[row])))
        if self._first_failed is None and len(failed):
            row = int(failed[0])
            self._first_failed = at + row
            self._reason = self._pair._against(at + row, x[row], y[row])
        self._failed += len(failed)
        self._used = np.maximum(self._used, gap.max(axis=0, initial=0.0))
        self._allowed = np.maximum(self._allowed, allowed.max(axis=0, initial=0.0))
        self._extent.add(x)

    def result(self, rows: int) -> SignalResult:
        pair, signal = self._pair, self._pair.signal
        columns = signal.columns if signal else ("",)
        reason = self._reason
        if reason.startswith("fails at"):
            reason += f", {self._failed}/{rows}"
        return SignalResult(
            pair.name,
            signal.unit if signal else "",
            pair.tolerance,
            rows=rows,
            there=len(pair.track),
            max_abs=self._max_abs,
            max_rel=self._max_rel,
            worst=None if self._first is None else pair._tag(self._worst[0]),
            first=self._tag(self._first),
            first_failed=self._tag(self._first_failed),
            column="" if len(columns) == 1 or self._first is None else columns[self._worst[1]],
            reason=reason,
            stamp=signal is None,
            remark="" if reason else _remark(self._used, self._allowed, self._extent.moved),
        )

    def _tag(self, row: int | None) -> Tag | None:
        return None if row is None else self._pair._tag(row)


class Extent:
    """The value ranges of several columns."""

    def __init__(self, size: int) -> None:
        self._low, self._high = np.full(size, math.inf), np.full(size, -math.inf)

    def add(self, x: Matrix) -> None:
        """Add rows (n, size).  Values that are not finite are ignored."""
        there = np.isfinite(x)
        low = np.min(x, axis=0, where=there, initial=math.inf)
        high = np.max(x, axis=0, where=there, initial=-math.inf)
        self._low, self._high = np.minimum(self._low, low), np.maximum(self._high, high)

    @property
    def moved(self) -> Matrix:
        """Range of each column, shape (size,). For a constant column, its absolute value."""
        known = self._low <= self._high
        low, high = np.where(known, self._low, 0.0), np.where(known, self._high, 0.0)
        with np.errstate(over="ignore"):
            moved = high - low
        return np.asarray(np.where(moved > 0, moved, np.maximum(np.abs(low), np.abs(high))))


def ranges(x: Matrix) -> Matrix:
    """Return the range of each column of ``x`` (n, size); for a constant, its absolute value."""
    extent = Extent(x.shape[1])
    extent.add(x)
    return extent.moved


def _remark(used: Matrix, allowed: Matrix, moved: Matrix) -> str:
    most = np.where(used > 0, allowed, 0.0)
    large = np.flatnonzero(most > LARGE * moved)
    if not len(large):
        return ""
    with np.errstate(divide="ignore", over="ignore"):
        column = int(large[np.argmax(used[large] / moved[large])])
    off, span = used[column], moved[column]
    text = f"tolerance {most[column]:.3g} above a tenth of its range {span:.3g}"
    return f"{text}, differs by {off:.3g}" if off > LARGE * span else text


def short(tag: Tag) -> str:
    """Return a tag as text without trailing zeros: ``0.005 s +1``."""
    whole, _, rest = str(tag).partition(" s")
    return f"{whole.rstrip('0').rstrip('.')} s{rest}"


def _same(a: Values, b: Values) -> NDArray[np.bool_]:
    if a.dtype.kind != "f":
        return np.asarray(a == b)
    bits = np.ascontiguousarray(a).view(np.int64) == np.ascontiguousarray(b).view(np.int64)
    return np.asarray(bits | (np.isnan(a) & np.isnan(b)))


def _distances_of_integers(a: Values, b: Values) -> Matrix:
    high, low = np.maximum(a, b).astype(np.uint64), np.minimum(a, b).astype(np.uint64)
    return (high - low).astype(np.float64)


def _gap(x: Matrix, y: Matrix, kind: Kind, unit: str) -> Matrix:
    with np.errstate(invalid="ignore", over="ignore"):
        if kind == "quaternion":
            flipped = np.abs(x + y).max(axis=1) < np.abs(x - y).max(axis=1)
            y = np.where(flipped[:, None], -y, y)
        gap = np.abs(x - y)
        if kind == "angle" and unit in _TURN:
            turn = _TURN[unit]
            reduced = np.abs(np.fmod(x, turn) - np.fmod(y, turn))
            gap = np.fmod(np.where(np.isfinite(gap), gap, reduced), turn)
            gap = np.minimum(gap, turn - gap)
    both = np.isfinite(x) & np.isfinite(y)
    equal = (x == y) | (np.isnan(x) & np.isnan(y))
    return np.where(both, gap, np.where(equal, 0.0, math.inf))


def _json_number(value: float) -> float | None:
    return value if math.isfinite(value) else None


# Pairs of rows of a track in two recordings, by tag or by time.

KEYS = ("step", "side")
"""Integer columns that are part of a row's tag."""
_GAP = 0.1
"""Largest gap between common times, and at the ends, as a fraction of the baseline's time span."""
_FEW = 10
"""A gap of up to this number of rows is allowed, even in a short run."""

Pairing: TypeAlias = Literal["exact", "common"]


class ComparisonWindow(NamedTuple):
    """End of a comparison [ns], and how both runs ended."""

    end: int
    ours: RunEnding
    theirs: RunEnding


class Paired(NamedTuple):
    """Rows of a track in both runs, or why the rows cannot be compared."""

    track: TrackData
    left: Index
    right: Index
    problem: str = ""
    lacking: tuple[bool, bool] = (False, False)
    """For baseline and candidate: True if the run ended early, so that rows of the other run have
    no counterpart.
    """


def paired(a: TrackData, b: TrackData, window: ComparisonWindow, tags: Pairing) -> Paired:
    return _at_common_times(a, b, window) if tags == "common" else _at_equal_tags(a, b, window)


def _unpaired(a: TrackData, problem: str) -> Paired:
    none = np.empty(0, np.intp)
    return Paired(a, none, none, problem)


def _at_common_times(a: TrackData, b: TrackData, window: ComparisonWindow) -> Paired:
    left, right = _last_rows(a.ns), _last_rows(b.ns)
    left = left[a.ns[left] <= window.end]
    times = a.ns[left]
    if not len(times):
        more = int((b.ns <= window.end).sum())
        return _unpaired(a, f"the candidate has {more} rows, the baseline none" if more else "")
    common, i, j = np.intersect1d(times, b.ns[right], assume_unique=True, return_indices=True)
    share = int(_GAP * np.ptp(times))
    in_common = f"{len(common)} of {len(times)} times in common"
    if len(common) < min(2, len(times)) or np.ptp(common) < np.ptp(times) - share:
        return _unpaired(a, f"{in_common}, over less than {Tag(int(np.ptp(times)) - share)}")
    begin, end = _longest_gap(times, i)
    if end - begin > share:
        return _unpaired(a, f"{in_common}, and none between {Tag(begin)} and {Tag(end)}")
    return Paired(a, left[i], right[j])


def _longest_gap(times: NDArray[np.int64], common: Index) -> tuple[int, int]:
    gaps = np.flatnonzero(np.diff(common) > _FEW + 1)
    begins, ends = times[common[gaps]], times[common[gaps + 1]]
    if not len(gaps):
        return 0, 0
    longest = int(np.argmax(ends - begins))
    return int(begins[longest]), int(ends[longest])


def _at_equal_tags(a: TrackData, b: TrackData, window: ComparisonWindow) -> Paired:
    inside = np.flatnonzero(b.ns <= window.end)
    left = np.flatnonzero(a.ns <= window.end)
    n = min(len(left), len(inside))
    same = _alike(a, b, left[:n], inside[:n])
    whole = (window.ours if len(left) == n else window.theirs).complete
    if same < n or (len(left) != len(inside) and whole):
        one, other = _key_text(a, left, same), _key_text(b, inside, same)
        return _unpaired(
            a, f"other tags: row {same} is {one} in the baseline, {other} in the candidate"
        )
    return Paired(a, left[:n], inside[:n], lacking=(len(inside) > n, len(left) > n))


def _alike(a: TrackData, b: TrackData, left: Index, right: Index) -> int:
    unlike = a.ns[left] != b.ns[right]
    for key in KEYS:
        unlike |= _key(a, key)[left] != _key(b, key)[right]
    return int(unlike.argmax()) if unlike.any() else len(left)


def _key(track: TrackData, name: str) -> NDArray[np.int64]:
    return track.integer(name) if name in track.integers else np.zeros(len(track), np.int64)


def _key_text(track: TrackData, rows: Index, at: int) -> str:
    if at >= len(rows):
        return "missing"
    row = int(rows[at])
    side = "side" in track.integers and int(track.integer("side")[row])
    return f"{track.tag(row)}{' (x+)' if side else ''}"


def _last_rows(ns: NDArray[np.int64]) -> Index:
    _, from_end = np.unique(ns[::-1], return_index=True)
    return len(ns) - 1 - from_end


def what_both_have(a: Recording, b: Recording) -> tuple[Recording, Recording, Tag | None]:
    """Return both recordings from their first common tag on, and this tag.

    The tag is ``None`` if both runs began at the start.
    """
    later = max((a, b), key=lambda one: int(one.continues.get("ns", -1))).continues
    if not later:
        return a, b, None
    rows, events = later["rows"], int(later["events"])
    return a.since(rows, events), b.since(rows, events), Tag(int(later["ns"]))
