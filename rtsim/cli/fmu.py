"""``rtsim fmu`` and ``rtsim export-c``: models for other tools."""

from __future__ import annotations

import click

from rtsim.cli.fmu_files import check, info, run


@click.group()
def fmu() -> None:
    """Exchange models with other tools as FMUs (FMI 2.0 and 3.0)."""


for _command in (info, check, run):
    fmu.add_command(_command)
