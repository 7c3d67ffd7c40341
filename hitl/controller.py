"""A controller that is C in a process of its own: the runtime's Controller over a worker."""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from pathlib import Path

from hitl.build import PLAIN, Build, build
from hitl.case import Case, History
from hitl.messages import Garbage, Heard, Kind
from hitl.refusal import refusal
from hitl.worker import START_S, Died, Worker
from rtsim.clock import stopwatch
from rtsim.errors import ControllerError
from rtsim.signals import Signals, Vector
from rtsim.tag import NS_PER_S, Tag

CASES = Path("cases")
"""Where a step that went wrong is saved, below the current folder."""


class SilController:
    """The C of an interface file (or of a :class:`Build`); :meth:`fresh` starts a process.

    ``values`` are parameters by name.  ``silence`` is how long (wall s) it may say nothing in
    lockstep.  ``command`` replaces the built worker.
    """

    outside = True

    def __init__(
        self,
        source: Build | str | Path,
        values: Mapping[str, object] | None = None,
        *,
        kind: str = PLAIN,
        silence: float = 10.0,
        cases: Path = CASES,
        command: Sequence[str | Path] | None = None,
    ) -> None:
        self.build = source if isinstance(source, Build) else build(source, kind)
        self.interface = self.build.interface
        self.inputs: Signals = self.interface.inputs
        self.outputs: Signals = self.interface.outputs
        self.parameters: Signals = self.interface.parameters
        self.values: dict[str, object] = dict(values or {})
        self.p = self.parameters.initial(self.values)
        self.silence = silence
        self.name = self.interface.name
        self.garbage = 0
        """Messages that were none."""
        self.took_ns = array("q")
        """Execution time of each step, on the host."""
        self._stamps = (0, 0, 0, 0)
        self._cases = cases
        self._command = [self.build.program] if command is None else list(command)
        self._worker: Worker | None = None
        self._sequence = self._answered = 0
        self._sent_ns = 0
        self._history = History(self.inputs.size)
        self._failed = False

    def fresh(self) -> SilController:
        """One like it, with a new process, initialised with the parameters."""
        out = SilController(
            self.build, self.values, silence=self.silence, cases=self._cases, command=self._command
        )
        out._worker = Worker(self.interface, self._command)
        try:
            out._initialize()
        except BaseException:
            out._worker.close()
            raise
        return out

    def describe(self) -> dict[str, object]:
        """For a recording's header."""
        interface = self.interface
        return {
            "type": type(self).__name__,
            "interface": str(interface.path),
            "variant": interface.variant,
            "schema": f"{interface.schema:016x}",
            "build": self.build.kind,
            "compiler": self.build.compiler,
            "key": self.build.folder.name,
        }

    @property
    def pid(self) -> int:
        return self._worker.pid if self._worker else 0

    def _initialize(self) -> None:
        worker = self._running()
        worker.send(Kind.START, 0, Tag(0), self.p)
        heard = worker.receive(stopwatch() + int(START_S * NS_PER_S))
        if not isinstance(heard, Heard) or heard.kind is not Kind.READY:
            said = getattr(heard, "why", "nothing" if heard is None else str(heard))
            raise ControllerError(f"{worker.about} did not initialise: {said}")
        if heard.status:
            raise ControllerError(self._refused(heard.status, self.parameters, self.p))

    def _running(self) -> Worker:
        if self._worker is None:
            raise ControllerError(f"{self.name} has no process: take fresh(), or build a system")
        return self._worker

    def stamps(self) -> tuple[int, int, int, int]:
        """Of the latest answer, ns of the monotonic clock: sent, begun, ended, received."""
        return self._stamps

    def send(self, tag: Tag, inputs: Vector) -> None:
        worker = self._running()
        self._sequence += 1
        self._history.add(tag, inputs)
        self._sent_ns = stopwatch()
        if not worker.send(Kind.STEP, self._sequence, tag, inputs):
            if worker.ended():
                raise self._failure(tag, Died(worker.about, worker.ending()))
            raise self._failure(tag, ControllerError(f"{worker.about} takes no request"))

    def receive(self, tag: Tag, patience: float) -> Vector | None:
        until = stopwatch() + int(patience * NS_PER_S)
        while True:
            try:
                heard = self._running().receive(until)
            except ControllerError as error:
                raise self._failure(tag, error) from None
            if heard is None:
                return None
            if isinstance(heard, Garbage):
                self.garbage += 1
                continue
            return self._answer(tag, heard)

    def _answer(self, tag: Tag, heard: Heard) -> Vector:
        received = stopwatch()
        expected = self.outputs.size
        if heard.kind is not Kind.ANSWER:
            raise self._failure(tag, ControllerError(f"{self.name} said {heard.kind.name}"))
        if heard.sequence != self._sequence or heard.tag != tag or self._answered == self._sequence:
            again = " again" if heard.sequence <= self._answered else ""
            text = f"{self.name} answered step {heard.sequence} ({heard.tag}){again}"
            raise self._failure(tag, ControllerError(f"{text}, expected {self._sequence} ({tag})"))
        if heard.status:
            text = self._refused(heard.status, self.inputs, self._history.inputs[-1])
            raise self._failure(tag, ControllerError(text))
        if len(heard.values) != expected:
            text = f"{self.name} answered {len(heard.values)} values, expected {expected}"
            raise self._failure(tag, ControllerError(text))
        self._answered = self._sequence
        self.took_ns.append(heard.took_ns)
        ended = heard.began_ns + heard.took_ns
        self._stamps = (self._sent_ns, heard.began_ns, ended, received)
        return heard.values

    def _refused(self, status: int, given: Signals, values: Vector) -> str:
        return refusal(self.name, status, given, values, self.outputs)

    def silent(self, tag: Tag) -> ControllerError:
        """What to say when nothing came in lockstep: an endless loop, or a lost link."""
        heard = f" (and {self.garbage} messages that were none)" if self.garbage else ""
        text = f"{self.name} did not answer within {self.silence:g} s{heard}: an endless loop?"
        self._running().kill()
        return self._failure(tag, ControllerError(text))

    def _failure(self, tag: Tag, error: ControllerError) -> ControllerError:
        """The error with the inputs at that step, and the case that reproduces it."""
        if self._failed or not self._history.steps:
            return error
        self._failed = True
        case = self.case(str(error))
        inputs = ", ".join(f"{name}={value:.6g}" for name, value in case.last.items())
        path = self._cases / f"{self.name}-{tag.ns}-{self.build.kind}.npz"
        try:
            case.save(path)
            how = f"again: rtsim sil case {path}"
        except OSError as problem:
            how = f"{path} cannot be written: {problem.strerror}"
        text = f"{self.name} failed at {tag}: {error}\ninputs: {inputs}\n{how}"
        error.args = (text,)
        return error

    def case(self, error: str = "") -> Case:
        """All steps so far."""
        variant = f":{self.interface.variant}" if self.interface.variant else ""
        tags, inputs = self._history.tags, self._history.inputs
        parameters = {
            s.name: self.p[self.parameters.slice(s.name)].tolist() for s in self.parameters
        }
        return Case(
            interface=f"{self.interface.path}{variant}",
            kind=self.build.kind,
            names=self.inputs.columns,
            parameters=parameters,
            tags=tags,
            inputs=inputs,
            forgotten=self._history.steps - len(tags),
            error=error,
        )

    def close(self) -> None:
        """End the process; raises :class:`ControllerError` where it did not end well."""
        worker, self._worker = self._worker, None
        if worker is None:
            return
        try:
            ending = None if self._failed or worker.ended() else worker.stop()
        finally:
            worker.close()
        if ending is not None and ending.code != 0:
            raise Died(f"at its end, {worker.about}", ending)
