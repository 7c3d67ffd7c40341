"""Draw README.md's picture out of the window of ``rtsim fly f16``: ``python -m tools.cockpit``."""

from __future__ import annotations

from pathlib import Path

import pygame

from rtsim.components.external_inputs import ExternalInput
from rtsim.core.signals import Vector
from rtsim.models.f16.by_wire import STICK
from rtsim.pilot.playback import Playback
from rtsim.pilot.scenes.f16 import F16Scene
from rtsim.scenario.loading import load_scenario
from rtsim.scenario.standard_components import ExternalInputComponent
from rtsim.testing.determinism import trace_of

PICTURE = Path(__file__).resolve().parents[1] / "docs/pictures/cockpit.png"
SIZE, SECONDS = (1280, 720), 26
SCRIPT = (
    (0.0, 0.0, 0.0), (2.0, -0.12, 0.0), (3.0, 0.0, 0.0), (14.0, -0.12, 0.0), (14.8, 0.0, 0.0),
    (20.0, 0.0, 0.25), (20.7, 0.04, 0.0), (22.0, 0.05, -0.25), (23.2, 0.03, 0.0),
)  # fmt: skip
"""From when on (s), pitch and roll: down towards the runway, over a gate, and off to the left."""
TAG_S = 0.005


class Moved:
    """A stick by that script; it is asked at each tag."""

    def __init__(self) -> None:
        self._tags = 0

    def poll(self) -> Vector:
        now, self._tags = self._tags * TAG_S, self._tags + 1
        _, pitch, roll = [line for line in SCRIPT if line[0] <= now][-1]
        values = STICK.initial()
        values[:4] = pitch, roll, 0.0, 0.12
        return values


def draw_cockpit(path: Path = PICTURE) -> None:
    """As it is flown by that stick."""
    flown = load_scenario("f16-by-hand", {"step": str(TAG_S), "task": "gates"})
    part = flown.component("stick")
    assert isinstance(part, ExternalInputComponent)
    part.external_input = ExternalInput("stick", part.external_input.signals, Moved())
    seen = Playback(trace_of(flown, until=SECONDS))
    scene, surface = F16Scene(seen.about), pygame.Surface(SIZE)
    scene.draw(surface, seen.at(SECONDS * 1_000_000_000, 0))
    pygame.image.save(surface, str(path))


if __name__ == "__main__":
    draw_cockpit()
