"""The command ``rtsim board serve``: an emulated board in real time behind a pseudo-terminal."""

from __future__ import annotations

import json
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import click

from hitl.boards.known import DEFAULT_URL
from hitl.boards.paced import PacedBoard, Status
from hitl.boards.urls import parse_url
from hitl.cli.link import controller_option, firmware_option, image_for
from hitl.protocol.line import BaudRate, nominal
from rtsim.cli.common import reports_errors, sigterm_interrupts
from rtsim.core.clock import Wake
from rtsim.runs.progress import ProgressLine

_EVERY_S = 0.5


@click.command()
@click.argument("url", default=DEFAULT_URL)
@firmware_option
@controller_option
@click.option(
    "--link", type=click.Path(path_type=Path), metavar="PATH",
    help="Make PATH a symbolic link to the board's serial port while the board runs.  [default: no "
    "link]",
)  # fmt: skip
@click.option(
    "--json",
    "as_json",
    is_flag=True,
    help="Print one line of JSON when the board's serial port is ready, and one line when the "
    "board stops.",
)
@reports_errors
def serve(
    url: str, firmware: Path | None, controller: str | None, link: Path | None, as_json: bool
) -> None:
    """Run an emulated board in real time; URL names the board.

    The command prints the URL of the board's serial port and runs until Ctrl-C. Other programs can
    open this port like the port of a real board. Opening the port resets the board.

    \b
    Examples:
      rtsim board serve -c motor.toml:float
      rtsim board serve --firmware motor.hex --link board-port
    """
    place = parse_url(url)
    image = image_for(place, firmware, controller)
    with sigterm_interrupts(), _ctrl_c(), PacedBoard(url, image.path, link=link) as board:
        baud = nominal(board.baud)
        at = f"serial://{link.absolute() if link else board.port}?baud={baud}"
        with suppress(KeyboardInterrupt):
            _greet(board, at, BaudRate.of(place.description, baud), as_json)
            _watch(board, at, shown=sys.stderr.isatty() and not as_json)
        _sum_up(board.status(), as_json)


@contextmanager
def _ctrl_c() -> Iterator[None]:
    """Let Ctrl-C interrupt this process, even if a shell started it with SIGINT ignored."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _greet(board: PacedBoard, at: str, rate: BaudRate, as_json: bool) -> None:
    if as_json:
        told = {"url": at, "port": board.port, "baud": rate.baud, "emulator": board.emulator}
        click.echo(json.dumps(told))
        return
    click.echo(at)
    click.echo(f"Emulated by {board.emulator}, in real time. Opening the port resets the board.")
    if not rate.good:
        click.echo(str(rate))
    click.echo(f"Next, in another terminal:   rtsim link-test '{at}'")
    click.echo("Ctrl-C stops the board.")


def _watch(board: PacedBoard, at: str, shown: bool) -> None:
    """Show the board's status until the command is interrupted or the board fails."""
    nothing = Wake()
    with closing(ProgressLine(at, enabled=shown)) as line:
        while True:
            line.say(in_words(board.status()))
            nothing.wait(_EVERY_S)


def in_words(status: Status) -> str:
    """Return a line of text on a served board: state of the port, timing, and counts of bytes."""
    timing = status.timing
    lost = status.unread + status.lost + status.garbled
    return (
        f"{'open' if status.open else 'free'}  x{timing.rate:.4f}  "
        f"behind at most {timing.behind_ns / 1e6:.1f} ms  "
        f"time lost {100 * timing.slipped_share:.2f} %  "
        f"bytes in {timing.received}, out {timing.sent}, lost {lost}"
    )


def _sum_up(status: Status, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(status.to_json()))
        return
    timing = status.timing
    click.echo(
        f"served {timing.wall_ns / 1e9:.1f} s, port opened {timing.opened} times; "
        f"{timing.received} bytes to the board, {timing.sent} bytes from the board"
    )
    lost = {
        "not read by the client": status.unread, "lost in the board's receiver": status.lost,
        "corrupted because the bit rates differ": status.garbled,
    }  # fmt: skip
    for what, count in lost.items():
        if count:
            click.echo(f"{count} bytes {what}")
    if status.restarts:
        click.echo(f"{status.restarts} resets by the board's watchdog")
    click.echo(timing.in_words)
