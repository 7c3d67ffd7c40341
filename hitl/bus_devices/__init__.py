"""Simulated devices on buses of emulated boards."""

from __future__ import annotations

from hitl.bus_devices.device import BusDevice, I2cDevice, Quantity, SpiDevice
from hitl.bus_devices.ends import I2cEnd, Placed
from hitl.bus_devices.mcp3008 import Mcp3008
from hitl.bus_devices.mpu6050 import Mpu6050
from rtsim.core.errors import ScenarioError
from rtsim.core.extension_point import ExtensionPoint

__all__ = [
    "DEVICES", "KINDS", "BusDevice", "I2cDevice", "I2cEnd", "Mcp3008", "Mpu6050", "Placed",
    "Quantity", "SpiDevice",
]  # fmt: skip

KINDS: dict[str, type[BusDevice]] = {"i2c": I2cDevice, "spi": SpiDevice}
"""Base class of the devices of each kind of bus."""


def _usable(name: str, made: object) -> type[BusDevice]:
    if isinstance(made, type) and issubclass(made, (I2cDevice, SpiDevice)):
        return made
    raise ScenarioError(
        f"bus device {name!r} is {made!r}; expected a class that derives from I2cDevice or "
        "SpiDevice of hitl.bus_devices.device"
    )


DEVICES: ExtensionPoint[type[BusDevice]] = ExtensionPoint(
    "rtsim.bus_devices",
    "bus device",
    {"mcp3008": Mcp3008, "mpu6050": Mpu6050},
    _usable,
)
"""All bus devices by name.  Packages add devices through the entry point ``rtsim.bus_devices``."""
