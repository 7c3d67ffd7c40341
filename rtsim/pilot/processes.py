"""Processes beside a simulation: viewer, relay to other machines, and sender to FlightGear.

Each process prints a line when it is ready, and ends when its standard input closes.
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import threading
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

from rtsim.core.clock import stopwatch
from rtsim.core.errors import RtsimError
from rtsim.core.tag import NS_PER_S
from rtsim.pilot.views import main_first
from rtsim.timing.background import ONE_THREAD

READY = "ready"
"""First line that a process prints if it is ready. Any other first line is an error message."""


def input_closed() -> threading.Event:
    """Return an event that is set when the standard input closes.

    The input is a pipe from the simulation, which never writes to it. The input therefore closes
    when the simulation ends or is killed.
    """
    over = threading.Event()
    threading.Thread(target=_await_end, args=(over,), daemon=True).start()
    return over


def _await_end(over: threading.Event) -> None:
    while os.read(sys.stdin.fileno(), 4096):
        pass
    over.set()


# The simulation's side.

_START_S = 30.0
_END_S = 2.0
_MOST_WORDS = 4096


class ViewerError(RtsimError):
    """A process beside the simulation did not become ready. The message states the reason."""


@dataclass(frozen=True)
class Window:
    """Options of the viewer's window."""

    headless: bool = False
    frames: Path | None = None
    every: float = 1.0
    mapping: Path | None = None
    rate: float = 60.0
    size: str = "1280x720"
    view: str = ""
    """Name or angle of the view (:func:`rtsim.pilot.views.read_viewpoint`)."""
    views: tuple[str, ...] = ()
    """Views of several windows, instead of ``view``."""
    without_stick: bool = False
    """True for an additional window, which does not have the stick."""
    full_screen: bool = False
    quiet: bool = False
    """True for a viewer without horn and stick shaker."""
    served: tuple[str, Path] | None = None
    """Address and key file for a window on another machine; ``None`` for a local window."""

    def each(self) -> list[Window]:
        """Return one window for each of ``views``, or this window if ``views`` is empty.

        Only the first window has the stick, the horn and the stick shaker. Each window saves its
        pictures in a folder with the name of its view.
        """
        if not self.views:
            return [self]
        order = list(main_first(self.views))
        return [
            replace(
                self, view=view, views=(), without_stick=k > 0, quiet=self.quiet or k > 0,
                frames=self.frames and (self.frames / view if len(order) > 1 else self.frames),
            )
            for k, view in enumerate(order)
        ]  # fmt: skip

    def arguments(self) -> list[str]:
        out = ["--rate", str(self.rate), "--size", self.size, "--every", str(self.every)]
        flags = (
            ("--headless", self.headless), ("--quiet", self.quiet),
            ("--without-stick", self.without_stick), ("--full-screen", self.full_screen),
        )  # fmt: skip
        out += [name for name, given in flags if given]
        if self.view:
            out.append(f"--view={self.view}")
        for name, path in (("--frames", self.frames), ("--mapping", self.mapping)):
            if path is not None:
                out += [name, str(path)]
        return out


class Child:
    """Context manager that starts and ends a process beside the simulation.

    At the end of the block, the input of the process is closed. A process that does not end within
    2 s is killed.
    """

    def __init__(self, what: str, module: str, *arguments: str) -> None:
        self.said = ""
        """Last output of the process, available after it ended."""
        self._what = what
        command: Sequence[str] = [sys.executable, "-m", module, *arguments]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            env={**os.environ, **ONE_THREAD}, start_new_session=sys.platform != "win32",
        )  # fmt: skip

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def running(self) -> bool:
        return self._process.poll() is None

    def __enter__(self) -> Self:
        """Wait until the process is ready; raise ``ViewerError`` on failure."""
        said = self._first_line()
        if said != READY:
            self._end()
            raise ViewerError(said or f"{self._what} ended before it was ready")
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def _first_line(self) -> str:
        out = self._process.stdout
        assert out is not None
        until = stopwatch() + round(_START_S * NS_PER_S)
        if sys.platform != "win32":
            while not select.select([out], [], [], 0.1)[0]:
                if stopwatch() > until:
                    return f"{self._what} was not ready within {_START_S:g} s"
        return out.readline().strip()

    def _end(self) -> None:
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.close()
        try:
            process.wait(_END_S)
        except subprocess.TimeoutExpired:  # the process hangs, or a signal has stopped it
            process.kill()
            process.wait()
        self.said = process.stdout.read(_MOST_WORDS).strip()
        process.stdout.close()


class ViewerProcess(Child):
    """The process of a window; ``shared`` is the path of the shared memory."""

    def __init__(self, shared: Path, window: Window) -> None:
        module = "rtsim.pilot.viewer.process"
        super().__init__("the viewer", module, str(shared), *window.arguments())


class ViewerProcesses:
    """Context manager for the processes of one or more windows.

    The windows open one after another, so that the first window controls the stick.
    """

    def __init__(self, shared: Path, windows: Sequence[Window]) -> None:
        self._shared, self._windows = shared, windows
        self._stack = ExitStack()
        self._main: ViewerProcess | None = None

    @property
    def running(self) -> bool:
        return self._main is not None and self._main.running

    def __enter__(self) -> Self:
        """Wait until all windows are open; raise ``ViewerError`` on failure."""
        with ExitStack() as stack:
            for window in self._windows:
                process = stack.enter_context(ViewerProcess(self._shared, window))
                self._main = self._main or process
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()


class RelayProcess(Child):
    """The process that connects the shared memory to viewers on other machines."""

    def __init__(self, shared: Path, endpoint: str, keys: Path) -> None:
        arguments = (str(shared), endpoint, "--keys", str(keys))
        super().__init__("the relay to other machines", "rtsim.pilot.remote", *arguments)

    @property
    def skipped(self) -> int:
        return int(self.said) if self.said.isdecimal() else 0


FLIGHTGEAR_VERSIONS = (24, 25)
"""Protocol versions.

FlightGear 2020.3.16 reads version 24 (tested). Newer releases may read 25 (not tested).
"""


class FlightGearProcess(Child):
    """The process that sends the state of a body to FlightGear.

    ``address`` is ``HOST:PORT``, and ``body`` describes the body as JSON.
    """

    def __init__(self, shared: Path, address: str, body: str, version: int) -> None:
        arguments = (str(shared), address, body, "--version", str(version))
        module = "rtsim.pilot.flightgear"
        super().__init__("the process that sends to FlightGear", module, *arguments)

    @property
    def figures(self) -> dict[str, int] | None:
        """Numbers of packets ``sent`` and ``lost``, or ``None`` after a failure."""
        try:
            figures = json.loads(self.said)
            return {name: int(figures[name]) for name in ("sent", "lost")}
        except (ValueError, KeyError, TypeError):
            return None
