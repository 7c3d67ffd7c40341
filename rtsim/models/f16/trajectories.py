"""NASA's published trajectories of the check cases (``sim_05``), from ``published.json``."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache
from importlib.resources import files

import numpy as np

from rtsim.core.errors import UnknownName
from rtsim.core.signals import Vector
from rtsim.record.views import Published

SOURCE = "NASA, simulation 05"
_COLUMNS = ("time", "altitude_ft", "yaw_deg", "pitch_deg", "roll_deg", "true_airspeed_kt")


def published_rows(case: str) -> Vector:
    """Return the published values (n, 6).

    Columns: time s, altitude ft, yaw deg, pitch deg, roll deg, true airspeed kt.
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
    """Return one quantity of a published trajectory, for :meth:`Scenario.plot`.

    ``column`` is ``altitude_ft``, ``yaw_deg``, ``pitch_deg``, ``roll_deg`` or ``true_airspeed_kt``.
    Returns nothing for a case without a published trajectory in this package.
    """
    if case not in _cases():
        return []
    rows = published_rows(case)
    at = _COLUMNS.index(column)
    return [Published(name, tuple(rows[:, 0].tolist()), tuple(rows[:, at].tolist()))]
