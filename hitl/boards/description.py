"""Describe a board: all properties in which boards differ, as plain values.

A board needs a :class:`BoardDescription`, the C code in its folder ``hal``, and a command for each
emulator.  All other code is the same for every board.  :mod:`hitl.boards.known` finds a description
by its name.
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
"""Addresses at which avr-gcc's linker puts sections of other memories than flash and RAM.

Source: the linker scripts of GNU binutils for AVR, and the page on memory sections of avr-libc.
"""


@dataclass(frozen=True)
class Memory:
    """Sizes and addresses of flash and RAM, bytes, and their names in the linker's messages."""

    flash: int
    ram: int
    flash_begins: int = 0
    """First address of the flash in an Intel HEX file."""
    boot_loader: int = 0
    """Flash that the boot loader uses, bytes."""
    least_stack: int = 64
    """RAM that static data must leave free for the stack, bytes."""
    flash_sections: tuple[str, ...] = ("text", "data")
    """Sections of the program that take flash, without their leading dot."""
    ram_sections: tuple[str, ...] = ("data", "bss", "noinit")
    flash_region: str = "text"
    """Name of the flash in the linker's errors."""
    ram_region: str = "data"
    ram_begins: int = 0
    """First address of the RAM for the linker."""
    beside: Mapping[str, tuple[int, int]] = field(default_factory=AVR_MEMORIES.copy)
    """Other memories: the first address of each, and the first address after it.

    An image of the flash may leave out what a program has for them, with a warning; each other byte
    outside of the flash is an error."""

    @property
    def room(self) -> int:
        """Flash that is available for a program, bytes: all flash except the boot loader's."""
        return self.flash - self.boot_loader


@dataclass(frozen=True)
class ArduinoCore:
    """An installed Arduino core, which is compiled into each image."""

    folder: str
    variable: str
    """Environment variable that replaces :attr:`folder`."""
    variant: str

    @property
    def parts(self) -> tuple[str, str]:
        """Folders of the core and of the board's pins, below :attr:`folder`."""
        return "cores/arduino", f"variants/{self.variant}"


@dataclass(frozen=True)
class Compiler:
    """A compiler that takes gcc's options, and its flags.

    The compiler is installed on the system (``prefix``) or comes with a Python package
    (``package``).  ``{hal}`` in the flags ``link`` is replaced by the folder of the HAL's files.
    """

    prefix: str
    """Prefix of the names of the programs, such as ``avr-`` in avr-gcc and avr-objcopy."""
    install: str
    """Command that installs the compiler, for error messages."""
    machine: tuple[str, ...]
    """Flags that select the processor, for compiler and linker."""
    defines: tuple[str, ...] = ()
    flags: tuple[str, ...] = ("-Os", "-g", "-ffunction-sections", "-fdata-sections")
    c: tuple[str, ...] = ("-std=gnu11",)
    cpp: tuple[str, ...] = ("-std=gnu++11", "-fno-exceptions")
    link: tuple[str, ...] = ("-Wl,--gc-sections",)
    libraries: tuple[str, ...] = ("-lm",)
    """Linker flags after all objects."""
    hex: tuple[str, ...] = ("-O", "ihex")
    """Arguments of objcopy that make an Intel HEX file, in Makefiles."""
    core: ArduinoCore | None = None
    package: str = ""
    """Python package that contains the compiler, such as ``ziglang``; ``""`` for a system's."""
    headers: tuple[str, ...] = ()
    """Folders of C headers in the package, which the compiler does not find by itself."""

    def tool(self, name: str) -> str:
        """Return the board's program for ``name``, such as avr-gcc for gcc, as in a Makefile."""
        if self.package:
            return f"python3 -m {self.package} {_IN_A_PACKAGE[name]}"
        return self.prefix + name

    def command(self, name: str) -> tuple[str, ...]:
        """Return the program for ``name`` and its first arguments, to run it from this process."""
        if self.package:
            return sys.executable, "-m", self.package, _IN_A_PACKAGE[name]
        return (self.prefix + name,)


@dataclass(frozen=True)
class Flasher:
    """The program that writes an image to a board, and its arguments.

    ``{image}``, ``{port}`` and ``{baud}`` in the arguments are replaced.
    """

    program: str
    arguments: tuple[str, ...]
    install: str
    """Command that installs the program, for error messages."""
    baud: int = 115_200
    """Bit rate of the boot loader, bit/s."""

    def command(self, image: str | Path, port: str, baud: int | str) -> list[str]:
        """Return the command line that writes ``image`` through ``port``."""
        given = {"{image}": str(image), "{port}": port, "{baud}": str(baud)}
        words = []
        for word in self.arguments:
            for key, value in given.items():
                word = word.replace(key, value)
            words.append(word)
        return [self.program, *words]


@dataclass(frozen=True)
class Line:
    """The serial line: the rates that the board's UART can make, and the firmware's time per byte.

    A rate is ``clock / (samples * n)``.  The divider ``n`` has steps of ``1 / fractions``, and is
    at most ``most``.
    """

    baud: int = 500_000
    """Rate of rtsim's firmware if the user names none, bit/s."""
    most_baud: int = 1_000_000
    """Fastest rate at which the firmware can take bytes, bit/s."""
    samples: int = 16
    fractions: int = 1
    most: int = 65_536
    other_samples: Mapping[tuple[int, int], int] = field(default_factory=dict)
    """Exceptions from :attr:`samples`: the number of samples by clock, Hz, and rate, bit/s."""
    taking: int = 300
    """Cycles that the firmware needs to take one byte from its buffer."""
    handling: tuple[int, int, int] = (2000, 15, 40)
    """Cycles of the firmware for each exchange, for each byte of the request, for each reply byte.

    The cycles are counted from the request's last byte to the reply's first byte, without the step.
    """


@dataclass(frozen=True)
class Window:
    """Registers of an emulated board: the first address and the number of bytes."""

    address: int
    length: int


def _no_pwm(pin: str, registers: bytes) -> Pwm | None:  # noqa: ARG001
    return None


@dataclass(frozen=True)
class BoardPins:
    """The pins of a board, by the names that are printed on the board."""

    numbers: Mapping[str, int]
    """Number of each pin in the messages to and from the emulator."""
    channels: Mapping[str, int] = field(default_factory=dict)
    """ADC channel of each pin that has one."""
    count: int = 32
    """Upper limit of the pin numbers; each number is below ``count``, which is at most 256."""
    volts: float = 5.0
    """Supply voltage, V: a high level has this voltage, and the ADC measures up to this voltage."""
    registers: Window = Window(0, 0)
    """The registers from which ``pwm`` is computed."""
    pwm: Callable[[str, bytes], Pwm | None] = _no_pwm
    """Function that returns the PWM signal of a timer at a pin, from the registers."""

    @property
    def names(self) -> dict[int, str]:
        """Name of each pin by its number."""
        return {number: name for name, number in self.numbers.items()}


@dataclass(frozen=True)
class Bus:
    """A bus of a board: I2C or SPI."""

    number: int
    """Number of the bus in the messages to and from the emulator, from 0 to 15."""
    kind: str
    """``"i2c"`` or ``"spi"``."""
    pins: tuple[str, ...] = ()
    """Its pins: SDA and SCL, or MOSI, MISO and SCK."""


@dataclass(frozen=True)
class Uart:
    """The functions that read the serial line's rate from the registers of an emulated board."""

    registers: Window
    on: Callable[[bytes], bool]
    """Function that returns True once the firmware has switched the serial line on."""
    rate: Callable[[bytes, int], float]
    """Function that returns the rate, bit/s, from the registers and the clock, Hz."""


@dataclass(frozen=True)
class IoNode:
    """The firmware that makes a board the I/O node of a rig, and what its pins can do.

    The firmware's pins are D2 to D13 and A0 to A5, by the names that are printed on the board.
    """

    interface: Path
    """Interface file of the firmware."""
    pwm: tuple[str, ...]
    """Pins with PWM."""
    stamped: tuple[str, ...]
    """Pins whose edges get time stamps."""
    no_pwm: Mapping[str, str] = field(default_factory=dict)
    """Why a pin that has a timer cannot make PWM."""


@dataclass(frozen=True)
class Emulator:
    """A program that emulates the board and speaks the messages of :mod:`hitl.boards.wire`."""

    command: Callable[[], list[str | Path]]
    """Function that returns the command to start the emulator.

    The function raises :class:`BoardError` if the emulator is not installed.
    """
    install: Callable[[], Path] | None = None
    """Function that downloads the emulator and returns its folder.

    ``None`` if ``rtsim board install`` cannot download the emulator.
    """
    buses: bool = False
    """True if the emulator reports the operations on the board's buses."""
    warms_up: bool = False
    """True if the emulator is slow at first, such as one whose code is compiled while it runs.

    A paced run then executes some steps before it begins, and resets the board."""


@dataclass(frozen=True)
class BoardDescription:
    """Description of one board.  ``hitl.testing.boards.check_board`` checks a description."""

    name: str
    """Name in URLs and options: lower-case letters, digits, - and _."""
    title: str
    """Name in headings and help texts."""
    phrase: str
    """Name with its article, for use inside a sentence, such as ``a Mega``."""
    mcu: str
    processor: str
    """Family of the processor, which is also the name of a target of ``rtsim sil check``."""
    clock_hz: int
    types: CTypes
    memory: Memory
    compiler: Compiler
    hal: Path
    """Folder of the C and C++ files for this board."""
    main: str
    """File in ``hal`` that defines ``setup`` and ``loop``, or ``main``."""
    line: Line = Line()
    flasher: Flasher | None = None
    usb: tuple[tuple[int, int], ...] = ()
    """Vendor and product ids of the board's USB port, by which error messages name its port."""
    vectors: int = 0
    """Interrupt vectors at the begin of the flash, each a JMP of an AVR; 0 if this is unknown.

    An image with the number of another board is refused."""
    pins: BoardPins | None = None
    uart: Uart | None = None
    buses: Mapping[str, Bus] = field(default_factory=dict)
    """I2C and SPI buses by name, such as ``i2c``."""
    emulators: Mapping[str, Emulator] = field(default_factory=dict)
    """Emulators by name; the first one is used if the URL names none."""
    times: str = ""
    """What the times of the emulated board are worth, one sentence; "" without a remark."""
    io_node: IoNode | None = None
    """The firmware of the I/O node of rigs on this board; ``None`` if the board cannot be one."""

    @property
    def target(self) -> Target:
        """The processor as a target, with the types that its compiler lacks, and the pins."""
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
        """All files of the HAL folder, in the order of their names."""
        return tuple(sorted(path for path in self.hal.iterdir() if path.is_file()))

    def emulator(self, name: str) -> Emulator:
        """Return the emulator ``name``; raises :class:`BoardError` for an unknown name."""
        if name not in self.emulators:
            known = ", ".join(self.emulators) or "none"
            raise BoardError(f"{self.phrase} has no emulator {name!r}; known: {known}")
        return self.emulators[name]

    def require_pins(self) -> BoardPins:
        """Return the pins.  Raises :class:`BoardError` if the description names none."""
        if self.pins is None:
            raise BoardError(f"the description of {self.phrase} has no pins; add pins=BoardPins()")
        return self.pins

    def bus(self, name: str) -> Bus:
        """Return the bus called ``name``.  Raises :class:`BoardError` for an unknown name."""
        if name not in self.buses:
            known = ", ".join(self.buses) or "none"
            raise BoardError(f"{self.phrase} has no bus {name!r}; known: {known}")
        return self.buses[name]

    def pin(self, name: str) -> int:
        """Return the number of the pin ``name``.  Raises :class:`BoardError` for an unknown pin."""
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
    """Return the pins ``names`` as ranges in text: ``D0 to D13 and A0 to A5``."""
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
