"""``rtsim board build``: the sketch of a controller, and its image."""

from __future__ import annotations

import shutil
from pathlib import Path

import click

from hitl.cli.common import refuse_warnings, warnings_option
from hitl.firmware import Firmware, firmware
from hitl.firmware.compiling import RAM
from hitl.firmware.sketch import sketch_of
from hitl.interface import load_interface
from hitl.protocol.line import BaudRate
from rtsim.cli.common import json_option, reports_errors, show_json


@click.command()
@click.argument("interface")
@click.option(
    "-o", "--output", "folder", type=click.Path(path_type=Path), metavar="FOLDER",
    help="Write the sketch to FOLDER/NAME, its image beside it: for Arduino IDE, or make.",
)  # fmt: skip
@click.option("--baud", default=500_000, show_default=True, help="Of the serial line.")
@warnings_option
@json_option
@reports_errors
def build(interface: str, folder: Path | None, baud: int, strictness: str, as_json: bool) -> None:
    """Build the firmware of INTERFACE for an Uno, or take the image that ships with rtsim."""
    rate = BaudRate(baud)
    loaded = load_interface(interface)
    place = sketch_of(loaded, baud).write(folder) if folder else None
    made = firmware(loaded, baud=baud)
    refuse_warnings({loaded.name: made.warnings}, strictness, as_json)
    if place:
        shutil.copyfile(made.path, place / f"{loaded.name}.hex")
    if as_json:
        show_json(_described(made, place))
        return
    click.echo(made.warnings, nl=False, err=True)
    origin = "ships with rtsim" if made.prebuilt else "built"
    click.echo(f"{loaded.name}: build {made.build:08x}, {origin}, {made.compiler}")
    left = f"{RAM - made.ram_bytes} are left for the stack"
    click.echo(f"{made.flash_bytes} bytes of flash, {made.ram_bytes} of RAM; {left}")
    click.echo(str(rate))
    click.echo(f"image: {place / f'{loaded.name}.hex' if place else made.path}")
    if place:
        click.echo(f"sketch: {place}")


def _described(made: Firmware, place: Path | None) -> dict[str, object]:
    return {
        "name": made.interface.name,
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
