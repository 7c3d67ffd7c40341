"""Draws the head-up display: symbols at directions in the world, and values as numbers."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pygame

from rtsim.core.signals import Vector
from rtsim.pilot.scenes.camera import Camera
from rtsim.pilot.scenes.flight import FT, KT, FlightScene
from rtsim.pilot.scenes.text import Colour, shade, write

GREEN: Colour = (96, 255, 128)
AMBER: Colour = (255, 190, 60)
RED: Colour = (255, 84, 72)
SHADE = (8, 24, 12, 110)
"""The colour behind numbers, which makes them readable in front of haze."""
_HEADING_SIZES = 3.8
"""Height of the area for the heading at the top of the picture, in letter sizes."""


@dataclass(frozen=True)
class HudFigures:
    """The values that the display shows as numbers, in SI units; angles in rad."""

    airspeed: float
    """Equivalent airspeed, m/s."""
    alpha: float
    mach: float
    alpha_warns: bool = False
    throttle: float | None = None
    note: str = ""
    looks_ahead: bool = True
    """True if the view is from the cockpit, with the nose in the middle of the picture."""


class HeadUp:
    """Draws the head-up display; its size depends on the size of the surface."""

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
        """Draw the symbols at directions in the world, without numbers of the state.

        ``ladder`` is False for a vehicle on the ground; ``ahead`` is True if the nose is in the
        middle of the picture.
        """  # fmt: skip
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
        """Draw the pitch ladder: lines every 5 deg, parallel to the horizon."""
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
            pygame.draw.line(surface, GREEN, inner, outer, 2)
        else:
            for k in range(0, 5, 2):
                a, b = k / 5.0, (k + 1) / 5.0
                pygame.draw.line(
                    surface,
                    GREEN,
                    (x + a * (u - x), y + a * (v - y)),
                    (x + b * (u - x), y + b * (v - y)),
                    2,
                )
        if elevation:
            beyond = (u + 0.25 * (u - x), v + 0.25 * (v - y))
            write(surface, str(elevation), beyond, size, GREEN, "centre")

    def _waterline(self, surface: pygame.Surface, size: int) -> None:
        x, y = surface.get_width() / 2, surface.get_height() / 2
        w = 0.5 * size
        points = [(-3, 0), (-1.6, 0), (-0.8, 1), (0, 0), (0.8, 1), (1.6, 0), (3, 0)]
        pygame.draw.lines(surface, AMBER, False, [(x + w * a, y + w * b) for a, b in points], 2)

    def _flight_path(
        self, surface: pygame.Surface, camera: Camera, flight: FlightScene, size: int
    ) -> None:
        """Draw the direction of flight, which differs from the direction of the nose.

        If the direction is outside the picture, the marker is at the edge, and a cross marks it.
        """
        if float(np.abs(flight.velocity).max()) < 1.0:
            return
        r = 0.4 * size
        x, y, outside = pegged(camera, flight.velocity, surface.get_size(), 3.0 * r)
        pygame.draw.circle(surface, GREEN, (x, y), r, 2)
        if outside:
            pygame.draw.line(surface, GREEN, (x - r, y - r), (x + r, y + r), 2)
            pygame.draw.line(surface, GREEN, (x - r, y + r), (x + r, y - r), 2)
        pygame.draw.line(surface, GREEN, (x - 2.4 * r, y), (x - r, y), 2)
        pygame.draw.line(surface, GREEN, (x + r, y), (x + 2.4 * r, y), 2)
        pygame.draw.line(surface, GREEN, (x, y - 2.2 * r), (x, y - r), 2)

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
            pygame.draw.line(surface, GREEN, (x, y), (x, y - (8 if long else 4)), 2)
            if long:
                write(surface, f"{degree % 360 // 10:02d}", (x, y - size), size, GREEN, "centre")
        mark = [(width / 2, y + 2), (width / 2 - 6, y + 11), (width / 2 + 6, y + 11)]
        pygame.draw.polygon(surface, AMBER, mark)
        text = f"{round(heading) % 360:03d}"
        write(surface, text, (width / 2, y + 11 + 0.6 * size), size, GREEN, "centre")

    def _boxes(
        self, surface: pygame.Surface, flight: FlightScene, figures: HudFigures, size: int
    ) -> None:
        width, height = surface.get_size()
        big = round(1.5 * size)
        left, right, middle = 0.17 * width, 0.83 * width, 0.46 * height
        self._box(surface, f"{figures.airspeed / KT:.0f}", (left, middle), big)
        self._box(surface, f"{flight.height / FT:.0f}", (right, middle), big)
        write(surface, "KEAS", (left + 2.0 * big, middle), size, GREEN)
        write(surface, "ft", (right + 2.0 * big, middle), size, GREEN)
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
    """Return where a marker of ``direction`` (3,) is drawn, and whether it is held at the edge.

    ``margin`` is the least distance from the sides of the ``picture`` (width, height), in pixels;
    the heading above and the status line below need more.
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
