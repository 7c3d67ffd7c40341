"""An emulated STM32F405: USART1, TIM2, ports A to E, and the clocks of these peripherals.

Source of registers: RM0090 (ST), sections 7.3 (RCC), 8.4 (GPIO), 18.4 (TIM2) and 30.6 (USART). The
clocks are those of a processor at 168 MHz: 84 MHz for USART1 and TIM2.

Usage: ``python -m hitl.boards.cortex_m.stm32f4 TIMING``
"""

from __future__ import annotations

import sys
from collections import deque
from importlib.metadata import version

from hitl.boards.contract import BoardError
from hitl.boards.cortex_m.processor import NEVER, Processor, missing
from hitl.boards.cortex_m.timing import TIMINGS, Timing
from hitl.boards.serving import serve
from hitl.boards.stm32f4 import MEMORY, PORTS, USART1
from hitl.boards.wire import MOST_EVENTS, In, Input, Out, WireEvent

_USART, _TIM2, _GPIO, _RCC = 0x4001_1000, 0x4000_0000, 0x4002_0000, 0x4002_3800
_PER_CYCLE = 2  # of the bus of USART1 and TIM2: cycles of the processor
_USART_LINE, _SLACK, _MOST_WAITING = 37, 0.045, 65_536
_CSR = _RCC + 0x74
_CLOCKS = {
    _USART: (_RCC + 0x44, 4, "USART1"),
    _TIM2: (_RCC + 0x40, 0, "TIM2"),
    **{_GPIO + 0x400 * k: (_RCC + 0x30, k, f"GPIO{name}") for k, name in enumerate(PORTS)},
}
"""Register, bit and name of the clock of each peripheral."""


class Usart:
    """USART1 with the line to the host.

    ``events`` receives what happens, and ``line`` keeps the bytes from the host after a reset.
    """

    FE, ORE, RXNE, TC, TXE, RE, TE, UE = (
        1 << 1,
        1 << 3,
        1 << 5,
        1 << 6,
        1 << 7,
        1 << 2,
        1 << 3,
        1 << 13,
    )
    SR, DR, BRR, CR1 = 0x00, 0x04, 0x08, 0x0C

    def __init__(self, chip: Stm32F4) -> None:
        self._chip = chip
        self.registers = dict.fromkeys(range(0, USART1.length, 4), 0)
        self.registers[self.SR] = self.TXE | self.TC
        self._waiting: int | None = None
        self.sending: tuple[int, int, bool] | None = None
        """End, value and damage of the byte on its way to the host."""
        self._arriving: tuple[int, int, bool, bool] | None = None
        self.due = NEVER

    def listens(self, needed: int) -> bool:
        return self.registers[self.CR1] & (self.UE | needed) == self.UE | needed

    @property
    def byte(self) -> int:
        """Cycles of a byte of ten bits."""
        return 10 * _PER_CYCLE * max(1, self.registers[self.BRR] & 0xFFFF)

    @property
    def _apart(self) -> bool:
        host = self._chip.host
        return host != 0 and abs(self.byte - host) > _SLACK * self.byte

    def _plan(self) -> None:
        sent = NEVER if self.sending is None else self.sending[0]
        arrived = NEVER if self._arriving is None else self._arriving[0]
        self.due = min(sent, arrived)

    def read(self, offset: int) -> int:
        value = self.registers[offset]
        if offset == self.DR:
            self.registers[self.SR] &= ~(self.RXNE | self.ORE | self.FE)
            self.signal()
        return value

    def write(self, offset: int, value: int, now: int) -> None:
        if offset == self.DR:
            self._transmit(value & 0xFF, now)
        elif offset == self.SR:
            self.registers[offset] &= value | ~(self.RXNE | self.TC)
        else:
            if offset == self.CR1 and value & 1 << 15:
                raise BoardError("the firmware sets OVER8 of USART1; use 16 samples for each bit")
            self.registers[offset] = value
        self.signal()

    def _transmit(self, value: int, now: int) -> None:
        if not self.listens(self.TE):
            return
        self.registers[self.SR] &= ~self.TC
        if self.sending is None:
            self._send(value, now)
        else:
            self._waiting = value
            self.registers[self.SR] &= ~self.TXE

    def _send(self, value: int, start: int) -> None:
        self.sending = start + self.byte, value, self._apart
        self._plan()
        self._chip.sends(self.sending[0])

    def begin(self) -> None:
        """Begin to receive the next byte of the line."""
        line = self._chip.line
        if self._arriving is None and line:
            start, value = line.popleft()
            bad, heard = self._apart, self.listens(self.RE)
            self._chip.free = max(start, self._chip.free) + (self._chip.host or self.byte)
            self._arriving = self._chip.free, 0 if bad else value, bad, heard
            self._plan()

    def service(self) -> None:
        """Complete the byte that ends next."""
        if self.sending is not None and self.sending[0] == self.due:
            done, value, bad = self.sending
            self._chip.tell(done, Out.BYTE, int(bad), value)
            self.sending = None
            self.registers[self.SR] |= self.TXE
            if self._waiting is None:
                self.registers[self.SR] |= self.TC
            else:
                self._send(self._waiting, done)
            self._waiting = None
        elif self._arriving is not None:
            done, value, bad, heard = self._arriving
            self._arriving = None
            self._receive(done, value, bad, heard and self.listens(self.RE))
            self.begin()
        self._plan()
        self.signal()

    def _receive(self, done: int, value: int, bad: bool, heard: bool) -> None:
        if not heard or self.registers[self.SR] & self.RXNE:
            self._chip.tell(done, Out.LOST, 0, value)
            self.registers[self.SR] |= self.ORE if heard else 0
        else:
            self.registers[self.DR] = value
            self.registers[self.SR] |= self.RXNE | (self.FE if bad else 0)

    def signal(self) -> None:
        """Set the level of the interrupt line: RXNE, ORE, TXE and TC with their enable bits."""
        status, enabled = self.registers[self.SR], self.registers[self.CR1]
        received = status & (self.RXNE | self.ORE) and enabled & self.RXNE
        level = received or status & enabled & (self.TXE | self.TC)
        self._chip.processor.interrupt(_USART_LINE, bool(level))


class Timer:
    """TIM2 as a free-running counter of 32 bits, without interrupts and channels."""

    CR1, EGR, CNT, PSC, ARR = 0x00, 0x14, 0x24, 0x28, 0x2C

    def __init__(self) -> None:
        self._registers = {self.CR1: 0, self.PSC: 0, self.ARR: 0xFFFF_FFFF}
        self._scale, self._from, self._held = _PER_CYCLE, 0, 0

    def read(self, offset: int, now: int) -> int:
        return self._count(now) if offset == self.CNT else self._registers[offset]

    def write(self, offset: int, value: int, now: int) -> None:
        count = self._count(now)
        if offset in self._registers:
            self._registers[offset] = value
        elif offset == self.EGR:  # an update: the new prescaler takes effect, from 0 on
            count, self._scale = 0, _PER_CYCLE * (1 + (self._registers[self.PSC] & 0xFFFF))
        elif offset == self.CNT:
            count = value
        else:
            raise KeyError(offset)
        if offset != self.PSC:
            self._held, self._from = count, now - count * self._scale

    def _count(self, now: int) -> int:
        if not self._registers[self.CR1] & 1:
            return self._held
        return (now - self._from) // self._scale % (1 + self._registers[self.ARR])


class Port:
    """A port of 16 pins: inputs, outputs, pull-ups."""

    MODER, PUPDR, IDR, ODR, BSRR = 0x00, 0x0C, 0x10, 0x14, 0x18

    def __init__(self, number: int, chip: Stm32F4) -> None:
        self._chip, self._first = chip, 16 * number
        self._registers = dict.fromkeys((0x00, 0x04, 0x08, 0x0C, 0x14, 0x1C, 0x20, 0x24), 0)
        self._registers[self.MODER] = {0: 0xA800_0000, 1: 0x280}.get(number, 0)
        self._registers[self.PUPDR] = {0: 0x6400_0000, 1: 0x100}.get(number, 0)

    def _pins(self, offset: int, wanted: int) -> int:
        """Return a mask of the pins whose two bits in a register equal ``wanted``."""
        value = self._registers[offset]
        return sum(1 << k for k in range(16) if value >> 2 * k & 3 == wanted)

    @property
    def driven(self) -> int:
        return self._registers[self.ODR] & self._pins(self.MODER, 1)

    def read(self, offset: int) -> int:
        if offset != self.IDR:
            return self._registers[offset]
        levels = self._pins(self.PUPDR, 1)
        for k in range(16):
            level = self._chip.levels.get(self._first + k)
            if level is not None:
                levels = levels & ~(1 << k) | level << k
        outputs = self._pins(self.MODER, 1)
        return levels & ~outputs | self.driven

    def write(self, offset: int, value: int, now: int) -> None:
        before = self.driven
        if offset == self.BSRR:
            self._registers[self.ODR] = self._registers[self.ODR] & ~(value >> 16) | value & 0xFFFF
        elif offset in self._registers:
            self._registers[offset] = value
        elif offset != self.IDR:
            raise KeyError(offset)
        for k in range(16):
            if (before ^ self.driven) >> k & 1:
                self._chip.tell(now, Out.EDGE, self._first + k, self.driven >> k & 1)


class Stm32F4:
    """An emulated STM32F405; see ``hitl.boards.serving.Emulation``."""

    windows: tuple[tuple[int, int], ...] = ((0x4000_0000, 0x8_0000),)

    def __init__(self, timing: Timing) -> None:
        self._timing, self._image = timing, b""
        self.line: deque[tuple[int, int]] = deque()
        self.free = self.host = 0
        self.levels: dict[int, int] = {}
        """Levels that the rig drives, by the number of the pin."""
        self._events: list[WireEvent] = []
        self._inputs: deque[Input] = deque()
        self._until_byte = False
        self._start(0)

    def _start(self, now: int, ram: bytes = b"") -> None:
        self._rcc = dict.fromkeys((_RCC + at for at in (0x30, 0x40, 0x44, 0x74)), 0)
        self.usart = Usart(self)
        self._timer = Timer()
        self._ports = {_GPIO + 0x400 * k: Port(k, self) for k in range(len(PORTS))}
        self.processor = Processor(self._image, MEMORY, self, self._timing, now, ram)
        self.usart.begin()

    # -- requests

    def load(self, image: bytes) -> None:
        if len(image) > MEMORY.flash:
            raise BoardError(f"the image has {len(image)} bytes; the flash has {MEMORY.flash}")
        self._image = image
        self._start(self.processor.now)

    def reset(self) -> None:
        self._start(self.processor.now, self.processor.ram)

    def host_byte(self, cycles: int) -> None:
        self.host = cycles

    def advance(
        self, target: int, inputs: list[Input], until_byte: bool
    ) -> tuple[int, list[WireEvent]]:
        self._events, self._until_byte = [], until_byte
        self._inputs.extend(inputs)
        sending = self.usart.sending
        stop = min(target, sending[0]) if until_byte and sending else target
        self.processor.run(stop)
        reached = min(self.processor.now, int(self.processor.state.stop))
        self.service(reached)
        return reached, self._events

    def peek(self, address: int, length: int) -> bytes:
        registers = self.usart.registers.values()
        return b"".join(value.to_bytes(4, "little") for value in registers)[address:][:length]

    # -- events

    @property
    def due(self) -> int:
        first = self._inputs[0].cycle if self._inputs else NEVER
        return min(first, self.usart.due)

    def service(self, now: int) -> None:
        while self.due <= now:
            if self._inputs and self._inputs[0].cycle <= self.usart.due:
                self._apply(self._inputs.popleft())
            else:
                self.usart.service()

    def _apply(self, one: Input) -> None:
        if one.kind is In.BYTE:
            if len(self.line) >= _MOST_WAITING:
                raise BoardError("more than 65536 bytes wait on the line; let the board run")
            self.line.append((one.cycle, one.value & 0xFF))
            self.usart.begin()
        elif one.kind is In.LEVEL and one.which < 16 * len(PORTS):
            self.levels[one.which] = int(one.value != 0)
        else:
            raise BoardError(f"an STM32F405 has no input of kind {one.kind} at {one.which}")

    def tell(self, cycle: int, kind: Out, which: int, value: int) -> None:
        self._events.append(WireEvent(cycle, kind, which, value))
        if len(self._events) >= MOST_EVENTS:
            self.processor.limit(self.processor.now)

    def sends(self, done: int) -> None:
        if self._until_byte:
            self.processor.limit(done)

    # -- registers

    def read(self, address: int, now: int) -> int:
        if address in self._rcc:
            return self._rcc[address]
        base, offset = self._clocked(address)
        try:
            if base == _USART:
                return self.usart.read(offset)
            if base == _TIM2:
                return self._timer.read(offset, now)
            return self._ports[base].read(offset)
        except KeyError:
            raise missing(address) from None

    def write(self, address: int, value: int, now: int) -> None:
        if address in self._rcc:
            self._rcc[address] = value
            return
        base, offset = self._clocked(address)
        try:
            if base == _USART:
                self.usart.write(offset, value, now)
            elif base == _TIM2:
                self._timer.write(offset, value, now)
            else:
                self._ports[base].write(offset, value, now)
        except KeyError:
            raise missing(address) from None

    def _clocked(self, address: int) -> tuple[int, int]:
        base = address & ~0x3FF
        if base not in _CLOCKS:
            raise missing(address)
        register, bit, name = _CLOCKS[base]
        if not self._rcc[register] >> bit & 1:
            raise BoardError(f"the firmware uses {name} before it has enabled its clock in RCC")
        return base, address - base


if __name__ == "__main__":
    serve("unicorn", version("unicorn"), Stm32F4(TIMINGS[sys.argv[1]]))
