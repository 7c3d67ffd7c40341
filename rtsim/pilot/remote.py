"""Both sides of a run that is watched on another machine, over ZeroMQ.

The relay, ``python -m rtsim.pilot.remote FILE tcp://HOST:PORT``, is a process beside the
simulation. Like a viewer, it maps FILE, the shared memory of the run. The network traffic therefore
takes no time of the loop and cannot block the loop.

Foxglove's viewers are served by :mod:`rtsim.gateway.viewer_server`, which sends a stream and
shares no code with this module.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol, Self

from rtsim.core.clock import stopwatch
from rtsim.core.errors import RtsimError
from rtsim.core.net.keys import Keys
from rtsim.core.net.sockets import Caller, ListeningSocket
from rtsim.core.tag import NS_PER_S
from rtsim.pilot.processes import READY, input_closed
from rtsim.pilot.sequence import Reader, Shape, Writer
from rtsim.pilot.shared import NOBODY, STICK, ControlAuthority, Schema, Shared, SharedError
from rtsim.pilot.wire import (
    HELLO,
    OVER,
    RECORDS,
    SCHEMA,
    TO_RUN,
    WHOLE,
    Changes,
    Flow,
    Format,
    OtherVersion,
    WireError,
    WireMessage,
    put,
    shifted,
)

_AT_ONCE = 64

# The side of the viewer.

PATIENCE_S = 10.0
"""Time within which the run must send its first answer, s."""
SILENT_NS = 10 * NS_PER_S
"""After this time without a message, the run counts as ended or unreachable, ns."""
_AGAIN_MS = 300
_LOOK_MS = 5


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


# The side of the run: the relay.

MOST_VIEWERS = 8
GONE_NS = 5 * NS_PER_S
"""A viewer that sends nothing for this time is dropped, ns."""
FULL = (
    f"{MOST_VIEWERS} windows on other machines show this run, which is the limit; close one, and "
    f"try again after {GONE_NS // NS_PER_S} s"
)
ENDED = "the run has ended"
_MARGIN = 4096
"""Excess length, bytes, up to which an overlong message is still read and counted."""
_RELAY_LOOK_MS = 1
_LAST_TURNS, _LAST_MS = 20, 5
_OWN = ("viewer",)
_WHO = STICK.index("who")


class ViewerConnection(Protocol):
    """The interface of the viewers' socket, :class:`rtsim.core.net.sockets.ListeningSocket`."""

    def receive(self) -> tuple[bytes, bytes] | None: ...

    def send(self, who: bytes, data: bytes) -> bool: ...


class ViewerRelay:
    """Forwards records between the run and its viewers; call :meth:`turn` repeatedly."""

    def __init__(
        self, shared: Shared, line: ViewerConnection, clock: Callable[[], int] = stopwatch
    ) -> None:
        self.skipped = 0
        """The number of malformed messages that were dropped."""
        self._shared, self._line, self._clock = shared, line, clock
        self._format = Format(shared.schema)
        self._names = [name for name, _ in shared.schema.shapes() if name not in _OWN]
        self._viewers: dict[bytes, Flow] = {}
        self._authority = ControlAuthority(shared.reader("stick"), clock)
        self._flies = b""
        """The viewer whose stick is forwarded."""
        self._writers: dict[str, Writer] = {}

    def turn(self) -> None:
        """Read the messages that have arrived, and send the messages that are due."""
        for _ in range(_AT_ONCE):
            said = self._line.receive()
            if said is None:
                break
            self._hear(*said)
        now = self._clock()
        for who, flow in list(self._viewers.items()):
            if now - flow.heard_ns > GONE_NS:
                del self._viewers[who]
                continue
            for data in flow.due(now, self._clock):
                self._line.send(who, data)

    def end(self, why: str) -> None:
        """Tell all viewers that the run is no longer served, with the reason ``why``."""
        for who in self._viewers:
            self._line.send(who, self._format.over(why))

    def _hear(self, who: bytes, data: bytes) -> None:
        try:
            message = self._format.read(data)
        except WireError:
            self.skipped += 1
            return
        if message.head.kind not in (HELLO, RECORDS, WHOLE):
            self.skipped += 1
        elif who not in self._viewers and len(self._viewers) >= MOST_VIEWERS:
            self._line.send(who, self._format.over(FULL))
        elif message.head.kind == HELLO:
            self._line.send(who, self._format.schema())
        else:
            self._enter(who)
            self._viewers[who].hear(message, self._clock())
            self._pass_on(who, message)

    def _enter(self, who: bytes) -> None:
        if who not in self._viewers:
            readers = {name: self._shared.reader(name) for name in self._names}
            self._viewers[who] = Flow(self._format, Changes(readers), self._clock())

    def _pass_on(self, who: bytes, message: WireMessage) -> None:
        """Forward the records of viewer ``who`` if it has the control authority or can get it."""
        stick = message.records.get("stick")
        if stick is not None:
            number = int(stick[0][_WHO])
            free = number == NOBODY or self._authority.free_for(number)
            if not free:
                self._flies = b"" if who == self._flies else self._flies
            elif number != NOBODY and who != self._flies:
                self._flies = who
                self._writers = {name: self._shared.writer(name) for name in TO_RUN}
        if who != self._flies:
            return
        for name, (integers, floats) in message.records.items():
            if name in TO_RUN:
                put(self._writers[name], integers, floats)


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve until the standard input closes; then print the number of malformed messages."""
    parser = argparse.ArgumentParser(prog="rtsim.pilot.remote")
    parser.add_argument("shared", type=Path)
    parser.add_argument("endpoint")
    parser.add_argument("--keys", type=Path, required=True)
    given = parser.parse_args(arguments)
    over = input_closed()
    try:
        shared = Shared.open(given.shared)
        most = Format(shared.schema).most_to_run + _MARGIN
        listener = ListeningSocket(given.endpoint, Keys.load(given.keys), most)
        relay = ViewerRelay(shared, listener)
    except RtsimError as error:
        print(error, flush=True)
        return 2
    print(READY, flush=True)
    while not over.is_set() and not shared.over:
        listener.wait(_RELAY_LOOK_MS)
        relay.turn()
    for _ in range(_LAST_TURNS):  # viewers still have to receive the end of the run
        relay.turn()
        listener.wait(_LAST_MS)
    relay.end(shared.over or ENDED)
    listener.close()
    if over.is_set():  # a killed simulation has not removed the file
        shared.remove()
    print(relay.skipped, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
