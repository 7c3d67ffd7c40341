"""A pygame loop that draws nothing: ``python -m tools.bench.pilot_empty OUT SECONDS RATE SIZE``.

The same window, driver, absolute deadlines and quiet collector as the viewer's, no simulation
beside it.  OUT gets the times at which its pictures were handed to the screen (.npy, ns).
"""

from __future__ import annotations

import sys

import numpy as np

from rtsim.core.clock import WallClock, stopwatch
from rtsim.pilot.pacing import VideoFrames
from rtsim.pilot.viewer.window import HIDDEN, close_window, open_window
from rtsim.timing.scheduling import SchedulingRequest, request


def main(out: str, seconds: float, rate: float, size: str, hidden: bool) -> None:
    width, height = map(int, size.split("x"))
    open_window("empty", hidden, (width, height))
    import pygame

    frames, shown = VideoFrames(rate, WallClock(), WallClock(spin_ns=0)), []
    with request(SchedulingRequest()):
        for _ in range(round(seconds * rate)):
            frames.wait(pygame.event.get)
            pygame.display.flip()
            shown.append(stopwatch())
    close_window()
    np.save(out, np.array(shown, dtype=np.int64))


if __name__ == "__main__":
    import os

    path, length, hertz, wide = sys.argv[1:5]
    main(path, float(length), float(hertz), wide, os.environ.get("SDL_VIDEODRIVER") == HIDDEN)
