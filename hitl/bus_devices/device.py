"""Base classes of simulated bus devices, and faults of a bus.

A new device needs one class and one entry in ``hitl.bus_devices.DEVICES``.
:func:`hitl.testing.bus_devices.check_bus_device` checks a device, including one in another package.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from rtsim.core.errors import ControllerError, ScenarioError, UnknownName
from rtsim.core.tag import NS_PER_S


@dataclass(frozen=True)
class Quantity:
    """A quantity that a device measures."""

    name: str
    unit: str
    initial: float = 0.0
    """Value while no signal is connected."""
    description: str = ""


class BusDevice:
    """Base class of the devices on a bus.

    Times are in ns since power-on of the board. ``options`` contains the options of the device in
    the rig file. The constructor raises :class:`ScenarioError` for an unknown option and for a
    value that is not a finite number.
    """

    bus: ClassVar[str]
    quantities: ClassVar[tuple[Quantity, ...]] = ()
    options: ClassVar[Mapping[str, float]] = {}
    """Names and default values of the options."""
    outputs: ClassVar[tuple[str, ...]] = ()
    """Names of the pins that the device drives, such as ``int``."""

    def __init__(self, options: Mapping[str, float] | None = None) -> None:
        self.option = dict(self.options)
        for name, value in (options or {}).items():
            if name not in self.option:
                raise UnknownName("option", name, self.option)
            if isinstance(value, bool) or not isinstance(value, (int, float)):
                raise ScenarioError(f"option {name} = {value!r} is not a number")
            if not math.isfinite(value):
                raise ScenarioError(f"option {name} = {value!r} is not finite")
            self.option[name] = float(value)
        self.values = {q.name: q.initial for q in self.quantities}

    def set(self, name: str, value: float) -> None:
        """Set a quantity, such as a voltage, from now on.

        Raises ``ControllerError`` for a value that is not finite.
        """
        if not math.isfinite(value):
            raise ControllerError(
                f"{name} = {value!r} is not finite; give the bus device a finite value"
            )
        self.values[name] = value

    def advance(self, ns: int) -> None:
        """Advance the device to the time ``ns``."""

    def due_ns(self) -> int | None:
        """Return the next time (ns) at which an output pin may change, or None."""
        return None

    def level(self, output: str) -> bool:  # noqa: ARG002
        """Return the level that the device drives at the pin ``output``."""
        return False


class I2cDevice(BusDevice):
    """Base class of the devices on an I2C bus.

    A transfer is a START, bytes in one direction, and a STOP.  The bus compares addresses, so
    :meth:`start` is called only for this device's address.
    """

    bus = "i2c"
    address: ClassVar[int]
    """Default 7-bit address; the rig file may give another one."""
    addresses: ClassVar[tuple[int, ...]] = ()
    """Addresses that the device can have.  If empty, any address from 0x08 to 0x77 is allowed."""

    def start(self, read: bool) -> bool:  # noqa: ARG002
        """Begin a transfer; return True to acknowledge the address.

        With ``read``, the board reads from the device.
        """
        return True

    def write(self, byte: int) -> bool:
        """Receive a byte; return True to acknowledge it."""
        raise NotImplementedError

    def read(self) -> int:
        """Return the next byte, 0 to 255."""
        raise NotImplementedError

    def stop(self) -> None:
        """End the transfer.

        A repeated START calls ``start`` again without ``stop``.
        """


class SpiDevice(BusDevice):
    """Base class of the devices on an SPI bus; a low select pin selects the device."""

    bus = "spi"

    def select(self) -> None:
        """Begin a transfer."""

    def transfer(self, byte: int) -> int:
        """Receive a byte, and return the byte (0 to 255) that the device sends at the same time."""
        raise NotImplementedError

    def deselect(self) -> None:
        """End the transfer."""


_MISSED = {
    "stuck_sda": "the bus had no operation",
    "nack_address": "{} got its address",
    "nack_data": "{} acknowledged a written byte",
    "wrong_byte": "{} sent a byte",
}
"""For each kind of fault, a clause about the operation that the fault never met."""
KINDS = tuple(_MISSED)


@dataclass(frozen=True)
class BusFault:
    """A fault of a bus from ``begin_ns`` to ``end_ns``, in ns since the start of the run.

    With ``end_ns=None``, the fault lasts to the end of the run. ``device`` is the affected device,
    or "" for all devices. The kinds are:

    - The fault ``stuck_sda`` holds SDA low and affects all devices.
    - ``nack_address``: addresses are not acknowledged.
    - ``nack_data``: written bytes are not acknowledged.
    - The fault ``wrong_byte`` inverts the bits of ``mask`` in each byte that the board reads.
    """

    kind: str
    begin_ns: int
    end_ns: int | None = None
    device: str = ""
    mask: int = 0xFF

    def acts(self, ns: int, device: str = "") -> bool:
        in_time = self.begin_ns <= ns and (self.end_ns is None or ns < self.end_ns)
        return in_time and (not self.device or self.device == device)


def why_idle(fault: BusFault, ran_ns: int) -> str:
    """Return why a bus fault had no effect in a run of ``ran_ns``."""
    begin, end = fault.begin_ns / NS_PER_S, fault.end_ns
    if fault.begin_ns >= ran_ns:
        return f"it begins at {begin:g} s, and the boards ran until {ran_ns / NS_PER_S:g} s"
    until = "the end" if end is None or end > ran_ns else f"{end / NS_PER_S:g} s"
    who = f"{fault.device} never" if fault.device else "no device"
    return f"{_MISSED[fault.kind].format(who)} from {begin:g} s to {until}"
