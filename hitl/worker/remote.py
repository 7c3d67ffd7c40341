"""A worker on another machine or behind a tunnel, served there by ``rtsim sil serve``."""

from __future__ import annotations

import secrets
import weakref

import numpy as np

from hitl.interface import Interface
from hitl.worker.ending import WorkerEnding
from hitl.worker.link import WorkerLink
from hitl.worker.messages import FROM_ENVIRONMENT, Heard, MalformedMessage, WorkerMessageKind
from hitl.worker.peer import NOWHEN, Peer
from hitl.worker.process import END_S
from rtsim.core.clock import stopwatch
from rtsim.core.errors import ControllerError
from rtsim.core.net.keys import Keys
from rtsim.core.tag import NS_PER_S


class RemoteWorker(Peer):
    """A worker behind the server at ``endpoint``, which starts a process for each worker.

    ``patience`` is the timeout for the server's answer, s of the wall clock.  Raises
    :class:`ControllerError` if no server answers there, or if it refuses the connection.
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

    def receive(self, until_ns: int) -> Heard | MalformedMessage | None:
        while True:
            heard = super().receive(until_ns)
            if isinstance(heard, Heard) and heard.kind is WorkerMessageKind.FAULT:
                fault = ControllerError(f"{self.link.endpoint}: {heard.text}")
                fault.environment = heard.status == FROM_ENVIRONMENT
                raise fault
            if not isinstance(heard, Heard) or heard.kind is not WorkerMessageKind.PING:
                return heard

    def stop(self) -> WorkerEnding:
        """Ask the worker to terminate and wait for its BYE; raise its fault if it sends one."""
        self.send(WorkerMessageKind.STOP, 0, NOWHEN, np.empty(0))
        until = stopwatch() + int(2 * END_S * NS_PER_S)
        while True:
            heard = self.receive(until)
            if heard is None:
                return WorkerEnding(0, "", "", unresponsive=True)
            if isinstance(heard, Heard) and heard.kind is WorkerMessageKind.BYE:
                return WorkerEnding(0, "", "")

    def kill(self) -> None:
        """Close the link, which ends the worker."""
        self.close()

    def close(self) -> None:
        self._let_go()
