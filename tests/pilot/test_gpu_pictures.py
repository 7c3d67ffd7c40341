"""The world drawn by OpenGL: parts at their places, pictures that were looked at, clear errors.

``python tests/pilot/test_gpu_pictures.py`` draws the reference pictures anew; look at each.
"""

from __future__ import annotations

import builtins
import math
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pygame
import pytest
from numpy.typing import NDArray

from rtsim.gateway.shapes import Solid, solid_of
from rtsim.pilot.scenes import gpu
from rtsim.pilot.scenes.camera import Camera, Points, axes_of
from rtsim.pilot.scenes.f16 import F16Scene
from rtsim.pilot.scenes.gpu import (
    Graphics,
    NoGraphics,
    draw_world,
    graphics,
    light_of,
    remark,
)
from rtsim.pilot.scenes.world import (
    DrawnSolid,
    Placement,
    Relief,
    Runway,
    Terrain,
    WorldPicture,
)
from rtsim.pilot.viewer.overlay import SceneWindow
from rtsim.scenario.body import FIELD, WATER, GroundGrid

with_opengl = pytest.mark.system("opengl")
SIZE = (480, 270)
FOLDER = Path(__file__).with_name("pictures")
LEVEL = np.eye(3)
ALIKE = 6.0
"""Largest mean difference of a block of 30 by 30 pixels between two drivers, of 255."""


@pytest.fixture(scope="module")
def processor() -> Graphics:
    return Graphics()


@pytest.fixture
def anew() -> Iterator[None]:
    """The graphics processor is searched for again, in the test and after it."""
    graphics.cache_clear()
    yield
    graphics.cache_clear()


def camera(
    height: float = 100.0, pitch: float = 0.0, heading: float = 0.0, size: tuple[int, int] = SIZE,
    at: tuple[float, float] = (0.0, 0.0),
) -> Camera:  # fmt: skip
    axes = axes_of(0.0, math.radians(pitch), math.radians(heading))
    return Camera(np.array([*at, -height]), axes, *size)


def towards_sun(elevation: float, azimuth: float = 60.0) -> NDArray[np.float64]:
    up, turn = math.radians(elevation), math.radians(azimuth)
    flat = math.cos(up)
    return np.array([flat * math.cos(turn), flat * math.sin(turn), -math.sin(up)])


def hills() -> Relief:
    axis = np.linspace(-4000.0, 4000.0, 81)
    north, east = np.meshgrid(axis, axis, indexing="ij")
    height = 300.0 * np.sin(north / 900.0) * np.cos(east / 700.0) + 300.0
    kind = np.full((80, 80), FIELD)
    kind[:20] = WATER
    return Relief(GroundGrid(axis, axis, height, kind))


def final() -> WorldPicture:
    return WorldPicture(camera(60.0, -3.0, 45.0, at=(-1300.0, -1300.0)), Terrain(),
                        Runway(math.radians(45.0)))  # fmt: skip


def bank() -> WorldPicture:
    seen, shape = camera(620.0, -10.0, 52.0), DrawnSolid(solid_of("aircraft", 15.1))
    at = Placement(np.array([18.0, 23.0, -613.0]), axes_of(0.6, 0.05, 0.9))
    track = np.array([[[-200.0, -200.0, -600.0], at.place]])
    return WorldPicture(
        seen, Terrain(), bodies=[(shape, at)], lines=[(track, [((235, 120, 20), 2)])]
    )


def relief() -> WorldPicture:
    return WorldPicture(camera(900.0, -12.0, 30.0), hills())


def dusk() -> WorldPicture:
    return WorldPicture(camera(900.0, 2.0, 62.0), Terrain(), sun=towards_sun(3.0))


def night() -> WorldPicture:
    return WorldPicture(camera(900.0, -5.0, 62.0), Terrain(), sun=towards_sun(-25.0))


DRAWN: dict[str, Callable[[], WorldPicture]] = {
    one.__name__: one for one in (final, bank, relief, dusk, night)
}


def drawn(processor: Graphics, picture: WorldPicture) -> NDArray[np.int16]:
    """Return the pixels (width, height, 3)."""
    seen = picture.camera
    surface = pygame.Surface((seen.width, seen.height))
    processor.draw(surface, picture)
    return pygame.surfarray.array3d(surface).astype(np.int16)


def unlike(a: NDArray[np.int16], b: NDArray[np.int16]) -> float:
    """Return the largest mean difference of a block of 30 by 30 pixels."""
    apart = np.abs(a - b).mean(axis=2)
    wide, high = (n // 30 for n in apart.shape)
    blocks = apart[: 30 * wide, : 30 * high].reshape(wide, 30, high, 30)
    return float(blocks.mean(axis=(1, 3)).max())


@with_opengl
@pytest.mark.parametrize("name", DRAWN)
def test_pictures_are_those_that_were_looked_at(processor: Graphics, name: str) -> None:
    wanted = pygame.surfarray.array3d(pygame.image.load(FOLDER / f"opengl-{name}.png"))
    assert unlike(drawn(processor, DRAWN[name]()), wanted.astype(np.int16)) < ALIKE


@with_opengl
@pytest.mark.parametrize(
    ("name", "part", "without"),
    [("final", "runway", None), ("bank", "bodies", []), ("relief", "ground", Terrain()),
     ("dusk", "sun", towards_sun(5.0))],
)  # fmt: skip
def test_a_picture_without_a_part_differs(
    processor: Graphics, name: str, part: str, without: Any
) -> None:
    whole, other = DRAWN[name](), DRAWN[name]()
    setattr(other, part, without)
    assert unlike(drawn(processor, whole), drawn(processor, other)) > 2.0 * ALIKE


def mark(size: float, colour: tuple[int, int, int] = (255, 0, 255)) -> DrawnSolid:
    """Return a cross of two squares that faces each direction."""
    square = size * np.array([[-1, -1], [1, -1], [1, 1], [-1, 1]], float)
    flat = np.zeros((3, 4, 3))
    for k, (a, b) in enumerate(((0, 1), (1, 2), (0, 2))):
        flat[k][:, [a, b]] = square
    return DrawnSolid(Solid(flat, np.array([colour] * 3, np.uint8), np.zeros(3)))


def middle_of(pixels: NDArray[np.int16]) -> Points:
    """Return the mean position of the magenta pixels."""
    found = (pixels[..., 0] > 50) & (pixels[..., 2] > 70) & (pixels[..., 1] < 40)
    assert found.any(), "the mark is in the picture"
    return np.asarray(np.argwhere(found).mean(axis=0) + 0.5)


@with_opengl
@pytest.mark.parametrize("far", [20.0, 800.0, 4e3])
@pytest.mark.parametrize("where", [(1e5, -2e5), (0.0, 0.0)])
def test_bodies_are_where_the_symbols_of_the_display_are(
    processor: Graphics, far: float, where: tuple[float, float]
) -> None:
    seen = camera(3000.0, 5.0, 70.0, at=where).turned(0.1, -0.05)
    place = seen.position + far * np.array([1.0, 0.2, -0.1]) @ seen.axes
    body = (mark(0.02 * far), Placement(place, LEVEL))
    found = middle_of(drawn(processor, WorldPicture(seen, Terrain(), bodies=[body])))
    symbol = seen.direction(place - seen.position)
    assert symbol is not None
    assert np.abs(found - symbol).max() < 1.0


@with_opengl
def test_the_nearer_of_two_bodies_hides_the_other(processor: Graphics) -> None:
    seen = camera()
    near, far = (Placement(seen.position + np.array([d, 0.0, 0.0]), LEVEL) for d in (50.0, 60.0))
    bodies = [(mark(2.0, (0, 255, 0)), near), (mark(1.0), far)]
    for order in (bodies, bodies[::-1]):
        pixels = drawn(processor, WorldPicture(seen, Terrain(), bodies=order))
        with pytest.raises(AssertionError, match="the mark is in the picture"):
            middle_of(pixels)


@with_opengl
def test_lines_have_their_thickness_at_each_distance(processor: Graphics) -> None:
    seen = camera(1000.0)
    for distance in (30.0, 3000.0):
        here = seen.position + np.array([distance, 0.0, 0.0])
        side = np.array([0.0, distance, 0.0])
        ends = np.array([[here - side, here + side]])
        picture = WorldPicture(seen, Terrain(), lines=[(ends, [((255, 0, 255), 5)])])
        column = drawn(processor, picture)[SIZE[0] // 2]
        thick = ((column[:, 0] > 200) & (column[:, 2] > 200) & (column[:, 1] < 60)).sum()
        assert thick in (5, 6)


@with_opengl
@pytest.mark.parametrize("height", [100.0, 3000.0])
def test_the_horizon_dips_as_on_a_round_earth(processor: Graphics, height: float) -> None:
    seen = camera(height, heading=20.0, size=(480, 960))
    column = drawn(processor, WorldPicture(seen, hills_far_away(), sun=towards_sun(60.0, 0.0)))
    edge = int(np.abs(np.diff(column[240, 400:].sum(axis=1))).argmax()) + 401
    dip = math.acos(6371e3 / (6371e3 + height))
    assert edge == pytest.approx(480 + seen.focal * math.tan(dip), abs=2.0)


def hills_far_away() -> Relief:
    """Return a relief that is too small to be seen, below which the ground has one colour."""
    axis = np.array([0.0, 1.0])
    return Relief(GroundGrid(axis, axis, np.zeros((2, 2)), np.zeros((1, 1), np.uint8)))


@with_opengl
def test_the_size_of_the_picture_can_change(processor: Graphics) -> None:
    for size in ((64, 36), (333, 111), SIZE, (64, 36)):
        pixels = drawn(processor, WorldPicture(camera(size=size), Terrain()))
        assert pixels.shape[:2] == size
        assert np.ptp(pixels) > 40


def test_light_by_day_dusk_and_night() -> None:
    noon, low, dark = (light_of(math.sin(math.radians(e)), 0.0) for e in (50.0, 2.0, -30.0))
    assert noon["daylight"] == 1.0
    assert dark["daylight"] == 0.0 == max(dark["sunlight"])
    assert min(noon["sunlight"]) > 0.8
    red, _, blue = low["haze_facing"]
    assert red > 1.5 * blue
    assert light_of(1.0, 20e3)["zenith"][2] < 0.6 * light_of(1.0, 0.0)["zenith"][2]


# What is missing is named, with the remedy, and the window draws simple pictures.


@pytest.mark.usefixtures("anew")
@pytest.mark.parametrize(
    ("choice", "reason"),
    [("software", "RTSIM_PICTURE is software"),
     ("gpu", "RTSIM_PICTURE is 'gpu'; give one of auto, opengl, software")],
)  # fmt: skip
def test_the_choice_of_the_user(monkeypatch: pytest.MonkeyPatch, choice: str, reason: str) -> None:
    monkeypatch.setenv("RTSIM_PICTURE", choice)
    assert graphics() == reason
    assert remark() == ("" if choice == "software" else f"simple picture: {reason}")


@pytest.mark.usefixtures("anew")
def test_without_moderngl_the_remark_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    usual = builtins.__import__

    def without(name: str, *arguments: Any, **options: Any) -> Any:
        if name == "moderngl":
            raise ImportError("No module named 'moderngl'")
        return usual(name, *arguments, **options)

    monkeypatch.setattr(builtins, "__import__", without)
    monkeypatch.setenv("RTSIM_PICTURE", "auto")
    assert "moderngl is not installed" in remark()
    assert "pip install 'rtsim[pilot]'" in F16Scene({}).remark


@with_opengl
@pytest.mark.usefixtures("anew")
def test_a_driver_on_the_cpu_is_used_only_if_the_user_chooses_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(gpu, "_SOFTWARE", ("",))  # each driver counts as one
    monkeypatch.setenv("RTSIM_PICTURE", "auto")
    assert "computes on the CPU" in remark()
    assert "RTSIM_PICTURE=opengl" in remark()
    graphics.cache_clear()
    monkeypatch.setenv("RTSIM_PICTURE", "opengl")
    assert isinstance(graphics(), Graphics)
    surface = pygame.Surface(SIZE)
    draw_world(surface, final())
    simple = pygame.Surface(SIZE)
    final().draw_in_software(simple)
    a, b = (pygame.surfarray.array3d(s).astype(np.int16) for s in (surface, simple))
    assert unlike(a, b) > 4.0


@with_opengl
def test_a_shader_that_does_not_compile_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu, "_SHADERS", {**gpu._SHADERS, "near.frag": "void main() { wrong; }"})
    with pytest.raises(
        NoGraphics, match=r"(?s)does not compile near\.frag.*RTSIM_PICTURE=software"
    ):
        Graphics()


def test_without_a_context_the_error_names_the_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    moderngl = pytest.importorskip("moderngl")

    def refuse(**_: Any) -> None:
        raise RuntimeError("libEGL.so is not loaded")

    monkeypatch.setattr(moderngl, "create_context", refuse)
    with pytest.raises(NoGraphics, match=r"libEGL\.so is not loaded.*libgl1-mesa-dri"):
        Graphics()


class FailingDriver:
    """A context whose driver reports an error after a picture, as one without memory does."""

    def __init__(self, context: Any, error: str) -> None:
        self._context, self.error = context, error

    def __getattr__(self, name: str) -> Any:
        return getattr(self._context, name)


@with_opengl
@pytest.mark.usefixtures("anew")
@pytest.mark.parametrize("way", ["reported", "raised"])
def test_after_a_failure_of_the_driver_the_window_draws_simple_pictures(
    monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    monkeypatch.setenv("RTSIM_PICTURE", "opengl")
    processor = graphics()
    assert isinstance(processor, Graphics)
    surface, simple = pygame.Surface(SIZE), pygame.Surface(SIZE)
    window = SceneWindow(surface, F16Scene({}), lambda: 0)
    draw_world(surface, final())
    window.note_remark()
    assert window.present_notes() == []
    if way == "reported":
        processor._context = FailingDriver(processor._context, "GL_OUT_OF_MEMORY")
    else:
        monkeypatch.setattr(processor, "_view", lambda _: 1 / 0)
    final().draw_in_software(simple)
    for _ in range(2):
        surface.fill((255, 0, 255))
        draw_world(surface, final())
        assert pygame.image.tobytes(surface, "RGB") == pygame.image.tobytes(simple, "RGB")
        window.note_remark()
    (note,) = window.present_notes()
    assert note.startswith("simple picture: OpenGL failed during the run (")
    assert ("GL_OUT_OF_MEMORY" if way == "reported" else "division by zero") in note
    assert note.endswith("set RTSIM_PICTURE=software")


@with_opengl
def test_a_picture_without_pixels_is_empty(processor: Graphics) -> None:
    for size in ((0, 0), (0, 20), (20, 0)):
        processor.draw(pygame.Surface(size), WorldPicture(camera(size=size), Terrain()))


if __name__ == "__main__":
    os.environ["RTSIM_PICTURE"] = "opengl"
    for name, make in DRAWN.items():
        surface = pygame.Surface(SIZE)
        Graphics().draw(surface, make())
        pygame.image.save(surface, str(FOLDER / f"opengl-{name}.png"))
