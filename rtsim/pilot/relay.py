"""Serves a run to viewers on other machines: ``python -m rtsim.pilot.relay FILE tcp://HOST:PORT``.

A process beside the simulation, which shares FILE with it as a viewer does, and knows as little of
it: what comes and goes by ZeroMQ costs the loop nothing, and nobody there can make it wait.

Foxglove's viewers are served by :mod:`rtsim.gateway.relay`, which passes a stream of bytes on and
shares no code with this module.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

from rtsim.core.clock import stopwatch
from rtsim.core.errors import RtsimError
from rtsim.core.net.keys import Keys
from rtsim.core.net.sockets import ListeningSocket
from rtsim.core.tag import NS_PER_S
from rtsim.pilot.child import READY, ends_with_input
from rtsim.pilot.flow import Flow
from rtsim.pilot.seat import NOBODY, Seat
from rtsim.pilot.sequence import Writer
from rtsim.pilot.shared import STICK, Shared
from rtsim.pilot.wire import (
    HELLO,
    RECORDS,
    TO_RUN,
    WHOLE,
    Changes,
    Format,
    WireError,
    WireMessage,
    put,
)

MOST_VIEWERS = 8
GONE_NS = 5 * NS_PER_S
"""A viewer that says nothing for so long is sent nothing more."""
FULL = (
    f"{MOST_VIEWERS} windows are open on this run, and more are not served; close one, and try "
    f"again {GONE_NS // NS_PER_S} s later"
)
ENDED = "the run is over"
_MARGIN = 4096
"""Bytes by which a message may be longer than a viewer's are: it is skipped and counted."""
_LOOK_MS = 1
_LAST_TURNS, _LAST_MS = 20, 5
_AT_ONCE = 64
_OWN = ("viewer",)
_WHO = STICK.index("who")


class ViewerConnection(Protocol):
    """What many may come to; a :class:`rtsim.core.net.sockets.ListeningSocket` is one."""

    def receive(self) -> tuple[bytes, bytes] | None: ...

    def send(self, who: bytes, data: bytes) -> bool: ...


class ViewerRelay:
    """Records there and back; :meth:`turn` by turn."""

    def __init__(
        self, shared: Shared, line: ViewerConnection, clock: Callable[[], int] = stopwatch
    ) -> None:
        self.skipped = 0
        """Messages that were none."""
        self._shared, self._line, self._clock = shared, line, clock
        self._format = Format(shared.schema)
        self._names = [name for name, _ in shared.schema.shapes() if name not in _OWN]
        self._viewers: dict[bytes, Flow] = {}
        self._seat = Seat(shared.reader("stick"), clock)
        self._flies = b""
        """Whose stick is passed on."""
        self._writers: dict[str, Writer] = {}

    def turn(self) -> None:
        """Take in what came, send what is due."""
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
        """Said to all viewers at once, however much is under way to them."""
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
        """What somebody says who has the stick, or to whom it is free."""
        stick = message.records.get("stick")
        if stick is not None:
            number = int(stick[0][_WHO])
            free = number == NOBODY or self._seat.free_for(number)
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
    """Until the input closes; its last word is the number of messages that were none."""
    parser = argparse.ArgumentParser(prog="rtsim.pilot.relay")
    parser.add_argument("shared", type=Path)
    parser.add_argument("endpoint")
    parser.add_argument("--keys", type=Path, required=True)
    given = parser.parse_args(arguments)
    over = ends_with_input()
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
        listener.wait(_LOOK_MS)
        relay.turn()
    for _ in range(_LAST_TURNS):  # that the run is over should still get there
        relay.turn()
        listener.wait(_LAST_MS)
    relay.end(shared.over or ENDED)
    listener.close()
    if over.is_set():  # of a simulation that was killed nobody else removes it
        shared.remove()
    print(relay.skipped, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
