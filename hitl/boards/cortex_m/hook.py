"""A function in machine code that counts the cycles of each executed instruction.

unicorn calls the function before each instruction. A function in Python would take 0.5 us; the
machine code takes 5 ns (docs/decisions/251).
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from typing import Any

import llvmlite.binding as llvm
from llvmlite import ir

_WORD, _BYTE, _ROW = ir.IntType(64), ir.IntType(8), ir.IntType(16)
_IN_IT, _WIDE, _DECODED = 0x80, 0x4000, 0x8000
"""Flags of a row. Its bits 0 to 6 are the cost, and its bits 8 to 10 the refill."""
DECODE = ctypes.CFUNCTYPE(ctypes.c_uint32, ctypes.c_uint64)


class State(ctypes.Structure):
    """Numbers that the machine code and Python share."""

    now: int
    stop: int
    _fields_ = [
        ("now", ctypes.c_int64),  # cycle at which the current instruction begins
        ("pending", ctypes.c_int64),  # cycles of the instruction before it
        ("stop", ctypes.c_int64),  # no instruction begins at this cycle or later
        ("next", ctypes.c_int64),  # address behind the last instruction; 0 after a stop
        ("refill", ctypes.c_int64),  # cycles if the last instruction has branched; 0: no branch
        ("rows", ctypes.c_int64),  # address of a row for each halfword of the flash
        ("base", ctypes.c_int64),  # address of the first halfword
        ("length", ctypes.c_int64),  # number of halfwords
        ("halt", ctypes.c_int64),  # address of uc_emu_stop
        ("decode", ctypes.c_int64),  # address of a function that returns a row
    ]


def row(cost: int, refill: int, wide: bool, in_it: bool) -> int:
    """Return the row of an instruction, which is never 0."""
    return cost | (_IN_IT if in_it else 0) | refill << 8 | (_WIDE if wide else 0) | _DECODED


def _module() -> ir.Module:
    module = ir.Module()
    pointer, bare = _BYTE.as_pointer(), ir.IntType(32)
    kind = ir.FunctionType(ir.VoidType(), [pointer, _WORD, bare, _WORD.as_pointer()])
    step = ir.Function(module, kind, "step")
    handle, address, size, state = step.args
    code = ir.IRBuilder(step.append_basic_block())
    at = [field[0] for field in State._fields_]

    def place(name: str) -> Any:
        return code.gep(state, [_WORD(at.index(name))])

    def load(name: str) -> Any:
        return code.load(place(name))

    def add(name: str, more: Any) -> None:
        code.store(code.add(load(name), more), place(name))

    def call(name: str, argument: Any) -> Any:
        kind = ir.FunctionType(bare, [argument.type])
        return code.call(code.inttoptr(load(name), kind.as_pointer()), [argument])

    def row_at(where: Any) -> Any:
        """Return the row of an address; 0 outside the flash."""
        found, index = code.alloca(_WORD), code.lshr(code.sub(where, load("base")), _WORD(1))
        code.store(_WORD(0), found)
        with code.if_then(code.icmp_unsigned("<", index, load("length"))):
            place = code.inttoptr(
                code.add(load("rows"), code.shl(index, _WORD(1))), _ROW.as_pointer()
            )
            code.store(code.zext(code.load(place), _WORD), found)
        return code.load(found)

    def is_set(row: Any, flag: int) -> Any:
        return code.icmp_signed("!=", code.and_(row, _WORD(flag)), _WORD(0))

    add("now", load("pending"))
    moved = code.icmp_signed("!=", load("next"), _WORD(0))
    with code.if_then(code.and_(moved, code.icmp_signed("!=", load("next"), address))):
        branched = code.icmp_signed("!=", load("refill"), _WORD(0))
        with code.if_else(branched) as (then, otherwise):
            with then:
                add("now", load("refill"))
            with otherwise:  # IT has skipped instructions, each of which takes a cycle
                loop, after = step.append_basic_block(), step.append_basic_block()
                code.branch(loop)
                code.position_at_end(loop)
                add("now", _WORD(1))
                add("next", code.select(is_set(row_at(load("next")), _WIDE), _WORD(4), _WORD(2)))
                code.cbranch(code.icmp_signed("<", load("next"), address), loop, after)
                code.position_at_end(after)
    row = row_at(address)
    late = code.icmp_signed(">=", load("now"), load("stop"))
    with code.if_then(code.and_(late, code.not_(is_set(row, _IN_IT)))):
        code.store(_WORD(0), place("pending"))
        code.store(_WORD(0), place("next"))
        call("halt", handle)
        code.ret_void()
    known = code.alloca(_WORD)
    code.store(row, known)
    with code.if_then(code.icmp_signed("==", row, _WORD(0))):
        code.store(code.zext(call("decode", address), _WORD), known)
    row = code.load(known)
    code.store(code.and_(row, _WORD(_IN_IT - 1)), place("pending"))
    code.store(code.and_(code.lshr(row, _WORD(8)), _WORD(7)), place("refill"))
    code.store(code.add(address, code.zext(size, _WORD)), place("next"))
    code.ret_void()
    return module


@cache
def _compiled() -> tuple[Any, int]:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    machine = llvm.Target.from_default_triple().create_target_machine(opt=2)
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(str(_module())), machine)
    engine.finalize_object()
    return engine, engine.get_function_address("step")


def address_of_step() -> int:
    """Return the address of the function, which unicorn calls with a :class:`State`."""
    return _compiled()[1]


def address(function: Callable[..., Any]) -> int:
    """Return the address of a function of ctypes."""
    return ctypes.cast(function, ctypes.c_void_p).value or 0  # type: ignore[arg-type]
