"""The Arduino Uno R3 with the ATmega328P: its description, and the registers of its emulators.

Source of registers: data sheet of the ATmega328P, DS40002061B.
"""

from __future__ import annotations

from hitl.boards import node, simavr
from hitl.boards.avr import CLOCK_HZ, TIMER_0, TIMER_1, TIMER_2, UART, pwm_of
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
    Window,
)
from hitl.interface.shipped import FIRMWARE

PORT_B, PORT_C, PORT_D = 0, 8, 16
NUMBERS = (
    {f"D{i}": PORT_D + i for i in range(8)}
    | {f"D{8 + i}": PORT_B + i for i in range(6)}
    | {f"A{i}": PORT_C + i for i in range(6)}
)
"""Number of a pin: 8 * port + bit."""
REGISTERS = (0x44, 0x79)
"""First address and number of the registers that :func:`pwm` needs: Timer 0 to Timer 2."""

_OUTPUTS = {
    "D6": (TIMER_0, 6, 0x47), "D5": (TIMER_0, 4, 0x48),
    "D9": (TIMER_1, 6, 0x88), "D10": (TIMER_1, 4, 0x8A),
    "D11": (TIMER_2, 6, 0xB3), "D3": (TIMER_2, 4, 0xB4),
}  # fmt: skip


def pwm(name: str, registers: bytes) -> Pwm | None:
    """Return the PWM signal that a timer makes at the pin ``name``, or ``None`` without PWM.

    ``registers`` are the bytes of :data:`REGISTERS`.
    """
    return pwm_of(_OUTPUTS, name, registers)


CORE = ArduinoCore(
    folder="/usr/share/arduino/hardware/arduino/avr",  # Debian's arduino-core-avr
    variable="RTSIM_ARDUINO_AVR",
    variant="standard",
)
PINS = BoardPins(
    numbers=NUMBERS,
    count=24,  # three ports
    channels={f"A{i}": i for i in range(6)},
    volts=5.0,
    registers=Window(*REGISTERS),
    pwm=pwm,
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
        core=CORE,
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
    pins=PINS,
    uart=UART,
    buses={
        "i2c": Bus(0, "i2c", ("A4", "A5")),
        "spi": Bus(1, "spi", ("D11", "D12", "D13")),
    },
    emulators={
        "avr8js": Emulator(node.command, node.install, buses=True),
        "simavr": Emulator(simavr.command),
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
