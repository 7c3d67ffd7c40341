"""The F-16 with a pilot, a fly-by-wire controller, and a stick as external input."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import rtsim as rt
from rtsim.core.errors import ScenarioError, UnknownName
from rtsim.core.signals import Signals, Vector
from rtsim.core.tag import Duration, Period, exact_seconds
from rtsim.equations.compiling import plainly
from rtsim.models.atmosphere import standard_atmosphere
from rtsim.models.body import body_states, drawn, initial_state
from rtsim.models.f16.aerodynamics import AREA, thrust_lbf
from rtsim.models.f16.aircraft import (
    GEAR_DRAG,
    PILOTED_F16,
    STANDS,
    FlownAircraft,
    resting,
)
from rtsim.models.f16.by_wire import FEEDBACK, STICK, ByWire
from rtsim.models.f16.plant import F16, STANDARD_GRAVITY
from rtsim.models.f16.stevens_lewis import throttle_for
from rtsim.models.f16.trim import trim
from rtsim.models.piloting.pilot_model import PilotModel
from rtsim.models.piloting.place import along_across, place
from rtsim.models.piloting.task import PERSON, Flying, Task, Untouched, add_flying, task_named
from rtsim.models.terrain import AIRFIELD, RUNWAY_LENGTH, ground_grid
from rtsim.models.units import DEG, FT, KT, LBF
from rtsim.models.wind import DRYDEN_OUTPUTS, dryden
from rtsim.scenario.body import Ground
from rtsim.scenario.shown import Cue, Sound

RUNWAY = AIRFIELD
"""Latitude and longitude of the middle of the runway, and its direction, deg."""
GUSTS_S = 0.01
"""Period of the turbulence, s."""
STARTS = ("air", "final", "runway")
"""Starts of a flight: 9 km before the runway, on the final approach, or on the runway."""
_BEFORE_M = 9000.0
_EARTH_M = 6371000.0
_FINAL_M, _GLIDE, _AIMED_M = 3.0 * 1852.0, 3.0, 300.0
_LINED_UP_M = 60.0
_STALL, _PUSHED = (angle * DEG for angle in (ByWire().alpha_highest, ByWire().alpha_lowest))
STALL = Cue(
    "stall",
    "f16.alpha",
    shaker=(_STALL - 6.0 * DEG, _STALL - 1.0 * DEG),
    horn=_STALL - 3.0 * DEG,
    band=0.5 * DEG,
)
"""Warning of a large angle of attack. The warning begins below the controller's limit."""
PUSHED = Cue(
    "pushed",
    "f16.alpha",
    shaker=(_PUSHED + 2.0 * DEG, _PUSHED + 0.5 * DEG),
    horn=_PUSHED + 1.0 * DEG,
    text="NEGATIVE ALPHA",
    below=True,
    band=0.5 * DEG,
)
"""Warning of a negative angle of attack near the controller's lower limit."""
_POWER = "f16.engine_power"
SOUNDS = (
    Sound(
        "engine", _POWER, pitch=((0.0, 95.0), (50.0, 170.0), (100.0, 240.0)),
        level=((0.0, 0.12), (50.0, 0.25), (100.0, 0.4)), harmonics=(1.0, 0.7, 0.5, 0.3, 0.25, 0.15),
    ),
    Sound("burner", _POWER, pitch=120.0, level=((50.0, 0.0), (100.0, 0.6)), width=120.0),
    Sound(
        "wind", "f16.equivalent_airspeed_kt", pitch=((0.0, 250.0), (600.0, 950.0)),
        level=((60.0, 0.0), (300.0, 0.2), (600.0, 0.5)), width=300.0,
    ),
)  # fmt: skip
"""Sounds of the engine by its power in % (afterburner above 50), and of the wind by the airspeed.
"""


PULL_UP = Cue(
    "pull_up",
    "f16.recovery_height",
    shaker=(0.0, -20.0),
    horn=0.0,
    text="PULL UP",
    below=True,
    band=15.0,
)
"""Warning of the ground, shown if a pull-up that begins in 1.5 s would be too late."""


SCRIPTED = {
    "pitch": PilotModel(gain=4.5, lag=0.4, delay=0.15),
    "roll": PilotModel(gain=0.85, lead=0.33, delay=0.15),
}
"""The scripted pilot's parameters by axis: gain in stick per rad, times in s."""
TASK_SIGNALS = {
    name: f"f16.{name}"
    for name in ("pitch", "roll", "latitude", "longitude", "altitude", "airspeed")
}
"""Signals of the aircraft that tasks need."""
_TRIM = (0.04349688689658624, -3.1539943399830195, 10.628757254039504)
"""Result of :func:`rtsim.models.f16.trim.trim` for the default altitude and speed."""


def _beginning_with(signals: Signals, **values: float) -> Signals:
    return Signals(*(replace(s, initial=values.get(s.name, s.initial)) for s in signals))


@dataclass(frozen=True)
class Beginning:
    """Initial states, controls (4,) and lever positions."""

    states: Mapping[str, Any]
    controls: Vector
    throttle: float
    gear: float

    @property
    def weight(self) -> float:
        """Load factor (g) of level flight, including the effect of the Earth's curvature."""
        outputs = self.outputs()
        return outputs["load_factor"] / math.cos(outputs["pitch"])

    def outputs(self) -> dict[str, float]:
        model: Any = PILOTED_F16
        x, z = model.states.initial(self.states), model.discrete.initial()
        u, p, y = model.inputs.initial(), model.parameters.initial(), model.outputs.initial()
        u[: self.controls.size] = self.controls
        with plainly():
            model.output(0.0, x, z, u, p, y)
        return dict(zip(model.outputs.names, map(float, y), strict=True))


def _place(before: float) -> tuple[float, float, float]:
    latitude, longitude, course = (angle * DEG for angle in RUNWAY)
    along = -before / _EARTH_M
    return (
        latitude + along * math.cos(course),
        longitude + along * math.sin(course) / math.cos(latitude),
        course,
    )


def _in_flight(
    before: float, altitude: float, speed: float, *, gear: bool = False, climb: float = 0.0
) -> Beginning:
    latitude, longitude, course = _place(before)
    found = trim(
        latitude=latitude, longitude=longitude, altitude=altitude, speed=speed, course=course,
        known=None if gear else _TRIM, climb=climb,
    )  # fmt: skip
    power = found.inputs["power"]
    if gear:
        density, sound, _, _ = standard_atmosphere(altitude)
        drag = 0.5 * density * speed * speed * AREA * GEAR_DRAG
        power = _more_power(power, drag, altitude, speed / sound)
    controls = np.array([found.inputs["elevator"], 0.0, 0.0, power])
    states = {
        **body_states(found.state),
        "elevator_angle": found.inputs["elevator"],
        "engine_power": power,
        "gear_extension": 1.0 if gear else 0.0,
    }
    return Beginning(states, controls, throttle_for(power), 1.0 if gear else 0.0)


def _more_power(power: float, force: float, altitude: float, mach: float) -> float:
    wanted = thrust_lbf(power, altitude / FT, mach) + force / LBF
    low, high = power, 100.0
    for _ in range(40):
        middle = 0.5 * (low + high)
        below = thrust_lbf(middle, altitude / FT, mach) < wanted
        low, high = (middle, high) if below else (low, middle)
    return low


def _on_the_runway() -> Beginning:
    latitude, longitude, course = _place(0.5 * RUNWAY_LENGTH - _LINED_UP_M)
    p = dict(zip(F16.parameters.names, map(float, F16.parameters.initial()), strict=True))
    pitch, height = resting(p["mass"] * STANDARD_GRAVITY)
    x = initial_state(
        latitude=latitude, longitude=longitude, altitude=height,
        velocity_ned=(0.0, 0.0, 0.0), euler=(0.0, pitch, course), parameters=p,
    )  # fmt: skip
    states = body_states(x)
    return Beginning({**states, "gear_extension": 1.0}, np.zeros(4), 0.0, 1.0)


def _beginning(start: str, altitude_ft: float | None, speed_kt: float | None) -> Beginning:
    if start not in STARTS:
        raise UnknownName("start", start, STARTS, "f16-by-hand")
    if start != "air" and altitude_ft is not None:
        raise ScenarioError(
            f"start={start} determines the altitude; leave out altitude_ft, or give start=air"
        )
    if start == "runway":
        if speed_kt is not None:
            raise ScenarioError("start=runway begins at rest; leave out speed_kt")
        return _on_the_runway()
    if start == "final":
        before = _FINAL_M + _AIMED_M
        return _in_flight(
            0.5 * RUNWAY_LENGTH + _FINAL_M, before * math.tan(_GLIDE * DEG) + STANDS,
            (170.0 if speed_kt is None else speed_kt) * KT, gear=True, climb=-_GLIDE * DEG,
        )  # fmt: skip
    return _in_flight(
        _BEFORE_M,
        (1500.0 if altitude_ft is None else altitude_ft) * FT,
        (300.0 if speed_kt is None else speed_kt) * KT,
    )


def scenario(
    until: Duration = 0,
    step: Duration = 0.005,
    rate: float = 100.0,
    altitude_ft: float | None = None,
    speed_kt: float | None = None,
    turbulence: float = 0.0,
    start: str = "air",
    wind_kt: float = 0.0,
    wind_from: float = 0.0,
    task: str = "",
    latency: float = 0.0,
    by: str = PERSON,
    remnant: float = 0.0,
    realisation: int = 0,
) -> rt.Scenario:
    """Fly the F-16 with a stick, take off and land; the controller runs at ``rate`` Hz.

    Args:
        until: end of the run. 0 is the end of the task, or 3600 s without a task.
        step: step of the aircraft, s.
        altitude_ft: initial altitude in ft for the start ``air``; the default is 1500.
        speed_kt: initial speed in kt; the default is 300, or 170 for the start ``final``.
        turbulence: probability of exceedance of the Dryden gusts of MIL-F-8785C:
            1e-2 light, 1e-3 moderate, 1e-5 severe, 0 none.
        start: ``air`` (level flight, 9 km before the runway), ``final`` (3 nautical miles before
            the runway, on a glide path of 3 deg, gear down) or ``runway`` (at rest).
        wind_kt: speed of the wind in kt. With turbulence it is the mean wind 20 ft above the
            ground, and causes gusts near the ground.
        wind_from: direction from which the wind comes, deg.
        task: task of the pilot: a name that ``rtsim tasks`` lists, or a TOML file.
        latency: delay of the stick, s.
        by: ``person``, or ``script`` for a scripted pilot (docs/tasks.md).
        remnant: density of the noise that is added to the error of the scripted pilot.
        realisation: phases of a tracking task; 0 keeps the phases of the task.
    """
    chosen = task_named(task, realisation) if task else None
    begins = _beginning(start, altitude_ft, speed_kt)
    out = rt.Scenario(
        "f16 by hand",
        until=until or (chosen.duration if chosen else 3600),
        limits=("forests are only drawn: their trees are no obstacles",),
    )
    signals = _beginning_with(STICK, throttle=begins.throttle, gear=begins.gear)
    linked = chosen is not None or latency != 0.0 or by != PERSON
    stick = "link" if linked else "stick"
    _add_aircraft(out, begins.states, step, turbulence, wind_kt * KT, wind_from * DEG, stick)
    if linked:
        flying = Flying(signals, 1.0 / rate, latency, by, SCRIPTED, remnant)
        add_flying(out, flying, chosen, TASK_SIGNALS, _task_values(begins))
    else:
        out.external_input("stick", signals, Untouched())
    _show(out, chosen)
    _plot(out)
    period = exact_seconds(rate, "rate")
    by_wire = ByWire(
        period=1.0 / rate,
        weight=begins.weight,
        filtered_elevator=float(begins.controls[0]),
    )
    out.controller(by_wire, period=Period(1_000_000_000 / period))
    for name in STICK.names:
        out.connect(f"{stick}.{name}", f"by_wire.stick_{name}")
    for name in FEEDBACK.names:
        out.connect(f"f16.{name}", f"by_wire.{name}")
    for name in ByWire.signals("output").names:
        out.connect(f"by_wire.{name}", f"f16.{name}")
    if linked:
        out.order("link", "by_wire")
    return out


def _show(out: rt.Scenario, task: Task | None) -> None:
    ground = Ground(ground_grid(), RUNWAY[0], RUNWAY[1])
    scene, more = ("", {}) if task is None else (task.scene, task.shown())
    aircraft = drawn("f16", "aircraft", 15.0)
    shown = (aircraft, STALL, PUSHED, PULL_UP, ground, *SOUNDS)
    out.show(*shown, scene=scene or "f16", plant="f16", **more)


def _plot(out: rt.Scenario) -> None:
    out.plot("altitude [ft]", "f16.altitude_ft")
    out.plot("height above the ground [m]", "f16.height")
    out.plot("equivalent airspeed [kt]", "f16.equivalent_airspeed_kt")
    out.plot("roll and pitch [deg]", "f16.roll_deg", "f16.pitch_deg")
    out.plot("angles of attack and sideslip [deg]", "f16.alpha_deg", "f16.beta_deg")
    out.plot("load factor, and load of the wheels", "f16.load_factor", "f16.wheel_load")
    out.plot("stick and pedals", *(f"stick.{name}" for name in STICK.names[:4]))
    out.plot("brake, gear, and modes of the autopilot",
             "stick.brake", "f16.gear_extension", "by_wire.autopilot")  # fmt: skip
    out.plot("surfaces [deg]", *(f"f16.{name}_angle" for name in ("elevator", "aileron", "rudder")))
    out.plot("engine power [%]", "f16.engine_power", "f16.power")
    out.plot("ground track [deg]", "f16.latitude_deg", over="f16.longitude_deg")


def _task_values(begins: Beginning) -> dict[str, object]:
    outputs = begins.outputs()
    latitude0, longitude0, course = (angle * DEG for angle in RUNWAY)
    north, east, down = place(
        outputs["latitude"], outputs["longitude"], outputs["altitude"], latitude0, longitude0
    )
    along, across = along_across(north, east, course)
    return {
        "latitude0": latitude0,
        "longitude0": longitude0,
        "course": course,
        "pitch_centre": outputs["pitch"],
        "roll_centre": outputs["roll"],
        "along_start": along,
        "across_start": across,
        "height_start": -down,
        "lead_speed": outputs["airspeed"],
    }


def _add_aircraft(
    out: rt.Scenario, states: Mapping[str, Any], step: Duration, turbulence: float,
    wind: float, wind_from: float, stick: str,
) -> None:  # fmt: skip
    if turbulence != 0.0:
        values = {"exceedance": turbulence, "wind_20ft": wind, "wind_from": wind_from}
        air = out.plant("air", dryden(GUSTS_S), step=GUSTS_S, parameters=values)
    f16 = out.plant("f16", FlownAircraft(**states), step=step)
    out.connect(f"{stick}.brake", f16.brake)
    out.connect(f"{stick}.gear", f16.gear)
    out.connect(f"{stick}.yaw", f16.pedal)
    if turbulence != 0.0:
        out.connect(f16.airspeed, air.airspeed)
        out.connect(f16.height, air.altitude)
        out.connect(f16.roll, air.roll)
        out.connect(f16.pitch, air.pitch)
        for name in DRYDEN_OUTPUTS.names:
            out.connect(f"air.{name}", f"f16.{name}")
    elif wind != 0.0:
        out.connect(-wind * math.cos(wind_from), f16.wind_north)
        out.connect(-wind * math.sin(wind_from), f16.wind_east)
