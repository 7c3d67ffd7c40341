"""The command ``rtsim flash``: write firmware to a board with avrdude, and check the board."""

from __future__ import annotations

import shlex
import shutil
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import click

from hitl.boards.contract import BoardError
from hitl.boards.intel_hex import read_image
from hitl.boards.serial_port import SerialLink
from hitl.boards.urls import BAUD, parse_url
from hitl.cli.images import BoardImage, image_of
from hitl.cli.link_words import about_board, board_json
from hitl.protocol.errors import SilentBoard
from hitl.protocol.line import MOST_BAUD, BaudRate
from hitl.protocol.messages import HelloReply
from hitl.testing.link_trial import meet
from rtsim.cli.common import json_option, reports_errors, show_result
from rtsim.cli.interrupts import sigterm_interrupts
from rtsim.cli.progress import ProgressLine

BOOT_BAUD = 115_200
ROOM = 32 * 1024 - 512
"""Bytes of flash of an Uno that the boot loader does not use."""
_PATIENCE_S = 120.0
_LAST_LINES = 8
_GET_AVRDUDE = (
    "sudo apt install avrdude   (macOS: brew install avrdude; Windows: winget install avrdude)"
)


@click.command()
@click.argument("firmware", metavar="FIRMWARE.hex|INTERFACE.toml")
@click.option("--port", required=True, help="Serial port of the board: /dev/ttyACM0 or COM3.")
@click.option(
    "--baud", type=click.IntRange(300, MOST_BAUD), default=None,
    help="Bit rate of the firmware's serial line, bit/s.  [default: the rate of the URL in --port, "
    f"or {BAUD}]",
)  # fmt: skip
@click.option(
    "--boot-baud", type=click.IntRange(300, 2_000_000), default=BOOT_BAUD, show_default=True,
    help="Bit rate of the boot loader, bit/s; older boot loaders need 57600.",
)  # fmt: skip
@click.option("--no-verify", is_flag=True, help="Do not ask the board for its identity.")
@click.option("--dry-run", is_flag=True, help="Only print the command line of avrdude.")
@json_option
@reports_errors
def flash(
    firmware: str, port: str, baud: int | None, boot_baud: int, no_verify: bool, dry_run: bool,
    as_json: bool,
) -> None:  # fmt: skip
    """Write firmware to the Arduino Uno at --port.

    FIRMWARE.hex is an image. For an interface file, the command takes the firmware of its
    controller and builds it if necessary. It then asks the board for its identity, and fails if
    the board does not carry the new firmware. Exit status 0 if the board was flashed, 2 if not.

    \b
    Examples:
      rtsim flash motor.toml:float --port /dev/ttyACM0
      rtsim flash blink.hex --port COM3 --no-verify
    """
    place, of_port = _place(port)
    if None not in (baud, of_port) and baud != of_port:
        raise BoardError(f"--baud {baud} contradicts --port {port}; leave one of the two rates out")
    rate = BaudRate(baud or of_port or BAUD)
    image = image_of(firmware, rate.baud)
    read_image(image.path, ROOM)
    command = command_line(image.path, place, boot_baud)
    if dry_run:
        _show(command, None, image, rate, as_json)
        return
    line = ProgressLine(firmware, enabled=sys.stderr.isatty() and not as_json)
    with sigterm_interrupts(), closing(line):
        line.say(f"writing {image.path.name} through {place} (some seconds) …")
        _write(command, place)
        line.say("asking the board for its identity …")
        board = None if no_verify else _asked(place, image, rate.baud)
    _show(command, board, image, rate, as_json)


def _place(port: str) -> tuple[str, int | None]:
    """The port's name, and the bit rate that its URL gives (``None``: it gives none)."""
    if not port.startswith(("serial:", "board:")):
        return port, None
    at = parse_url(port)
    if at.emulated:
        raise BoardError(
            f"{port} is an emulated board, which needs no flashing; give the port of a real board, "
            "for example: --port /dev/ttyACM0"
        )
    return at.place, at.baud


def command_line(image: Path, port: str, boot_baud: int) -> list[str]:
    """The avrdude command that writes ``image`` through an Uno's boot loader (avrdude's manual)."""
    return [
        "avrdude", "-p", "atmega328p", "-c", "arduino", "-P", port, "-b", str(boot_baud),
        "-D", "-U", f"flash:w:{image}:i",
    ]  # fmt: skip


def _write(command: list[str], port: str) -> None:
    found = shutil.which(command[0])
    if found is None:
        raise BoardError(f"flashing needs avrdude, which is not installed; type: {_GET_AVRDUDE}")
    try:
        done = subprocess.run(
            [found, *command[1:]], capture_output=True, text=True, errors="replace",
            timeout=_PATIENCE_S, stdin=subprocess.DEVNULL,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise BoardError(
            f"avrdude did not end within {_PATIENCE_S:g} s; press the board's reset button and try "
            "again"
        ) from None
    except OSError as error:
        raise BoardError(f"cannot run {found}: {error.strerror}") from None
    if done.returncode:
        said = "\n".join((done.stderr + done.stdout).strip().splitlines()[-_LAST_LINES:])
        raise BoardError(
            f"avrdude could not flash the board at {port} (exit status {done.returncode}); check "
            "that the board is an Uno and that no other program uses the port. avrdude printed:\n"
            f"{said}"
        )


def _asked(port: str, image: BoardImage, baud: int) -> HelloReply:
    with closing(SerialLink(port, image.baud or baud)) as link:
        try:
            return meet(link, image.interface, image.build)[1]
        except SilentBoard as error:
            raise BoardError(
                f"the firmware was written, but {error} (use --no-verify for firmware that does "
                "not use rtsim's protocol)"
            ) from None


def _show(
    command: list[str], board: HelloReply | None, image: BoardImage, rate: BaudRate, as_json: bool
) -> None:
    if as_json:
        told = None if board is None else board_json(board)
        line = {"rate": rate.baud, "error_percent": rate.error_percent, "good": rate.good}
        show_result({"command": command, "image": str(image.path), "baud": line, "board": told})
        return
    click.echo(shlex.join(command))
    click.echo(f"line        {rate}")
    if board is not None:
        for text in about_board(board, image.interface):
            click.echo(text)
