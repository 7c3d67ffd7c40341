"""``rtsim scenarios``: list the scenarios that can be run by name."""

from __future__ import annotations

import inspect
from typing import Any

import click

from rtsim.cli.common import json_option, reports_errors, show_json
from rtsim.cli.terminal import Column, console, print_table
from rtsim.scenario.loading import find_maker, known_scenarios


@click.command()
@json_option
@reports_errors
def scenarios(as_json: bool) -> None:
    """List the scenarios that can be run by name, with their arguments and defaults.

    \b
    Examples:
      rtsim scenarios
      rtsim scenarios --json
    """
    rows = []
    for name in sorted(known_scenarios()):
        maker = find_maker(name)
        arguments = {p.name: p.default for p in inspect.signature(maker).parameters.values()}
        about = (inspect.getdoc(maker) or "").partition("\n")[0]
        rows.append({"name": name, "about": about, "arguments": arguments})
    if as_json:
        show_json(rows)
        return
    columns = (
        Column("name"),
        Column("about", fold=True),
        Column("arguments: --set NAME=VALUE", fold=True),
    )
    print_table(console(), "Scenarios", columns, [_cells(row) for row in rows])


def _cells(row: dict[str, Any]) -> tuple[str, ...]:
    arguments = " ".join(f"{k}={v}" for k, v in row["arguments"].items())
    return row["name"], row["about"].replace("``", ""), arguments
