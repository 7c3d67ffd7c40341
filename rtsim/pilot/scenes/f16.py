"""The scene of an F-16, from the cockpit or from behind, with landing aids.

The landing aids need the signals of an aircraft near the ground, such as
:data:`rtsim.models.f16.aircraft.PILOTED_F16`. Without these signals, no aids are drawn.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pygame

from rtsim.core.signals import Vector
from rtsim.gateway.shapes import solid_of
from rtsim.pilot.scenes.camera import Camera, axes_of
from rtsim.pilot.scenes.gpu import draw_world, remark
from rtsim.pilot.scenes.hud import AMBER, FT, GREEN, SHADE, FlightScene, Ground, HeadUp, HudFigures
from rtsim.pilot.scenes.scene import CHASE, SceneMoment, Shown
from rtsim.pilot.scenes.text import no_picture, shade, stroke, write
from rtsim.pilot.scenes.world import (
    Course,
    DrawnSolid,
    Placement,
    Relief,
    Runway,
    Terrain,
    WorldPicture,
    on_ground,
)
from rtsim.scenario.body import Ground as Declared

# Landing aids: roll scale, slip ball, height above the ground, way to gate or runway.

NEEDED = ("height", "wheel_load", "side_load", "gear_extension", "gear", "brake", "autopilot")
NAUTICAL_MILE = 1852.0
FULL_SLIP = 0.2
"""Lateral load factor at which the ball reaches the end of its tube, g."""
_MARKS = (0, 10, 20, 30, 45, 60)
_MOST_ROLL = 65.0
_MODES = ((1, "ALT"), (2, "HDG"), (4, "SPD"))
_MOVES, _DOWN = 0.02, 0.98


@dataclass(frozen=True)
class Way:
    """Name, distance (m) and bearing (rad) of the next gate or the runway."""

    name: str
    distance: float
    bearing: float

    @property
    def text(self) -> str:
        bearing = round(math.degrees(self.bearing)) % 360
        return f"{self.name} {self.distance / NAUTICAL_MILE:.1f} nm {bearing:03d}\u00b0"


def way_to(name: str, place: Vector, target: Vector) -> Way:
    """Return distance and bearing from ``place`` to ``target``, both (north, east, ...) in m."""
    north, east = (float(target[k] - place[k]) for k in (0, 1))
    return Way(name, math.hypot(north, east), math.atan2(east, north) % math.tau)


def next_way(flight: FlightScene, course: Course, threshold: Vector, extension: float) -> Way:
    """Return the name, distance and bearing of the next target.

    The target is the next gate if the gear is up and a gate remains, or else the runway.
    ``threshold`` (3,) is the end of the runway at which a landing begins, m.
    """
    if extension > _MOVES or course.next >= len(course.gates):
        return way_to("RWY", flight.place, threshold)
    return way_to("GATE", flight.place, course.gates[course.next].place)


def gear_text(extension: float, brake: float) -> str:
    gear = "UP" if extension < _MOVES else "DOWN" if extension >= _DOWN else "MOVES"
    return f"GEAR {gear}" + ("  BRAKE" if brake > _MOVES else "")


def autopilot_text(modes: float) -> str:
    held = [name for bit, name in _MODES if round(modes) & bit]
    return f"AP {' '.join(held)}" if held else ""


class FlightAids:
    """Draws the landing aids.

    ``threshold`` (3,) is the end of the runway at which a landing begins, m.
    """

    def __init__(self, course: Course, threshold: Vector) -> None:
        self._course, self._threshold = course, threshold

    def draw(self, surface: pygame.Surface, flight: FlightScene, body: Shown, ahead: bool) -> None:
        """Draw the landing aids. With ``ahead``, the roll scale and the slip ball are drawn too."""
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
    width, height = surface.get_size()
    big = round(1.5 * size)
    wide = 0.58 * size * max(map(len, rows))
    x, y = min(0.83 * width - 1.7 * big, width - wide), 0.46 * height + 0.8 * big + 2.8 * size
    shade(surface, pygame.Rect(x, y, wide, (len(rows) + 0.4) * size), SHADE)
    for k, text in enumerate(rows):
        write(surface, text, (x + 0.3 * big, y + (k + 0.7) * size), size, GREEN)


def _roll_scale(surface: pygame.Surface, roll: float, size: int) -> None:
    width, height = surface.get_size()
    middle, radius = (width / 2.0, height / 2.0), 0.36 * height
    for mark in _MARKS:
        long = mark in (0, 30, 60)
        for side in (-1.0, 1.0):
            angle = side * mark
            inner = _below(middle, radius, angle)
            outer = _below(middle, radius + (0.7 if long else 0.4) * size, angle)
            stroke(surface, GREEN, [inner, outer])
    angle = math.degrees(roll)
    beyond = abs(angle) > _MOST_ROLL
    shown = math.copysign(min(abs(angle), _MOST_ROLL), angle)
    tip = _below(middle, radius - 2, shown)
    foot = [_below(middle, radius - 0.7 * size, shown + side) for side in (-2.2, 2.2)]
    pygame.draw.polygon(surface, AMBER if beyond else GREEN, [tip, *foot], 0 if beyond else 2)


def _below(middle: tuple[float, float], radius: float, angle: float) -> tuple[float, float]:
    turned = math.radians(angle)
    return middle[0] + radius * math.sin(turned), middle[1] + radius * math.cos(turned)


def _slip_ball(surface: pygame.Surface, side: float, size: int) -> None:
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


# The pilot task: gates, a lead aircraft, deviations.

_NAME = "task"


class TaskDrawing:
    """Draws the plant ``task`` of a moment. ``heading`` is the runway's heading, rad.

    The optional entry ``gates`` of ``about`` has a row for each gate: distances along and across
    the course, height (m), and turn (deg). The optional entry ``half`` is half of a gate's side
    length, m.
    """

    def __init__(self, about: Mapping[str, Any], heading: float) -> None:
        rows = [tuple(map(float, row)) for row in about.get("gates", ())]
        self.course = Course.along(rows, heading, float(about.get("half", 45.0)))
        self._heading = heading

    def add(self, picture: WorldPicture, moment: SceneMoment, aircraft: DrawnSolid) -> None:
        """Add the gates or, in a formation task, the lead aircraft to a picture."""
        task = moment.plants.get(_NAME)
        self._follow(task)
        picture.lines.append(self.course.lines(picture.camera))
        if task is None or "lead_north" not in task.signals:
            return
        place = np.array([task[f"lead_{axis}"] for axis in ("north", "east", "down")])
        if np.isfinite(place).all():
            axes = axes_of(0.0, 0.0, self._heading)
            picture.bodies.append((aircraft, Placement(place, axes)))

    def _follow(self, task: Shown | None) -> None:
        if task is None or "passed" not in task.signals:
            return
        values = np.nan_to_num([task["next"], task["missed"]])
        self.course.next = math.floor(values[0] + 1e-6)
        self.course.missed = math.floor(values[1] + 1e-6)
        passed = task.vector("passed")
        self.course.passed = [
            k < len(passed) and bool(passed[k] > 0.999) for k in range(len(self.course.gates))
        ]

    def text(self, moment: SceneMoment) -> str:
        course, task = self.course, moment.plants.get(_NAME)
        if course.gates:
            missed = f", missed {course.missed}" if course.missed else ""
            return f"gate {min(course.next + 1, len(course.gates))}/{len(course.gates)}{missed}"
        if task is not None and "glide_error" in task.signals:
            return f"GS {task['glide_error']:+.1f}, LOC {task['course_error']:+.1f}"
        if task is not None and "along_error" in task.signals:
            return f"fwd {task['along_error']:+.0f}, right {task['across_error']:+.0f}"
        return ""


_BEHIND, _ABOVE, _LENGTH = 32.0, 7.0, 15.1
_AHEAD = 1e-3


class F16Scene:
    """The scene of an F-16. ``about`` may contain ``plant``, ``runway``, ``ground`` and ``gates``.

    ``runway`` contains latitude, longitude and heading (deg) of the runway.
    """

    def __init__(self, about: Mapping[str, Any]) -> None:
        latitude, longitude, heading = map(float, about.get("runway", (36.0176, -75.6713, 45.0)))
        self.ground = Ground(latitude, longitude)
        self._task = TaskDrawing(about, math.radians(heading))
        self._terrain = Terrain()
        self._aircraft = DrawnSolid(solid_of("aircraft", _LENGTH))
        declared = about.get("ground")
        self._relief = None if declared is None else self._relief_of(declared)
        down = 0.0 if self._relief is None else -self._relief.height(0.0, 0.0)
        self._runway = Runway(math.radians(heading), down=down)
        self._display = HeadUp()
        ends = np.array([[-0.5 * self._runway.length, 0.0]])
        self._aids = FlightAids(self._task.course, on_ground(ends, math.radians(heading))[0])
        self._name = str(about.get("plant", "f16"))

    @property
    def remark(self) -> str:
        return remark()

    def _ground_below(self, place: Vector) -> float:
        return 0.0 if self._relief is None else -self._relief.height(*place[:2].tolist())

    def _relief_of(self, plain: Mapping[str, Any]) -> Relief:
        declared = Declared.from_plain(plain)
        if declared.latitude is None or declared.longitude is None:
            return Relief(declared.grid)
        angles = math.radians(declared.latitude), math.radians(declared.longitude)
        north, east, _ = self.ground.place(*angles, 0.0).tolist()
        return Relief(declared.grid, (north, east))

    def draw(self, surface: pygame.Surface, moment: SceneMoment) -> None:
        body = moment.plants[self._name]
        with np.errstate(all="ignore"):  # flight.drawable detects an overflow
            flight = self.ground.flight(body)
        if not flight.drawable:
            no_picture(surface, f"the state of {self._name} is not finite, or not near the Earth")
            return
        camera = self.camera(flight, surface, moment.view, moment.look)
        picture = WorldPicture(camera, self._relief or self._terrain, self._runway)
        self._task.add(picture, moment, self._aircraft)
        if moment.view == CHASE:
            at = Placement(flight.place, flight.axes)
            picture.bodies.append((self._aircraft, at))
            picture.shadows.append((self._aircraft, at, self._ground_below(flight.place)))
        draw_world(surface, picture)
        if not moment.aside:
            figures = self._figures(body, moment)
            self._display.draw(surface, camera, flight, figures)
            self._aids.draw(surface, flight, body, figures.looks_ahead)

    def camera(
        self,
        flight: FlightScene,
        surface: pygame.Surface,
        view: str,
        look: tuple[float, float] = (0.0, 0.0),
    ) -> Camera:
        """Return a camera at the pilot's eyes, or behind the aircraft.

        ``look`` contains the viewing direction, to the right and up (rad).
        """
        width, height = surface.get_size()
        if view != CHASE:
            return Camera(flight.place, flight.axes, width, height).turned(*look)
        axes = axes_of(0.0, 0.6 * flight.pitch, flight.heading)
        axes = axes_of(0.0, look[1], look[0]) @ axes
        place = flight.place - _BEHIND * axes[0] - _ABOVE * axes[2]
        return Camera(place, axes, width, height)

    def _figures(self, body: Shown, moment: SceneMoment) -> HudFigures:
        return HudFigures(
            body["equivalent_airspeed"],
            body["alpha"],
            body["mach"],
            any(w.signal == f"{self._name}.alpha" for w in moment.warned),
            moment.stick.get("throttle"),
            self._task.text(moment),
            moment.view != CHASE and max(map(abs, moment.look)) < _AHEAD,
        )
