"""Which image a board runs: a file, or the firmware of an interface file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import click

from hitl.boards.contract import BoardError
from hitl.boards.urls import BAUD, BoardUrl
from hitl.interface import Interface, load_interface

firmware_option = click.option(
    "--firmware", type=click.Path(path_type=Path), metavar="FILE.hex",
    help="Image for an emulated board, Intel HEX.",
)  # fmt: skip
controller_option = click.option(
    "-c", "--controller", metavar="INTERFACE",
    help="Interface file of its controller: pid.toml:single. An emulated board runs its firmware.",
)  # fmt: skip


@dataclass(frozen=True)
class BoardImage:
    """An Intel HEX file; of a controller, its interface and build, and the rate of its line."""

    path: Path
    interface: Interface | None = None
    build: int | None = None
    baud: int | None = None


def image_of(reference: str, baud: int | None = None) -> BoardImage:
    """``FILE.hex``, or an interface file, whose firmware is taken as it is shipped, or built."""
    if reference.lower().endswith((".hex", ".ihex")):
        return BoardImage(Path(reference), baud=baud)
    from hitl.firmware import firmware

    found = firmware(load_interface(reference), baud=baud or BAUD)
    return BoardImage(found.path, found.interface, found.build, found.baud)


def image_for(at: BoardUrl, file: Path | None, controller: str | None) -> BoardImage:
    """What the emulated board at ``at`` runs; both given: the controller is what is expected.

    Raises :class:`BoardError` where it is not emulated, and so runs what it was flashed with.
    """
    if not at.emulated:
        raise BoardError(f"{at.text} runs what it was flashed with; emulated is: board:uno")
    if file is not None:
        interface = None if controller is None else load_interface(controller)
        return BoardImage(file, interface, baud=at.baud)
    if controller is None:
        raise BoardError(
            f"{at.text} is an empty chip; name its image or its controller: "
            "--firmware FILE.hex   or   -c INTERFACE.toml"
        )
    return image_of(controller, at.baud)
