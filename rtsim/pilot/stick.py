"""The stick as an input device: reads the viewer's values, and is fail-safe without a viewer."""

from __future__ import annotations

import numpy as np

from rtsim.core.clock import stopwatch
from rtsim.core.signals import Signals, Vector
from rtsim.core.tag import NS_PER_S
from rtsim.pilot.pacing import Durations
from rtsim.pilot.sequence import Reader

SILENT_NS = NS_PER_S // 2
"""Time without a record from the viewer after which the stick's values count as held, ns."""
SAFE_NS = 2 * SILENT_NS
"""Time without a record after which the values move to the fail-safe values, ns."""
FADE_NS = NS_PER_S
"""Duration of the movement to the fail-safe values, ns."""
_SANE_NS = 10 * NS_PER_S


class SharedStick:
    """The viewer's stick as a :class:`rtsim.components.external_inputs.InputDevice`.

    If the viewer is closed, hangs or is killed, the values are held and then move to :attr:`safe`,
    as they do after a device was unplugged.
    """

    def __init__(self, reader: Reader, signals: Signals) -> None:
        self.safe: Vector = signals.initial()
        """The fail-safe values (n,), within the bounds of the signals."""
        self.latency = Durations()
        """Latencies from the stamp ``initiated`` to the tag that uses the value, per change, ns."""
        self.applied, self.initiated = 0, 0
        """Number of the record that was latched last, and when its change can have happened, ns."""
        self.stamps = 0, 0, 0
        """Times at which the change can have happened first, was decoded, and was latched, ns."""
        self.silences = 0
        self._reader = reader
        self._low = np.array([s.low for s in signals for _ in range(s.size)])
        self._high = np.array([s.high for s in signals for _ in range(s.size)])
        self._said: Vector = signals.initial()
        self._heard_ns = 0
        self._number = 0
        self._silent = self._again = False
        self._held: Vector = self._said
        """The last values before the viewer's records stopped."""

    def repeat(self) -> None:
        """Make the next :meth:`poll` return the present values, after a restore of a checkpoint."""
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
