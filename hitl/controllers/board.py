"""Run the controller of a scenario on a board.

``measured_clock`` measures the clock that Arduino code reads on an emulated board.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Mapping
from contextlib import closing, suppress
from copy import copy
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple, Self

import numpy as np

from hitl.boards.contract import BoardError, BoardLink
from hitl.boards.faulty import FaultyLink, faulty
from hitl.boards.known import DEFAULT_URL
from hitl.boards.paced import PacedBoard, Timing
from hitl.boards.serial_port import SerialLink
from hitl.boards.urls import open_link, parse_url
from hitl.controllers.c_controller import interface_of
from hitl.controllers.failure_log import FailureLog, LoggedController
from hitl.controllers.retrying_session import (
    CycleLine,
    RetryingSession,
    as_failure,
    line_to,
    wait_ns,
)
from hitl.controllers.sil import CASES
from hitl.firmware import firmware
from hitl.firmware.sketch import sketch_of
from hitl.interface import Field, Interface, InterfaceError, StepEntry, load_interface
from hitl.interface.file import AVR, EXACT, ArduinoClock
from hitl.interface.ranges import ranges_of
from hitl.protocol.codec import Codec
from hitl.protocol.line import Budget, nominal
from hitl.protocol.messages import HelloReply
from hitl.protocol.session import BoardReset, EventCounts, Session, SilentBoard, Stepped
from rtsim.components.controller import ControllerProtocol
from rtsim.core.clock import stopwatch
from rtsim.core.errors import ControllerError
from rtsim.core.signals import Signal, Vector
from rtsim.core.tag import NS_PER_S, Tag
from rtsim.engine.faults.line_kinds import LineFaults
from rtsim.record.measured import ARRIVED, TAKEN

# -- the line to the board


class PacedLink:
    """The line to an emulated board in real time, which a separate process runs."""

    def __init__(self, url: str, image: Path) -> None:
        self.pacing: Timing | None = None
        """Report on how well the emulator kept up with the wall clock; ``None`` until the line is
        closed.
        """
        self._served = PacedBoard(url, image)
        try:
            self.baud = round(self._served.baud) or parse_url(url).rate
            self._port = SerialLink(self._served.port, self.baud)
        except BaseException:
            self._served.close()
            raise
        self.send, self.receive, self.wait = self._port.send, self._port.receive, self._port.wait

    def reset(self) -> None:
        self._served.reset()

    def restart(self) -> None:
        """Reset the board, and discard bytes from before the reset.

        Raises :class:`BoardError` if the emulator has ended.
        """
        self._served.reset()
        self._served.status()  # returns after the reset
        self._port.receive()

    def count_anew(self) -> None:
        self._served.count_anew()

    @property
    def pid(self) -> int:
        return self._served.pid

    def close(self) -> None:
        if self.pacing is None:
            with suppress(BoardError):  # the error of an ended emulator was already reported
                self.pacing = self._served.status().timing
        try:
            self._port.close()
        finally:
            self._served.close()


def open_line(interface: Interface, url: str, image: Path | None, paced: bool) -> BoardLink:
    """Open the serial line to a board.

    An emulated board runs the Intel HEX file ``image``, or by default the firmware of
    ``interface``. With ``paced``, an emulated board runs in real time.
    """
    at = parse_url(url)
    if not at.emulated:
        return open_link(url)
    if image is None:
        image = firmware(interface, baud=at.baud, board=at.description).path
    return PacedLink(url, image) if paced else open_link(url, image)


def warms_up(url: str) -> bool:
    """Return whether the board at ``url`` has an emulator that is slow at first."""
    at = parse_url(url)
    return at.emulated and at.description.emulator(at.backend).warms_up


def build_of(interface: Interface, url: str) -> int | None:
    """Return the build that the board must report, or ``None`` for any build."""
    at = parse_url(url)
    if at.emulated or not interface.sources:
        return None  # a given image, or firmware without a C controller
    return sketch_of(interface, board=at.description).build


# -- warm-up before a paced run, for an emulator that compiles its code while it runs

MOST_NS, MOST_STEPS = NS_PER_S, 100
"""Limits of one round of the warm-up: duration and number of steps."""
ROUNDS = 5
"""Number of rounds. A reset creates a new chip in the emulator, for which some code is compiled
again.
"""
_BETWEEN_NS = 1_000_000


def warmed(
    open_link: Callable[[], BoardLink],
    meet: Callable[[BoardLink], ControllerProtocol],
    silence: float,
) -> BoardLink:
    """Open a link, and warm up the emulator of the board.

    If the warm-up fails, the result is a second link without warm-up. For example, a random input
    could end the emulator.
    """
    link = open_link()
    if not isinstance(link, PacedLink):
        return link
    try:
        warm_up(link, lambda: meet(link), silence)
    except (BoardError, ControllerError):
        link.close()
        return open_link()
    except BaseException:
        link.close()
        raise
    return link


def warm_up(link: PacedLink, meet: Callable[[], ControllerProtocol], silence: float) -> None:
    """Execute steps and reset the board, several times.

    The inputs are random values around the initial inputs. V8 compiles the parts of the emulator
    that were executed. A new kind of instruction makes V8 compile again.

    ``meet`` returns a controller that is connected to the board. ``silence`` is the longest time
    (s) to wait for an answer. After a failed step, all further steps have the initial inputs. The
    warm-up ends if the board does not answer. A failure of the warm-up is no error, because the run
    itself will report it. Raises :class:`BoardError` if the emulator ends.
    """
    rng, wide = np.random.default_rng(1), 1.0
    for _ in range(ROUNDS):
        controller = meet()
        initial, until = controller.inputs.initial(), stopwatch() + MOST_NS
        spread = wide * np.maximum(1.0, np.abs(initial))
        answered = True
        try:
            for step in range(1, MOST_STEPS + 1):
                tag, inputs = Tag(step * _BETWEEN_NS), rng.normal(initial, spread)
                controller.send(tag, _allowed(controller, inputs))
                answered = controller.receive(tag, min(silence, MOST_NS / NS_PER_S)) is not None
                if not answered or stopwatch() > until:
                    break
        except ControllerError:
            wide = 0.0
        link.restart()
        if not answered:
            return


def _allowed(controller: ControllerProtocol, inputs: Vector) -> Vector:
    interface = interface_of(controller)
    if interface is None:
        return inputs
    ranges = ranges_of(interface, math.inf)
    return np.array([one.fitted(x) for one, x in zip(ranges, inputs.tolist(), strict=True)])


_CLOCKS = {
    False: "execution: target's, as it reports; stamps: an emulated target's, in ns since the run "
    "began, else sent and received are the host's, begun is sent plus the request on the wire",
    True: "execution: target's, as it reports; sent and received: host's; begun is sent plus the "
    "request's time on the wire",
}


class _Answer(NamedTuple):
    outputs: Vector
    modelled_ns: int
    """Modelled time of the exchange (ns), with wire time, execution and repeats."""
    stamps: tuple[int, int, int, int]


class BoardController(LoggedController):
    """The controller of an interface file on a board.

    :meth:`fresh` connects to the board and starts the controller. With ``paced``, the wall clock
    decides whether an answer is late. Without ``paced``, the run is in lockstep, and the board's
    own time (``own_time``) determines whether an answer is late. An emulated board counts its
    cycles. For a real board, this time is the reported execution time plus the time of the bytes on
    the line.

    Args:
        source: The interface or the path of its file.
        values: Parameters by name.
        url: The board, ``board:NAME`` or ``serial://PORT``.
        firmware: Intel HEX file for an emulated board; by default the firmware of the interface.
        link: Function that opens the line, instead of the line of ``url``.
        silence: Longest time without an answer to a request, s.
        patience: Longest time for connecting, starting and stopping, s.
        cases: Folder in which a failed step is saved; ``None`` to save none.
        build: Build that the board must report. By default, a real board must report the build of
            the interface's sources.
        warnings: Compiler warnings about the C code.
        kept: Values of parameters that only the C code declares.
    """

    def __init__(
        self,
        source: Interface | str | Path,
        values: Mapping[str, object] | None = None,
        *,
        url: str = DEFAULT_URL,
        firmware: Path | None = None,
        link: Callable[[], BoardLink] | None = None,
        silence: float = 10.0,
        patience: float = 5.0,
        cases: Path | None = CASES,
        paced: bool = False,
        build: int | None = None,
        warnings: str = "",
        kept: Mapping[str, object] | None = None,
    ) -> None:
        interface = source if isinstance(source, Interface) else load_interface(source)
        super().__init__(interface, values, silence)
        self.kept: dict[str, object] = dict(kept or {})
        """Values of parameters that exist only in the C code, by name. The board receives every
        parameter; the value is 0 if none is given.
        """
        self.url, self.firmware, self.link = url, firmware, link
        self.patience, self.paced = patience, paced
        self.own_time = not paced
        self.warnings = warnings
        at = parse_url(url)
        self._line = at.description.line
        self._stamped = not paced and at.emulated
        """True if each received byte is stamped with the processor cycle of its arrival."""
        self._cases, self._build = cases, build
        self._prepare()

    def _prepare(self) -> None:
        super()._prepare()
        at = parse_url(self.url)
        self.baud = at.rate
        self._silence_ns = round(self.silence * NS_PER_S)
        self._patience_ns = round(self.patience * NS_PER_S)
        self.p = self.parameters.initial({**self.kept, **self.values})
        self.cycles, self.exchange_ns = array("q"), array("q")
        """Execution time (cycles) and time of the exchange (ns) for each step. An exchange lasts
        from the first byte of the request to the last byte of the reply.
        """
        self._measured += [self.cycles, self.exchange_ns]
        self.stack = 0
        """Greatest stack use, bytes."""
        self._failures = FailureLog(
            self.interface, self.p, "board", self._cases, "to repeat it on the host"
        )
        self._session = Session(
            self.interface,
            patience_ns=self._silence_ns,
            connect_patience_ns=self._patience_ns,
            build=self._build,
        )
        self._open: RetryingSession | None = None
        self._link: BoardLink | None = None
        self._spoiled: FaultyLink | None = None
        self._budget = Budget.of(
            self.interface, self.baud, clock_hz=at.description.clock_hz, line=self._line
        )
        self._asked = Tag(-1)
        self._answer: _Answer | None = None
        self._stamps, self._sent_ns = (0, 0, 0, 0), 0

    @property
    def board(self) -> HelloReply | None:
        """The board's identity; ``None`` before the connection."""
        return self._session.board

    @property
    def budget(self) -> Budget:
        """Time budget of an exchange, from the longest step so far."""
        return self._budget

    @property
    def counts(self) -> EventCounts:
        """Counts of received frames and of irregular events."""
        return self._session.counts

    @property
    def pacing(self) -> Timing | None:
        """Timing of an emulated board in real time; ``None`` before ``close``."""
        return getattr(self._link, "pacing", None)

    @property
    def begun_ns(self) -> list[int]:
        """Times (ns) from the latest request to each of its repetitions on the line."""
        return [ns - self._sent_ns for ns in self._running().begun_ns]

    def fresh(self) -> Self:
        """Return a new, initialised controller on a new connection.

        Raises ``ControllerError`` if the board cannot be reached or is not the expected one.
        """
        prototype = copy(self)
        if self._build is None and self.link is None:
            prototype._build = build_of(self.interface, self.url)
        out = prototype._copy()
        prototype._cases = None
        link: BoardLink | None = None
        try:
            if self.link is not None:
                link = self.link()
            elif warms_up(self.url):
                link = warmed(
                    self.open_link,
                    lambda at: prototype._copy()._meet(at),
                    self.silence,
                )
            else:
                link = self.open_link()
            out._meet(link)
        except BaseException as error:
            if link is not None:
                link.close()
            if isinstance(error, BoardError):
                raise as_failure(error, f"{self.name} on {self.url}: ") from None
            raise
        return out

    def describe(self) -> dict[str, object]:
        return {
            "type": type(self).__name__,
            **self.interface.describe(),
            "url": self.url,
            "paced": self.paced,
            "clocks": _CLOCKS[self.paced],
            "received": ARRIVED if self._stamped else TAKEN,
            "reply_ns": self._budget.reply_ns,
            "handling_ns": self._budget.handling_ns,
        }

    def open_link(self) -> BoardLink:
        return open_line(self.interface, self.url, self.firmware, self.paced)

    def _meet(self, link: BoardLink) -> Self:
        session, line = self._session, line_to(link, self.paced, self._silence_ns)
        self._link = link
        first = min(self._patience_ns, self._silence_ns) // 4
        self._open = talk = RetryingSession(session, line, first, self._stepped)
        session.connect(line.now())
        self._converse(talk, 2 * self._patience_ns, "answer")
        if (made := getattr(link, "baud", 0)) and parse_url(self.url).baud is None:
            self.baud = nominal(made)
        self._budget = self._budgeted()
        talk.expect(self._budget, self.baud)
        session.start(self.p, line.now())
        self._converse(talk, self._patience_ns, "start")
        talk.most_ns = self._budget.period_ns
        talk.repeat_ns = max(talk.most_ns, line.repeat_ns)  # the first step may take a whole period
        session.count_anew()
        if isinstance(link, PacedLink):
            link.count_anew()
        line.zero()
        return self

    def spoil(self, line: LineFaults) -> None:
        """Apply faults to the bytes on the line; call this method before the first request."""
        talk = self._running()
        assert self._link is not None
        self._spoiled = faulty(self._link, line)
        talk.line = line_to(self._spoiled, self.paced, self._silence_ns)
        talk.line.zero()

    def _converse(self, talk: RetryingSession, patience_ns: int, what: str) -> None:
        now = talk.line.now()
        talk.ask(now)
        talk.listen(now + patience_ns)
        error = talk.error
        if error is None and talk.session.waiting:
            error = SilentBoard(f"the board did not {what} within {self.patience:g} s")
        if error is not None:
            talk.error = error
            error.args = (f"{self.name} on {self.url}: {error}",)
            raise error

    def stamps(self) -> tuple[int, int, int, int]:
        """Return the times (ns) of the latest answer: sent, begun, ended, received.

        :meth:`describe` reports the clock of each stamp.
        """
        return self._stamps

    def advance(self, tag: Tag) -> None:
        """Run an emulated board up to ``tag``."""
        talk = self._running()
        reach = talk.line.reach(tag)
        if reach is not None:
            talk.drift(reach)

    def anchor(self, tag: Tag) -> None:
        """Set the board's time to ``tag``."""
        self._running().line.anchor(tag)

    def send(self, tag: Tag, inputs: Vector) -> None:
        """Request a step.

        If the request cannot be sent, ``receive`` raises the error.
        """
        talk = self._running()
        self._failures.add(tag, inputs)
        self._asked, self._answer = tag, None
        self.advance(tag)
        if talk.error is not None:
            return
        now = self._sent_ns = talk.line.now()
        try:
            self._session.step(tag, inputs.copy(), now)
        except ControllerError as error:
            talk.error = error
        else:
            talk.ask(now)

    def receive(self, tag: Tag, patience: float) -> Vector | None:
        """Return the outputs (n,), or ``None`` if no answer arrived in time.

        ``patience`` is the time to wait (s). Raises :class:`ControllerError` if the step fails.
        """
        if tag != self._asked:
            raise ControllerError(
                f"receive() was called for the request of {tag}, but the pending request is "
                f"that of {self._asked}"
            )
        talk, allowed_ns = self._running(), round(patience * NS_PER_S)
        if self._answer is None:
            talk.listen(talk.line.until(tag, allowed_ns))
        if talk.error is not None:
            raise self.explained(tag, talk.error)
        answer = self._answer
        if answer is None or not talk.line.in_time(answer.modelled_ns, allowed_ns):
            self._failures.history.heard(None)
            return None
        self._failures.history.heard(answer.outputs)
        self._stamps = answer.stamps
        return answer.outputs

    def _stepped(self, step: Stepped, ns: int) -> None:
        talk, budget = self._running(), self._budget
        assert self._session.board is not None
        took = step.cycles * NS_PER_S // self._session.board.clock_hz
        modelled = budget.request_ns + budget.handling_ns + took + budget.reply_ns
        if modelled < self._waited(
            talk.repeat_ns
        ):  # the request was lost: count the cost of its repeats
            modelled += self._waited(max(2 * budget.exchange_ns, CycleLine.repeat_ns))
        self.cycles.append(step.cycles)
        self.took_ns.append(took)
        self.exchange_ns.append(ns - self._sent_ns)
        self.stack = max(self.stack, step.stack)
        if took > budget.execution_ns:
            self._budget = budget = self._budgeted(took)
            talk.repeat_ns = max(2 * budget.exchange_ns, talk.line.repeat_ns)
        # an answer that was read only when it was due has no time stamp: compute its times
        ended = ns - budget.reply_ns if self._stamped else self._sent_ns + budget.request_ns + took
        self._answer = _Answer(step.outputs, modelled, (self._sent_ns, ended - took, ended, ns))

    def _budgeted(self, execution_ns: int = 0) -> Budget:
        assert self._session.board is not None
        clock_hz = self._session.board.clock_hz
        return Budget.of(self.interface, self.baud, execution_ns, clock_hz, self._line)

    def _waited(self, first_ns: int) -> int:
        talk = self._running()
        return sum(wait_ns(first_ns, k, talk.most_ns) for k in range(talk.repeats))

    def silent(self, tag: Tag) -> ControllerError:
        """Return the error for a request without an answer."""
        text = (
            f"the board did not answer within {self.silence:g} s of its own time; look for an "
            "endless loop in the C code"
        )
        return self.explained(tag, SilentBoard(text))

    def explained(self, tag: Tag, error: ControllerError) -> ControllerError:
        """Return ``error`` with the inputs of the failed step, and how to repeat it on the host."""
        if isinstance(error, BoardReset):
            self._failures.again = "to repeat the steps on the host, without the reset"
        by = "" if self._spoiled is None else self._spoiled.reset_by
        if by and isinstance(error, BoardReset) and not self._failures.failed:
            text = str(error).rpartition("; ")[0]  # the injected fault is the cause
            error.args = (f"{text}; it was reset by {by}",)
        return super().explained(tag, error)

    def close(self) -> None:
        """Terminate the controller and close the line."""
        talk = self._open
        if talk is None:
            return
        try:
            if talk.error is None and not self._failures.failed:
                self._session.leave()
                self._session.stop(talk.line.now())
                self._converse(talk, self._patience_ns, "stop")
        finally:
            self._open = None
            talk.line.close()

    def _running(self) -> RetryingSession:
        if self._open is None:
            raise ControllerError(
                f"{self.name} is not connected to a board; use the controller that fresh() returns"
            )
        return self._open


# SIL needs the values of micros() at the initialization and at the first step of Arduino code.
# millis() has steps of about 1 ms, and the position of the first tick within such a step decides
# whether a controller sees a period of whole milliseconds as passed.

_BYTES = 4  # of a reading


def measured_clock(interface: Interface, url: str = DEFAULT_URL) -> ArduinoClock:
    """Measure the clock of Arduino code on an emulated board.

    The firmware is built twice. In place of its outputs, the firmware sends a reading of
    ``micros()``. All messages have the lengths and therefore the times of the controller's
    firmware. One build reads the clock before the initialisation, and another one before the first
    step. The call of ``micros()`` itself takes some µs.

    Raises ``InterfaceError`` for code that is not Arduino code, and ``ControllerError`` for a real
    board.
    """
    if interface.language.clock is None:
        raise InterfaceError(
            f"{interface.place('', 'language')}: {interface.name} is not Arduino code, so it has "
            "no clock to measure; if it is Arduino code, write arduino = true"
        )
    at = parse_url(url)
    if not at.emulated:
        raise ControllerError(
            f"the times at {url} change from run to run; give an emulated board, such as "
            f"{DEFAULT_URL}"
        )
    setup, first = (_reading(_with_clock(interface, first), url) for first in (False, True))
    return ArduinoClock(AVR if at.description.processor == AVR else EXACT, setup, first)


def _reading(interface: Interface, url: str) -> int:
    controller = BoardController(interface, url=url, cases=None).fresh()
    said = bytearray()
    with closing(controller):
        while len(said) < _BYTES:
            tag = Tag(interface.period.tick(len(said) // controller.outputs.size))
            said += bytes(map(int, controller.step(tag, controller.inputs.initial())))
    return int.from_bytes(said[:_BYTES], "little")


def _with_clock(interface: Interface, first_step: bool) -> Interface:
    count = Codec(interface.output_fields).bytes
    names = [f"rtsim_byte_{k}" for k in range(count)]
    readings = [Field(Signal(name, type="uint8"), name, declared=True, line=0) for name in names]
    kept = [_declaration(field) for field in interface.output_fields if field.declared]
    time, read = "uint32_t rtsim_time", "rtsim_time = micros()"
    byte = f"reinterpret_cast<unsigned char *>(&rtsim_time)[(rtsim_at + {{}}) % {_BYTES}]"
    said = [f"{name} = {byte.format(k)}" for k, name in enumerate(names)]
    begin = f"static {time}; if (rtsim_at == 0) {read}" if first_step else ""
    return replace(
        interface,
        objects=(*kept, *interface.objects, *([] if first_step else [time])),
        initialize=interface.initialize if first_step else (read, *interface.initialize),
        steps=(
            *map(StepEntry, ("static unsigned char rtsim_at", begin)),
            *interface.steps,
            *map(StepEntry, [*said, f"rtsim_at += {count}"]),
        ),
        output_fields=tuple(readings),
    )  # fmt: skip


def _declaration(field: Field) -> str:
    dimensions = "".join(f"[{n}]" for n in field.signal.shape)
    return f"rtsim_{field.signal.type} {field.signal.name}{dimensions}"
