"""The command ``rtsim board install``: download the emulator of a board."""

from __future__ import annotations

import click

from hitl.boards.contract import BoardError
from hitl.cli.common import board_option, chosen
from rtsim.cli.common import reports_errors


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
