"""The MCP3008, an ADC with 10 bits and eight channels on an SPI bus.

Source: data sheet DS21295D, sections 4.2 (code), 5.0 (serial communication) and table 5-2.
"""

from __future__ import annotations

from collections.abc import Mapping

from hitl.bus_devices.device import Quantity, SpiDevice
from rtsim.core.errors import ScenarioError

CODES = 1024
_BITS = 10
_CONFIGURATION = 4
"""Bits after the start bit: one for single-ended or differential, three for the channel."""
_NULL = _CONFIGURATION + 2
"""Clock of the null bit, counted from the start bit; one clock passes for sampling."""


class Mcp3008(SpiDevice):
    """An ideal MCP3008.  The code is the integer part of 1024 * V / VREF, limited to 0 to 1023.

    The output reads as 1 while the device does not drive it. The device works in the SPI modes 0,0
    and 1,1, which are equivalent for whole bytes. A wrong SPI mode is not detected.
    """

    quantities = tuple(
        Quantity(f"ch{n}", "V", 0.0, f"voltage at the input CH{n}") for n in range(8)
    )
    options = {"vref": 5.0}  # noqa: RUF012

    def __init__(self, options: Mapping[str, float] | None = None) -> None:
        super().__init__(options)
        if self.option["vref"] <= 0:
            raise ScenarioError(f"vref = {self.option['vref']:g} V must be positive")
        self.select()

    def code(self, configuration: int) -> int:
        """Return the code for four configuration bits, as in table 5-2."""
        channel = configuration & 7
        volts = self.values[f"ch{channel}"]
        if not configuration & 8:  # differential: the other input of the pair is IN-
            volts -= self.values[f"ch{channel ^ 1}"]
        return min(max(int(CODES * volts / self.option["vref"]), 0), CODES - 1)

    def select(self) -> None:
        self._clock = -1
        """Clocks since the start bit; -1 before the start bit."""
        self._configuration = 0
        self._code = 0

    def transfer(self, byte: int) -> int:
        out = 0
        for bit in range(7, -1, -1):
            out = out << 1 | self._clocked(byte >> bit & 1)
        return out

    def _clocked(self, bit: int) -> int:
        if self._clock < 0:
            self._clock += bit  # clock 0 is the start bit, the first 1
            return 1
        self._clock += 1
        if self._clock <= _CONFIGURATION:
            self._configuration = self._configuration << 1 | bit
            if self._clock == _CONFIGURATION:
                self._code = self.code(self._configuration)
            return 1
        place = self._clock - _NULL
        if place < 0:
            return 1
        if place <= _BITS:  # the null bit, then the most significant bit first
            return self._code >> _BITS - place & 1
        return self._code >> place - _BITS & 1  # then the bits in reverse order, and zeros
