"""The viewer's pictures against those that were looked at, and which are told apart."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from reference_pictures import DRAWN, drawn, pixels, reference, same

from rtsim.pilot.scenes import f16, hud, orbit, strips, world
from rtsim.pilot.scenes.camera import Camera
from rtsim.pilot.viewer import overlay
from rtsim.pilot.viewer.overlay import SeekBar

Break = Callable[[pytest.MonkeyPatch], object]


@pytest.fixture(autouse=True)
def hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")


@pytest.mark.parametrize("name", DRAWN)
def test_it_is_the_picture_that_was_looked_at(name: str) -> None:
    """If it is meant to be another: python tests/helpers/reference_pictures.py, and look at it."""
    assert same(pixels(drawn(name)), reference(name))


def without(where: Any, name: str) -> Break:
    """A part of the picture is not drawn."""
    return lambda patch: patch.setattr(where, name, lambda *_, **__: None)


def ungated(patch: pytest.MonkeyPatch) -> None:
    """No gate is drawn."""
    patch.setattr(world.Course, "lines", lambda *_: (np.zeros((0, 2, 3)), []))


def moved(part: str, by: int) -> Break:
    """A line or an area lies lower by some pixels."""

    def apply(patch: pytest.MonkeyPatch) -> None:
        whole = getattr(Camera, part)

        def lower(self: Camera, *arguments: Any) -> Any:
            found = whole(self, *arguments)
            return [(x, y + by) for x, y in found]

        patch.setattr(Camera, part, lower)

    return apply


def turned(patch: pytest.MonkeyPatch) -> None:
    """The camera is rolled by 1 degree."""
    whole = f16.F16Scene.camera

    def rolled(self: Any, *arguments: Any) -> Camera:
        seen = whole(self, *arguments)
        c, s = math.cos(math.radians(1.0)), math.sin(math.radians(1.0))
        turn = np.array([[1.0, 0.0, 0.0], [0.0, c, s], [0.0, -s, c]])
        return Camera(seen.position, turn @ seen.axes, seen.width, seen.height)

    patch.setattr(f16.F16Scene, "camera", rolled)


def figures(patch: pytest.MonkeyPatch) -> None:
    """The speed is another: three digits."""
    patch.setattr(hud, "KT", 0.6)


def bare(patch: pytest.MonkeyPatch) -> None:
    """The help stands on nothing; a page that is kept is not asked."""
    patch.setattr(overlay, "_BACK", (0, 0, 0, 0))
    patch.setattr(overlay, "_help_page", overlay._help_page.__wrapped__)


@pytest.mark.parametrize(
    ("name", "broken"),
    [
        *(("f16-cockpit", without(hud.HeadUp, f"_{part}")) for part in (
            "ladder", "waterline", "flight_path", "heading", "boxes"
        )),
        ("f16-cockpit", moved("below", 3)),
        ("f16-cockpit", turned),
        ("f16-cockpit", figures),
        ("f16-cockpit", without(world, "draw_lines")),
        ("f16-chase", ungated),
        ("f16-chase", without(world.DrawnSolid, "draw")),
        ("f16-chase", moved("below", 3)),
        ("help", bare),
        ("orbit", without(orbit.OrbitScene, "_track")),
        ("orbit", without(orbit.OrbitScene, "_arrow")),
        ("orbit", without(orbit, "_ball")),
        ("orbit", without(orbit.OrbitScene, "_figures")),
        ("strips", without(strips, "_label")),
        ("strips", lambda patch: patch.setattr(strips, "TRACES", ((0, 0, 0),) * 4)),
        ("seek-bar", without(SeekBar, "draw")),
        ("seek-bar", lambda patch: patch.setattr(SeekBar, "x", lambda *_: 150)),
    ],
)  # fmt: skip
def test_a_picture_that_lacks_or_moves_a_part_is_another(
    name: str, broken: Break, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken(monkeypatch)
    assert not same(pixels(drawn(name)), reference(name))


@pytest.mark.parametrize("name", DRAWN)
def test_a_black_window_is_another(name: str) -> None:
    wanted = reference(name)
    assert not same(np.zeros_like(wanted), wanted)
    with pytest.raises(ValueError, match="pixels against"):
        same(wanted[1:], wanted)


@pytest.mark.parametrize("name", DRAWN)
def test_what_lies_a_pixel_off_is_the_same(name: str) -> None:
    """As between releases of SDL."""
    framed = np.pad(reference(name), ((4, 4), (4, 4), (0, 0)))
    assert same(np.roll(framed, (1, -1), (0, 1)), framed)
    assert not same(np.roll(framed, (3, -3), (0, 1)), framed)
