"""Draw the pictures of vehicles in the window: ``python -m tools.vehicles``."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pygame

from rtsim.core.signals import Signals
from rtsim.pilot.scenes.bodies import BodyScene
from rtsim.pilot.scenes.scene import CHASE, COCKPIT, SceneMoment, Shown
from rtsim.pilot.scenes.text import write
from rtsim.pilot.views import read_viewpoint
from rtsim.scenario.body import Body

PICTURE = Path(__file__).resolve().parents[1] / "docs/pictures/vehicles.png"
VIEWS_PICTURE = PICTURE.with_name("three-views.png")
SIZE, SHARE = (720, 405), 640
"""Pixels of one window, and of its width in the picture."""
POSE = Signals("n [m]", "e [m]", "d [m]", "roll [rad]", "pitch [rad]", "yaw [rad]")
Pose = tuple[float, float, float, float, float, float]
DRAWN: tuple[tuple[str, str, str, Pose, float, tuple[float, float]], ...] = (
    ("car", "car", CHASE, (0.0, 0.0, 0.0, 0.0, 0.0, 0.6), 15.0, (-0.7, 0.0)),
    ("quadcopter", "quadcopter", CHASE, (0.0, 0.0, -2.5, 0.25, -0.15, 0.6), 3.0, (0.4, -0.1)),
    ("aircraft, level", "aircraft", COCKPIT, (0.0, 0.0, -900.0, 0.0, 0.04, 0.9), 170.0, (0.0, 0.0)),
    ("banked", "aircraft", CHASE, (0.0, 0.0, -900.0, 0.9, 0.08, 0.9), 170.0, (0.0, 0.0)),
    ("climbing", "aircraft", COCKPIT, (0.0, 0.0, -900.0, 0.0, 0.45, 0.9), 170.0, (0.0, 0.0)),
    ("inverted", "aircraft", COCKPIT, (0.0, 0.0, -900.0, math.pi, -0.04, 0.9), 170.0, (0.0, 0.0)),
)
"""Title, shape, view, pose, speed (m/s) and direction of looking (rad) of each window."""


def window(
    title: str, shape: str, view: str, pose: Pose, speed: float, look: tuple[float, float]
) -> pygame.Surface:
    """Return what the window shows of one vehicle that moves along its nose."""
    body = Body(
        "it", north_east_down=("a.n", "a.e", "a.d"), euler=("a.roll", "a.pitch", "a.yaw"),
        shape=shape,
    )  # fmt: skip
    about: dict[str, Any] = {"bodies": [body.to_plain()]}
    *place, _, pitch, yaw = pose
    ahead = np.array([
        math.cos(pitch) * math.cos(yaw), math.cos(pitch) * math.sin(yaw), -math.sin(pitch),
    ])  # fmt: skip
    scene, surface = BodyScene(about), pygame.Surface(SIZE)
    slope = np.concatenate((speed * ahead, np.zeros(3)))
    for k in range(-40, 1):  # the track
        values = np.array(pose)
        values[:3] = np.array(place) + 0.1 * k * speed * ahead
        shown = Shown(POSE, values, slope, (k + 40) * 100_000_000)
        scene.draw(surface, SceneMoment({"a": shown}, view, look=look))
    write(surface, title, (12, SIZE[1] - 16), 26, (255, 255, 255))
    return surface


def draw_vehicles(path: Path = PICTURE) -> None:
    high = SHARE * SIZE[1] // SIZE[0]
    whole = pygame.Surface((3 * SHARE, 2 * high))
    for k, (title, shape, view, pose, speed, look) in enumerate(DRAWN):
        drawn = window(title, shape, view, pose, speed, look)
        small = pygame.transform.smoothscale(drawn, (SHARE, high))
        whole.blit(small, (k % 3 * SHARE, k // 3 * high))
    pygame.image.save(whole, str(path))


def draw_three_views(path: Path = VIEWS_PICTURE) -> None:
    """As ``--view left --view front --view right`` shows them, with a thin gap between windows."""
    high, gap = SHARE * SIZE[1] // SIZE[0], 4
    whole = pygame.Surface((3 * SHARE + 2 * gap, high))
    pose = (0.0, 0.0, -900.0, 0.25, 0.03, 0.5)
    for k, name in enumerate(("left", "front", "right")):
        look = read_viewpoint(name).look
        drawn = window("", "aircraft", COCKPIT, pose, 170.0, look)
        whole.blit(pygame.transform.smoothscale(drawn, (SHARE, high)), (k * (SHARE + gap), 0))
    pygame.image.save(whole, str(path))


if __name__ == "__main__":
    draw_vehicles()
    draw_three_views()
