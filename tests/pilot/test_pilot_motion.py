"""The motion that is drawn: no steps, by the horizon's own pixels, on the whole way to them."""

from __future__ import annotations

import math

import numpy as np
import pygame
import pytest
from pilot_parts import flight, watched

from rtsim.core.signals import Vector
from rtsim.models.f16.aircraft import PILOTED_F16 as F16
from rtsim.models.f16.piloted_scenario import RUNWAY
from rtsim.pilot.interpolation import StatePair
from rtsim.pilot.loop import Cockpit
from rtsim.pilot.scenes.f16 import F16Scene
from rtsim.pilot.scenes.scene import COCKPIT
from rtsim.pilot.scenes.world import draw_horizon
from rtsim.pilot.shared import Shared
from rtsim.pilot.viewer.state import Picture
from rtsim.scenario.scenario import Scenario
from rtsim.testing.clock import FAKE_START

SIZE = (640, 360)
FRAME_S, STEP_S = 1 / 60, 0.020
FRAMES = 75
SIGNALS = F16.states + F16.discrete + F16.inputs + F16.outputs
SEEN = 2.0 / SIZE[0]
"""rad: an area's corners are drawn at whole pixels, at either edge of the picture."""


def rolling() -> Scenario:
    """To and fro as fast as it can, at a step of 20 ms."""
    script = [(0.2 * k, (0.0, (-1.0) ** k, 0.0, 0.4)) for k in range(1, 9)]
    return flight(script, step=STEP_S, rate=50.0)


@pytest.fixture(scope="module")
def pairs() -> list[StatePair]:
    return watched(rolling(), 2.0)[1]


class Window:
    """What is published goes through shared memory to a picture of the horizon."""

    def __init__(self, pairs: list[StatePair], cockpit: Cockpit) -> None:
        self._pairs = pairs
        self._writer = cockpit.shared.writer("plant/f16")
        self._picture = Picture(Shared.open(cockpit.shared.path))
        self._scene, self._surface = F16Scene({"runway": RUNWAY}), pygame.Surface(SIZE)
        self.rolls: list[float] = []

    def angle(self, frame: int, lead_ns: int) -> float:
        """rad, of the horizon in the picture that is on the screen ``lead_ns`` after its frame."""
        due = FAKE_START + round(frame * FRAME_S * 1e9)
        self._publish(next(p for p in reversed(self._pairs) if p.last_wall <= due))
        self._picture.look()
        body = self._picture.at(due + lead_ns, round(FRAME_S * 1e9))["f16"]
        flown = self._scene.ground.flight(body)
        self.rolls.append(flown.roll)
        camera = self._scene.camera(flown, self._surface, COCKPIT)
        draw_horizon(self._surface, camera)
        self._scene._terrain.draw(self._surface, camera)
        return horizon(self._surface)

    def _publish(self, pair: StatePair) -> None:
        walls = pair.last_wall, pair.next_wall
        self._writer.integers[:] = (pair.last_ns, pair.next_ns, *walls, 0, 0, 0)
        self._writer.floats[:] = np.concatenate((pair.last, pair.next))
        self._writer.publish()


def horizon(surface: pygame.Surface) -> float:
    """The angle of the line between sky and ground; to the right and down is positive."""
    red, blue = pygame.surfarray.array_red(surface), pygame.surfarray.array_blue(surface)
    heights = (blue > red.astype(np.int16) + 20).sum(axis=1)
    x = np.flatnonzero((heights > 0) & (heights < SIZE[1]))
    return -math.atan(float(np.polyfit(x, heights[x], 1)[0]))


def drawn(pairs: list[StatePair], lead_ns: int = 0) -> tuple[Vector, Vector]:
    """The horizon's angle in each frame, and the roll that was to be shown."""
    with Cockpit(rolling(), "stick") as cockpit:
        window = Window(pairs, cockpit)
        angles = np.array([window.angle(frame, lead_ns) for frame in range(FRAMES)])
        return angles, np.array(window.rolls)


def bend(angles: Vector) -> float:
    """The greatest second difference."""
    return float(np.abs(np.diff(np.unwrap(angles), 2)).max())


def allowed(pairs: list[StatePair], lead_ns: int = 0) -> float:
    """Chords bend by a*dt*(dt + h) at most, ``a`` being the greatest roll acceleration flown.

    A picture that is on the screen ``e`` after the next state is due goes on along the chord: it
    is off by no more than a*e*(h + e), once to either side.
    """
    rates = np.array([p.last[SIGNALS.slice("roll_rate")][0] for p in pairs])
    peak, e = float(np.abs(np.diff(rates)).max()) / STEP_S, lead_ns * 1e-9
    bound = peak * (FRAME_S * (FRAME_S + STEP_S) + 2.0 * e * (STEP_S + e))
    return 1.05 * bound


@pytest.mark.parametrize("lead_ns", [0, 4_000_000])
def test_the_drawn_horizon_bends_no_more_than_interpolation_predicts(
    pairs: list[StatePair], lead_ns: int
) -> None:
    angles, rolls = drawn(pairs, lead_ns)
    assert np.abs(angles - rolls).max() < SEEN
    assert np.ptp(angles) > 0.2
    assert bend(angles) <= allowed(pairs, lead_ns)


@pytest.mark.parametrize("share", [0.0, 1.0])
def test_a_picture_of_committed_states_alone_bends_more(
    pairs: list[StatePair], share: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last state until the next one is there; or the next as soon as it is known."""
    monkeypatch.setattr(StatePair, "fraction", lambda *_: share)
    angles, _ = drawn(pairs)
    assert bend(angles) > 1.5 * allowed(pairs)
