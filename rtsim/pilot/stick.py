"""The stick as a device of an inlet: what the viewer says of it, bounded, and safe in silence."""

from __future__ import annotations

import numpy as np

from rtsim.clock import stopwatch
from rtsim.pilot.pacing import Durations
from rtsim.pilot.sequence import Reader
from rtsim.signals import Signals, Vector
from rtsim.tag import NS_PER_S

SILENT_NS = NS_PER_S // 2
"""A viewer that has said nothing for so long does not fly any more: its stick is held."""
SAFE_NS = 2 * SILENT_NS
"""And after so long its values are the safe ones."""
_SANE_NS = 10 * NS_PER_S


class SharedStick:
    """What the person does, as a device of an inlet; see :class:`rtsim.inlets.Device`.

    A viewer that falls silent - closed, hung, killed - leaves the stick where it was, then at
    ``safe``.
    """

    def __init__(self, reader: Reader, signals: Signals, safe: Vector | None = None) -> None:
        self.latency = Durations()
        """From a device's reading to the tag, for each change of the stick [ns]."""
        self.applied, self.initiated = 0, 0
        """The number of the record last latched, and when its device was read."""
        self.stamps = 0, 0, 0
        """Of the value latched last: read from the device, decoded, latched [ns]."""
        self.silences = 0
        self._reader = reader
        self._safe = signals.initial() if safe is None else safe
        self._low = np.array([s.low for s in signals for _ in range(s.size)])
        self._high = np.array([s.high for s in signals for _ in range(s.size)])
        self._said: Vector = signals.initial()
        self._heard_ns = 0
        self._number = 0
        self._silent = self._again = False

    def again(self) -> None:
        """The run went back to a checkpoint, and the stick did not: say where it is."""
        self._again = self._number > 0

    def poll(self) -> Vector | None:
        now = stopwatch()
        if self._again:
            self._again = False
            self.stamps = self.stamps[0], self.stamps[1], now
            return self._said
        if self._reader.number == self._number:
            return self._silence(now)
        record = self._reader.read()
        if record is None:
            return None
        self._number, self._heard_ns, self._silent = record.number, now, False
        values = np.clip(record.floats, self._low, self._high)
        if not np.isfinite(values).all() or values.tobytes() == self._said.tobytes():
            return None
        self.applied, self.initiated = record.number, int(record.integers[0])
        self.stamps = self.initiated, int(record.integers[1]), now
        if 0 <= now - self.initiated < _SANE_NS:
            self.latency.add(now - self.initiated)
        self._said = values
        return values

    def _silence(self, now: int) -> Vector | None:
        if self._number == 0 or self._silent or now - self._heard_ns < SAFE_NS:
            return None
        self._silent = True
        self.silences += 1
        if self._safe.tobytes() == self._said.tobytes():
            return None
        self._said = self._safe.copy()
        self.stamps = now, now, now
        return self._said
