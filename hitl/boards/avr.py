"""Descriptions of the Arduino boards with AVR processors.

Source of registers, modes and pins: data sheets of the ATmega328P (DS40002061B, tables 14-8, 15-5,
17-8) and of the ATmega2560 (DS40002211A, tables 16-8, 17-2, 20-8), and Arduino's pin maps.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

from hitl.boards import emulators
from hitl.boards.contract import Pwm
from hitl.boards.description import (
    ArduinoCore,
    BoardDescription,
    BoardPins,
    Bus,
    Compiler,
    CTypes,
    Emulator,
    Flasher,
    IoNode,
    Line,
    Memory,
    Uart,
    Window,
)
from hitl.interface.shipped import FIRMWARE

CLOCK_HZ = 16_000_000
FIRST = 0x44
"""First address of the registers that :func:`pwm_of` reads."""
TIMER_0, TIMER_1, TIMER_2 = 0x44, 0x80, 0xB0
"""Address of TCCRnA, the first control register of a timer."""

Output = tuple[int, int, int]
"""A pin's timer: the address of TCCRnA, the shift of its bits COMnx, and the address of OCRnx."""

_ICR, _OCR_A = 0x06, 0x08  # of a timer with 16 bits, behind TCCRnA
_DIVIDERS = (0, 1, 8, 64, 256, 1024, 0, 0)
_DIVIDERS_2 = (0, 1, 8, 32, 64, 128, 256, 1024)
_FAST_8 = {3: 0xFF, 7: None}
_CENTRED_8 = {1: 0xFF, 5: None}
_FAST_16 = {5: 0xFF, 6: 0x1FF, 7: 0x3FF, 14: "icr", 15: "ocr"}
_CENTRED_16 = {1: 0xFF, 2: 0x1FF, 3: 0x3FF, 8: "icr", 9: "ocr", 10: "icr", 11: "ocr"}


def pwm_of(outputs: Mapping[str, Output], name: str, registers: bytes) -> Pwm | None:
    """Return the PWM signal of a timer at a pin, or ``None``.

    ``outputs`` contains the pins with a timer, and ``registers`` the values of the registers from
    ``FIRST`` on.
    """
    if name not in outputs:
        return None

    def at(address: int, size: int = 1) -> int:
        start = address - FIRST
        return int.from_bytes(registers[start : start + size], "little")

    control, shift, compare = outputs[name]
    connected = at(control) >> shift & 3
    wide = control not in (TIMER_0, TIMER_2)
    divider = (_DIVIDERS_2 if control == TIMER_2 else _DIVIDERS)[at(control + 1) & 7]
    mode = (at(control) & 3) | (at(control + 1) >> 3 & (3 if wide else 1)) << 2
    if connected < 2 or divider == 0:
        return None
    fast, centred = (_FAST_16, _CENTRED_16) if wide else (_FAST_8, _CENTRED_8)
    if mode not in fast and mode not in centred:
        return None
    top = (fast | centred)[mode]
    if top == "icr":
        top = at(control + _ICR, 2)
    elif not isinstance(top, int):
        top = at(control + _OCR_A, 2) if wide else at(control + 3)
    value = min(at(compare, 2 if wide else 1), top)
    period = top + 1 if mode in fast else 2 * top
    if period == 0:
        return None
    high = (value + 1) / period if mode in fast else 2 * value / period
    return Pwm(high if connected == 2 else 1.0 - high, CLOCK_HZ / divider / period)


def _uart_on(registers: bytes) -> bool:
    return bool(registers[1] & 0x18)


def _rate(registers: bytes, clock_hz: int) -> float:
    status, _, _, _, low, high = registers
    divisor = (high & 0x0F) << 8 | low
    return clock_hz / ((divisor + 1) * (8 if status & 2 else 16))


UART = Uart(registers=Window(0xC0, 6), on=_uart_on, rate=_rate)
"""USART0, which has the same registers in both processors."""


def _avrdude(part: str, programmer: str) -> Flasher:
    arguments = f"-p {part} -c {programmer} -P {{port}} -b {{baud}} -D -U flash:w:{{image}}:i"
    return Flasher(
        program="avrdude",
        arguments=tuple(arguments.split()),
        install="sudo apt install avrdude   (macOS: brew install avrdude; Windows: winget install "
        "avrdude)",
    )


# The Arduino Uno R3 with the ATmega328P.

PORT_B, PORT_C, PORT_D = 0, 8, 16
UNO_NUMBERS = (
    {f"D{i}": PORT_D + i for i in range(8)}
    | {f"D{8 + i}": PORT_B + i for i in range(6)}
    | {f"A{i}": PORT_C + i for i in range(6)}
)
"""Numbers of the pins, computed as 8 * port + bit."""
UNO_REGISTERS = (0x44, 0x79)
"""First address of the registers of Timer 0 to Timer 2, and their number."""

_UNO_OUTPUTS = {
    "D6": (TIMER_0, 6, 0x47), "D5": (TIMER_0, 4, 0x48),
    "D9": (TIMER_1, 6, 0x88), "D10": (TIMER_1, 4, 0x8A),
    "D11": (TIMER_2, 6, 0xB3), "D3": (TIMER_2, 4, 0xB4),
}  # fmt: skip


uno_pwm = partial(pwm_of, _UNO_OUTPUTS)
"""Function that returns the PWM at a pin from its name and the registers of Timer 0 to Timer 2."""
_CORE = ArduinoCore(
    folder="/usr/share/arduino/hardware/arduino/avr",  # Debian's arduino-core-avr
    variable="RTSIM_ARDUINO_AVR",
    variant="standard",
)
_UNO_PINS = BoardPins(
    numbers=UNO_NUMBERS,
    count=24,  # three ports
    channels={f"A{i}": i for i in range(6)},
    volts=5.0,
    registers=Window(*UNO_REGISTERS),
    pwm=uno_pwm,
)
UNO = BoardDescription(
    name="uno",
    title="Arduino Uno",
    phrase="an Uno",
    mcu="ATmega328P",
    processor="avr",
    clock_hz=CLOCK_HZ,
    types=CTypes(int_bytes=2, pointer_bytes=2, double_bytes=4),
    memory=Memory(
        flash=32 * 1024,
        ram=2048,
        boot_loader=512,  # optiboot
        least_stack=64,  # a serial interrupt needs about half of this
        ram_begins=0x800100,  # the registers precede the RAM
    ),
    compiler=Compiler(  # as in Arduino's platform.txt
        prefix="avr-",
        install="sudo apt install gcc-avr avr-libc arduino-core-avr",
        machine=("-mmcu=atmega328p", "-DF_CPU=16000000L"),
        defines=("-DARDUINO=10819", "-DARDUINO_AVR_UNO", "-DARDUINO_ARCH_AVR"),
        flags=(
            "-Os", "-g", "-flto", "-ffunction-sections", "-fdata-sections", "-ffp-contract=off",
            "-DDECIMAL_DIG=__DECIMAL_DIG__",  # Debian's avr-libc and gcc name it differently
        ),
        c=("-std=gnu11", "-fno-fat-lto-objects"),
        cpp=(
            "-std=gnu++11", "-fpermissive", "-fno-exceptions", "-fno-threadsafe-statics",
            "-Wno-error=narrowing",
        ),
        link=("-fuse-linker-plugin", "-Wl,--gc-sections"),
        hex=("-O", "ihex", "-R", ".eeprom"),
        core=_CORE,
    ),
    hal=FIRMWARE / "uno",
    main="main.ino",
    line=Line(
        baud=500_000,  # 16 MHz divides to this rate exactly
        most_baud=1_000_000,  # at 2 Mbaud a byte comes every 80 cycles: too fast
        samples=8,  # U2X
        most=4096,
        other_samples={(CLOCK_HZ, 57_600): 16},  # Arduino's core does so, for old boot loaders
        taking=257,
        handling=(1600, 11, 38),  # measured: docs/decisions/114
    ),
    flasher=_avrdude("atmega328p", "arduino"),
    usb=((0x2341, 0x0043), (0x2341, 0x0001), (0x2A03, 0x0043)),
    vectors=26,
    pins=_UNO_PINS,
    uart=UART,
    buses={
        "i2c": Bus(0, "i2c", ("A4", "A5")),
        "spi": Bus(1, "spi", ("D11", "D12", "D13")),
    },
    emulators={
        "avr8js": Emulator(emulators.command, emulators.install, buses=True),
        "simavr": Emulator(emulators.simavr_command),
    },
    io_node=IoNode(
        interface=FIRMWARE / "io_node" / "io_node.toml",
        pwm=("D3", "D11"),
        stamped=(*(f"D{n}" for n in range(2, 14)), *(f"A{n}" for n in range(6))),
        no_pwm={
            **dict.fromkeys(("D5", "D6"), "its Timer 0 is the board's clock micros()"),
            **dict.fromkeys(("D9", "D10"), "its Timer 1 times edges and counts cycles"),
        },
    ),
)  # fmt: skip


VECTORS_OF_OTHERS = {43: "a Leonardo or Micro (ATmega32U4)"}
"""Boards that rtsim does not describe, by number of interrupt vectors, for error messages."""


# The Arduino Nano: an Uno with two more analog inputs.

NANO = replace(
    UNO,
    name="nano",
    title="Arduino Nano",
    phrase="a Nano",
    memory=replace(UNO.memory, boot_loader=2048),  # boards with the old boot loader
    compiler=replace(
        UNO.compiler,
        defines=("-DARDUINO=10819", "-DARDUINO_AVR_NANO", "-DARDUINO_ARCH_AVR"),
        core=replace(_CORE, variant="eightanaloginputs"),
    ),
    usb=((0x2341, 0x0058), (0x0403, 0x6001), (0x1A86, 0x7523)),
    pins=replace(
        _UNO_PINS,
        numbers={**UNO_NUMBERS, "A6": 14, "A7": 15},  # not pins of a port: only the ADC reads them
        channels={f"A{n}": n for n in range(8)},
    ),
)


# The Arduino Mega 2560, with the HAL of the Uno.

_PORTS = "ABCDEFGHJKL"
_PLACES = (
    "E0E1E4E5G5E3H3H4H5H6B4B5B6B7J1J0H1H0D3D2D1D0A0A1A2A3A4A5A6A7"
    "C7C6C5C4C3C2C1C0D7G2G1G0L7L6L5L4L3L2L1L0B3B2B1B0"
)
_DIGITAL = [_PLACES[k : k + 2] for k in range(0, len(_PLACES), 2)]
"""Port and bit of the pins D0 to D53."""
_TIMER_3, _TIMER_4, _TIMER_5 = 0x90, 0xA0, 0x120
_MEGA_OUTPUTS = {
    "D13": (TIMER_0, 6, 0x47), "D4": (TIMER_0, 4, 0x48),
    "D11": (TIMER_1, 6, 0x88), "D12": (TIMER_1, 4, 0x8A),
    "D10": (TIMER_2, 6, 0xB3), "D9": (TIMER_2, 4, 0xB4),
    "D5": (_TIMER_3, 6, 0x98), "D2": (_TIMER_3, 4, 0x9A), "D3": (_TIMER_3, 2, 0x9C),
    "D6": (_TIMER_4, 6, 0xA8), "D7": (_TIMER_4, 4, 0xAA), "D8": (_TIMER_4, 2, 0xAC),
    "D46": (_TIMER_5, 6, 0x128), "D45": (_TIMER_5, 4, 0x12A), "D44": (_TIMER_5, 2, 0x12C),
}  # fmt: skip


def _number(place: str) -> int:
    return 8 * _PORTS.index(place[0]) + int(place[1])


MEGA_NUMBERS = {f"D{n}": _number(place) for n, place in enumerate(_DIGITAL)} | {
    f"A{n}": _number(f"{'FK'[n // 8]}{n % 8}") for n in range(16)
}
"""Numbers of the pins, computed as 8 * port + bit, for the ports A to H and J to L in this order.
"""


mega_pwm = partial(pwm_of, _MEGA_OUTPUTS)
"""Function that returns the PWM at a pin from its name and the registers from :data:`FIRST` on."""
MEGA = replace(
    UNO,
    name="mega2560",
    title="Arduino Mega 2560",
    phrase="a Mega 2560",
    mcu="ATmega2560",
    memory=replace(
        UNO.memory, flash=256 * 1024, ram=8192, boot_loader=8192, ram_begins=0x800200
    ),
    compiler=replace(
        UNO.compiler,
        machine=("-mmcu=atmega2560", "-DF_CPU=16000000L"),
        defines=("-DARDUINO=10819", "-DARDUINO_AVR_MEGA2560", "-DARDUINO_ARCH_AVR"),
        core=replace(_CORE, variant="mega"),
    ),
    line=replace(
        UNO.line,
        other_samples={},
        taking=270,
        handling=(1640, 12, 38),  # counted on the emulator, as in docs/decisions/114
    ),
    flasher=_avrdude("atmega2560", "wiring"),
    usb=((0x2341, 0x0010), (0x2341, 0x0042), (0x2A03, 0x0042)),
    vectors=57,
    pins=replace(
        _UNO_PINS,
        numbers=MEGA_NUMBERS,
        count=8 * len(_PORTS),
        channels={f"A{n}": n for n in range(8)},  # the emulator has no channels 8 to 15
        registers=Window(FIRST, 0x12E - FIRST),
        pwm=mega_pwm,
    ),
    buses={
        "i2c": Bus(0, "i2c", ("D20", "D21")),
        "spi": Bus(1, "spi", ("D51", "D50", "D52")),
    },
    emulators={
        "avr8js": Emulator(
            lambda: [*emulators.command(), "atmega2560"],
            emulators.install,
            buses=True,
        )
    },
    io_node=IoNode(
        interface=FIRMWARE / "io_node" / "io_node_mega.toml",
        pwm=("D9", "D10"),
        stamped=("D10", "D11", "D12", "D13"),
        no_pwm={
            **dict.fromkeys(("D4", "D13"), "its Timer 0 is the board's clock micros()"),
            **dict.fromkeys(("D11", "D12"), "its Timer 1 times edges and counts cycles"),
            **dict.fromkeys(("D2", "D3", "D5"), "the I/O node does not use Timer 3"),
            **dict.fromkeys(("D6", "D7", "D8"), "the I/O node does not use Timer 4"),
        },
    ),
)  # fmt: skip
