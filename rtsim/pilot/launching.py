"""Starts and ends the processes beside a simulation: viewer, relay, and FlightGear's."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from rtsim.core.clock import stopwatch
from rtsim.core.errors import RtsimError
from rtsim.core.tag import NS_PER_S
from rtsim.pilot.child import READY

_START_S = 30.0
_END_S = 2.0
_ENVIRONMENT = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
_MOST_WORDS = 4096


class ViewerError(RtsimError):
    """The viewer could not open; the message is the viewer's own."""


@dataclass(frozen=True)
class Window:
    """The options of the viewer's window."""

    headless: bool = False
    frames: Path | None = None
    every: float = 1.0
    mapping: Path | None = None
    rate: float = 60.0
    size: str = "1280x720"
    quiet: bool = False
    """True for a viewer without horn and stick shaker."""
    served: tuple[str, Path] | None = None
    """Address and key file if the window is on another machine; ``None`` for a local window."""

    def arguments(self) -> list[str]:
        out = ["--rate", str(self.rate), "--size", self.size, "--every", str(self.every)]
        for name, given in (("--headless", self.headless), ("--quiet", self.quiet)):
            if given:
                out.append(name)
        for name, path in (("--frames", self.frames), ("--mapping", self.mapping)):
            if path is not None:
                out += [name, str(path)]
        return out


class Child:
    """A process beside the simulation; a context manager that ends it.

    At the end of the block, its input is closed. A process that does not end then is killed.
    """

    def __init__(self, what: str, module: str, *arguments: str) -> None:
        self.said = ""
        """The last output of the process, known after it ended."""
        self._what = what
        command: Sequence[str] = [sys.executable, "-m", module, *arguments]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            env={**os.environ, **_ENVIRONMENT}, start_new_session=sys.platform != "win32",
        )  # fmt: skip

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def running(self) -> bool:
        return self._process.poll() is None

    def __enter__(self) -> Self:
        """Wait until the process is ready; raises :class:`ViewerError` if it ends or hangs."""
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
        except subprocess.TimeoutExpired:  # the process hangs, or a signal stopped it
            process.kill()
            process.wait()
        self.said = process.stdout.read(_MOST_WORDS).strip()
        process.stdout.close()


class ViewerProcess(Child):
    """The process of a window on this machine, for the shared memory ``shared``."""

    def __init__(self, shared: Path, window: Window) -> None:
        module = "rtsim.pilot.viewer.process"
        super().__init__("the viewer", module, str(shared), *window.arguments())


class RelayProcess(Child):
    """The process that serves shared memory to other machines; see :mod:`rtsim.pilot.relay`."""

    def __init__(self, shared: Path, endpoint: str, keys: Path) -> None:
        arguments = (str(shared), endpoint, "--keys", str(keys))
        super().__init__("the relay to other machines", "rtsim.pilot.relay", *arguments)

    @property
    def skipped(self) -> int:
        """The number of malformed messages that were dropped; known after a normal end."""
        return int(self.said) if self.said.isdecimal() else 0


class FlightGearProcess(Child):
    """The process that sends shared memory to FlightGear; see :mod:`rtsim.pilot.flightgear`.

    ``address`` is ``HOST:PORT``; ``body`` is the body to show, as JSON.
    """

    def __init__(self, shared: Path, address: str, body: str, version: int) -> None:
        arguments = (str(shared), address, body, "--version", str(version))
        module = "rtsim.pilot.flightgear.process"
        super().__init__("the process that sends to FlightGear", module, *arguments)

    @property
    def figures(self) -> dict[str, int] | None:
        """The numbers of packets, known after a normal end; ``None`` after another end."""
        try:
            told = json.loads(self.said)
            return {name: int(told[name]) for name in ("sent", "lost")}
        except (ValueError, KeyError, TypeError):
            return None
