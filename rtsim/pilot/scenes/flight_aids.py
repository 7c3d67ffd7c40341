"""Draws what helps to land: roll scale, slip ball, height above the ground, way to gate or runway.

These figures need the signals of an aircraft near the ground, such as
:data:`rtsim.models.f16.aircraft.FLOWN`; without them nothing is drawn.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import pygame

from rtsim.core.signals import Vector
from rtsim.pilot.scenes.flight import FT, FlightScene
from rtsim.pilot.scenes.hud import AMBER, GREEN, SHADE
from rtsim.pilot.scenes.scene import Shown
from rtsim.pilot.scenes.text import shade, write
from rtsim.pilot.scenes.world import Course

NEEDED = ("height", "wheel_load", "side_load", "gear_extension", "gear", "brake", "autopilot")
"""The signals of the aircraft that are shown."""
NAUTICAL_MILE = 1852.0
FULL_SLIP = 0.2
"""Lateral load factor, g, at which the ball is at the end of its tube."""
_MARKS = (0, 10, 20, 30, 45, 60)
_MOST_ROLL = 65.0
_MODES = ((1, "ALT"), (2, "HDG"), (4, "SPD"))
_MOVES, _DOWN = 0.02, 0.98


@dataclass(frozen=True)
class Way:
    """The way to the next gate or to the runway: a name, a distance (m) and a bearing (rad)."""

    name: str
    distance: float
    bearing: float

    @property
    def text(self) -> str:
        bearing = round(math.degrees(self.bearing)) % 360
        return f"{self.name} {self.distance / NAUTICAL_MILE:.1f} nm {bearing:03d}\u00b0"


def way_to(name: str, place: Vector, target: Vector) -> Way:
    """Return the way from ``place`` to ``target``, each (north, east, ...), m."""
    north, east = (float(target[k] - place[k]) for k in (0, 1))
    return Way(name, math.hypot(north, east), math.atan2(east, north) % math.tau)


def next_way(flight: FlightScene, course: Course, threshold: Vector, extension: float) -> Way:
    """Return the way to the next gate, or to the runway after the last gate or with the gear out.

    ``threshold`` is the place (2,) of the runway's end where a landing begins, m.
    """
    if extension > _MOVES or course.next >= len(course.gates):
        return way_to("RWY", flight.place, threshold)
    return way_to("GATE", flight.place, course.gates[course.next].place)


def gear_text(extension: float, brake: float) -> str:
    """Return the state of gear and brakes, as text."""
    gear = "UP" if extension < _MOVES else "DOWN" if extension >= _DOWN else "MOVES"
    return f"GEAR {gear}" + ("  BRAKE" if brake > _MOVES else "")


def autopilot_text(modes: float) -> str:
    """Return the modes of the autopilot that hold, as text; empty if there are none."""
    held = [name for bit, name in _MODES if round(modes) & bit]
    return f"AP {' '.join(held)}" if held else ""


class FlightAids:
    """Draws the aids; ``threshold`` is the place (2,) at which a landing begins, m."""

    def __init__(self, course: Course, threshold: Vector) -> None:
        self._course, self._threshold = course, threshold

    def draw(self, surface: pygame.Surface, flight: FlightScene, body: Shown, ahead: bool) -> None:
        """Draw the aids for ``body``; roll scale and ball only if the view is ``ahead``."""
        if not all(name in body.signals for name in NEEDED):
            return
        size = max(16, surface.get_height() // 30)
        if ahead:
            _roll_scale(surface, flight.roll, size)
            _slip_ball(surface, body["side_load"], size)
        rows = [
            f"R {body['height'] / FT:5.0f} ft",
            next_way(flight, self._course, self._threshold, body["gear_extension"]).text,
            gear_text(body["gear_extension"], body["brake"]),
        ]
        if modes := autopilot_text(body["autopilot"]):
            rows.append(modes)
        _rows(surface, rows, size)


def _rows(surface: pygame.Surface, rows: list[str], size: int) -> None:
    """Draw texts below the numbers at the right of the head-up display."""
    width, height = surface.get_size()
    big = round(1.5 * size)
    wide = 0.58 * size * max(map(len, rows))
    x, y = min(0.83 * width - 1.7 * big, width - wide), 0.46 * height + 0.8 * big + 2.8 * size
    shade(surface, pygame.Rect(x, y, wide, (len(rows) + 0.4) * size), SHADE)
    for k, text in enumerate(rows):
        write(surface, text, (x + 0.3 * big, y + (k + 0.7) * size), size, GREEN)


def _roll_scale(surface: pygame.Surface, roll: float, size: int) -> None:
    """Draw marks around the middle of the picture, and a pointer at the roll angle (rad)."""
    width, height = surface.get_size()
    middle, radius = (width / 2.0, height / 2.0), 0.36 * height
    for mark in _MARKS:
        long = mark in (0, 30, 60)
        for side in (-1.0, 1.0):
            angle = side * mark
            inner = _below(middle, radius, angle)
            outer = _below(middle, radius + (0.7 if long else 0.4) * size, angle)
            pygame.draw.line(surface, GREEN, inner, outer, 2)
    angle = math.degrees(roll)
    beyond = abs(angle) > _MOST_ROLL
    shown = math.copysign(min(abs(angle), _MOST_ROLL), angle)
    tip = _below(middle, radius - 2, shown)
    foot = [_below(middle, radius - 0.7 * size, shown + side) for side in (-2.2, 2.2)]
    pygame.draw.polygon(surface, AMBER if beyond else GREEN, [tip, *foot], 0 if beyond else 2)


def _below(middle: tuple[float, float], radius: float, angle: float) -> tuple[float, float]:
    """Return a point ``radius`` pixels from the ``middle``, ``angle`` deg to the right of down.

    A pointer at the roll angle points to the ground.
    """
    turned = math.radians(angle)
    return middle[0] + radius * math.sin(turned), middle[1] + radius * math.cos(turned)


def _slip_ball(surface: pygame.Surface, side: float, size: int) -> None:
    """Draw a ball in a tube; a load to the right (``side``, g) moves the ball to the left."""
    width, height = surface.get_size()
    x, y, half = width / 2.0, 0.915 * height, 3.2 * size
    tube = pygame.Rect(0, 0, round(2.0 * half + size), round(0.9 * size))
    tube.center = (round(x), round(y))
    shade(surface, tube, SHADE)
    pygame.draw.rect(surface, GREEN, tube, 1, round(0.45 * size))
    for edge in (-0.55, 0.55):
        line = x + edge * size
        pygame.draw.line(surface, GREEN, (line, tube.top), (line, tube.bottom - 1), 1)
    share = max(-1.0, min(1.0, -side / FULL_SLIP)) if math.isfinite(side) else 0.0
    pygame.draw.circle(surface, GREEN, (round(x + share * half), round(y)), round(0.36 * size))
