"""Trim of the F-16: steady flight with constant Euler angles."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache

import numpy as np

from rtsim.core.errors import ModelError
from rtsim.core.signals import Vector
from rtsim.equations.model import BoundModel, bind
from rtsim.linear.plants import Point
from rtsim.linear.trimming import trim as find_trim
from rtsim.models.body import BODY_STATES, acceleration_over_earth, initial_state
from rtsim.models.f16.plant import CONTROLS, F16

Solution = tuple[float, float, float]
"""Pitch angle (rad), elevator (deg) and power (%)."""
_STEADY = 1e-8
"""Largest acceleration (m/s2, rad/s2) of a trimmed flight."""


@dataclass(frozen=True)
class Trim:
    """Trimmed flight condition: state (13,), controls (4,) as ``CONTROLS``, outputs by name."""

    state: Vector
    controls: Vector
    outputs: dict[str, float]

    @property
    def theta_deg(self) -> float:
        return self.outputs["pitch_deg"]

    @property
    def inputs(self) -> dict[str, float]:
        return dict(zip(CONTROLS.names, map(float, self.controls), strict=True))

    @property
    def values(self) -> dict[str, object]:
        """States and controls by name, in the form that ``rtsim.linearise`` expects."""
        states = {s.name: self.state[F16.states.slice(s.name)] for s in F16.states}
        return {**states, **self.inputs}


@cache
def bound_f16() -> BoundModel:
    return bind(F16)


def trim(
    *,
    latitude: float,
    longitude: float,
    altitude: float,
    speed: float,
    course: float,
    parameters: Mapping[str, float] | None = None,
    known: Solution | None = None,
    climb: float = 0.0,
) -> Trim:
    """Find pitch angle, elevator and power for steady flight.

    Roll is zero and yaw is ``course``. The Euler angles are constant relative to north, east and
    down. In the solution, the aircraft accelerates neither along its course, nor vertically, nor in
    pitch. Small side forces and moments due to the Earth's rotation remain, as in NASA's check
    cases.

    Args:
        latitude: geodetic latitude in rad.
        longitude: longitude in rad.
        altitude: altitude in m.
        speed: speed over the Earth in m/s.
        course: direction of flight in rad.
        parameters: parameters of the plant that override its defaults.
        known: solution that is used without a search if its accelerations are small enough.
        climb: angle of the flight path above the horizon in rad.

    Raises:
        ModelError: the aircraft cannot hold this flight with power 0 to 100 %.
    """
    p = F16.parameters.initial(parameters)
    values = dict(zip(F16.parameters.names, map(float, p), strict=True))
    velocity = (speed * math.cos(course), speed * math.sin(course), 0.0)
    if climb != 0.0:
        flat, down = math.cos(climb), -speed * math.sin(climb)
        velocity = (flat * velocity[0], flat * velocity[1], down)

    def state_at(theta: float) -> Vector:
        return initial_state(
            latitude=latitude,
            longitude=longitude,
            altitude=altitude,
            velocity_ned=velocity,
            euler=(0.0, theta, course),
            parameters=values,
        )

    def residual(unknown: Vector) -> Vector:
        x = state_at(unknown[0])
        return _unsteadiness(x, _controls(unknown), p, values["earth_rate"], float(unknown[0]))

    found = None if known is None else np.array(known)
    if found is None or not _worst(residual, found) <= _STEADY:
        try:
            found = _solved(state_at, values)
        except ModelError as error:
            raise ModelError(
                f"no level trim found at {speed:.1f} m/s and {altitude:.0f} m with power 0..100 %: "
                f"{error}; choose a speed and altitude that the aircraft can hold"
            ) from None
    u = _controls(found)
    x = state_at(float(found[0]))
    y = F16.outputs.initial()
    bound_f16().output.call(0.0, x, np.zeros(0), u, p, y)
    return Trim(x, u, dict(zip(F16.outputs.names, map(float, y), strict=True)))


def _solved(state_at: Callable[[float], Vector], parameters: Mapping[str, float]) -> Vector:
    def place(free: Mapping[str, float]) -> dict[str, object]:
        x = state_at(free["theta"])
        states = {s.name: x[F16.states.slice(s.name)] for s in F16.states}
        return {**states, "elevator": free["elevator"], "power": free["power"]}

    def residual(point: Point, dx: Vector, y: Vector) -> Vector:
        theta = float(y[F16.outputs.slice("pitch")][0])
        return _accelerations(point.x, dx, parameters["earth_rate"], theta)

    found = find_trim(
        F16,
        free={"theta": 0.05, "elevator": -2.0, "power": 20.0},
        bounds={"power": (0.0, 100.0)},
        fixed=parameters,
        place=place,
        residual=residual,
        tolerance=_STEADY,
    )
    return np.array(list(found.free.values()))


def _worst(residual: Callable[[Vector], Vector], unknown: Vector) -> float:
    return float(np.max(np.abs(residual(unknown))))


def _controls(unknown: Vector) -> Vector:
    _, elevator, power = unknown
    return np.array([elevator, 0.0, 0.0, power])


def _unsteadiness(x: Vector, u: Vector, p: Vector, rate: float, theta: float) -> Vector:
    dx = np.zeros(F16.states.size)
    bound_f16().derivative.call(0.0, x, np.zeros(0), u, p, dx)
    return _accelerations(x, dx, rate, theta)


def _accelerations(x: Vector, dx: Vector, rate: float, theta: float) -> Vector:
    ahead, _, downward = acceleration_over_earth(x, dx, rate)
    sine, cosine = math.sin(theta), math.cos(theta)
    _, pitching, _ = dx[BODY_STATES.slice("rates")]
    return np.array([cosine * ahead + sine * downward, cosine * downward - sine * ahead, pitching])
