"""Check that a board obeys the rules for boards."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory

from hitl.boards.contract import BoardError, BoardLink
from hitl.boards.description import NAME, BoardDescription
from hitl.boards.emulated import EmulatedBoard
from hitl.boards.intel_hex import read_image
from hitl.boards.known import BOARDS
from hitl.boards.wire import MOST_PINS
from hitl.building.toolchain import BuildError, CannotBuild, Toolchain
from hitl.firmware.compiling import NoTools
from hitl.firmware.firmware import Firmware, firmware
from hitl.firmware.sketch import sketch_of
from hitl.interface import load_interface
from hitl.protocol.line import BaudRate
from hitl.testing.link_trial import meet

CONTROLLER = "firmware/core/pid.toml:single"
_GIVEN = (
    "rtsim_clock_hz", "rtsim_micros", "rtsim_cycles", "rtsim_stack_used", "rtsim_stack_bytes",
)  # fmt: skip
_CALLED = ("rtsim_board_begin", "rtsim_board_feed")
_SIZES = """\
typedef char rtsim_int[sizeof(int) == {0.int_bytes} ? 1 : -1];
typedef char rtsim_pointer[sizeof(void *) == {0.pointer_bytes} ? 1 : -1];
typedef char rtsim_double[sizeof(double) == {0.double_bytes} ? 1 : -1];
"""


def check_board(board: BoardDescription, controller: str | Path = CONTROLLER) -> tuple[str, ...]:
    """Check the description, the C code, the compiler and the emulators of a board.

    The board must be registered. ``controller`` is the interface file of a small controller, which
    is built for the board. The emulated board must report the clock and the sizes in the
    description.

    Returns the checks that were impossible on this machine, with the reasons. Raises
    ``AssertionError`` with the violated rule. Raises the error of the build if the controller
    cannot be built.
    """
    assert BOARDS.get(board.name) is board, (
        f"board {board.name!r} is not registered; see docs/extending-boards.md"
    )
    _check_values(board)
    _check_line(board)
    _check_pins(board)
    _check_flasher(board)
    _check_c(board)
    _check_sketch(board, controller)
    unchecked = _check_types(board)
    try:
        made = firmware(controller, board=board)
    except NoTools as error:
        return (*unchecked, f"the build of {board.hal}: {error}")
    return (*unchecked, *_check_emulated(board, made))


def _check_values(board: BoardDescription) -> None:
    assert NAME.match(board.name), f"name {board.name!r} must match {NAME.pattern}"
    for name in ("title", "phrase", "mcu", "processor"):
        assert getattr(board, name).strip(), f"{name} must not be empty"
    assert board.clock_hz > 0, f"clock_hz = {board.clock_hz} must be positive"
    types, memory = board.types, board.memory
    assert types.int_bytes in (2, 4), f"int of {types.int_bytes} bytes; expected 2 or 4"
    assert types.pointer_bytes in (2, 4, 8), f"pointer of {types.pointer_bytes} bytes"
    assert types.double_bytes in (4, 8), f"double of {types.double_bytes} bytes; expected 4 or 8"
    assert 0 <= memory.boot_loader < memory.flash, "the boot loader must be smaller than the flash"
    assert 0 < memory.least_stack < memory.ram, "the least stack must be smaller than the RAM"
    assert board.compiler.machine, "compiler.machine must select the processor"
    for name, emulator in board.emulators.items():
        assert callable(emulator.command), f"the command of emulator {name} must be a function"
        assert board.uart is not None, f"an emulated board needs uart; {name} emulates {board.name}"


def _check_line(board: BoardDescription) -> None:
    line = board.line
    assert 0 < line.baud <= line.most_baud, (
        f"line.baud = {line.baud} must be from 1 to line.most_baud = {line.most_baud}"
    )
    rate = BaudRate.of(board, line.baud)
    assert rate.good, f"the default rate must be good, but {rate}"
    assert min(line.taking, *line.handling) >= 0, "the cycles of the line must not be negative"


def _check_pins(board: BoardDescription) -> None:
    pins = board.pins
    if pins is None:
        return
    numbers = list(pins.numbers.values())
    assert len(set(numbers)) == len(numbers), "two pins must not have the same number"
    assert pins.count <= MOST_PINS, f"pins.count = {pins.count} must be at most {MOST_PINS}"
    for name, number in pins.numbers.items():
        assert 0 <= number < pins.count, (
            f"pin {name} has the number {number}; expected 0 to {pins.count - 1}"
        )
    for name in pins.channels:
        assert name in pins.numbers, f"pin {name} has an ADC channel, but no number"
    assert pins.volts > 0, f"pins.volts = {pins.volts} must be positive"
    reset = bytes(pins.registers.length)
    for name in pins.numbers:
        pwm = pins.pwm(name, reset)
        assert pwm is None or 0 <= pwm.duty <= 1, f"the duty at {name} is {pwm}; expected 0 to 1"


def _check_flasher(board: BoardDescription) -> None:
    if board.flasher is None:
        return
    words = board.flasher.command("IMAGE", "PORT", board.flasher.baud)
    assert any("IMAGE" in word for word in words), "flasher.arguments must contain {image}"
    left = [word for word in words if re.search(r"\{(image|port|baud)\}", word)]
    assert not left, f"flasher.arguments: {left} was not replaced"


def _check_c(board: BoardDescription) -> None:
    assert board.hal.is_dir(), f"there is no folder {board.hal}"
    main = board.hal / board.main
    assert main.is_file(), f"there is no file {main}"
    assert main.suffix in (".ino", ".c", ".cpp"), f"{main} must be a .ino, .c or .cpp file"
    if main.suffix == ".ino":
        assert board.compiler.core is not None, f"{main} is a sketch, which needs compiler.core"
    text = "\n".join(path.read_text(encoding="utf-8") for path in board.hal_files)
    for name in (*_GIVEN, *_CALLED):
        assert re.search(rf"\b{name}\b", text), (
            f"no file in {board.hal} contains {name}, which firmware/src/rtsim/board.h declares"
        )


def _check_sketch(board: BoardDescription, controller: str | Path) -> None:
    interface = load_interface(controller)
    sketch = sketch_of(interface, board=board)
    for flag in board.compiler.machine:
        assert flag in sketch.files["Makefile"], f"the Makefile does not contain {flag}"
    for baud in (board.line.baud, min(9600, board.line.most_baud)):
        assert sketch_of(interface, baud, board).build == sketch.build, (
            "the build number must not depend on the baud rate"
        )


def _check_types(board: BoardDescription) -> tuple[str, ...]:
    gcc = Toolchain(board.compiler.command("gcc"), "")
    with TemporaryDirectory() as folder:
        source = Path(folder) / "sizes.c"
        source.write_text(_SIZES.format(board.types), encoding="utf-8")
        flags = (*board.compiler.machine, *board.compiler.c)
        try:
            gcc.run([*flags, "-c", source, "-o", f"{source}.o"], Path(folder))
        except CannotBuild as error:
            return (f"the sizes of C types: {error}",)
        except BuildError as error:
            wrong = re.findall(r"rtsim_(int|pointer|double)", str(error))
            if wrong:
                raise AssertionError(
                    f"the compiler's size of {', '.join(dict.fromkeys(wrong))} differs from "
                    f"the size in the board's description, {board.types}"
                ) from error
            raise
    return ()


def _check_emulated(board: BoardDescription, made: Firmware) -> tuple[str, ...]:
    unchecked = []
    image = read_image(made.path, board)
    for name, emulator in board.emulators.items():
        try:
            command = emulator.command()
        except BoardError as error:
            unchecked.append(f"the emulator {name}: {error}")
            continue
        with closing(EmulatedBoard(image, command, name, description=board)) as link:
            reply = meet(link, made.interface, made.build)[1]
            assert reply.clock_hz == board.clock_hz, (
                f"the firmware reports a clock of {reply.clock_hz} Hz, and the description "
                f"{board.clock_hz} Hz"
            )
            assert reply.double_bytes == board.types.double_bytes, (
                f"the firmware reports a double of {reply.double_bytes} bytes, and the "
                f"description {board.types.double_bytes}"
            )
            assert link.line_on, f"uart.on must be true after the firmware has answered ({name})"
            actual = BaudRate.of(board, made.baud).actual
            assert abs(link.baud / actual - 1) < 1e-3, (
                f"uart.rate is {link.baud:g} bit/s on {name}; the line makes {actual:g} bit/s"
            )
    if not board.emulators:
        unchecked.append(f"{board.phrase} at run time: the description names no emulator")
    return tuple(unchecked)


# Conformance test of :class:`hitl.boards.contract.BoardLink`.

_PATIENCE_S = 5.0
_CHUNKS = (b"\x00", b"\x11\x13", b"\xff\xfe\n\r\x1a\x03\x04\x7f\x80", bytes(range(256)))
"""Test bytes, including bytes that terminals drop or translate, such as line ends."""


def check_link(make: Callable[[], BoardLink], patience: float = _PATIENCE_S) -> None:
    """Check that the link which ``make()`` returns obeys the rules for links.

    The other end of the link must return each byte. ``patience`` is the longest time (s) to wait
    for a byte. Raises :class:`AssertionError` with the violated rule.
    """
    link = make()
    try:
        _check_that_nothing_arrives(link)
        for chunk in _CHUNKS:
            _echoed(link, chunk, patience)
        _check_order_of_parts(link, patience)
        _check_that_nothing_arrives(link)
    finally:
        link.close()
    _closed(link)


def _check_that_nothing_arrives(link: BoardLink) -> None:
    assert link.wait(0.0) is False, "wait(0) must return False at once while no byte has arrived"
    assert link.receive() == b"", "receive() must return b'' while no byte has arrived"


def _echoed(link: BoardLink, sent: bytes, patience: float) -> None:
    link.send(sent)
    got = _collect(link, len(sent), patience)
    assert got == sent, (
        f"every byte must arrive, unchanged and in order; sent {sent!r}, got {got!r}"
    )


def _check_order_of_parts(link: BoardLink, patience: float) -> None:
    parts = [bytes([k, 255 - k]) for k in range(20)]
    for part in parts:
        link.send(part)
        link.send(b"")
    got = _collect(link, 2 * len(parts), patience)
    assert got == b"".join(parts), (
        f"parts must arrive in the order in which they were sent; got {got!r}"
    )


def _collect(link: BoardLink, count: int, patience: float) -> bytes:
    got = b""
    while len(got) < count:
        assert link.wait(patience), (
            f"wait() ended after {patience:g} s without a byte; {len(got)} of {count} had arrived"
        )
        assert link.wait(0.0), "wait() must return True until the arrived bytes were taken"
        part = link.receive()
        assert isinstance(part, bytes), f"receive() must return bytes, not {type(part).__name__}"
        assert part, "after wait() returned True, receive() must return at least one byte"
        got += part
    return got


def _closed(link: BoardLink) -> None:
    link.close()  # a second call must have no effect
    calls: list[Callable[[], object]] = [
        lambda: link.send(b"x"),
        link.receive,
        lambda: link.wait(0.0),
    ]
    for call in calls:
        try:
            call()
        except BoardError:
            continue
        raise AssertionError("after close(), send, receive and wait must raise BoardError")
