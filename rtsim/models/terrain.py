"""A generated terrain around a runway: hills, plains, lakes, fields, forests and two roads.

The height is a sum of plane waves. The terrain is the same in each run and on each machine, because
it uses no data files and no random numbers. Where the sum is negative, the ground is flat at 0 m.
Where the sum is strongly negative, the ground is a lake. The ground is also flat around the runway
and along its extended centre line.

Positions are in m north and east of the middle of the runway. The axes assume a flat world, as in
:mod:`rtsim.pilot.scenes.hud`, and are valid within about 100 km.
"""

from __future__ import annotations

import math
from functools import cache

import numpy as np

from rtsim.core.signals import Vector
from rtsim.equations.compiling import compiled
from rtsim.equations.earth import EQUATORIAL_RADIUS, FLATTENING
from rtsim.models.units import DEG
from rtsim.scenario.body import FIELD, FOREST, GRASS, ROAD, RUNWAY, WATER, GroundGrid

AIRFIELD = (36.0176, -75.6713, 45.0)
"""Latitude and longitude of the middle of the runway, and its direction, deg.

The position is that of First Flight Airport. The direction differs from the real runway.
"""
RUNWAY_LENGTH, RUNWAY_WIDTH = 3000.0, 60.0
"""Length and width of the runway, m; its height is 0 m."""
HIGHEST = 260.0
"""Height above all hills, m."""

_LATITUDE, _LONGITUDE = AIRFIELD[0] * DEG, AIRFIELD[1] * DEG
_COS_LATITUDE = math.cos(_LATITUDE)
_E2 = FLATTENING * (2.0 - FLATTENING)
_ROOT = math.sqrt(1.0 - _E2 * math.sin(_LATITUDE) ** 2)
_NORMAL = EQUATORIAL_RADIUS / _ROOT
_MERIDIAN = _NORMAL * (1.0 - _E2) / (_ROOT * _ROOT)
_AHEAD_NORTH, _AHEAD_EAST = math.cos(AIRFIELD[2] * DEG), math.sin(AIRFIELD[2] * DEG)

_LENGTH = np.array([9100.0, 6700.0, 5300.0, 4100.0, 2900.0, 2100.0, 1500.0])
_TOWARDS = np.array([20.0, 95.0, 160.0, 50.0, 125.0, 5.0, 75.0]) * DEG
_NORTHWARD = 2.0 * math.pi / _LENGTH * np.cos(_TOWARDS)
_EASTWARD = 2.0 * math.pi / _LENGTH * np.sin(_TOWARDS)
_PHASE = np.array([0.4, 2.3, 4.1, 5.6, 1.2, 3.3, 0.9])
_AMPLITUDE = np.array([80.0, 60.0, 48.0, 34.0, 18.0, 11.0, 6.0])
_ROUNDING = 40.0
_LAKE = -70.0
_FLAT_ALONG, _FLAT, _HILLY = 6500.0, 700.0, 2600.0
_ROAD_NORTH, _ROAD_EAST, _ROAD_HALF = -1700.0, 1900.0, 6.0
_FIELD_SIDE, _FIELD_SHARE = 500.0, 0.24
_FOREST = 0.55


@compiled
def along_runway(north: float, east: float) -> tuple[float, float]:
    """Return the distances (m) along the runway and to its right, from the runway's middle."""
    return (
        north * _AHEAD_NORTH + east * _AHEAD_EAST,
        east * _AHEAD_NORTH - north * _AHEAD_EAST,
    )


@compiled
def local(latitude: float, longitude: float) -> tuple[float, float]:
    """Convert geodetic angles (rad) to m north and east of the runway's middle."""
    east = longitude - _LONGITUDE
    east -= 2.0 * math.pi * math.floor(east / (2.0 * math.pi) + 0.5)
    return (latitude - _LATITUDE) * _MERIDIAN, east * _NORMAL * _COS_LATITUDE


@compiled
def _waves(north: float, east: float) -> tuple[float, float, float]:
    total, slope_north, slope_east = 0.0, 0.0, 0.0
    for k in range(_AMPLITUDE.size):
        angle = _NORTHWARD[k] * north + _EASTWARD[k] * east + _PHASE[k]
        total += _AMPLITUDE[k] * math.sin(angle)
        steep = _AMPLITUDE[k] * math.cos(angle)
        slope_north += steep * _NORTHWARD[k]
        slope_east += steep * _EASTWARD[k]
    return total, slope_north, slope_east


@compiled
def _hilliness(north: float, east: float) -> tuple[float, float, float]:
    along, across = along_runway(north, east)
    beyond = abs(along) - _FLAT_ALONG
    if beyond < 0.0:
        beyond = 0.0
    distance = math.sqrt(beyond * beyond + across * across)
    part = (distance - _FLAT) / (_HILLY - _FLAT)
    if part <= 0.0:
        return 0.0, 0.0, 0.0
    if part >= 1.0:
        return 1.0, 0.0, 0.0
    steep = 6.0 * part * (1.0 - part) / ((_HILLY - _FLAT) * distance)
    by_along = steep * (beyond if along > 0.0 else -beyond)
    by_across = steep * across
    return (
        part * part * (3.0 - 2.0 * part),
        by_along * _AHEAD_NORTH - by_across * _AHEAD_EAST,
        by_along * _AHEAD_EAST + by_across * _AHEAD_NORTH,
    )


@compiled
def terrain(north: float, east: float) -> tuple[float, float, float]:
    """Return the height (m) above the ellipsoid, and its slopes towards north and east.

    The height and its slopes are continuous.
    """
    share, share_north, share_east = _hilliness(north, east)
    if share == 0.0:
        return 0.0, 0.0, 0.0
    total, slope_north, slope_east = _waves(north, east)
    if total <= 0.0:
        return 0.0, 0.0, 0.0
    whole = total + _ROUNDING
    hill = total * total / whole
    steep = total * (total + 2.0 * _ROUNDING) / (whole * whole)
    return (
        share * hill,
        share * steep * slope_north + share_north * hill,
        share * steep * slope_east + share_east * hill,
    )


@compiled
def cover(north: float, east: float) -> int:
    """Return the kind of ground as an index into ``rtsim.scenario.body.KINDS``."""
    along, across = along_runway(north, east)
    if abs(along) <= 0.5 * RUNWAY_LENGTH and abs(across) <= 0.5 * RUNWAY_WIDTH:
        return RUNWAY
    if abs(north - _ROAD_NORTH) <= _ROAD_HALF or abs(east - _ROAD_EAST) <= _ROAD_HALF:
        return ROAD
    share, _, _ = _hilliness(north, east)
    if share == 0.0:
        return GRASS
    total, _, _ = _waves(north, east)
    if total < _LAKE and share == 1.0:
        return WATER
    if math.sin(north / 610.0 + 1.3) * math.sin(east / 730.0 + 0.4) > _FOREST:
        return FOREST
    mixed = 12.9898 * math.floor(north / _FIELD_SIDE) + 78.233 * math.floor(east / _FIELD_SIDE)
    drawn = math.sin(mixed) * 43.7585453
    return FIELD if drawn - math.floor(drawn) < _FIELD_SHARE else GRASS


@compiled
def _fill(north: Vector, east: Vector, height: Vector, kind: Vector) -> None:
    """Fill ``height`` (n, m) at the grid points, and ``kind`` (n - 1, m - 1) for the cells."""
    for i in range(north.size):
        for k in range(east.size):
            height[i, k], _, _ = terrain(north[i], east[k])
    for i in range(north.size - 1):
        for k in range(east.size - 1):
            found = cover(0.5 * (north[i] + north[i + 1]), 0.5 * (east[k] + east[k + 1]))
            kind[i, k] = GRASS if found == RUNWAY else found


@cache
def ground_grid(reach: float = 12_000.0, spacing: float = 200.0) -> GroundGrid:
    """Return the terrain as a grid for viewers, up to ``reach`` (m) from the runway.

    A cell has the kind of ground of its middle, such as forest. Roads have narrow cells of their
    own. A scene draws the runway separately, because the runway is not parallel to the cells.
    Viewers draw flat surfaces between the grid points. With the default ``spacing`` (m), these
    surfaces are within 4 m of the true height.
    """
    axis = np.arange(-reach, reach + 0.5 * spacing, spacing)
    edges = np.array([-_ROAD_HALF, _ROAD_HALF])
    north = np.unique(np.concatenate((axis, _ROAD_NORTH + edges)))
    east = np.unique(np.concatenate((axis, _ROAD_EAST + edges)))
    height, kind = np.zeros((north.size, east.size)), np.zeros((north.size - 1, east.size - 1))
    _fill(north, east, height, kind)
    return GroundGrid(north, east, height, kind.astype(np.uint8))
