"""The command ``rtsim board clock``: the times of Arduino code on an emulated board, for SIL."""

from __future__ import annotations

import click

from hitl.boards.known import DEFAULT_URL
from hitl.cli.common import names_a_board
from hitl.controllers.board_clock import measured_clock
from hitl.interface import load_interface
from rtsim.cli.common import json_option, reports_errors, show_result


@click.command()
@click.argument("interface")
@click.option(
    "--board", "url", default=DEFAULT_URL, show_default=True, metavar="URL",
    help="URL of an emulated board.",
)  # fmt: skip
@json_option
@reports_errors
@names_a_board
def clock(interface: str, url: str, as_json: bool) -> None:
    """Measure the clock of the Arduino code of INTERFACE on an emulated board.

    The command prints a table for the interface file. With this table, millis() and micros() in
    SIL agree with the emulated board within some tens of microseconds, because the measurement
    itself moves the times.
    Exit status 0 if the clock was measured, 2 otherwise.

    \b
    Examples:
      rtsim board clock regulator.toml
      rtsim board clock regulator.toml --board {url}
    """
    found = measured_clock(load_interface(interface), url)
    if as_json:
        show_result({
            "timer": found.timer,
            "setup_s": found.setup_us / 1e6,
            "first_step_s": found.first_step_us / 1e6,
            "board": url,
        })  # fmt: skip
        return
    click.echo(f"[arduino]  # measured on {url}")
    click.echo(f'timer = "{found.timer}"')
    click.echo(f"setup = {found.setup_us / 1e6:.6f}")
    click.echo(f"first_step = {found.first_step_us / 1e6:.6f}")
