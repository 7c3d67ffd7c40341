"""A controller that is a whole program, with threads, sleeps, clocks and sockets."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from pathlib import Path
from typing import NamedTuple

import numpy as np

from hitl.building.store import hash_of
from hitl.buses.traffic import ANSWERS, AWAITED, LATEST, MALFORMED, Layout, Requests
from hitl.programs.library import ProgramError
from hitl.programs.process import LOOK_NS, Datagram, VirtualProcess
from rtsim.components.frames import Frame, FrameCodec, FrameError, read_frames
from rtsim.core.errors import ControllerError, ScenarioError, UnknownName
from rtsim.core.signals import Signal, Signals, Vector
from rtsim.core.tag import NS_PER_S, Tag, to_ns


class ProgramPort(NamedTuple):
    """A port of a program, and how often a frame is sent to it."""

    port: int | str
    """The port that the program opens, or the name of a received frame: the frame is then sent to
    the socket from which the program sends that frame."""
    every: int = 1
    """The frame is sent at each tick whose number is a multiple of ``every``."""


_Port = int | str | ProgramPort
_OTHER_PORT = "which is not the port of a frame that the controller receives"


class Program:
    """A program in virtual time, which exchanges UDP datagrams with the simulation.

    The program starts at the beginning of the run and ends with it. Its clock shows the time
    of the simulation, whatever the wall clock shows: its threads, sleeps and timeouts wait for the
    time of the simulation, and a datagram reaches it at its tag. The same run twice is therefore
    the same run, bit for bit. Nothing in the program has to be changed.

    At each tick, the controller sends its inputs in the frames ``send``. Its outputs are the
    signals of the frames ``receive``, as the program has sent them until the answer is due, and the
    number of malformed frames so far (``malformed``). Computing takes no time on the program's
    clock; give a compute latency to the controller for the time that it takes on the target.

    Args:
        command: The program, or the program and its arguments.
        frames: File that describes the frames, or their codecs by name.
        send: Ports of the program by the names of the frames that are sent to it. The name of a
            received frame, instead of a port, means the socket from which the program sends it.
        receive: Ports to which the program sends, by the names of the frames.
        clock_fields: Fields of sent frames that contain the time of the run, s, instead of a
            signal.
        answer: With ``"latest"``, the outputs are the latest values that the program has sent.
            With ``"awaited"``, the controller waits for all frames in ``receive``.
        boot: Time that the program gets before the run begins, s.
        folder: Folder whose files the program finds in its working folder, for example parameters.
            Each run has a copy.
        environment: Environment variables of the program.
        log: File for the output of the program.
        opens: Further ports that the program opens or to which it sends; nothing is sent to them,
            and what they send is ignored.
        other_ports: If True, the program can use other ports of the network, in real time. By
            default, each use of another port ends the run with an error.
        silence: Longest time that the program needs for an awaited answer, on its own clock, s.
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
    own_time = True

    def __init__(
        self,
        command: str | Path | Sequence[str | Path],
        *,
        frames: str | Path | Mapping[str, FrameCodec],
        send: Mapping[str, _Port],
        receive: Mapping[str, int],
        clock_fields: Iterable[str] = (),
        answer: str = LATEST,
        boot: float = 1.0,
        folder: str | Path | None = None,
        environment: Mapping[str, str] | None = None,
        log: str | Path | None = None,
        opens: Iterable[int] = (),
        other_ports: bool = False,
        silence: float = 1.0,
        look: float = LOOK_NS / NS_PER_S,
        prefix: bool = False,
    ) -> None:
        self.command = [command] if isinstance(command, str | Path) else list(command)
        self.name = Path(self.command[0]).name
        if answer not in ANSWERS:
            raise ScenarioError(f"answer is {answer!r}; choose {' or '.join(map(repr, ANSWERS))}")
        if not receive and answer == AWAITED:
            raise ScenarioError(f"{self.name}: answer='awaited' waits for frames; give receive=")
        codecs = frames if isinstance(frames, Mapping) else read_frames(Path(frames))
        for name in (*send, *receive):
            if name not in codecs:
                raise UnknownName("frame", name, codecs, self.name)
        self._answer, self._prefix = answer, prefix
        self.silence = silence if answer == AWAITED else 0.0
        self._boot_ns, self._look_ns = to_ns(boot, "boot"), to_ns(look, "look")
        if self._look_ns <= 0:
            raise ScenarioError(
                f"{self.name}: look is {look} s; give a time above 0, because a program that waits "
                "in a loop would not end"
            )
        self._folder = None if folder is None else Path(folder)
        self._opens, self._other_ports = tuple(opens), other_ports
        self._environment, self._log = dict(environment or {}), log
        self._to = {
            name: p if isinstance(p, ProgramPort) else ProgramPort(p) for name, p in send.items()
        }
        self._from = dict(receive)
        for port in (*self._listens(), *self._from.values(), *self._opens):
            if not 0 < port < 65536:
                raise ScenarioError(f"{self.name}: the port {port} is not between 1 and 65535")
        self._requests = Requests(
            Layout.of([codecs[name] for name in send], prefix),
            {name: to.every for name, to in self._to.items()},
            clock_fields,
            self.name,
        )
        self._receives = Layout.of([codecs[name] for name in receive], prefix)
        self.inputs = self._requests.inputs
        self.outputs = self._receives.signals + Signals(Signal(MALFORMED))
        self.process: VirtualProcess | None = None
        """The running program; None before a run."""

    def _listens(self) -> list[int]:
        """Return the ports that the program opens for frames."""
        ports = [to.port for to in self._to.values()]
        for port in ports:
            if isinstance(port, str) and port not in self._from:
                raise UnknownName("received frame", port, self._from, self.name)
        return [port for port in ports if isinstance(port, int)]

    def fresh(self) -> Program:
        """Return a copy with a started program, for one run.

        Raises :class:`hitl.programs.ProgramError` if the program cannot be started.
        """
        out = copy(self)
        out._work = tempfile.mkdtemp(prefix=f"rtsim-{self.name}-")
        try:
            if self._folder is not None:
                shutil.copytree(self._folder, out._work, dirs_exist_ok=True)
            self.prepare(Path(out._work))
            out.process = self.start(Path(out._work))
            out._run(self._boot_ns)
        except BaseException:
            out.close()
            raise
        return out

    def prepare(self, folder: Path) -> None:
        """Prepare the working folder of a run; autopilots write their parameters here."""

    def start(self, folder: Path) -> VirtualProcess:
        """Start the program in its working folder ``folder``."""
        return VirtualProcess(
            self.command, [*self._listens(), *self._opens],
            [*self._from.values(), *self._opens], folder=folder,
            environment=self._environment, look_ns=self._look_ns, other_ports=self._other_ports,
            log=None if self._log is None else Path(self._log),
        )  # fmt: skip

    # -- the state of a run

    _work = ""
    _tick = 0
    _drift_ns = 0
    """Time by which the program's clock is ahead of the run, ns; not 0 after the run has waited."""

    def _begin(self) -> None:
        self._values = self._receives.signals.initial()
        self._pending: list[Datagram] = []
        self._missing: set[str] = set()
        self._arrived: set[str] = set()
        self._callers: dict[str, int] = {}
        """Ports from which the program has sent its frames, by their names."""
        self.malformed: dict[str, int] = {}
        """Number of malformed frames, by reason."""

    def _program_ns(self, tag: Tag) -> int:
        return self._boot_ns + self._drift_ns + tag.ns

    def _run(self, until_ns: int, first: bool = False) -> None:
        if self.process is None:
            raise ControllerError(f"{self.name} is not started; use the controller of fresh()")
        if "_values" not in vars(self):
            self._begin()
        pending, self._pending = self._pending, []
        known = len(self.process.notes)
        for datagram in self.process.run(until_ns, pending, first=first):
            self._take(datagram)
        for note in self.process.notes[known:]:
            if note.startswith("lost: ") and note.endswith("not opened"):
                raise ProgramError(
                    f"the program {self.name} did not receive a frame: {note}; correct the port in "
                    "send=, or give the program more time before the run: boot="
                )
        if not self.process.threads:
            raise self.process.ended()

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
            return Datagram(at_ns, self._callers.get(port, 0), data, self._from[port])
        return Datagram(at_ns, port, data)

    def _take(self, datagram: Datagram) -> None:
        if datagram.port in self._opens:
            return
        for frame in self.unpacked(datagram.data):
            reason = str(frame) if isinstance(frame, FrameError) else self._decode(frame, datagram)
            if reason:
                self.malformed[reason] = self.malformed.get(reason, 0) + 1

    def _decode(self, frame: Frame, datagram: Datagram) -> str:
        """Take the values of a frame; return the reason if it is malformed."""
        reason = f"data for port {datagram.port}, {_OTHER_PORT}"
        for codec, place in zip(self._receives.codecs, self._receives.places, strict=True):
            if self._from[codec.name] != datagram.port:
                continue
            if self.addressed and codec.identifier != frame.identifier:
                reason = ""
                continue
            try:
                codec.decode(frame.data, self._values[place])
            except FrameError as error:
                reason = str(error)
                continue
            self._missing.discard(codec.name)
            self._arrived.add(codec.name)
            self._callers[codec.name] = datagram.source
            return ""
        return reason

    # -- the steps

    def send(self, tag: Tag, inputs: Vector) -> None:
        if self._answer == AWAITED:
            self._missing = set(self._from)
        for codec, data in self._requests.due(self._tick, tag, inputs):
            self._pending.append(self._datagram(codec, data, self._program_ns(tag)))
        self._tick += 1

    def receive(self, tag: Tag, patience: float) -> Vector | None:
        until_ns = self._program_ns(tag) + round(patience * NS_PER_S)
        if self._answer == LATEST and patience <= 0:
            raise ControllerError(
                f"the answer of the program {self.name} is due at its request, so that it cannot "
                "depend on the request; give the controller a compute latency, or answer='awaited'"
            )
        if self._answer == LATEST:
            self._run(until_ns)
        else:
            assert self.process is not None
            while self._missing and (self._pending or self.process.now_ns < until_ns):
                self._run(until_ns, first=True)
            if self._missing:
                return None
        answer = np.empty(self.outputs.size)
        answer[:-1] = self._values
        answer[-1] = sum(self.malformed.values()) if self.malformed else 0
        return answer

    def advance(self, tag: Tag) -> None:
        """Do nothing: the program gets its time when its answer is due."""

    def anchor(self, tag: Tag) -> None:
        """Set the program's clock to ``tag``, after the run has waited for its answer."""
        assert self.process is not None
        self._drift_ns = self.process.now_ns - self._boot_ns - tag.ns

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
        """Why the answers are doubtful, one text for each problem.

        A problem is a part of the program without virtual time, a malformed frame, or a frame that
        the program has never sent.
        """
        if self.process is None or "_values" not in vars(self):
            return []
        wrong = [f"malformed frames: {count}, {why}" for why, count in self.malformed.items()]
        never = [name for name in self._from if name not in self._arrived]
        return self.process.notes + wrong + [f"the program sent no frame {n}" for n in never]

    def describe(self) -> dict[str, object]:
        return {
            "type": type(self).__name__,
            "command": [str(word) for word in self.command],
            "sha256": hash_of(self.command[0]),
            "answer": self._answer,
            "boot_ns": self._boot_ns,
            "sends": {
                codec.name: list(self._to[codec.name]) for codec in self._requests.layout.codecs
            },
            "receives": self._from,
        }

    def close(self) -> None:
        if self.process is not None:
            self.process.close()
        if self._work:
            shutil.rmtree(self._work, ignore_errors=True)
