"""Attach the bus devices of a rig to its running boards."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from hitl.boards.emulated import EmulatedBoard
from hitl.bus_devices.device import BusDevice
from hitl.bus_devices.ends import ENDS, I2cEnd, Placed, SpiEnd
from hitl.bus_devices.known import DEVICES
from hitl.rigs.rig import Rig, RigBusDevice


class BusDevices:
    """The bus devices of a rig at its running boards.  All boards are at cycle 0."""

    def __init__(self, rig: Rig, boards: Mapping[str, EmulatedBoard]) -> None:
        self._signals = rig.bus_signals
        self._faults = rig.bus_faults
        self._ends: dict[str, I2cEnd | SpiEnd] = {}
        self._of: dict[str, str] = {}
        """Board and bus of each device, by its name."""
        for at in dict.fromkeys(d.at for d in rig.bus_devices):
            rows = [d for d in rig.bus_devices if d.at == at]
            self._of |= {d.name: at for d in rows}
            board, bus = boards[rows[0].board], rows[0].bus
            placed = [Placed(d.name, _made(d), d.address, d.select, d.pins) for d in rows]
            self._ends[at] = ENDS[board.description.bus(bus).kind](board, bus, placed)
        self._at = [self._ends[self._of[s.device]] for s in self._signals]

    def begin(self) -> None:
        """Let the run begin now: the times of the faults count from here."""
        for at, end in self._ends.items():
            end.begin()
            end.faults.extend(fault.fault for fault in self._faults if fault.bus == at)

    def set(self, values: Iterable[float]) -> None:
        """Set the quantities from the values of :attr:`Rig.bus_signals`.

        Raises :class:`ControllerError` for a value that is not finite.
        """
        for signal, end, value in zip(self._signals, self._at, values, strict=True):
            end.set(signal.device, signal.quantity, value * signal.scale + signal.offset)

    @property
    def acted(self) -> list[int]:
        """Number of operations that each fault of the rig changed."""
        return [self._ends[fault.bus].acted[fault.fault] for fault in self._faults]

    @property
    def idle(self) -> list[str]:
        """Why each fault of the rig has changed no operation; empty if it has changed one."""
        return [self._ends[fault.bus].why_idle(fault.fault) for fault in self._faults]

    @property
    def unused(self) -> dict[str, str]:
        """A sentence on each device that had no transfer since power-on, by its name."""
        found = {name: self._ends[at].why_unused(name) for name, at in self._of.items()}
        return {name: text for name, text in found.items() if text}


def _made(device: RigBusDevice) -> BusDevice:
    made = DEVICES[device.kind](device.options)
    for name, value in device.constants:
        made.set(name, value)
    return made
