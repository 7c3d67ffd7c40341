"""A controller that is a whole program, with threads, sleeps, clocks and sockets."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from operator import attrgetter
from pathlib import Path, PurePath
from typing import Any, NamedTuple, Self

import numpy as np

from hitl.building.store import hash_of
from hitl.buses.traffic import (
    ANSWERS,
    AWAITED,
    LATEST,
    MALFORMED,
    Layout,
    Requests,
    count_reason,
    malformed_notes,
)
from hitl.programs.library import ProgramError
from hitl.programs.packets import ENDS, FROM_PROGRAM, PROGRAM, TO_PROGRAM, kept_files, strike
from hitl.programs.process import LOOK_NS, VirtualProcess
from hitl.programs.real_process import RealProcess
from hitl.programs.started import PATIENCE_S, Datagram, StartedProgram
from rtsim.components.frames import Frame, FrameCodec, FrameError, read_frames
from rtsim.components.request_log import RequestLog, steps_of
from rtsim.core.errors import ControllerError, ScenarioError, UnknownName
from rtsim.core.signals import Signal, Signals, Vector
from rtsim.core.tag import NS_PER_S, Tag, to_ns
from rtsim.engine.faults.at_messages import FaultyTransport
from rtsim.engine.faults.line_kinds import LineFaults

VIRTUAL, REAL = "virtual", "real"
UNANSWERED = "unanswered"
_FILES, _OUTPUT = "files", "output.txt"
MOST_WAIT_S = 1e6
"""Longest ``silence`` and ``patience``, s."""


class ProgramPort(NamedTuple):
    """A port of a program, and how often a frame is sent to it."""

    port: int | str
    """The port that the program opens, or the name of a received frame: the frame is then sent to
    the socket from which the program sends that frame."""
    every: int = 1
    """The frame is sent at each tick whose number is a multiple of ``every``, or is expected to
    arrive within so many ticks."""
    opens_late: bool = False
    """True if the program opens the port during the run; frames before that time are lost."""


_Port = int | str | ProgramPort
_arrival = attrgetter("at_ns")
_OTHER_PORT = "which is not the port of a frame that the controller receives"


class Program:
    """A program that exchanges UDP datagrams with the simulation.

    The program starts at the beginning of the run and ends with it. In virtual time, its clock
    shows the time of the simulation, whatever the wall clock shows: its threads, sleeps and
    timeouts wait for the time of the simulation, and a datagram reaches it at its tag. Two runs
    with the same inputs are therefore equal bit for bit. The program itself needs no changes.

    At each tick, the controller sends its inputs in the frames ``send``. Its outputs are the
    signals of the frames ``receive``, as the program has sent them until the answer is due, and two
    numbers: ``malformed`` frames so far, and ``unanswered`` ticks so far, after which a frame was
    missing when the answer was due. Computing takes no time on the program's clock; give a compute
    latency to the controller for the time that it takes on the target.

    Args:
        command: The program, or the program and its arguments.
        frames: File that describes the frames, or their codecs by name.
        send: Ports of the program by the names of the frames that are sent to it. The name of a
            received frame, instead of a port, means the socket from which the program sends it.
        receive: Ports to which the program sends, by the names of the frames. A program that sends
            a frame less often than it receives has ``ProgramPort(port, every=8)``.
        clock: ``"virtual"``, or ``"real"`` for a program on the wall clock in a run with a pace.
        clock_fields: Fields of sent frames that contain the time of the run, s, instead of a
            signal.
        answer: With ``"latest"``, the outputs are the latest values that the program has sent.
            With ``"awaited"``, the controller waits for all frames in ``receive``.
        boot: Time that the program gets before the run begins, s.
        folder: Folder whose files the program finds in its working folder, for example parameters.
            Each run has a copy.
        environment: Environment variables of the program.
        keep: Patterns of files that the program writes, such as ``"logs/*.bbl"``, to keep in
            a folder beside the recording. The output of the program is always kept there.
        log: File for the output of the program, instead of a file beside the recording.
        opens: Further ports that the program opens or to which it sends; nothing is sent to them,
            and what they send is ignored.
        other_ports: If True, the program can use other ports of the network, in real time. By
            default, each use of another port ends the run with an error.
        silence: Longest time that the program needs for an awaited answer, on its own clock, s.
        patience: Longest wall-clock time for which the program computes without an end, s.
        look: Time that the program needs to read its clock or to poll, s.
        prefix: If True, names of signals begin with the name of their frame.

    Example:
        autopilot = Program(
            "./autopilot",
            frames="autopilot.toml",
            send={"state": 9003, "radio": ProgramPort(9004, every=8)},
            receive={"motors": 9002},
        )
        loop.controller("autopilot", autopilot, period=0.0025, compute=Fixed(0.001))
    """

    outside = True
    ends = ENDS

    def __init__(
        self,
        command: str | Path | Sequence[str | Path],
        *,
        frames: str | Path | Mapping[str, FrameCodec],
        send: Mapping[str, _Port],
        receive: Mapping[str, _Port],
        clock: str = VIRTUAL,
        clock_fields: Iterable[str] = (),
        answer: str = LATEST,
        boot: float = 1.0,
        folder: str | Path | None = None,
        environment: Mapping[str, str] | None = None,
        keep: Iterable[str] = (),
        log: str | Path | None = None,
        opens: Iterable[int] = (),
        other_ports: bool = False,
        silence: float = 1.0,
        patience: float = PATIENCE_S,
        look: float = LOOK_NS / NS_PER_S,
        prefix: bool = False,
    ) -> None:
        self.command = [command] if isinstance(command, str | Path) else list(command)
        if not self.command or not str(self.command[0]):
            raise ScenarioError("the command of a program is empty; give the path of the program")
        self.name = Path(self.command[0]).name
        if answer not in ANSWERS:
            raise ScenarioError(f"answer is {answer!r}; choose {' or '.join(map(repr, ANSWERS))}")
        if clock not in (VIRTUAL, REAL):
            raise ScenarioError(f"clock is {clock!r}; choose {VIRTUAL!r} or {REAL!r}")
        if not receive and answer == AWAITED:
            raise ScenarioError(f"{self.name}: answer='awaited' waits for frames; give receive=")
        codecs = frames if isinstance(frames, Mapping) else read_frames(Path(frames))
        for name in (*send, *receive):
            if name not in codecs:
                raise UnknownName("frame", name, codecs, self.name)
        self._answer, self._prefix = answer, prefix
        self.silence = silence if answer == AWAITED else 0.0
        self.patience = patience
        self.own_time = clock == VIRTUAL
        """True if lateness is measured on the clock of the program."""
        self.paced = clock == REAL
        """True if the program runs on the wall clock."""
        self.needs_pace = self.paced
        self.prompt = answer == LATEST
        self._boot_ns, self._look_ns = to_ns(boot, "boot"), to_ns(look, "look")
        if self._look_ns <= 0:
            raise ScenarioError(
                f"{self.name}: look is {look} s; give a time above 0, or a program that waits in a "
                "loop never ends"
            )
        self._folder = None if folder is None else Path(folder)
        self._opens, self._other_ports = tuple(opens), other_ports
        self._environment, self._keep = dict(environment or {}), tuple(keep)
        for pattern in self._keep:
            path = PurePath(pattern)
            if not path.parts or path.is_absolute() or ".." in path.parts:
                raise ScenarioError(
                    f"{self.name}: keep={pattern!r} is not a pattern of files in the working "
                    "folder of the program, such as 'logs/*.bbl'"
                )
        for what, seconds in (("silence", silence), ("patience", patience)):
            if not 0 < seconds < MOST_WAIT_S:
                raise ScenarioError(
                    f"{self.name}: {what} is {seconds} s; give a time above 0, below "
                    f"{MOST_WAIT_S:g} s"
                )
        if self._boot_ns < 0:
            raise ScenarioError(f"{self.name}: boot is {boot} s; give 0 or a time above 0")
        self._log_file = None if log is None else Path(log)
        self._to, self._from = (
            {name: p if isinstance(p, ProgramPort) else ProgramPort(p) for name, p in one.items()}
            for one in (send, receive)
        )
        for port in (*self._listens(), *self._calls(), *self._opens):
            if not 0 < port < 65536:
                raise ScenarioError(f"{self.name}: the port {port} is not between 1 and 65535")
        for name, at in self._from.items():
            if at.every < 1:
                raise ScenarioError(f"{self.name}: every={at.every} of {name}; give 1 or more")
        self._requests = Requests(
            Layout.of([codecs[name] for name in send], prefix),
            {name: to.every for name, to in self._to.items()},
            clock_fields,
            self.name,
        )
        self._receives = Layout.of([codecs[name] for name in receive], prefix)
        self.inputs = self._requests.inputs
        self.outputs = self._receives.signals + Signals(Signal(MALFORMED), Signal(UNANSWERED))
        self.process: StartedProgram | None = None
        """The running program; None before a run."""

    def _listens(self) -> list[int]:
        """Return the ports that the program opens for frames."""
        ports = [to.port for to in self._to.values()]
        for port in ports:
            if isinstance(port, str) and port not in self._from:
                raise UnknownName("received frame", port, self._from, self.name)
        return [port for port in ports if isinstance(port, int)]

    def _calls(self) -> list[int]:
        """Return the ports to which the program sends frames."""
        for name, at in self._from.items():
            if not isinstance(at.port, int):
                raise ScenarioError(f"{self.name}: the port of {name} is {at.port!r}, no number")
        return [at.port for at in self._from.values() if isinstance(at.port, int)]

    def found(self) -> Sequence[str | Path]:
        """Return the command; a derived class can search the program when it is started."""
        return self.command

    def fresh(self) -> Self:
        """Return a copy with a started program, for one run.

        Raises :class:`hitl.programs.ProgramError` if the program cannot be started.
        """
        out = copy(self)
        out.command = list(self.found())
        out._begin()
        try:
            out._make_folder()
            out.process = out._started()
            if out.paced:
                out._take_all(out.process.run(out.process.now_ns + out._boot_ns))
            else:
                out._run(out._boot_ns)
        except BaseException:
            out.close()
            raise
        return out

    def prepare(self, folder: Path) -> None:
        """Prepare the working folder of a run; autopilots write their parameters here."""

    def _make_folder(self) -> None:
        """Make the working folder, which stays when the program is started again."""
        self._work = Path(tempfile.mkdtemp(prefix=f"rtsim-{self.name}-"))
        try:
            if self._folder is None:
                (self._work / _FILES).mkdir()
            else:
                shutil.copytree(self._folder, self._work / _FILES)
        except OSError as error:
            raise ProgramError(
                f"cannot copy folder={self._folder} of {self.name}: {error}"
            ) from None
        if self._log_file is not None:
            try:
                self._log_file.write_bytes(b"")
            except OSError as error:
                raise ProgramError(f"cannot write log= of {self.name}: {error}") from None
        self.prepare(self._work / _FILES)

    def _started(self) -> StartedProgram:
        assert self._work is not None
        return self.start(self._work / _FILES, self._log_file or self._work / _OUTPUT)

    def start(self, folder: Path, log: Path) -> StartedProgram:
        """Start the program in the folder ``folder``, and append its output to ``log``."""
        calls = self._calls()
        if self.paced:
            return RealProcess(
                self.command, calls, folder=folder, environment=self._environment, log=log,
                patience=self.patience,
            )  # fmt: skip
        return VirtualProcess(
            self.command, [*self._listens(), *self._opens],
            [*calls, *self._opens], folder=folder, environment=self._environment,
            look_ns=self._look_ns, other_ports=self._other_ports, log=log, patience=self.patience,
        )  # fmt: skip

    def start_again(self, tag: Tag) -> None:
        """Start the program again at ``tag``; its time before the run passes during the run."""
        process = self._live()
        self._notes += process.notes
        self._opened |= process.opened
        self._callers.clear()  # the ports of its sockets without a fixed port
        process.close()
        self.process = self._started()
        self._drift_ns = -self._boot_ns - tag.ns
        self._pending.clear()
        self._arriving.clear()
        self._forgotten = f"it was started again at {tag}"

    def keep_in(self, folder: Path) -> None:
        """Keep the output and the files of the program in ``folder`` when the run has ended."""
        self._kept = folder

    # -- the state of a run

    _work: Path | None = None
    _kept: Path | None = None

    def _begin(self) -> None:
        self.process, self._work, self._tick = None, None, 0
        self._drift_ns = 0
        """Time by which the program's clock is ahead of the run, ns; not 0 after the run has waited
        or the program was started again."""
        self._line: LineFaults | None = None
        self._values = self._receives.signals.initial()
        self._pending: list[Datagram] = []
        self._arriving: list[Datagram] = []
        """What the program has sent and what has not arrived yet, by the time of its arrival."""
        self._since = dict.fromkeys(self._from, 0)
        """Number of requests since the latest arrival of each frame."""
        self._asked_ns = 0
        """Time of the latest request on the program's clock, ns."""
        self._missing: set[str] = set()
        self._arrived: set[str] = set()
        self._unanswered = 0
        self._callers: dict[str, int] = {}
        """Ports from which the program has sent its frames, by their names."""
        self._opened: set[int] = set()
        """Ports that the program had opened before it was started again."""
        self.malformed: dict[str, int] = {}
        """Number of malformed frames, by reason."""
        self._notes: list[str] = []
        self._log = RequestLog(self.inputs.size)
        self._waits: list[int] = []
        """Step and patience (ns) of each ``receive``."""
        self._forgotten = ""
        """Why the program cannot be brought to its present state by the same inputs."""
        self._faulty: dict[str, FaultyTransport] = {}

    def _program_ns(self, tag: Tag) -> int:
        return self._boot_ns + self._drift_ns + tag.ns

    def _live(self) -> StartedProgram:
        if self.process is None:
            raise ControllerError(f"{self.name} is not started; use the controller of fresh()")
        return self.process

    def _run(self, until_ns: int, first: bool = False) -> None:
        process = self._live()
        known = len(process.notes)
        now = [one for one in self._pending if one.at_ns <= until_ns]
        if now:
            self._pending = [one for one in self._pending if one.at_ns > until_ns]
            now.sort(key=_arrival)
        self._take_all(process.run(until_ns, now, first=first))
        late = [f"port {to.port}," for to in self._to.values() if to.opens_late]
        for note in process.notes[known:]:
            if any(port in note for port in late) and note.endswith("not opened"):
                process.notes.remove(note)
            elif note.startswith("lost: ") and note.endswith("not opened") and not self._forgotten:
                raise ProgramError(
                    f"the program {self.name} did not receive a frame: {note}; correct the port in "
                    "send=, or give the program more time before the run: boot="
                )
        if not process.threads:
            raise process.ended()

    def _take_all(self, sent: Iterable[Datagram]) -> None:
        """Decode what the program has sent, as far as it has arrived."""
        faulty = self._faulty.get(FROM_PROGRAM)
        if faulty is None:
            for datagram in sent:
                self._take(datagram)
            return
        for one in sent:
            if one.port not in self._opens:
                self._arriving += self._spoiled(faulty, one)
        self._arriving.sort(key=_arrival)
        while self._arriving and self._arriving[0].at_ns <= self._live().now_ns:
            self._take(self._arriving.pop(0))

    def _spoiled(self, faulty: FaultyTransport, one: Datagram) -> list[Datagram]:
        """Return the copies of a datagram that arrive, with the times of their arrival."""
        sent_ns = one.at_ns - self._program_ns(Tag(0))
        if sent_ns < 0:  # before the run
            return [one]
        arrivals = faulty.arrivals(sent_ns)
        return [one._replace(at_ns=one.at_ns + ns - sent_ns) for ns in arrivals]

    def spoil(self, line: LineFaults) -> None:
        """Apply the faults of ``line`` to the packets of both directions and to the program."""
        self._line = line
        for end in (TO_PROGRAM, FROM_PROGRAM):
            if line.at(end):
                self._faulty[end] = line.transport(end)

    addressed = False
    """True if the identifier of a received frame decides which frame it is."""

    def packed(self, frame: Frame) -> bytes:
        """Return the bytes that are sent for a frame; protocols with packets add their header."""
        return frame.data

    def unpacked(self, data: bytes) -> Iterable[Frame | FrameError]:
        """Yield the frames in received data, and an error for each malformed part."""
        yield Frame(data)

    def _datagram(self, codec: FrameCodec, data: bytes, at_ns: int) -> Datagram:
        port = self._to[codec.name].port
        data = self.packed(Frame(data, codec.identifier, codec.extended))
        if isinstance(port, str):
            return Datagram(at_ns, self._callers.get(port, 0), data, int(self._from[port].port))
        return Datagram(at_ns, port, data)

    def _take(self, datagram: Datagram) -> None:
        if datagram.port in self._opens:
            return
        for frame in self.unpacked(datagram.data):
            reason = str(frame) if isinstance(frame, FrameError) else self._decode(frame, datagram)
            if reason:
                count_reason(self.malformed, reason)

    def _decode(self, frame: Frame, datagram: Datagram) -> str:
        """Take the values of a frame; return the reason if it is malformed."""
        reason = f"data for port {datagram.port}, {_OTHER_PORT}"
        for codec, place in zip(self._receives.codecs, self._receives.places, strict=True):
            if self._from[codec.name].port != datagram.port:
                continue
            if self.addressed and codec.identifier != frame.identifier:
                reason = ""
                continue
            try:
                codec.decode(frame.data, self._values[place])
            except FrameError as error:
                reason = str(error)
                continue
            self._arrived.add(codec.name)
            if datagram.at_ns < self._asked_ns:  # no answer to the latest request
                self._since[codec.name] = 1
            else:
                self._since[codec.name] = 0
                self._missing.discard(codec.name)
            self._callers[codec.name] = datagram.source
            return ""
        return reason

    # -- the steps

    def send(self, tag: Tag, inputs: Vector) -> None:
        process = self._live()
        if self.paced:
            self._take_all(process.run(0))  # what came before the request is no answer to it
            self.anchor(tag)
        elif self._line is not None and self._line.at(PROGRAM):
            for activity in self._line.at(PROGRAM):
                strike(activity, self._line, tag.ns, process)
        self._log.add(tag, inputs)
        self._asked_ns = self._program_ns(tag)
        process.run_began_ns = self._program_ns(Tag(0))
        if self._answer == AWAITED:
            self._missing = set(self._from)
        for name in self._since:
            self._since[name] += 1
        faulty = self._faulty.get(TO_PROGRAM)
        for codec, data in self._requests.due(self._tick, tag, inputs):
            one = self._datagram(codec, data, self._program_ns(tag))
            self._pending += [one] if faulty is None else self._spoiled(faulty, one)
        self._tick += 1
        if self.paced:
            self._run(process.now_ns)

    def receive(self, tag: Tag, patience: float) -> Vector | None:
        process, wait_ns = self._live(), round(patience * NS_PER_S)
        self._waits += (self._log.steps, wait_ns)
        if self._answer == LATEST and patience <= 0 and not self.paced:
            raise ControllerError(
                f"the answer of the program {self.name} is due at its request, so that it cannot "
                "depend on the request; give the controller a compute latency, or answer='awaited'"
            )
        until_ns = wait_ns + (process.now_ns if self.paced else self._program_ns(tag))
        if self._answer == LATEST:
            self._run(until_ns)
        elif not self._all_arrived(until_ns):
            self._log.heard(None)
            return None
        answer = np.empty(self.outputs.size)
        answer[:-2] = self._values
        answer[-2] = sum(self.malformed.values()) if self.malformed else 0
        self._unanswered += any(self._since[n] >= p.every for n, p in self._from.items())
        answer[-1] = self._unanswered
        self._log.heard(answer)
        return answer

    def _all_arrived(self, until_ns: int) -> bool:
        """Run until all awaited frames have arrived, at most until ``until_ns``."""
        process = self._live()
        if self.paced:  # also after the time until which the answer is awaited
            self._run(process.now_ns)
        while self._missing and process.now_ns < until_ns:
            next_ns = min((one.at_ns for one in self._arriving), default=until_ns)
            self._run(min(until_ns, max(next_ns, process.now_ns)), first=True)
        return not self._missing

    def advance(self, tag: Tag) -> None:
        """Do nothing, because the program gets its time when its answer is due."""

    def anchor(self, tag: Tag) -> None:
        """Set the program's clock to ``tag``, after the run has waited for its answer."""
        self._drift_ns = self._live().now_ns - self._boot_ns - tag.ns
        if not self.paced:
            self._forgotten = self._forgotten or f"the run has waited for its answer at {tag}"

    # -- checkpoints: the same inputs again, for a new process

    def save(self) -> dict[str, Any]:
        if self._forgotten:
            return {"forgotten": self._forgotten}
        return {**self._log.save(), "waits": np.array(self._waits, np.int64)}

    def restore(self, saved: dict[str, Any]) -> None:
        """Repeat all steps with the program, which has just been started."""
        about = f"the program {self.name} cannot be restored"
        if "steps" not in saved:
            raise ControllerError(
                f"{about}: {saved.get('forgotten', 'its inputs are not known')}; resume from an "
                "earlier checkpoint, or replay the recording"
            )
        waits = saved.get("waits")
        why = ""
        if self.paced:
            why = "it runs on the wall clock"
        elif self._line is not None:
            why = "faults act on it or its packets"
        elif waits is None and self._answer == AWAITED:
            why = "a replay does not know how long each answer was awaited"
        if why:
            raise ControllerError(f"{about}: {why}; replay the recording")
        steps = steps_of(saved, self.inputs.size, self.name)
        pairs = np.asarray([] if waits is None else waits, np.int64).reshape(-1, 2).tolist()
        at = 0
        for k, (tag, inputs) in enumerate(steps, 1):
            self.send(tag, inputs)
            while at < len(pairs) and pairs[at][0] == k:
                self.receive(tag, pairs[at][1] / NS_PER_S)
                at += 1
            if waits is None:  # a replay: the latest values follow with the next answer
                self._run(self._program_ns(tag))
        if self._log.checksum != saved["checksum"] and waits is not None:
            raise ControllerError(
                f"{about}: its {len(steps)} steps were repeated and gave other answers; its "
                f"answers depend on more than its inputs{self._why_not}"
            )
        if "answer" in saved.get("replayed", {}):  # an answer of the recording
            self._unanswered = int(saved["replayed"]["answer"][-1])
        self._log.open, self._log.asked = saved["open"], saved["asked"]
        self._log.checksum = saved["checksum"]

    @property
    def _why_not(self) -> str:
        notes = [] if self.process is None else self.process.notes
        return f": {'; '.join(notes)}" if notes else ""

    def silent(self, tag: Tag) -> ControllerError:
        missing = ", ".join(sorted(self._missing))
        return ProgramError(
            f"the program {self.name} sent no {missing} within {self.silence:g} s of its time "
            f"after the request of {tag}; give answer='latest', or a longer silence="
        )

    def explained(self, tag: Tag, error: ControllerError) -> ControllerError:  # noqa: ARG002
        return error

    @property
    def notes(self) -> list[str]:
        """Reasons why the answers are doubtful, one text for each problem.

        A problem is a part of the program without virtual time, a malformed frame, a frame that the
        program has never sent, or a port for its frames that it has never opened.
        """
        if self.process is None:
            return []
        wrong = malformed_notes(self.malformed)
        never = [name for name in self._from if name not in self._arrived]
        wrong += [f"the program sent no frame {name}" for name in never]
        wrong += [
            f"the program never opened port {to.port}, so that it received no frame {name}"
            for name, to in self._to.items()
            if to.opens_late and isinstance(to.port, int) and not self._has_opened(to.port)
        ]
        if self._unanswered and not never:
            wrong.append(
                f"{self._unanswered} of {self._log.steps} answers were due before the program had "
                "sent a frame after the request, so that they are older; give a longer compute "
                "latency, or declare how often the program sends: ProgramPort(port, every=...); "
                "the period of a loop with usleep drifts, that of clock_nanosleep with "
                "TIMER_ABSTIME does not"
            )
        return [*self._notes, *self.process.notes, *wrong]

    def _has_opened(self, port: int) -> bool:
        """Return whether the program has opened ``port``; True where this is not seen."""
        process = self._live()
        return self.paced or port in process.opened or port in self._opened

    def describe(self) -> dict[str, object]:
        return {
            "type": type(self).__name__,
            "command": [str(word) for word in self.command],
            "sha256": hash_of(self.command[0]),
            "answer": self._answer,
            "boot_ns": self._boot_ns,
            "clock": REAL if self.paced else VIRTUAL,
            "sends": {name: [to.port, to.every] for name, to in self._to.items()},
            "receives": {name: [to.port, to.every] for name, to in self._from.items()},
        }

    def close(self) -> None:
        """End the program, and keep its output and its files; a second call has no effect."""
        if self.process is not None:
            self.process.close()
        work, self._work = self._work, None
        if work is None:
            return
        try:
            if self._kept is not None:
                kept_files(work / _FILES, self._keep, work / _OUTPUT, self._kept)
        finally:
            shutil.rmtree(work, ignore_errors=True)
