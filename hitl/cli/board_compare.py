"""The commands ``rtsim board compare`` and ``clock``: boards and their clocks."""

from __future__ import annotations

import sys

import click
import numpy as np

from hitl.boards.known import BOARDS, DEFAULT_URL, board_named
from hitl.cli.common import names_a_board
from hitl.comparison.on_boards import OfBoards, OnOneBoard, on_boards, random_inputs
from hitl.controllers.board import measured_clock
from hitl.interface import load_interface
from rtsim.cli.common import json_option, reports_errors, show_result
from rtsim.cli.terminal import Column, console, print_table

COLUMNS = (
    Column("board"), Column("step, median", number=True), Column("step, max", number=True),
    Column("cycles, max", number=True, drop=2), Column("stack", number=True),
    Column("exchange, max", number=True), Column("line", drop=1), Column("bits of the host"),
)  # fmt: skip


@click.command()
@click.argument("interface")
@click.option(
    "--boards", "names", default=None, metavar="NAME,NAME,...",
    help="Boards to run on.  [default: all boards that have an emulator]",
)  # fmt: skip
@click.option(
    "--steps", type=click.IntRange(1, 100_000), default=100, show_default=True,
    help="Number of steps.",
)  # fmt: skip
@click.option("--seed", default=0, show_default=True, help="Seed of the random inputs.")
@json_option
@reports_errors
def compare(interface: str, names: str | None, steps: int, seed: int, as_json: bool) -> None:
    """Run the controller INTERFACE on emulated boards, with random inputs, and compare the boards.

    INTERFACE is FILE.toml or FILE.toml:VARIANT. The table has the execution time of a step, the
    stack, the time of an exchange over the serial line, and the number of steps whose outputs have
    the bits of the C code on this host; below it is the first difference of each board. Exit status
    0 if all outputs are equal on all boards, 1 if an output differs or a step fails on this host,
    2 if a board could not run the controller or no output ever moved.

    \b
    Example:
      rtsim board compare firmware/core/f16_control.toml:single
    """
    loaded = load_interface(interface)
    asked = names.split(",") if names is not None else _emulated()
    result = on_boards(loaded, asked, random_inputs(loaded, steps, seed))
    status = result.outcome.value
    if as_json:
        told = {
            "name": loaded.name,
            "boards": [_told(row) for row in result.rows],
            "not_exercised": [*result.idle],
        }
        show_result(told, status, result.why or None)
    else:
        _show(loaded.name, result, steps)
    sys.exit(status)


def _emulated() -> list[str]:
    return [name for name in BOARDS if board_named(name).emulators]


def _show(name: str, result: OfBoards, steps: int) -> None:
    out, ran = console(), [row for row in result.rows if row.steps]
    if ran:
        print_table(out, f"{name}, {steps} random inputs", COLUMNS, [_cells(row) for row in ran])
    lines = [f"{row.board.name}: {row.first.in_words}" for row in ran if row.first]
    lines += [*filter(None, [result.host.error, *result.stopped])]
    if ran:
        lines += [result.nothing] if result.nothing else [f"but {words}" for words in result.idle]
    for line in lines:
        out.print(line, soft_wrap=True, markup=False)


def _cells(row: OnOneBoard) -> tuple[str, ...]:
    per_us = row.board.clock_hz / 1e6
    return (
        row.board.name,
        f"{np.median(row.cycles) / per_us:.1f} us",
        f"{max(row.cycles) / per_us:.1f} us",
        str(max(row.cycles)),
        f"{row.stack} bytes",
        f"{max(row.exchange_ns) / 1e6:.3f} ms",
        f"{row.baud} baud",
        f"{row.equal} of {row.steps} steps",
    )


def _told(row: OnOneBoard) -> dict[str, object]:
    told: dict[str, object] = {
        "board": row.board.name,
        "steps": row.steps,
        "equal_steps": row.equal,
        "why": row.why,
        "first_difference": None if row.first is None else row.first._asdict(),
    }
    if row.image is not None and row.steps:
        per_ns = row.board.clock_hz / 1e9
        told |= {
            "emulator": row.emulator,
            "baud": row.baud,
            "step_ns": {
                "median": float(np.median(row.cycles)) / per_ns,
                "max": max(row.cycles) / per_ns,
            },
            "cycles_max": max(row.cycles),
            "stack_bytes": row.stack,
            "exchange_ns_max": max(row.exchange_ns),
            "flash_bytes": row.image.flash_bytes,
        }
    return told


# The command ``rtsim board clock``: the times of Arduino code on an emulated board, for SIL.


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
