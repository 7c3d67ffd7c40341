"""Two machines in one process: clocks that differ, and a line between them that a test cuts."""

from __future__ import annotations

from collections import deque
from pathlib import Path

from rtsim.core.signals import Signals
from rtsim.core.tag import NS_PER_S
from rtsim.pilot.remote import RemoteExchange, ViewerRelay
from rtsim.pilot.shared import Schema, Shared
from rtsim.pilot.viewer.state import Telling

MS = 1_000_000
AHEAD = 7 * 365 * 86_400 * NS_PER_S
"""The run's clock, against that of the other machine."""
MOON = Schema((("moon", Signals("x [m]", "v [m/s]")),), Signals("pitch", "roll"), {"pid": 0})


class Time:
    """The wall, which moves when a test says so."""

    def __init__(self) -> None:
        self.ns = 10**15

    def here(self) -> int:
        """At the viewer."""
        return self.ns

    def there(self) -> int:
        """At the run."""
        return self.ns + AHEAD


class Served:
    """The run's end of all lines."""

    def __init__(self) -> None:
        self.said: deque[tuple[bytes, bytes]] = deque()
        self.lines: dict[bytes, Line] = {}

    def receive(self) -> tuple[bytes, bytes] | None:
        return self.said.popleft() if self.said else None

    def send(self, who: bytes, data: bytes) -> bool:
        line = self.lines.get(who)
        if line is None or line.cut:
            return False
        line.come.append(data)
        return True


class Line:
    """A viewer's end."""

    endpoint = "tcp://elsewhere:5998"

    def __init__(self, served: Served, who: bytes) -> None:
        self.come: deque[bytes] = deque()
        self.cut = False
        """Nothing gets through, either way."""
        self._served, self._who = served, who
        served.lines[who] = self

    def send(self, data: bytes) -> bool:
        if not self.cut:
            self._served.said.append((self._who, data))
        return True

    def receive(self, milliseconds: int) -> bytes | None:  # noqa: ARG002
        return self.come.popleft() if self.come else None

    def close(self) -> None:
        self.cut = True


class Machines:
    """A run's file and its relay; viewers elsewhere, by :meth:`viewer`."""

    def __init__(self, folder: Path) -> None:
        self.time, self.served = Time(), Served()
        self.shared = Shared.create(MOON, folder)
        self.relay = ViewerRelay(self.shared, self.served, self.time.there)
        self._remotes: list[RemoteExchange] = []

    def close(self) -> None:
        self.shared.close()

    def viewer(self, name: bytes) -> tuple[RemoteExchange, Line]:
        line = Line(self.served, name)
        remote = RemoteExchange(line, MOON, self.time.here)
        self._remotes.append(remote)
        return remote, line

    def answered(self, name: bytes) -> Line:
        """A line at whose other end the relay turns whenever something is said."""
        line = Line(self.served, name)
        send = line.send

        def at_once(data: bytes) -> bool:
            sent = send(data)
            self.time.ns += 3 * MS
            self.relay.turn()
            return sent

        line.send = at_once  # type: ignore[method-assign]
        return line

    def pass_by(self, ms: int, there_ns: int = 0, back_ns: int = 0) -> None:
        """Everybody looks once each millisecond; messages take so long there, and back."""
        for _ in range(ms):
            for remote in self._remotes:
                remote.look()
            self.time.ns += there_ns
            self.relay.turn()
            self.time.ns += back_ns
            for remote in self._remotes:
                remote.look()
            self.time.ns += MS - there_ns - back_ns

    def telling(self, remote: RemoteExchange) -> Telling:
        return Telling(remote, self.time.here)
