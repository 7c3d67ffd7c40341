"""The viewer's side of a run on another machine: exchanges records with it by ZeroMQ.

Times in the records are converted between the clocks of the two machines, with an offset that the
messages measure.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, Self

from rtsim.core.clock import stopwatch
from rtsim.core.net.keys import Keys
from rtsim.core.net.sockets import Caller
from rtsim.core.tag import NS_PER_S
from rtsim.pilot.flow import Flow
from rtsim.pilot.sequence import Reader, Shape, Writer
from rtsim.pilot.shared import Schema, SharedError
from rtsim.pilot.wire import (
    OVER,
    SCHEMA,
    TO_RUN,
    Changes,
    Format,
    OtherVersion,
    WireError,
    WireMessage,
    put,
    shifted,
)

PATIENCE_S = 10.0
"""Time within which the run must send its first answer, s."""
SILENT_NS = 10 * NS_PER_S
"""After this time without a message, the run counts as ended or unreachable, ns."""
_AGAIN_MS = 300
_LOOK_MS = 5
_AT_ONCE = 64


class RunConnection(Protocol):
    """The interface of the socket to the run, :class:`rtsim.core.net.sockets.Caller`."""

    endpoint: str

    def send(self, data: bytes) -> bool: ...

    def receive(self, milliseconds: int) -> bytes | None: ...

    def close(self) -> None: ...


class RemoteExchange:
    """A :class:`rtsim.pilot.shared.Exchange` with another machine; created by :meth:`connect`."""

    def __init__(
        self, line: RunConnection, schema: Schema, clock: Callable[[], int] = stopwatch
    ) -> None:
        schema.check_size()
        self.schema = schema
        self.skipped = 0
        """The number of malformed messages that were dropped."""
        self._refused = ""
        self._line, self._clock = line, clock
        self._format = Format(schema)
        shapes = dict(schema.shapes())
        self._in = {name: _memory(shape) for name, shape in shapes.items()}
        self._out = {name: _memory(shapes[name]) for name in TO_RUN}
        self._shapes = shapes
        self._writers = {n: Writer(memory, shapes[n]) for n, memory in self._in.items()}
        own = {n: Reader(memory, shapes[n]) for n, memory in self._out.items()}
        self._flow = Flow(self._format, Changes(own), clock())

    @classmethod
    def connect(cls, endpoint: str, keys: Keys | None, patience_s: float = PATIENCE_S) -> Self:
        """Ask the run for the schema of its records, and wait until the records arrive.

        Raises :class:`SharedError` if no answer comes, or if the run uses another release of rtsim.
        """
        return cls.over_line(Caller(endpoint, keys), patience_s)

    @classmethod
    def over_line(
        cls,
        line: RunConnection,
        patience_s: float = PATIENCE_S,
        clock: Callable[[], int] = stopwatch,
    ) -> Self:
        """Connect as :meth:`connect` does, over the open connection ``line``."""
        until = stopwatch() + round(patience_s * NS_PER_S)
        try:
            self = cls(line, _request_schema(line, until), clock)
            while not self.complete:
                if self._refused:
                    raise SharedError(f"{line.endpoint}: {self._refused}")
                if stopwatch() > until:
                    raise SharedError(
                        f"{line.endpoint} sent its schema, but no records within {patience_s:g} s"
                    )
                self._hear(line.receive(_LOOK_MS))
                self.look()
        except BaseException:
            line.close()
            raise
        return self

    @property
    def complete(self) -> bool:
        """True if the records of the run and the offset of the clocks are known."""
        return self._flow.offset.known

    @property
    def offset_ns(self) -> int:
        """The clock of the run's machine minus the clock of this machine, ns."""
        return self._flow.offset.ns

    def writer(self, record: str) -> Writer:
        return Writer(self._out[record], self._shapes[record])

    def reader(self, record: str) -> Reader:
        return Reader(self._in[record], self._shapes[record])

    def look(self) -> None:
        for _ in range(_AT_ONCE):
            data = self._line.receive(0)
            if data is None:
                break
            self._hear(data)
        for data in self._flow.due(self._clock(), self._clock, self.offset_ns):
            self._line.send(data)

    def _hear(self, data: bytes | None) -> None:
        if data is None:
            return
        try:
            message = self._format.read(data)
        except WireError:
            self.skipped += 1
            return
        if message.head.kind == SCHEMA:  # the answer to a repeated request
            return
        if message.head.kind == OVER:
            self._refused = message.text
            return
        self._flow.hear(message, self._clock())
        for name, (integers, floats) in message.records.items():
            put(self._writers[name], shifted(name, integers, -self.offset_ns), floats)

    @property
    def over(self) -> str:
        if self._refused:
            return self._refused
        if self._clock() - self._flow.heard_ns < SILENT_NS:
            return ""
        return f"no message came from {self._line.endpoint} for {SILENT_NS // NS_PER_S} s"

    def close(self) -> None:
        self._line.close()


def _memory(shape: Shape) -> memoryview:
    return memoryview(bytearray(shape.size))


def _request_schema(line: RunConnection, until: int) -> Schema:
    format = Format(None)
    while stopwatch() < until:
        line.send(format.hello())
        data = line.receive(_AGAIN_MS)
        while data is not None:
            try:
                message = format.read(data)
            except OtherVersion as error:
                raise SharedError(
                    f"{line.endpoint} has another release of rtsim ({error}); use the same "
                    "release on both machines"
                ) from None
            except WireError as error:
                raise SharedError(
                    f"{line.endpoint} does not serve a window of rtsim: {error}"
                ) from None
            if message.head.kind == OVER:
                raise SharedError(f"{line.endpoint}: {message.text}")
            if message.head.kind == SCHEMA:
                return _check_layout(Schema.from_json(message.text), message, line.endpoint)
            data = line.receive(0)
    raise SharedError(
        f"no answer from {line.endpoint}; check that a run with --view tcp://... is in "
        "progress at this address, and that rtsim keys made the client keys together with the "
        "keys of that run"
    )


def _check_layout(schema: Schema, message: WireMessage, endpoint: str) -> Schema:
    """Return ``schema``; raises :class:`SharedError` if this side has another record layout."""
    if message.hash != schema.hash[: len(message.hash)]:
        raise SharedError(
            f"{endpoint} uses the record layout of another release of rtsim; use the same release "
            "on both machines"
        )
    return schema
