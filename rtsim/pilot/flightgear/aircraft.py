"""Finds the body that FlightGear shows, and its state in the states that a viewer shows."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from rtsim.core.errors import ScenarioError
from rtsim.core.signals import Signals, Vector
from rtsim.equations.earth import EQUATORIAL_RADIUS, FLATTENING
from rtsim.gateway.placing import PlacedBody
from rtsim.pilot.flightgear.packet import Flown
from rtsim.pilot.scenes.scene import Shown
from rtsim.scenario.body import Body

_SQUARED_ECCENTRICITY = FLATTENING * (2.0 - FLATTENING)


def outside_body(bodies: Sequence[Body], plants: Mapping[str, Signals], scenario: str) -> Body:
    """Return the body whose view FlightGear shows: the first aircraft, or else the first body.

    Only bodies with a geodetic position on plants count.  Raises :class:`ScenarioError` if there is
    none.
    """
    found = [
        body
        for body in bodies
        if body.geodetic and all(name.partition(".")[0] in plants for name in body.signals)
    ]
    found.sort(key=lambda body: body.shape != "aircraft")
    if not found:
        raise ScenarioError(
            f"{scenario} declares no body that FlightGear can show; add to the scenario: "
            "show(Body(NAME, geodetic=(LATITUDE, LONGITUDE, ALTITUDE), euler=(ROLL, PITCH, YAW)))"
        )
    return found[0]


class Aircraft:
    """The state of one body, from the states of all plants at the time of a picture."""

    def __init__(self, body: Body, plants: Sequence[tuple[str, Signals]]) -> None:
        self._names = [name for name, _ in plants]
        columns = [
            (f"{name}.{column}", signal.unit)
            for name, signals in plants
            for signal in signals
            for column in signal.columns
        ]
        index = {name: k for k, (name, _) in enumerate(columns)}
        self._placed = PlacedBody(body, index, dict(columns))
        self._euler = bool(body.euler)

    def at(self, plants: Mapping[str, Shown]) -> Flown | None:
        """Return the state, or ``None`` if a signal of the body is not finite."""
        shown = [plants[name] for name in self._names]
        where, turned = self._placed.numbers(np.concatenate([s.values for s in shown]))
        rates = np.concatenate([s.slope for s in shown])
        begun = self._placed.numbers(np.zeros_like(rates))  # of a constant, the rate is 0
        moving, turning = (a - b for a, b in zip(self._placed.numbers(rates), begun, strict=True))
        if not all(np.isfinite(v).all() for v in (where, turned, moving, turning)):
            return None
        latitude, longitude, altitude = map(float, where)
        return Flown(
            latitude, longitude, altitude,
            _three(turned) if self._euler else euler(turned),
            _velocity(latitude, altitude, moving),
            _three(turning) if self._euler else (0.0, 0.0, 0.0),
        )  # fmt: skip


def _three(values: Vector) -> tuple[float, float, float]:
    return float(values[0]), float(values[1]), float(values[2])


def euler(quaternion: Vector) -> tuple[float, float, float]:
    """Return roll, pitch and heading, rad, for a quaternion (4,), scalar first.

    The rotation is from local axes (north, east, down) to body axes.  Source: Stevens, Lewis and
    Johnson, *Aircraft Control and Simulation*, section 1.3.
    """
    w, x, y, z = map(float, quaternion / max(float(np.linalg.norm(quaternion)), 1e-12))
    return (
        math.atan2(2.0 * (y * z + w * x), w * w - x * x - y * y + z * z),
        math.asin(max(-1.0, min(1.0, 2.0 * (w * y - x * z)))),
        math.atan2(2.0 * (x * y + w * z), w * w + x * x - y * y - z * z),
    )


def _velocity(latitude: float, altitude: float, rates: Vector) -> tuple[float, float, float]:
    """Return the velocity north, east and down, m/s, for rates of latitude, longitude, altitude.

    The radii of curvature are those of WGS-84.
    """
    root = math.sqrt(1.0 - _SQUARED_ECCENTRICITY * math.sin(latitude) ** 2)
    across = EQUATORIAL_RADIUS / root
    along = EQUATORIAL_RADIUS * (1.0 - _SQUARED_ECCENTRICITY) / root**3
    return (
        float(rates[0]) * (along + altitude),
        float(rates[1]) * (across + altitude) * math.cos(latitude),
        -float(rates[2]),
    )
