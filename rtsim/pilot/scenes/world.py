"""Draws the flat ground, a runway and a course of gates."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pygame

from rtsim.core.signals import Vector
from rtsim.pilot.scenes.camera import Camera, Points
from rtsim.pilot.scenes.text import Colour

GRID: Colour = (72, 94, 58)
COARSE: Colour = (92, 112, 78)
ASPHALT: Colour = (62, 64, 68)
PAINT: Colour = (226, 226, 220)
GATE: Colour = (255, 168, 40)
NEXT_GATE: Colour = (255, 64, 200)
PASSED: Colour = (120, 150, 120)

_CELL, _CELLS = 500.0, 16
_WIDE, _WIDES = 4000.0, 6
_FIELDS = 10
_LOWEST = 0.002
"""Height of the camera above the ground below which lines are not drawn, cells: 1 m."""


class Terrain:
    """The flat ground: a grid of lines with ``cell`` m between them, and fields between the lines.

    The ground is at ``down``, m, usually 0.
    """

    def __init__(self, cell: float = _CELL, down: float = 0.0) -> None:
        wide = _WIDE / _CELL * cell
        grids = ((COARSE, wide, _grid(wide, _WIDES)), (GRID, cell, _grid(cell, _CELLS)))
        self._size, self._down = cell, down
        self._lines = np.concatenate([lines for _, _, lines in grids])
        self._lines[..., 2] = down
        self._strokes = [(colour, 1) for colour, _, lines in grids for _ in lines]
        self._spacing = np.concatenate([np.full((len(g), 1, 2), space) for _, space, g in grids])
        self._cell: tuple[int, int] | None = None
        self._fields: tuple[Points, list[Colour]] = np.zeros((0, 4, 3)), []

    def draw(self, surface: pygame.Surface, camera: Camera) -> None:
        """Draw the ground below a sky that :func:`~rtsim.pilot.scenes.sky.draw_sky` has drawn."""
        if camera.position[2] >= self._down - _LOWEST * self._size:
            return
        draw_areas(surface, camera, *self._fields_around(camera))
        moved = self._lines.copy()
        moved[..., :2] += np.floor(camera.position[:2] / self._spacing) * self._spacing
        draw_lines(surface, camera, moved, self._strokes)

    def _fields_around(self, camera: Camera) -> tuple[Points, list[Colour]]:
        """Return the fields near the camera; a cell's position decides whether it is a field."""
        north, east = (math.floor(camera.position[k] / self._size) for k in (0, 1))
        if (north, east) == self._cell:
            return self._fields
        corners, colours = [], []
        for i in range(north - _FIELDS, north + _FIELDS):
            for k in range(east - _FIELDS, east + _FIELDS):
                drawn = (i * 73856093 ^ k * 19349663) & 0xFF
                if drawn <= 60:
                    corners.append([[i, k], [i + 1, k], [i + 1, k + 1], [i, k + 1]])
                    shade = drawn // 3
                    colours.append((78 + shade, 100 + shade, 54 + shade // 2))
        fields = np.zeros((len(corners), 4, 3))
        fields[..., 2] = self._down
        fields[..., :2] = self._size * np.array(corners, float).reshape(-1, 4, 2)
        self._cell, self._fields = (north, east), (fields, colours)
        return self._fields


class Runway:
    """A runway whose middle is the reference point; ``heading`` in rad, lengths in m.

    The runway is at ``down``, m, usually 0.
    """

    def __init__(
        self, heading: float, length: float = 3000.0, width: float = 60.0, down: float = 0.0
    ) -> None:
        self.length = length
        half, side = 0.5 * length, 0.5 * width
        painted = [
            (along, along + 60.0, -0.9, 0.9) for along in np.arange(150.0 - half, half - 150, 120)
        ]
        painted += [(-half, half, edge, edge + 1.5) for edge in (-side, side - 1.5)]
        for end in (-half + 15.0, half - 60.0):
            for k in range(-4, 4):
                across = (k + 0.25) * side / 4.5
                painted.append((end, end + 45.0, across, across + 3.4))
        flat = [
            ((start, left), (start, right), (end, right), (end, left))
            for start, end, left, right in [(-half, half, -side, side), *painted]
        ]
        self._corners = np.stack([on_ground(np.array(area), heading) for area in flat])
        self._corners[..., 2] = down
        self._colours = [ASPHALT] + [PAINT] * len(painted)

    def draw(self, surface: pygame.Surface, camera: Camera) -> None:
        draw_areas(surface, camera, self._corners, self._colours)


@dataclass
class FlightGate:
    """A gate on the course: its middle (3,) in world axes, m, and its heading, rad."""

    place: Vector
    heading: float
    half: float = 45.0

    @cached_property
    def lines(self) -> Points:
        """The lines (5, 2, 3) of the gate: four sides, and the pole below it."""
        side = self.half * np.array([-math.sin(self.heading), math.cos(self.heading), 0.0])
        up = np.array([0.0, 0.0, -self.half])
        corners = np.array([self.place + a * side + b * up for a, b in _SQUARE])
        pole = np.array([self.place - up, [*self.place[:2], 0.0]])
        return np.stack([*np.stack([corners, np.roll(corners, -1, axis=0)], axis=1), pole])


_SQUARE = ((-1, -1), (1, -1), (1, 1), (-1, 1))


class Course:
    """A course of gates to pass in order; the next gate has another colour.

    The run decides which gates were passed; the scene sets ``next``, ``missed`` and ``passed``.
    """

    def __init__(self, gates: Sequence[FlightGate]) -> None:
        self.gates = tuple(gates)
        self.next = 0
        self.missed = 0
        self.passed = [False] * len(self.gates)

    @classmethod
    def along(cls, rows: Sequence[Sequence[float]], course: float, half: float) -> Course:
        """Return the gates ``rows``: along and across ``course`` (rad), height (m), turn (deg)."""
        gates = []
        for along, across, height, turn in rows:
            place = on_ground(np.array([[along, across]]), course)[0]
            place[2] = -height
            gates.append(FlightGate(place, course + math.radians(turn), half))
        return cls(gates)

    def draw(self, surface: pygame.Surface, camera: Camera) -> None:
        """Draw each gate as a frame on a pole, the last gate first."""
        ends, strokes = [], []
        for k, gate in reversed(list(enumerate(self.gates))):
            colour = PASSED if self.passed[k] else NEXT_GATE if k == self.next else GATE
            distance = math.dist(gate.place, camera.position)
            thick = max(2, min(14, round(3.0 * camera.focal / max(distance, 1.0))))
            ends.append(gate.lines)
            strokes += [(colour, thick)] * 4 + [(colour, 1)]
        if ends:
            draw_lines(surface, camera, np.concatenate(ends), strokes)


def on_ground(corners: Points, heading: float) -> Points:
    """Return world points (k, 3) on the ground for points ``corners`` (k, 2).

    Each row of ``corners`` is a distance along ``heading`` and a distance across it.
    """
    c, s = math.cos(heading), math.sin(heading)
    along, across = corners[:, 0], corners[:, 1]
    return np.stack([c * along - s * across, s * along + c * across, 0.0 * along], axis=1)


def _grid(spacing: float, cells: int) -> Points:
    """Return the lines (k, 2, 3) of a square grid."""
    reach = spacing * cells
    at = spacing * np.arange(-cells, cells + 1.0)
    across = np.stack([[[x, -reach, 0.0], [x, reach, 0.0]] for x in at])
    return np.concatenate((across, across[..., [1, 0, 2]]))


def draw_lines(
    surface: pygame.Surface, camera: Camera, ends: Points, strokes: Sequence[tuple[Colour, int]]
) -> None:
    """Draw world lines (k, 2, 3), each with its colour and thickness, pixels."""
    pixels, which = camera.lines(ends)
    for (here, there), k in zip(pixels.tolist(), which.tolist(), strict=True):
        colour, thick = strokes[k]
        pygame.draw.line(surface, colour, here, there, thick)


def draw_areas(
    surface: pygame.Surface, camera: Camera, corners: Points, colours: Sequence[Colour]
) -> None:
    """Draw world polygons (n, k, 3), each in its colour."""
    for k, outline in camera.areas(corners):
        pygame.draw.polygon(surface, colours[k], outline)
