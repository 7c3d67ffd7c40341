"""The process of a page.  Started as ``python -m rtsim.gateway.web.process LISTENER PIPE``.

``LISTENER`` and ``PIPE`` are descriptors of sockets.  The first line of the pipe is the
:class:`Order` as JSON; it has the token, which other users could read on the command line.  A
second line ``{"over": TEXT}`` says why the run ended.  The process writes ``{"ready": true}`` or
``{"error": TEXT}``, and at the end ``{"ended": TEXT, ...}``.
It ends when the run ends, or when the other end of the pipe is closed.
"""

from __future__ import annotations

import json
import signal
import socket
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from threading import Event, Thread
from typing import Any

from rtsim.core.clock import stopwatch
from rtsim.core.errors import RtsimError
from rtsim.core.tag import NS_PER_S
from rtsim.gateway.client import ControlError, connect
from rtsim.gateway.web.guard import Guard, guarded_server
from rtsim.gateway.web.live import PATIENCE_S, LiveRun
from rtsim.gateway.web.page import Page
from rtsim.gateway.web.recorded import RecordedRun
from rtsim.gateway.web.source import Source
from rtsim.record.reading import Recording
from rtsim.timing.background import OffTheLoop, step_back

_AGAIN_S = 0.1
_CHUNK = 1 << 12
_KILLED = "the process of the run ended without giving a reason; it may have been killed"
_LAST_S = 0.4
"""Time for the last messages to the browsers, s."""


def _source(order: Mapping[str, Any], ended: Event) -> Source | None:
    """Return the recording or the run; ``None`` if ``ended`` is set before the run begins.

    Raises :class:`RtsimError` if the recording cannot be read, or if no run is found in time.
    """
    if order["recording"]:
        return RecordedRun(Recording.open(Path(order["recording"])))
    until = stopwatch() + round(order["wait_s"] * NS_PER_S)
    while not ended.is_set():
        try:
            run = connect(order["run"], order["keys"] or None, patience=PATIENCE_S)
            off = OffTheLoop(run.pid)
            off.follow(int(run.about.get("thread", run.pid)))
            return LiveRun(run, off if run.is_local else None)
        except RtsimError:
            if stopwatch() >= until:
                raise
        ended.wait(_AGAIN_S)
    return None


class _Process:
    """Serves one page until the run or the pipe ends."""

    def __init__(
        self, listener: socket.socket, pipe: socket.socket, order: Mapping[str, Any]
    ) -> None:
        self._pipe, self._order, self._ended = pipe, order, Event()
        self._guard = Guard(str(order["token"]))
        self._browsers = 0
        self._over = ""
        self._server = guarded_server(listener, self._guard, "rtsim")
        self._server.on_client_connect(self._count)
        Thread(target=self._listen, daemon=True).start()

    def _count(self, _: object) -> None:
        self._browsers += 1

    def _listen(self) -> None:
        """Wait for the end of the pipe, or for the line that says why the run ended."""
        said = b""
        with suppress(OSError):
            while not said.endswith(b"\n") and (data := self._pipe.recv(_CHUNK)):
                said += data
        with suppress(ValueError):
            self._over = str(json.loads(said)["over"])
        self._ended.set()

    def tell(self, **what: Any) -> None:
        with suppress(OSError):
            self._pipe.sendall(json.dumps(what).encode() + b"\n")

    def serve(self) -> None:
        late = bool(self._order["wait_s"])
        if late:  # the run waits for this line
            self.tell(ready=True)
        source = _source(self._order, self._ended)
        why = ""
        if source is not None:
            page = Page(self._server, source, bool(self._order["control"]), self._guard)
            if not late:
                self.tell(ready=True)
            try:
                why = page.serve(self._ended) or self._over
                page.end(why or (_KILLED if late else "the page was closed"))
                Event().wait(_LAST_S)
            except ControlError as error:
                why = str(error)
            finally:
                source.close()
        self.tell(ended=why, browsers=self._browsers, refused=self._guard.refused)
        self._server.stop()


def _carried(work: Callable[[], None], tell: Callable[..., None]) -> int:
    try:
        work()
    except RtsimError as error:
        tell(error=str(error))
        return 2
    return 0


def main(arguments: list[str]) -> int:
    """Serve the page that the first line of the pipe orders."""
    listener, pipe = (socket.socket(fileno=int(one)) for one in arguments)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the other end of the pipe ends this process
    step_back()
    said = b""
    while not said.endswith(b"\n"):
        if not (data := pipe.recv(_CHUNK)):
            return 0
        said += data
    order = json.loads(said)
    process = _Process(listener, pipe, order)
    return _carried(process.serve, process.tell)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
