"""Count the cycles of instructions of a Cortex-M4 with a floating-point unit.

Source: ARM Cortex-M4 Processor Technical Reference Manual (ARM 100166_0001), table 3-1 (processor),
section 3.3.2 (load and store timings) and table 7-1 (floating-point unit). All figures are for a
memory without wait states.

Each instruction has a cost and a refill. The cost contains what the manual says about the
instruction and its successor in memory. The refill is the number P of cycles of a taken branch.
The manual gives a range for P and for a few instructions; :data:`TIMINGS` contains the lower
limits, the upper limits and values between them.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import capstone
from capstone import arm


@dataclass(frozen=True)
class Timing:
    """Figures for which the manual gives a range, or which a pairing of instructions changes."""

    direct: int
    """Refill after a branch to an address in the instruction."""
    register: int
    """Refill after a branch to an address in a register."""
    loaded: int
    """Refill after a branch to an address from the memory."""
    misaligned: int
    """Further cycles if the target is a 32-bit instruction that crosses words."""
    division: int
    """SDIV and UDIV: 2 to 12 cycles, depending on the operands."""
    special: int
    """MRS, MSR and CPS: 1 or 2 cycles."""
    it: int
    """IT, which can be folded into the instruction before it: 0 or 1 cycle."""
    store: int
    """A store with an immediate offset: 1 cycle, or 2 without a free write buffer."""
    pairs: bool = True
    """True if neighbouring loads overlap, as they do without stalls."""
    stalls: bool = True
    """True if an address or a floating-point operand from the last instruction waits a cycle."""


TIMINGS = {
    "nominal": Timing(1, 2, 3, 1, 12, 2, 1, 1),
    "least": Timing(1, 1, 1, 0, 2, 1, 0, 1, stalls=False),
    "most": Timing(3, 3, 3, 0, 12, 2, 1, 2, pairs=False),
}

_DIRECT = ("b", "bl", "cbz", "cbnz")
_LOADS = ("ldr", "ldrb", "ldrh", "ldrsb", "ldrsh", "ldrex", "ldrexb", "ldrexh")
_STORES = ("str", "strb", "strh", "strex", "strexb", "strexh")
_LISTS = ("push", "pop", "ldm", "stm", "ldmdb", "stmdb")
_FLOAT_LISTS = ("vpush", "vpop", "vldmia", "vstmia", "vldmdb", "vstmdb")
_ACCUMULATE = ("vmla", "vmls", "vnmla", "vnmls", "vfma", "vfms", "vfnma", "vfnms")
_ARITHMETIC = (*_ACCUMULATE, "vadd", "vsub", "vmul", "vnmul", "vdiv", "vsqrt", "vcvt", "vcvtr")
_FIXED = {"vdiv": 14, "vsqrt": 14, **dict.fromkeys(_ACCUMULATE, 3), "ldrd": 3, "strd": 3}


def is_wide(first: int) -> bool:
    """Return True if an instruction that begins with the halfword ``first`` has 32 bits."""
    return first >> 11 in (0b11101, 0b11110, 0b11111)


@dataclass(frozen=True)
class Cost:
    """Cycles of an instruction of capstone, and of the refill if the instruction branches."""

    instruction: Any
    cycles: int
    refill: int
    in_it: bool = False

    @property
    def floating(self) -> bool:
        return bool(self.instruction.insn_name()[0] == "v")


class Instructions:
    """Decodes instructions, and returns their costs.

    ``read(address, size)`` returns the bytes of the memory.
    """

    def __init__(self, read: Callable[[int, int], bytes], timing: Timing) -> None:
        self._read, self._timing = read, timing
        self._decoder = capstone.Cs(
            capstone.CS_ARCH_ARM, capstone.CS_MODE_THUMB | capstone.CS_MODE_MCLASS
        )
        self._decoder.detail = True

    def at(self, address: int, count: int = 2) -> list[Any]:
        """Return up to ``count`` instructions from ``address`` on."""
        try:
            code = self._read(address, 4 * count)
        except IndexError:
            code = self._read(address, 4)
        return list(self._decoder.disasm(code, address, count))

    def costs(self, address: int) -> list[Cost]:
        """Return the cost of the instruction at ``address``.

        After IT, the result also contains the conditional instructions. The result is empty for an
        undefined instruction.
        """
        found = self.at(address)
        if not found or found[0].insn_name() != "it":
            return [self._of(*found)] if found else []
        members = len(found[0].mnemonic) - 1
        block = self.at(address, members + 2)
        conditional = [self._of(*block[k : k + 2]) for k in range(1, members + 1)]
        first = Cost(found[0], self._timing.it, 0)
        return [first, *(replace(one, in_it=True) for one in conditional)]

    def _of(self, one: Any, after: Any = None) -> Cost:
        name, refill = one.insn_name(), self._refill(one)
        cost = self._alone(one, name)
        if after is None or refill:
            return Cost(one, cost, refill)
        uses = _address_registers(after)
        if name in _LOADS and self._timing.pairs and _pipelines(after):
            if not _written(one) & uses and not one.writeback:
                cost -= 1
        elif name in _ARITHMETIC and self._timing.stalls:
            cost += bool(_floats(_written(one)) & _floats(_read_by(after)))
        elif cost == 1 and self._timing.stalls and name not in _STORES:
            cost += bool(_written(one) & uses)
        return Cost(one, cost, 0)

    def _alone(self, one: Any, name: str) -> int:
        timing = self._timing
        if name in _FIXED:
            return _FIXED[name]
        if name in _LOADS:
            return 2
        if name in _STORES:
            return 2 if any(op.mem.index for op in _memory(one)) else timing.store
        if name in _LISTS:
            return 1 + len(one.operands) - (name not in ("push", "pop"))
        if name in _FLOAT_LISTS:
            registers = [op for op in one.operands if op.type == arm.ARM_OP_REG]
            names = {one.reg_name(op.reg) for op in registers}
            return 1 + len(_floats(names))
        if name in ("vldr", "vstr"):
            return 3 if one.op_str.startswith("d") else 2
        if name == "vmov":
            return 2 if len([op for op in one.operands if op.type == arm.ARM_OP_REG]) > 2 else 1
        if name in ("sdiv", "udiv"):
            return timing.division
        if name in ("mrs", "msr", "cps"):
            return timing.special
        if name in ("tbb", "tbh"):
            return 3  # two for the load, one for the addition
        return 1 + timing.direct if name == "isb" else 1

    def _refill(self, one: Any) -> int:
        name, timing = one.insn_name(), self._timing
        if name in _DIRECT:
            target = one.operands[-1].imm
            crosses = target & 2 and is_wide(struct.unpack("<H", self._read(target, 2))[0])
            return timing.direct + (timing.misaligned if crosses else 0)
        if name in ("tbb", "tbh"):
            return timing.loaded
        if name in ("bx", "blx"):
            return timing.register
        if "pc" in _named(one, _written(one)):
            return timing.loaded if name in (*_LOADS, *_LISTS) else timing.register
        return 0


def _memory(one: Any) -> list[Any]:
    return [op for op in one.operands if op.type == arm.ARM_OP_MEM]


def _address_registers(one: Any) -> set[str]:
    return {
        one.reg_name(number)
        for op in _memory(one)
        for number in (op.mem.base, op.mem.index)
        if number
    } - {"pc"}


def _pipelines(one: Any) -> bool:
    name = one.insn_name()
    offset = any(op.mem.index for op in _memory(one))
    return name in _LOADS or (name in _STORES and offset)


def _written(one: Any) -> set[str]:
    return _named(one, one.regs_access()[1])


def _read_by(one: Any) -> set[str]:
    return _named(one, one.regs_access()[0])


def _named(one: Any, numbers: Any) -> set[str]:
    return {n if isinstance(n, str) else one.reg_name(n) for n in numbers}


def _floats(names: set[str]) -> set[int]:
    """Return the numbers of the registers s0 to s31 in the registers s and d among ``names``."""
    found = set()
    for name in names:
        if name[0] in "sd" and name[1:].isdigit():
            number = int(name[1:])
            found |= {number} if name[0] == "s" else {2 * number, 2 * number + 1}
    return found
