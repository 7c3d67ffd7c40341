"""Host side of a session with a board, without input, output or clock.

The caller passes the time as ``now_ns``.  :meth:`Session.outgoing` returns the bytes to send,
:meth:`Session.receive` processes received bytes, and :meth:`Session.poll` checks the timeouts.  At
most one request is pending::

    idle --connect--> connecting --HELLO--> ready --start--> ready, started --step--> ...
                                 any state --Failed--> failed --connect--> connecting

Received bytes never raise an error.  A call that the state does not allow raises
:class:`OutOfTurn`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple, TypeAlias

import numpy as np

from hitl.interface import Interface
from hitl.protocol.clocks import RoundTrip
from hitl.protocol.codec import Codec, name_hash, wire_schema
from hitl.protocol.framing import Parser, ProtocolFrame, decode_message, encode_message
from hitl.protocol.messages import (
    KINDS,
    LAYOUTS,
    VERSION,
    Code,
    Error,
    Hello,
    HelloReply,
    Message,
    MessageKind,
    Ping,
    Pong,
    Reset,
    Start,
    StartReply,
    StepMessage,
    StepReply,
    Stop,
    StopReply,
    Why,
)  # fmt: skip
from hitl.worker.ending import refusal
from rtsim.core.errors import ControllerError, RtsimError
from rtsim.core.signals import Signals, Vector
from rtsim.core.tag import NS_PER_S, Tag


class BoardFailure(ControllerError):
    """The board failed, or its firmware is not the expected one."""


class SilentBoard(BoardFailure):
    """The board did not answer within the timeout."""


class OldFirmware(BoardFailure):
    """The firmware has another version of the protocol, or is another build."""


class WrongController(BoardFailure):
    """The board runs another controller than that of the interface file."""


class BoardReset(BoardFailure):
    """The board restarted during a run."""


class BoardRefused(BoardFailure):
    """The board answered a request with an error."""


class Connected(NamedTuple):
    """Event: the expected board has answered."""

    board: HelloReply


class Started(NamedTuple):
    """Event: the board has initialised the controller."""

    round_trip_ns: int


class Stepped(NamedTuple):
    """Event: the board answered a step.

    The board has measured ``cycles`` (execution time) and ``stack`` (bytes). ``unanswered`` counts
    earlier steps whose replies never arrived.
    """

    tag: Tag
    outputs: Vector
    cycles: int
    stack: int
    counter: int
    unanswered: int
    round_trip_ns: int


class Ponged(NamedTuple):
    """Event: the board answered a ping.  :func:`hitl.protocol.clocks.fit` uses ``trip``."""

    trip: RoundTrip


class Stopped(NamedTuple):
    """Event: the controller was terminated after ``counter`` steps."""

    counter: int


class Failed(NamedTuple):
    """Event: the session failed.

    The caller raises ``error`` or connects again.
    """

    error: BoardFailure | ControllerError


Event: TypeAlias = Connected | Started | Stepped | Ponged | Stopped | Failed


@dataclass
class EventCounts:
    """Counts of received frames and of irregular events."""

    frames: int = 0
    """All frames with a valid checksum."""
    garbage: dict[Why, int] = field(default_factory=lambda: dict.fromkeys(Why, 0))
    """Malformed frames after the connection, by cause."""
    booting: int = 0
    """Malformed frames while connecting; a booting board may send text or parts of frames."""
    duplicate: int = 0
    """Further replies to a request that was already answered."""
    stale: int = 0
    """Replies to an abandoned request, and repeated reset notices."""
    meaningless: int = 0
    """Valid frames of an unknown kind, of a wrong length, or of a kind that boards never send."""
    abandoned: int = 0
    repeated: int = 0


REPLY = 0x80
"""Bit that is set in the kind of every frame from a board."""


class PendingRequest(NamedTuple):
    """A request, with the data that are needed to check its answer."""

    message: Message
    sequence: int
    sent_ns: int
    data: bytes
    tag: Tag
    values: Vector

    @property
    def name(self) -> str:
        return KINDS[type(self.message)].name

    def answered_by(self, frame: ProtocolFrame, message: Message) -> bool:
        reply = KINDS[type(self.message)] | REPLY
        if frame.sequence != self.sequence or frame.kind not in (reply, MessageKind.ERROR):
            return False
        asked = self.message
        return not (isinstance(message, Pong) and isinstance(asked, Ping)) or (
            message.nonce == asked.nonce
        )


class InFlight:
    """The pending request, and the bytes to send.

    ``pending`` is None without a pending request. ``counts`` includes frames that are no answer.
    """

    def __init__(self) -> None:
        self.counts = EventCounts()
        self.pending: PendingRequest | None = None
        self._out = bytearray()
        self.sequence = 0
        """Sequence number of the latest request, modulo 256."""
        self._answered: tuple[int, int] = (-1, -1)
        self._left: PendingRequest | None = None
        self._repeated = False

    def outgoing(self) -> bytes:
        data = bytes(self._out)
        self._out.clear()
        return data

    def begin(self) -> None:
        """Begin a connection, without a pending request."""
        self.pending = None
        self._out += b"\0"

    def fail(self) -> None:
        """Drop the pending request and the bytes to send."""
        self.pending = None
        self._out.clear()

    def ask(self, message: Message, now_ns: int, tag: Tag, values: Vector) -> None:
        self.sequence = (self.sequence + 1) % 256
        if self.sequence == self._answered[1]:  # the board would treat the message as a repetition
            self.sequence = (self.sequence + 1) % 256
        data = encode_message(message, self.sequence)
        self.pending = PendingRequest(message, self.sequence, now_ns, data, tag, values)
        if self._repeated:
            # The board may have lost the end of a repeated frame; this zero ends the frame.
            self._out += b"\0"
            self._repeated = False
        self._out += data

    def repeat(self, request: PendingRequest) -> None:
        self.counts.repeated += 1
        self._repeated = True
        self._out += b"\0" + request.data

    def abandon(self) -> None:
        """End the wait for the pending request; a later answer is ignored."""
        if self.pending is not None:
            self.pending = None
            self.counts.abandoned += 1

    def leave(self) -> None:
        """End the wait for the pending request at the end of the run."""
        self._left, self.pending = self.pending, None

    def answered(self, frame: ProtocolFrame, message: Message) -> PendingRequest | None:
        """Return the request that a frame answers, or None.

        A frame that answers no request counts as duplicate or stale.
        """
        pending, left = self.pending, self._left
        if pending is not None and pending.answered_by(frame, message):
            self.pending, self._answered = None, (frame.kind, frame.sequence)
            return pending
        if left is not None and left.answered_by(frame, message):
            self._left = None
            return None
        again = (frame.kind, frame.sequence) == self._answered
        self.counts.duplicate += again
        self.counts.stale += not again
        return None


def of_version(version: int) -> OldFirmware:
    return OldFirmware(
        f"the board has version {version} of the protocol, rtsim has version {VERSION}; "
        "build and flash the firmware again (rtsim flash)"
    )


def of_board(board: HelloReply, interface: Interface, build: int | None) -> BoardFailure | None:
    """Return an error if ``board`` does not run the controller of ``interface``.

    ``build`` is the expected build; None allows any build.
    """
    name = interface.name
    if board.name_hash != name_hash(name):
        return WrongController(
            f"the board runs another controller than {name} (name hash "
            f"{board.name_hash:08x}, expected {name_hash(name):08x}); flash the firmware of {name}"
        )
    if board.schema != wire_schema(interface):
        return WrongController(
            f"the board's {name} has other signals than {interface.path.name} (schema "
            f"{board.schema:016x}, expected {wire_schema(interface):016x}); build and "
            "flash the firmware again"
        )
    if build is not None and board.build != build:
        return OldFirmware(
            f"the board runs build {board.build:08x} of {name}, expected {build:08x}; "
            "flash the current build"
        )
    wide = [f.signal.name for f in interface.fields if f.signal.type == "float64"]
    if wide and board.double_bytes != 8:
        return WrongController(
            f"{wide[0]} of {name} is a float64, but a double of the board has only "
            f"{board.double_bytes} bytes; use a variant with real = 'float32'"
        )
    if board.max_payload < (needed := payload_needed(interface)):
        return BoardFailure(
            f"the board takes {board.max_payload} bytes of payload, but {name} needs {needed}; "
            f"build the firmware with -DRTSIM_MAX_PAYLOAD={needed}"
        )
    return None


def payload_needed(interface: Interface) -> int:
    """Return the payload (bytes) of the longest frame that cannot be split."""
    step = LAYOUTS[MessageKind.STEP][1].size + Codec(interface.input_fields).bytes
    reply = LAYOUTS[MessageKind.STEP_REPLY][1].size + Codec(interface.output_fields).bytes
    return max(step, reply, LAYOUTS[MessageKind.HELLO_REPLY][1].size)


def silent_at_connecting(waited_ns: int, counts: EventCounts) -> SilentBoard:
    """Return the error for a board that did not answer at the connection."""
    garbage, whole = counts.booting, counts.frames
    heard = "no byte arrived"
    if garbage or whole:
        heard = f"{garbage} malformed and {whole} valid frames arrived"
    hint = "check the port, and that the board is flashed"
    if garbage:
        hint = "check that the baud rate is the rate of the firmware"
    return SilentBoard(f"no board answered within {waited_ns / NS_PER_S:.3g} s, {heard}; {hint}")


def silent(request: str, waited_ns: int, counter: int) -> SilentBoard:
    """Return the error for a board that did not answer a request."""
    return SilentBoard(
        f"the board did not answer {request} within {waited_ns / NS_PER_S:.3g} s, {counter} steps "
        "after its start; check its cable and power, or press reset and run again"
    )


def has_reset(nonce: int, before: int, counter: int) -> BoardReset:
    return BoardReset(
        f"the board has reset after step {counter} (boot nonce {nonce:08x}, before {before:08x}); "
        "check its power supply, its watchdog and its stack"
    )


def forgot(what: str, counter: int) -> BoardReset:
    """Return the error for a board that has been reset and has lost its state.

    ``counter`` is the last step before the reset. ``what`` describes the symptom.
    """
    return BoardReset(
        f"the board has reset after step {counter}: {what}; "
        "check its power supply, its watchdog and its stack"
    )


def refused(error: Error, request: str) -> BoardRefused:
    if error.code == Code.STACK_OVERFLOW:
        return BoardRefused(
            f"the board refused {request}: its stack of {error.detail} bytes overflowed into the "
            "static data; use fewer or smaller local or static variables in the controller, then "
            "reset the board"
        )
    try:
        why = Code(error.code).name.lower().replace("_", " ")
    except ValueError:
        why = f"code {error.code}"
    return BoardRefused(f"the board refused {request}: {why} (detail {error.detail})")


def untrue(what: str) -> BoardFailure:
    """Return the error for an impossible answer of a board."""
    return BoardFailure(
        f"the board {what}; its firmware has another version: build and flash the firmware again"
    )


HELLO_EVERY_NS = NS_PER_S // 4
CONNECT_PATIENCE_NS = 5 * NS_PER_S
"""Timeout for connecting.  The connection resets most boards, and the boot loader runs first."""
MOST_MICROSTEP = 2**16 - 1
MOST_PARAMETER_BYTES = 2**16 - 1
_NO_TAG = Tag(0)
_NO_VALUES = np.zeros(0)


class OutOfTurn(RtsimError):
    """The session does not allow this request in its present state."""


class SessionState(Enum):
    IDLE = "idle"
    CONNECTING = "connecting"
    READY = "ready"
    FAILED = "failed"


class Session:
    """A session with a board that runs the controller of an interface file.

    Without an interface, any board is accepted, but no step is possible.

    Args:
        interface: Interface of the expected controller, or None.
        patience_ns: Longest time to wait for an answer.
        connect_patience_ns: Longest time to wait for the first answer.
        build: Expected build of the firmware; None allows any build.
    """

    def __init__(
        self,
        interface: Interface | None,
        *,
        patience_ns: int = 2 * NS_PER_S,
        connect_patience_ns: int = CONNECT_PATIENCE_NS,
        build: int | None = None,
    ) -> None:
        self.board: HelloReply | None = None
        self.state = SessionState.IDLE
        self.started = False
        self._about = interface
        self._build = build
        self._inputs = Codec(interface.input_fields if interface else ())
        self._outputs = Codec(interface.output_fields if interface else ())
        self._parameters = Codec(interface.parameter_fields if interface else ())
        self._patience, self._connect_patience = patience_ns, connect_patience_ns
        self._parser = Parser()
        self._flight = InFlight()
        self._began_ns = self._hello_ns = 0
        self._counter = self._sent = 0
        self._packed = b""

    @property
    def counts(self) -> EventCounts:
        """Counts of frames and irregular events since the last call of ``count_anew``."""
        return self._flight.counts

    def count_anew(self) -> None:
        self._flight.counts = EventCounts()

    @property
    def waiting(self) -> bool:
        return self._flight.pending is not None

    def outgoing(self) -> bytes:
        return self._flight.outgoing()

    def connect(self, now_ns: int) -> None:
        """Send HELLO until the board answers, and ignore malformed frames meanwhile.

        :meth:`poll` repeats HELLO.
        """
        self.state, self.started, self.board = SessionState.CONNECTING, False, None
        self._began_ns, self._parser = now_ns, Parser()
        self._flight.begin()
        self._hello(now_ns)

    def start(self, parameters: Vector, now_ns: int) -> None:
        """Initialise the controller with ``parameters``, shape (k,).

        The parameters are split as the board requires. Raises :class:`ControllerError` if a
        parameter does not fit its C type or there are too many.
        """
        self._free()
        if self._about is None:
            raise OutOfTurn(
                "this session has no interface; to start a controller, give the session an "
                "interface"
            )
        packed, refused = self._parameters.pack(parameters)
        if refused:
            raise ControllerError(self._refusal(refused, parameters, self._interface.parameters))
        if len(packed) > MOST_PARAMETER_BYTES:
            text = (
                f"the parameters have {len(packed)} bytes; at most {MOST_PARAMETER_BYTES} bytes "
                "can be sent to a board"
            )
            raise ControllerError(text)
        self.started, self._packed, self._began_ns = False, packed, now_ns
        self._counter = self._sent = 0
        self._chunk(0, parameters, now_ns)

    def step(self, tag: Tag, inputs: Vector, now_ns: int) -> None:
        """Request one step with ``inputs``, shape (m,), at ``tag``.

        Raises ``ControllerError`` if the tag or an input does not fit its C type.
        """
        self._free()
        if not self.started:
            raise OutOfTurn("a step was requested before the start; call start first")
        if not (0 <= tag.ns < 2**64 and 0 <= tag.step <= MOST_MICROSTEP):
            raise ControllerError(
                f"tag {tag!r} does not fit a STEP message: 64 bits for ns, 16 for the microstep"
            )
        packed, refused = self._inputs.pack(inputs)
        if refused:
            raise ControllerError(self._refusal(refused, inputs, self._interface.inputs))
        self._sent += 1
        self._ask(StepMessage(tag.ns, tag.step, packed), now_ns, tag, inputs)

    def ping(self, nonce: int, now_ns: int) -> None:
        """Request the board's time; ``nonce`` is a new 32-bit number."""
        self._free()
        self._ask(Ping(nonce, 0), now_ns, _NO_TAG, _NO_VALUES)

    def stop(self, now_ns: int) -> None:
        """Request the board to terminate the controller."""
        self._free()
        self._ask(Stop(), now_ns, _NO_TAG, _NO_VALUES)

    def probe(self, now_ns: int) -> None:
        """Send HELLO again, to detect a reset whose message was lost."""
        self._free()
        self._ask(Hello(VERSION), now_ns, _NO_TAG, _NO_VALUES)

    def repeat(self) -> None:
        """Send the pending request again.

        A board that has already answered sends the same answer again.
        """
        if self._flight.pending is None:
            raise OutOfTurn("no request is pending, so there is no request to repeat")
        self._flight.repeat(self._flight.pending)

    def abandon(self) -> None:
        """End the wait for the pending request; a later answer is ignored."""
        self._flight.abandon()

    def leave(self) -> None:
        """End the wait for the pending request at the end of the run."""
        self._flight.leave()

    def poll(self, now_ns: int) -> list[Event]:
        """Repeat HELLO if it is due; return ``Failed`` after the longest time to wait."""
        if self.state is SessionState.CONNECTING:
            waited = now_ns - self._began_ns
            if waited >= self._connect_patience:
                self.counts.booting += self._parser.unended
                return [self._failed(silent_at_connecting(waited, self.counts))]
            if now_ns - self._hello_ns >= HELLO_EVERY_NS:
                self._hello(now_ns)
        elif (pending := self._flight.pending) and now_ns - pending.sent_ns >= self._patience:
            error = silent(pending.name, now_ns - pending.sent_ns, self._counter)
            return [self._failed(error)]
        return []

    def receive(self, data: bytes, now_ns: int) -> list[Event]:
        """Process bytes that have arrived, and return the resulting events.

        Malformed data never raises an error.
        """
        events: list[Event] = []
        for found in self._parser.feed(data):
            if isinstance(found, ProtocolFrame):
                self.counts.frames += 1
                event = self._heard(found, now_ns)
                if event is not None:
                    events.append(event)
            elif self.state is SessionState.CONNECTING:
                self.counts.booting += 1
            else:
                self.counts.garbage[found.why] += 1
        return events

    def _heard(self, frame: ProtocolFrame, now_ns: int) -> Event | None:
        if self.state not in (SessionState.CONNECTING, SessionState.READY):
            self.counts.stale += 1
            return None
        if frame.kind == MessageKind.HELLO_REPLY and frame.payload and frame.payload[0] != VERSION:
            return self._failed(of_version(frame.payload[0]))
        message = decode_message(frame)
        if message is None or frame.kind < REPLY:
            self.counts.meaningless += 1
            return None
        if isinstance(message, Reset):
            return self._booted(message, now_ns)
        asked = self._flight.answered(frame, message)
        return None if asked is None else self._reply(message, asked, now_ns)

    def _booted(self, notice: Reset, now_ns: int) -> Event | None:
        if self.state is SessionState.CONNECTING:
            self._hello(now_ns)
            return None
        assert self.board is not None
        if notice.boot_nonce == self.board.boot_nonce:
            self.counts.stale += 1
            return None
        before = self.board.boot_nonce
        return self._failed(has_reset(notice.boot_nonce, before, self._counter))

    def _reply(self, message: Message, pending: PendingRequest, now_ns: int) -> Event | None:
        took = now_ns - pending.sent_ns
        match message:
            case HelloReply():
                return self._known(message)
            case StartReply():
                return self._taken(message, pending, now_ns)
            case StepReply():
                return self._stepped(message, pending, took)
            case Pong():
                return Ponged(RoundTrip(pending.sent_ns, now_ns, message.micros))
            case StopReply():
                self.started = False
                return Stopped(message.counter)
            case Error(code=Code.NOT_STARTED) if self.started:
                return self._failed(forgot("it is not started", self._counter))
            case Error():
                return self._failed(refused(message, pending.name))
            case _:
                raise AssertionError(message)

    def _known(self, board: HelloReply) -> Event:
        before = self.board
        if before is not None and board.boot_nonce != before.boot_nonce:
            nonces = board.boot_nonce, before.boot_nonce
            return self._failed(has_reset(*nonces, self._counter))
        about = self._about
        if about is not None and (error := of_board(board, about, self._build)):
            return self._failed(error)
        self.board, self.state = board, SessionState.READY
        return Connected(board)

    def _taken(self, reply: StartReply, pending: PendingRequest, now_ns: int) -> Event | None:
        assert isinstance(pending.message, Start)
        if reply.status:
            text = self._refusal(reply.status, pending.values, self._interface.parameters)
            return self._failed(ControllerError(text))
        end = pending.message.offset + len(pending.message.values)
        if reply.received != end:
            text = f"acknowledged {reply.received} bytes of parameters, but {end} were sent"
            return self._failed(untrue(text))
        if end < len(self._packed):
            self._chunk(end, pending.values, now_ns)
            return None
        self.started = True
        return Started(now_ns - self._began_ns)

    def _stepped(self, reply: StepReply, pending: PendingRequest, took_ns: int) -> Event:
        before, self._counter = self._counter, reply.counter
        if reply.counter <= before:
            what = f"its step counter went from {before} to {reply.counter}"
            self._counter = before
            return self._failed(forgot(what, before))
        if reply.counter > self._sent:
            text = f"counted {reply.counter} steps, but {self._sent} were requested"
            return self._failed(untrue(text))
        if reply.status:
            text = self._refusal(reply.status, pending.values, self._interface.inputs)
            return self._failed(ControllerError(text))
        if len(reply.outputs) != self._outputs.bytes:
            text = f"sent {len(reply.outputs)} bytes of outputs; expected {self._outputs.bytes}"
            return self._failed(untrue(text))
        outputs, refused = self._outputs.unpack(reply.outputs)
        if refused:
            text = self._refusal(refused, outputs, self._interface.outputs)
            return self._failed(ControllerError(text))
        unanswered = reply.counter - before - 1
        return Stepped(
            pending.tag, outputs, reply.cycles, reply.stack, reply.counter, unanswered, took_ns
        )

    @property
    def _interface(self) -> Interface:
        assert self._about is not None, "only a session with an interface has values"
        return self._about

    def _free(self) -> HelloReply:
        if self.state is not SessionState.READY or self.board is None:
            raise OutOfTurn(
                f"a request was made in the state '{self.state.value}'; call connect first"
            )
        if self.waiting:
            text = "a request is pending; receive its reply or abandon it before the next request"
            raise OutOfTurn(text)
        return self.board

    def _ask(self, message: Message, now_ns: int, tag: Tag, values: Vector) -> None:
        self._flight.ask(message, now_ns, tag, values)

    def _hello(self, now_ns: int) -> None:
        if self._flight.pending is None:
            self._ask(Hello(VERSION), now_ns, _NO_TAG, _NO_VALUES)
        else:
            self.repeat()
        self._hello_ns = now_ns

    def _chunk(self, offset: int, parameters: Vector, now_ns: int) -> None:
        assert self.board is not None
        room = self.board.max_payload - LAYOUTS[MessageKind.START][1].size
        values = self._packed[offset : offset + room]
        self._ask(Start(offset, len(self._packed), values), now_ns, _NO_TAG, parameters)

    def _refusal(self, status: int, values: Vector, given: Signals) -> str:
        interface = self._interface
        return refusal(interface.name, status, given, values, interface.outputs)

    def _failed(self, error: ControllerError) -> Failed:
        self.state, self.started = SessionState.FAILED, False
        self._flight.fail()
        return Failed(error)
