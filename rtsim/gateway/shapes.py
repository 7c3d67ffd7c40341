"""The shapes of bodies as coloured panels in body axes, and the tracks of bodies.

The window, the page in the browser and Foxglove all draw these shapes.  Body axes are forward,
right, down.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from rtsim.core.signals import Vector
from rtsim.scenario.meshes import Mesh

Points = NDArray[np.float64]
Colours = NDArray[np.uint8]
Colour = tuple[int, int, int]
Corner = tuple[float, float, float]
Panel = tuple[Colour, Sequence[Corner]]
"""A flat convex area: its colour, and its corners."""

_LIGHT, _DARK, _CANOPY, _FLAME = (150, 156, 164), (112, 118, 126), (40, 52, 70), (255, 170, 70)
_PAINT, _GLASS, _TYRE, _LAMP, _REAR = (
    (190, 60, 50), (52, 68, 86), (40, 42, 46), (255, 240, 190), (150, 20, 24),
)  # fmt: skip
_ARM, _HULL, _FRONT, _ROTOR = (70, 76, 84), (48, 52, 60), (235, 90, 40), (196, 204, 214)


@dataclass(frozen=True, eq=False)
class Solid:
    """The panels of a shape, in body axes.

    ``corners`` (n, k, 3), m, has k corners for each panel; the last corner is repeated in panels
    with fewer corners.  ``colours`` (n, 3) are red, green and blue, 0 to 255.
    """

    corners: Points
    colours: Colours
    eye: Vector
    """The place (3,) of a driver's or pilot's eyes, m."""
    on_ground: bool = False
    """True if the origin of the shape is on the ground below it."""
    outward: bool = False
    """True if each panel faces away from the middle, and cannot be seen from inside."""

    def triangles(self) -> tuple[Points, Colours]:
        """Return corners (m, 3, 3), m, and colours (m, 3) of triangles that cover the panels."""
        first, corners = self.corners[:, :1], self.corners
        fans = [
            np.concatenate((first, corners[:, k : k + 2]), axis=1)
            for k in range(1, corners.shape[1] - 1)
        ]
        stacked = np.stack(fans, axis=1).reshape(-1, 3, 3)
        colours = np.repeat(self.colours, len(fans), axis=0)
        across = np.cross(stacked[:, 1] - stacked[:, 0], stacked[:, 2] - stacked[:, 0])
        whole = np.abs(across).max(axis=1) > 0.0  # repeated corners make triangles without area
        return stacked[whole], colours[whole]


@lru_cache(maxsize=64)
def solid_of(shape: str | Mesh, length: float) -> Solid:
    """Return a shape of :data:`rtsim.scenario.body.SHAPES`, ``length`` m long, or a mesh.

    A mesh is scaled to ``length``.
    """
    if isinstance(shape, Mesh):
        corners = shape.corners.astype(np.float64) * (length / shape.length)
        top = float(corners[..., 2].min())
        return Solid(corners, shape.colours, np.array([0.0, 0.0, top]))
    panels, eye, on_ground = _KNOWN[shape]
    most = max(len(corners) for _, corners in panels)
    padded = [[*corners, *[corners[-1]] * (most - len(corners))] for _, corners in panels]
    colours = np.array([colour for colour, _ in panels], np.uint8)
    outward = shape in ("box", "car")
    return Solid(np.array(padded) * length, colours, np.array(eye) * length, on_ground, outward)


def triangles(shape: str | Mesh, length: float) -> tuple[Points, Colours]:
    """Return the corners (n, 3, 3), m, and the colours (n, 3) of the triangles of a shape.

    Each triangle is listed twice, once for each side.
    """
    corners, colours = solid_of(shape, length).triangles()
    return np.concatenate([corners, corners[:, ::-1]]), np.concatenate([colours, colours])


def _both(panels: Sequence[Panel]) -> list[Panel]:
    """Return panels of the right side, and the same panels on the left side."""
    return [*panels, *((c, [(x, -y, z) for x, y, z in corners]) for c, corners in panels)]


def _block(
    x: tuple[float, float],
    y: tuple[float, float],
    z: tuple[float, float],
    colour: Colour,
    top: tuple[float, float] | None = None,
    sides: Colour | None = None,
) -> list[Panel]:
    """Return the six faces of a block; ``top`` are the ends along x of its upper face."""
    (a, b), (left, right), (up, down) = x, y, z
    c, d = top or x
    side = sides or colour
    return [
        (colour, [(a, left, down), (a, right, down), (b, right, down), (b, left, down)]),
        (side, [(a, left, down), (a, right, down), (c, right, up), (c, left, up)]),
        (side, [(b, left, down), (b, right, down), (d, right, up), (d, left, up)]),
        (side, [(a, left, down), (b, left, down), (d, left, up), (c, left, up)]),
        (side, [(a, right, down), (b, right, down), (d, right, up), (c, right, up)]),
        (colour, [(c, left, up), (c, right, up), (d, right, up), (d, left, up)]),
    ]  # fmt: skip


def _ring(middle: Corner, radius: float, axis: str, many: int = 8) -> list[Corner]:
    """Return the corners of a regular polygon around ``middle``; its axis is ``y`` or ``z``."""
    x, y, z = middle
    turns = [math.tau * (k + 0.5) / many for k in range(many)]
    arms = [(radius * math.cos(t), radius * math.sin(t)) for t in turns]
    return [(x + a, y, z + b) if axis == "y" else (x + a, y + b, z) for a, b in arms]


def _wheel(x: float, y: float, radius: float, width: float) -> list[Panel]:
    """Return the parts of a wheel that a car's body does not hide: tread and outside."""
    inner, outer = (_ring((x, y + side, -radius), radius, "y") for side in (0.0, width))
    tread = [
        (_TYRE, [inner[k - 1], inner[k], outer[k], outer[k - 1]])
        for k in range(len(inner))
        if min(inner[k - 1][2], inner[k][2]) > -0.8 * radius  # below the body
    ]
    hub = _ring((x, y + 1.02 * width, -radius), 0.55 * radius, "y")
    return [*tread, (_TYRE, outer), (_LIGHT, hub)]


_AIRCRAFT_LENGTH = 15.1
"""The length from nose to nozzle in the figures of the panels, m."""
_AIRCRAFT: list[Panel] = [
    *_both([
        (_LIGHT, ((1.5, 1.0, 0.0), (-2.8, 4.9, 0.0), (-4.0, 4.9, 0.0), (-4.0, 0.9, 0.0))),
        (_LIGHT, ((-4.9, 0.8, 0.1), (-6.6, 2.8, 0.4), (-7.6, 2.8, 0.4), (-7.2, 0.8, 0.1))),
    ]),
    (_DARK, ((-3.2, 0.0, -0.7), (-6.6, 0.0, -3.4), (-7.8, 0.0, -3.4), (-7.0, 0.0, -0.5))),
    (_DARK, ((7.5, 0.0, 0.1), (2.0, 0.9, 0.7), (-7.0, 0.7, 0.6), (-7.0, -0.7, 0.6),
             (2.0, -0.9, 0.7))),
    (_LIGHT, ((7.5, 0.0, 0.1), (2.5, 0.8, -0.3), (-7.0, 0.7, -0.5), (-7.0, -0.7, -0.5),
              (2.5, -0.8, -0.3))),
    (_CANOPY, ((4.6, 0.0, -0.5), (3.0, 0.5, -1.0), (0.6, 0.0, -1.1), (3.0, -0.5, -1.0))),
    (_FLAME, ((-7.05, 0.5, 0.0), (-7.05, 0.0, -0.5), (-7.05, -0.5, 0.0), (-7.05, 0.0, 0.5))),
]  # fmt: skip
_BOX = _block((-0.5, 0.5), (-0.2, 0.2), (-0.1, 0.1), _LIGHT)
_BOX[2] = (_PAINT, _BOX[2][1])  # the front
_HALF = 0.2
"""Half of the width of the car, car lengths."""
_CAR = [
    *_block((-0.5, 0.5), (-_HALF, _HALF), (-0.19, -0.06), _PAINT),
    *_block((-0.42, 0.24), (-0.18, 0.18), (-0.32, -0.19), _PAINT, (-0.32, 0.08), _GLASS),
    *_both([
        (_LAMP, ((0.502, 0.1, -0.17), (0.502, 0.18, -0.17), (0.502, 0.18, -0.12),
                 (0.502, 0.1, -0.12))),
        (_REAR, ((-0.502, 0.1, -0.17), (-0.502, 0.18, -0.17), (-0.502, 0.18, -0.12),
                 (-0.502, 0.1, -0.12))),
        *_wheel(0.31, 0.155, 0.075, 0.05), *_wheel(-0.31, 0.155, 0.075, 0.05),
    ]),
]  # fmt: skip
_ROTORS = [(x, y) for x in (0.35, -0.35) for y in (0.35, -0.35)]


def _arm(x: float, y: float) -> list[Panel]:
    """Return an arm from the middle to a motor at ``x`` and ``y``, and the disc of its rotor."""
    across = 0.04 / math.hypot(x, y)
    u, v = -y * across, x * across
    colour = _FRONT if x > 0.0 else _ARM
    beam = [(u, v, 0.0), (x + u, y + v, 0.0), (x - u, y - v, 0.0), (-u, -v, 0.0)]
    motor = _block((x - 0.03, x + 0.03), (y - 0.03, y + 0.03), (-0.07, 0.03), _ARM)
    return [(colour, beam), *motor, (_ROTOR, _ring((x, y, -0.08), 0.2, "z", 12))]


_QUADCOPTER = [
    *_block((-0.16, 0.16), (-0.09, 0.09), (-0.06, 0.06), _HULL),
    *(panel for x, y in _ROTORS for panel in _arm(x, y)),
    (_FRONT, ((0.162, -0.05, -0.03), (0.162, 0.05, -0.03), (0.162, 0.05, 0.03),
              (0.162, -0.05, 0.03))),
]  # fmt: skip

_KNOWN: dict[str, tuple[Sequence[Panel], Corner, bool]] = {
    "aircraft": (
        [(c, [(x / _AIRCRAFT_LENGTH, y / _AIRCRAFT_LENGTH, z / _AIRCRAFT_LENGTH)
              for x, y, z in corners]) for c, corners in _AIRCRAFT],
        (0.0, 0.0, 0.0), False,
    ),
    "box": (_BOX, (0.0, 0.0, -0.1), False),
    "car": (_CAR, (0.02, 0.0, -0.28), True),
    "quadcopter": (_QUADCOPTER, (0.0, 0.0, -0.05), False),
}  # fmt: skip
"""The panels, the place of the eyes, and whether the origin is on the ground, by shape."""


class BodyTrail:
    """The past positions of a body, at most ``most`` points even in a long run.

    A new point is kept if it is ``spacing`` m from the last one.  When the list is full, every
    second point is removed and the spacing doubles.
    """

    def __init__(self, spacing: float, most: int = 1000) -> None:
        self._first_spacing = self._spacing = spacing
        self._most = most
        self._points: list[Vector] = []

    def add(self, point: Vector) -> None:
        if self._points and np.linalg.norm(point - self._points[-1]) < self._spacing:
            return
        self._points.append(point)
        if len(self._points) >= self._most:
            self._points = self._points[::2]
            self._spacing *= 2.0

    def clear(self) -> None:
        self._points.clear()
        self._spacing = self._first_spacing

    def points(self, now: Vector) -> Sequence[Vector]:
        """Return the past positions, followed by the present position ``now``."""
        return [*self._points, now]
