"""Stick to pixel, by a stranger: ``python -m tools.bench.pilot_probe TITLE COUNT`` prints JSON.

It moves the mouse, which flies, through the X server (XTEST), and looks at one pixel of the
window until that has another colour: both moments are its own ``CLOCK_MONOTONIC``, and nothing is
asked of the viewer.  The window shows a thing that jumps between two places with the stick; the
pixel is found by looking at the whole window with the stick at either side.
"""

from __future__ import annotations

import json
import os
import random
import sys
import time

import numpy as np
from numpy.typing import NDArray

from rtsim.core.clock import stopwatch
from rtsim.core.tag import NS_PER_S
from tools.x11 import Picture, Pixel, Screen

_LOOK_S = 0.0003
"""Between two looks: the probe takes little of the machine that it measures."""
_SETTLE_S = 0.5
_START_NS = 20 * NS_PER_S
_PATIENCE_NS = 5 * NS_PER_S
_NEAR = 40
_CORE = 5
"""The pixel lies in the middle of so many that changed, across and down."""
_GAPS_S = (0.06, 0.14)
"""Between two moves, so that they fall anywhere in a frame."""


class Probe:
    """Of one window whose ``roll`` moves something from side to side."""

    def __init__(self, screen: Screen, window: int) -> None:
        self.looks: list[int] = []
        self._screen, self._window = screen, window
        _, _, width, _ = screen.place(window)
        self._ways = [-round(1.2 * width), round(1.2 * width)]  # from any place to one stop
        self._side = 0
        self._at, self._colour = (0, 0), (0, 0, 0)

    def find(self) -> None:
        """Which pixel tells the sides apart, and its colour on the second.

        Until the run has begun nothing moves; until a frame has come, only one of the sides has.
        A change of the whole window meanwhile (the first scene, its scale) also differs between
        two pictures; it does not come back with the stick, and the search begins again.
        """
        until = stopwatch() + _START_NS
        while True:
            try:
                self._find()
                return
            except OSError:
                if stopwatch() > until:
                    raise

    def _find(self) -> None:
        pictures = []
        for side in (0, 1):
            self._go(side)
            time.sleep(_SETTLE_S)
            pictures.append(self._screen.picture(self._window))
        x, y = telling(*pictures)
        red, green, blue = pictures[1][y, x].tolist()
        self._at, self._colour = (x, y), (red, green, blue)
        for side in (0, 1):
            self._go(side)
            time.sleep(_SETTLE_S)
            if not self._shows(side):
                raise OSError(f"pixel {self._at} changed once, but not with the stick")

    def _shows(self, side: int) -> bool:
        """Whether the pixel has its colour of this side."""
        return near(self._screen.pixel(self._window, *self._at), self._colour) == bool(side)

    def latency(self) -> int:
        """From the other side on: ns until the pixel has followed."""
        side = 1 - self._side
        began = before = stopwatch()
        self._go(side)
        while not self._shows(side):
            now = stopwatch()
            if now - began > _PATIENCE_NS:
                raise OSError(f"pixel {self._at} did not follow the stick")
            self.looks.append(now - before)
            before = now
            time.sleep(_LOOK_S)
        return stopwatch() - began

    def _go(self, side: int) -> None:
        self._side = side
        self._screen.slide(self._ways[side], 0)


def telling(one: Picture, other: Picture) -> tuple[int, int]:
    """x, y of a pixel amidst those that differ most."""
    differ = np.abs(one.astype(np.int64) - other).max(axis=2)
    least = _eroded(differ)
    y, x = np.unravel_index(int(least.argmax()), least.shape)
    if least[y, x] <= 2 * _NEAR:
        raise OSError("nothing in the window moves with the stick")
    return int(x), int(y)


def _eroded(values: NDArray[np.int64]) -> NDArray[np.int64]:
    """The least of each pixel's neighbours; 0 at the edges."""
    out = np.zeros_like(values)
    half = _CORE // 2
    around = np.lib.stride_tricks.sliding_window_view(values, (_CORE, _CORE))
    out[half:-half, half:-half] = around.min(axis=(2, 3))
    return out


def near(one: Pixel, other: Pixel) -> bool:
    return max(abs(a - b) for a, b in zip(one, other, strict=True)) <= _NEAR


def measure(title: str, count: int) -> dict[str, object]:
    """ns of each of ``count`` moves, and the median between two looks."""
    screen = Screen(os.environ["DISPLAY"])
    window = screen.window(title)
    screen.focus(window)
    screen.point(window, 5, 5)
    screen.press("m")  # the mouse flies
    probe, gaps = Probe(screen, window), random.Random(1)
    probe.find()
    found = []
    for _ in range(count):
        time.sleep(gaps.uniform(*_GAPS_S))
        found.append(probe.latency())
    return {"latencies_ns": found, "look_ns": float(np.median(probe.looks))}


if __name__ == "__main__":
    print(json.dumps(measure(sys.argv[1], int(sys.argv[2]))))
