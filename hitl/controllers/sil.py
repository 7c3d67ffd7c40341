"""A controller that is C in a process of its own: the runtime's Controller over a worker."""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hitl.building.build import PLAIN, Build, build
from hitl.controllers.case import Case
from hitl.controllers.evidence import Evidence
from hitl.controllers.parameters import GivenParameters
from hitl.interface import Interface, load_interface
from hitl.worker.ending import Died
from hitl.worker.messages import Heard, MalformedMessage, WorkerMessageKind
from hitl.worker.peer import Peer
from hitl.worker.process import START_S, Worker
from hitl.worker.refusal import refusal
from hitl.worker.remote import RemoteWorker
from rtsim.components.request_log import feed
from rtsim.core.clock import stopwatch
from rtsim.core.errors import ControllerError
from rtsim.core.net.keys import Keys
from rtsim.core.signals import Signals, Vector
from rtsim.core.tag import NS_PER_S, Tag

CASES = Path("cases")
"""Where a step that went wrong is saved, below the current folder."""


_DURATIONS = "begun and ended are of another clock: only their difference means anything"
SERVED = "served"
"""The kind of build that another machine has made."""


class SilController:
    """The C of an interface file (or of a :class:`Build`); :meth:`fresh` starts a process.

    ``values`` are parameters by name.  ``silence`` is how long (wall s) it may say nothing in
    lockstep, ``patience`` how long it may take to start and to initialise.  ``cases`` is where a
    step that went wrong is saved (``None``: nowhere).  ``command`` replaces the built worker.
    With ``endpoint`` (``tcp://HOST:PORT``) nothing is built: ``rtsim sil serve`` runs the C there,
    and ``keys`` are those of the file that it wrote.
    """

    outside = True

    def __init__(
        self,
        source: Build | Interface | str | Path,
        values: Mapping[str, object] | None = None,
        *,
        kind: str = PLAIN,
        silence: float = 10.0,
        patience: float = START_S,
        cases: Path | None = CASES,
        command: Sequence[str | Path] | None = None,
        endpoint: str | None = None,
        keys: Keys | None = None,
    ) -> None:
        if isinstance(source, Build):
            self.build = source
        elif endpoint is not None:
            interface = source if isinstance(source, Interface) else load_interface(source)
            self.build = Build(interface, SERVED, Path(), "")
        else:
            self.build = build(source, kind)
        self.interface = self.build.interface
        self.inputs: Signals = self.interface.inputs
        self.outputs: Signals = self.interface.outputs
        self.parameters: Signals = self.interface.parameters
        self.values: dict[str, object] = dict(values or {})
        self.given = GivenParameters(self.interface, self.values)
        self.p = self.given.values
        self.silence = silence
        self.patience = patience
        self.name = self.interface.name
        self.endpoint = endpoint
        self.garbage = 0
        """Messages that were none."""
        self.took_ns = array("q")
        """Execution time of each step, on the host."""
        self._keys = keys
        self._stamps = (0, 0, 0, 0)
        self._cases = cases
        self._command = [self.build.program] if command is None else list(command)
        self._worker: Peer | None = None
        self._sequence = self._answered = 0
        self._sent_ns = 0
        self._unsent = False
        self._evidence = Evidence(self.interface, self.p, self.build.kind, cases)
        self.environment = False
        """What failed was around the C, such as a host without memory."""

    def fresh(self) -> SilController:
        """One like it, with a new process, initialised with the parameters."""
        out = SilController(
            self.build, self.values, silence=self.silence, patience=self.patience,
            cases=self._cases, command=self._command, endpoint=self.endpoint, keys=self._keys,
        )  # fmt: skip
        out._worker = self._started()
        try:
            out._initialize(out._worker)
        except BaseException:
            out._worker.close()
            raise
        return out

    @property
    def warnings(self) -> str:
        """What the compiler said of its C."""
        return self.build.warnings

    def _started(self) -> Peer:
        """A process, here or there.  One that never came to run the C says nothing of the C."""
        try:
            if self.endpoint is not None:
                return RemoteWorker(self.interface, self.endpoint, self._keys, self.patience)
            return Worker(self.interface, self._command, self.patience)
        except ControllerError as error:
            error.environment = True
            raise

    @property
    def own(self) -> Vector | None:
        """(k,): the parameters that the C had by itself; ``None`` where they are not known."""
        return self.given.own

    def restart(self) -> bool:
        """Initialise it again, on the memory that its steps have used; False where it has no such
        entry point.  A step that goes wrong afterwards is no case: its start is another one.
        """
        if not self.interface.initialize:
            return False
        self._evidence = Evidence(self.interface, self.p, self.build.kind, None)
        self._initialize(self._running())
        return True

    def describe(self) -> dict[str, object]:
        """For a recording's header."""
        served = {} if self.endpoint is None else {"endpoint": self.endpoint, "stamps": _DURATIONS}
        return {"type": type(self).__name__, **self.build.describe(), **served}

    @property
    def pid(self) -> int:
        return self._worker.pid if self._worker else 0

    def _initialize(self, worker: Peer) -> None:
        worker.send(WorkerMessageKind.START, 0, Tag(0), self.given.sent)
        try:
            heard = worker.receive(stopwatch() + int(self.patience * NS_PER_S))
        except ControllerError as error:
            error.args = (f"{self.name} failed in its initialize: {error}",)
            raise
        if heard is None:
            raise ControllerError(
                f"{self.name} did not initialise within {self.patience:g} s: an endless loop?"
            )
        if not isinstance(heard, Heard) or heard.kind is not WorkerMessageKind.READY:
            said = heard.why if isinstance(heard, MalformedMessage) else heard.kind.name
            raise ControllerError(f"{worker.about} did not initialise ({said})")
        if heard.status:
            text = refusal(self.name, heard.status, self.parameters, self.p, self.outputs)
            raise ControllerError(text)
        self.given.learn(heard.values)

    def _running(self) -> Peer:
        if self._worker is None:
            raise ControllerError(f"{self.name} has no process: take fresh(), or build a system")
        return self._worker

    def stamps(self) -> tuple[int, int, int, int]:
        """Of the latest answer, ns of the monotonic clock: sent, begun, ended, received.

        Over TCP begun and ended are those of the other machine's clock.
        """
        return self._stamps

    def send(self, tag: Tag, inputs: Vector) -> None:
        """Ask for a step; what cannot be sent is told when the answer is asked for."""
        worker = self._running()
        self._sequence += 1
        self._evidence.add(tag, inputs)
        self._sent_ns = stopwatch()
        self._unsent = not worker.send(WorkerMessageKind.STEP, self._sequence, tag, inputs)

    def receive(self, tag: Tag, patience: float) -> Vector | None:
        worker = self._running()
        until = stopwatch() + int(patience * NS_PER_S)
        while True:
            try:
                if self._unsent:
                    raise self._not_taken(worker)
                heard = worker.receive(until)
            except ControllerError as error:
                raise self.explained(tag, error) from None
            if isinstance(heard, Heard):
                return self._answer(tag, heard)
            if isinstance(heard, MalformedMessage):
                self.garbage += 1
            if heard is None or stopwatch() >= until:
                self._evidence.history.heard(None)
                return None

    def _not_taken(self, worker: Peer) -> ControllerError:
        if worker.gone():
            return worker.why_gone()
        return ControllerError(f"{worker.about} takes no request")

    def _answer(self, tag: Tag, heard: Heard) -> Vector:
        received = stopwatch()
        expected = self.outputs.size
        if heard.kind is not WorkerMessageKind.ANSWER:
            raise self.explained(tag, ControllerError(f"{self.name} said {heard.kind.name}"))
        if heard.sequence != self._sequence or heard.tag != tag or self._answered == self._sequence:
            again = " again" if heard.sequence <= self._answered else ""
            text = f"{self.name} answered step {heard.sequence} ({heard.tag}){again}"
            raise self.explained(tag, ControllerError(f"{text}, expected {self._sequence} ({tag})"))
        if heard.status:
            text = self._refused(heard.status, self.inputs, self._evidence.latest)
            raise self.explained(tag, ControllerError(text))
        if len(heard.values) != expected:
            text = f"{self.name} answered {len(heard.values)} values, expected {expected}"
            raise self.explained(tag, ControllerError(text))
        self._answered = self._sequence
        self._evidence.history.heard(heard.values)
        self.took_ns.append(heard.took_ns)
        ended = heard.began_ns + heard.took_ns
        self._stamps = (self._sent_ns, heard.began_ns, ended, received)
        return heard.values

    def _refused(self, status: int, given: Signals, values: Vector) -> str:
        return refusal(self.name, status, given, values, self.outputs)

    def silent(self, tag: Tag) -> ControllerError:
        """What to say when nothing came in lockstep: an endless loop, or a lost message."""
        heard = f" (and {self.garbage} messages that were none)" if self.garbage else ""
        text = f"{self.name} did not answer within {self.silence:g} s{heard}: an endless loop?"
        self._running().kill()
        return self.explained(tag, ControllerError(text))

    def explained(self, tag: Tag, error: ControllerError) -> ControllerError:
        """``error`` with the inputs at that step, and the case that reproduces it."""
        self.environment = self.environment or error.environment
        return self._evidence.explained(tag, error)

    def case(self, error: str = "") -> Case:
        """All steps so far."""
        return self._evidence.case(error)

    def save(self) -> dict[str, Any]:
        """Every step since the start: the memory of the C is not known, what led to it is."""
        return self._evidence.history.save()

    def restore(self, saved: dict[str, Any]) -> None:
        """Feed a process that has just been started every step again, in lockstep."""
        feed(saved, self._evidence.history, self.name, self.send, self._again)
        del self.took_ns[:]

    def _again(self, tag: Tag) -> Vector:
        answer = self.receive(tag, self.silence)
        if answer is None:
            raise self.silent(tag)
        return answer

    def close(self) -> None:
        """End the process; raises :class:`ControllerError` where it did not end well."""
        worker, self._worker = self._worker, None
        if worker is None:
            return
        about, ending = worker.about, None
        try:
            if not self._evidence.failed:
                ending = worker.stop()
        finally:
            worker.close()
        if ending is not None and not ending.ok:
            raise Died(f"at its end, {about}", ending)
