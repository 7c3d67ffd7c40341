"""A controller in C in a separate process."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Self

from hitl.building.build import PLAIN, Build, build
from hitl.controllers.c_controller import GivenParameters
from hitl.controllers.failure_log import FailureLog, LoggedController
from hitl.interface import Interface, load_interface
from hitl.worker.ending import Died, Stopped, refusal
from hitl.worker.link import SHM, ExchangeWarmUp, SharedLink, SharedSteps, chosen_link
from hitl.worker.messages import MalformedMessage, WorkerMessage, WorkerMessageKind
from hitl.worker.process import START_S, Worker, WorkerProxy
from hitl.worker.remote import RemoteWorker
from rtsim.core.clock import stopwatch
from rtsim.core.errors import ControllerError
from rtsim.core.net.keys import Keys
from rtsim.core.signals import Signals, Vector
from rtsim.core.tag import NS_PER_S, Tag

CASES = Path("cases")
"""Default folder for failed steps, relative to the current folder."""


_DURATIONS = "begun and ended are of another clock: only their difference means anything"
SERVED = "served"
"""Kind of a build that was made on another machine."""


class SilController(LoggedController):
    """The C code of an interface file or a ``Build``, in a separate process.

    :meth:`fresh` starts the process.

    Args:
        source: The build, the interface, or the path of the interface file.
        values: Parameters by name.
        kind: Kind of build.
        silence: Longest time without an answer in lockstep, s of the wall clock.
        patience: Longest time for starting and initialising, s.
        cases: Folder in which a failed step is saved; ``None`` to save none.
        command: Command line of the worker, instead of the built worker.
        endpoint: ``tcp://HOST:PORT`` of ``rtsim sil serve``, which runs the C code without a build.
        keys: Keys from the client file that ``rtsim sil serve`` wrote.
        link: ``"shm"`` (shared memory, default for a built worker on Linux) or ``"zmq"``.
    """

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
        link: str | None = None,
    ) -> None:
        if isinstance(source, Build):
            self.build = source
        elif endpoint is not None:
            interface = source if isinstance(source, Interface) else load_interface(source)
            self.build = Build(interface, SERVED, Path(), "")
        else:
            self.build = build(source, kind)
        super().__init__(self.build.interface, values, silence)
        self.patience = patience
        self.endpoint = endpoint
        self.link = chosen_link(
            link, self.build.link, ours=command is None, served=endpoint is not None
        )
        self._keys = keys
        self._cases = cases
        self._command = [self.build.program] if command is None else list(command)
        self._prepare()

    def _prepare(self) -> None:
        super()._prepare()
        self.given = GivenParameters(self.interface, self.values)
        self.p = self.given.values
        self.garbage = 0
        """Number of malformed messages."""
        self._stamps = (0, 0, 0, 0)
        self._worker: WorkerProxy | None = None
        self._sequence = self._answered = 0
        self._sent_ns = 0
        self._steps: SharedSteps | None = None
        """The fast path of the latest step, or ``None`` if the step uses messages."""
        self._unsent = False
        self._warm_up: ExchangeWarmUp | None = None
        self._failures = FailureLog(self.interface, self.p, self.build.kind, self._cases)
        self.environment = False
        """True if the environment caused the failure, for example a host without free memory."""

    def fresh(self) -> Self:
        """Return a new, initialised controller in a new process.

        Raises ``ControllerError`` if the process cannot be started or initialised.
        """
        out = self._copy()
        out._worker = self._started()
        try:
            out._initialize(out._worker)
        except BaseException:
            out._worker.close()
            raise
        return out

    @property
    def warnings(self) -> str:
        return self.build.warnings

    def _started(self) -> WorkerProxy:
        try:
            if self.endpoint is not None:
                return RemoteWorker(self.interface, self.endpoint, self._keys, self.patience)
            shared = self.build.link if self.link == SHM else None
            return Worker(self.interface, self._command, self.patience, shared)
        except ControllerError as error:
            error.environment = True
            raise

    @property
    def own(self) -> Vector | None:
        """Parameter values (k,) of the C code, or ``None``."""
        return self.given.own

    def restart(self) -> bool:
        """Initialise the C code again in the same process.

        Returns False if the C code cannot be initialised again. A step that fails afterwards is not
        saved as a case.
        """
        if not self.interface.restarts:
            return False
        self._failures = FailureLog(self.interface, self.p, self.build.kind, None)
        self._initialize(self._running())
        return True

    def describe(self) -> dict[str, object]:
        served = {} if self.endpoint is None else {"endpoint": self.endpoint, "stamps": _DURATIONS}
        about = {"type": type(self).__name__, **self.build.describe(), **served}
        return about | {"link": self.link}

    @property
    def pid(self) -> int:
        """Process id of the worker, or 0."""
        return self._worker.pid if self._worker else 0

    def _initialize(self, worker: WorkerProxy) -> None:
        worker.send(WorkerMessageKind.START, 0, Tag(0), self.given.sent)
        try:
            heard = worker.receive(stopwatch() + int(self.patience * NS_PER_S))
        except ControllerError as error:
            error.args = (f"{self.name} failed in its initialize: {error}",)
            raise
        if heard is None:
            raise ControllerError(
                f"{self.name} did not initialise within {self.patience:g} s; look for an endless "
                "loop in its initialize"
            )
        if not isinstance(heard, WorkerMessage) or heard.kind is not WorkerMessageKind.READY:
            said = heard.why if isinstance(heard, MalformedMessage) else heard.kind.name
            raise ControllerError(f"{worker.about} did not initialise ({said})")
        if heard.status:
            text = refusal(self.name, heard.status, self.parameters, self.p, self.outputs)
            raise ControllerError(text)
        self.given.learn(heard.values)

    def _running(self) -> WorkerProxy:
        if self._worker is None:
            raise ControllerError(
                f"{self.name} has no process; use the controller that fresh() returns"
            )
        return self._worker

    def warm_up(self) -> Callable[[], object] | None:
        """Return a function that warms up the code for an exchange, or ``None``.

        Raises ``ControllerError`` if there is not enough memory.
        """
        link = self._running().link
        if self._warm_up is None and isinstance(link, SharedLink):
            self._warm_up = ExchangeWarmUp(link, self.build.link, self.interface)
        return self._warm_up

    def stamps(self) -> tuple[int, int, int, int]:
        """Return the times (ns) of the latest answer, on the monotonic clock.

        The times are those of four events: request sent, step begun, step ended, answer received.
        For a process on another machine, ``begun`` and ``ended`` are times of that machine's clock.
        """
        return self._stamps if self._steps is None else self._steps.stamps()

    def send(self, tag: Tag, inputs: Vector) -> None:
        """Request a step.

        If the request cannot be sent, ``receive`` raises the error.
        """
        worker = self._running()
        self._sequence += 1
        self._unsent, self._steps = False, worker.steps
        try:
            if self._steps is None or not self._steps.request(self._sequence, tag, inputs):
                self._steps = None  # the message path reports the error
                self._sent_ns = stopwatch()
                self._unsent = not worker.send(WorkerMessageKind.STEP, self._sequence, tag, inputs)
        finally:
            self._failures.add(tag, inputs)  # while the worker computes

    def receive(self, tag: Tag, patience: float) -> Vector | None:
        """Return the outputs (n,) for the request of ``tag``, or ``None`` if they are late.

        ``patience`` is the time to wait (s). Raises :class:`ControllerError` if the step fails.
        """
        worker, began = self._running(), stopwatch()
        if self._steps is not None and self._answered != self._sequence:
            took = self._steps.answer(patience)
            if took >= 0:
                return self._fast(self._steps, took)
            self._sent_ns, self._steps = self._steps.stamps()[0], None
        until = began + int(patience * NS_PER_S)
        while True:
            try:
                if self._unsent:
                    raise self._not_taken(worker)
                heard = worker.receive(until)
            except ControllerError as error:
                raise self.explained(tag, error) from None
            if isinstance(heard, WorkerMessage):
                return self._answer(tag, heard)
            if isinstance(heard, MalformedMessage):
                self.garbage += 1
            if heard is None or stopwatch() >= until:
                self._failures.history.heard(None)
                return None

    def _not_taken(self, worker: WorkerProxy) -> ControllerError:
        if worker.gone():
            return worker.why_gone()
        return ControllerError(f"{worker.about} does not accept requests")

    def _answer(self, tag: Tag, heard: WorkerMessage) -> Vector:
        received = stopwatch()
        expected = self.outputs.size
        if heard.kind is not WorkerMessageKind.ANSWER:
            raise self.explained(
                tag,
                ControllerError(
                    f"{self.name} sent the message {heard.kind.name}; expected an answer"
                ),
            )
        if heard.sequence != self._sequence or heard.tag != tag or self._answered == self._sequence:
            again = " again" if heard.sequence <= self._answered else ""
            text = f"{self.name} answered step {heard.sequence} ({heard.tag}){again}"
            text = f"{text}; expected step {self._sequence} ({tag})"
            raise self.explained(tag, ControllerError(text))
        if heard.status:
            text = self._refused(heard.status, self.inputs, self._failures.latest)
            raise self.explained(tag, ControllerError(text))
        if len(heard.values) != expected:
            text = f"{self.name} answered {len(heard.values)} values; expected {expected}"
            raise self.explained(tag, ControllerError(text))
        self._answered = self._sequence
        self._failures.history.heard(heard.values)
        self.took_ns.append(heard.took_ns)
        ended = heard.began_ns + heard.took_ns
        self._stamps = (self._sent_ns, heard.began_ns, ended, received)
        return heard.values

    def _fast(self, steps: SharedSteps, took_ns: int) -> Vector:
        self._answered = self._sequence
        values = steps.values
        self._failures.history.heard(values)
        self.took_ns.append(took_ns)
        return values

    def _refused(self, status: int, given: Signals, values: Vector) -> str:
        return refusal(self.name, status, given, values, self.outputs)

    def silent(self, tag: Tag) -> ControllerError:
        """End the process, and return the error for a request without an answer."""
        heard = f" (it sent {self.garbage} malformed messages)" if self.garbage else ""
        text = f"{self.name} did not answer within {self.silence:g} s{heard}; look for an endless "
        text += "loop in its step"
        worker = self._running()
        error = Stopped(worker.about) if worker.stopped() else ControllerError(text)
        worker.kill()
        return self.explained(tag, error)

    def explained(self, tag: Tag, error: ControllerError) -> ControllerError:
        """Return ``error`` with the inputs of its step, and the command that repeats it."""
        self.environment = self.environment or error.environment
        return super().explained(tag, error)

    def close(self) -> None:
        worker, self._worker = self._worker, None
        if self._warm_up is not None:
            self._warm_up.close()
            self._warm_up = None
        if worker is None:
            return
        about, ending = worker.about, None
        try:
            if not self._failures.failed:
                ending = worker.stop()
        finally:
            worker.close()
        if ending is not None and not ending.ok:
            raise Died(f"at the end of the run, {about}", ending)
