"""Read states from the shared memory, and write stick values and orders to it."""

from __future__ import annotations

from collections.abc import Callable

from rtsim.core.clock import stopwatch
from rtsim.core.signals import Vector
from rtsim.core.tag import NS_PER_S
from rtsim.pilot.interpolation import Interpolation, StatePair
from rtsim.pilot.pacing import Durations
from rtsim.pilot.scenes.scene import Shown
from rtsim.pilot.shared import (
    MOST_ORDERS,
    NOBODY,
    RUN,
    VIEWER,
    ControlAuthority,
    Exchange,
    new_viewer_number,
    words_to_reason,
)

BEAT_NS = NS_PER_S // 10
"""Keep-alive period, ns: an unchanged stick record is written again after this time."""


class Picture:
    """The states of all plants at one wall-clock time."""

    def __init__(self, shared: Exchange) -> None:
        self.latency = Durations()
        """Latencies from a change at a device to the end of the first picture that shows it, ns."""
        self.interpolation = Durations()
        """Delays of pictures behind the newest state, caused by interpolation, ns."""
        self._readers = {name: shared.reader(f"plant/{name}") for name, _ in shared.schema.plants}
        self._between = {name: Interpolation(signals) for name, signals in shared.schema.plants}
        self._pairs: dict[str, StatePair] = {}
        self._applied = self._initiated = 0
        self._shown: int | None = None
        self._behind = 0

    @property
    def complete(self) -> bool:
        return len(self._pairs) == len(self._readers)

    def look(self) -> None:
        """Read the newest states; call this method just before drawing."""
        for name, reader in self._readers.items():
            record = reader.read()
            if record is not None:
                self._pairs[name] = StatePair.of(record)
                self._applied, self._initiated = map(int, record.integers[5:7])
                if self._shown is None:  # ignore the stick of an earlier viewer
                    self._shown = self._applied

    def at(self, wall: int, ahead: int) -> dict[str, Shown]:
        """Return the states at the time ``wall``, extrapolated by at most ``ahead`` ns."""
        shown = {}
        self._behind = max([0, *(pair.next_wall - wall for pair in self._pairs.values())])
        for name, pair in self._pairs.items():
            between = self._between[name]
            share = pair.fraction(wall, ahead)
            values, slope = between.at(pair, share), between.slope(pair)
            shown[name] = Shown(between.signals, values, slope, pair.ns(share))
        return shown

    def drawn(self, now: int) -> None:
        """Update the latencies after a picture was drawn at the time ``now``."""
        if self._shown is not None and self._applied > self._shown:
            self._shown = self._applied
            self.latency.add(now - self._initiated)
            self.interpolation.add(self._behind)


class RunState:
    """The state of a run and its rate."""

    def __init__(self, shared: Exchange) -> None:
        self.rate = 0.0
        self.integers: dict[str, int] = dict.fromkeys(RUN, 0)
        self._reader, self._answers = shared.reader("run"), shared.reader("answer")
        before = self._answers.read()
        self._refused = 0 if before is None else int(before.integers[0])

    def refusal(self) -> str:
        """Return why the run rejected an order since the last call, or ""."""
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
    """Send stick positions, commands and statistics while this viewer controls the run."""

    def __init__(self, shared: Exchange, clock: Callable[[], int] = stopwatch) -> None:
        self.flies = False
        self._shared, self._who, self._clock = shared, new_viewer_number(), clock
        self._authority = ControlAuthority(shared.reader("stick"), clock)
        self._written = b""
        self._written_ns = self._count = 0
        self._hold_authority()

    @property
    def ordered(self) -> int:
        """Number of orders from all viewers so far."""
        return self._count

    def _hold_authority(self) -> bool:
        free = self._authority.free_for(self._who)
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
            self._written = b""
        self.flies = free
        return free

    def stick(self, values: Vector, initiated: int, completed: int, lost: bool) -> bool:
        """Write changed stick values or a due keep-alive; return True if written."""
        bits = values.tobytes()
        if not self._hold_authority() or (
            bits == self._written and completed - self._written_ns < BEAT_NS
        ):
            return False
        self._written, self._written_ns = bits, completed
        self._stick.integers[:] = (initiated, completed, int(lost), self._who)
        self._stick.floats[:] = values
        self._stick.publish()
        return True

    def leave(self) -> None:
        """Let another viewer control the run at once."""
        if self._hold_authority():
            self._stick.integers[-1] = NOBODY
            self._stick.publish()
        self.flies = False
        self._shared.look()

    def order(self, kind: int, value: float = 0.0) -> bool:
        """Send a command such as ``PAUSE``; return False if another viewer controls the run."""
        if not self._hold_authority():
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
        if not self.flies:
            return
        figures = {"wall": self._clock(), **values}
        self._viewer.integers[:] = [figures.get(name, 0) for name in VIEWER]
        self._viewer.publish()

    def exchange(self) -> None:
        """Exchange records with a run on another machine."""
        self._shared.look()
