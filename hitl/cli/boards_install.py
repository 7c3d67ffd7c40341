"""``rtsim board install``: fetch the emulator, once."""

from __future__ import annotations

import click

from hitl.boards import node


@click.command()
def install() -> None:
    """Fetch the emulator avr8js from npm into the user's cache folder, as the lock file pins it."""
    click.echo(f"avr8js is in {node.install()}")
    click.echo("board:uno runs on it.")
