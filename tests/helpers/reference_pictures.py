"""The pictures of the viewer that were looked at, and how another is held against one.

``python tests/helpers/reference_pictures.py`` draws them again, into ``tests/pilot/pictures``.
Look at each that changed before it is kept.

Releases of SDL space and smooth letters differently: words are up to 6 % wider in one than in
another.  So letters here are those of ``letters.png``, of one width; all else is as it is flown.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import pygame
from numpy.typing import NDArray
from pilot_parts import flight, watched

from rtsim.core.signals import Signal, Signals
from rtsim.core.tag import NS_PER_S
from rtsim.models.f16.aircraft import PILOTED_F16 as F16
from rtsim.models.f16.piloted_scenario import RUNWAY
from rtsim.models.orbit import scenario as orbit
from rtsim.models.piloting.task import task_named
from rtsim.pilot.devices.controls import Moved
from rtsim.pilot.interpolation import Interpolation
from rtsim.pilot.pacing import VideoFrames
from rtsim.pilot.playback import Playback
from rtsim.pilot.scenes import text
from rtsim.pilot.scenes.f16 import F16Scene
from rtsim.pilot.scenes.orbit import OrbitScene
from rtsim.pilot.scenes.scene import CHASE, COCKPIT, SceneMoment, ScenePast, Shown
from rtsim.pilot.scenes.strips import StripScene
from rtsim.pilot.viewer.overlay import draw_help, draw_strip
from rtsim.pilot.viewer.player import Player
from rtsim.record.reading import Recording
from rtsim.testing.clock import FakeClock
from rtsim.testing.determinism import trace_of

FOLDER = Path(__file__).resolve().parents[1] / "pilot" / "pictures"
Pixels = NDArray[np.int16]
"""Width, height, red green blue."""

NEAR, BESIDE, BLOCK, FEW = 40, 1, 24, 10
"""Two pixels are alike within NEAR of each channel, at most BESIDE to the side: lines and areas of
other releases of SDL may lie a pixel off.  Of a square of BLOCK by BLOCK pixels FEW may be unlike:
less than the smallest thing that is drawn."""
_LETTERS = [chr(code) for code in range(33, 127)] + ["\u03b1", "\u00b0"]
_WIDE, _HIGH = 9, 16
"""Pixels of a letter."""


def pixels(surface: pygame.Surface) -> Pixels:
    return pygame.surfarray.array3d(surface).astype(np.int16)


def reference(name: str) -> Pixels:
    return pixels(pygame.image.load(FOLDER / f"{name}.png"))


def unlike(drawn: Pixels, wanted: Pixels) -> int:
    """The most pixels of a square that have nothing like them in the other picture."""
    if drawn.shape != wanted.shape:
        raise ValueError(f"{drawn.shape[:2]} pixels against {wanted.shape[:2]}")
    alone = _alone(drawn, wanted) | _alone(wanted, drawn)
    most = 0
    half = BLOCK // 2
    for x in range(0, alone.shape[0], half):
        for y in range(0, alone.shape[1], half):
            most = max(most, int(alone[x : x + BLOCK, y : y + BLOCK].sum()))
    return most


def same(drawn: Pixels, wanted: Pixels) -> bool:
    return unlike(drawn, wanted) <= FEW


def _alone(one: Pixels, other: Pixels) -> NDArray[np.bool_]:
    """Whose pixels have none like them at about the same place."""
    width, height = one.shape[:2]
    around = np.pad(other, ((BESIDE, BESIDE), (BESIDE, BESIDE), (0, 0)), mode="edge")
    found = np.zeros((width, height), dtype=bool)
    for x in range(2 * BESIDE + 1):
        for y in range(2 * BESIDE + 1):
            there = around[x : x + width, y : y + height]
            found |= np.abs(one - there).max(axis=2) <= NEAR
    return ~found


# -- what is drawn


@cache
def in_a_bank() -> Shown:
    """The F-16 after 1.5 s with the stick to the right and aft."""
    script = [(0.1, (0.35, 0.2, 0.0, 0.5)), (1.0, (0.3, 0.0, 0.0, 0.5))]
    _, pairs = watched(flight(script, step=0.01), 1.5)
    signals = F16.states + F16.discrete + F16.inputs + F16.outputs
    between, pair = Interpolation(signals), pairs[-1]
    return Shown(signals, between.at(pair, 0.5), between.slope(pair), pair.ns(0.5))


def f16(view: str, size: tuple[int, int] = (360, 220)) -> pygame.Surface:
    surface = pygame.Surface(size)
    moment = SceneMoment({"f16": in_a_bank()}, view, {"throttle": 0.5})
    F16Scene({"runway": RUNWAY, **task_named("gates").shown()}).draw(surface, moment)
    return surface


def helped() -> pygame.Surface:
    """What lies over every scene of a run, with figures that were made up."""
    surface = pygame.Surface((980, 320))
    OrbitScene({}).draw(surface, _recorded())
    run = {
        "ns": 12_340_000_000, "paced": 1, "margin_ns": 4_200_000, "overruns_wake": 2,
        "latency_median": 1_100_000, "latency_p95": 2_300_000, "latency_max": 9_000_000,
    }  # fmt: skip
    draw_strip(surface, run, 1.0, 60.0, 3)
    keys = (("F1", "this help"), ("P", "pause"), ("Esc", "end"))
    movers = {"pitch": Moved("Stick"), "throttle": Moved("", "s (-), w (+); mouse (M)")}
    draw_help(surface, movers, keys)
    return surface


def moon() -> pygame.Surface:
    surface, scene = pygame.Surface((320, 240)), OrbitScene({})
    scene.draw(surface, _recorded())
    return surface


def strips() -> pygame.Surface:
    """A vector, an angle that wraps, and a line."""
    surface = pygame.Surface((400, 240))
    signals = Signals(
        Signal("velocity", "m/s", shape=(2,)), Signal("heading", "deg", kind="angle"),
        Signal("height", "m"),
    )  # fmt: skip
    t = np.linspace(0.0, 6.0, 361)
    heading = (60.0 * t + 180.0) % 360.0 - 180.0
    values = np.column_stack((np.sin(2 * t), np.cos(2 * t) + 1.0, heading, 100.0 - 3.0 * t))
    past = ScenePast(np.round(t * 1e9).astype(np.int64), values, 6 * NS_PER_S)
    body = Shown(signals, values[-1], np.zeros(4), 6 * NS_PER_S)
    StripScene().draw(surface, SceneMoment({"body": body}, past={"body": past}))
    return surface


def seek_bar() -> pygame.Surface:
    """A recording that stands at a third of its length."""
    surface = pygame.display.set_mode((400, 240))
    player = Player(surface, OrbitScene({}), Playback(_recording()), VideoFrames(50, FakeClock()))
    player.playing = False
    player.seek(4e9)
    player.frame()
    copy = surface.copy()
    pygame.display.quit()
    return copy


@cache
def _recording() -> Recording:
    return trace_of(orbit(), until=12.0)


@cache
def _recorded() -> SceneMoment:
    return Playback(_recording()).at(12 * NS_PER_S, 10 * NS_PER_S)


DRAWN: dict[str, Callable[[], pygame.Surface]] = {
    "f16-cockpit": lambda: f16(COCKPIT),
    "f16-chase": lambda: f16(CHASE),
    "help": helped,
    "orbit": moon,
    "strips": strips,
    "seek-bar": seek_bar,
}
"""By the name of its file."""


def drawn(name: str) -> pygame.Surface:
    """The picture of that name, as the code draws it now."""
    known = text.rendered
    text.rendered = lettered
    text.outlined.cache_clear()
    try:
        return DRAWN[name]()
    finally:
        text.rendered = known
        text.outlined.cache_clear()


@cache
def lettered(said: str, size: int, colour: text.Colour) -> pygame.Surface:
    """Stands for :func:`rtsim.pilot.scenes.text.rendered`."""
    share = _sheet()
    ink = np.zeros((_HIGH, max(1, _WIDE * len(said))))
    for k, letter in enumerate(said):
        if letter in _LETTERS:
            at = _LETTERS.index(letter) * _WIDE
            ink[:, k * _WIDE : (k + 1) * _WIDE] = share[:, at : at + _WIDE]
    high = max(1, round(0.72 * size))
    wide = max(1, ink.shape[1] * high // _HIGH)
    rows, columns = (np.arange(n) * m // n for n, m in ((high, _HIGH), (wide, ink.shape[1])))
    picture = np.zeros((high, wide, 4), np.uint8)
    picture[:, :, :3], picture[:, :, 3] = colour, ink[rows][:, columns]
    return pygame.image.frombuffer(picture.tobytes(), (wide, high), "RGBA")


@cache
def _sheet() -> Pixels:
    """Height, width: how much ink."""
    return pixels(pygame.image.load(FOLDER / "letters.png"))[:, :, 0].T


def draw_letters() -> pygame.Surface:
    """White on black, side by side; of the font that pygame ships."""
    pygame.font.init()
    font = pygame.font.Font(None, 21)
    sheet = pygame.Surface((_WIDE * len(_LETTERS), _HIGH))
    for k, letter in enumerate(_LETTERS):
        image = font.render(letter, True, (255, 255, 255))
        wide = min(_WIDE, image.get_width())
        image = pygame.transform.smoothscale(image, (wide, image.get_height()))
        sheet.blit(image, (k * _WIDE + (_WIDE - wide) // 2, 1))
    return sheet


def main() -> None:
    os.environ["SDL_VIDEODRIVER"] = "dummy"
    FOLDER.mkdir(exist_ok=True)
    letters = FOLDER / "letters.png"
    if not letters.exists():
        pygame.image.save(draw_letters(), str(letters))
    for name in DRAWN:
        surface, path = drawn(name), FOLDER / f"{name}.png"
        if path.exists() and same(pixels(surface), reference(name)):
            print(f"{path}: as it was")
            continue
        pygame.image.save(surface, str(path))
        print(f"{path}: drawn anew; look at it")


if __name__ == "__main__":
    main()
