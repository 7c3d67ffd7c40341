"""NASA's check cases for the F-16 as data for scenarios: 11, 12, 13.1 to 13.4, 15, 16.

Source: NASA/TM-2015-218675 and its ``initial_conditions_atmospheric.csv``.  The trim values of the
controller in each simulation are not published; they were found by reproducing the trajectories.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Literal

from rtsim.core.errors import UnknownName
from rtsim.core.signals import Vector
from rtsim.models.f16.controller import LAW_PARAMETERS
from rtsim.models.f16.trim import Solution, Trim, trim
from rtsim.models.units import DEG, FT

Command = tuple[float, str, float]
"""A command: the time in s, an input signal of the controller or the guidance, and its new value.
"""


@dataclass(frozen=True)
class FlightCondition:
    """The start of a case: angles in deg, altitude in ft, speed in ft/s; wings level.

    ``trim`` is the solution of :func:`rtsim.models.f16.trim.trim` for this condition.  It is stored
    so that a run needs no search and starts from the same bits on every machine.
    """

    latitude: float
    longitude: float
    altitude: float
    speed: float
    course: float
    trim: Solution


@dataclass(frozen=True)
class F16Case:
    """One check case.

    ``state`` (13,) and ``inputs`` are the trim, ``parameters`` the parameters of the plant that
    differ from its defaults, and ``duration`` is in s.  If ``guidance`` is not "none", the case has
    a controller: ``law_inputs`` are its constant inputs and initial commands, ``commands`` the
    later changes, and ``law_parameters`` its parameters.
    """

    name: str
    state: Vector
    inputs: Mapping[str, float]
    parameters: Mapping[str, float]
    duration: float
    guidance: Literal["none", "course", "circle"]
    guidance_parameters: Mapping[str, float]
    law_inputs: Mapping[str, float]
    law_parameters: Mapping[str, float]
    commands: tuple[Command, ...]
    trim: Trim


_KFFA = (36.0 + 1.15 / 60.0, -(75.0 + 40.0 / 60.0 + 28.0 / 3600.0))
"""First Flight Airport, Kitty Hawk, latitude and longitude"""
SUBSONIC = FlightCondition(
    *(*_KFFA, 10013.0, 400.0 * math.sqrt(2.0), 45.0),
    trim=(0.04605816451379736, -3.232757696509428, 13.873817829558037),
)
SUPERSONIC = FlightCondition(
    *(*_KFFA, 30013.0, 2000.0, 45.0),
    trim=(-0.012942936090114456, -1.5278634121740358, 91.06578487228694),
)
POLE = FlightCondition(
    *(89.95, -45.0, 10000.0, 563.643, 90.0),
    trim=(0.04690095078817876, -3.2588318159175595, 13.858963839095109),
)
DATE_LINE = FlightCondition(
    *(0.0, -179.95, 10000.0, 563.643, 0.0),
    trim=(0.04652004723741177, -3.2469640176051313, 13.819593068330759),
)
CONDITIONS = (SUBSONIC, SUPERSONIC, POLE, DATE_LINE)

_CASES: dict[str, tuple[FlightCondition, float, Literal["none", "course", "circle"]]] = {
    "11": (SUBSONIC, 180.0, "none"),
    "12": (SUPERSONIC, 180.0, "none"),
    "13.1": (SUBSONIC, 60.0, "course"),
    "13.2": (SUBSONIC, 60.0, "course"),
    "13.3": (SUBSONIC, 60.0, "course"),
    "13.4": (SUBSONIC, 60.0, "course"),
    "15": (POLE, 180.0, "circle"),
    "16": (DATE_LINE, 180.0, "circle"),
}
NAMES = tuple(_CASES)


def _commands(name: str, airspeed: float) -> tuple[Command, ...]:
    return {
        "13.1": ((5.0, "altitude_command", 10113.0),),
        "13.2": ((5.0, "airspeed_command", airspeed - 5.0),),
        "13.3": ((15.0, "course_command", 60.0),),
        "13.4": ((20.0, "offset_command", 2000.0),),
    }.get(name, ())


@cache
def case(name: str) -> F16Case:
    """Return the trimmed case ``name``; raises :class:`UnknownName` if it is not in ``NAMES``."""
    if name not in _CASES:
        raise UnknownName("F-16 case", name, NAMES)
    start, duration, guidance = _CASES[name]
    found = trimmed(start)
    airspeed = found.outputs["equivalent_airspeed_kt"]
    references = {
        "airspeed_trim": airspeed,
        "long_stick_trim": found.inputs["elevator"] / -25.0,
        "throttle_trim": found.inputs["power"] / 100.0,
    }
    guiding: dict[str, float] = {}
    law_inputs = {
        "sas_on": 1.0,
        "autopilot_on": 1.0,
        "airspeed_command": airspeed,
        "altitude_command": start.altitude,
    }
    if guidance == "course":
        # Case 13 uses the trim of this aircraft; cases 15 and 16 use theta and alpha of the file.
        references |= {
            "theta_trim": found.theta_deg,
            "alpha_trim": found.outputs["alpha_deg"],
        }
        guiding = {
            "from_latitude": start.latitude,
            "from_longitude": start.longitude,
            # The published trajectories of 13.1 hold the course without feedback of the deviation.
            "hold_track": 1.0 if name == "13.4" else 0.0,
        }
        law_inputs |= {"course_command": start.course, "offset_command": 0.0}
    elif guidance == "circle":
        guiding = {"circle_pole": 1.0 if name == "15" else 0.0}
    controlled = guidance != "none"
    defaults = dict(zip(LAW_PARAMETERS.names, map(float, LAW_PARAMETERS.initial()), strict=True))
    return F16Case(
        name=name,
        state=found.state,
        inputs=found.inputs,
        parameters={},
        duration=duration,
        guidance=guidance,
        guidance_parameters=guiding,
        law_inputs=law_inputs if controlled else {},
        law_parameters={**defaults, **references} if controlled else {},
        commands=_commands(name, airspeed),
        trim=found,
    )


def trimmed(start: FlightCondition, parameters: Mapping[str, float] | None = None) -> Trim:
    """Return the level trim at ``start``; ``parameters`` of the plant override its defaults."""
    return trim(
        latitude=start.latitude * DEG,
        longitude=start.longitude * DEG,
        altitude=start.altitude * FT,
        speed=start.speed * FT,
        course=start.course * DEG,
        parameters=parameters,
        known=None if parameters else start.trim,
    )
