"""Inside a viewer's process: a virtual joystick moves by a script, and each picture's time is kept.

The viewer has no door for this.  Python runs a ``sitecustomize`` from its path when it starts;
:func:`witnessed` writes one into a folder, and gives the environment that makes it be found.  It
does nothing in any process but a viewer's.
"""

from __future__ import annotations

import atexit
import json
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rtsim.core.clock import stopwatch
from rtsim.core.tag import NS_PER_S

ROOT = Path(__file__).resolve().parents[2]
VARIABLE = "RTSIM_WITNESS"
_VIEWER = "rtsim.pilot.viewer.process"
_ENTRY = f"""import sys
if {_VIEWER!r} in sys.orig_argv:
    from tools.bench.pilot_witness import begin
    begin()
"""
_SCRIPT, _SHOWN, _MOVED = "script.json", "shown.npy", "moved.npy"

Script = Sequence[tuple[float, Sequence[float]]]
"""Seconds after the joystick came, and where each of its axes then goes (-1 to 1)."""
Times = NDArray[np.int64]


@contextmanager
def witnessed(folder: Path, script: Script = ()) -> Iterator[None]:
    """Viewers that are started meanwhile; ask :func:`shown` and :func:`moved` when one has ended.

    Without a script there is no joystick.
    """
    (folder / "sitecustomize.py").write_text(_ENTRY)
    (folder / _SCRIPT).write_text(json.dumps([[at, list(axes)] for at, axes in script]))
    path = os.pathsep.join([str(folder), str(ROOT), *_listed("PYTHONPATH")])
    with environment({"PYTHONPATH": path, VARIABLE: str(folder)}):
        yield


@contextmanager
def environment(values: dict[str, str]) -> Iterator[None]:
    """With these in it; what was there before comes back."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name)
            else:
                os.environ[name] = value


def shown(folder: Path) -> Times:
    """When each picture was handed to the screen, ns of the stopwatch."""
    return _kept(folder / _SHOWN)


def moved(folder: Path) -> Times:
    """When each line of the script was done."""
    return _kept(folder / _MOVED)


def _kept(path: Path) -> Times:
    if not path.exists():
        raise FileNotFoundError(f"{path}: the viewer was killed, or never began")
    return np.asarray(np.load(path), dtype=np.int64)


def _listed(name: str) -> list[str]:
    return [os.environ[name]] if os.environ.get(name) else []


# -- in the viewer


def begin() -> None:
    """Called while the viewer's Python starts, before anything of the viewer is there."""
    folder = Path(os.environ[VARIABLE])
    witness = _Witness(json.loads((folder / _SCRIPT).read_text()))
    atexit.register(witness.save, folder)
    threading.Thread(target=witness.run, daemon=True).start()


class _Witness:
    def __init__(self, script: list[list[Any]]) -> None:
        self._script = script
        self._shown: list[int] = []
        self._moved: list[int] = []

    def run(self) -> None:
        pygame = _ready()
        flip: Callable[[], None] = pygame.display.flip

        def flipped() -> None:
            flip()
            self._shown.append(stopwatch())

        pygame.display.flip = flipped
        if self._script:
            self._move()

    def _move(self) -> None:
        sys.path.append(str(ROOT / "tests" / "helpers"))
        from virtual_joystick import VirtualJoystick

        joystick = VirtualJoystick(axes=len(self._script[0][1]))
        came = stopwatch()
        for at, axes in self._script:
            time.sleep(max(0.0, at - (stopwatch() - came) / NS_PER_S))
            self._moved.append(stopwatch())
            try:
                for axis, position in enumerate(axes):
                    joystick.move(axis, position)
            except AssertionError:  # SDL has let go of it: the viewer closes
                return

    def save(self, folder: Path) -> None:
        np.save(folder / _SHOWN, np.array(self._shown, dtype=np.int64))
        np.save(folder / _MOVED, np.array(self._moved, dtype=np.int64))


def _ready() -> Any:
    """pygame, once the viewer looks at its joysticks."""
    while True:
        pygame = sys.modules.get("pygame")
        joystick = getattr(pygame, "joystick", None)
        if joystick is not None and hasattr(pygame, "event") and joystick.get_init():
            return pygame
        time.sleep(0.005)
