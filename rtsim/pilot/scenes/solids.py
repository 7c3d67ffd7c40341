"""Draws the shapes of bodies, lit by the sun, and their shadows on the ground."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pygame
from numpy.typing import NDArray

from rtsim.core.signals import Vector
from rtsim.gateway.shapes import Points, Solid
from rtsim.pilot.scenes.camera import Camera
from rtsim.pilot.scenes.sky import TOWARDS_SUN

_SHADE, _EDGE = 0.75, 0.72
"""Brightness of a panel that is turned away from the sun, and of the outline of a panel."""
_OUTLINED = 100
"""A shape with more panels has no outlines, because they would cover its colours."""
_SHADOW = (52, 62, 46)
_SHADOW_CORNERS = 12


@dataclass(frozen=True)
class Placement:
    """Where a body is: ``place`` (3,), m, and body axes as rows (3, 3), in north, east, down."""

    place: Vector
    axes: Points


class DrawnSolid:
    """A shape, prepared for drawing."""

    def __init__(self, solid: Solid) -> None:
        self.solid = solid
        corners = solid.corners
        across = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
        size = np.linalg.norm(across, axis=1, keepdims=True)
        self._normals = across / np.maximum(size, 1e-12)
        self._outlined = len(corners) <= _OUTLINED
        self._middles = corners.mean(axis=1)
        self._closed = solid.outward or is_closed(corners)
        flat = corners.reshape(-1, 3)
        low, high = flat.min(axis=0), flat.max(axis=0)
        if solid.outward:
            away = ((self._middles - 0.5 * (low + high)) * self._normals).sum(axis=1)
            self._normals[away < 0.0] *= -1.0
        turns = np.linspace(0.0, 2.0 * np.pi, _SHADOW_CORNERS, endpoint=False)
        ring = np.stack([np.cos(turns), np.sin(turns), np.zeros(_SHADOW_CORNERS)], axis=1)
        self._footprint = 0.5 * (high + low) + 0.5 * (high - low) * ring

    def draw(self, surface: pygame.Surface, camera: Camera, at: Placement) -> None:
        """Draw the panels, the one with the farthest corner first: a lamp lies on its panel."""
        some = self._facing(camera, at)
        placed = self.solid.corners[some] @ at.axes + at.place
        depth = (placed - camera.position) @ camera.axes[0]
        order = np.argsort(-depth.max(axis=1))
        placed, far = placed[order], some[order]
        lit = np.abs(self._normals[far] @ (at.axes @ TOWARDS_SUN))
        light = _SHADE + (1.0 - _SHADE) * lit
        colours = (self.solid.colours[far] * light[:, np.newaxis]).astype(int)
        edges = (colours * _EDGE).astype(int).tolist()
        shades = colours.tolist()
        for k, outline in camera.areas(placed):
            pygame.draw.polygon(surface, shades[k], outline)
            if self._outlined:
                pygame.draw.polygon(surface, edges[k], outline, 1)

    def _facing(self, camera: Camera, at: Placement) -> NDArray[np.intp]:
        """Return the indices of the panels to draw: of a closed surface those seen from outside."""
        if not self._closed:
            return np.arange(len(self._normals))
        here = at.axes @ (camera.position - at.place)
        return np.flatnonzero(((here - self._middles) * self._normals).sum(axis=1) > 0.0)

    def draw_shadow(
        self, surface: pygame.Surface, camera: Camera, at: Placement, down: float
    ) -> None:
        """Draw the shadow straight below the body, on the ground at ``down``, m."""
        area = self._footprint @ at.axes + at.place
        area[:, 2] = down
        for _, outline in camera.areas(area[np.newaxis]):
            pygame.draw.polygon(surface, _SHADOW, outline)


def is_closed(corners: Points) -> bool:
    """Return True if triangles (n, 3, 3) form closed surfaces whose normals point outwards.

    Then each edge belongs to two triangles, which pass it in opposite directions.
    """
    if corners.shape[1] != 3:
        return False
    _, which = np.unique(corners.reshape(-1, 3), axis=0, return_inverse=True)
    faces = which.reshape(-1, 3)
    edges = np.concatenate([faces, faces[:, [1, 2, 0]]]).reshape(2, -1).T
    forth = {(int(a), int(b)) for a, b in edges}
    once = len(forth) == len(edges)
    volume = np.einsum("ni,ni->n", corners[:, 0], np.cross(corners[:, 1], corners[:, 2])).sum()
    return once and all((b, a) in forth for a, b in forth) and bool(volume > 0.0)
