"""The commands ``rtsim board list``, ``info`` and ``install``."""

from __future__ import annotations

import click

from hitl.boards.contract import BoardError
from hitl.boards.description import BoardDescription, ranges
from hitl.boards.known import BOARDS, board_named
from hitl.cli.common import board_option, chosen
from hitl.firmware.compiling import NoTools, Tools
from hitl.protocol.line import offered
from rtsim.cli.common import json_option, reports_errors, show_result
from rtsim.cli.terminal import Column, console, print_table

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
    """Print the description of the board NAME, and which of its tools are missing here.

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
    """Return the compiler and the emulators, each with "ready" or what is missing."""
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


# The command ``rtsim board install``: download the emulator of a board.


@click.command()
@board_option
@reports_errors
def install(board_name: str | None) -> None:
    """Download the emulator of a board.

    The command installs the emulator into the user's cache folder, in the version that the board's
    package names. For the default board it installs avr8js from npm, in the version of rtsim's
    lock file. The emulated board then runs on this emulator.

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
