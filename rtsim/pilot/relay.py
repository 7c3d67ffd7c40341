"""Serves a run to viewers on other machines: ``python -m rtsim.pilot.relay FILE tcp://HOST:PORT``.

The relay is a process beside the simulation. Like a viewer, it maps FILE, the shared memory of the
run. The network traffic by ZeroMQ therefore takes no time of the loop and cannot block the loop.

Foxglove's viewers are served by :mod:`rtsim.gateway.viewer_server`, which sends a stream and
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
from rtsim.pilot.child import READY, input_closed
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
"""A viewer that sends nothing for this time is dropped, ns."""
FULL = (
    f"{MOST_VIEWERS} windows on other machines show this run, which is the limit; close one, and "
    f"try again after {GONE_NS // NS_PER_S} s"
)
ENDED = "the run has ended"
_MARGIN = 4096
"""Excess length, bytes, up to which an overlong message is still read and counted."""
_LOOK_MS = 1
_LAST_TURNS, _LAST_MS = 20, 5
_AT_ONCE = 64
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
        self._seat = Seat(shared.reader("stick"), clock)
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
    """Serve until the standard input closes; then print the number of malformed messages."""
    parser = argparse.ArgumentParser(prog="rtsim.pilot.relay")
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
        listener.wait(_LOOK_MS)
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
