"""Who answers for the C: the other end of a link, wherever its process runs."""

from __future__ import annotations

from abc import ABC, abstractmethod

from hitl.interface import Interface
from hitl.worker.ending import WorkerEnding
from hitl.worker.link import LOOK_NS, WorkerLink
from hitl.worker.messages import Heard, MalformedMessage, Speaker, WorkerMessageKind, parse
from rtsim.core.clock import stopwatch
from rtsim.core.errors import ControllerError
from rtsim.core.signals import Vector
from rtsim.core.tag import Tag

NOWHEN = Tag(-1)
"""The tag of messages that are about no step."""


class Peer(ABC):
    """Speaks :mod:`hitl.worker.messages` over a link, and notices when nobody is there any more."""

    def __init__(self, interface: Interface, link: WorkerLink) -> None:
        self.interface = interface
        self.link = link
        most = max(interface.inputs.size, interface.parameters.size)
        self._speaker = Speaker(most, interface.schema)
        self._most = max(interface.outputs.size, interface.parameters.size, 1)

    @property
    @abstractmethod
    def about(self) -> str:
        """What to call it in an error."""

    @property
    @abstractmethod
    def pid(self) -> int:
        """The number of its process; 0 where that is not of this machine."""

    @abstractmethod
    def gone(self) -> bool:
        """Whether it has ended, or let go of the link."""

    @abstractmethod
    def why_gone(self) -> ControllerError:
        """How that came."""

    @abstractmethod
    def stop(self) -> WorkerEnding:
        """Ask it to terminate, and see to it that it does."""

    @abstractmethod
    def kill(self) -> None: ...

    @abstractmethod
    def close(self) -> None:
        """Leave nothing behind; may be called again."""

    def send(self, kind: WorkerMessageKind, sequence: int, tag: Tag, values: Vector) -> bool:
        """False where it cannot be sent: the other end is gone, or takes nothing."""
        return self.link.send(self._speaker.message(kind, sequence, tag, values))

    def receive(self, until_ns: int) -> Heard | MalformedMessage | None:
        """The next message; ``None`` at ``until_ns`` of the stopwatch.

        Raises :class:`ControllerError` where nobody is left who could say more.
        """
        while True:
            data = self.link.receive(until_ns)
            if data is None and self.gone():
                data = self.link.receive(stopwatch() + LOOK_NS)  # its last words
                if data is None:
                    raise self.why_gone()
            if data is not None:
                return self._read(data)
            if stopwatch() >= until_ns:
                return None

    def _read(self, data: bytes) -> Heard | MalformedMessage:
        """READY says as many values as there are parameters, an answer as many as outputs."""
        heard = parse(data, self._most)
        if isinstance(heard, Heard) and heard.kind is WorkerMessageKind.ANSWER:
            most = max(self.interface.outputs.size, 1)
            if len(heard.values) > most:
                return MalformedMessage(
                    f"it has {len(heard.values)} values, at most {most} are expected"
                )
        return heard

    def greeted(self, heard: Heard | MalformedMessage | None, patience: float) -> Heard:
        """``heard``, which must be the HELLO of one that was made of the same interface."""
        if heard is None:
            raise ControllerError(f"{self.about} did not say HELLO within {patience:g} s")
        if isinstance(heard, MalformedMessage) or heard.kind is not WorkerMessageKind.HELLO:
            said = heard.why if isinstance(heard, MalformedMessage) else heard.kind.name
            raise ControllerError(f"{self.about} did not say HELLO first ({said})")
        if heard.schema != self.interface.schema:
            raise ControllerError(
                f"{self.about} was built of another interface (schema {heard.schema:016x}, "
                f"{self.interface.path.name} has {self.interface.schema:016x}); build it again"
            )
        return heard
