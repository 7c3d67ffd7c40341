"""The F-16 with a pilot: aircraft, fly-by-wire controller, and a stick as an external input."""

from __future__ import annotations

import math

from rtsim.components.controller import PythonController
from rtsim.core.signals import Signal, Signals, Vector
from rtsim.core.tag import Duration, Period, exact_seconds
from rtsim.models.f16.by_wire import (
    BY_WIRE_INPUTS,
    BY_WIRE_MEMORY,
    BY_WIRE_OUTPUTS,
    BY_WIRE_PARAMETERS,
    FEEDBACK,
    STICK,
    by_wire,
)
from rtsim.models.f16.plant import F16
from rtsim.models.f16.trim import trim
from rtsim.models.units import DEG, FT, KT
from rtsim.scenario.scenario import Scenario
from rtsim.scenario.shown import Cue

RUNWAY = (36.0176, -75.6713, 45.0)
"""Latitude and longitude of the middle of the runway, and its direction, deg.  The position is that
of First Flight Airport; the direction is not that of its runway."""
_BEFORE_M = 9000.0
_EARTH_M = 6371000.0
_LIMIT = float(BY_WIRE_PARAMETERS["alpha_limit"].initial) * DEG  # type: ignore[arg-type]
STALL = Cue(
    "stall",
    "f16.alpha",
    shaker=(_LIMIT - 6.0 * DEG, _LIMIT - 1.0 * DEG),
    horn=_LIMIT - 3.0 * DEG,
    band=0.5 * DEG,
)
"""The stall warning; it begins at an angle of attack below the controller's limit."""


_TRIM = (0.04349688689658624, -3.1539943399830195, 10.628757254039504)
"""The result of :func:`rtsim.models.f16.trim.trim` for the default altitude and speed."""


class Untouched:
    """A stick that does not move; the run uses it until a viewer connects a stick."""

    def poll(self) -> Vector | None:
        return None


def scenario(
    until: Duration = 3600,
    step: Duration = 0.005,
    rate: float = 100.0,
    altitude_ft: float = 1500.0,
    speed_kt: float = 300.0,
) -> Scenario:
    """Fly the F-16 with a stick: level flight, 9 km from a runway; controller at ``rate`` Hz.

    ``altitude_ft`` (ft) and ``speed_kt`` (kt) are the initial altitude and speed.  The stick is the
    external input ``stick``.
    """
    latitude, longitude, course = RUNWAY
    along = -_BEFORE_M / _EARTH_M
    found = trim(
        latitude=latitude * DEG + along * math.cos(course * DEG),
        longitude=longitude * DEG + along * math.sin(course * DEG) / math.cos(latitude * DEG),
        altitude=altitude_ft * FT,
        speed=speed_kt * KT,
        course=course * DEG,
        known=_TRIM,
    )
    out = Scenario(
        "f16 by hand",
        until=until,
        limits=("there is no ground: below 0 m the aircraft flies on",),
    )
    states = {s.name: found.state[F16.states.slice(s.name)] for s in F16.states}
    controls = BY_WIRE_OUTPUTS.names
    out.plant(
        "f16",
        F16,
        step=step,
        states=states,
        inputs={name: f"by_wire.{name}" for name in controls},
    )
    lever = found.inputs["power"] / 100.0
    signals = Signals(
        *(
            Signal(s.name, s.unit, initial=lever, low=s.low, high=s.high)
            if s.name == "throttle"
            else s
            for s in STICK
        )
    )
    out.external_input("stick", signals, Untouched())
    out.show(STALL, scene="f16", plant="f16")
    out.plot("altitude [ft]", "f16.altitude_ft")
    out.plot("equivalent airspeed [kt]", "f16.equivalent_airspeed_kt")
    out.plot("roll and pitch [deg]", "f16.roll_deg", "f16.pitch_deg")
    out.plot("angles of attack and sideslip [deg]", "f16.alpha_deg", "f16.beta_deg")
    out.plot("load factor", "f16.load_factor")
    out.plot("stick and pedals", *(f"stick.{name}" for name in STICK.names))
    out.plot("surfaces [deg]", "f16.elevator", "f16.aileron", "f16.rudder")
    out.plot("engine power [%]", "f16.power")
    out.plot("ground track [deg]", "f16.latitude_deg", over="f16.longitude_deg")
    period = exact_seconds(rate, "rate")
    controller = PythonController(
        by_wire,
        BY_WIRE_INPUTS,
        BY_WIRE_OUTPUTS,
        parameters=BY_WIRE_PARAMETERS,
        memory=BY_WIRE_MEMORY,
        values={"period": 1.0 / rate, "elevator_trim": found.inputs["elevator"]},
        compile=True,
        name="by_wire",
    )
    out.controller(
        "by_wire",
        controller,
        period=Period(1_000_000_000 / period),
        inputs={
            **{f"stick_{name}": f"stick.{name}" for name in STICK.names},
            **{name: f"f16.{name}" for name in FEEDBACK.names},
        },
    )
    return out
