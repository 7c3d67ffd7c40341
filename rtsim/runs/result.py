"""The result of a run: its end, its recorded values, and its problems."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from rtsim.components.medium import FULL
from rtsim.components.protocols import memory_of, notes_of
from rtsim.core.errors import (
    NotRecorded,
    OverrunError,
    RecordingError,
    UnknownName,
    memory_is_hidden,
)
from rtsim.core.outcome import Judged, Outcome
from rtsim.core.signals import SignalName, Vector
from rtsim.core.tag import START, Tag
from rtsim.engine.checkpoint.file import Checkpoint
from rtsim.engine.system import System
from rtsim.record.events import LACKING, RunEnding
from rtsim.record.named_signals import SignalsByName
from rtsim.record.recorders import Recorder
from rtsim.timing.certificate import Certificate

if TYPE_CHECKING:
    from rtsim.record.events import Event
    from rtsim.record.reading import Recording
    from rtsim.record.table import SignalTable
    from rtsim.record.views import Viewed
    from rtsim.requirements.requirement import Requirement
    from rtsim.requirements.verdict import RequirementResult


@dataclass(frozen=True, repr=False)
class RunResult(SignalsByName, Judged):
    """The result of a run, with signals by name.

    ``run["cart.x"]``, ``run[cart.x]`` with a handle, and ``run.cart.x`` read the same signal. A run
    that was reset to a checkpoint has several segments.
    """

    ending: RunEnding
    """Time and reason of the end.

    The reason is ``end``, ``terminal`` (a guard), ``plant ended`` (an FMU that ended its
    simulation), ``quit`` or ``restored`` (a command), ``interrupted``, ``recording lost``,
    ``requirement violated`` or ``error``.
    """
    wall_ns: int
    certificate: Certificate
    late: int
    """Number of late answers."""
    missed: int
    """Number of missed requests."""
    system: System
    recorder: Recorder
    checkpoints: tuple[Path, ...] = ()
    """Files of the saved checkpoints."""
    began: Tag = START
    restored: Checkpoint | None = None
    """The checkpoint to which a command went back.

    To continue, run ``simulate(..., start=restored)`` with the same inbox.
    """
    rate: float | None = None
    """Rate at the end, simulated seconds per second; ``None`` means as fast as possible."""
    error: Exception | None = None
    """The error that ended the run or occurred while its components were closed."""
    lost: RecordingError | None = None
    """The reason why the recording is incomplete; ``None`` if the recording is complete."""
    ends: Mapping[str, Vector] | None = None
    """Last values of each port, for a prepared run; otherwise the system holds them."""
    reported: tuple[Event, ...] = ()
    """Events with values reported by guards, such as a touchdown with its vertical speed."""
    waiting: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """Number of messages that waited for each medium at the end, by medium and sender.

    The recording has no rows for these messages.
    """
    lost_messages: Mapping[str, Mapping[str, Mapping[str, int]]] = field(default_factory=dict)
    """Number of messages that media lost, by medium, reason and sender."""
    earlier: tuple[RunResult, ...] = ()
    """The segments before this one."""
    required: tuple[Requirement, ...] = ()
    """The requirements of the scenario."""

    def _judge(self) -> Outcome:
        outside = isinstance(self.error, (OverrunError, *LACKING))
        outside = outside or getattr(self.error, "environment", False)
        if not outside and (self.error is not None or self.ending.failed):
            return Outcome.FAILED
        complete = self.error is None and self.lost is None and self.ending.complete
        ended = Outcome.PASSED if complete else Outcome.UNDECIDED
        return Outcome.of_all([ended, *(one.result for one in self.requirements)])

    @cached_property
    def requirements(self) -> list[RequirementResult]:
        """The verdict on each requirement of the scenario.

        Without a recording, all requirements are undecided.
        """
        if not self.required:
            return []
        from rtsim.requirements.verdict import check_run, unchecked

        if self.path is None and not hasattr(self.recorder, "recording"):
            return unchecked(self.required, "the run was not recorded")
        return check_run(self.required, lambda: self._read)

    @property
    def in_words(self) -> str:
        text = f"the run {self.ending}"
        more = [str(one) for one in (self.error, self.lost) if one is not None]
        more += [one.in_words for one in self.requirements if one.result is not Outcome.PASSED]
        return "; ".join([text, *(one for one in more if one not in text)])

    @property
    def reason(self) -> str:
        """Why the run ended, in one or two words."""
        return self.ending.reason

    @property
    def ended(self) -> Tag:
        return Tag(self.ending.reached_ns)

    @property
    def segments(self) -> tuple[RunResult, ...]:
        """All segments of the run, with this result at the end."""
        return (*self.earlier, self)

    @property
    def path(self) -> Path | None:
        """The file of the recording, or ``None``."""
        path: Path | None = getattr(self.recorder, "path", None)
        return path

    @property
    def overruns(self) -> int:
        return sum(self.certificate.overruns.values())

    @property
    def speed(self) -> float:
        """Simulated time divided by wall-clock time."""
        simulated = self.ended.ns - self.began.ns
        return simulated / self.wall_ns if self.wall_ns else float("inf")

    @property
    def warnings(self) -> list[str]:
        """Problems that make the result doubtful, one text for each problem.

        The problems are overruns, late answers, missed requests, missed deadlines, restarts, faults
        that never acted, what controllers report about themselves, and overloaded media.  A medium
        is overloaded if several messages of one sender wait for it when the run ends, or if one of
        its queues was full.  The option ``--strict`` treats each problem as a failure.
        """
        faults = self.system.faults
        idle = [] if faults is None else [name for name, n in faults.counts.items() if not n]
        counts = {
            "overruns": self.overruns,
            "late answers": self.late,
            "missed requests": self.missed,
            "missed deadlines": sum(
                counts.missed for one in self.system.processors for counts in one.counts.values()
            ),
        }
        found = [f"{what}: {count}" for what, count in counts.items() if count]
        for medium, senders in self.waiting.items():
            behind = [name for name, count in senders.items() if count > 1]
            if behind:
                found.append(f"senders that {medium} did not keep up with: {', '.join(behind)}")
        for medium, reasons in self.lost_messages.items():
            if FULL in reasons:
                those = ", ".join(reasons[FULL])
                found.append(f"senders whose messages met a full queue of {medium}: {those}")
        found += self.notes_of_controllers()
        return found + ([f"faults that never acted: {', '.join(idle)}"] if idle else [])

    def notes_of_controllers(self) -> list[str]:
        """Return failures and restarts of controllers, and what they report about themselves."""
        tasks = self.system.controllers
        restarts = sum(task.restarts for task in tasks)
        found = [f"restarts of controllers: {restarts}"] if restarts else []
        found += [f"{one.name} failed: {one.failed.splitlines()[0]}" for one in tasks if one.failed]
        return found + [f"{one.name}: {note}" for one in tasks for note in notes_of(one.controller)]

    def final(self, name: SignalName) -> float | Vector:
        """Return the last value of the signal ``"component.signal"``: a number or an array (n,).

        For parameters and inputs of controllers, use ``result["component.name"][-1]``. An unknown
        signal raises :class:`UnknownName`.
        """
        component, _, signal = str(name).partition(".")
        ports = self.system.ports
        if component not in ports:
            raise UnknownName("component", component, ports, "this run")
        signals = ports[component].signals
        if signal not in signals:
            self._refuse(component, signal)
        where = signals.slice(signal)
        value = ports[component].value if self.ends is None else self.ends[component]
        return value[where].copy() if signals[signal].shape else float(value[where][0])

    def _refuse(self, component: str, name: str) -> NoReturn:
        target = f"{component}.{name}"
        task = next((t for t in self.system.controllers if t.name == component), None)
        if task is not None and name in (memory := memory_of(task.controller)):
            raise memory_is_hidden(target, memory[name].unit)
        sampled = task is not None and name in task.controller.inputs
        if sampled or target in self.system.changeable:
            kind = "an input of a controller" if sampled else "a parameter"
            raise NotRecorded(
                target,
                f"is {kind}, but final() returns only signals that other components can read; use "
                f"result[{target!r}][-1]",
            )
        raise UnknownName("signal", name, self.system.ports[component].signals.names, component)

    def recording(self) -> Recording:
        """Return the recording; raise ``RecordingError`` without one."""
        read: Callable[[], Recording] | None = getattr(self.recorder, "recording", None)
        if read is not None:
            return read()
        if self.path is None:
            raise RecordingError(
                "this run was not recorded; leave out record=False, or give it "
                "recorder=MemoryRecorder()"
            )
        from rtsim.record.reading import Recording  # a run that is not read starts without mcap

        return Recording.open(self.path)

    @cached_property
    def _read(self) -> Recording:
        return self.recording()

    def _signals_from(self) -> Recording:
        return self._read

    def facts(self) -> Mapping[str, object]:
        found = {"ended": f"{self.reason} at {self.ended}", "speed": f"{self.speed:.3g}",
                 "warnings": "; ".join(self.warnings) or "none"}  # fmt: skip
        return found if self.error is None else {**found, "error": str(self.error)}

    @property
    def events(self) -> list[Event]:
        """Events of the run in order, such as overruns, late answers and commands."""
        return self._read.events

    @property
    def messages(self) -> Mapping[str, SignalTable]:
        """All messages by port, with the times (ns) of initiation, completion and arrival."""
        return self._read.messages

    def viewed(self) -> Viewed:
        return self.recording().viewed()

    def checked(self) -> RunResult:
        """Return this result, or raise the error that ended the run."""
        if self.error is not None:
            raise self.error
        if self.lost is not None:
            raise RecordingLost(self.lost, self) from self.lost
        return self


class RecordingLost(RecordingError):
    """The recording failed; ``outcome`` is the result of the run."""

    def __init__(self, error: RecordingError, outcome: RunResult) -> None:
        super().__init__(str(error))
        self.outcome = outcome
        for note in getattr(error, "__notes__", ()):
            self.add_note(note)
