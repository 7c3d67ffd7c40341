"""A hand on virtual devices, and the signals that it moves."""

from __future__ import annotations

from typing import Any

from rtsim.core.signals import Signal, Signals
from rtsim.pilot.devices.controls import Controls
from rtsim.pilot.devices.device import DeviceSample, Stick
from rtsim.pilot.devices.mapping import mapping_of

MS = 1_000_000
SIGNALS = Signals(
    Signal("pitch", low=-1.0, high=1.0),
    Signal("gear", low=0.0, high=1.0, initial=1.0),
    Signal("brake", low=0.0, high=1.0),
    Signal("flaps", "deg", low=0.0, high=30.0),
)
GUID = "0300000000000000000000000000abcd"


class Hand:
    """Controls by a mapping, and a stick on which buttons and keys are held."""

    def __init__(self, tables: dict[str, Any], signals: Signals = SIGNALS) -> None:
        self.mapping = mapping_of(tables, signals, "my.toml")
        self.controls = Controls(self.mapping, signals)
        self.ns = 0
        self.axes: tuple[float, ...] = (0.0, 0.0)
        self.hold()

    def hold(self, *held: str, keys: str = "", after: int = MS) -> dict[str, float]:
        stick = Stick("joystick", "Stick", self.axes, frozenset(held), GUID)
        return self.see({1: stick}, keys, after)

    def see(self, sticks: dict[int, Stick], keys: str = "", after: int = MS) -> dict[str, float]:
        self.ns += after
        values = self.controls.update(DeviceSample(sticks, frozenset(keys)), self.ns)
        return dict(zip(self.controls.signals.names, values.tolist(), strict=True))
