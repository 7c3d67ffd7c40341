"""The command ``rtsim flash``: which image a board gets, and its upload."""

from __future__ import annotations

import shlex
import shutil
import subprocess
import sys
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import click

from hitl.boards.contract import BoardError
from hitl.boards.description import BoardDescription, Flasher
from hitl.boards.intel_hex import read_image
from hitl.boards.known import DEFAULT_BOARD, DEFAULT_URL
from hitl.boards.serial_port import SerialLink
from hitl.boards.urls import BoardUrl, parse_url
from hitl.cli.common import board_option, chosen
from hitl.cli.link_test import about_board, board_json
from hitl.interface import Interface, load_interface
from hitl.protocol.errors import SilentBoard
from hitl.protocol.line import BaudRate
from hitl.protocol.messages import HelloReply
from hitl.testing.link_trial import meet
from rtsim.cli.common import json_option, reports_errors, show_result
from rtsim.cli.interrupts import sigterm_interrupts
from rtsim.cli.progress import ProgressLine

# The image that a board runs: an Intel HEX file, or the firmware of an interface file.

firmware_option = click.option(
    "--firmware", type=click.Path(path_type=Path), metavar="FILE.hex",
    help="Intel HEX image that an emulated board runs.",
)  # fmt: skip
controller_option = click.option(
    "-c", "--controller", metavar="INTERFACE",
    help="Interface file of the controller on the board, such as pid.toml:single. An emulated "
    "board runs the firmware of this controller.",
)  # fmt: skip


@dataclass(frozen=True)
class BoardImage:
    """An Intel HEX file, and the interface, build and bit rate of its controller if known."""

    path: Path
    interface: Interface | None = None
    build: int | None = None
    baud: int | None = None


def image_of(
    reference: str, baud: int | None = None, board: BoardDescription = DEFAULT_BOARD
) -> BoardImage:
    """Return the image of a ``FILE.hex`` or of an interface file, building it if necessary.

    ``baud`` is the bit rate of the serial line, bit/s (``None``: the default rate of ``board``).
    """
    if reference.lower().endswith((".hex", ".ihex")):
        return BoardImage(Path(reference), baud=baud)
    from hitl.firmware import firmware

    found = firmware(load_interface(reference), baud=baud, board=board)
    return BoardImage(found.path, found.interface, found.build, found.baud)


def image_for(at: BoardUrl, file: Path | None, controller: str | None) -> BoardImage:
    """Return the image that the emulated board at ``at`` runs.

    ``file`` is an Intel HEX file, ``controller`` an interface file. If both are given, the board
    runs ``file``, which must contain ``controller``. Raises :class:`BoardError` if neither is
    given, or if the board is not emulated: a real board runs the firmware in its flash memory.
    """
    if not at.emulated:
        raise BoardError(f"{at.text} is not an emulated board; an emulated board is: {DEFAULT_URL}")
    if file is not None:
        interface = None if controller is None else load_interface(controller)
        return BoardImage(file, interface, baud=at.baud)
    if controller is None:
        raise BoardError(
            f"{at.text} has no firmware; give an image or a controller: "
            "--firmware FILE.hex   or   -c INTERFACE.toml"
        )
    return image_of(controller, at.baud, at.description)


_BOOT_BAUD = DEFAULT_BOARD.flasher.baud if DEFAULT_BOARD.flasher else None
_PATIENCE_S = 120.0
_LAST_LINES = 8


@click.command()
@click.argument("firmware", metavar="FIRMWARE.hex|INTERFACE.toml")
@click.option("--port", required=True, help="Serial port of the board: /dev/ttyACM0 or COM3.")
@click.option(
    "--baud", type=click.IntRange(min=300), default=None,
    help="Bit rate of the firmware's serial line, bit/s.  [default: the rate of the URL in --port, "
    f"or {DEFAULT_BOARD.line.baud}]",
)  # fmt: skip
@click.option(
    "--boot-baud", type=click.IntRange(300, 2_000_000), default=None,
    help="Bit rate of the boot loader, bit/s; older boot loaders need 57600.  "
    f"[default: {_BOOT_BAUD}]",
)  # fmt: skip
@click.option(
    "--no-verify",
    is_flag=True,
    help="Do not check after flashing that the board runs the new firmware.",
)
@click.option(
    "--dry-run", is_flag=True, help="Print the command line of the flasher; flash nothing."
)
@board_option
@json_option
@reports_errors
def flash(
    firmware: str, port: str, baud: int | None, boot_baud: int | None, no_verify: bool,
    dry_run: bool, board_name: str | None, as_json: bool,
) -> None:  # fmt: skip
    """Write firmware to the board at --port.

    FIRMWARE is an Intel HEX image or an interface file. For an interface file, the command builds
    the controller's firmware if necessary. After flashing, the command asks the board for its
    identity, and fails if the board does not run the new firmware. Exit status 0 if the board was
    flashed, 2 if not.

    \b
    Examples:
      rtsim flash motor.toml:float --port /dev/ttyACM0
      rtsim flash blink.hex --port COM3 --no-verify
    """
    place, of_port, board = _place(port, board_name)
    flasher = board.flasher
    if flasher is None:
        raise BoardError(
            f"rtsim cannot flash {board.phrase}: its description names no flasher; use the board's "
            "own tools, and then rtsim link-test"
        )
    if None not in (baud, of_port) and baud != of_port:
        raise BoardError(
            f"--baud {baud} contradicts the rate in --port {port}; leave out one of the two rates"
        )
    most = board.line.most_baud
    if baud is not None and baud > most:
        raise click.BadParameter(f"{baud} is not in the range 300<=x<={most}.", param_hint="--baud")
    rate = BaudRate.of(board, baud or of_port or board.line.baud)
    image = image_of(firmware, rate.baud, board)
    read_image(image.path, board.memory.room, board.memory.flash_begins)
    command = flasher.command(image.path, place, boot_baud or flasher.baud)
    if dry_run:
        _show(command, None, image, rate, as_json)
        return
    line = ProgressLine(firmware, enabled=sys.stderr.isatty() and not as_json)
    with sigterm_interrupts(), closing(line):
        line.say(f"writing {image.path.name} through {place} (some seconds) …")
        _write(command, place, board, flasher)
        line.say("asking the board for its identity …")
        found = None if no_verify else _asked(place, image, rate.baud)
    _show(command, found, image, rate, as_json)


def _place(port: str, board_name: str | None) -> tuple[str, int | None, BoardDescription]:
    """Return the port's name, the bit rate in its URL (``None`` if missing), and the board.

    The board is the one that ``--board`` names, else the one that the URL names.
    """
    if not port.startswith(("serial:", "board:")):
        return port, None, chosen(board_name)
    at = parse_url(port)
    if at.emulated:
        raise BoardError(
            f"{port} is an emulated board, which needs no flashing; give the port of a real board, "
            "for example: --port /dev/ttyACM0"
        )
    return at.place, at.baud, _board_at(at, board_name)


def _board_at(at: BoardUrl, board_name: str | None) -> BoardDescription:
    """Return the board; raises :class:`BoardError` if --board and the URL name different boards."""
    if board_name is None:
        return at.description
    board = chosen(board_name)
    if at.board not in (DEFAULT_BOARD.name, board.name):
        raise BoardError(
            f"--board {board.name} contradicts the board in --port {at.text}; leave out one of "
            "the two boards"
        )
    return board


def _write(command: list[str], port: str, board: BoardDescription, flasher: Flasher) -> None:
    found = shutil.which(command[0])
    if found is None:
        raise BoardError(
            f"flashing needs {flasher.program}, which is not installed; type: {flasher.install}"
        )
    try:
        done = subprocess.run(
            [found, *command[1:]], capture_output=True, text=True, errors="replace",
            timeout=_PATIENCE_S, stdin=subprocess.DEVNULL,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise BoardError(
            f"{flasher.program} did not end within {_PATIENCE_S:g} s; press the board's reset "
            "button and try again"
        ) from None
    except OSError as error:
        raise BoardError(f"cannot run {found}: {error.strerror}") from None
    if done.returncode:
        said = "\n".join((done.stderr + done.stdout).strip().splitlines()[-_LAST_LINES:])
        raise BoardError(
            f"{flasher.program} could not flash the board at {port} (exit status "
            f"{done.returncode}); check that the board is {board.phrase} and that no other program "
            "uses the port. "
            f"{flasher.program} printed:\n{said}"
        )


def _asked(port: str, image: BoardImage, baud: int) -> HelloReply:
    with closing(SerialLink(port, image.baud or baud)) as link:
        try:
            return meet(link, image.interface, image.build)[1]
        except SilentBoard as error:
            raise BoardError(
                f"the firmware was written, but the check of the board failed: {error} (use "
                "--no-verify for firmware that does not use rtsim's protocol)"
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
