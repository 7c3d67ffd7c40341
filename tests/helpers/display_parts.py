"""A window in the test's process, on a made-up clock."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pygame
from numpy.typing import NDArray

from rtsim.core.signals import Signals
from rtsim.models.f16.piloted_scenario import RUNWAY
from rtsim.pilot.devices.controls import Controls
from rtsim.pilot.loop import Cockpit
from rtsim.pilot.pacing import VideoFrames
from rtsim.pilot.scenes.scene import scene_named
from rtsim.pilot.shared import MOST_ORDERS, RUN, Shared
from rtsim.pilot.viewer.frames import Display
from rtsim.pilot.viewer.process import _end_reason, _mapping
from rtsim.pilot.viewer.state import Picture, RunState, Telling
from rtsim.scenario.loading import load_scenario
from rtsim.testing.clock import FAKE_START, FakeClock

MS = 1_000_000
SIZE = (320, 180)


class Viewer:
    """A display in this process, and the loop's side of what it shares."""

    def __init__(self, folder: Path) -> None:
        about = {"scene": "f16", "plant": "f16", "runway": RUNWAY}
        scenario = load_scenario("f16-by-hand", {})
        self.cockpit = Cockpit(scenario, "stick", about)
        self.plant = scenario.build(0).plants[0]
        self.shared = Shared.open(self.cockpit.shared.path)
        self.surface = pygame.display.set_mode(SIZE)
        self.clock = FakeClock()
        self.picture = Picture(self.shared)
        self.display = Display(
            self.surface, scene_named("f16", about), self.picture, RunState(self.shared),
            Telling(self.shared), Controls(_mapping(None, self.shared.schema), self.stick_signals),
            VideoFrames(60, self.clock), self.clock,
        )  # fmt: skip
        self.display.screenshots = folder

    @property
    def stick_signals(self) -> Signals:
        return self.shared.schema.stick

    def publish(self, k: int = 0, step: int = 5 * MS, applied: int = 0) -> None:
        """The k-th step of an aircraft at rest in its first state, as the loop would."""
        writer = self.cockpit.pictures._writers["f16"]
        wall = FAKE_START + k * step
        writer.integers[:] = (k * step, k * step + step, wall, wall + step, 0, applied, 0)
        writer.floats[:] = np.tile(self.plant.values, 2)
        writer.publish()

    def press(self, *keys: int) -> None:
        for key in keys:
            pygame.event.post(pygame.event.Event(pygame.KEYDOWN, key=key))
            pygame.event.post(pygame.event.Event(pygame.KEYUP, key=key))
        self.display.frame()

    def say(self, **told: int) -> None:
        """What the run says of itself."""
        writer = self.cockpit.inbox._run
        for name, value in told.items():
            writer.integers[RUN.index(name)] = value
        writer.publish()

    def why(self) -> str:
        """What would be said of the end, with nobody but the window to end it."""
        return _end_reason(self.display, ended=False, over="")

    def ordered(self) -> list[int]:
        """Kinds, in their order."""
        record = self.cockpit.shared.reader("orders").read()
        if record is None:
            return []
        count = int(record.integers[0])
        return [int(record.integers[1 + k % MOST_ORDERS]) for k in range(count)]

    def pixels(self) -> NDArray[np.int64]:
        return pygame.surfarray.array3d(self.surface).astype(np.int64)
