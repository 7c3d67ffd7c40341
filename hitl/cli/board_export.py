"""The command ``rtsim board export``: write a controller as a sketch for Arduino's own tools."""

from __future__ import annotations

from pathlib import Path

import click

from hitl.boards.known import DEFAULT_BOARD
from hitl.cli.common import board_option, chosen
from hitl.firmware.exporting import exported
from hitl.interface import load_interface
from rtsim.cli.common import json_option, reports_errors, show_result


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
