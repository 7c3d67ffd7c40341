"""The viewer's process: ``python -m rtsim.pilot.viewer.process FILE``, FILE being what is shared.

It says ``ready`` on its output, or one line of what is missing, and ends when its input closes,
which the end of the simulation does however that comes about.
"""

from __future__ import annotations

import argparse
import os
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

from rtsim.clock import WallClock, stopwatch
from rtsim.errors import RtsimError
from rtsim.pilot.devices.controls import Controls
from rtsim.pilot.devices.mapping import Value, mapping_of, read_mapping
from rtsim.pilot.pacing import Frames
from rtsim.pilot.shared import Schema, Shared
from rtsim.pilot.viewer.state import Picture, Said, Telling
from rtsim.pilot.viewer.window import open_window
from rtsim.scene import Cue
from rtsim.tag import NS_PER_S
from rtsim.timing.scheduling import Request, request

READY = "ready"
_OWN_MAPPING = Path(__file__).resolve().parents[1] / "devices" / "aircraft.toml"


def main(arguments: Sequence[str] | None = None) -> int:
    """Until the window is closed, or nobody flies any more."""
    given = _arguments(arguments)
    over = threading.Event()
    threading.Thread(target=_await_end, args=(over,), daemon=True).start()
    try:
        shared = Shared.open(given.shared)
        mapping = _mapping(given.mapping, shared.schema)
        size = tuple(map(int, given.size.split("x")))
        title = f"rtsim: {shared.schema.about.get('scenario', '')}"
        surface = open_window(title, given.headless, (size[0], size[1]))
        show(given, shared, mapping, surface, over)
        if over.is_set():  # of a simulation that was killed nobody else removes it
            shared.remove()
    except RtsimError as error:
        print(error, flush=True)
        return 2
    return 0


def show(
    given: argparse.Namespace,
    shared: Shared,
    mapping: tuple[Value, ...],
    surface: object,
    over: threading.Event,
) -> None:
    """Frames, one after another."""
    import pygame

    from rtsim.pilot.scenes.scene import scene_named
    from rtsim.pilot.viewer.cueing import Cueing
    from rtsim.pilot.viewer.frames import Display

    assert isinstance(surface, pygame.Surface)
    about = shared.schema.about
    clock, said = WallClock(), Said(shared)
    frames = Frames(given.rate, clock, WallClock(spin_ns=0))
    cues = [Cue.from_plain(plain) for plain in about.get("cues", ())]
    sounds = not (given.quiet or given.headless)  # a hidden window is nobody's
    display = Display(
        surface, scene_named(str(about.get("scene", "")), about), Picture(shared), said,
        Telling(shared), Controls(mapping, shared.schema.stick), frames, clock,
        Cueing(cues, shakes=not given.quiet, sounds=sounds),
    )  # fmt: skip
    saving = Saving(given.frames, given.every)
    print(READY, flush=True)
    with request(Request()):  # the collector stands still, timers are exact
        while not (over.is_set() or display.closed or said["ended"]):
            if display.frame():
                saving.look(display.save)
    display.close()
    pygame.display.quit()


class Saving:
    """A picture into a folder every so often; numbered."""

    def __init__(self, folder: Path | None, every: float) -> None:
        self._folder, self._every = folder, round(every * NS_PER_S)
        self._next, self._number = stopwatch(), 0
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)

    def look(self, save: object) -> None:
        now = stopwatch()
        if self._folder is None or now < self._next:
            return
        self._next = now + self._every
        assert callable(save)
        save(self._folder / f"frame-{self._number:05d}.png")
        self._number += 1


def _mapping(path: Path | None, schema: Schema) -> tuple[Value, ...]:
    """The given one; else what rtsim's own says of the values that this run has."""
    if path is not None:
        return read_mapping(path, schema.stick)
    import tomllib

    tables = tomllib.loads(_OWN_MAPPING.read_text(encoding="utf-8"))
    known = {name: table for name, table in tables.items() if name in schema.stick}
    return mapping_of(known, schema.stick, str(_OWN_MAPPING))


def _await_end(over: threading.Event) -> None:
    """Nobody writes to the input; it closes when the simulation does."""
    while os.read(sys.stdin.fileno(), 4096):
        pass
    over.set()


def _arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="rtsim.pilot.viewer")
    parser.add_argument("shared", type=Path)
    parser.add_argument("--mapping", type=Path)
    parser.add_argument("--rate", type=float, default=60.0)
    parser.add_argument("--size", default="1280x720")
    parser.add_argument("--headless", action="store_true")
    parser.add_argument("--quiet", action="store_true")
    parser.add_argument("--frames", type=Path)
    parser.add_argument("--every", type=float, default=1.0)
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
