"""A real window, on an X server without a screen: what a stranger sees of it, keys and mouse."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pygame
import pytest

from rtsim.core.clock import stopwatch
from rtsim.core.tag import NS_PER_S
from rtsim.pilot.scenes.orbit import MOON, PLANET
from rtsim.pilot.viewer.frames import DARK
from rtsim.record.reading import Recording
from tools.bench.pilot_pixel import probed
from tools.bench.pilot_probe import telling
from tools.bench.pilot_witness import environment
from tools.x11 import Picture, Screen, xvfb

pytestmark = [pytest.mark.realtime, pytest.mark.system("xvfb")]
SIZE = (640, 400)
STRIP = 30
"""Pixels of the line at the bottom, which tells the time."""
PATIENCE_S = 30.0


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with xvfb(800, 600) as name, environment({"DISPLAY": name, "SDL_VIDEODRIVER": "x11"}):
        yield name


@pytest.fixture
def screen(server: str) -> Iterator[Screen]:
    found = Screen(server)
    yield found
    found.close()


@dataclass
class Open:
    """A command whose window is open."""

    screen: Screen
    window: int
    process: subprocess.Popen[str]

    def picture(self) -> Picture:
        """Without the strip."""
        return self.screen.picture(self.window)[:-STRIP]

    def until(self, true: Callable[[], bool], what: str) -> None:
        end = stopwatch() + round(PATIENCE_S * NS_PER_S)
        while not true():
            assert self.process.poll() is None, f"it ended before {what}"
            assert stopwatch() < end, f"{what}: not within {PATIENCE_S:g} s"
            time.sleep(0.02)

    def changed(self, key: str, share: float) -> None:
        """A key makes another picture of so much of the window."""
        before = self.picture().astype(np.int64)
        self.screen.press(key)
        self.until(
            lambda: bool((np.abs(self.picture() - before).max(axis=2) > 60).mean() > share),
            f"{key} shows something else",
        )

    def closed(self) -> str:
        """Escape ends the run; what it printed."""
        self.screen.press("Escape")
        out, err = self.process.communicate(timeout=PATIENCE_S)
        early = 130 if "--until" in self.process.args else 0  # type: ignore[operator]
        assert self.process.returncode == early, out + err
        assert self.screen.gone(self.window)
        return out


@contextmanager
def opened(screen: Screen, folder: Path, *arguments: str) -> Iterator[Open]:
    command = [sys.executable, "-m", "rtsim", *arguments, "--size", f"{SIZE[0]}x{SIZE[1]}"]
    with subprocess.Popen(
        command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            window = screen.window("rtsim: ", PATIENCE_S)
            screen.focus(window)
            screen.point(window, SIZE[0] // 2, SIZE[1] // 2)
            out = Open(screen, window, process)
            out.until(lambda: drawn(out.picture()), "a scene is drawn")
            yield out
        finally:
            process.kill()


def drawn(picture: Picture) -> bool:
    """Not black, and not what is shown while a model is compiled."""
    return bool(picture.std() > 5) and tuple(picture[2, 2].tolist()) != DARK


def test_the_f16_is_flown_by_keys_and_mouse(screen: Screen, tmp_path: Path) -> None:
    """Help, a mouse that banks, views, a picture of what is seen; Escape ends it."""
    with opened(screen, tmp_path, "fly", "f16", "-o", "run.mcap", "--overrun", "slip") as flight:
        help_ = flight.picture()
        flight.changed("h", 0.05)
        assert np.abs(help_.astype(np.int64) - flight.picture()).mean() > 5
        flight.changed("h", 0.05)
        whole = screen.picture()  # of the screen, not of the window
        left, top, width, height = screen.place(flight.window)
        assert (width, height) == SIZE
        assert whole[top : top + height, left : left + width].std() > 30
        screen.press("m")
        screen.point(flight.window, SIZE[0] - 5, SIZE[1] // 2)
        level = slope(flight.picture())
        flight.until(lambda: slope(flight.picture()) < level - 0.2, "the horizon banks")
        screen.point(flight.window, SIZE[0] // 2, SIZE[1] // 2)
        flight.changed("v", 0.01)
        screen.press("p")
        flight.until(lambda: still(flight), "it stands")
        screen.press("F12")
        flight.until(lambda: len(list(tmp_path.glob("rtsim-*.png"))) == 1, "a picture is kept")
        seen = flight.picture()
        flight.closed()
    kept = pygame.surfarray.array3d(pygame.image.load(tmp_path / "rtsim-001.png"))
    upper = np.swapaxes(kept, 0, 1)[: SIZE[1] // 2]
    assert np.abs(upper.astype(np.int64) - seen[: SIZE[1] // 2]).max() <= 8
    recording = Recording.open(tmp_path / "run.mcap")
    assert recording.track("inputs/stick").column("roll").max() > 0.9
    assert abs(recording["f16.roll"]).max() > 0.2
    told = replayed(tmp_path / "run.mcap")
    assert "equal bit for bit" in told


def slope(picture: Picture) -> float:
    """rad: of the line between sky and ground, right of the figures' boxes down is positive."""
    red, blue = picture[:, :, 0].astype(np.int64), picture[:, :, 2].astype(np.int64)
    heights = (blue > red + 20).sum(axis=0)
    return float(np.arctan(np.polyfit(np.arange(len(heights)), heights, 1)[0]))


def still(flight: Open) -> bool:
    """Two pictures of a tenth of a second are one; the notes below the middle come and go."""
    half = SIZE[1] // 2
    before = flight.picture()[:half]
    time.sleep(0.1)
    return bool((before == flight.picture()[:half]).all())


def replayed(path: Path) -> str:
    command = [sys.executable, "-m", "rtsim", "replay", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return done.stdout


def test_a_run_is_watched(screen: Screen, tmp_path: Path) -> None:
    arguments = ("run", "orbit", "--until", "600", "--pace", "4", "--view", "-o", "run.mcap")
    with opened(screen, tmp_path, *arguments, "--overrun", "slip") as watched:
        picture = watched.picture()
        middle = picture[SIZE[1] // 2 - 5 : SIZE[1] // 2 + 5, SIZE[0] // 2 - 5 : SIZE[0] // 2 + 5]
        assert np.abs(middle.astype(np.int64) - PLANET).max(axis=2).min() < 30
        first = places(picture)
        watched.until(
            lambda: bool(np.abs(places(watched.picture()) - first).max() > 20), "the moon moves"
        )
        said = watched.closed()
    assert re.search(r"window: \d+ frames", said)
    assert Recording.open(tmp_path / "run.mcap").footer["reason"] == "quit"  # type: ignore[index]


def places(picture: Picture) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Row and column of the moon's middle."""
    found = np.argwhere(np.abs(picture.astype(np.int64) - MOON).max(axis=2) < 12)
    found = found[(found > (90, 0)).any(axis=1) & (found[:, 0] > 90)]  # below the figures
    return np.asarray(found.mean(axis=0)) if len(found) else np.zeros(2)


def test_a_stick_is_followed_in_the_window_a_frame_later(server: str) -> None:
    """By a process of its own, which reads one pixel: with fewer frames it takes longer."""
    assert server == os.environ["DISPLAY"]
    often, seldom = (np.median(probed(10, hz=200, fps=fps)) for fps in (60.0, 5.0))
    assert seldom > 2.0 * often > 0.0


def test_nothing_moves_and_that_is_told() -> None:
    picture: Picture = np.zeros((40, 60, 3), np.uint8)
    other = picture.copy()
    with pytest.raises(OSError, match="nothing in the window moves"):
        telling(picture, other)
    other[10:16, 20:26] = 200
    x, y = telling(picture, other)
    assert 20 <= x < 26
    assert 10 <= y < 16
