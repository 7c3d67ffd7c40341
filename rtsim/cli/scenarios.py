"""``rtsim scenarios``: what can be run by name."""

from __future__ import annotations

import inspect

import click

from rtsim.cli.common import console, json_option, reports_errors, show_json, table
from rtsim.loading import find_maker, known_scenarios


@click.command()
@json_option
@reports_errors
def scenarios(as_json: bool) -> None:
    """List the scenarios that can be run by name, with their arguments and defaults."""
    rows = []
    for name in sorted(known_scenarios()):
        maker = find_maker(name)
        arguments = {p.name: p.default for p in inspect.signature(maker).parameters.values()}
        about = (inspect.getdoc(maker) or "").partition("\n")[0]
        rows.append({"name": name, "about": about, "arguments": arguments})
    if as_json:
        show_json(rows)
        return
    shown = table("Scenarios", "name", "about", "arguments: --set NAME=VALUE")
    for row in rows:
        arguments_text = " ".join(f"{k}={v}" for k, v in row["arguments"].items())  # type: ignore[attr-defined]
        shown.add_row(str(row["name"]), str(row["about"]), arguments_text)
    console().print(shown)
