"""Aerodynamic coefficients and thrust of the F-16 by linear interpolation in tables.

Sources: NASA's ``F16_aero.dml`` and ``F16_prop.dml`` (see ``f16.json``).

Angles are in degrees. Coefficients are in body axes about the reference point at 35 % of the mean
chord. Tables with the same axes are stored in one array, for a common interpolation.

The thrust depends on power, altitude and Mach number, without a lag. The power is 0 % at idle, 50 %
for military and 100 % for maximum thrust.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rtsim.core.errors import ModelError
from rtsim.equations.compiling import compiled
from rtsim.models.units import FT

# Published data of the F-16 from ``f16.json``. The file names its sources.

Table = NDArray[np.float64]

_FILE = Path(__file__).with_name("f16.json")
_DATA: dict[str, Any] = json.loads(_FILE.read_text(encoding="utf-8"))

SOURCE: str = _DATA["source"]
GEOMETRY: dict[str, float] = _DATA["geometry"]
INERTIA: dict[str, float] = _DATA["inertia"]


def table(group: str, name: str, *over: str) -> Table:
    """Return a data table; raise ``ModelError`` if its axes differ from ``over``."""
    entry = _DATA[group][name]
    values = np.array(entry["values"], dtype=np.float64)
    shape = tuple(len(_DATA["breakpoints"][axis]) for axis in over)
    if tuple(entry["over"]) != over or values.shape != shape:
        raise ModelError(
            f"{_FILE.name}: table {name} has shape {values.shape} over {entry['over']}; "
            f"expected shape {shape} over {list(over)}. Restore the original file"
        )
    return values


def grid(axis: str) -> tuple[float, float, int]:
    """Return the first breakpoint of ``axis``, 1 / spacing, and the index of its last segment."""
    points = np.array(_DATA["breakpoints"][axis], dtype=np.float64)
    steps = np.diff(points)
    if not np.allclose(steps, steps[0], rtol=1e-12, atol=0.0):
        raise ModelError(
            f"{_FILE.name}: breakpoints {axis} are not evenly spaced; restore the original file"
        )
    return float(points[0]), float(1.0 / steps[0]), len(points) - 2


AREA = GEOMETRY["area_ft2"] * FT * FT
SPAN = GEOMETRY["span_ft"] * FT
CHORD = GEOMETRY["chord_ft"] * FT
REFERENCE_CG = GEOMETRY["reference_cg_fraction"]

DEGREES_PER_RADIAN = 180.0 / math.pi
_AILERON, _RUDDER, _ELEVATOR = 1.0 / 20.0, 1.0 / 30.0, 1.0 / 25.0

_ALPHA_LOW, _ALPHA_PER, _ALPHA_LAST = grid("alpha_deg")
_BETA_LOW, _BETA_PER, _BETA_LAST = grid("beta_deg")
_SLIP_LOW, _SLIP_PER, _SLIP_LAST = grid("abs_beta_deg")
_EL_LOW, _EL_PER, _EL_LAST = grid("elevator_deg")


def _beside(names: tuple[str, ...], *over: str) -> Table:
    tables = [table("aerodynamics", name, *over) for name in names]
    return np.ascontiguousarray(np.stack(tables, axis=-1))


_OVER_ALPHA = _beside(
    ("cz", "cxq", "cyr", "cyp", "czq", "clr", "clp", "cmq", "cnr", "cnp"), "alpha_deg"
)
_OVER_ELEVATOR = _beside(("cx", "cm"), "elevator_deg", "alpha_deg")
NASA_SIDESLIP = _beside(("cl", "cn"), "abs_beta_deg", "alpha_deg")
"""NASA's rolling and yawing moments over |beta| and alpha, shape (7, 12, 2)."""
NASA_SURFACES = _beside(
    ("cl_aileron", "cl_rudder", "cn_aileron", "cn_rudder"), "beta_deg", "alpha_deg"
)
"""NASA's rolling and yawing moments of aileron and rudder over beta and alpha, shape (7, 12, 4)."""
BOOK_SIDESLIP = _beside(("cl_stevens_lewis", "cn"), "abs_beta_deg", "alpha_deg")
"""``NASA_SIDESLIP`` with the rolling moment of Stevens and Lewis."""
BOOK_SURFACES = _beside(
    ("cl_aileron", "cl_rudder_stevens_lewis", "cn_aileron", "cn_rudder"), "beta_deg", "alpha_deg"
)
"""``NASA_SURFACES`` with the rolling moment of the rudder of Stevens and Lewis."""


@compiled
def segment(
    value: float, low: float, per: float, last: int, extrapolate: bool
) -> tuple[int, float]:
    """Return the segment of an evenly spaced axis that contains ``value``, and the fraction."""
    s = (value - low) * per
    if not extrapolate:
        s = max(0.0, min(s, last + 1.0))
    i = max(0, min(int(s), last))
    return i, s - i


@compiled
def _bilinear(
    t: Table, i: int, j: int, k: int, w00: float, w01: float, w10: float, w11: float
) -> float:
    low = w00 * t[i, j, k] + w01 * t[i, j + 1, k]
    return low + w10 * t[i + 1, j, k] + w11 * t[i + 1, j + 1, k]  # type: ignore[no-any-return]


@compiled
def _linear(t: Table, j: int, k: int, f: float) -> float:
    return t[j, k] + f * (t[j + 1, k] - t[j, k])  # type: ignore[no-any-return]


@compiled
def coefficients(
    alpha: float, beta: float,
    p_hat: float, q_hat: float, r_hat: float,
    elevator: float, aileron: float, rudder: float,
    sideslip: Table, surfaces: Table, per_radian: float, extrapolate: bool,
) -> tuple[float, float, float, float, float, float]:  # fmt: skip
    """Return CX, CY, CZ, Cl, Cm, Cn about the reference point.

    Angles are in deg. The rates are relative to the air.

    Args:
        alpha: angle of attack.
        beta: angle of sideslip.
        p_hat: p b/2V.
        q_hat: q c/2V.
        r_hat: r b/2V.
        sideslip: table of NASA, or of Stevens and Lewis.
        surfaces: table of the same source.
        per_radian: number of degrees in a radian, for the term with beta squared.
        extrapolate: extrapolate the tables beyond their ends, as Stevens and Lewis do.
            Otherwise arguments are clamped, as NASA does.
    """
    j, f = segment(alpha, _ALPHA_LOW, _ALPHA_PER, _ALPHA_LAST, extrapolate)
    g = 1.0 - f

    i, h = segment(elevator, _EL_LOW, _EL_PER, _EL_LAST, extrapolate)
    w00, w01, w10, w11 = (1.0 - h) * g, (1.0 - h) * f, h * g, h * f
    cx = _bilinear(_OVER_ELEVATOR, i, j, 0, w00, w01, w10, w11)
    cm = _bilinear(_OVER_ELEVATOR, i, j, 1, w00, w01, w10, w11)

    m, h = segment(abs(beta), _SLIP_LOW, _SLIP_PER, _SLIP_LAST, extrapolate)
    w00, w01, w10, w11 = (1.0 - h) * g, (1.0 - h) * f, h * g, h * f
    cl = _bilinear(sideslip, m, j, 0, w00, w01, w10, w11)
    cn = _bilinear(sideslip, m, j, 1, w00, w01, w10, w11)
    if beta < 0.0:
        cl, cn = -cl, -cn

    n, h = segment(beta, _BETA_LOW, _BETA_PER, _BETA_LAST, extrapolate)
    w00, w01, w10, w11 = (1.0 - h) * g, (1.0 - h) * f, h * g, h * f
    dail, drdr = aileron * _AILERON, rudder * _RUDDER
    cl += dail * _bilinear(surfaces, n, j, 0, w00, w01, w10, w11)
    cl += drdr * _bilinear(surfaces, n, j, 1, w00, w01, w10, w11)
    cn += dail * _bilinear(surfaces, n, j, 2, w00, w01, w10, w11)
    cn += drdr * _bilinear(surfaces, n, j, 3, w00, w01, w10, w11)

    t = _OVER_ALPHA
    beta_rad = beta / per_radian
    return (
        cx + q_hat * _linear(t, j, 1, f),
        -0.02 * beta + 0.021 * dail + 0.086 * drdr
        + r_hat * _linear(t, j, 2, f) + p_hat * _linear(t, j, 3, f),
        _linear(t, j, 0, f) * (1.0 - beta_rad * beta_rad) - 0.19 * elevator * _ELEVATOR
        + q_hat * _linear(t, j, 4, f),
        cl + r_hat * _linear(t, j, 5, f) + p_hat * _linear(t, j, 6, f),
        cm + q_hat * _linear(t, j, 7, f),
        cn + r_hat * _linear(t, j, 8, f) + p_hat * _linear(t, j, 9, f),
    )  # fmt: skip


_MACH_LOW, _MACH_PER, _MACH_LAST = grid("mach")
_ALT_LOW, _ALT_PER, _ALT_LAST = grid("altitude_ft")
_LEVELS = np.ascontiguousarray(
    np.stack(
        [
            table("propulsion", name, "mach", "altitude_ft")
            for name in ("idle_lbf", "military_lbf", "maximum_lbf")
        ],
        axis=-1,
    )
)
_MILITARY = 50.0


@compiled
def thrust_lbf(power: float, altitude_ft: float, mach: float) -> float:
    """Return the thrust in lbf at ``power`` in %.

    Outside the tables, ``altitude_ft`` and ``mach`` are limited to the range of the tables.
    """
    i, h = segment(mach, _MACH_LOW, _MACH_PER, _MACH_LAST, False)
    j, f = segment(altitude_ft, _ALT_LOW, _ALT_PER, _ALT_LAST, False)
    k = 0 if power < _MILITARY else 1
    part = (power - k * _MILITARY) / _MILITARY
    low = (1.0 - part) * (1.0 - h)
    low_next = (1.0 - part) * h
    high = part * (1.0 - h)
    high_next = part * h
    t = _LEVELS
    return (  # type: ignore[no-any-return]
        (1.0 - f) * (
            low * t[i, j, k] + high * t[i, j, k + 1]
            + low_next * t[i + 1, j, k] + high_next * t[i + 1, j, k + 1]
        )
        + f * (
            low * t[i, j + 1, k] + high * t[i, j + 1, k + 1]
            + low_next * t[i + 1, j + 1, k] + high_next * t[i + 1, j + 1, k + 1]
        )
    )  # fmt: skip
