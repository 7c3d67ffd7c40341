"""Draws the sky: bands of haze around the horizon, clouds, and the sun."""

from __future__ import annotations

import math
import random

import numpy as np
import pygame

from rtsim.core.signals import Vector
from rtsim.pilot.scenes.camera import Camera, Points
from rtsim.pilot.scenes.text import Colour

SKY: Colour = (52, 96, 158)
BANDS: tuple[tuple[float, Colour], ...] = (
    (65.0, (58, 103, 164)),
    (45.0, (65, 112, 171)),
    (30.0, (74, 122, 180)),
    (20.0, (84, 131, 187)),
    (13.0, (95, 141, 194)),
    (8.0, (108, 152, 201)),
    (5.0, (124, 165, 208)),
    (3.0, (142, 178, 214)),
    (1.5, (162, 192, 219)),
    (0.6, (180, 204, 223)),
    (0.0, (128, 138, 118)),
    (-1.0, (104, 122, 88)),
    (-4.0, (90, 112, 72)),
)
"""The colours of sky, haze and ground, each with the elevation, deg, of its upper edge."""
_EDGES = [math.radians(elevation) for elevation, _ in BANDS]
_BANDS = list(zip(_EDGES, [*_EDGES[1:], None], [colour for _, colour in BANDS], strict=True))
"""Upper edge, lower edge (rad) and colour of each band; the last band has no lower edge."""
HAZE: Colour = (162, 180, 190)
"""The colour that distant ground approaches."""
SUN: Colour = (255, 250, 226)
_SUN_AZIMUTH, _SUN_ELEVATION = math.radians(60.0), math.radians(28.0)
_SUN_RINGS: tuple[tuple[float, float], ...] = ((5.0, 0.12), (3.4, 0.3), (2.3, 0.55), (1.5, 1.0))
"""Radius (deg) and brightness, 0 to 1, of the glow and the disc of the sun."""
_CLOUDS = 46
_PUFFS, _CORNERS = 3, 10


def _direction(azimuth: float, elevation: float) -> Vector:
    """Return a unit vector (3,), north, east, down, for an azimuth and an elevation, rad."""
    flat = math.cos(elevation)
    return np.array([
        flat * math.cos(azimuth), flat * math.sin(azimuth), -math.sin(elevation),
    ])  # fmt: skip


TOWARDS_SUN = _direction(_SUN_AZIMUTH, _SUN_ELEVATION)
"""The direction of the sun (3,), north, east, down."""


def _around(middle: Vector, wide: float, high: float, corners: int) -> Points:
    """Return directions (corners, 3) on an ellipse around ``middle``; half axes in rad."""
    up = np.array([0.0, 0.0, -1.0])
    right = np.cross(middle, up)
    right = right / np.linalg.norm(right)
    above = np.cross(right, middle)
    turns = math.tau * np.arange(corners)[:, np.newaxis] / corners
    out: Points = middle + wide * np.cos(turns) * right + high * np.sin(turns) * above
    return out


def _clouds() -> tuple[Points, list[Colour]]:
    """Return the directions (n, corners, 3) of clouds at fixed places of the sky, and colours."""
    chance, areas, colours = random.Random(4), [], []
    for _ in range(_CLOUDS):
        elevation = math.asin(chance.uniform(math.sin(math.radians(7.0)), 0.985))
        azimuth, size = chance.uniform(0.0, math.tau), chance.uniform(0.035, 0.1)
        white = chance.randint(212, 238)
        flat = 0.35 + 0.5 * math.sin(elevation)  # clouds near the horizon are seen from the side
        for puff in range(_PUFFS):
            beside = (puff - 1.0) * 0.9 * size / max(0.3, math.cos(elevation))
            part = size * chance.uniform(0.6, 1.0)
            middle = _direction(azimuth + beside, elevation + chance.uniform(-0.1, 0.1) * size)
            areas.append(_around(middle, part, flat * part, _CORNERS))
            colours.append((white, white + 3, white + 9))
    return np.array(areas), colours


_CLOUD_AREAS, _CLOUD_COLOURS = _clouds()
_SUN_AREAS = np.array(
    [_around(TOWARDS_SUN, math.radians(r), math.radians(r), 24) for r, _ in _SUN_RINGS]
)


def draw_sky(surface: pygame.Surface, camera: Camera) -> None:
    """Draw sky, haze, clouds and sun, and the flat ground below the horizon."""
    draw_horizon(surface, camera)
    _draw_far(surface, camera, _CLOUD_AREAS, _CLOUD_COLOURS)
    _draw_far(surface, camera, _SUN_AREAS, [_glow(share) for _, share in _SUN_RINGS])


def draw_horizon(surface: pygame.Surface, camera: Camera) -> None:
    """Draw the bands of colour above and below the horizon."""
    surface.fill(SKY)
    for elevation, lowest, colour in _BANDS:
        corners = camera.below(elevation, lowest)
        if len(corners) > 2:
            pygame.draw.polygon(surface, colour, corners)


def _glow(share: float) -> Colour:
    red, green, blue = (
        round(sky + share * (sun - sky)) for sky, sun in zip((92, 138, 190), SUN, strict=True)
    )
    return red, green, blue


def _draw_far(
    surface: pygame.Surface, camera: Camera, areas: Points, colours: list[Colour]
) -> None:
    """Draw areas (n, corners, 3) of infinitely far points, given as directions."""
    seen = areas @ camera.axes.T
    ahead = np.flatnonzero(seen[..., 0].min(axis=1) > 0.05)
    if not ahead.size:
        return
    pixels = camera.pixels(seen[ahead])
    low, high = pixels.min(axis=1), pixels.max(axis=1)
    inside = ((high > 0.0) & (low < (camera.width, camera.height))).all(axis=1)
    for k, outline in zip(ahead[inside].tolist(), pixels[inside].tolist(), strict=True):
        pygame.draw.polygon(surface, colours[k], outline)
