"""Description of a board with an STM32F405, a Cortex-M4 with a floating-point unit.

Source of registers: RM0090 (ST), section 30.6 (USART).
"""

from __future__ import annotations

import sys
from functools import partial
from importlib.util import find_spec
from pathlib import Path

from hitl.boards.contract import BoardError
from hitl.boards.description import (
    BoardDescription,
    BoardPins,
    CTypes,
    Emulator,
    Line,
    Memory,
    Uart,
    Window,
)
from hitl.boards.zig import zig
from hitl.interface.shipped import FIRMWARE

CLOCK_HZ = 168_000_000
PORTS = "ABCDE"
USART1 = Window(0x0000, 0x1C)
"""Address of the registers of USART1 in the emulator."""
MEMORY = Memory(
    flash=1 << 20,
    ram=128 << 10,
    flash_begins=0x0800_0000,
    least_stack=4096,
    flash_sections=("text", "ARM.exidx", "data"),
    flash_region="FLASH",
    ram_region="RAM",
    ram_begins=0x2000_0000,
    beside={},
)
_INSTALL = "pip install 'rtsim[cortex-m]'"
_NEEDS = ("unicorn", "capstone")
_BRR, _CR1, _UE, _FRACTIONS = 0x08, 0x0C, 1 << 13, 16


def _emulator(timing: str) -> list[str | Path]:
    if missing := [name for name in _NEEDS if find_spec(name) is None]:
        text = f"the emulator unicorn needs the package {missing[0]}"
        raise BoardError(f"{text}; type: {_INSTALL}")
    return [sys.executable, "-m", "hitl.boards.cortex_m.stm32f4", timing]


def _word(registers: bytes, offset: int) -> int:
    return int.from_bytes(registers[offset : offset + 4], "little")


STM32F4 = BoardDescription(
    name="stm32f4",
    title="STM32F405",
    phrase="an STM32F405",
    mcu="STM32F405",
    processor="cortex-m4f",
    clock_hz=CLOCK_HZ,
    types=CTypes(int_bytes=4, pointer_bytes=4, double_bytes=8),
    memory=MEMORY,
    compiler=zig(
        ("-target", "thumb-freestanding-eabihf", "-mcpu=cortex_m4+vfp4d16sp"),
        "stm32f4.ld",
        "rtsim_reset",
        "-fno-math-errno",  # VSQRT instead of a call of sqrtf
    ),
    hal=FIRMWARE / "stm32f4",
    shared=tuple(FIRMWARE / "cortex_m" / name for name in ("start.c", "start.h")),
    main="stm32f4.c",
    line=Line(
        baud=2_000_000,  # 84 MHz divides to this rate exactly
        most_baud=2_000_000,
        samples=32,  # 16 samples, with half of the processor's clock
        fractions=_FRACTIONS,
        most=4095,
        taking=190,
        handling=(3760, 0, 40),  # counted on the emulator, as in docs/decisions/114
    ),
    pins=BoardPins(
        numbers={f"P{port}{n}": 16 * k + n for k, port in enumerate(PORTS) for n in range(16)},
        count=16 * len(PORTS),
        volts=3.3,
    ),
    uart=Uart(
        registers=USART1,
        on=lambda registers: bool(_word(registers, _CR1) & _UE),
        rate=lambda registers, clock: clock / 2 / max(1, _word(registers, _BRR)),
    ),
    times="execution times are by the cycles of ARM's manual without wait states of the flash; "
    "the back ends unicorn-least and unicorn-most give the limits of the manual",
    emulators={
        name: Emulator(partial(_emulator, timing))
        for name, timing in (
            ("unicorn", "nominal"),
            ("unicorn-least", "least"),
            ("unicorn-most", "most"),
        )
    },
)
