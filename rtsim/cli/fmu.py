"""``rtsim fmu`` and ``rtsim export-c``: models for other tools."""

from __future__ import annotations

import click


@click.group()
def fmu() -> None:
    """Exchange models with other tools as FMUs (FMI 2.0 and 3.0)."""
