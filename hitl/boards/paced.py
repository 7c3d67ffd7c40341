"""An emulated board in real time, behind a port that pyserial or any terminal program opens."""

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

from hitl.boards.contract import BoardError
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
    """How it goes: the timing, and what the board and the port counted."""

    timing: Timing
    open: bool
    """A client has the port open."""
    baud: float
    """What the firmware has set, or the URL says, bit/s."""
    unread: int
    """Bytes of the board's that nobody took."""
    lost: int
    """Bytes that the board's receiver dropped."""
    garbled: int
    restarts: int
    """Resets by the board's own watchdog."""

    def to_json(self) -> dict[str, object]:
        more = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "timing"}
        return {**self.timing.to_json(), **more}


def check_posix() -> None:
    """:class:`BoardError` where a board cannot be served."""
    if not POSIX:
        raise BoardError(
            "a board in real time needs a pseudo-terminal, which Windows has not; "
            "fly it in lockstep, or type a real port: serial://COM3"
        )


class PacedBoard:
    """A context manager; the board and its port live as long as it does, and this process.

    ``url``: an emulated board; ``firmware``: an Intel HEX file; ``link``: a name for the port in
    the file system.  Opening ``port`` resets the board, as DTR does at a real one.  Raises
    :class:`BoardError`, on Windows always: it has no pseudo-terminals.
    """

    def __init__(
        self, url: str, firmware: Path, *, link: Path | None = None, patience: float = _PATIENCE_S
    ) -> None:
        check_posix()
        if not parse_url(url).emulated:
            raise BoardError(f"{url} has a port already; what is served is emulated: board:uno")
        self._patience = patience
        self._over: str | None = None
        self._asking = threading.Lock()
        self._said = b""
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the process
        options = {
            "url": url, "firmware": str(firmware), "parent": os.getpid(),
            "link": None if link is None else str(link),
        }  # fmt: skip
        # Ctrl-C at a terminal is for this process alone, which then ends the other one.
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
        """Of the process that serves."""
        return self._process.pid

    def status(self) -> Status:
        """How it goes.  Raises :class:`BoardError` where it has ended, with the reason."""
        with self._asking:
            self._tell(b"status\n")
            told = self._answer()
        names = {f.name for f in fields(Timing)}
        timing = Timing(**{name: told[name] for name in names})
        rest = {f.name: told[f.name] for f in fields(Status) if f.name != "timing"}
        return Status(timing, **rest)

    def reset(self) -> None:
        """Press the board's reset button, some time before what :meth:`status` says next."""
        with self._asking:
            self._tell(b"reset\n")

    def close(self) -> None:
        """No process, no port and no link is left; again is harmless."""
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
        with suppress(OSError):  # it is gone, and may have said why
            self._process.stdin.write(words)
            self._process.stdin.flush()

    def _answer(self) -> dict[str, Any]:
        """The next line that it says."""
        assert self._process.stdout is not None
        source = self._process.stdout.fileno()
        end = stopwatch() + int(self._patience * 1e9)
        while b"\n" not in self._said:
            rest = (end - stopwatch()) / 1e9
            if rest <= 0 or len(self._said) > _MOST_SAID:
                self._process.kill()
                self._fail(f"did not answer within {self._patience:g} s, and was ended")
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

    def _fail(self, what: str) -> NoReturn:
        self._over = f"the process of the served board {what}"
        raise BoardError(self._over)
