"""The image that a board runs: an Intel HEX file, or the firmware of an interface file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import click

from hitl.boards.contract import BoardError
from hitl.boards.description import BoardDescription
from hitl.boards.known import DEFAULT_BOARD, DEFAULT_URL
from hitl.boards.urls import BoardUrl
from hitl.interface import Interface, load_interface

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
