"""A Cortex-M4F: memory, cycles, sleep and the private peripherals, without exceptions.

Source of registers: ARMv7-M Architecture Reference Manual (ARM DDI 0403), sections B3 and C1. The
Cortex-M4 begins no exception here: a pending interrupt ends WFI, and is an error if the program
has enabled interrupts (PRIMASK = 0).
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable
from functools import wraps
from typing import Any, Protocol, TypeVar, cast

import unicorn
from unicorn import arm_const
from unicorn.unicorn_py3 import unicorn as binding

from hitl.boards.contract import BoardError
from hitl.boards.cortex_m.hook import DECODE, State, address, address_of_step, row
from hitl.boards.cortex_m.timing import Instructions, Timing
from hitl.boards.description import Memory

NEVER = 1 << 62
_PPB, _PPB_SIZE = 0xE000_0000, 0x10_0000
_NOWHERE = 0xFFFF_FFFE
_WFI = (b"\x30\xbf", b"\xaf\xf3\x03\x80")
_NOP, _WIDE_NOP = b"\x00\xbf", b"\xaf\xf3\x00\x80"
_CPACR, _DEMCR = 0xED88, 0xEDFC
_PLAIN = (_CPACR, _DEMCR, 0xED10, 0xEF34)
"""Registers without an effect of their own: CPACR, DEMCR, SCR and FPCCR."""
_DWT_CTRL, _DWT_CYCCNT = 0x1000, 0x1004
_FPU_ON, _TRACE_ON = 0xF << 20, 1 << 24
_LINES = 96
_SAID = {
    unicorn.UC_ERR_EXCEPTION: "a trap or breakpoint, such as BKPT or SVC",
    unicorn.UC_ERR_INSN_INVALID: "an undefined instruction",
    unicorn.UC_ERR_READ_UNMAPPED: "a read of an address without memory",
    unicorn.UC_ERR_WRITE_UNMAPPED: "a write to an address without memory",
    unicorn.UC_ERR_WRITE_PROT: "a write to the flash",
    unicorn.UC_ERR_FETCH_UNMAPPED: "the program left the flash and the RAM",
}
_F = TypeVar("_F", bound=Callable[..., Any])


class Bus(Protocol):
    """The peripherals of a chip.

    Reading and writing happen at the cycle ``now``, after all events up to ``now``.
    """

    windows: tuple[tuple[int, int], ...]
    """First address and size of each range of peripherals."""

    @property
    def due(self) -> int:
        """Cycle of the next event."""

    def service(self, now: int) -> None:
        """Handle all events up to ``now``, in the order of time."""

    def read(self, address: int, now: int) -> int: ...

    def write(self, address: int, value: int, now: int) -> None: ...


def _guarded(method: _F) -> _F:
    """Keep an error in a function that unicorn calls, and stop the processor."""

    @wraps(method)
    def call(self: Processor, *arguments: Any) -> Any:
        try:
            return method(self, *arguments)
        except Exception as error:  # of any kind: it cannot pass through the emulator
            self._failed = self._failed or error
            self._uc.emu_stop()
            return 1

    return cast(_F, call)


class Processor:
    """A Cortex-M4F after a reset, which executes ``image``.

    Args:
        image: Content of the flash, from its beginning.
        memory: Addresses and sizes of flash and RAM.
        bus: Peripherals of the chip.
        timing: Cycles of the instructions.
        now: Cycle of the reset.
        ram: Content of the RAM; by default zeros.
    """

    def __init__(
        self, image: bytes, memory: Memory, bus: Bus, timing: Timing, now: int = 0,
        ram: bytes = b"",
    ) -> None:  # fmt: skip
        self._memory, self._bus = memory, bus
        self._image = image.ljust(memory.flash, b"\xff")
        self._failed: Exception | None = None
        self._registers: dict[int, int] = {}
        self._count_at = 0, now
        self._sleeps: set[int] = set()
        self._enabled, self._pending, self._levels = 0, 0, 0
        uc = unicorn.Uc(unicorn.UC_ARCH_ARM, unicorn.UC_MODE_THUMB | unicorn.UC_MODE_MCLASS)
        uc.ctl_set_cpu_model(arm_const.UC_CPU_ARM_CORTEX_M4)
        uc.mem_map(memory.flash_begins, memory.flash, unicorn.UC_PROT_READ | unicorn.UC_PROT_EXEC)
        uc.mem_map(memory.ram_begins, memory.ram)
        uc.mem_write(memory.flash_begins, self._image)
        uc.mem_write(memory.ram_begins, ram)
        for begin, size in (*bus.windows, (_PPB, _PPB_SIZE)):
            uc.mmio_map(begin, size, self._read, begin, self._write, begin)
        stack, start = struct.unpack_from("<2I", self._image)
        uc.reg_write(arm_const.UC_ARM_REG_SP, stack)
        uc.reg_write(arm_const.UC_ARM_REG_PC, start)
        self._uc = uc
        self._instructions = Instructions(self._code, timing)
        self._rows = (ctypes.c_uint16 * (memory.flash // 2))()
        self._decoding = DECODE(self._decode)
        self.state = State(
            now=now, rows=ctypes.addressof(self._rows), base=memory.flash_begins,
            length=len(self._rows), halt=address(binding.uclib.uc_emu_stop),
            decode=address(self._decoding),
        )  # fmt: skip
        self._hook()

    def _hook(self) -> None:
        """Register the machine code, for which unicorn's package has no function."""
        handle, everywhere = ctypes.c_size_t(), (ctypes.c_uint64(1), ctypes.c_uint64(0))
        status = binding.uclib.uc_hook_add(
            self._uc._uch, ctypes.byref(handle), unicorn.UC_HOOK_CODE,
            ctypes.c_void_p(address_of_step()), ctypes.c_void_p(ctypes.addressof(self.state)),
            *everywhere,
        )  # fmt: skip
        if status != unicorn.UC_ERR_OK:
            raise BoardError(f"unicorn cannot count cycles (error {status}); install unicorn 2.1.4")

    @property
    def now(self) -> int:
        """Cycle at which the next instruction begins."""
        return int(self.state.now)

    @property
    def ram(self) -> bytes:
        return bytes(self._uc.mem_read(self._memory.ram_begins, self._memory.ram))

    def run(self, stop: int) -> None:
        """Execute all instructions that begin before the cycle ``stop``.

        A call of :meth:`limit` can stop the processor earlier. Raises :class:`BoardError` if the
        program does what the processor or the chip cannot do.
        """
        self.state.stop = stop
        while self.state.now < self.state.stop:
            try:
                self._uc.emu_start(self._pc | 1, _NOWHERE)
            except unicorn.UcError as error:
                if self._failed is None:
                    said = _SAID.get(error.errno, str(error))
                    raise BoardError(f"the firmware failed at {self._pc:#x}: {said}") from None
            if self._failed is not None:
                raise self._failed

    def limit(self, stop: int) -> None:
        """Begin no instruction at the cycle ``stop`` or later, until the next :meth:`run`."""
        self.state.stop = min(self.state.stop, stop)

    def interrupt(self, line: int, level: bool) -> None:
        """Set the level of an interrupt line."""
        bit = 1 << line
        self._levels = self._levels | bit if level else self._levels & ~bit
        new = self._levels & ~self._pending
        self._pending |= new
        if new & self._enabled and not self._masked:
            raise BoardError(
                f"interrupt {line} would begin at {self._pc:#x}, but the emulated processor begins "
                "no interrupts; disable interrupts (cpsid i), and wait for pending ones with WFI"
            )

    @property
    def _pc(self) -> int:
        return int(self._uc.reg_read(arm_const.UC_ARM_REG_PC))

    @property
    def _masked(self) -> bool:
        return bool(self._uc.reg_read(arm_const.UC_ARM_REG_PRIMASK))

    def _code(self, begin: int, size: int) -> bytes:
        at = begin - self._memory.flash_begins
        if 0 <= at < len(self._image):
            return self._image[at : at + size]
        try:
            return bytes(self._uc.mem_read(begin, size))
        except unicorn.UcError:
            raise IndexError(begin) from None

    # -- called for instructions

    @_guarded
    def _decode(self, begin: int) -> int:
        code = self._code(begin, 4)
        if code.startswith(_WFI):
            if begin not in self._sleeps:  # unicorn would leave its loop at each WFI
                self._sleeps.add(begin)
                self._uc.mem_write(begin, _NOP if code[:2] == _WFI[0] else _WIDE_NOP)
            self._sleep()
            return 1 if self.state.now < self.state.stop else 0
        if code.startswith(b"\x20\xbf"):
            raise BoardError(f"the firmware executes WFE at {begin:#x}; use WFI")
        begins = self._memory.flash_begins
        if not begins <= begin < begins + self._memory.flash:
            raise BoardError(
                f"the firmware executes code in the RAM at {begin:#x}; the emulated processor "
                "counts only cycles of code in the flash"
            )
        on = self._registers.get(_CPACR, 0) & _FPU_ON == _FPU_ON
        found = self._instructions.costs(begin)
        for one in found:
            if one.floating and not on:
                raise BoardError(
                    f"the firmware uses the floating-point unit at {begin:#x} before it has "
                    "enabled the unit in CPACR"
                )
            place, wide = one.instruction.address, one.instruction.size == 4
            if not self._code(place, 4).startswith(_WFI):
                self._rows[(place - begins) // 2] = row(one.cycles, one.refill, wide, one.in_it)
        return self._rows[(begin - begins) // 2]

    def _sleep(self) -> None:
        """Let time pass up to a pending interrupt or the stop.

        At the stop, the processor has not executed WFI yet.
        """
        state, bus = self.state, self._bus
        bus.service(state.now)
        while not self._pending & self._enabled:
            state.now = max(state.now, min(bus.due, state.stop))
            if state.now >= state.stop:
                self._uc.emu_stop()
                return
            bus.service(state.now)

    # -- called for peripherals

    @_guarded
    def _read(self, _uc: Any, offset: int, size: int, base: int) -> int:
        at, now = base + offset, self.now
        self._bus.service(now)
        word = at & ~3
        value = self._private(word - _PPB, now) if base == _PPB else self._bus.read(word, now)
        return value >> 8 * (at & 3) & (1 << 8 * size) - 1

    @_guarded
    def _write(self, _uc: Any, offset: int, size: int, value: int, base: int) -> None:
        at, now = base + offset, self.now
        if size != 4:
            raise BoardError(f"the firmware writes {size} bytes to {at:#x}; write 32-bit words")
        self._bus.service(now)
        if base == _PPB:
            self._set_private(offset, value, now)
        else:
            self._bus.write(at, value, now)

    def _private(self, offset: int, now: int) -> int:
        if offset == _DWT_CYCCNT:
            return self._count(now)
        if offset == _DWT_CTRL or offset in _PLAIN:
            return self._registers.get(offset, 0)
        block, line = _nvic(offset)
        if block in (0xE100, 0xE180):
            return self._enabled >> line & 0xFFFF_FFFF
        if block in (0xE200, 0xE280):
            return self._pending >> line & 0xFFFF_FFFF
        raise missing(_PPB + offset)

    def _count(self, now: int) -> int:
        count, since = self._count_at
        counting = self._registers.get(_DWT_CTRL, 0) & 1
        return (count + (now - since) * counting) & 0xFFFF_FFFF

    def _set_private(self, offset: int, value: int, now: int) -> None:
        block, line = _nvic(offset)
        if offset == _DWT_CYCCNT:
            self._count_at = value, now
        elif offset == _DWT_CTRL:
            if value & 1 and not self._registers.get(_DEMCR, 0) & _TRACE_ON:
                raise BoardError("the firmware starts CYCCNT before it has set TRCENA in DEMCR")
            count, self._registers[offset] = self._count(now), value
            self._count_at = count, now
        elif offset in _PLAIN:
            self._registers[offset] = value
        elif block == 0xE100:
            self._enabled |= value << line
        elif block == 0xE180:
            self._enabled &= ~(value << line)
        elif block == 0xE280:
            self._pending = self._pending & ~(value << line) | self._levels
        else:
            raise missing(_PPB + offset)


def _nvic(offset: int) -> tuple[int, int]:
    """Return the first register of a block of the NVIC, and the first line in the register."""
    line = 8 * (offset & 0x7F)
    return (offset & ~0x7F if line < _LINES else 0), line


def missing(address: int) -> BoardError:
    return BoardError(
        f"the firmware uses a register at {address:#x} that is not emulated; docs/boards.md lists "
        "the emulated peripherals"
    )
