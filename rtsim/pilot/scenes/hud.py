"""Head-up display: symbols at directions in the world, and numbers.

The symbols are computed from position, velocity and attitude in Earth-centred axes. Euler angles
are not used, because they jump at the zenith. The Earth is approximated by a plane at a reference
point. The approximation is valid within about 100 km of this point.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pygame

from rtsim.core.signals import Vector
from rtsim.pilot.scenes.camera import Camera, Points
from rtsim.pilot.scenes.scene import Shown
from rtsim.pilot.scenes.text import EDGE, Colour, shade, stroke, write
from rtsim.scenario.shown import LEFT, RIGHT, Hud

# The pose of an aircraft in a flat world.

EQUATORIAL_RADIUS = 6378137.0
FLATTENING = 1.0 / 298.257223563
EARTH_RATE = 7.292115e-5
GRAVITATION = 3.986004418e14
"""Constants of WGS 84.

The constants are copied from :mod:`rtsim.equations.earth`, which would load the compiler.
"""
G = 9.80665
KT, FT = 1852.0 / 3600.0, 0.3048
_FARTHEST = 1e8
"""Limit of positions (m), velocities (m/s) and load factors (g) that can be drawn."""


@dataclass(frozen=True)
class FlightScene:
    """The pose of an aircraft.

    ``place`` (3,) is the position relative to the reference point: north, east, down (m). The rows
    of ``axes`` are the body axes in world axes.
    """

    place: Vector
    axes: Points
    velocity: Vector
    """Velocity relative to the ground (3,): north, east, down, m/s."""
    load: float
    """Load factor along -z of the body, g."""

    @property
    def drawable(self) -> bool:
        """True if all numbers are finite and not too large for pixel coordinates."""
        given = np.concatenate((self.place, self.velocity, self.axes.ravel(), [self.load]))
        return bool((np.abs(given) < _FARTHEST).all())  # also False for NaN

    @property
    def heading(self) -> float:
        """Heading, rad, 0 to 2 pi."""
        return math.atan2(self.axes[0, 1], self.axes[0, 0]) % math.tau

    @property
    def pitch(self) -> float:
        return math.asin(max(-1.0, min(1.0, -self.axes[0, 2])))

    @property
    def roll(self) -> float:
        return math.atan2(self.axes[1, 2], self.axes[2, 2])

    @property
    def height(self) -> float:
        """Height above the ellipsoid, m."""
        return -float(self.place[2])


class Ground:
    """A flat approximation of the Earth around a point (deg)."""

    def __init__(self, latitude: float, longitude: float) -> None:
        self.latitude, self.longitude = math.radians(latitude), math.radians(longitude)
        sine = math.sin(self.latitude)
        e2 = FLATTENING * (2.0 - FLATTENING)
        root = math.sqrt(1.0 - e2 * sine * sine)
        self._normal = EQUATORIAL_RADIUS / root
        self._meridian = self._normal * (1.0 - e2) / (root * root)

    def place(self, latitude: float, longitude: float, height: float) -> Vector:
        """Return the position (north, east, down) in m, for angles in rad and a height in m."""
        east = math.remainder(longitude - self.longitude, math.tau)
        return np.array(
            [
                (latitude - self.latitude) * self._meridian,
                east * self._normal * math.cos(self.latitude),
                -height,
            ]
        )

    def flight(self, body: Shown) -> FlightScene:
        """Return position and attitude of a body with the states of ``rtsim.models.body``."""
        x = body.vector("position")
        velocity = body.vector("velocity")
        latitude, height = geodetic(x)
        celestial = math.atan2(x[1], x[0])
        longitude = celestial - EARTH_RATE * body.ns * 1e-9
        world = ned_axes(latitude, celestial)
        turning = turned(body.vector("attitude"))
        relative = velocity - EARTH_RATE * np.array([-x[1], x[0], 0.0])
        felt = body.rate("velocity") + GRAVITATION * x / (x @ x) ** 1.5
        return FlightScene(
            self.place(latitude, longitude, height),
            turning @ world.T,
            world @ relative,
            -float((turning @ felt)[2]) / G,
        )


def geodetic(x: Vector) -> tuple[float, float]:
    """Return the latitude (rad) and the height (m) of an Earth-centred position (3,).

    Source: Bowring's formula, one iteration.
    """
    across = math.hypot(x[0], x[1])
    polar = EQUATORIAL_RADIUS * (1.0 - FLATTENING)
    e2 = FLATTENING * (2.0 - FLATTENING)
    u = math.atan2(x[2] * EQUATORIAL_RADIUS, across * polar)
    second = e2 / (1.0 - e2)
    latitude = math.atan2(
        x[2] + second * polar * math.sin(u) ** 3,
        across - e2 * EQUATORIAL_RADIUS * math.cos(u) ** 3,
    )
    sine = math.sin(latitude)
    height = across * math.cos(latitude) + x[2] * sine
    return latitude, height - EQUATORIAL_RADIUS * math.sqrt(1.0 - e2 * sine * sine)


def ned_axes(latitude: float, longitude: float) -> Points:
    """Return a matrix (3, 3) whose rows are north, east and down in Earth-centred axes."""
    sb, cb = math.sin(latitude), math.cos(latitude)
    sl, cl = math.sin(longitude), math.cos(longitude)
    return np.array([[-sb * cl, -sb * sl, cb], [-sl, cl, 0.0], [-cb * cl, -cb * sl, -sb]])


def turned(q: Vector) -> Points:
    """Return the body axes as rows, for a quaternion ``q`` (scalar first)."""
    w, x, y, z = q / math.sqrt(float(q @ q))
    return np.array(
        [
            [1 - 2 * (y * y + z * z), 2 * (x * y + w * z), 2 * (x * z - w * y)],
            [2 * (x * y - w * z), 1 - 2 * (x * x + z * z), 2 * (y * z + w * x)],
            [2 * (x * z + w * y), 2 * (y * z - w * x), 1 - 2 * (x * x + y * y)],
        ]
    )


GREEN: Colour = (96, 255, 128)
AMBER: Colour = (255, 190, 60)
RED: Colour = (255, 84, 72)
SHADE = (8, 24, 12, 110)
_HEADING_SIZES = 3.8
"""Height of the heading area at the top of the picture, in letter sizes."""


@dataclass(frozen=True)
class HudFigures:
    """The numbers on the display, in SI units and rad."""

    airspeed: float
    alpha: float
    mach: float
    alpha_warns: bool = False
    throttle: float | None = None
    note: str = ""
    looks_ahead: bool = True
    """True if the view is from the cockpit with the nose in the middle of the picture."""


class HeadUp:
    """Draw a head-up display that fits the size of the picture."""

    def draw(
        self, surface: pygame.Surface, camera: Camera, flight: FlightScene, figures: HudFigures
    ) -> None:
        self.symbols(surface, camera, flight, ahead=figures.looks_ahead)
        self._boxes(surface, flight, figures, max(16, surface.get_height() // 30))

    def symbols(
        self,
        surface: pygame.Surface,
        camera: Camera,
        flight: FlightScene,
        ladder: bool = True,
        ahead: bool = True,
    ) -> None:
        """Draw the pitch ladder, the nose symbol, the flight path marker and the heading.

        With ``ladder=False``, as for a ground vehicle, only the heading is drawn. The nose symbol
        is drawn only if the view is straight ahead (``ahead``).
        """
        size = max(16, surface.get_height() // 30)
        if ladder:
            self._ladder(surface, camera, flight, size)
            if ahead:
                self._waterline(surface, size)
            self._flight_path(surface, camera, flight, size)
        self._heading(surface, flight, size)

    def _ladder(
        self, surface: pygame.Surface, camera: Camera, flight: FlightScene, size: int
    ) -> None:
        flat = math.hypot(flight.axes[0, 0], flight.axes[0, 1])
        if flat < 1e-6:
            return
        north, east = flight.axes[0, 0] / flat, flight.axes[0, 1] / flat
        middle = 5 * round(math.degrees(flight.pitch) / 5.0)
        inner, outer = math.radians(2.5), math.radians(6.5)
        rungs = [e for e in range(middle - 20, middle + 25, 5) if abs(e) <= 90]
        away = []
        for elevation in rungs:
            reach = 2.2 * outer if elevation == 0 else outer
            c, s = math.cos(math.radians(elevation)), math.sin(math.radians(elevation))
            for turn in (-inner, -reach, inner, reach):
                t = math.tan(turn)
                away.append((c * north - t * east, c * east + t * north, -s))
        ends = camera.directions(np.array(away))
        for k in range(0, len(ends), 2):
            inner_end, outer_end = ends[k : k + 2]
            if inner_end is None or outer_end is None:
                continue
            if min(inner_end[1], outer_end[1]) > _HEADING_SIZES * size:
                self._rung(surface, rungs[k // 4], inner_end, outer_end, size)

    def _rung(
        self,
        surface: pygame.Surface,
        elevation: int,
        inner: tuple[float, float],
        outer: tuple[float, float],
        size: int,
    ) -> None:
        (x, y), (u, v) = inner, outer
        if elevation >= 0:
            stroke(surface, GREEN, [inner, outer])
        else:
            for k in range(0, 5, 2):
                a, b = k / 5.0, (k + 1) / 5.0
                here, there = ((x + c * (u - x), y + c * (v - y)) for c in (a, b))
                stroke(surface, GREEN, [here, there])
        if elevation:
            beyond = (u + 0.25 * (u - x), v + 0.25 * (v - y))
            write(surface, str(elevation), beyond, size, GREEN, "centre", edged=True)

    def _waterline(self, surface: pygame.Surface, size: int) -> None:
        x, y = surface.get_width() / 2, surface.get_height() / 2
        w = 0.5 * size
        points = [(-3, 0), (-1.6, 0), (-0.8, 1), (0, 0), (0.8, 1), (1.6, 0), (3, 0)]
        stroke(surface, AMBER, [(x + w * a, y + w * b) for a, b in points])

    def _flight_path(
        self, surface: pygame.Surface, camera: Camera, flight: FlightScene, size: int
    ) -> None:
        if float(np.abs(flight.velocity).max()) < 1.0:
            return
        r = 0.4 * size
        x, y, outside = pegged(camera, flight.velocity, surface.get_size(), 3.0 * r)
        pygame.draw.circle(surface, EDGE, (x, y), r + 1, 4)
        pygame.draw.circle(surface, GREEN, (x, y), r, 2)
        if outside:
            stroke(surface, GREEN, [(x - r, y - r), (x + r, y + r)])
            stroke(surface, GREEN, [(x - r, y + r), (x + r, y - r)])
        stroke(surface, GREEN, [(x - 2.4 * r, y), (x - r, y)])
        stroke(surface, GREEN, [(x + r, y), (x + 2.4 * r, y)])
        stroke(surface, GREEN, [(x, y - 2.2 * r), (x, y - r)])

    def _heading(self, surface: pygame.Surface, flight: FlightScene, size: int) -> None:
        width = surface.get_width()
        y, per_degree = 1.6 * size, width / 90.0
        heading = math.degrees(flight.heading)
        first = 5 * math.floor((heading - 15.0) / 5.0)
        for degree in range(first, first + 40, 5):
            x = width / 2 + (degree - heading) * per_degree
            if abs(x - width / 2) > 16.0 * per_degree:
                continue
            long = degree % 10 == 0
            stroke(surface, GREEN, [(x, y), (x, y - (8 if long else 4))])
            if long:
                write(
                    surface,
                    f"{degree % 360 // 10:02d}",
                    (x, y - size),
                    size,
                    GREEN,
                    "centre",
                    edged=True,
                )
        mark = [(width / 2, y + 2), (width / 2 - 6, y + 11), (width / 2 + 6, y + 11)]
        pygame.draw.polygon(surface, AMBER, mark)
        text = f"{round(heading) % 360:03d}"
        write(surface, text, (width / 2, y + 11 + 0.6 * size), size, GREEN, "centre", edged=True)

    def _boxes(
        self, surface: pygame.Surface, flight: FlightScene, figures: HudFigures, size: int
    ) -> None:
        width, height = surface.get_size()
        big = round(1.5 * size)
        left, right, middle = 0.17 * width, 0.83 * width, 0.46 * height
        self._box(surface, f"{figures.airspeed / KT:.0f}", (left, middle), big)
        self._box(surface, f"{flight.height / FT:.0f}", (right, middle), big)
        write(surface, "KEAS", (left + 2.0 * big, middle), size, GREEN, edged=True)
        write(surface, "ft", (right + 2.0 * big, middle), size, GREEN, edged=True)
        alpha = math.degrees(figures.alpha)
        rows = [
            (f"g   {flight.load:4.1f}", AMBER if abs(flight.load) > 7.0 else GREEN),
            (f"\u03b1   {alpha:4.1f}\u00b0", RED if figures.alpha_warns else GREEN),
            (f"M   {figures.mach:4.2f}", GREEN),
        ]
        if figures.throttle is not None:
            rows.append((f"thr {100.0 * figures.throttle:3.0f} %", GREEN))
        climb = -float(flight.velocity[2]) / FT * 60.0
        beside = [(f"{climb:+6.0f} ft/min", GREEN), (figures.note, GREEN)]
        for x, lines in ((left, rows), (right, beside)):
            at = (x - 1.7 * big, middle + 0.8 * big)
            shade(surface, pygame.Rect(*at, 3.4 * big, (len(lines) + 0.4) * size), SHADE)
            for k, (text, colour) in enumerate(lines):
                write(surface, text, (at[0] + 0.3 * big, at[1] + (k + 0.7) * size), size, colour)

    def _box(self, surface: pygame.Surface, text: str, at: tuple[float, float], size: int) -> None:
        area = pygame.Rect(0, 0, round(3.4 * size), round(1.1 * size))
        area.center = (round(at[0]), round(at[1]))
        shade(surface, area, SHADE)
        pygame.draw.rect(surface, GREEN, area, 2)
        write(surface, text, area.center, size, GREEN, "centre")


def pegged(
    camera: Camera, direction: Vector, picture: tuple[int, int], margin: float
) -> tuple[float, float, bool]:
    """Return the pixel of the marker, and True if the marker is held at the edge of the picture.

    ``margin`` is the least distance (pixels) of the marker from the edge. The distances at top and
    bottom are larger, because other texts are there.
    """
    width, height = picture
    least = np.array([margin, _HEADING_SIZES * margin])
    most = np.array([width - margin, height - 2.0 * margin])
    at = camera.direction(direction)
    if at is not None and (least <= at).all() and (at <= most).all():
        return at[0], at[1], False
    middle = np.array([width / 2.0, height / 2.0])
    _, right, down = camera.axes @ direction
    way = np.array([right, down] if math.hypot(right, down) > 1e-6 else [0.0, 1.0])
    room = np.where(way > 0.0, most - middle, middle - least)
    x, y = middle + way * (room / np.maximum(np.abs(way), 1e-9)).min()
    return float(x), float(y), True


# Numbers at both sides of the picture: those that the scenario declares, or the scene's choice.

_SIDES = {LEFT: 0.14, RIGHT: 0.86}
_MIDDLE = 0.46


@dataclass(frozen=True)
class Readout:
    """A number with its name and unit, at the left or right edge of the picture."""

    text: str
    value: float
    unit: str = ""
    digits: int = 0
    side: str = LEFT

    @property
    def number(self) -> str:
        """The number as text, or dashes if it is not finite."""
        return f"{self.value:.{self.digits}f}" if math.isfinite(self.value) else "---"


def declared(number: Hud, value: float) -> Readout:
    text = number.text or number.signal.partition(".")[2]
    return Readout(text, number.factor * value, number.unit, number.digits, number.side)


def draw_readouts(surface: pygame.Surface, readouts: Sequence[Readout]) -> None:
    """Draw the numbers. The first number on each side is larger and has a frame."""
    width, height = surface.get_size()
    size = max(16, height // 30)
    big = round(1.5 * size)
    for side, share in _SIDES.items():
        some = [one for one in readouts if one.side == side]
        x, y = share * width, _MIDDLE * height
        for one in some[:1]:
            area = pygame.Rect(0, 0, round(4.4 * big), round(1.1 * big))
            area.center = (round(x), round(y))
            shade(surface, area, SHADE)
            pygame.draw.rect(surface, GREEN, area, 2)
            write(surface, one.number, area.center, big, GREEN, "centre")
            above = (x, y - 0.95 * big)
            write(
                surface, f"{one.text} {one.unit}".strip(), above, size, GREEN, "centre", edged=True
            )
        if len(some) < 2:
            continue
        at = (x - 2.2 * big, y + 0.8 * big)
        shade(surface, pygame.Rect(*at, 4.4 * big, (len(some) - 0.6) * size), SHADE)
        for k, one in enumerate(some[1:]):
            text = f"{one.text}  {one.number} {one.unit}"
            write(surface, text, (at[0] + 0.3 * big, at[1] + (k + 0.7) * size), size, GREEN)
