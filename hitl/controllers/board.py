"""A controller that runs on a board, behind rtsim's Controller interface."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from hitl.boards.contract import BoardError as LinkError
from hitl.boards.contract import BoardLink
from hitl.boards.faulty import FaultyLink, faulty
from hitl.boards.known import DEFAULT_URL
from hitl.boards.paced import Timing
from hitl.boards.urls import parse_url
from hitl.controllers.board_line import CycleLine, line_to
from hitl.controllers.board_link import ServedLink, build_of, link_of, warms_up
from hitl.controllers.case import Case
from hitl.controllers.conversation import Conversation, as_failure, wait_ns
from hitl.controllers.evidence import Evidence
from hitl.controllers.sil import CASES
from hitl.controllers.warming import warmed
from hitl.interface import Interface, load_interface
from hitl.protocol.errors import BoardReset, SilentBoard
from hitl.protocol.events import EventCounts, Stepped
from hitl.protocol.line import Budget, nominal
from hitl.protocol.messages import HelloReply
from hitl.protocol.session import Session
from rtsim.components.request_log import feed
from rtsim.core.errors import ControllerError
from rtsim.core.signals import Signals, Vector
from rtsim.core.tag import NS_PER_S, Tag
from rtsim.engine.faults.line_kinds import LineFaults
from rtsim.record.measured import ARRIVED, TAKEN

_CLOCKS = {
    False: "execution: target's, as it reports; stamps: an emulated target's, in ns since the run "
    "began, else sent and received are the host's, begun is sent plus the request on the wire",
    True: "execution: target's, as it reports; sent and received: host's; begun is sent plus the "
    "request's time on the wire",
}


class _Answer(NamedTuple):
    outputs: Vector
    modelled_ns: int
    """Modelled time of the exchange, ns: wire time, execution and repeats."""
    stamps: tuple[int, int, int, int]


class BoardController:
    """The controller of an interface file on a board; :meth:`fresh` connects to it and starts it.

    ``values``: parameters by name.  ``url``: the board, ``board:NAME`` or ``serial://PORT``.
    ``firmware``: an Intel HEX file for an emulated board (``None``: the firmware of the interface).
    ``link``: a function that opens the line, instead of the line of ``url``.  ``silence``: longest
    time without an answer to a request, s.  ``patience``: longest time for connecting, starting and
    stopping, s.  ``cases``: folder in which a step that fails is saved (``None``: it is not saved).
    ``build``: the build that the board must report (``None``: a board at a port must report the
    build of the interface's sources).  ``warnings``: compiler warnings about the C code, for
    reports.  ``kept``: values of the parameters that only the C code has, by name.

    With ``paced`` the wall clock decides whether an answer is late.  Without ``paced`` the run is
    in lockstep and the board's own time decides (``own_time``): the cycles of an emulated board;
    for a real board, the execution time that it reports plus the bytes on the wire.
    """

    outside = True

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
        self.interface = source if isinstance(source, Interface) else load_interface(source)
        self.inputs: Signals = self.interface.inputs
        self.outputs: Signals = self.interface.outputs
        self.parameters: Signals = self.interface.parameters
        self.values: dict[str, object] = dict(values or {})
        self.kept: dict[str, object] = dict(kept or {})
        """Values of the parameters that only the C code has, by name.  The board receives every
        parameter, and 0 for a parameter without a value."""
        self.p = self.parameters.initial({**self.kept, **self.values})
        self.name = self.interface.name
        self.url, self.firmware, self.link = url, firmware, link
        self.silence, self.patience, self.paced = silence, patience, paced
        self.own_time = not paced
        self.warnings = warnings
        at = parse_url(url)
        self._line = at.description.line
        self._stamped = not paced and at.emulated
        """True if each received byte is stamped with the processor cycle in which it arrived."""
        self.took_ns, self.cycles, self.exchange_ns = array("q"), array("q"), array("q")
        """For each step: the execution time in ns of the board's clock, the execution time in
        cycles, and the time of the exchange in ns, from the first byte of the request to the last
        byte of the reply."""
        self.stack = 0
        """The largest number of bytes of stack that were in use."""
        self.baud = at.rate
        self._cases, self._build = cases, build
        self._evidence = Evidence(
            self.interface, self.p, "board", cases, "to repeat it on the host"
        )
        self._silence_ns, self._patience_ns = round(silence * NS_PER_S), round(patience * NS_PER_S)
        self._session = Session(
            self.interface,
            patience_ns=self._silence_ns,
            connect_patience_ns=self._patience_ns,
            build=build,
        )
        self._open: Conversation | None = None
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
        """The board's reply to HELLO; ``None`` before the connection."""
        return self._session.board

    @property
    def budget(self) -> Budget:
        """Time budget of one exchange, with the longest step so far."""
        return self._budget

    @property
    def counts(self) -> EventCounts:
        """Counts of received messages other than answers, since the controller was started."""
        return self._session.counts

    @property
    def pacing(self) -> Timing | None:
        """How well an emulated board kept up with the wall clock; ``None`` until it is closed."""
        return getattr(self._link, "pacing", None)

    @property
    def begun_ns(self) -> list[int]:
        """When each copy of the latest request began on the line, ns after the request was sent."""
        return [ns - self._sent_ns for ns in self._running().begun_ns]

    def fresh(self) -> BoardController:
        """Return a new controller on a new connection, initialised with the parameters.

        Raises :class:`ControllerError` if the board cannot be reached or is not the expected one.
        """
        build = self._build
        if build is None and self.link is None:
            build = build_of(self.interface, self.url)
        out = self._unconnected(build, self._cases)
        link: BoardLink | None = None
        try:
            if self.link is not None:
                link = self.link()
            elif warms_up(self.url):
                link = warmed(
                    self.open_link,
                    lambda at: self._unconnected(build, None)._meet(at),
                    self.silence,
                )
            else:
                link = self.open_link()
            out._meet(link)
        except BaseException as error:
            if link is not None:
                link.close()
            if isinstance(error, LinkError):
                raise as_failure(error, f"{self.name} on {self.url}: ") from None
            raise
        return out

    def _unconnected(self, build: int | None, cases: Path | None) -> BoardController:
        return BoardController(
            self.interface, self.values, url=self.url, firmware=self.firmware, link=self.link,
            build=build, silence=self.silence, patience=self.patience, cases=cases,
            paced=self.paced, warnings=self.warnings, kept=self.kept,
        )  # fmt: skip

    def describe(self) -> dict[str, object]:
        """Return a description for the header of a recording."""
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
        """Open the line to the board at ``url``."""
        return link_of(self.interface, self.url, self.firmware, self.paced)

    def _meet(self, link: BoardLink) -> BoardController:
        """Connect, start the controller, and return it."""
        session, line = self._session, line_to(link, self.paced, self._silence_ns)
        self._link = link
        first = min(self._patience_ns, self._silence_ns) // 4
        self._open = talk = Conversation(session, line, first, self._stepped)
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
        if isinstance(link, ServedLink):
            link.count_anew()
        line.zero()
        return self

    def spoil(self, line: LineFaults) -> None:
        """Apply faults to the bytes of the line; must be called before the first request."""
        talk = self._running()
        assert self._link is not None
        self._spoiled = faulty(self._link, line)
        talk.line = line_to(self._spoiled, self.paced, self._silence_ns)
        talk.line.zero()

    def _converse(self, talk: Conversation, patience_ns: int, what: str) -> None:
        """Send a request outside of the run and wait for its answer; errors are raised."""
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
        """Return the times of the latest answer, ns: sent, begun, ended, received.

        :meth:`describe` says which clock gives each stamp.
        """
        return self._stamps

    def advance(self, tag: Tag) -> None:
        """Let an emulated board run up to ``tag``, and take the bytes that it sends meanwhile."""
        talk = self._running()
        reach = talk.line.reach(tag)
        if reach is not None:
            talk.drift(reach)

    def anchor(self, tag: Tag) -> None:
        """Set the board's time to ``tag``."""
        self._running().line.anchor(tag)

    def send(self, tag: Tag, inputs: Vector) -> None:
        """Request a step; :meth:`receive` raises the error if the request cannot be sent."""
        talk = self._running()
        self._evidence.add(tag, inputs)
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
        """Return the answer (n,) to the request of ``tag``; ``None`` if it does not arrive in time.

        ``patience`` is the time to wait, s.  Raises :class:`ControllerError` if the step fails.
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
            self._evidence.history.heard(None)
            return None
        self._evidence.history.heard(answer.outputs)
        self._stamps = answer.stamps
        return answer.outputs

    def _stepped(self, step: Stepped, ns: int) -> None:
        """Store the answer to a step; its last byte arrived at ``ns``."""
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
        # An answer that was read when it was due has no time stamp, so compute its times.
        ended = ns - budget.reply_ns if self._stamped else self._sent_ns + budget.request_ns + took
        self._answer = _Answer(step.outputs, modelled, (self._sent_ns, ended - took, ended, ns))

    def _budgeted(self, execution_ns: int = 0) -> Budget:
        """Return the time budget, computed with the clock of the connected board."""
        assert self._session.board is not None
        clock_hz = self._session.board.clock_hz
        return Budget.of(self.interface, self.baud, execution_ns, clock_hz, self._line)

    def _waited(self, first_ns: int) -> int:
        """Return how long the latest request's repeats have waited, the first for ``first_ns``."""
        talk = self._running()
        return sum(wait_ns(first_ns, k, talk.most_ns) for k in range(talk.repeats))

    def silent(self, tag: Tag) -> ControllerError:
        """Return the error for a request that was not answered within ``silence``."""
        text = (
            f"the board did not answer within {self.silence:g} s of its own time; look for an "
            "endless loop in the C code"
        )
        return self.explained(tag, SilentBoard(text))

    def explained(self, tag: Tag, error: ControllerError) -> ControllerError:
        """Return ``error`` with the inputs of its step, and how to repeat the step on the host."""
        if isinstance(error, BoardReset):
            self._evidence.again = "to repeat the steps on the host, without the reset"
        by = "" if self._spoiled is None else self._spoiled.reset_by
        if by and isinstance(error, BoardReset) and not self._evidence.failed:
            text = str(error).rpartition("; ")[0]  # the injected fault is the cause
            error.args = (f"{text}; it was reset by {by}",)
        return self._evidence.explained(tag, error)

    def case(self, error: str = "") -> Case:
        """Return a case with all steps so far, with which the steps can be run again."""
        return self._evidence.case(error)

    def save(self) -> dict[str, Any]:
        """Return all steps since the start, because the memory of the board is not known."""
        return self._evidence.history.save()

    def restore(self, saved: dict[str, Any]) -> None:
        """Repeat all saved steps on a board that has just been started."""
        feed(saved, self._evidence.history, self.name, self.send, self._again)
        for measured in (self.took_ns, self.cycles, self.exchange_ns):
            del measured[:]

    def _again(self, tag: Tag) -> Vector:
        answer = self.receive(tag, self.silence)
        if answer is None:
            raise self.silent(tag)
        return answer

    def close(self) -> None:
        """Terminate the controller and close the line; raises an error if terminating fails."""
        talk = self._open
        if talk is None:
            return
        try:
            if talk.error is None and not self._evidence.failed:
                self._session.leave()
                self._session.stop(talk.line.now())
                self._converse(talk, self._patience_ns, "stop")
        finally:
            self._open = None
            talk.line.close()

    def _running(self) -> Conversation:
        if self._open is None:
            raise ControllerError(
                f"{self.name} is not connected to a board; use the controller that fresh() returns"
            )
        return self._open
