"""A protocol session on a line: sends requests, repeats lost ones, and keeps the first error."""

from __future__ import annotations

from collections.abc import Callable

from hitl.boards.contract import BoardError as LinkError
from hitl.controllers.board_line import BoardLine
from hitl.protocol.errors import BoardFailure
from hitl.protocol.events import Failed, Stepped
from hitl.protocol.line import BITS_PER_BYTE, Budget, wire_ns
from hitl.protocol.session import HELLO_EVERY_NS, Session, SessionState
from rtsim.components.tasks import FAR
from rtsim.core.errors import ControllerError
from rtsim.core.tag import NS_PER_S


def wait_ns(first_ns: int, repeats: int, most_ns: int) -> int:
    """Return the time (ns) between repeat number ``repeats`` of a request and the next repeat."""
    return min(first_ns << repeats, max(first_ns, most_ns))


def as_failure(error: LinkError, before: str = "") -> BoardFailure:
    """Return a line error as a controller error, whose text begins with ``before``."""
    out = BoardFailure(f"{before}{error}")
    out.environment = error.environment
    return out


class Conversation:
    """A session with a board over a line; ``stepped`` gets each answer and its time of arrival.

    A request that is not answered after ``repeat_ns`` is sent again, with the same sequence number.
    A board that has already answered the request sends its answer again.  The board may be
    computing, so each wait is twice as long as the last, but at most ``most_ns``, so that the
    session soon notices when a disturbed line works again.
    """

    def __init__(
        self,
        session: Session,
        line: BoardLine,
        repeat_ns: int,
        stepped: Callable[[Stepped, int], None],
    ) -> None:
        self.session, self.line, self.repeat_ns = session, line, repeat_ns
        self.most_ns = FAR
        self.error: ControllerError | None = None
        """The first error; the session ends with it."""
        self.repeats = 0
        """Number of repeats of the latest request."""
        self.begun_ns: list[int] = []
        """When each copy of the latest request began on the line, after its leading zero bytes, ns.
        """
        self._stepped = stepped
        self._byte_ns = self._reply_ns = 0
        self._baud = NS_PER_S
        self._again_ns = FAR
        self._reply_bytes = self._rest = 1

    def expect(self, budget: Budget, baud: int) -> None:
        """Set the length of replies on the wire, from the time budget."""
        self._reply_bytes, self._reply_ns = budget.reply_bytes, budget.reply_ns
        self._byte_ns = BITS_PER_BYTE * NS_PER_S // baud
        self._baud = baud

    def ask(self, now_ns: int) -> None:
        """Send the request that the session has prepared."""
        self.repeats, self._again_ns = 0, now_ns + self.repeat_ns
        self._rest = self._reply_bytes
        self.begun_ns.clear()
        try:
            self._speak(self.session.outgoing(), now_ns)
        except LinkError as error:
            self.error = as_failure(error)

    def listen(self, until_ns: int) -> None:
        """Let time pass until the request is answered, an error occurs, or ``until_ns`` passes."""
        self._pass(until_ns, stop=True)

    def drift(self, until_ns: int) -> None:
        """Let time pass up to ``until_ns``, even after the answer, unless an error occurs."""
        self._pass(until_ns, stop=False)

    def _pass(self, until_ns: int, stop: bool) -> None:
        line, session = self.line, self.session
        try:
            while self.error is None and (session.waiting or not stop):
                rest_ns = (self._rest - 1) * self._byte_ns if stop else None
                for ns, data in line.run(min(until_ns, self._next_ns()), rest_ns):
                    self._rest -= len(data)
                    self._again_ns = max(self._again_ns, ns + self._reply_ns)  # a reply is arriving
                    self._hear(data, ns)
                if session.waiting:
                    self._urge()
                if line.reached(until_ns):
                    return
        except LinkError as error:
            self.error = as_failure(error)

    def _next_ns(self) -> int:
        """Return the time at which to repeat the request if nothing arrives."""
        if self.session.state is SessionState.CONNECTING:
            return self.line.now() + HELLO_EVERY_NS
        return self._again_ns if self.session.waiting else FAR

    def _urge(self) -> None:
        """Repeat a request whose reply is overdue; fail after the session's timeout."""
        session, now = self.session, self.line.now()
        for event in session.poll(now):
            assert isinstance(event, Failed)
            self.error = event.error
            return
        if session.state is SessionState.READY and self.line.reached(self._again_ns):
            session.repeat()
            self.repeats += 1
            self._again_ns = now + wait_ns(self.repeat_ns, self.repeats, self.most_ns)
            self._rest = self._reply_bytes
        if data := session.outgoing():
            self._speak(data, now)

    def _speak(self, data: bytes, now_ns: int) -> None:
        zeros = len(data) - len(data.lstrip(b"\0"))
        self.begun_ns.append(now_ns + wire_ns(zeros, self._baud))
        self.line.send(data)

    def _hear(self, data: bytes, ns: int) -> None:
        for event in self.session.receive(data, ns):
            if isinstance(event, Stepped):
                self._stepped(event, ns)
            elif isinstance(event, Failed) and self.error is None:
                self.error = event.error
