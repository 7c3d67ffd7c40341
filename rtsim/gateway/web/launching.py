"""Starts the process of a page beside a run or for a recording, and says how it ended."""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any, Self

from rtsim.core.clock import stopwatch
from rtsim.core.errors import RtsimError
from rtsim.core.tag import NS_PER_S
from rtsim.gateway.addresses import PageAddress, open_port
from rtsim.timing.background import ONE_THREAD

_START_S = 60.0
_END_S = 5.0
_MOST_LINE = 1 << 16


@dataclass(frozen=True)
class Order:
    """What a page shows: a run in progress, by ``run`` and ``keys``, or the file ``recording``.

    ``wait_s`` is how long the page waits for a run that has not begun, s.  ``control`` lets
    browsers give commands to the run.
    """

    run: str = ""
    keys: str = ""
    recording: str = ""
    control: bool = False
    wait_s: float = 0.0


class WebPage:
    """The process of a page; a context manager that starts and ends it.

    ``port`` is the port of the page, or ``None`` for the usual one.  Raises :class:`RtsimError` if
    the page cannot be served or shown.
    """

    def __init__(self, order: Order, port: int | None = None) -> None:
        self._order = order
        listener = open_port(port)
        self.address = PageAddress.of(listener)
        self._said: dict[str, Any] = {}
        self._lost = ""
        self._pipe, theirs = socket.socketpair()
        self._bytes = bytearray()
        passed = listener.fileno(), theirs.fileno()
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "rtsim.gateway.web.process", *map(str, passed)],
                pass_fds=passed, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                start_new_session=True, env={**os.environ, **ONE_THREAD},
            )  # fmt: skip
        finally:
            listener.close()
            theirs.close()

    @property
    def pid(self) -> int:
        return self._process.pid

    def __enter__(self) -> Self:
        """Wait until the page can be opened; raises :class:`RtsimError` if it cannot."""
        try:
            line = json.dumps({**asdict(self._order), "token": self.address.token}) + "\n"
            self._pipe.sendall(line.encode())
            until = stopwatch() + round(_START_S * NS_PER_S)
            while not self._said and stopwatch() < until and self._read(0.1):
                pass
            if "ready" not in self._said:
                raise RtsimError(
                    self._said.get("error", f"the page's process {self._how_it_ended()}")
                )
        except BaseException:
            self._end()
            raise
        return self

    def wait(self) -> str:
        """Wait until the page ends; return why."""
        while self._read(0.5):
            pass
        self._end()
        return self._lost or str(self._said.get("ended", ""))

    def __exit__(self, *_: object) -> None:
        self._end()

    def over(self, why: str) -> None:
        """Tell the page why the run ended."""
        with suppress(OSError):
            self._pipe.sendall(json.dumps({"over": why}).encode() + b"\n")

    def _read(self, seconds: float) -> bool:
        """Take the lines that arrive within ``seconds``; return False at the end of the pipe."""
        if not select.select([self._pipe], [], [], seconds)[0]:
            return True
        try:
            data = self._pipe.recv(_MOST_LINE)
        except OSError:
            data = b""
        self._bytes += data
        *lines, self._bytes = self._bytes.split(b"\n")
        for line in lines:
            self._said |= json.loads(line)
        return bool(data)

    def _end(self) -> None:
        if self._pipe.fileno() < 0:
            return
        with suppress(OSError):  # a process that was killed has closed its end
            self._pipe.shutdown(socket.SHUT_WR)
        until = stopwatch() + round(_END_S * NS_PER_S)
        while stopwatch() < until and self._read(0.1):
            pass
        self._pipe.close()
        try:
            self._process.wait(_END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if "ended" not in self._said:
            self._lost = self._how_it_ended()

    def _how_it_ended(self) -> str:
        code = self._process.poll()
        if code is None:
            return "did not answer"
        if code < 0:
            return f"was ended by {signal.Signals(-code).name}"
        return f"ended with status {code}"

    def figures(self) -> dict[str, Any]:
        """Return the numbers of browsers and of refused requests, and how the page was lost."""
        return {
            "browsers": int(self._said.get("browsers", 0)),
            "refused": int(self._said.get("refused", 0)),
            "lost": self._lost,
        }


def page_line(figures: dict[str, Any]) -> str:
    """Return the figures of a page as one line of a run's summary."""
    if figures["lost"]:
        return (
            f"web page: its process {figures['lost']}; the run continued without it, and rtsim "
            "web opens another page"
        )
    refused = f", {figures['refused']} requests refused" if figures["refused"] else ""
    return f"web page: {figures['browsers']} browsers{refused}"
