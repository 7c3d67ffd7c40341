"""Starting and ending the viewer's process beside the simulation."""

from __future__ import annotations

import os
import select
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from rtsim.clock import stopwatch
from rtsim.errors import RtsimError
from rtsim.tag import NS_PER_S

_START_S = 30.0
_END_S = 2.0
_ENVIRONMENT = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
_READY = "ready"


class ViewerError(RtsimError):
    """No viewer could be opened; its own words."""


@dataclass(frozen=True)
class Window:
    """How the viewer shows itself."""

    headless: bool = False
    frames: Path | None = None
    every: float = 1.0
    mapping: Path | None = None
    rate: float = 60.0
    size: str = "1280x720"
    quiet: bool = False
    """No horn, and no stick that shakes."""

    def arguments(self) -> list[str]:
        out = ["--rate", str(self.rate), "--size", self.size, "--every", str(self.every)]
        for name, given in (("--headless", self.headless), ("--quiet", self.quiet)):
            if given:
                out.append(name)
        for name, path in (("--frames", self.frames), ("--mapping", self.mapping)):
            if path is not None:
                out += [name, str(path)]
        return out


class ViewerProcess:
    """A context: the viewer is there, and it is gone afterwards, whatever it does meanwhile."""

    def __init__(self, shared: Path, window: Window) -> None:
        command: Sequence[str] = [
            sys.executable, "-m", "rtsim.pilot.viewer.process", str(shared), *window.arguments()
        ]  # fmt: skip
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
        """Raises :class:`ViewerError` where it does not open."""
        said = self._first_line()
        if said != _READY:
            self._end()
            raise ViewerError(said or "the viewer ended before its window was open")
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
                    return f"the viewer did not open within {_START_S:g} s"
        return out.readline().strip()

    def _end(self) -> None:
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.close()
        try:
            process.wait(_END_S)
        except subprocess.TimeoutExpired:  # it hangs, or was stopped
            process.kill()
            process.wait()
        process.stdout.close()
