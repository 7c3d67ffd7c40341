"""A study of the F-16's check case 13.1 with random parameters.

The aircraft climbs by 100 ft after 5 s. The runs differ in mass, centre of gravity, inertia,
autopilot gain and latency, and in a gust. The autopilot uses the trim of the check case, so most
runs do not begin in trim. The distributions are chosen for this example.
"""

from __future__ import annotations

from rtsim.core.extras import needs
from rtsim.core.signals import Signals
from rtsim.models.f16.controller import LAW_PARAMETERS
from rtsim.models.f16.plant import PARAMETERS
from rtsim.studies import MaxAbs, MonteCarlo, SettlingTime, Study

with needs("study", "this study"):
    from scipy import stats

TARGET_FT = 10113.0
"""Commanded altitude of check case 13.1 after 5 s, ft."""
_INERTIA = ("mass", "ixx", "iyy", "izz")


def _near(signals: Signals, name: str, share: float) -> object:
    value = float(signals.initial()[signals.slice(name).start])
    return stats.norm(value, share * abs(value))


def study() -> Study:
    """Return a study of check case 13.1 with 10,000 runs of 20 s."""
    return Study(
        scenario="f16",
        settings={"case": "13.1"},
        factors={
            **{f"f16.{name}": _near(PARAMETERS, name, 0.03) for name in _INERTIA},
            "f16.cg": _near(PARAMETERS, "cg", 0.04),
            "autopilot.altitude_gain": _near(LAW_PARAMETERS, "altitude_gain", 0.1),
            "latency": [0.0, 0.005, 0.010, 0.015, 0.020],
            "f16.gust_y": stats.norm(0.0, 3.0),
            "f16.gust_z": stats.norm(0.0, 3.0),
            "f16.gust_start": (5.0, 10.0),
            "f16.gust_duration": (0.5, 1.5),
        },
        design=MonteCarlo(10_000),
        results={
            "error": MaxAbs("f16.altitude_ft", target=TARGET_FT, after=10),
            "settled": SettlingTime("f16.altitude_ft", target=TARGET_FT, band=20.0),
            "alpha": MaxAbs("f16.alpha_deg"),
            "beta": MaxAbs("f16.beta_deg"),
        },
        requirements=["error < 20", "settled < 9.5"],
        until=20,
    )
