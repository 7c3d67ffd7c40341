"""A viewer's end of a run on another machine: the same records, carried by ZeroMQ.

What the run says by its clock is told here by this machine's, and what is told there the other way
round, by the offset that the messages themselves measure.
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
"""For the first answer."""
SILENT_NS = 10 * NS_PER_S
"""Nothing heard for so long: the run, its machine or the line is gone."""
_AGAIN_MS = 300
_LOOK_MS = 5
_AT_ONCE = 64


class RunConnection(Protocol):
    """The other end; a :class:`rtsim.core.net.sockets.Caller` is one."""

    endpoint: str

    def send(self, data: bytes) -> bool: ...

    def receive(self, milliseconds: int) -> bytes | None: ...

    def close(self) -> None: ...


class RemoteExchange:
    """An :class:`rtsim.pilot.shared.Exchange`; :meth:`connect` makes one."""

    def __init__(
        self, line: RunConnection, schema: Schema, clock: Callable[[], int] = stopwatch
    ) -> None:
        schema.check_size()
        self.schema = schema
        self.skipped = 0
        """Messages that were none."""
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
        """Ask for the schema, and wait for what the run has said so far.

        Raises :class:`SharedError` where nobody answers, or in another release's way.
        """
        return cls.by(Caller(endpoint, keys), patience_s)

    @classmethod
    def by(
        cls,
        line: RunConnection,
        patience_s: float = PATIENCE_S,
        clock: Callable[[], int] = stopwatch,
    ) -> Self:
        """The same over a line that is there."""
        until = stopwatch() + round(patience_s * NS_PER_S)
        try:
            self = cls(line, _ask(line, until), clock)
            while not self.complete:
                if self._refused:
                    raise SharedError(f"{line.endpoint}: {self._refused}")
                if stopwatch() > until:
                    raise SharedError(f"{line.endpoint} answers, and then says no more")
                self._hear(line.receive(_LOOK_MS))
                self.look()
        except BaseException:
            line.close()
            raise
        return self

    @property
    def complete(self) -> bool:
        """What the run had said so far is here, and how far apart the clocks are."""
        return self._flow.offset.known

    @property
    def offset_ns(self) -> int:
        """How far the run's clock is ahead of this machine's."""
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
        if message.head.kind == SCHEMA:  # one was asked for twice
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
        return f"nothing was heard from {self._line.endpoint} for {SILENT_NS // NS_PER_S} s"

    def close(self) -> None:
        self._line.close()


def _memory(shape: Shape) -> memoryview:
    return memoryview(bytearray(shape.size))


def _ask(line: RunConnection, until: int) -> Schema:
    format = Format(None)
    while stopwatch() < until:
        line.send(format.hello())
        data = line.receive(_AGAIN_MS)
        while data is not None:
            try:
                message = format.read(data)
            except OtherVersion as error:
                raise SharedError(
                    f"{line.endpoint} is served by another release of rtsim ({error}); "
                    "run both from one"
                ) from None
            except WireError as error:
                raise SharedError(f"{line.endpoint} is no run that is viewed: {error}") from None
            if message.head.kind == OVER:
                raise SharedError(f"{line.endpoint}: {message.text}")
            if message.head.kind == SCHEMA:
                return _own(Schema.from_json(message.text), message, line.endpoint)
            data = line.receive(0)
    raise SharedError(
        f"nobody answers at {line.endpoint}; is a run there, with --view tcp://..., and are "
        "these the keys that were made with its own?"
    )


def _own(schema: Schema, message: WireMessage, endpoint: str) -> Schema:
    """``schema``, where its records are laid out here as they are there."""
    if message.hash != schema.hash[: len(message.hash)]:
        raise SharedError(
            f"{endpoint} lays out its records as another release of rtsim does; run both from one"
        )
    return schema
