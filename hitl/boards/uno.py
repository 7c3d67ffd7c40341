"""The Arduino Uno R3 with the ATmega328P: its description, and the registers of its emulators.

Source of registers and modes: data sheet of the ATmega328P, DS40002061B, tables 14-8, 15-5, 17-8.
"""

from __future__ import annotations

from hitl.boards import node, simavr
from hitl.boards.contract import Pwm
from hitl.boards.description import (
    ArduinoCore,
    BoardDescription,
    BoardPins,
    Compiler,
    CTypes,
    Emulator,
    Flasher,
    Line,
    Memory,
    Uart,
    Window,
)
from hitl.interface.shipped import FIRMWARE

CLOCK_HZ = 16_000_000
PORT_B, PORT_C, PORT_D = 0, 8, 16
NUMBERS = (
    {f"D{i}": PORT_D + i for i in range(8)}
    | {f"D{8 + i}": PORT_B + i for i in range(6)}
    | {f"A{i}": PORT_C + i for i in range(6)}
)
"""Number of a pin: 8 * port + bit."""
REGISTERS = (0x44, 0x79)
"""First address and number of the registers that :func:`pwm` needs: Timer 0 to Timer 2."""

_FIRST = 0x44
_TCCR0A, _TCCR1A, _TCCR2A = 0x44, 0x80, 0xB0
_ICR1 = 0x86
_OUTPUTS = {  # TCCRnA, shift of COMnx, OCRnx
    "D6": (_TCCR0A, 6, 0x47), "D5": (_TCCR0A, 4, 0x48),
    "D9": (_TCCR1A, 6, 0x88), "D10": (_TCCR1A, 4, 0x8A),
    "D11": (_TCCR2A, 6, 0xB3), "D3": (_TCCR2A, 4, 0xB4),
}  # fmt: skip
_DIVIDERS = (0, 1, 8, 64, 256, 1024, 0, 0)
_DIVIDERS_2 = (0, 1, 8, 32, 64, 128, 256, 1024)
_FAST_8 = {3: 0xFF, 7: None}
_CENTRED_8 = {1: 0xFF, 5: None}
_FAST_16 = {5: 0xFF, 6: 0x1FF, 7: 0x3FF, 14: "icr", 15: "ocr"}
_CENTRED_16 = {1: 0xFF, 2: 0x1FF, 3: 0x3FF, 8: "icr", 9: "ocr", 10: "icr", 11: "ocr"}


def pwm(name: str, registers: bytes) -> Pwm | None:
    """Return the PWM signal that a timer makes at the pin ``name``, or ``None`` without PWM.

    ``registers`` are the bytes of :data:`REGISTERS`.
    """
    if name not in _OUTPUTS:
        return None

    def at(address: int, size: int = 1) -> int:
        start = address - _FIRST
        return int.from_bytes(registers[start : start + size], "little")

    control, shift, compare = _OUTPUTS[name]
    connected = at(control) >> shift & 3
    wide = control == _TCCR1A
    divider = (_DIVIDERS_2 if control == _TCCR2A else _DIVIDERS)[at(control + 1) & 7]
    mode = (at(control) & 3) | (at(control + 1) >> 3 & (3 if wide else 1)) << 2
    if connected < 2 or divider == 0:
        return None
    fast, centred = (_FAST_16, _CENTRED_16) if wide else (_FAST_8, _CENTRED_8)
    if mode not in fast and mode not in centred:
        return None
    top = (fast | centred)[mode]
    if top == "icr":
        top = at(_ICR1, 2)
    elif not isinstance(top, int):
        top = at(0x88, 2) if wide else at(control + 3)
    value = min(at(compare, 2 if wide else 1), top)
    period = top + 1 if mode in fast else 2 * top
    if period == 0:
        return None
    high = (value + 1) / period if mode in fast else 2 * value / period
    return Pwm(high if connected == 2 else 1.0 - high, CLOCK_HZ / divider / period)


def _uart_on(registers: bytes) -> bool:
    """Return True if the receiver or the transmitter is on (UCSR0B)."""
    return bool(registers[1] & 0x18)


def _rate(registers: bytes, clock_hz: int) -> float:
    """Return the rate that UBRR0 and U2X0 set, bit/s."""
    status, _, _, _, low, high = registers
    divisor = (high & 0x0F) << 8 | low
    return clock_hz / ((divisor + 1) * (8 if status & 2 else 16))


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
        core=ArduinoCore(
            folder="/usr/share/arduino/hardware/arduino/avr",  # Debian's arduino-core-avr
            variable="RTSIM_ARDUINO_AVR",
            variant="standard",
        ),
    ),
    hal=FIRMWARE / "uno",
    main="uno.ino",
    line=Line(
        baud=500_000,  # 16 MHz divides to this rate exactly
        most_baud=1_000_000,  # at 2 Mbaud a byte comes every 80 cycles: too fast
        samples=8,  # U2X
        most=4096,
        other_samples={(CLOCK_HZ, 57_600): 16},  # Arduino's core does so, for old boot loaders
        taking=257,
        handling=(1600, 11, 38),  # measured: docs/decisions/114
    ),
    flasher=Flasher(
        program="avrdude",
        arguments=(
            "-p", "atmega328p", "-c", "arduino", "-P", "{port}", "-b", "{baud}", "-D",
            "-U", "flash:w:{image}:i",
        ),
        install="sudo apt install avrdude   (macOS: brew install avrdude; Windows: winget install "
        "avrdude)",
    ),
    usb=((0x2341, 0x0043), (0x2341, 0x0001), (0x2A03, 0x0043)),
    pins=BoardPins(
        numbers=NUMBERS,
        count=24,  # three ports
        channels={f"A{i}": i for i in range(6)},
        volts=5.0,
        registers=Window(*REGISTERS),
        pwm=pwm,
    ),
    uart=Uart(registers=Window(0xC0, 6), on=_uart_on, rate=_rate),
    emulators={
        "avr8js": Emulator(node.command, node.install),
        "simavr": Emulator(simavr.command),
    },
    io_node=True,
)  # fmt: skip
