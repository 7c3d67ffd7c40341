"""Commands in processes of their own, and every process that they leave (Linux)."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

_MARK = "RTSIM_STUDY_FAULTS"
_POLL_S = 0.1
_LEFT_S = 30.0
"""Time in which processes may end after the command that started them."""


@dataclass
class Group:
    """Commands that share a mark in their environment, which all their children inherit."""

    folder: Path
    env: Mapping[str, str] = field(default_factory=dict)
    mark: str = field(default_factory=lambda: uuid.uuid4().hex)
    _begun: list[subprocess.Popen[str]] = field(default_factory=list)

    def begin(
        self, *words: str | Path, cwd: Path | None = None, output: int = subprocess.PIPE
    ) -> subprocess.Popen[str]:
        """Start a command; its output goes to a pipe, or to the file ``output``."""
        env = {**os.environ, **self.env, _MARK: self.mark}
        process = subprocess.Popen(
            [str(word) for word in words], cwd=cwd or self.folder, env=env, text=True,
            stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
        )  # fmt: skip
        self._begun.append(process)
        return process

    def run(self, *words: str | Path, cwd: Path | None = None) -> tuple[int, str]:
        """Run a command; return its exit status and its output."""
        process = self.begin(*words, cwd=cwd)
        text, _ = process.communicate()
        return process.returncode, text

    def pids(self) -> dict[int, str]:
        """Return the command lines of all present processes of the group, without zombies."""
        found = {}
        for entry in Path("/proc").iterdir():
            if not entry.name.isdigit():
                continue
            with suppress(OSError):
                if f"{_MARK}={self.mark}".encode() in (entry / "environ").read_bytes():
                    words = (entry / "cmdline").read_bytes().split(b"\0")
                    if text := b" ".join(words).decode(errors="replace").strip():
                        found[int(entry.name)] = text
        return found

    def workers(self) -> list[int]:
        """Return the processes that run batches: those that a nanny of Dask has spawned."""
        return sorted(pid for pid, text in self.pids().items() if "spawn_main" in text)

    def left(self) -> str:
        """Return ``"none"`` once no process is left, or after some time those that are."""
        wait_for(lambda: not self.pids(), _LEFT_S)
        return "; ".join(f"{pid}: {text}" for pid, text in self.pids().items()) or "none"

    def end(self) -> None:
        """Kill what is left, and wait for the commands that were begun."""
        for pid in self.pids():
            kill(pid)
        for process in self._begun:
            process.wait()
            if process.stdout is not None:
                process.stdout.close()


def kill(pid: int) -> bool:
    """Send SIGKILL; return whether the process was there."""
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
        return True
    return False


def wait_for(ready: Callable[[], bool], seconds: float) -> bool:
    """Wait until ``ready()``; return whether it was within ``seconds``."""
    end = time.monotonic() + seconds
    while not ready():
        if time.monotonic() > end:
            return False
        time.sleep(_POLL_S)
    return True


def program(name: str) -> Path:
    """Return a command of the environment of this Python, such as ``rtsim`` or ``dask``."""
    return Path(sys.executable).with_name(name)
