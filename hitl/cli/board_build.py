"""The commands ``rtsim board build`` and ``export``: firmware, and a sketch with its library."""

from __future__ import annotations

import shutil
from pathlib import Path

import click

from hitl.boards.known import DEFAULT_BOARD
from hitl.cli.common import board_option, chosen, refuse_warnings, warnings_option
from hitl.firmware import Firmware, firmware
from hitl.firmware.exporting import exported
from hitl.firmware.firmware import NOTICE
from hitl.firmware.sketch import sketch_of
from hitl.interface import load_interface
from hitl.protocol.line import BaudRate
from rtsim.cli.common import json_option, reports_errors, show_result


@click.command()
@click.argument("interface")
@click.option(
    "-o", "--output", "folder", type=click.Path(path_type=Path), metavar="FOLDER",
    help="Write the firmware's source code (a sketch for the Arduino IDE or make) and its image to "
    "FOLDER/NAME, where NAME is the controller's name.  [default: no sketch is written]",
)  # fmt: skip
@click.option(
    "--baud", type=int, default=None,
    help=f"Bit rate of the serial line, bit/s.  [default: {DEFAULT_BOARD.line.baud}]",
)  # fmt: skip
@board_option
@warnings_option
@json_option
@reports_errors
def build(
    interface: str, folder: Path | None, baud: int | None, board_name: str | None,
    strictness: str, as_json: bool,
) -> None:  # fmt: skip
    """Build the firmware of INTERFACE for a board.

    INTERFACE is FILE.toml or FILE.toml:VARIANT. If rtsim ships an image of this firmware, the
    command uses that image and compiles nothing. Exit status 0 if the firmware was made, 1 if the
    compiler warned and --warnings error was given, 2 if the firmware could not be made.

    \b
    Examples:
      rtsim board build motor.toml:float
      rtsim board build motor.toml:float -o sketches
    """
    board = chosen(board_name)
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


def _described(made: Firmware, place: Path | None) -> dict[str, object]:
    return {
        "name": made.interface.name,
        "board": made.board.name,
        "build": f"{made.build:08x}",
        "baud": made.baud,
        "flash_bytes": made.flash_bytes,
        "ram_bytes": made.ram_bytes,
        "compiler": made.compiler,
        "prebuilt": made.prebuilt,
        "warnings": made.warnings,
        "image": str(made.path),
        "sketch": str(place) if place else None,
    }


# The command ``rtsim board export``: write a controller as a sketch for Arduino's own tools.


@click.command()
@click.argument("interface")
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False))
@click.option(
    "--baud", type=int, default=None,
    help=f"Bit rate of the serial line, bit/s.  [default: {DEFAULT_BOARD.line.baud}]",
)  # fmt: skip
@click.option(
    "--force",
    is_flag=True,
    help="Replace edited files, and remove the others in the sketch's folder src.",
)
@board_option
@json_option
@reports_errors
def export(
    interface: str, folder: Path, baud: int | None, force: bool, board_name: str | None,
    as_json: bool,
) -> None:  # fmt: skip
    """Write the controller of INTERFACE as a sketch with the library rtsim to FOLDER/NAME.

    The Arduino IDE, arduino-cli and PlatformIO compile the sketch for any board with an Arduino
    core. The sketch contains the controller's sources and the library, and needs nothing else.
    --board gives the sizes of C types: a board with the same sizes must run the sketch. This
    command does not compile the sketch. It refuses to replace a file that was edited since the last
    export, unless --force is given. Exit status 0 if the sketch was written, 2 otherwise.

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
