"""Faults of a bus: a stuck line, a missing acknowledgement, a wrong byte."""

from __future__ import annotations

from dataclasses import dataclass

from rtsim.core.tag import NS_PER_S

_MISSED = {
    "stuck_sda": "the bus had no operation",
    "nack_address": "{} got its address",
    "nack_data": "{} acknowledged a written byte",
    "wrong_byte": "{} sent a byte",
}
"""What did not happen while a fault that has changed nothing could act."""
KINDS = tuple(_MISSED)


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


def why_idle(fault: BusFault, ran_ns: int) -> str:
    """Return why ``fault`` changed no operation of boards that ran for ``ran_ns``, as a clause."""
    begin, end = fault.begin_ns / NS_PER_S, fault.end_ns
    if fault.begin_ns >= ran_ns:
        return f"it begins at {begin:g} s, and the boards ran until {ran_ns / NS_PER_S:g} s"
    until = "the end" if end is None or end > ran_ns else f"{end / NS_PER_S:g} s"
    who = f"{fault.device} never" if fault.device else "no device"
    return f"{_MISSED[fault.kind].format(who)} from {begin:g} s to {until}"
