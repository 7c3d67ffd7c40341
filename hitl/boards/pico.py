"""Description of the Raspberry Pi Pico with the processor RP2040.

Source of registers: RP2040 data sheet, sections 4.2 (UART) and 4.5 (PWM).
"""

from __future__ import annotations

from pathlib import Path

from hitl.boards import emulators
from hitl.boards.contract import Pwm
from hitl.boards.description import (
    BoardDescription,
    BoardPins,
    Bus,
    CTypes,
    Emulator,
    Line,
    Memory,
    Uart,
    Window,
)
from hitl.boards.zig import zig
from hitl.interface.shipped import FIRMWARE

CLOCK_HZ = 125_000_000
ADAPTER = Path(__file__).parent / "rp2040js"
REGISTERS = Window(0x1000, 0xA0 + 30)
"""Addresses in the emulator: the registers of PWM, then one byte for the function of each pin."""

_IBRD, _FBRD, _CR = 0x24, 0x28, 0x30
_ON, _SAMPLES, _FRACTIONS = 1, 16, 64
_SLICE, _DIV, _CC, _TOP = 0x14, 0x04, 0x0C, 0x10
_FUNCTIONS, _PWM_FUNCTION, _ENABLED, _CENTRED = 0xA0, 4, 1, 2


def pwm(name: str, registers: bytes) -> Pwm | None:
    """Return the PWM signal at a pin, or ``None``."""
    number = int(name.removeprefix("GP"))
    start, channel = number // 2 % 8 * _SLICE, number % 2

    def at(offset: int) -> int:
        return int.from_bytes(registers[start + offset : start + offset + 4], "little")

    if registers[_FUNCTIONS + number] != _PWM_FUNCTION or not at(0) & _ENABLED:
        return None
    top, high = at(_TOP) & 0xFFFF, at(_CC) >> 16 * channel & 0xFFFF
    divider = (at(_DIV) & 0xFFF) / 16 or 256.0
    period = 2 * (top + 1) if at(0) & _CENTRED else top + 1
    duty = min(1.0, high / (top + 1))
    inverted = at(0) >> 2 + channel & 1
    return Pwm(1.0 - duty if inverted else duty, CLOCK_HZ / divider / period)


def _word(registers: bytes, offset: int) -> int:
    return int.from_bytes(registers[offset : offset + 4], "little")


def _uart_on(registers: bytes) -> bool:
    return bool(_word(registers, _CR) & _ON)


def _rate(registers: bytes, clock_hz: int) -> float:
    divider = _word(registers, _IBRD) * _FRACTIONS + _word(registers, _FBRD)
    return clock_hz * _FRACTIONS / (_SAMPLES * max(1, divider))


PICO = BoardDescription(
    name="pico",
    title="Raspberry Pi Pico",
    phrase="a Pico",
    mcu="RP2040",
    processor="cortex-m0plus",
    clock_hz=CLOCK_HZ,
    types=CTypes(int_bytes=4, pointer_bytes=4, double_bytes=8),
    memory=Memory(
        flash=2 << 20,
        ram=264 << 10,
        flash_begins=0x1000_0000,
        boot_loader=256,  # the second boot stage
        least_stack=4096,
        flash_sections=("text", "ARM.exidx", "data"),
        flash_region="FLASH",
        ram_region="RAM",
        ram_begins=0x2000_0000,
        beside={},
    ),
    compiler=zig(
        ("-target", "thumb-freestanding-eabi", "-mcpu=cortex_m0plus"), "pico.ld", "rtsim_pico_reset"
    ),
    hal=FIRMWARE / "pico",
    main="pico.c",
    line=Line(
        baud=2_000_000,  # 125 MHz divides to this rate exactly
        most_baud=2_000_000,
        samples=_SAMPLES,
        fractions=_FRACTIONS,
        most=65_535,
        taking=150,
        handling=(3610, 3, 51),  # counted on the emulator, as in docs/decisions/114
    ),
    pins=BoardPins(
        numbers={f"GP{n}": n for n in range(30)},
        channels={f"GP{26 + n}": n for n in range(4)},
        count=30,
        volts=3.3,
        registers=REGISTERS,
        pwm=pwm,
    ),
    uart=Uart(registers=Window(0x0000, 0x34), on=_uart_on, rate=_rate),
    buses={
        "i2c0": Bus(0, "i2c", ("GP4", "GP5")),
        "i2c1": Bus(1, "i2c", ("GP6", "GP7")),
        "spi0": Bus(2, "spi", ("GP19", "GP16", "GP18")),
        "spi1": Bus(3, "spi", ("GP11", "GP12", "GP10")),
    },
    times="execution times are those of code in the cache or the RAM; the emulator has no wait "
    "states of the flash, so other code takes longer on a real Pico",
    emulators={
        "rp2040js": Emulator(
            lambda: emulators.command(ADAPTER, "rtsim board install --board pico"),
            lambda: emulators.install(ADAPTER),
            buses=True,
            warms_up=True,
        ),
    },
)
