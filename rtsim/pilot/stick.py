"""The stick as the device of an external input: what the viewer says of it, within bounds."""

from __future__ import annotations

import numpy as np

from rtsim.core.clock import stopwatch
from rtsim.core.signals import Signals, Vector
from rtsim.core.tag import NS_PER_S
from rtsim.pilot.pacing import Durations
from rtsim.pilot.sequence import Reader

SILENT_NS = NS_PER_S // 2
"""A viewer that has said nothing for so long does not fly any more: its stick is held."""
SAFE_NS = 2 * SILENT_NS
"""And after so long its values go to the safe ones."""
FADE_NS = NS_PER_S
"""Within which they are there."""
_SANE_NS = 10 * NS_PER_S


class SharedStick:
    """What the person does, as a device of an external input; see
    :class:`rtsim.components.external_inputs.InputDevice`.

    A viewer that falls silent - closed, hung, killed - leaves the stick where it was, and from
    there it goes to :attr:`safe`, as it does for a device that is unplugged.
    """

    def __init__(self, reader: Reader, signals: Signals) -> None:
        self.safe: Vector = signals.initial()
        """(n,), within the signals' bounds."""
        self.latency = Durations()
        """From a device's reading to the tag, for each change of the stick [ns]."""
        self.applied, self.initiated = 0, 0
        """The number of the record last latched, and when its device was read."""
        self.stamps = 0, 0, 0
        """Of the value latched last: read from the device, decoded, latched [ns]."""
        self.silences = 0
        self._reader = reader
        self._low = np.array([s.low for s in signals for _ in range(s.size)])
        self._high = np.array([s.high for s in signals for _ in range(s.size)])
        self._said: Vector = signals.initial()
        self._heard_ns = 0
        self._number = 0
        self._silent = self._again = False
        self._held: Vector = self._said
        """Where the silence found it."""

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
        since = now - self._heard_ns - SAFE_NS
        if self._number == 0 or since < 0:
            return None
        if not self._silent:
            self._silent, self._held = True, self._said
            self.silences += 1
        share = since / FADE_NS
        way = self.safe - self._held
        values = self._held + share * way if share < 1.0 else self.safe.copy()
        if values.tobytes() == self._said.tobytes():
            return None
        self._said = values
        self.stamps = now, now, now
        return self._said
