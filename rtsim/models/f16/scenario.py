"""NASA's F-16 check cases 11, 12, 13.1 to 13.4, 15 and 16 as scenarios.

Source: NASA/TM-2015-218675 and its ``initial_conditions_atmospheric.csv``. NASA did not publish the
trim values of the controllers. The trim values of this module reproduce the published trajectories.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Literal

import rtsim as rt
from rtsim.core.errors import UnknownName
from rtsim.core.signals import Vector
from rtsim.core.tag import Duration, Period, exact_seconds
from rtsim.models.body import body_states, drawn
from rtsim.models.f16.controller import (
    LAW_INPUTS,
    LAW_OUTPUTS,
    LAW_PARAMETERS,
    Circle,
    ControlLaw,
    Course,
    Guidance,
)
from rtsim.models.f16.plant import F16
from rtsim.models.f16.published import SOURCE, published
from rtsim.models.f16.trim import Solution, Trim, trim
from rtsim.models.units import DEG, FT
from rtsim.models.wind import DRYDEN_INPUTS, DRYDEN_OUTPUTS, dryden, in_moving_air
from rtsim.record.views import Published

Command = tuple[float, str, float]
"""A command: time in s, name of an input of controller or guidance, and new value."""


@dataclass(frozen=True)
class FlightCondition:
    """Initial condition of a check case with level wings.

    Angles in deg, altitude in ft, speed in ft/s.

    ``trim`` is the stored trim for this condition. With a stored trim, a run starts with exactly
    the same numbers on every machine.
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

    ``state`` (13,) and ``inputs`` contain the trimmed values. ``parameters`` contains the
    parameters of the plant that differ from their defaults. ``duration`` is in s. A case with
    ``guidance="none"`` has no controller. ``law_inputs`` contains the controller's constant inputs,
    ``commands`` its later commands, and ``law_parameters`` its parameters.
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
"""Latitude and longitude of First Flight Airport, Kitty Hawk, deg."""
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
    """Return the trimmed case ``name``; raise :class:`UnknownName` if it is not in ``NAMES``."""
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
        # Case 13 uses the trim of this aircraft; cases 15 and 16 use theta and alpha of NASA's
        # file.
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
    """Return the trim for level flight at ``start``; ``parameters`` replaces default values."""
    return trim(
        latitude=start.latitude * DEG,
        longitude=start.longitude * DEG,
        altitude=start.altitude * FT,
        speed=start.speed * FT,
        course=start.course * DEG,
        parameters=parameters,
        known=None if parameters else start.trim,
    )


GUSTS_S = 0.01
"""Period of the turbulence, s."""


def autopilot(chosen: F16Case) -> rt.PythonController:
    """Return the reference controller for C code, with the trim of the case."""
    return ControlLaw(**chosen.law_parameters).controller("autopilot")


_check_case = case  # the parameter of scenario has the same name


def scenario(
    case: str = "13.1",
    until: Duration = 0,
    step: Duration = 0.005,
    rate: float = 50.0,
    compute: float = 0.0,
    latency: float = 0.0,
    autopilot_on: bool = True,
    turbulence: float = 0.0,
) -> rt.Scenario:
    """Run F-16 check case 11, 12, 13.1 to 13.4, 15 or 16 with the controller at ``rate`` Hz.

    Args:
        case: check case. Cases 11 and 12 have no controller.
        until: end of the run. 0 is the duration of the case.
        step: step of the aircraft, s.
        compute: compute latency of the controller, s.
        latency: transport latency of the controller, s.
        autopilot_on: False leaves only stability augmentation.
        turbulence: probability of exceedance of the Dryden gusts of MIL-F-8785C:
            1e-2 light, 1e-3 moderate, 1e-5 severe, 0 none.
    """
    chosen = _check_case(case)
    out = rt.Scenario(
        f"f16 case {case}",
        until=until or chosen.duration,
        assumptions=("commands of the law are held between its ticks",),
    )
    if turbulence != 0.0:
        gusts = {"exceedance": turbulence}
        out.plant("air", dryden(GUSTS_S), step=GUSTS_S, parameters=gusts)
    augmented = chosen.guidance != "none"
    out.plant(
        "f16",
        F16 if turbulence == 0.0 else in_moving_air(F16),
        step=step,
        states=body_states(chosen.state),
        inputs={} if augmented else dict(chosen.inputs),
        parameters=dict(chosen.parameters),
    )
    out.show(drawn("f16", shape="aircraft", length=15.0), scene="f16", plant="f16")
    _plot(out, chosen.name if turbulence == 0.0 else "", augmented)
    if augmented:
        period = Period(1_000_000_000 / exact_seconds(rate, "rate"))
        settings = _add_guidance(out, chosen, period, autopilot_on)
        out.controller(
            "autopilot",
            ControlLaw(**chosen.law_parameters),
            period=period,
            compute=rt.Fixed(compute),
            transport=rt.Fixed(latency),
        )
        _connect(out, settings, "pilot", "autopilot")
        _connect(out, COURSE, "guidance", "autopilot")
        _connect(out, SENSED, "f16", "autopilot")
        _connect(out, LAW_OUTPUTS.names, "autopilot", "f16")
        out.order("guidance", "autopilot")
    if turbulence != 0.0:
        _connect(out, DRYDEN_INPUTS.names, "f16", "air")
        _connect(out, DRYDEN_OUTPUTS.names, "air", "f16")
    return out


def _connect(out: rt.Scenario, names: Iterable[str], source: str, target: str) -> None:
    for name in names:
        out.connect(f"{source}.{name}", f"{target}.{name}")


def _plot(out: rt.Scenario, case: str, augmented: bool) -> None:
    def commands(*names: str) -> tuple[str, ...]:
        return names if augmented else ()

    def nasa(*columns: str) -> list[Published]:
        long = len(columns) > 1
        given = [(c, f"{SOURCE}, {c[:-4]}" if long else SOURCE) for c in columns if case]
        return [one for column, name in given for one in published(case, column, name)]

    out.plot(
        "altitude [ft]",
        "f16.altitude_ft",
        *commands("pilot.altitude_command"),
        published=nasa("altitude_ft"),
    )
    speed = commands("pilot.airspeed_command")
    out.plot("equivalent airspeed [kt]", "f16.equivalent_airspeed_kt", *speed)
    course = commands("guidance.base_course")
    out.plot("heading [deg]", "f16.yaw_deg", *course, published=nasa("yaw_deg"))
    out.plot(
        "roll and pitch [deg]",
        "f16.roll_deg",
        "f16.pitch_deg",
        published=nasa("roll_deg", "pitch_deg"),
    )
    out.plot("angles of attack and sideslip [deg]", "f16.alpha_deg", "f16.beta_deg")
    out.plot("load factor", "f16.load_factor")
    out.plot("elevator [deg]", "f16.elevator", *commands("autopilot.elevator"))
    out.plot("aileron and rudder [deg]", "f16.aileron", "f16.rudder")
    out.plot("engine power [%]", "f16.power", *commands("autopilot.power"))
    out.plot("body rates [rad/s]", "f16.roll_rate", "f16.pitch_rate", "f16.yaw_rate")
    if augmented:
        out.plot("distance from the course [ft]", "guidance.lateral_deviation")
    out.plot("ground track [deg]", "f16.latitude_deg", over="f16.longitude_deg")


COURSE = Guidance.signals("output").names
SENSED = tuple(name for name in LAW_INPUTS.names if name in F16.outputs)
"""Inputs of the control law that are outputs of the aircraft."""


def _add_guidance(
    out: rt.Scenario, chosen: F16Case, period: Period, autopilot_on: bool
) -> list[str]:
    kind = Course if chosen.guidance == "course" else Circle
    inputs = kind.signals("input")
    settings = [s for s in LAW_INPUTS if s.name not in (*COURSE, *SENSED)]
    guiding = [s for s in inputs if s.name not in F16.outputs]
    values = {**chosen.law_inputs, "autopilot_on": float(autopilot_on)}
    out.source("pilot", rt.Signals(*settings, *guiding), values)
    out.controller("guidance", kind(**chosen.guidance_parameters), period=period)
    _connect(out, [s.name for s in inputs if s.name in F16.outputs], "f16", "guidance")
    _connect(out, [s.name for s in guiding], "pilot", "guidance")
    for time, name, value in chosen.commands:
        out.at(time, f"pilot.{name}", value)
    return [s.name for s in settings]
