"""The emulated STM32F405: cycles of instructions, bits, serial line, pins, resets, errors."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from emulated_board_parts import need
from firmware_parts import random_inputs, started

from hitl.boards import BoardError
from hitl.boards.emulated import EmulatedBoard
from hitl.boards.intel_hex import read_image
from hitl.boards.stm32f4 import MEMORY, STM32F4
from hitl.controllers.in_process import InProcess
from hitl.firmware.firmware import firmware
from hitl.interface import load_interface
from hitl.testing import check_board
from rtsim.core.tag import Tag

PID = "firmware/core/pid.toml:single"
LAW = "firmware/core/f16_control.toml"
PAGE = Path(__file__).parents[3] / "docs/boards.md"
BEGIN = 0x200
"""Offset of the reset handler in the images of this file."""


def image_of(code: str, after: str = "") -> bytes:
    vectors = struct.pack("<2I", MEMORY.ram_begins + MEMORY.ram, MEMORY.flash_begins + BEGIN | 1)
    return vectors.ljust(BEGIN, b"\xff") + bytes.fromhex(code + after)


START = (
    "40f20007c4f20007"  # R7 = 0x40000000, a peripheral
    "41f20005c2f20005"  # R5 = 0x20001000, in the RAM
    "4ef68850cef20000016841f470010160bff34f8fbff36f8f"  # CPACR: the floating-point unit is on
    "03240026f0ee000ab0ee081a"  # R4 = 3, R6 = 0, S1 = 2, S2 = 3
    "032c00bf3c60"  # CMP R4, #3; NOP; STR R4, [R7]
)
END = "3c60fee7"  # STR R4, [R7]; an endless loop

CYCLES = {
    "MOVS R3, #5": ("0523", 1, 1, 1),
    "ADDS R3, R3, R4; MULS R3, R4": ("1b196343", 2, 2, 2),
    "MLA R3, R4, R4, R4; SMULL R2, R3, R4, R4": ("04fb044384fb0423", 2, 2, 2),
    "LDR R3, [R5]; NOP": ("2b6800bf", 3, 3, 3),
    "LDR R3, [R5]; LDR R2, [R5, #4]; LDR R1, [R5, #8]; NOP": ("2b686a68a96800bf", 5, 5, 7),
    "LDR R2, [R5]; LDR R3, [R5, R2]; NOP": ("2a68ab5800bf", 5, 5, 5),
    "ADDS R5, #4; LDR R3, [R5]; NOP": ("04352b6800bf", 4, 5, 5),
    "LDRD R2, R3, [R5]": ("d5e90023", 3, 3, 3),
    "STR R3, [R5]; STR R3, [R5, R6]": ("2b60ab51", 3, 3, 4),
    "LDM R5, {R1, R2, R3}": ("95e80e00", 4, 4, 4),
    "PUSH {R1, R2, R3}; POP {R1, R2, R3}": ("0eb40ebc", 8, 8, 8),
    "UDIV R3, R4, R4": ("b4fbf4f3", 2, 12, 12),
    "MRS R3, PRIMASK": ("eff31083", 1, 2, 2),
    "IT EQ; MOVEQ R3, #1": ("08bf0123", 1, 2, 2),
    "ITTT NE; LDRNE; LDRNE; MOVNE (all skipped)": ("1ebf2b682a680121", 3, 4, 4),
    "MOVS R3, #5; BEQ (not taken)": ("0523ffd0", 2, 2, 2),
    "MOVS R3, #5; BNE (taken); NOP": ("052300d100bf00bf", 4, 4, 6),
    "B; ADD.W across words": ("00e000bf03eb0303", 3, 4, 5),
    "BL; BX LR; B; NOP": ("00f001f800e0704700bf", 7, 8, 13),
    "BL; PUSH {R4, LR}; POP {R4, PC}; B; NOP": ("00f001f801e010b510bd00bf", 12, 14, 18),
    "MOVS R3, #2; two rounds of SUBS R3, #1; BNE": ("0223013bfdd1", 6, 6, 8),
    "VADD S3, S1, S2; VMUL S4, S1, S2; NOP": ("70ee811a20ee812a00bf", 3, 3, 3),
    "VADD S3, S1, S2; VMUL S4, S3, S2; NOP": ("70ee811a21ee812a00bf", 3, 4, 4),
    "VFMA S3, S1, S2; NOP": ("e0ee811a00bf", 4, 4, 4),
    "VDIV S3, S1, S2; VSQRT S4, S1; NOP": ("c0ee811ab1eee02a00bf", 29, 29, 29),
    "VLDR S3, [R5]; VSTR S3, [R5]": ("d5ed001ac5ed001a", 4, 4, 4),
    "VLDR D3, [R5]; VSTR D3, [R5]": ("95ed003b85ed003b", 6, 6, 6),
    "VPUSH {S16-S19}; VPOP {S16-S19}": ("2ded048abdec048a", 10, 10, 10),
    "VCMP S1, S2; VMRS APSR_nzcv, FPSCR": ("f4ee410af1ee10fa", 2, 2, 2),
    "VMOV R2, S1; VMOV S3, R2; VMOV R2, R3, D0": ("10ee902a01ee902a53ec102b", 4, 4, 4),
    "VCVT.S32.F32 S3, S1; NOP": ("fdeee01a00bf", 2, 2, 2),
    "DSB; ISB": ("bff34f8fbff36f8f", 3, 3, 5),
    "TBB [PC, R6]; NOP": ("dfe806f0010100bf", 5, 7, 7),
}
"""Sequences, and their cycles by the Cortex-M4 Technical Reference Manual (ARM 100166_0001): the
lower limits, the values of the back end unicorn, and the upper limits."""
TIMINGS = ("least", "nominal", "most")


class Stores:
    """A bus with one peripheral, which keeps the cycle of each store."""

    windows: tuple[tuple[int, int], ...] = ((0x4000_0000, 0x1000),)
    due = 1 << 62

    def __init__(self) -> None:
        self.cycles: list[int] = []

    def service(self, now: int) -> None:
        pass

    def read(self, address: int, now: int) -> int:  # noqa: ARG002
        return 0

    def write(self, address: int, value: int, now: int) -> None:  # noqa: ARG002
        self.cycles.append(now)


@cache
def cycles_of(code: str, timing: str) -> int:
    """The cycles of a sequence between two stores, without those of the first store."""
    from hitl.boards.cortex_m.processor import Processor
    from hitl.boards.cortex_m.timing import TIMINGS as FIGURES

    bus = Stores()
    Processor(image_of(START, code + END), MEMORY, bus, FIGURES[timing]).run(500)
    first, last = bus.cycles
    return last - first - FIGURES[timing].store


@pytest.mark.parametrize("name", CYCLES)
def test_instructions_take_the_cycles_of_the_manual(name: str) -> None:
    need("unicorn")
    code, *cycles = CYCLES[name]
    assert [cycles_of(code, timing) for timing in TIMINGS] == cycles


def test_a_page_shows_these_sequences() -> None:
    page = PAGE.read_text(encoding="utf-8")
    for name, (_, least, nominal, most) in CYCLES.items():
        assert f"| `{name}` | {least} | {nominal} | {most} |" in page, name


# -- the firmware on it


@contextmanager
def running(image: bytes, backend: str = "unicorn") -> Iterator[EmulatedBoard]:
    need(backend)
    command = STM32F4.emulators[backend].command()
    with closing(EmulatedBoard(image, command, backend, description=STM32F4)) as board:
        yield board


def image_of_pid() -> bytes:
    return read_image(firmware(PID, board=STM32F4).path, STM32F4)


@pytest.mark.long
def test_the_board_keeps_the_contract() -> None:
    need("unicorn")
    assert check_board(STM32F4) == ()


def test_a_controller_gives_the_bits_of_the_host() -> None:
    interface = load_interface(PID)
    made, inputs = firmware(interface, board=STM32F4), random_inputs(interface.inputs, 200)
    with closing(InProcess(PID).fresh()) as host, started(made) as talk:
        for k, u in enumerate(inputs):
            host.send(Tag(k), u)
            commands = host.receive(Tag(k), 1.0)
            assert commands is not None
            assert talk.stepped(k, u).outputs.tobytes() == commands.tobytes()
        assert talk.board.lost <= 14  # HELLO, while it booted
        assert talk.board.garbled == 0
        assert talk.board.baud == 2_000_000


ARITHMETIC = """
real = {real}
name = "arithmetic"
period = "1/100"
sources = ["arithmetic.c"]
headers = ["arithmetic.h"]
[code]
objects = ["arithmetic x"]
step = "arithmetic_step(&x)"
[inputs]
a = {{ c = "x.a" }}
b = {{ c = "x.b" }}
[outputs]
"""
RESULTS: dict[str, tuple[str, Callable[[Any, Any], Any]]] = {
    "sum": ("a + b", lambda a, b: a + b),
    "difference": ("a - b", lambda a, b: a - b),
    "product": ("a * b", lambda a, b: a * b),
    "quotient": ("a / b", lambda a, b: a / b),
    "root": ("SQRT(a < 0 ? -a : a)", lambda a, b: np.sqrt(abs(a))),  # noqa: ARG005
    "chain": ("a * b + a / b - b", lambda a, b: a * b + a / b - b),
}


@pytest.mark.long
@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_arithmetic_gives_the_bits_of_ieee_754(kind: Any, tmp_path: Path) -> None:
    """By the unit for float, also for subnormal numbers; by the compiler's library for double.

    The library does not always round a subnormal quotient correctly, so no double is subnormal.
    """
    c, root = ("float", "sqrtf") if kind is np.float32 else ("double", "sqrt")
    names = ", ".join(["a", "b", *RESULTS])
    lines = "".join(f"  x->{n} = {code};\n" for n, (code, _) in RESULTS.items())
    (tmp_path / "arithmetic.h").write_text(
        f"typedef struct {{ {c} {names}; }} arithmetic;\nvoid arithmetic_step(arithmetic *x);\n"
    )
    (tmp_path / "arithmetic.c").write_text(
        f'#include <math.h>\n#include "arithmetic.h"\n#define SQRT {root}\n'
        f"void arithmetic_step(arithmetic *x) {{\n  {c} a = x->a, b = x->b;\n{lines}}}\n"
    )
    path = tmp_path / "arithmetic.toml"
    text = ARITHMETIC.format(real=repr("float32" if kind is np.float32 else "float64"))
    path.write_text(text + "".join(f'{n} = {{ c = "x.{n}" }}\n' for n in RESULTS))
    chance, (least, most) = np.random.default_rng(1), (-140, 120) if c == "float" else (-300, 300)
    pairs = chance.uniform(-2, 2, (1000, 2)) * 2.0 ** chance.integers(least, most, (1000, 2))
    made = firmware(path, board=STM32F4)
    with started(made) as talk, np.errstate(all="ignore"):
        for k, pair in enumerate(pairs.astype(kind)):
            a, b = pair
            expected = np.array([of(a, b) for _, of in RESULTS.values()], kind)
            found = talk.stepped(k, pair.astype(float)).outputs.astype(kind)
            assert np.array_equal(found, expected, equal_nan=True), (pair, found, expected)


def test_bytes_follow_one_another_in_840_cycles() -> None:
    """Ten bits of 2 Mbit/s at 168 MHz."""
    with started(firmware(LAW + ":single", board=STM32F4)) as talk:
        talk.session.ping(1, talk.now_ns)
        talk.board.send(talk.session.outgoing())
        talk.board.advance(50_000)
        cycles = [stamped.cycle for stamped in talk.board.take()]
    assert len(cycles) == 14
    assert {b - a for a, b in pairwise(cycles)} == {840}


def test_slices_of_any_size_and_two_runs_give_the_same_bytes() -> None:
    interface = load_interface(PID)
    (u,) = random_inputs(interface.inputs, 1)
    heard = []
    for slice in (50_000, 50_000, 77, 1):
        with started(firmware(PID, board=STM32F4)) as talk:
            talk.session.step(Tag(0), u, 0)
            talk.board.send(talk.session.outgoing(), at=1_000_000)
            talk.board.advance(1_000_000 - talk.board.cycles)
            talk.board.advance(20_000 + 840 * 4)
            for _ in range(2_000 // slice):
                talk.board.advance(slice)
            talk.board.advance(1_060_000 - talk.board.cycles)
            heard.append([(s.cycle, s.value) for s in talk.board.take()])
    assert len(heard[0]) >= 20
    assert all(one == heard[0] for one in heard)


def test_the_back_ends_give_lower_and_upper_limits() -> None:
    interface = load_interface(LAW + ":single")
    made, (u,) = firmware(interface, board=STM32F4), random_inputs(interface.inputs, 1)
    cycles = []
    for backend in ("unicorn-least", "unicorn", "unicorn-most"):
        with started(made, backend) as talk:
            cycles.append(talk.stepped(0, u).cycles)
    least, nominal, most = cycles
    assert 0.7 * nominal < least < nominal < most < 1.3 * nominal
    assert nominal < 400, "the floating-point unit computes; the library takes over 5000 cycles"


def test_without_requests_the_processor_sleeps() -> None:
    """1000 s of a waiting board take less than a second of this machine's time."""
    with started(firmware(PID, board=STM32F4)) as talk:
        talk.board.advance(100 * STM32F4.clock_hz)
        assert talk.board.take() == []


def test_a_reset_keeps_the_ram_and_gives_another_nonce() -> None:
    with running(image_of_pid()) as board:
        nonces = set()
        for _ in range(3):
            board.advance(2_000_000)
            nonces.add(board.receive())
            board.reset()
    assert len(nonces) == 3
    assert b"" not in nonces


CLOCKED = "43f63000c4f202001f210160"  # R0 = RCC_AHB1ENR; R1 = 31; STR R1, [R0]: ports A to E
PORT_A = "40f20002c4f20202"  # R2 = GPIOA


def test_pins_drive_and_read_levels() -> None:
    """PA0 is an output that repeats the input PA1."""
    code = "012111601369c3f340035361fae7"  # MODER = 1; loop: R3 = bit 1 of IDR; STR R3, ODR
    with running(image_of(CLOCKED + PORT_A, code)) as board:
        board.advance(1000)
        board.pins.write("PA1", True)
        board.advance(1000)
        board.pins.write("PA1", False)
        board.advance(1000)
        edges = board.pins.edges()
        assert [(edge.pin, edge.level) for edge in edges] == [("PA0", True), ("PA0", False)]
        assert 1000 <= edges[0].cycle < 1030
        assert 2000 <= edges[1].cycle < 2030
        assert board.pins.read("PA0") is False


# -- what goes wrong


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("00be", "at 0x8000200: a trap or breakpoint"),
        ("01de", "at 0x8000200: an undefined instruction"),
        ("00200047", "the program left the flash and the RAM"),
        ("092000070068", "at 0x8000204: a read of an address without memory"),
        ("0120c0060060", "at 0x8000204: a write to the flash"),
        ("4ff0005001300047", "executes code in the RAM"),
        ("30ee010a", "floating-point unit at 0x8000200 before .* CPACR"),
        (PORT_A + "1168", "uses GPIOA before it has enabled its clock"),
        ("40f20000c4f201000168", "a register at 0x40010000 that is not emulated"),
        ("20bf", "executes WFE at 0x8000200; use WFI"),
        (CLOCKED + PORT_A + "1170", "writes 1 bytes to 0x40020000; write 32-bit words"),
    ],
)
def test_firmware_that_does_what_is_not_emulated_is_an_error(code: str, said: str) -> None:
    with running(image_of(code, "fee7")) as board, pytest.raises(BoardError, match=said):
        board.advance(1000)


def test_an_interrupt_that_would_begin_is_an_error() -> None:
    """The firmware enables the interrupt of USART1 for an empty transmitter, but not cpsid i."""
    code = (
        "43f64400c4f2020010210160"  # RCC_APB2ENR: USART1
        "4ef20410cef2000020210160"  # NVIC_ISER1: line 37
        "41f20c00c4f2010042f288010160"  # USART_CR1: UE, TXEIE, TE
    )
    with (
        running(image_of(code, "fee7")) as board,
        pytest.raises(BoardError, match=r"interrupt 37 would begin .* begins no interrupts"),
    ):
        board.advance(1000)


def test_missing_packages_are_named_with_their_installation(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("hitl.boards.stm32f4._NEEDS", ("no_such_package",))
    with pytest.raises(BoardError, match=r"no_such_package; type: pip install 'rtsim\[cortex-m\]'"):
        STM32F4.emulators["unicorn"].command()
