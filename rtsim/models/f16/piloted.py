"""The F-16 with a pilot: aircraft, fly-by-wire controller, and a stick as an external input."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from rtsim.components.controller import PythonController
from rtsim.core.signals import Signals, Vector
from rtsim.core.tag import Duration, Period, exact_seconds
from rtsim.equations.compiling import plainly
from rtsim.models.body import drawn
from rtsim.models.dryden import DRYDEN_INPUTS, DRYDEN_OUTPUTS, dryden
from rtsim.models.f16.by_wire import (
    BY_WIRE_INPUTS,
    BY_WIRE_MEMORY,
    BY_WIRE_OUTPUTS,
    BY_WIRE_PARAMETERS,
    FEEDBACK,
    STICK,
    by_wire,
)
from rtsim.models.f16.flown import ACTUATORS, FLOWN, output
from rtsim.models.f16.plant import F16
from rtsim.models.f16.stevens_lewis import throttle_for
from rtsim.models.f16.trim import trim
from rtsim.models.units import DEG, FT, KT
from rtsim.models.wind import in_moving_air
from rtsim.scenario.scenario import Scenario
from rtsim.scenario.shown import Cue
from rtsim.scenario.sounds import Sound

RUNWAY = (36.0176, -75.6713, 45.0)
"""Latitude and longitude of the middle of the runway, and its direction, deg.  The position is that
of First Flight Airport; the direction is not that of its runway."""
GUSTS_S = 0.01
"""The period of the turbulence, s."""
_BEFORE_M = 9000.0
_EARTH_M = 6371000.0
_STALL, _PUSHED = (
    float(BY_WIRE_PARAMETERS[name].initial) * DEG  # type: ignore[arg-type]
    for name in ("alpha_highest", "alpha_lowest")
)
STALL = Cue(
    "stall",
    "f16.alpha",
    shaker=(_STALL - 6.0 * DEG, _STALL - 1.0 * DEG),
    horn=_STALL - 3.0 * DEG,
    band=0.5 * DEG,
)
"""The warning of a large angle of attack; it begins below the controller's limit."""
PUSHED = Cue(
    "pushed",
    "f16.alpha",
    shaker=(_PUSHED + 2.0 * DEG, _PUSHED + 0.5 * DEG),
    horn=_PUSHED + 1.0 * DEG,
    text="NEGATIVE ALPHA",
    below=True,
    band=0.5 * DEG,
)
"""The warning of a negative angle of attack near the controller's lower limit."""
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
"""The engine by its power, % (above 50 with afterburner), and the wind by the airspeed."""


_TRIM = (0.04349688689658624, -3.1539943399830195, 10.628757254039504)
"""The result of :func:`rtsim.models.f16.trim.trim` for the default altitude and speed."""


def _beginning_with(signals: Signals, **values: float) -> Signals:
    """Return ``signals`` with other initial values."""
    return Signals(*(replace(s, initial=values.get(s.name, s.initial)) for s in signals))


def _weight(states: Mapping[str, Any], controls: Vector) -> float:
    """Return the load factor (g) of level flight, with the share of the Earth's curvature."""
    x, y = FLOWN.states.initial(states), FLOWN.outputs.initial()
    with plainly():
        output(0.0, x, np.zeros(0), controls, FLOWN.parameters.initial(), y)
    outputs = dict(zip(FLOWN.outputs.names, map(float, y), strict=True))
    return outputs["load_factor"] / math.cos(outputs["pitch"])


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
    turbulence: float = 0.0,
) -> Scenario:
    """Fly the F-16 with a stick: level flight, 9 km from a runway; controller at ``rate`` Hz.

    ``altitude_ft`` (ft) and ``speed_kt`` (kt) are the initial altitude and speed.  The stick is the
    external input ``stick``.  ``turbulence`` is the probability of exceedance of the Dryden gusts
    of MIL-F-8785C: 1e-2 light, 1e-3 moderate, 1e-5 severe, 0 none.
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
    angles = (found.inputs["elevator"], 0.0, 0.0, found.inputs["power"])
    states = {
        **{s.name: found.state[F16.states.slice(s.name)] for s in F16.states},
        **dict(zip(ACTUATORS.names, angles, strict=True)),
    }
    _add_aircraft(out, states, step, turbulence)
    lever = throttle_for(found.inputs["power"])
    signals = _beginning_with(STICK, throttle=lever)
    out.external_input("stick", signals, Untouched())
    aircraft = drawn("f16", "aircraft", 15.0)
    out.show(aircraft, STALL, PUSHED, *SOUNDS, scene="f16", plant="f16")
    out.plot("altitude [ft]", "f16.altitude_ft")
    out.plot("equivalent airspeed [kt]", "f16.equivalent_airspeed_kt")
    out.plot("roll and pitch [deg]", "f16.roll_deg", "f16.pitch_deg")
    out.plot("angles of attack and sideslip [deg]", "f16.alpha_deg", "f16.beta_deg")
    out.plot("load factor", "f16.load_factor")
    out.plot("stick and pedals", *(f"stick.{name}" for name in STICK.names))
    out.plot("surfaces [deg]", *(f"f16.{name}_angle" for name in ("elevator", "aileron", "rudder")))
    out.plot("engine power [%]", "f16.engine_power", "f16.power")
    out.plot("ground track [deg]", "f16.latitude_deg", over="f16.longitude_deg")
    period = exact_seconds(rate, "rate")
    controller = PythonController(
        by_wire,
        BY_WIRE_INPUTS,
        BY_WIRE_OUTPUTS,
        parameters=BY_WIRE_PARAMETERS,
        memory=_beginning_with(BY_WIRE_MEMORY, elevator=found.inputs["elevator"]),
        values={"period": 1.0 / rate, "weight": _weight(states, found.controls)},
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


def _add_aircraft(
    out: Scenario, states: Mapping[str, Any], step: Duration, turbulence: float
) -> None:
    """Add the plant ``f16``, and the plant ``air`` if there is turbulence."""
    model, inputs = FLOWN, {name: f"by_wire.{name}" for name in BY_WIRE_OUTPUTS.names}
    if turbulence != 0.0:
        model = in_moving_air(FLOWN)
        inputs |= {name: f"air.{name}" for name in DRYDEN_OUTPUTS.names}
        wires = {name: f"f16.{name}" for name in DRYDEN_INPUTS.names}
        gusts = {"exceedance": turbulence}
        out.plant("air", dryden(GUSTS_S), step=GUSTS_S, inputs=wires, parameters=gusts)
    out.plant("f16", model, step=step, states=states, inputs=inputs)
