"""An emulated board in real time, at a serial port that any terminal program can open."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import tempfile
import threading
from contextlib import suppress
from dataclasses import dataclass, fields
from pathlib import Path
from types import TracebackType
from typing import Any, NoReturn

from hitl.boards.contract import BoardError, BoardGone
from hitl.boards.known import DEFAULT_URL
from hitl.boards.paced_line import Timing
from hitl.boards.urls import parse_url
from rtsim.core.clock import stopwatch

POSIX = os.name == "posix"
_PATIENCE_S = 30.0
_GRACE_S = 5.0
_MOST_SAID = 65_536
_MOST_TOLD = 2000


@dataclass(frozen=True)
class Status:
    """State of a served board: its timing, and the counters of the board and the port."""

    timing: Timing
    open: bool
    """True while a client has the port open."""
    baud: float
    """Rate of the line, set by the URL or by the firmware, bit/s."""
    unread: int
    """Number of the board's bytes that no client read."""
    lost: int
    """Number of bytes that the board's receiver dropped."""
    garbled: int
    """Number of the board's bytes that were sent and received at different baud rates."""
    restarts: int
    """Number of resets of the board by its own watchdog."""

    def to_json(self) -> dict[str, object]:
        more = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "timing"}
        return {**self.timing.to_json(), **more}


def check_posix() -> None:
    """Raise :class:`BoardError` on a system on which a board cannot be served (Windows)."""
    if not POSIX:
        raise BoardError(
            "a board in real time needs a pseudo-terminal, and Windows has none; "
            f"use {DEFAULT_URL} in lockstep, or a board at a real port: serial://COM3"
        )


class PacedBoard:
    """An emulated board that runs in real time, served at a pseudo-terminal by a process.

    It is a context manager.  The board and its port exist until it is closed or this process ends.
    ``url`` names an emulated board, ``firmware`` an Intel HEX file, and ``link`` a symbolic link
    that will point to the port.  ``patience`` is the timeout for an answer of the process, s.
    Opening ``port`` resets the board, as DTR does at a real board.  Raises :class:`BoardError` if
    the board cannot be served; on Windows it never can, because Windows has no pseudo-terminals.
    """

    def __init__(
        self, url: str, firmware: Path, *, link: Path | None = None, patience: float = _PATIENCE_S
    ) -> None:
        check_posix()
        if not parse_url(url).emulated:
            raise BoardError(
                f"{url} is a real port, but only an emulated board can be served; give "
                f"{DEFAULT_URL}"
            )
        self._patience = patience
        self._over: str | None = None
        self._asking = threading.Lock()
        self._said = b""
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the process
        options = {
            "url": url, "firmware": str(firmware), "parent": os.getpid(),
            "link": None if link is None else str(link),
        }  # fmt: skip
        # Ctrl-C at a terminal must reach this process only, which then ends the server.
        self._process = subprocess.Popen(
            [sys.executable, "-m", "hitl.boards.paced_server", json.dumps(options)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors,
            process_group=0,
        )  # fmt: skip
        try:
            greeting = self._answer()
            self.port = str(greeting["port"])
            self.emulator = str(greeting["emulator"])
            self.baud = float(greeting["baud"])
        except BaseException:
            self.close()
            raise

    @property
    def pid(self) -> int:
        """Id of the process that serves the board."""
        return self._process.pid

    def status(self) -> Status:
        """Return the board's state.  Raises :class:`BoardError` with the reason if it has ended."""
        with self._asking:
            self._tell(b"status\n")
            told = self._answer()
        names = {f.name for f in fields(Timing)}
        timing = Timing(**{name: told[name] for name in names})
        rest = {f.name: told[f.name] for f in fields(Status) if f.name != "timing"}
        return Status(timing, **rest)

    def reset(self) -> None:
        """Press the board's reset button.  The reset is done before :meth:`status` next returns."""
        with self._asking:
            self._tell(b"reset\n")

    def count_anew(self) -> None:
        """Forget the timing up to now."""
        with self._asking:
            self._tell(b"anew\n")

    def close(self) -> None:
        """End the process and remove the port and its link.  A second call does nothing."""
        if self._over is None:
            self._over = "the served board is closed"
        with suppress(OSError):
            if self._process.stdin is not None:
                self._process.stdin.close()
        try:
            self._process.wait(_GRACE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()
        self._errors.close()

    def __enter__(self) -> PacedBoard:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _tell(self, words: bytes) -> None:
        if self._over is not None:
            raise BoardError(self._over)
        assert self._process.stdin is not None
        with suppress(OSError):  # the process is gone; its output may give the reason
            self._process.stdin.write(words)
            self._process.stdin.flush()

    def _answer(self) -> dict[str, Any]:
        """Return the next line that the process writes, parsed as JSON."""
        assert self._process.stdout is not None
        source = self._process.stdout.fileno()
        end = stopwatch() + int(self._patience * 1e9)
        while b"\n" not in self._said:
            rest = (end - stopwatch()) / 1e9
            if rest <= 0 or len(self._said) > _MOST_SAID:
                self._process.kill()
                self._fail(f"did not answer within {self._patience:g} s and was killed", BoardGone)
            if select.select([source], [], [], rest)[0]:
                part = os.read(source, 4096)
                if not part:
                    self._fail(f"has ended{self._last_words()}")
                self._said += part
        line, _, self._said = self._said.partition(b"\n")
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            self._over = str(answer["error"])
            raise BoardError(self._over)
        return answer

    def _last_words(self) -> str:
        size = self._errors.seek(0, os.SEEK_END)
        self._errors.seek(max(0, size - _MOST_TOLD))
        words = self._errors.read().decode("utf-8", "replace").strip()
        return f"; it said:\n{words}" if words else ""

    def _fail(self, what: str, kind: type[BoardError] = BoardError) -> NoReturn:
        self._over = f"the process of the served board {what}"
        raise kind(self._over)
