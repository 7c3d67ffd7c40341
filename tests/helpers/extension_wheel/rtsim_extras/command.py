"""A command of rtsim."""

from __future__ import annotations

import click


@click.command()
@click.argument("who", default="world")
def hello(who: str) -> None:
    """Greet WHO on one line."""
    click.echo(f"hello {who}")
