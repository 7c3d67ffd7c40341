"""The Arduino Mega 2560: its description, with the HAL of the Uno.

Source of registers and pins: data sheet of the ATmega2560, DS40002211A, and Arduino's pin map.
"""

from __future__ import annotations

from dataclasses import replace

from hitl.boards import node
from hitl.boards.avr import FIRST, TIMER_0, TIMER_1, TIMER_2, pwm_of
from hitl.boards.contract import Pwm
from hitl.boards.description import (
    BoardPins,
    Bus,
    CTypes,
    Emulator,
    Flasher,
    IoNode,
    Line,
    Memory,
    Window,
)
from hitl.boards.uno import CORE, UNO
from hitl.interface.shipped import FIRMWARE

_PORTS = "ABCDEFGHJKL"
_PLACES = (
    "E0E1E4E5G5E3H3H4H5H6B4B5B6B7J1J0H1H0D3D2D1D0A0A1A2A3A4A5A6A7"
    "C7C6C5C4C3C2C1C0D7G2G1G0L7L6L5L4L3L2L1L0B3B2B1B0"
)
_DIGITAL = [_PLACES[k : k + 2] for k in range(0, len(_PLACES), 2)]
"""Port and bit of the pins D0 to D53."""
_TIMER_3, _TIMER_4, _TIMER_5 = 0x90, 0xA0, 0x120
_OUTPUTS = {
    "D13": (TIMER_0, 6, 0x47), "D4": (TIMER_0, 4, 0x48),
    "D11": (TIMER_1, 6, 0x88), "D12": (TIMER_1, 4, 0x8A),
    "D10": (TIMER_2, 6, 0xB3), "D9": (TIMER_2, 4, 0xB4),
    "D5": (_TIMER_3, 6, 0x98), "D2": (_TIMER_3, 4, 0x9A), "D3": (_TIMER_3, 2, 0x9C),
    "D6": (_TIMER_4, 6, 0xA8), "D7": (_TIMER_4, 4, 0xAA), "D8": (_TIMER_4, 2, 0xAC),
    "D46": (_TIMER_5, 6, 0x128), "D45": (_TIMER_5, 4, 0x12A), "D44": (_TIMER_5, 2, 0x12C),
}  # fmt: skip


def _number(place: str) -> int:
    return 8 * _PORTS.index(place[0]) + int(place[1])


NUMBERS = {f"D{n}": _number(place) for n, place in enumerate(_DIGITAL)} | {
    f"A{n}": _number(f"{'FK'[n // 8]}{n % 8}") for n in range(16)
}
"""Number of a pin: 8 * port + bit, with the ports A to H and J to L in this order."""


def pwm(name: str, registers: bytes) -> Pwm | None:
    """Return the PWM signal that a timer makes at the pin ``name``, or ``None`` without PWM."""
    return pwm_of(_OUTPUTS, name, registers)


MEGA = replace(
    UNO,
    name="mega2560",
    title="Arduino Mega 2560",
    phrase="a Mega 2560",
    mcu="ATmega2560",
    types=CTypes(int_bytes=2, pointer_bytes=2, double_bytes=4),
    memory=Memory(
        flash=256 * 1024,
        ram=8192,
        boot_loader=8192,
        least_stack=64,
        ram_begins=0x800200,
    ),
    compiler=replace(
        UNO.compiler,
        machine=("-mmcu=atmega2560", "-DF_CPU=16000000L"),
        defines=("-DARDUINO=10819", "-DARDUINO_AVR_MEGA2560", "-DARDUINO_ARCH_AVR"),
        core=replace(CORE, variant="mega"),
    ),
    line=Line(
        baud=500_000,
        most_baud=1_000_000,
        samples=8,
        most=4096,
        taking=270,
        handling=(1640, 12, 38),  # counted on the emulator, as in docs/decisions/114
    ),
    flasher=Flasher(
        program="avrdude",
        arguments=(
            "-p", "atmega2560", "-c", "wiring", "-P", "{port}", "-b", "{baud}", "-D",
            "-U", "flash:w:{image}:i",
        ),
        install="sudo apt install avrdude   (macOS: brew install avrdude; Windows: winget install "
        "avrdude)",
    ),
    usb=((0x2341, 0x0010), (0x2341, 0x0042), (0x2A03, 0x0042)),
    pins=BoardPins(
        numbers=NUMBERS,
        count=8 * len(_PORTS),
        channels={f"A{n}": n for n in range(8)},  # the emulator has no channels 8 to 15
        volts=5.0,
        registers=Window(FIRST, 0x12E - FIRST),
        pwm=pwm,
    ),
    buses={
        "i2c": Bus(0, "i2c", ("D20", "D21")),
        "spi": Bus(1, "spi", ("D51", "D50", "D52")),
    },
    emulators={
        "avr8js": Emulator(lambda: [*node.command(), "atmega2560"], node.install, buses=True)
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
