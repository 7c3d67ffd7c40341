"""A worker for another machine: fresh for each run, behind one TCP socket.

The worker itself speaks to this process only.  So what ends it - with the sanitizer's text - is
told to who is connected, a second one is told that it is busy, and one that vanishes takes its
worker with it, also in the midst of an endless step.
"""

from __future__ import annotations

from collections.abc import Callable

from hitl.building.build import Build
from hitl.worker.ending import Died
from hitl.worker.messages import Heard, WorkerMessageKind, parse, spoken
from hitl.worker.process import Worker
from rtsim.core.clock import stopwatch
from rtsim.core.errors import ControllerError
from rtsim.core.net.keys import Keys
from rtsim.core.net.sockets import ListeningSocket
from rtsim.core.tag import NS_PER_S

_LOOK_MS = 50
_QUIET_NS = NS_PER_S
"""After so long without a word it is felt whether the client is still there."""


class Server:
    """Serves ``build`` at ``endpoint``; ``say`` is told what happens."""

    def __init__(
        self,
        build: Build,
        endpoint: str,
        keys: Keys | None = None,
        say: Callable[[str], None] = lambda _: None,
    ) -> None:
        self.build = build
        self.runs = 0
        """Ended ones."""
        self._say = say
        self._listener = ListeningSocket(endpoint, keys)
        self._client = b""
        self._worker: Worker | None = None
        self._heard_ns = 0
        self._most = max(build.interface.inputs.size, build.interface.parameters.size)

    def serve(self, runs: int | None = None) -> None:
        """Until Ctrl-C, or until so many runs have ended."""
        while runs is None or self.runs < runs:
            self.look()

    def look(self) -> None:
        """Wait a moment for what comes, and pass it on."""
        self._listener.wait(_LOOK_MS, *([] if self._worker is None else [self._worker.link.socket]))
        while (said := self._listener.receive()) is not None:
            self._from_client(*said)
        if self._worker is not None:
            self._from_worker(self._worker)

    def close(self) -> None:
        self._end()
        self._listener.close()

    def _from_client(self, who: bytes, data: bytes) -> None:
        heard = parse(data, self._most)
        if who != self._client:
            if isinstance(heard, Heard) and heard.kind is WorkerMessageKind.HELLO:
                self._meet(who, heard.schema)
            return
        self._heard_ns = stopwatch()
        if self._worker is None:
            return
        if isinstance(heard, Heard) and heard.kind is WorkerMessageKind.STOP:
            self._stop(self._worker)
        elif not self._worker.link.send(data) and not self._worker.gone():
            self._fault("the worker takes no request")

    def _meet(self, who: bytes, schema: int) -> None:
        """A fresh worker for a new client; or it is told that there is another one."""
        ours = self.build.interface.schema
        if schema != ours:
            self._listener.send(who, spoken(WorkerMessageKind.HELLO, ours))  # it says what is wrong
            return
        if self._worker is not None and self._tell(spoken(WorkerMessageKind.PING)):
            self._listener.send(
                who, spoken(WorkerMessageKind.FAULT, ours, "busy with another client")
            )
            return
        self._client, self._heard_ns = who, stopwatch()
        try:
            self._worker = Worker(self.build.interface, [self.build.program])
        except ControllerError as error:
            self._fault(str(error))
            return
        self._say(f"run {self.runs + 1}: process {self._worker.pid}")
        self._tell(spoken(WorkerMessageKind.HELLO, self.build.interface.schema))

    def _from_worker(self, worker: Worker) -> None:
        """Its answers; its end; or nothing for long, then whether anybody waits."""
        while (data := worker.link.receive()) is not None:
            if not self._tell(data):
                return
        if worker.gone():
            while (data := worker.link.receive()) is not None:
                self._tell(data)
            self._fault(str(worker.why_gone()))
        elif stopwatch() - self._heard_ns > _QUIET_NS:
            self._heard_ns = stopwatch()
            self._tell(spoken(WorkerMessageKind.PING))

    def _stop(self, worker: Worker) -> None:
        try:
            ending = worker.stop()
        except ControllerError as error:
            self._fault(str(error))
            return
        if not ending.ok:
            self._fault(str(Died(f"at its end, {worker.about}", ending)))
            return
        self._tell(spoken(WorkerMessageKind.BYE))
        self._say(f"run {self.runs + 1}: ended")
        self._end()

    def _fault(self, text: str) -> None:
        self._tell(spoken(WorkerMessageKind.FAULT, self.build.interface.schema, text))
        self._say(f"run {self.runs + 1}: {text}")
        self._end()

    def _tell(self, data: bytes) -> bool:
        """False where the client has vanished, and its run with it."""
        if self._listener.send(self._client, data):
            return True
        if self._worker is not None:
            run = self.runs + 1
            self._end()
            self._say(f"run {run}: the client is gone")  # and its worker by now
        return False

    def _end(self) -> None:
        worker, self._worker = self._worker, None
        self._client = b""
        if worker is not None:
            worker.close()
            self.runs += 1
