"""The command ``rtsim board install``: download the emulator avr8js."""

from __future__ import annotations

import click

from hitl.boards import node


@click.command()
def install() -> None:
    """Download the emulator of the Arduino Uno.

    The command installs avr8js from npm into the user's cache folder, in the version of rtsim's
    lock file. Boards board:uno then run on this emulator.

    \b
    Example:
      rtsim board install
    """
    click.echo(f"avr8js is in {node.install()}")
    click.echo("board:uno runs on it.")
