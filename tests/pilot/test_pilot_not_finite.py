"""States that are none: a scene says so, and the window stays."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pygame
import pytest
from pilot_parts import flight, watched

from rtsim.models.f16.piloted_scenario import RUNWAY
from rtsim.models.orbit import scenario as orbit
from rtsim.pilot.interpolation import Interpolation
from rtsim.pilot.scenes import text
from rtsim.pilot.scenes.f16 import F16Scene
from rtsim.pilot.scenes.orbit import OrbitScene
from rtsim.pilot.scenes.scene import CHASE, COCKPIT, Scene, SceneMoment, Shown
from rtsim.pilot.scenes.strips import StripScene
from rtsim.scenario.component import readable
from rtsim.scenario.scenario import Scenario
from rtsim.scenario.standard_components import PlantComponent

BAD = (math.nan, math.inf, -math.inf, 0.0, 1e300, 1e125, -1e12)


def shown(scenario: Scenario) -> Shown:
    _, pairs = watched(scenario, 0.05)
    part = next(p for p in scenario.components.values() if isinstance(p, PlantComponent))
    signals = readable(part, scenario.components)
    between = Interpolation(signals)
    return Shown(signals, between.at(pairs[0], 0.0), between.slope(pairs[0]), pairs[0].ns(0.0))


@pytest.fixture(scope="module")
def aircraft() -> Shown:
    return shown(flight([], step=0.01))


@pytest.fixture(scope="module")
def moon() -> Shown:
    return shown(orbit(step=0.01))


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Of :func:`no_picture`."""
    out: list[str] = []
    real = text.write

    def write(surface: pygame.Surface, words: str, *rest: object) -> pygame.Rect:
        out.append(words)
        return real(surface, words, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(text, "write", write)
    return out


def draw(scene: Scene, name: str, body: Shown, view: str = COCKPIT) -> pygame.Surface:
    surface = pygame.Surface((320, 180))
    scene.draw(surface, SceneMoment({name: body}, view, {"throttle": 0.5}))
    return surface


@pytest.mark.parametrize("view", [COCKPIT, CHASE])
@pytest.mark.parametrize("bad", BAD)
@pytest.mark.parametrize("name", ["position", "velocity", "attitude"])
def test_an_aircraft_that_is_nowhere(
    aircraft: Shown, said: list[str], name: str, bad: float, view: str
) -> None:
    """A speed of nothing is a state; a place, an attitude or a number that is none is not."""
    values = aircraft.values.copy()
    values[aircraft.signals.slice(name)] = bad
    scene = F16Scene({"runway": RUNWAY})
    draw(scene, "f16", replace(aircraft, values=values), view)
    drawn = name == "attitude" and math.isfinite(bad) and bad != 0.0
    drawn = drawn or (name == "velocity" and bad == 0.0)
    assert [words for words in said if "no picture" in words] == (
        [] if drawn
        else ["no picture: the state of f16 is not finite, or not near the Earth"]
    )  # fmt: skip
    said.clear()
    draw(scene, "f16", aircraft, view)  # and it goes on where there is one again
    assert said == []


@pytest.mark.parametrize("bad", BAD[:3])
def test_outputs_and_slopes_that_are_no_numbers_are_shown_as_such(
    aircraft: Shown, said: list[str], bad: float
) -> None:
    values, slope = aircraft.values.copy(), np.full_like(aircraft.slope, bad)
    for name in ("alpha", "mach"):
        values[aircraft.signals.slice(name)] = bad
    draw(F16Scene({"runway": RUNWAY}), "f16", replace(aircraft, values=values))
    assert said == []
    draw(F16Scene({"runway": RUNWAY}), "f16", replace(aircraft, slope=slope))
    assert len(said) == 1


@pytest.mark.parametrize("bad", BAD)
@pytest.mark.parametrize("name", ["x", "vy"])
def test_a_moon_that_is_nowhere(moon: Shown, said: list[str], name: str, bad: float) -> None:
    values = moon.values.copy()
    values[moon.signals.slice(name)] = bad
    scene = OrbitScene({"plant": "moon"})
    draw(scene, "moon", moon)
    draw(scene, "moon", replace(moon, values=values))
    assert bool(said) == (not math.isfinite(bad))


@pytest.mark.parametrize("bad", BAD)
def test_traces_of_what_is_no_number(moon: Shown, bad: float) -> None:
    scene = StripScene()
    for values in (moon.values, np.full_like(moon.values, bad), moon.values):
        draw(scene, "moon", replace(moon, values=values))
