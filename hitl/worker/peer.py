"""The worker at the other end of a link, on this machine or on another."""

from __future__ import annotations

from abc import ABC, abstractmethod

from hitl.interface import Interface
from hitl.worker.ending import WorkerEnding
from hitl.worker.link import LOOK_NS
from hitl.worker.links import Link
from hitl.worker.messages import Heard, MalformedMessage, Speaker, WorkerMessageKind, parse
from hitl.worker.shared import SharedLink, SharedSteps
from rtsim.core.clock import stopwatch
from rtsim.core.errors import ControllerError
from rtsim.core.signals import Vector
from rtsim.core.tag import Tag

NOWHEN = Tag(-1)
"""The tag of messages that belong to no step."""


class Peer(ABC):
    """A worker that is reached over a link by :mod:`hitl.worker.messages`.

    It notices if the worker ends or the link is lost.
    """

    def __init__(self, interface: Interface, link: Link) -> None:
        self.interface = interface
        self.link = link
        self.steps: SharedSteps | None = None
        """The fast path of the steps, if the link has one."""
        if isinstance(link, SharedLink):
            sizes = interface.inputs.size, interface.outputs.size
            self.steps = SharedSteps(link, interface.schema, *sizes)
        most = max(interface.inputs.size, interface.parameters.size)
        self._speaker = Speaker(most, interface.schema)
        self._most = max(interface.outputs.size, interface.parameters.size, 1)

    @property
    @abstractmethod
    def about(self) -> str:
        """The worker's name in error messages."""

    @property
    @abstractmethod
    def pid(self) -> int:
        """The worker's process id; 0 if the process is on another machine."""

    @abstractmethod
    def gone(self) -> bool:
        """Return True if the worker has ended or has closed the link."""

    def stopped(self) -> bool:
        """Return True if a signal has stopped the worker; False if that cannot be known."""
        return False

    @abstractmethod
    def why_gone(self) -> ControllerError:
        """Return the error that explains why the worker is gone."""

    @abstractmethod
    def stop(self) -> WorkerEnding:
        """Ask the worker to terminate, make sure that it ends, and return how it ended."""

    @abstractmethod
    def kill(self) -> None:
        """End the worker at once."""

    @abstractmethod
    def close(self) -> None:
        """Release the process and the link.  A second call does nothing."""

    def send(self, kind: WorkerMessageKind, sequence: int, tag: Tag, values: Vector) -> bool:
        """Send a message; return False if the other end is gone or its queue is full."""
        return self.link.send(self._speaker.message(kind, sequence, tag, values))

    def receive(self, until_ns: int) -> Heard | MalformedMessage | None:
        """Wait for the next message until ``until_ns`` of the stopwatch; ``None`` if none came.

        Raises :class:`ControllerError` if the worker is gone and sent no more messages.
        """
        while True:
            data = self.link.receive(until_ns)
            if data is None and self.gone():
                data = self.link.receive(stopwatch() + LOOK_NS)  # its last message
                if data is None:
                    raise self.why_gone()
            if data is not None:
                return self._read(data)
            if stopwatch() >= until_ns:
                return None

    def _read(self, data: bytes) -> Heard | MalformedMessage:
        """Parse a message; an answer may have as many values as there are outputs."""
        heard = parse(data, self._most)
        if isinstance(heard, Heard) and heard.kind is WorkerMessageKind.ANSWER:
            most = max(self.interface.outputs.size, 1)
            if len(heard.values) > most:
                return MalformedMessage(
                    f"it has {len(heard.values)} values, at most {most} are expected"
                )
        return heard

    def greeted(self, heard: Heard | MalformedMessage | None, patience: float) -> Heard:
        """Check that ``heard`` is the HELLO of a worker built from the same interface; return it.

        ``patience`` is the timeout, s, for the error message.  Raises :class:`ControllerError` if
        it is not.
        """
        if heard is None:
            raise ControllerError(f"{self.about} did not send HELLO within {patience:g} s")
        if isinstance(heard, MalformedMessage) or heard.kind is not WorkerMessageKind.HELLO:
            said = heard.why if isinstance(heard, MalformedMessage) else heard.kind.name
            raise ControllerError(f"{self.about} did not send HELLO first ({said})")
        if heard.schema != self.interface.schema:
            raise ControllerError(
                f"{self.about} was built from another interface (schema {heard.schema:016x}, "
                f"but {self.interface.path.name} has schema {self.interface.schema:016x}); "
                "build the worker again"
            )
        return heard
