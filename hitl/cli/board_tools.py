"""The commands of ``rtsim board`` that need no board."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

import click

from hitl.boards.contract import BoardError
from hitl.boards.description import BoardDescription, ranges
from hitl.boards.known import BOARDS, DEFAULT_URL, board_named
from hitl.cli.common import (
    baud_option,
    board_option,
    chosen,
    names_a_board,
    refuse_warnings,
    warnings_option,
)
from hitl.firmware import Firmware, firmware
from hitl.firmware.arduino_sketch import image_of_sketch
from hitl.firmware.compiling import NoTools, Tools
from hitl.firmware.exporting import exported
from hitl.firmware.firmware import NOTICE
from hitl.firmware.sketch import sketch_of
from hitl.interface import load_interface
from hitl.interface.file import is_sketch
from hitl.protocol.line import BaudRate, offered
from rtsim.cli.common import json_option, reports_errors, show_result
from rtsim.cli.terminal import Column, console, print_table

if TYPE_CHECKING:
    from hitl.comparison.on_boards import OfBoards, OnOneBoard

READY = "ready"


@click.command("list")
@json_option
@reports_errors
def list_boards(as_json: bool) -> None:
    """List all boards: processor, clock, memory, emulators.

    \b
    Example:
      rtsim board list
    """
    boards = [board_named(name) for name in BOARDS]
    if as_json:
        show_result({"boards": [_facts(board) for board in boards]})
        return
    columns = [Column("board"), Column("title", drop=2), Column("processor"), Column("clock")]
    columns += [Column("flash, RAM", drop=1), Column("double"), Column("emulators")]
    rows = [
        (
            board.name, board.title, board.mcu, f"{board.clock_hz / 1e6:g} MHz",
            f"{board.memory.flash >> 10} KB, {board.memory.ram / 1024:g} KB",
            f"{board.types.double_bytes} bytes", ", ".join(board.emulators) or "none",
        )
        for board in boards
    ]  # fmt: skip
    print_table(console(), "boards", columns, rows)


@click.command()
@click.argument("name")
@json_option
@reports_errors
def info(name: str, as_json: bool) -> None:
    """Print the description of a board, and which of its tools are missing.

    \b
    Example:
      rtsim board info pico
    """
    board = board_named(name)
    facts, states = _facts(board), _states(board)
    if as_json:
        show_result({**facts, "tools": states})
        return
    rates = ", ".join(map(str, offered(board.clock_hz, board.line)))
    types = board.types
    rows = {
        "title": board.title,
        "processor": f"{board.mcu} ({board.processor}), {board.clock_hz / 1e6:g} MHz",
        "flash, RAM": f"{board.memory.flash} bytes, {board.memory.ram} bytes",
        "C types": f"int {types.int_bytes}, pointer {types.pointer_bytes}, "
        f"double {types.double_bytes} bytes",
        "line": f"{board.line.baud} baud, at most {board.line.most_baud}; common rates: {rates}",
        "pins": ranges(board.pins.numbers) if board.pins else "none described",
        "buses": ", ".join(f"{name} ({', '.join(b.pins)})" for name, b in board.buses.items())
        or "none described",
        **states,
        "times": board.times or "no remark",
        "flash with": board.flasher.program if board.flasher else "no program is described",
        "files": str(board.hal),
    }
    width = max(map(len, rows))
    for title, text in rows.items():
        click.echo(f"{title:{width}}  {text}")


def _facts(board: BoardDescription) -> dict[str, object]:
    return {
        "name": board.name,
        "title": board.title,
        "mcu": board.mcu,
        "processor": board.processor,
        "clock_hz": board.clock_hz,
        "flash_bytes": board.memory.flash,
        "ram_bytes": board.memory.ram,
        "double_bytes": board.types.double_bytes,
        "baud": board.line.baud,
        "emulators": list(board.emulators),
        "buses": list(board.buses),
    }


def _states(board: BoardDescription) -> dict[str, str]:
    out = {}
    try:
        out["compiler"] = f"{READY}: {Tools('a controller', board).gcc.version}"
    except NoTools as error:
        out["compiler"] = str(error)
    for name, emulator in board.emulators.items():
        try:
            emulator.command()
            out[name] = READY
        except BoardError as error:
            out[name] = str(error)
    return out


# The command ``rtsim board install``, which downloads the emulator of a board.


@click.command()
@board_option
@reports_errors
def install(board_name: str | None) -> None:
    """Download the emulator of a board.

    The command installs the emulator of a board into the user's cache folder. The package of the
    board determines the version of the emulator. For the default board, the emulator is avr8js from
    npm.

    \b
    Example:
      rtsim board install
    """
    board = chosen(board_name)
    for name, emulator in board.emulators.items():
        if emulator.install is not None:
            click.echo(f"{name} is in {emulator.install()}")
            click.echo(f"{board.url} runs on it.")
            return
    names = ", ".join(board.emulators) or "none"
    raise BoardError(
        f"rtsim cannot download an emulator of {board.phrase} (its emulators: {names}); install "
        "one by the instructions of the board's package"
    )


# The command ``rtsim board build``, for an interface file or an Arduino sketch.


@click.command()
@click.argument("interface", metavar="INTERFACE|SKETCH.ino")
@click.option(
    "-o", "--output", "folder", type=click.Path(path_type=Path), metavar="FOLDER",
    help="Write the firmware's source code (a sketch for the Arduino IDE or make) and its image to "
    "FOLDER/NAME, where NAME is the controller's name. For SKETCH.ino, write only the image, to "
    "FOLDER/SKETCH.hex.  [default: write no source code]",
)  # fmt: skip
@baud_option
@board_option
@warnings_option
@json_option
@reports_errors
def build(
    interface: str, folder: Path | None, baud: int | None, board_name: str | None,
    strictness: str, as_json: bool,
) -> None:  # fmt: skip
    """Build firmware for a board from a controller or an Arduino sketch.

    INTERFACE is FILE.toml or FILE.toml:VARIANT. The firmware is for rtsim pitl: it communicates
    over the serial line and uses no pins. If rtsim contains an image of this firmware, nothing is
    compiled.

    SKETCH.ino is an Arduino sketch that uses the pins of its board. The image contains nothing of
    rtsim. The image of a sketch is for a device of a rig (rtsim hitl), or for a real board.

    Exit status: 0 if the firmware was built, 1 after a compiler warning with --warnings error, 2
    after an error.

    \b
    Examples:
      rtsim board build motor.toml:float
      rtsim board build motor.toml:float -o sketches
      rtsim board build thermostat.ino -o .
    """
    board = chosen(board_name)
    if is_sketch(Path(interface)):
        _build_sketch(Path(interface), folder, baud, board, strictness, as_json)
        return
    rate = BaudRate.of(board, board.line.baud if baud is None else baud)
    loaded = load_interface(interface)
    place = sketch_of(loaded, rate.baud, board).write(folder) if folder else None
    made = firmware(loaded, baud=rate.baud, board=board)
    refuse_warnings({loaded.name: made.warnings}, strictness, as_json)
    if place:
        shutil.copyfile(made.path, place / f"{loaded.name}.hex")
        if board.compiler.core is not None:
            shutil.copyfile(NOTICE, place / NOTICE.name)
    if as_json:
        show_result(_described(made, place))
        return
    click.echo(made.warnings, nl=False, err=True)
    origin = "ships with rtsim" if made.prebuilt else "built"
    click.echo(f"{loaded.name}: build {made.build:08x}, {origin}, {made.compiler}")
    left = f"{made.stack_bytes} bytes are left for the stack"
    click.echo(f"{made.flash_bytes} bytes of flash, {made.ram_bytes} bytes of RAM; {left}")
    click.echo(str(rate))
    click.echo(f"image: {place / f'{loaded.name}.hex' if place else made.path}")
    if place:
        click.echo(f"sketch: {place}")


def _build_sketch(
    path: Path, folder: Path | None, baud: int | None, board: BoardDescription, strictness: str,
    as_json: bool,
) -> None:  # fmt: skip
    if baud is not None:
        raise BoardError(
            f"--baud does not apply to {path.name}, which sets its own rate; remove it"
        )
    made = image_of_sketch(path, board)
    refuse_warnings({path.name: made.warnings}, strictness, as_json)
    image = made.path
    if folder is not None:
        image = folder / f"{path.stem}.hex"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(made.path, image)
        except OSError as error:
            raise BoardError(f"cannot write the image to {image}: {error.strerror}") from None
    if as_json:
        show_result({
            "name": path.stem,
            "board": board.name,
            "flash_bytes": made.flash_bytes,
            "ram_bytes": made.ram_bytes,
            "compiler": made.compiler,
            "warnings": made.warnings,
            "image": str(image),
        })  # fmt: skip
        return
    click.echo(made.warnings, nl=False, err=True)
    left = f"{board.memory.ram - made.ram_bytes} bytes are left for the stack"
    click.echo(f"{path.name} for {board.phrase}: {made.compiler}")
    click.echo(f"{made.flash_bytes} bytes of flash, {made.ram_bytes} bytes of RAM; {left}")
    click.echo(f"image: {image}")


def _described(made: Firmware, place: Path | None) -> dict[str, object]:
    return {
        "name": made.interface.name,
        "board": made.board.name,
        **made.to_json(),
        "warnings": made.warnings,
        "image": str(made.path),
        "sketch": str(place) if place else None,
    }


# The command ``rtsim board export``, which writes a controller as an Arduino sketch.


@click.command()
@click.argument("interface")
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False))
@baud_option
@click.option(
    "--force",
    is_flag=True,
    help="Overwrite edited files of the sketch, and delete all other files in its folder src.",
)
@board_option
@json_option
@reports_errors
def export(
    interface: str, folder: Path, baud: int | None, force: bool, board_name: str | None,
    as_json: bool,
) -> None:  # fmt: skip
    """Write the controller of INTERFACE as an Arduino sketch to FOLDER/NAME.

    The Arduino IDE, arduino-cli and PlatformIO can compile the sketch for any board with an Arduino
    core. The folder contains all necessary files. --board determines the sizes of the C types. The
    sketch needs a board with the same sizes. This command does not compile the sketch. If you have
    edited a file since the last export, the command writes nothing, except with --force. Exit
    status: 0 if the sketch was written, otherwise 2.

    \b
    Examples:
      rtsim board export motor.toml:float sketches
      rtsim board export motor.toml:float sketches --baud 115200
    """
    board = chosen(board_name)
    made = exported(load_interface(interface), baud, board)
    place = made.write(folder, force)
    if as_json:
        show_result({
            "name": made.name,
            "board": made.board.name,
            "build": f"{made.build:08x}",
            "baud": made.baud,
            "sketch": str(place),
            "files": sorted(made.files),
            "compiled": False,
        })  # fmt: skip
        return
    click.echo(f"sketch: {place}, {len(made.files)} files, {made.baud} baud")
    click.echo(
        f"not compiled; next: open {place / f'{made.name}.ino'} in the Arduino IDE, which compiles "
        "and uploads it"
    )


# The command ``rtsim board compare``, which runs one controller on all emulated boards.

COLUMNS = (
    Column("board"), Column("step, median", number=True), Column("step, max", number=True),
    Column("cycles, max", number=True, drop=2), Column("stack", number=True),
    Column("exchange, max", number=True), Column("line", drop=1), Column("bits of the host"),
)  # fmt: skip


@click.command()
@click.argument("interface")
@click.option(
    "--boards", "names", default=None, metavar="NAME,NAME,...",
    help="Boards to run on.  [default: all boards that have an emulator]",
)  # fmt: skip
@click.option(
    "--steps", type=click.IntRange(1, 100_000), default=100, show_default=True,
    help="Number of steps.",
)  # fmt: skip
@click.option("--seed", default=0, show_default=True, help="Seed of the random inputs.")
@json_option
@reports_errors
def compare(interface: str, names: str | None, steps: int, seed: int, as_json: bool) -> None:
    """Run a controller on several emulated boards with random inputs, and compare the boards.

    INTERFACE is FILE.toml or FILE.toml:VARIANT. The table shows the execution time of a step, the
    stack, and the time of an exchange over the serial line. The last column counts the steps in
    which the board and this computer had exactly equal outputs. The first difference of each board
    follows the table.

    Exit status: 0 if all outputs are equal, 1 if an output differs or a step fails, 2 if a board
    could not run the controller or no output ever changed.

    \b
    Example:
      rtsim board compare firmware/core/f16_control.toml:single
    """
    from hitl.comparison.on_boards import on_boards, random_inputs  # slow to load

    loaded = load_interface(interface)
    asked = names.split(",") if names is not None else _emulated()
    result = on_boards(loaded, asked, random_inputs(loaded, steps, seed))
    status = result.outcome.value
    if as_json:
        report = {
            "name": loaded.name,
            "boards": [_to_json(row) for row in result.rows],
            "not_exercised": [*result.idle],
        }
        show_result(report, status, result.why or None)
    else:
        _show(loaded.name, result, steps)
    sys.exit(status)


def _emulated() -> list[str]:
    return [name for name in BOARDS if board_named(name).emulators]


def _show(name: str, result: OfBoards, steps: int) -> None:
    out, ran = console(), [row for row in result.rows if row.steps]
    if ran:
        print_table(out, f"{name}, {steps} random inputs", COLUMNS, [_cells(row) for row in ran])
    lines = [f"{row.board.name}: {row.first.in_words}" for row in ran if row.first]
    lines += [*filter(None, [result.host.error, *result.stopped])]
    if ran:
        lines += [result.nothing] if result.nothing else [f"but {words}" for words in result.idle]
    for line in lines:
        out.print(line, soft_wrap=True, markup=False)


def _cells(row: OnOneBoard) -> tuple[str, ...]:
    per_us = row.board.clock_hz / 1e6
    return (
        row.board.name,
        f"{median(row.cycles) / per_us:.1f} us",
        f"{max(row.cycles) / per_us:.1f} us",
        str(max(row.cycles)),
        f"{row.stack} bytes",
        f"{max(row.exchange_ns) / 1e6:.3f} ms",
        f"{row.baud} baud",
        f"{row.equal} of {row.steps} steps",
    )


def _to_json(row: OnOneBoard) -> dict[str, object]:
    report: dict[str, object] = {
        "board": row.board.name,
        "steps": row.steps,
        "equal_steps": row.equal,
        "why": row.why,
        "first_difference": None if row.first is None else row.first._asdict(),
    }
    if row.image is not None and row.steps:
        per_ns = row.board.clock_hz / 1e9
        report |= {
            "emulator": row.emulator,
            "baud": row.baud,
            "step_ns": {
                "median": float(median(row.cycles)) / per_ns,
                "max": max(row.cycles) / per_ns,
            },
            "cycles_max": max(row.cycles),
            "stack_bytes": row.stack,
            "exchange_ns_max": max(row.exchange_ns),
            "flash_bytes": row.image.flash_bytes,
        }
    return report


# The command ``rtsim board clock``, which measures the times of Arduino code for SIL.


@click.command()
@click.argument("interface")
@click.option(
    "--board", "url", default=DEFAULT_URL, show_default=True, metavar="URL",
    help="URL of an emulated board.",
)  # fmt: skip
@json_option
@reports_errors
@names_a_board
def clock(interface: str, url: str, as_json: bool) -> None:
    """Measure the clock that Arduino code reads on an emulated board.

    The command prints a table for the interface file. With this table, millis() and micros() in SIL
    agree with the emulated board within some tens of microseconds. Small differences remain,
    because the measurement itself takes time. Exit status: 0 if the clock was measured, otherwise
    2.

    \b
    Examples:
      rtsim board clock regulator.toml
      rtsim board clock regulator.toml --board {url}
    """
    from hitl.controllers.board import measured_clock  # slow to load

    found = measured_clock(load_interface(interface), url)
    if as_json:
        show_result({
            "timer": found.timer,
            "setup_s": found.setup_us / 1e6,
            "first_step_s": found.first_step_us / 1e6,
            "board": url,
        })  # fmt: skip
        return
    click.echo(f"[arduino]  # measured on {url}")
    click.echo(f'timer = "{found.timer}"')
    click.echo(f"setup = {found.setup_us / 1e6:.6f}")
    click.echo(f"first_step = {found.first_step_us / 1e6:.6f}")
