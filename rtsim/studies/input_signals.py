"""Input signals as variables of a search: a few control points define a signal over time.

An :class:`InputSignal` has one factor for each control point. In a run, an input signal becomes
scheduled changes of a source or parameter (``Scenario.drive``).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from rtsim.core.errors import ScenarioError, UnknownName
from rtsim.core.signals import Vector
from rtsim.core.tag import declared_ns
from rtsim.scenario.scenario import Scenario
from rtsim.scenario.standard_components import ExternalInputComponent
from rtsim.studies.factors import Range
from rtsim.studies.texts import call_of, listed, made

Changes = list[tuple[int, float]]
"""Times (ns) in ascending order, and the values from these times on."""
_SAMPLES = 16
"""Number of samples between two control points, if no period is given."""
_MOST_SAMPLES = 100_000


def _linear(t: Vector, values: Vector, at: Vector) -> Vector:
    return np.interp(at, t, values)


def _spline(t: Vector, values: Vector, at: Vector) -> Vector:
    from scipy.interpolate import PchipInterpolator

    return np.asarray(PchipInterpolator(t, values)(at), np.float64)


PIECES = "pieces"
KINDS: Mapping[str, Callable[[Vector, Vector, Vector], Vector] | None] = {
    PIECES: None, "linear": _linear, "spline": _spline,
}  # fmt: skip
"""Interpolation between the control points, by name. ``pieces`` holds each value."""
FREE = "free"
_MOST_POINTS = 1000
"""Number of control points of a search; the correlation of n factors takes n x n numbers."""


@dataclass(frozen=True)
class InputSignal:
    """An input signal with ``points`` control points between ``low`` and ``high``.

    - A signal of the kind ``pieces`` is constant between its control points. The first of n pieces
      begins at 0 s.
    - A ``linear`` or ``spline`` signal is interpolated between control points from 0 s to the end
      of the run. The source is constant between two samples.
    """

    target: str
    """Source or parameter that the signal drives, ``"component.name"``."""
    kind: str
    points: int
    low: float
    high: float
    rate: float | None = None
    """Largest change per second, in the unit of the target. A faster signal is slowed down: each
    change is at most ``rate`` times the time since the previous change."""
    period: float | None = None
    """Time between two samples of a ``linear`` or ``spline`` signal, s. The default is 1/16 of the
    time between two control points."""
    times: tuple[float, ...] | str = ()
    """Times of the control points, s. With ``"free"``, the times after the first are factors of
    their own. By default, the times are equally spaced."""

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise UnknownName("kind of input signal", self.kind, KINDS, f"input {self.target}")
        least = 1 if self.kind == PIECES else 2
        if isinstance(self.points, bool) or not isinstance(self.points, int):
            raise ScenarioError(f"{self}: points is {self.points!r}; give a whole number")
        if self.points < least:
            many = "1 point is" if self.points == 1 else f"{self.points} points are"
            raise ScenarioError(f"{self}: {many} too few; give {least} or more")
        _ = self.range
        for name in ("rate", "period"):
            value = getattr(self, name)
            if value is not None and not (_is_number(value) and 0.0 < value < math.inf):
                raise ScenarioError(f"{self}: {name} is {value!r}; give a number > 0")
        if self.times == FREE:
            return
        if not isinstance(self.times, tuple | list) or not all(map(_is_number, self.times)):
            raise ScenarioError(f"{self}: times is {self.times!r}; give times in s or {FREE!r}")
        if self.times:
            object.__setattr__(self, "times", tuple(self.times))
            if len(self.times) != self.points or self.times[0] != 0.0:
                many = "1 time" if self.points == 1 else f"{self.points} times"
                raise ScenarioError(f"{self}: give {many}, of which the first is 0")
            if not all(a < b < math.inf for a, b in zip(self.times, self.times[1:], strict=False)):
                raise ScenarioError(f"{self}: the times {self.times} are not in ascending order")

    @classmethod
    def of_text(cls, target: str, text: str) -> InputSignal:
        """Parse ``KIND:POINTS,LOW,HIGH``, which may end with ``rate=``, ``period=`` or ``times=``.

        Blanks separate several times, as in ``pieces:3,-1,1,times=0 2.5 7``.
        """
        call = call_of(text)
        named = {name: listed(value) for name, value in call.named.items()}
        return made(f"input {target}={text}", cls, [target, call.name, *call.values], named)

    @classmethod
    def of(cls, plain: Mapping[str, Any]) -> InputSignal:
        """Return an input signal from the data of ``to_plain`` or of a TOML table."""
        given = dict(plain)
        if isinstance(given.get("times"), list):
            given["times"] = tuple(given["times"])
        return made(f"input {given.get('target', '')}", cls, [], given)

    def to_plain(self) -> dict[str, Any]:
        """Return JSON data for :meth:`of`."""
        return {name: value for name, value in asdict(self).items() if value not in (None, ())}

    def __str__(self) -> str:
        return f"input {self.target}={self.kind}:{self.points},{self.low:g},{self.high:g}"

    @property
    def range(self) -> Range:
        """The values of each control point."""
        try:
            return Range(self.low, self.high)
        except (ScenarioError, TypeError) as error:
            raise ScenarioError(f"input {self.target}: {error}") from None

    @property
    def factors(self) -> dict[str, Range]:
        """Range of each factor by name: ``TARGET[k]``, and ``TARGET.time[k]`` for variable times.

        A variable time is a fraction of the run's length. Variable times are sorted before use.
        """
        out = {f"{self.target}[{k}]": self.range for k in range(self.points)}
        if self.times == FREE:
            out |= {f"{self.target}.time[{k}]": Range(0.0, 1.0) for k in range(1, self.points)}
        return out

    def changes(self, values: Mapping[str, Any], until_ns: int) -> Changes:
        """Return the changes of the target in a run until ``until_ns``.

        ``values`` contains the values of the signal's factors. Consecutive equal values give one
        change. Raises :class:`ScenarioError` for too many samples.
        """
        points = self.control_points(values, until_ns)
        t = np.array([ns for ns, _ in points], np.int64)
        v = np.array([value for _, value in points], np.float64)
        between = KINDS[self.kind]
        if between is not None:
            at = np.arange(0, until_ns, self.period_ns(until_ns), dtype=np.int64)
            inside: Vector = np.asarray(np.minimum(at, t[-1]) * 1e-9, np.float64)
            seconds: Vector = np.asarray(t * 1e-9, np.float64)
            v = between(seconds, v, inside) if len(t) > 1 else np.repeat(v, len(at))
            t = at
        return self._slowed([(ns, x) for ns, x in zip(t.tolist(), v.tolist(), strict=True)
                             if ns == 0 or ns < until_ns])  # fmt: skip

    def control_points(self, values: Mapping[str, Any], until_ns: int) -> Changes:
        """Return times (ns) and values of the control points.

        Of two control points with the same time, the later one counts.
        """
        t = self._times(values, until_ns)
        v = [float(values[f"{self.target}[{k}]"]) for k in range(self.points)]
        last = np.append(np.diff(t) > 0, True)
        return [(ns, x) for ns, x, used in zip(t.tolist(), v, last, strict=True) if used]

    def _times(self, values: Mapping[str, Any], until_ns: int) -> Any:
        if self.times == FREE:
            shares = sorted(
                float(values[f"{self.target}.time[{k}]"]) for k in range(1, self.points)
            )
            return np.array([0, *(round(share * until_ns) for share in shares)], np.int64)
        if self.times:
            return np.array([declared_ns(t, "time of a control point") for t in self.times])
        steps = self.points if self.kind == PIECES else self.points - 1
        return np.array([k * until_ns // steps for k in range(self.points)], np.int64)

    def period_ns(self, until_ns: int) -> int:
        """Return the time (ns) between two samples of a ``linear`` or ``spline`` signal."""
        if self.period is None:
            return max(1, until_ns // (_SAMPLES * (self.points - 1)))
        period = declared_ns(self.period, "period of an input signal")
        if until_ns > _MOST_SAMPLES * period:
            raise ScenarioError(
                f"{self}: a period of {self.period:g} s gives more than {_MOST_SAMPLES} samples; "
                "give a longer period"
            )
        return period

    def _slowed(self, changes: Changes) -> Changes:
        out = changes[:1]
        before, value = changes[0]
        for ns, wanted in changes[1:]:
            if self.rate is not None:
                most = self.rate * (ns - before) * 1e-9
                wanted = min(max(wanted, value - most), value + most)
            before = ns
            if wanted != value:
                out.append((ns, wanted))
            value = wanted
        return out


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def input_signals(
    given: Mapping[str, InputSignal | str] | Sequence[InputSignal],
) -> list[InputSignal]:
    """Return the input signals that texts or objects declare.

    Raises ``ScenarioError`` for two signals with the same target, and for too many control points.
    """
    if isinstance(given, Mapping):
        found = [
            replace(one, target=target) if isinstance(one, InputSignal)
            else InputSignal.of_text(target, one)
            for target, one in given.items()
        ]  # fmt: skip
    else:
        found = list(given)
    for one in found:
        if one.points > _MOST_POINTS:
            raise ScenarioError(
                f"{one}: {one.points} points are too many; give at most {_MOST_POINTS}"
            )
    check_targets(one.target for one in found)
    return found


def check_targets(targets: Iterable[str]) -> None:
    """Raise ``ScenarioError`` for two input signals with the same target."""
    names = list(targets)
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise ScenarioError(f"two input signals drive {twice[0]}; leave one of them out")


def whole_name(scenario: Scenario, target: str) -> str:
    if "." in target:
        return target
    component = scenario.component(target)
    if isinstance(component, ExternalInputComponent):
        names = component.external.signals.names
    else:
        names = tuple(n for one in component.settable() if one.live for n in one.signals.names)
    if len(names) != 1:
        raise ScenarioError(
            f"{target} has {len(names)} signals that an input signal can drive "
            f"({', '.join(names) or 'none'}); write {target}.SIGNAL"
        )
    return f"{target}.{names[0]}"
