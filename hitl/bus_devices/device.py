"""Base classes of simulated bus devices, and the faults of a bus.

A device is one class and one entry in :data:`hitl.bus_devices.DEVICES`.
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
    """Base class of a device on a bus.

    Times are in ns since the board's power-on and never decrease.  The constructor's ``options``
    come from the rig file and override the class attribute :attr:`options`.  The constructor raises
    :class:`ScenarioError` for an unknown option and for a value that is not a finite number.
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
        """Set the value of the quantity ``name`` from the present time on.

        Raises :class:`ControllerError` for an infinite value or NaN.
        """
        if not math.isfinite(value):
            raise ControllerError(
                f"{name} = {value!r} is not finite; give the bus device a finite value"
            )
        self.values[name] = value

    def advance(self, ns: int) -> None:
        """Advance the device to the time ``ns``."""

    def due_ns(self) -> int | None:
        """Return the next time at which a pin of :attr:`outputs` may change, or None."""
        return None

    def level(self, output: str) -> bool:  # noqa: ARG002
        """Return the level that the device drives at the pin ``output``."""
        return False


class I2cDevice(BusDevice):
    """Base class of a device on an I2C bus.

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

        ``read`` is True if the board reads from the device.
        """
        return True

    def write(self, byte: int) -> bool:
        """Receive a byte from the board; return True to acknowledge the byte."""
        raise NotImplementedError

    def read(self) -> int:
        """Return the next byte, 0 to 255."""
        raise NotImplementedError

    def stop(self) -> None:
        """End the transfer.

        A repeated START calls :meth:`start` again without calling :meth:`stop` before.
        """


class SpiDevice(BusDevice):
    """Base class of a device on an SPI bus, which is selected while its select pin is low."""

    bus = "spi"

    def select(self) -> None:
        """Begin a transfer."""

    def transfer(self, byte: int) -> int:
        """Receive ``byte``, and return the byte that the device sends meanwhile, 0 to 255."""
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
    """A fault of a bus from ``begin_ns`` to ``end_ns``, in ns since the run began.

    If ``end_ns`` is None, the fault lasts until the end of the run. ``device`` limits the fault to
    one device; "" means every device. The kinds are:

    - ``stuck_sda``: SDA is held low, which affects all devices; ``device`` must be "".
    - ``nack_address``: addresses are not acknowledged.
    - ``nack_data``: written bytes are not acknowledged.
    - ``wrong_byte``: the bits of ``mask`` are inverted in each byte that is read, also on SPI.
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
    """Return the reason why a bus fault changed nothing while the boards ran for ``ran_ns``."""
    begin, end = fault.begin_ns / NS_PER_S, fault.end_ns
    if fault.begin_ns >= ran_ns:
        return f"it begins at {begin:g} s, and the boards ran until {ran_ns / NS_PER_S:g} s"
    until = "the end" if end is None or end > ran_ns else f"{end / NS_PER_S:g} s"
    who = f"{fault.device} never" if fault.device else "no device"
    return f"{_MISSED[fault.kind].format(who)} from {begin:g} s to {until}"
