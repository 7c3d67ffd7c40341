"""Faults of a bus: a stuck line, a missing acknowledgement, a wrong byte."""

from __future__ import annotations

from dataclasses import dataclass

KINDS = ("stuck_sda", "nack_address", "nack_data", "wrong_byte")


@dataclass(frozen=True)
class BusFault:
    """A fault of a bus from ``begin_ns`` up to ``end_ns``; ``None`` for the end of the run.

    Times are ns since the run began.  ``stuck_sda``: something holds SDA low.  ``nack_address``:
    addresses are not acknowledged.  ``nack_data``: bytes that are written are not acknowledged.
    ``wrong_byte``: the bits of ``mask`` are inverted in each byte that is read, also of SPI.
    ``device`` limits all but ``stuck_sda`` to the device of that name; ``""`` is every device.
    """

    kind: str
    begin_ns: int
    end_ns: int | None = None
    device: str = ""
    mask: int = 0xFF

    def acts(self, ns: int, device: str = "") -> bool:
        """Return True if the fault acts at the time ``ns`` on ``device``."""
        in_time = self.begin_ns <= ns and (self.end_ns is None or ns < self.end_ns)
        return in_time and (not self.device or self.device == device)
