"""Compare recordings with NASA's published trajectories (``sim_05``).

The tolerances allow for the difference between a controller sampled at 50 Hz and a continuous
controller. NASA's own simulations differ from each other by similar amounts.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING

import numpy as np

from rtsim.core.errors import RecordingError, UnknownName
from rtsim.core.outcome import Judged, Outcome
from rtsim.core.signals import Vector
from rtsim.core.tag import NS_PER_S
from rtsim.models.units import FT, KT
from rtsim.record.views import Published

if TYPE_CHECKING:  # not loaded if no recording is compared
    from rtsim.record.reading import Recording


SOURCE = "NASA, simulation 05"
_COLUMNS = ("time", "altitude_ft", "yaw_deg", "pitch_deg", "roll_deg", "true_airspeed_kt")


def published_rows(case: str) -> Vector:
    """Return the published values of a check case, shape (n, 6).

    The columns are time (s), altitude (ft), yaw, pitch and roll (deg), and true airspeed (kt).
    """
    cases = _cases()
    if case not in cases:
        raise UnknownName("published case", case, cases)
    return np.array(cases[case])


@cache
def _cases() -> dict[str, list[list[float]]]:
    text = files("rtsim.models.f16").joinpath("published.json").read_text(encoding="utf-8")
    cases: dict[str, list[list[float]]] = json.loads(text)["cases"]
    return cases


def published(case: str, column: str, name: str = SOURCE) -> Sequence[Published]:
    """Return one quantity of a published trajectory as a curve for ``Scenario.plot``.

    ``column`` is ``altitude_ft``, ``yaw_deg``, ``pitch_deg``, ``roll_deg`` or
    ``true_airspeed_kt``. The result is empty if NASA's data of the case are missing.
    """
    if case not in _cases():
        return []
    rows = published_rows(case)
    at = _COLUMNS.index(column)
    return [Published(name, tuple(rows[:, 0].tolist()), tuple(rows[:, at].tolist()))]


QUANTITIES = ("altitude", "yaw", "pitch", "roll", "airspeed")
UNITS = ("ft", "deg", "deg", "deg", "ft/s")
TOLERANCES: dict[str, tuple[float, ...]] = {
    "11": (0.01, 1e-4, 1e-4, 1e-4, 0.01),
    "13.1": (0.5, 0.3, 0.3, 0.3, 0.45),
    "15": (0.01, 0.02, 0.005, 0.03, 0.01),
}
"""Largest allowed differences, in the order of ``QUANTITIES`` and their ``UNITS``."""

LEAST_S = 10.0
"""Shortest meaningful comparison, s.

Every model agrees with the published values at the start, because the aircraft is trimmed.
"""


@dataclass(frozen=True)
class Comparison(Judged):
    """Comparison of one recorded quantity with the published values."""

    quantity: str
    unit: str
    worst: float
    at_s: float
    allowed: float
    times: int
    until_s: float = 0.0
    """Last published time that was compared, s; the first published time is 0 s."""
    of_s: float = 0.0
    """Last published time, s."""

    def _judge(self) -> Outcome:
        if not self.within:
            return Outcome.FAILED
        return Outcome.PASSED if self.enough else Outcome.UNDECIDED

    @property
    def within(self) -> bool:
        """True if no difference exceeds its limit, even in a recording that is too short."""
        return self.worst <= self.allowed

    @property
    def in_words(self) -> str:
        return (
            f"{self.quantity}: {self.worst:.6g} {self.unit} at {self.at_s:g} s, allowed "
            f"{self.allowed:.6g}; compared up to {self.until_s:g} s"
        )

    @property
    def enough(self) -> bool:
        """True if the recording is long enough for a meaningful comparison."""
        return self.times > 1 and self.until_s >= min(LEAST_S, self.of_s)


def case_of(recording: Recording) -> str:
    """Return the check case of a recording of the scenario ``f16``.

    Raises :class:`RecordingError` for another scenario.
    """
    name = str(recording.header.get("scenario", {}).get("name", ""))
    if not name.startswith("f16 case "):
        raise RecordingError(
            f"{recording.source} is a recording of {name!r}, not of an F-16 check case"
        )
    return name.removeprefix("f16 case ")


def compare_with_nasa(recording: Recording, rows: Vector | None = None) -> list[Comparison]:
    """Return the largest difference of each quantity from the published values.

    ``rows`` (n, 6), in the layout of :func:`published_rows`, replace the published values. Raises
    :class:`RecordingError` if the recording has no state at a published time, or ends before the
    first published time.
    """
    case = case_of(recording)
    rows = published_rows(case) if rows is None else rows
    of_s = float(rows[-1, 0]) if len(rows) else 0.0
    rows = rows[np.round(rows[:, 0] * NS_PER_S) <= recording.end_ns]
    if not len(rows):
        raise RecordingError(
            f"{recording.source} ends before the first time for which NASA published values; run "
            "the case for longer"
        )
    track = recording.track("f16")
    minus = track.integer("side") == 0
    time = track.ns[minus]
    wanted = np.round(rows[:, 0] * 10).astype(np.int64) * (NS_PER_S // 10)
    at = np.searchsorted(time, wanted)
    if not np.array_equal(time[np.minimum(at, time.size - 1)], wanted):
        raise RecordingError(
            f"{recording.source} has no state at some times for which NASA published values (every "
            "0.1 s); run the case with a step that divides 0.1 s"
        )
    recorded = [track.column(s)[minus][at] for s in _SIGNALS]
    recorded[-1] = recorded[-1] / FT
    target = [*rows[:, 1:5].T, rows[:, 5] * KT / FT]
    compared = []
    for i, quantity in enumerate(QUANTITIES):
        gap = recorded[i] - target[i]
        if UNITS[i] == "deg":
            gap = (gap + 180.0) % 360.0 - 180.0
        worst = int(np.argmax(np.abs(gap)))
        compared.append(
            Comparison(
                quantity,
                UNITS[i],
                float(abs(gap[worst])),
                float(rows[worst, 0]),
                TOLERANCES[case][i],
                len(rows),
                float(rows[-1, 0]),
                of_s,
            )
        )
    return compared


_SIGNALS = ("altitude_ft", "yaw_deg", "pitch_deg", "roll_deg", "airspeed")
