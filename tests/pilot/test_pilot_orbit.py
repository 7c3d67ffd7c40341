"""The moon's picture: where it stands, the track behind it, and that all of it fits."""

from __future__ import annotations

import math

import numpy as np
import pygame
import pytest

from rtsim.core.signals import Vector
from rtsim.models.orbit import ORBIT
from rtsim.pilot.scenes import orbit
from rtsim.pilot.scenes.orbit import ARROW, MOON, PLANET, TRACK, OrbitScene
from rtsim.pilot.scenes.scene import SceneMoment, Shown, scene_named
from rtsim.pilot.scenes.text import Colour

SIZE = (400, 300)


def moment(turn: float, distance: float = 1.0) -> SceneMoment:
    """On a circle, ``turn`` rad from the start; the time goes with it."""
    x, y = distance * math.cos(turn), distance * math.sin(turn)
    values = np.array([x, y, -0.2 * y, 0.2 * x])
    return SceneMoment({"moon": Shown(ORBIT.states, values, np.zeros(4), round(turn * 1e9))})


def near(surface: pygame.Surface, at: tuple[float, float], colour: Colour, within: int) -> bool:
    """Whether there is a pixel of about that colour."""
    x, y = map(round, at)
    area = pygame.Rect(x - within, y - within, 2 * within + 1, 2 * within + 1)
    pixels = pygame.surfarray.array3d(surface.subsurface(area.clip(surface.get_rect())))
    return bool((np.abs(pixels.astype(int) - colour).max(axis=2) < 30).any())


@pytest.mark.parametrize("turn", [0.0, 1.0, math.pi, 4.4])
def test_planet_in_the_middle_moon_where_it_is(turn: float) -> None:
    scene, surface = OrbitScene({}), pygame.Surface(SIZE)
    scene.draw(surface, moment(turn))
    assert near(surface, (200, 150), PLANET, 8)
    at = scene.pixel(surface, math.cos(turn), math.sin(turn))
    assert at == pytest.approx((200 + 125 * math.cos(turn), 150 - 125 * math.sin(turn)))
    assert near(surface, at, MOON, 4)
    other = scene.pixel(surface, -math.cos(turn), -math.sin(turn))
    assert not near(surface, other, MOON, 4)


def test_the_velocity_points_along_the_motion() -> None:
    """At the right end of a circle that is run through against the clock: up."""
    scene, surface = OrbitScene({}), pygame.Surface(SIZE)
    scene.draw(surface, moment(0.0))
    x, y = scene.pixel(surface, 1.0, 0.0)
    assert near(surface, (x, y - 30), ARROW, 2)
    assert not near(surface, (x, y + 30), ARROW, 2)


def test_the_track_lies_behind_and_goes_with_the_past() -> None:
    scene, surface = OrbitScene({}), pygame.Surface(SIZE)
    for k in range(61):
        scene.draw(surface, moment(k / 60 * 2.0))
    behind = scene.pixel(surface, math.cos(1.84), math.sin(1.84))
    ahead = scene.pixel(surface, math.cos(3.0), math.sin(3.0))
    assert near(surface, behind, TRACK, 3)
    assert not near(surface, ahead, TRACK, 3)
    scene.draw(surface, moment(0.5))  # back
    assert not near(surface, behind, TRACK, 3)


def test_all_of_an_orbit_fits_and_nothing_is_too_much() -> None:
    scene, surface = OrbitScene({}), pygame.Surface(SIZE)
    for distance in (1.0, 50.0, 1e-3, 1e9):
        scene.draw(surface, moment(1.0, distance))
        x, y = scene.pixel(surface, distance * math.cos(1.0), distance * math.sin(1.0))
        assert surface.get_rect().collidepoint(x, y)
    values: Vector = np.array([0.0, 0.0, 0.0, 0.0])
    for k, broken in enumerate((values, values + math.nan)):
        shown = Shown(ORBIT.states, broken, values, 10**10 + k)
        OrbitScene({}).draw(pygame.Surface((160, 120)), SceneMoment({"moon": shown}))


@pytest.mark.parametrize("distance", [0.2, 0.99999999, 1.0, 1.99, 2.0, 4.9, 5.0, 9.99, 3.8e8])
def test_there_are_some_rings_and_not_many(
    distance: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Just below a power of ten there is room for their figures too."""
    rings: list[str] = []
    monkeypatch.setattr(orbit, "write", lambda surface, text, *_: rings.append(text))  # noqa: ARG005
    OrbitScene({}).draw(pygame.Surface(SIZE), moment(0.3, distance))
    del rings[-3:]  # the figures
    assert 2 <= len(rings) <= 6
    assert float(rings[-1]) <= 1.2 * distance
    assert float(rings[-1]) + float(rings[0]) > 1.2 * distance * 0.999


def test_it_is_chosen_by_its_name() -> None:
    assert isinstance(scene_named("orbit", {"plant": "moon"}), OrbitScene)
