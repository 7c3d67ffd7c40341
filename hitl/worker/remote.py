"""A worker on another machine: client and server (``rtsim sil serve``)."""

from __future__ import annotations

import secrets
import weakref
from collections.abc import Callable

import numpy as np

from hitl.building.build import Build
from hitl.interface import Interface
from hitl.worker.ending import Died, WorkerEnding
from hitl.worker.link import WorkerLink
from hitl.worker.messages import (
    FROM_ENVIRONMENT,
    MalformedMessage,
    WorkerMessage,
    WorkerMessageKind,
    parse,
    text_message,
)
from hitl.worker.process import END_S, NOWHEN, Worker, WorkerProxy
from rtsim.core.clock import stopwatch
from rtsim.core.errors import ControllerError
from rtsim.core.net.keys import Keys
from rtsim.core.net.sockets import ListeningSocket
from rtsim.core.tag import NS_PER_S


class RemoteWorker(WorkerProxy):
    """A worker at the server ``endpoint``, which starts a process for each run.

    ``patience`` is the longest time (s) to wait for an answer. Raises :class:`ControllerError` if
    no server answers, or if the server rejects the connection.
    """

    def __init__(
        self, interface: Interface, endpoint: str, keys: Keys | None, patience: float
    ) -> None:
        self.link: WorkerLink
        super().__init__(interface, WorkerLink.to(endpoint, keys))
        self._let_go = weakref.finalize(self, self.link.close)
        try:
            self.send(WorkerMessageKind.HELLO, secrets.randbits(63), NOWHEN, np.empty(0))
            heard = self.receive(stopwatch() + int(patience * NS_PER_S))
            self.greeted(heard, patience) if heard is not None else self._nobody(patience)
        except BaseException:
            self.close()
            raise

    def _nobody(self, patience: float) -> None:
        self.link.lost()  # reads the events of the link
        if self.link.refused:
            raise ControllerError(
                f"{self.about} does not accept these keys; copy the .client file of the server and "
                "give it with --keys FILE"
            )
        if self.link.reached:
            raise ControllerError(
                f"{self.about} does not answer: either the program at this address is not "
                "rtsim sil serve, or it needs keys (--keys FILE)"
            )
        raise ControllerError(
            f"no answer from {self.link.endpoint} within {patience:g} s; start the server: "
            f"rtsim sil serve {self.interface.path.name} --bind {self.link.endpoint}"
        )

    @property
    def about(self) -> str:
        return f"the worker of {self.interface.name} at {self.link.endpoint}"

    @property
    def pid(self) -> int:
        return 0

    def gone(self) -> bool:
        return self.link.lost() and not self.link.refused

    def why_gone(self) -> ControllerError:
        lost = ControllerError(f"the connection to {self.about} is lost")
        lost.environment = True
        return lost

    def receive(self, until_ns: int) -> WorkerMessage | MalformedMessage | None:
        while True:
            heard = super().receive(until_ns)
            if isinstance(heard, WorkerMessage) and heard.kind is WorkerMessageKind.FAULT:
                fault = ControllerError(f"{self.link.endpoint}: {heard.text}")
                fault.environment = heard.status == FROM_ENVIRONMENT
                raise fault
            if not isinstance(heard, WorkerMessage) or heard.kind is not WorkerMessageKind.PING:
                return heard

    def stop(self) -> WorkerEnding:
        self.send(WorkerMessageKind.STOP, 0, NOWHEN, np.empty(0))
        until = stopwatch() + int(2 * END_S * NS_PER_S)
        while True:
            heard = self.receive(until)
            if heard is None:
                return WorkerEnding(0, "", "", unresponsive=True)
            if isinstance(heard, WorkerMessage) and heard.kind is WorkerMessageKind.BYE:
                return WorkerEnding(0, "", "")

    def kill(self) -> None:
        self.close()

    def close(self) -> None:
        self._let_go()


# The server starts a new worker for each run, behind one TCP socket.

_LOOK_MS = 50
_QUIET_NS = NS_PER_S
"""Time without messages after which the server checks that the client is still connected."""


class Server:
    """A server at ``endpoint`` that runs the controller ``build``."""

    def __init__(
        self,
        build: Build,
        endpoint: str,
        keys: Keys | None = None,
        say: Callable[[str], None] = lambda _: None,
    ) -> None:
        self.build = build
        self.runs = 0
        self._say = say
        self._listener = ListeningSocket(endpoint, keys)
        self._client = b""
        self._worker: Worker | None = None
        self._heard_ns = 0
        self._most = max(build.interface.inputs.size, build.interface.parameters.size)

    def serve(self, runs: int | None = None) -> None:
        """Serve clients until Ctrl-C, or until ``runs`` runs have ended."""
        while runs is None or self.runs < runs:
            self.look()

    def look(self) -> None:
        """Wait up to 50 ms for messages, and forward them."""
        link = None if self._worker is None else self._worker.link
        self._listener.wait(_LOOK_MS, *([link.socket] if isinstance(link, WorkerLink) else []))
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
            if isinstance(heard, WorkerMessage) and heard.kind is WorkerMessageKind.HELLO:
                self._start_worker_for_client(who, heard.schema)
            return
        self._heard_ns = stopwatch()
        if self._worker is None:
            return
        if isinstance(heard, WorkerMessage) and heard.kind is WorkerMessageKind.STOP:
            self._stop(self._worker)
        elif not self._worker.link.send(data) and not self._worker.gone():
            self._fault(ControllerError("the worker's queue of requests is full"))

    def _start_worker_for_client(self, who: bytes, schema: int) -> None:
        ours = self.build.interface.schema
        if schema != ours:
            # The client compares the schemas and reports the difference.
            self._listener.send(who, text_message(WorkerMessageKind.HELLO, ours))
            return
        if self._worker is not None and self._tell(text_message(WorkerMessageKind.PING)):
            self._listener.send(
                who, text_message(WorkerMessageKind.FAULT, ours, "busy with another client")
            )
            return
        self._client, self._heard_ns = who, stopwatch()
        try:
            self._worker = Worker(self.build.interface, [self.build.program])
        except ControllerError as error:
            self._fault(error)
            return
        self._say(f"run {self.runs + 1}: process {self._worker.pid}")
        self._tell(text_message(WorkerMessageKind.HELLO, self.build.interface.schema))

    def _from_worker(self, worker: Worker) -> None:
        while (data := worker.link.receive()) is not None:
            if not self._tell(data):
                return
        if worker.gone():
            while (data := worker.link.receive()) is not None:
                self._tell(data)
            self._fault(worker.why_gone())
        elif stopwatch() - self._heard_ns > _QUIET_NS:
            self._heard_ns = stopwatch()
            self._tell(text_message(WorkerMessageKind.PING))

    def _stop(self, worker: Worker) -> None:
        try:
            ending = worker.stop()
        except ControllerError as error:
            self._fault(error)
            return
        if not ending.ok:
            self._fault(Died(f"at its end, {worker.about}", ending))
            return
        self._tell(text_message(WorkerMessageKind.BYE))
        self._say(f"run {self.runs + 1}: ended")
        self._end()

    def _fault(self, error: ControllerError) -> None:
        status = FROM_ENVIRONMENT if error.environment else 0
        schema = self.build.interface.schema
        self._tell(text_message(WorkerMessageKind.FAULT, schema, str(error), status))
        self._say(f"run {self.runs + 1}: {error}")
        self._end()

    def _tell(self, data: bytes) -> bool:
        if self._listener.send(self._client, data):
            return True
        if self._worker is not None:
            run = self.runs + 1
            self._end()
            self._say(f"run {run}: the client is gone")
        return False

    def _end(self) -> None:
        worker, self._worker = self._worker, None
        self._client = b""
        if worker is not None:
            worker.close()
            self.runs += 1
