"""Descriptions of boards.

A board consists of a ``BoardDescription``, a folder ``hal`` with C code, and the commands of its
emulators. No other code depends on the board. :mod:`hitl.boards.known` finds a description by its
name.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from hitl.boards.contract import BoardError, Pwm
from hitl.interface.targets import Pins, Target, processor

_IN_A_PACKAGE = {"gcc": "cc", "g++": "c++", "gcc-ar": "ar"}
NAME = re.compile(r"[a-z][a-z0-9_-]{0,30}\Z")


@dataclass(frozen=True)
class CTypes:
    """Sizes of C types, bytes."""

    int_bytes: int
    pointer_bytes: int
    double_bytes: int


AVR_MEMORIES = {
    "EEPROM": (0x81_0000, 0x82_0000),
    "fuses": (0x82_0000, 0x83_0000),
    "lock bits": (0x83_0000, 0x84_0000),
    "signature": (0x84_0000, 0x85_0000),
    "user signatures": (0x85_0000, 0x86_0000),
}
"""Addresses that avr-gcc's linker assigns to memories other than flash and RAM.

Source: the linker scripts of GNU binutils for AVR, and the page on memory sections of avr-libc.
"""


@dataclass(frozen=True)
class Memory:
    """Sizes and addresses of flash and RAM (bytes), and their names in the linker's messages."""

    flash: int
    ram: int
    flash_begins: int = 0
    """First address of the flash in an Intel HEX file."""
    boot_loader: int = 0
    """Flash that the boot loader occupies, bytes."""
    least_stack: int = 64
    """RAM that static data must leave free for the stack, bytes."""
    flash_sections: tuple[str, ...] = ("text", "data")
    """Sections of the program that occupy flash, without the leading dot."""
    ram_sections: tuple[str, ...] = ("data", "bss", "noinit")
    flash_region: str = "text"
    """Name of the flash in error messages of the linker."""
    ram_region: str = "data"
    ram_begins: int = 0
    """First address of the RAM for the linker."""
    beside: Mapping[str, tuple[int, int]] = field(default_factory=AVR_MEMORIES.copy)
    """Other memories, each with its first address and the first address after it.

    An image of the flash omits the contents of these memories, with a warning. Any other byte
    outside the flash is an error.
    """

    @property
    def room(self) -> int:
        """Bytes of flash for a program, without the boot loader."""
        return self.flash - self.boot_loader


@dataclass(frozen=True)
class ArduinoCore:
    """An installed Arduino core, which each image contains."""

    folder: str
    variable: str
    """Environment variable that overrides :attr:`folder`."""
    variant: str

    @property
    def parts(self) -> tuple[str, str]:
        """Folders of the core and of the pin definitions, relative to ``folder``."""
        return "cores/arduino", f"variants/{self.variant}"


@dataclass(frozen=True)
class Compiler:
    """A compiler with the options of gcc, and its flags.

    The compiler belongs to the system (``prefix``) or to a Python package (``package``). In the
    flags ``link``, ``{hal}`` stands for the folder with the board's C code.
    """

    prefix: str
    """Prefix of the program names, such as ``avr-`` in avr-gcc and avr-objcopy."""
    install: str
    """Command that installs the compiler, for error messages."""
    machine: tuple[str, ...]
    """Flags for compiler and linker that select the processor."""
    defines: tuple[str, ...] = ()
    flags: tuple[str, ...] = ("-Os", "-g", "-ffunction-sections", "-fdata-sections")
    c: tuple[str, ...] = ("-std=gnu11",)
    cpp: tuple[str, ...] = ("-std=gnu++11", "-fno-exceptions")
    link: tuple[str, ...] = ("-Wl,--gc-sections",)
    libraries: tuple[str, ...] = ("-lm",)
    """Linker flags that follow all objects."""
    hex: tuple[str, ...] = ("-O", "ihex")
    """Arguments of objcopy in Makefiles that create an Intel HEX file."""
    core: ArduinoCore | None = None
    package: str = ""
    """Python package that contains the compiler, such as ``ziglang``; ``""`` for a system compiler.
    """
    headers: tuple[str, ...] = ()
    """Folders of C headers in the package that the compiler does not search by default."""

    def tool(self, name: str) -> str:
        """Return the command for a tool in a Makefile, such as ``avr-gcc`` for ``gcc``."""
        if self.package:
            return f"python3 -m {self.package} {_IN_A_PACKAGE[name]}"
        return self.prefix + name

    def command(self, name: str) -> tuple[str, ...]:
        """Return the command that runs the program ``name`` from this process."""
        if self.package:
            return sys.executable, "-m", self.package, _IN_A_PACKAGE[name]
        return (self.prefix + name,)


@dataclass(frozen=True)
class Flasher:
    """The program that writes an image to a board, with its arguments.

    ``{image}``, ``{port}`` and ``{baud}`` in the arguments are replaced by their values.
    """

    program: str
    arguments: tuple[str, ...]
    install: str
    """Command that installs the program, for error messages."""
    baud: int = 115_200
    """Bit rate of the boot loader, bit/s."""

    def command(self, image: str | Path, port: str, baud: int | str) -> list[str]:
        """Return the command line that writes an image to the board at ``port``."""
        given = {"{image}": str(image), "{port}": port, "{baud}": str(baud)}
        words = []
        for word in self.arguments:
            for key, value in given.items():
                word = word.replace(key, value)
            words.append(word)
        return [self.program, *words]


@dataclass(frozen=True)
class Line:
    """The serial line of a board: possible bit rates, and the processor time per byte.

    A rate is ``clock / (samples * n)``. The divider ``n`` has steps of ``1 / fractions`` and the
    maximum ``most``.
    """

    baud: int = 500_000
    """Default bit rate of rtsim's firmware, bit/s."""
    most_baud: int = 1_000_000
    """Fastest rate at which the firmware can receive, bit/s."""
    samples: int = 16
    fractions: int = 1
    most: int = 65_536
    other_samples: Mapping[tuple[int, int], int] = field(default_factory=dict)
    """Exceptions from :attr:`samples`, by clock (Hz) and rate (bit/s)."""
    taking: int = 300
    """Cycles that the firmware needs to take one byte from its receive buffer."""
    handling: tuple[int, int, int] = (2000, 15, 40)
    """Cycles of the firmware for each exchange, for each request byte, and for each reply byte.

    The cycles are counted from the last byte of the request to the first byte of the reply, without
    the step.
    """


@dataclass(frozen=True)
class Window:
    """A range of registers of an emulated board."""

    address: int
    length: int


def _no_pwm(pin: str, registers: bytes) -> Pwm | None:  # noqa: ARG001
    return None


@dataclass(frozen=True)
class BoardPins:
    """The pins of a board, with the names that are printed on the board."""

    numbers: Mapping[str, int]
    """Number of each pin in the messages to and from the emulator."""
    channels: Mapping[str, int] = field(default_factory=dict)
    """ADC channel of each pin that has one."""
    count: int = 32
    """Number of possible pin numbers, at most 256; each number is less than ``count``."""
    volts: float = 5.0
    """Supply voltage (V), which is the voltage of a high level and the upper limit of the ADC."""
    registers: Window = Window(0, 0)
    """The registers from which ``pwm`` is computed."""
    pwm: Callable[[str, bytes], Pwm | None] = _no_pwm
    """Function that computes the PWM signal of a timer at a pin from the registers."""

    @property
    def names(self) -> dict[int, str]:
        """Name of each pin by its number."""
        return {number: name for name, number in self.numbers.items()}


@dataclass(frozen=True)
class Bus:
    """A bus of a board, I2C or SPI."""

    number: int
    """Number of the bus in the messages to and from the emulator, from 0 to 15."""
    kind: str
    """``"i2c"`` or ``"spi"``."""
    pins: tuple[str, ...] = ()
    """The pins of the bus: SDA and SCL, or MOSI, MISO and SCK."""


@dataclass(frozen=True)
class Uart:
    """Functions that read the bit rate from registers of an emulated board."""

    registers: Window
    on: Callable[[bytes], bool]
    """Function that returns True if the firmware has enabled the serial line."""
    rate: Callable[[bytes, int], float]
    """Function that computes the rate (bit/s) from the registers and the clock (Hz)."""


@dataclass(frozen=True)
class IoNode:
    """The firmware that makes a board the I/O node of a rig, and the functions of its pins.

    The pins are D2 to D13 and A0 to A5.
    """

    interface: Path
    """Interface file of the firmware."""
    pwm: tuple[str, ...]
    """Pins with PWM."""
    stamped: tuple[str, ...]
    """Pins whose edges are time-stamped."""
    no_pwm: Mapping[str, str] = field(default_factory=dict)
    """Reason why a pin with a timer cannot generate PWM, by pin."""


@dataclass(frozen=True)
class Emulator:
    """A program that emulates the board, and understands the messages of ``hitl.boards.wire``."""

    command: Callable[[], list[str | Path]]
    """Function that returns the command that starts the emulator.

    The function raises :class:`BoardError` if the emulator is not installed.
    """
    install: Callable[[], Path] | None = None
    """Function that downloads the emulator and returns its folder.

    ``None`` if ``rtsim board install`` cannot download the emulator.
    """
    buses: bool = False
    """True if the emulator reports the operations on the board's buses."""
    warms_up: bool = False
    """True if the emulator is slow at first, for example because its code is compiled while it
    runs.

    A paced run then first executes some steps and resets the board.
    """


@dataclass(frozen=True)
class BoardDescription:
    """All properties of one board. ``hitl.testing.boards.check_board`` checks a description."""

    name: str
    """Name in URLs and options, of lower-case letters, digits, - and _."""
    title: str
    """Name in headings and help texts."""
    phrase: str
    """Name with its article for use within a sentence, such as ``a Mega``."""
    mcu: str
    processor: str
    """Family of the processor, which is also a target name of ``rtsim sil check``."""
    clock_hz: int
    types: CTypes
    memory: Memory
    compiler: Compiler
    hal: Path
    """Folder of the C and C++ files for this board."""
    main: str
    """File in ``hal`` that defines ``setup`` and ``loop``, or ``main``."""
    shared: tuple[Path, ...] = ()
    """Files outside ``hal`` that this board shares with other boards, such as the start-up code."""
    line: Line = Line()
    flasher: Flasher | None = None
    usb: tuple[tuple[int, int], ...] = ()
    """Vendor and product ids of the board's USB port. Error messages use them to suggest a port."""
    vectors: int = 0
    """Number of interrupt vectors at the start of the flash, each a JMP of an AVR; 0 if unknown.

    An image with the number of another board is rejected.
    """
    pins: BoardPins | None = None
    uart: Uart | None = None
    buses: Mapping[str, Bus] = field(default_factory=dict)
    """I2C and SPI buses by name, such as ``i2c``."""
    emulators: Mapping[str, Emulator] = field(default_factory=dict)
    """Emulators by name. The first emulator is the default."""
    times: str = ""
    """One sentence about the accuracy of the emulated board's times, or ""."""
    io_node: IoNode | None = None
    """The firmware for an I/O node of rigs on this board, or ``None``."""

    @property
    def target(self) -> Target:
        """The processor of the board, with its pins and the sizes of C types."""
        bare = processor(self.processor, self.types.double_bytes)
        pins = Pins.of(self.pins.numbers, self.pins.channels) if self.pins else None
        return replace(bare, pins=pins, phrase=self.phrase)

    @property
    def titled(self) -> str:
        """The title with its article."""
        return f"{'an' if self.title[:1] in 'AEIOU' else 'a'} {self.title}"

    @property
    def url(self) -> str:
        """URL of the emulated board."""
        return f"board:{self.name}"

    @property
    def hal_files(self) -> tuple[Path, ...]:
        """All files with C code of the board: those of its folder, and the shared ones."""
        return (*sorted(path for path in self.hal.iterdir() if path.is_file()), *self.shared)

    def emulator(self, name: str) -> Emulator:
        """Return an emulator by name; raise ``BoardError`` for an unknown name."""
        if name not in self.emulators:
            known = ", ".join(self.emulators) or "none"
            raise BoardError(f"{self.phrase} has no emulator {name!r}; known: {known}")
        return self.emulators[name]

    def require_pins(self) -> BoardPins:
        """Return the pins; raise ``BoardError`` if the description contains none."""
        if self.pins is None:
            raise BoardError(f"the description of {self.phrase} has no pins; add pins=BoardPins()")
        return self.pins

    def bus(self, name: str) -> Bus:
        """Return a bus by name; raise ``BoardError`` for an unknown name."""
        if name not in self.buses:
            known = ", ".join(self.buses) or "none"
            raise BoardError(f"{self.phrase} has no bus {name!r}; known: {known}")
        return self.buses[name]

    def pin(self, name: str) -> int:
        """Return the number of a pin; raise ``BoardError`` for an unknown name."""
        numbers = self.require_pins().numbers
        if name not in numbers:
            raise BoardError(f"{self.phrase} has no pin {name!r}; it has {ranges(numbers)}")
        return numbers[name]

    def channel(self, name: str) -> int:
        """Return the ADC channel of the pin ``name``.

        Raises :class:`BoardError` if the pin has no ADC channel.
        """
        channels = self.require_pins().channels
        if name not in channels:
            raise BoardError(
                f"pin {name!r} of {self.phrase} has no ADC channel; {ranges(channels)} have one"
            )
        return channels[name]


def ranges(names: Iterable[str]) -> str:
    """Return names of pins with ranges, such as ``D0 to D13 and A0 to A5``."""
    parts: list[tuple[str, str]] = []
    for name in names:
        if parts and _follows(parts[-1][1], name):
            parts[-1] = parts[-1][0], name
        else:
            parts.append((name, name))
    texts = [first if first == last else f"{first} to {last}" for first, last in parts]
    return " and ".join(filter(None, (", ".join(texts[:-1]), *texts[-1:]))) or "none"


def _follows(before: str, name: str) -> bool:
    pattern = re.compile(r"([^\d]*)(\d+)\Z")
    one, other = pattern.match(before), pattern.match(name)
    return bool(one and other and one[1] == other[1] and int(one[2]) + 1 == int(other[2]))
