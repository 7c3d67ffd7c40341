"""Analog parts between pins of emulated boards."""

from __future__ import annotations

import math

from hitl.rigs.rig import LowPass


class Capacitor:
    """The voltage behind a :class:`LowPass` that is driven with a held voltage.

    dV/dt = (held - V) / RC has the solution V(t) = held + (V0 - held) exp(-t / RC), which is exact
    however time is cut.  PWM counts as its mean: its ripple is left out, at most
    held * (1 - duty) * T / RC of a period T.  No current flows into the ADC.
    """

    def __init__(self, part: LowPass, clock_hz: int) -> None:
        self._cycles = part.time_constant * clock_hz
        self._cycle = 0
        self._volts = 0.0
        self.held = 0.0

    def volts(self, cycle: int) -> float:
        """At ``cycle``, the driven voltage held since the last :meth:`drive`."""
        decayed = math.exp(-(cycle - self._cycle) / self._cycles)
        return self.held + (self._volts - self.held) * decayed

    def drive(self, cycle: int, volts: float) -> None:
        """From ``cycle`` on with ``volts``."""
        if volts != self.held:
            self._volts, self._cycle = self.volts(cycle), cycle
            self.held = volts
