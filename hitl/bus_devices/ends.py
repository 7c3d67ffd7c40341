"""Connect simulated devices and faults to a bus of an emulated board."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from hitl.boards.contract import EMPTY, BoardError, BusOp, BusReply
from hitl.boards.emulated import EmulatedBoard
from hitl.bus_devices.device import BusDevice, BusFault, I2cDevice, SpiDevice, why_idle
from rtsim.core.tag import NS_PER_S

_MOST = 8
"""Maximum number of addresses in one message."""


@dataclass(frozen=True)
class Placed:
    """A device with its connections to the bus and the board."""

    name: str
    device: BusDevice
    address: int = 0
    select: str = ""
    """Pin of the board that selects the device on an SPI bus."""
    pins: Mapping[str, str] = field(default_factory=dict)
    """Pin of the board that each output of the device drives."""


class _End:
    kind: ClassVar[str]
    reached: ClassVar[str]
    """Verb for reports of unused devices: ``addressed`` or ``selected``."""
    origin_ns = 0
    """Time from power-on to the start of the run, ns; times of faults count from this point."""

    def __init__(
        self, board: EmulatedBoard, bus: str, placed: Sequence[Placed],
        faults: Sequence[BusFault] = (),
    ) -> None:  # fmt: skip
        self._board = board
        self.placed = tuple(placed)
        self.faults = list(faults)
        self.acted: Counter[BusFault] = Counter()
        self.asked: Counter[str] = Counter()
        """Number of transfers to each device since power-on, including failed ones."""
        self._levels: dict[tuple[str, str], bool] = {}
        found = board.description.bus(bus)
        if found.kind != self.kind:
            raise BoardError(
                f"{bus} of {board.description.phrase} is a bus of kind {found.kind}, but the "
                f"devices need a bus of kind {self.kind}; choose another bus"
            )
        board.attach(bus, self)
        self._drive()

    def begin(self) -> None:
        self.origin_ns = self._ns(self._board.cycles)

    def why_idle(self, fault: BusFault) -> str:
        ran_ns = self._ns(self._board.cycles) - self.origin_ns
        return "" if self.acted[fault] else why_idle(fault, ran_ns)

    def why_unused(self, name: str) -> str:
        return "" if self.asked[name] else f"{name} was never {self.reached}"

    def _ns(self, cycle: int) -> int:
        return cycle * NS_PER_S // self._board.clock_hz

    def _advance(self, cycle: int) -> int:
        ns = self._ns(cycle)
        for one in self.placed:
            one.device.advance(ns)
        return ns

    def _drive(self) -> None:
        for one in self.placed:
            for output, pin in one.pins.items():
                level = one.device.level(output)
                if self._levels.get((one.name, output)) != level:
                    self._levels[one.name, output] = level
                    self._board.pins.write(pin, level)

    def set(self, name: str, quantity: str, value: float) -> None:
        self._advance(self._board.cycles)
        next(one for one in self.placed if one.name == name).device.set(quantity, value)
        self._drive()

    @property
    def due(self) -> int | None:
        dues = [one.device.due_ns() for one in self.placed if one.pins]
        known = [due for due in dues if due is not None]
        return -(-min(known) * self._board.clock_hz // NS_PER_S) if known else None

    def serve(self, cycle: int) -> None:
        self._advance(cycle)
        self._drive()

    def edge(self, pin: str, level: bool, cycle: int) -> None: ...

    def let_go(self) -> None:
        """Handle a reset of the board."""

    def took(self, op: BusOp, byte: int, cycle: int) -> BusReply | None:
        """Return the answer to a bus operation."""
        raise NotImplementedError

    def _acting(self, kind: str, ns: int, device: str = "") -> bool:
        acting = [f for f in self.faults if f.kind == kind and self._acts(f, ns, device)]
        self.acted.update(acting)
        return bool(acting)

    def _acts(self, fault: BusFault, ns: int, device: str = "") -> bool:
        return fault.acts(ns - self.origin_ns, device)

    def _spoiled(self, byte: int, ns: int, device: str) -> int:
        for fault in self.faults:
            if fault.kind == "wrong_byte" and self._acts(fault, ns, device):
                self.acted[fault] += 1
                byte ^= fault.mask
        return byte


class I2cEnd(_End):
    """The devices on an I2C bus, selected by their addresses."""

    kind = "i2c"
    reached = "addressed"

    def __init__(
        self, board: EmulatedBoard, bus: str, placed: Sequence[Placed],
        faults: Sequence[BusFault] = (),
    ) -> None:  # fmt: skip
        super().__init__(board, bus, placed, faults)
        self._with: tuple[str, I2cDevice] | None = None
        """Name and device that acknowledged the address of the present transfer."""
        self.empty: Counter[int] = Counter()

    def took(self, op: BusOp, byte: int, cycle: int) -> BusReply | None:
        ns = self._advance(cycle)
        reply = self._stuck(op, byte, ns) or self._answer(op, byte, ns)
        self._drive()
        return None if reply.at < 0 else reply

    def _stuck(self, op: BusOp, byte: int, ns: int) -> BusReply | None:
        if not self._acting("stuck_sda", ns):
            return None
        if op is BusOp.STOP:
            self._leave()
        if op in (BusOp.START, BusOp.STOP):
            return BusReply(at=self._free_at(ns))
        if op is BusOp.READ:
            return BusReply(0, lost=byte == 0)
        return BusReply(ack=True, lost=byte != 0)

    def _free_at(self, ns: int) -> int:
        while True:
            ends = [f.end_ns for f in self.faults if f.kind == "stuck_sda" and self._acts(f, ns)]
            if not ends:
                return -(-ns * self._board.clock_hz // NS_PER_S)
            if None in ends:
                return -1
            ns = self.origin_ns + max(end for end in ends if end is not None)

    def _answer(self, op: BusOp, byte: int, ns: int) -> BusReply:
        if op is BusOp.STOP:
            self._leave()
            return BusReply()
        if op is BusOp.ADDRESS:
            return BusReply(ack=self._addressed(byte, ns))
        if op is BusOp.START or self._with is None:
            return EMPTY[op]
        name, device = self._with
        if op is BusOp.WRITE:
            return BusReply(ack=device.write(byte) and not self._acting("nack_data", ns, name))
        return BusReply(self._spoiled(device.read(), ns, name))

    def _addressed(self, byte: int, ns: int) -> bool:
        before, self._with = self._with, None
        there = [one for one in self.placed if one.address == byte >> 1]
        self.asked.update(one.name for one in there)
        self.empty.update([] if there else [byte >> 1])
        for one in there:
            if self._acting("nack_address", ns, one.name):
                continue
            assert isinstance(one.device, I2cDevice)
            if one.device.start(bool(byte & 1)):
                self._with = one.name, one.device
        if before is not None and (self._with is None or self._with[1] is not before[1]):
            before[1].stop()
        return self._with is not None

    def why_unused(self, name: str) -> str:
        text = super().why_unused(name)
        if not text or not self.empty:
            return text
        first = [f"0x{address:02x}" for address in sorted(self.empty)]
        more = f" and {len(first) - _MOST} more" if len(first) > _MOST else ""
        many = "addresses" if len(first) > 1 else "address"
        return (
            f"{text}; the firmware asked for the {many} {', '.join(first[:_MOST])}{more}, "
            "where no device is"
        )

    def _leave(self) -> None:
        if self._with is not None:
            self._with[1].stop()
        self._with = None

    def let_go(self) -> None:
        """End the transfer, as after a STOP."""
        self._leave()


class SpiEnd(_End):
    """The devices of an SPI bus. A device is selected while its select pin is low."""

    kind = "spi"
    reached = "selected"

    def __init__(
        self, board: EmulatedBoard, bus: str, placed: Sequence[Placed],
        faults: Sequence[BusFault] = (),
    ) -> None:  # fmt: skip
        super().__init__(board, bus, placed, faults)
        self._selected: dict[str, bool] = dict.fromkeys((one.select for one in placed), False)

    def edge(self, pin: str, level: bool, cycle: int) -> None:
        if pin not in self._selected or self._selected[pin] is not level:
            return
        self._advance(cycle)
        self._selected[pin] = not level
        for one in self.placed:
            if one.select == pin and isinstance(one.device, SpiDevice):
                self.asked[one.name] += not level
                one.device.deselect() if level else one.device.select()

    def took(self, op: BusOp, byte: int, cycle: int) -> BusReply | None:
        ns = self._advance(cycle)
        data = EMPTY[op].data
        for one in self.placed:
            if self._selected[one.select] and isinstance(one.device, SpiDevice):
                data &= self._spoiled(one.device.transfer(byte), ns, one.name)
        self._drive()
        return BusReply(data)

    def let_go(self) -> None:
        for pin in self._selected:
            self.edge(pin, True, self._board.cycles)


ENDS: dict[str, type[I2cEnd] | type[SpiEnd]] = {"i2c": I2cEnd, "spi": SpiEnd}
