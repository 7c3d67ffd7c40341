"""A body that six signals place, and what the scene ``bodies`` draws of it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pygame

from rtsim.core.signals import Signals
from rtsim.pilot.scenes.bodies import BodyScene
from rtsim.pilot.scenes.scene import CHASE, SceneMoment, Shown
from rtsim.scenario.body import Body, Mesh

SIZE = (640, 360)
POSE = Signals("n [m]", "e [m]", "d [m]", "roll [rad]", "pitch [rad]", "yaw [rad]")
BODY = Body("it", north_east_down=("a.n", "a.e", "a.d"), euler=("a.roll", "a.pitch", "a.yaw"))


def about(shape: str | Mesh = "box", **more: Any) -> dict[str, Any]:
    return {"bodies": [{**BODY.to_plain(), "length": 0.0, **_shape(shape)}], **more}


def _shape(shape: str | Mesh) -> dict[str, Any]:
    return {"shape": shape if isinstance(shape, str) else shape.to_plain()}


def moment(
    *pose: float, view: str = CHASE, look: tuple[float, float] = (0.0, 0.0), ns: int = 0
) -> SceneMoment:
    values = np.array(pose, float)
    slope = np.array([20.0, 0.0, 0.0, 0.0, 0.0, 0.0])
    return SceneMoment({"a": Shown(POSE, values, slope, ns)}, view, look=look)


def picture(scene: BodyScene, shown: SceneMoment, size: tuple[int, int] = SIZE) -> Any:
    surface = pygame.Surface(size)
    scene.draw(surface, shown)
    return pygame.surfarray.array3d(surface).astype(int)


def sky(pixels: Any) -> Any:
    """Which pixels are sky or cloud, not ground: more blue than green."""
    return pixels[..., 2] > pixels[..., 1]
