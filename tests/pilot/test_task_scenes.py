"""What the window shows of a pilot's task is what the run has counted."""

from __future__ import annotations

from typing import Any

import numpy as np
import pygame
import pytest

from rtsim.core.signals import Signal, Signals
from rtsim.models.piloting import Tracking, task_named
from rtsim.pilot.scenes.checking import check_scene
from rtsim.pilot.scenes.f16 import TaskDrawing
from rtsim.pilot.scenes.scene import SceneMoment, Shown
from rtsim.pilot.scenes.tracking import BACK, OWN, TARGET, TrackingScene

ABOUT: dict[str, Any] = {"axes": ["pitch"], "display": "compensatory", "rms": [0.02]}


def shown(values: dict[str, float]) -> SceneMoment:
    numbers = np.array(list(values.values()))
    task = Shown(Signals(*values), numbers, np.zeros_like(numbers), 0)
    return SceneMoment({"task": task})


def tracked(error: float, target: float = 0.0) -> SceneMoment:
    return shown({"pitch_error": error, "pitch_target": target, "pitch_centre": 0.1})


def height_of(surface: pygame.Surface, colour: tuple[int, int, int]) -> float:
    """Return the mean height of the pixels of ``colour`` above the middle, pixels."""
    pixels = pygame.surfarray.array3d(surface)
    rows = np.nonzero((pixels == colour).all(axis=2))[1]
    assert len(rows)
    return float(surface.get_height() / 2 - rows.mean())


@pytest.mark.parametrize("display", ["compensatory", "pursuit"])
def test_the_scene_of_tracking_passes_the_check(display: str) -> None:
    about = {**ABOUT, "display": display}
    check_scene(TrackingScene, [tracked(0.01), tracked(0.02)], about)
    check_scene(TrackingScene, [SceneMoment({})], {})


def test_a_compensatory_display_shows_the_error_and_nothing_else() -> None:
    surface = pygame.Surface((640, 360))
    TrackingScene(ABOUT).draw(surface, tracked(0.02, target=0.5))
    first = pygame.surfarray.array3d(surface).copy()
    assert height_of(surface, TARGET) == pytest.approx(45.0, abs=3.0)
    TrackingScene(ABOUT).draw(surface, tracked(0.02, target=-0.3))
    assert np.array_equal(first, pygame.surfarray.array3d(surface))
    TrackingScene(ABOUT).draw(surface, tracked(-0.02))
    assert height_of(surface, TARGET) == pytest.approx(-45.0, abs=3.0)
    TrackingScene(ABOUT).draw(surface, tracked(np.nan))
    assert not (pygame.surfarray.array3d(surface) == TARGET).all(axis=2).any()


def test_a_pursuit_display_shows_target_and_answer_around_the_centre() -> None:
    surface, scene = pygame.Surface((640, 360)), TrackingScene({**ABOUT, "display": "pursuit"})
    scene.draw(surface, tracked(0.03, target=0.12))
    assert height_of(surface, TARGET) == pytest.approx(45.0, abs=3.0)
    assert height_of(surface, OWN) == pytest.approx(-22.0, abs=3.0)
    assert list(surface.get_at((2, 200)))[:3] == list(BACK)


def test_gates_are_shown_as_the_run_has_counted_them() -> None:
    gates = task_named("gates").shown()
    drawing = TaskDrawing(gates, 0.0)
    assert drawing.text(SceneMoment({})) == "gate 1/14"
    signals = Signals("next", "missed", Signal("passed", shape=(14,), initial=(0.0,) * 14))
    values = np.array([3.0, 1.0, 1.0, 0.0, 1.0, *(0.0,) * 11])
    task = Shown(signals, values, np.zeros_like(values), 0)
    drawing._follow(task)
    assert drawing.course.passed[:4] == [True, False, True, False]
    assert drawing.text(SceneMoment({"task": task})) == "gate 4/14, missed 1"
    between = Shown(signals, values - 0.4, np.zeros_like(values), 0)  # an interpolated picture
    drawing._follow(between)
    assert drawing.course.next == 2


def test_the_text_of_other_tasks() -> None:
    drawing = TaskDrawing({}, 0.0)
    assert drawing.text(shown({"glide_error": 0.26, "course_error": -0.1})) == ("GS +0.3, LOC -0.1")
    assert drawing.text(shown({"along_error": -3.2, "across_error": 4.0})) == ("fwd -3, right +4")
    assert drawing.text(SceneMoment({})) == ""
    tracking = task_named("pitch-tracking")
    assert isinstance(tracking, Tracking)
    assert tracking.shown()["display"] == "compensatory"
