"""The viewer's end of what is shared: states and the run's figures in, stick and orders out."""

from __future__ import annotations

from rtsim.clock import stopwatch
from rtsim.pilot.interpolation import Interpolation, Pair
from rtsim.pilot.pacing import Durations
from rtsim.pilot.scenes.scene import Shown
from rtsim.pilot.shared import MOST_ORDERS, RUN, VIEWER, Shared
from rtsim.signals import Vector
from rtsim.tag import NS_PER_S

BEAT_NS = NS_PER_S // 10
"""A stick that does not move is said again so often: the loop hears that somebody is there."""


class Picture:
    """The states of all plants at a moment of the wall; the newest that could be read whole."""

    def __init__(self, shared: Shared) -> None:
        self.latency = Durations()
        """From a device's reading to the end of the first picture that it had a part in [ns]."""
        self._readers = {name: shared.reader(f"plant/{name}") for name, _ in shared.schema.plants}
        self._between = {name: Interpolation(signals) for name, signals in shared.schema.plants}
        self._pairs: dict[str, Pair] = {}
        self._applied = self._initiated = 0
        self._shown = 0

    @property
    def complete(self) -> bool:
        """Every plant has been seen once."""
        return len(self._pairs) == len(self._readers)

    def look(self) -> None:
        """Read the newest states: the last thing before a picture is drawn."""
        for name, reader in self._readers.items():
            record = reader.read()
            if record is not None:
                self._pairs[name] = Pair.of(record)
                self._applied, self._initiated = map(int, record.integers[5:7])

    def at(self, wall: int, ahead: int) -> dict[str, Shown]:
        """As of ``wall``; up to ``ahead`` ns beyond the next states."""
        shown = {}
        for name, pair in self._pairs.items():
            between = self._between[name]
            share = pair.fraction(wall, ahead)
            values, slope = between.at(pair, share), between.slope(pair)
            shown[name] = Shown(between.signals, values, slope, pair.ns(share))
        return shown

    def drawn(self, now: int) -> None:
        """The picture is on its way to the screen."""
        if self._applied > self._shown:
            self._shown = self._applied
            self.latency.add(now - self._initiated)


class Said:
    """How the run stands."""

    def __init__(self, shared: Shared) -> None:
        self.rate = 0.0
        self.integers: dict[str, int] = dict.fromkeys(RUN, 0)
        self._reader = shared.reader("run")

    def look(self) -> None:
        record = self._reader.read()
        if record is not None:
            self.integers = dict(zip(RUN, record.integers.tolist(), strict=True))
            self.rate = float(record.floats[0])

    def __getitem__(self, name: str) -> int:
        return self.integers[name]


class Telling:
    """What goes to the run."""

    def __init__(self, shared: Shared) -> None:
        self._stick = shared.writer("stick")
        self._orders = shared.writer("orders")
        self._viewer = shared.writer("viewer")
        self._count = int(self._orders.integers[0])
        self._told = b""
        self._told_ns = 0
        before = shared.reader("orders").read()
        if before is not None:  # of a viewer before this one
            self._orders.integers[:] = before.integers
            self._orders.floats[:] = before.floats
            self._count = int(before.integers[0])

    def stick(self, values: Vector, initiated: int, completed: int, lost: bool) -> bool:
        """Where the stick stands; whether that had to be said."""
        bits = values.tobytes()
        if bits == self._told and completed - self._told_ns < BEAT_NS:
            return False
        self._told, self._told_ns = bits, completed
        self._stick.integers[:] = (initiated, completed, int(lost))
        self._stick.floats[:] = values
        self._stick.publish()
        return True

    def order(self, kind: int, value: float = 0.0) -> None:
        """One of those of :mod:`rtsim.pilot.orders`."""
        at = self._count % MOST_ORDERS
        self._count += 1
        self._orders.integers[0] = self._count
        self._orders.integers[1 + at] = kind
        self._orders.floats[at] = value
        self._orders.publish()

    def figures(self, values: dict[str, int]) -> None:
        """How the viewer does."""
        told = {"wall": stopwatch(), **values}
        self._viewer.integers[:] = [told.get(name, 0) for name in VIEWER]
        self._viewer.publish()
