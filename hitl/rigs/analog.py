"""Analog components between pins of emulated boards."""

from __future__ import annotations

import math

from hitl.rigs.rig import LowPass


class Capacitor:
    """The capacitor of a :class:`LowPass` that is driven with a piecewise constant voltage.

    dV/dt = (held - V) / RC has the solution V(t) = held + (V0 - held) exp(-t / RC), which is exact
    for steps of any length.  A PWM signal is replaced by its mean.  This omits its ripple, which is
    at most held * (1 - duty) * T / RC for a period T.  No current flows into the ADC.
    """

    def __init__(self, part: LowPass, clock_hz: int) -> None:
        self._cycles = part.time_constant * clock_hz
        self._cycle = 0
        self._volts = 0.0
        self.held = 0.0

    def volts(self, cycle: int) -> float:
        """Return the capacitor's voltage, V, at ``cycle``, which is not before the last drive."""
        decayed = math.exp(-(cycle - self._cycle) / self._cycles)
        return self.held + (self._volts - self.held) * decayed

    def drive(self, cycle: int, volts: float) -> None:
        """Drive the low pass with ``volts`` from ``cycle`` on."""
        if volts != self.held:
            self._volts, self._cycle = self.volts(cycle), cycle
            self.held = volts
