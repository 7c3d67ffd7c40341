"""The viewer's end of what is shared: states and the run's figures in, stick and orders out."""

from __future__ import annotations

from collections.abc import Callable

from rtsim.core.clock import stopwatch
from rtsim.core.signals import Vector
from rtsim.core.tag import NS_PER_S
from rtsim.pilot.interpolation import Interpolation, StatePair
from rtsim.pilot.orders import words_to_reason
from rtsim.pilot.pacing import Durations
from rtsim.pilot.scenes.scene import Shown
from rtsim.pilot.seat import NOBODY, Seat, newcomer
from rtsim.pilot.shared import MOST_ORDERS, RUN, VIEWER, Exchange

BEAT_NS = NS_PER_S // 10
"""A stick that does not move is said again so often: the loop hears that somebody is there."""


class Picture:
    """The states of all plants at a moment of the wall; the newest that could be read whole."""

    def __init__(self, shared: Exchange) -> None:
        self.latency = Durations()
        """From a device's reading to the end of the first picture that it had a part in [ns]."""
        self.interpolation = Durations()
        """Of the same pictures: how long before the newest state the moment is that they show."""
        self._readers = {name: shared.reader(f"plant/{name}") for name, _ in shared.schema.plants}
        self._between = {name: Interpolation(signals) for name, signals in shared.schema.plants}
        self._pairs: dict[str, StatePair] = {}
        self._applied = self._initiated = 0
        self._shown: int | None = None
        self._behind = 0

    @property
    def complete(self) -> bool:
        """Every plant has been seen once."""
        return len(self._pairs) == len(self._readers)

    def look(self) -> None:
        """Read the newest states: the last thing before a picture is drawn."""
        for name, reader in self._readers.items():
            record = reader.read()
            if record is not None:
                self._pairs[name] = StatePair.of(record)
                self._applied, self._initiated = map(int, record.integers[5:7])
                if self._shown is None:  # of a stick before this viewer
                    self._shown = self._applied

    def at(self, wall: int, ahead: int) -> dict[str, Shown]:
        """As of ``wall``; up to ``ahead`` ns beyond the next states."""
        shown = {}
        self._behind = max([0, *(pair.next_wall - wall for pair in self._pairs.values())])
        for name, pair in self._pairs.items():
            between = self._between[name]
            share = pair.fraction(wall, ahead)
            values, slope = between.at(pair, share), between.slope(pair)
            shown[name] = Shown(between.signals, values, slope, pair.ns(share))
        return shown

    def drawn(self, now: int) -> None:
        """The picture is on its way to the screen."""
        if self._shown is not None and self._applied > self._shown:
            self._shown = self._applied
            self.latency.add(now - self._initiated)
            self.interpolation.add(self._behind)


class RunState:
    """How the run stands."""

    def __init__(self, shared: Exchange) -> None:
        self.rate = 0.0
        self.integers: dict[str, int] = dict.fromkeys(RUN, 0)
        self._reader, self._answers = shared.reader("run"), shared.reader("answer")
        before = self._answers.read()
        self._refused = 0 if before is None else int(before.integers[0])

    def refusal(self) -> str:
        """Why the run did not follow an order; empty where nothing new was refused."""
        record = self._answers.read()
        if record is None or int(record.integers[0]) == self._refused:
            return ""
        self._refused, _, length, *words = record.integers.tolist()
        return words_to_reason(length, words)

    def look(self) -> None:
        record = self._reader.read()
        if record is not None:
            self.integers = dict(zip(RUN, record.integers.tolist(), strict=True))
            self.rate = float(record.floats[0])

    def __getitem__(self, name: str) -> int:
        return self.integers[name]


class Telling:
    """What goes to the run, as long as nobody else has the stick."""

    def __init__(self, shared: Exchange, clock: Callable[[], int] = stopwatch) -> None:
        self.flies = False
        """It has the stick: what is told is heard."""
        self._shared, self._who, self._clock = shared, newcomer(), clock
        self._seat = Seat(shared.reader("stick"), clock)
        self._told = b""
        self._told_ns = self._count = 0
        self._sit()

    @property
    def ordered(self) -> int:
        """How many orders there were so far, of all viewers; the run says how many it heard."""
        return self._count

    def _sit(self) -> bool:
        """Take the stick, or keep it; where it was another's, go on from what that one said."""
        free = self._seat.free_for(self._who)
        if free and not self.flies:
            shared = self._shared
            self._stick, self._orders, self._viewer = map(
                shared.writer, ("stick", "orders", "viewer")
            )
            before = shared.reader("orders").read()
            if before is not None:
                self._orders.integers[:] = before.integers
                self._orders.floats[:] = before.floats
            self._count = int(self._orders.integers[0])
            self._told = b""
        self.flies = free
        return free

    def stick(self, values: Vector, initiated: int, completed: int, lost: bool) -> bool:
        """Where the stick stands; whether that had to be said."""
        bits = values.tobytes()
        if not self._sit() or (bits == self._told and completed - self._told_ns < BEAT_NS):
            return False
        self._told, self._told_ns = bits, completed
        self._stick.integers[:] = (initiated, completed, int(lost), self._who)
        self._stick.floats[:] = values
        self._stick.publish()
        return True

    def leave(self) -> None:
        """The stick is free: whoever watches may take it at once."""
        if self._sit():
            self._stick.integers[-1] = NOBODY
            self._stick.publish()
        self.flies = False
        self._shared.look()

    def order(self, kind: int, value: float = 0.0) -> bool:
        """One of those of :mod:`rtsim.pilot.orders`; false where another has the stick."""
        if not self._sit():
            return False
        at = self._count % MOST_ORDERS
        self._count += 1
        self._orders.integers[0] = self._count
        self._orders.integers[1 + at] = kind
        self._orders.integers[1 + MOST_ORDERS + at] = self._clock()
        self._orders.floats[at] = value
        self._orders.publish()
        return True

    def figures(self, values: dict[str, int]) -> None:
        """How the viewer does."""
        if not self.flies:
            return
        told = {"wall": self._clock(), **values}
        self._viewer.integers[:] = [told.get(name, 0) for name in VIEWER]
        self._viewer.publish()

    def exchange(self) -> None:
        """Where something carries what is told: now."""
        self._shared.look()
