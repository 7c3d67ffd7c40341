"""The command ``rtsim link-test``: identity of a board, lost messages and round-trip times."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from hitl.boards.contract import BoardError, BoardLink
from hitl.boards.description import BoardDescription
from hitl.boards.emulated import EmulatedBoard
from hitl.boards.paced import PacedBoard
from hitl.boards.serial_port import SerialLink
from hitl.boards.urls import BoardUrl, open_link, parse_url
from hitl.cli.common import names_a_board
from hitl.cli.images import BoardImage, controller_option, firmware_option, image_for
from hitl.cli.link_words import about_board, about_trial, board_json, trial_json
from hitl.interface import load_interface
from hitl.protocol.line import Budget, nominal
from hitl.protocol.messages import HelloReply
from hitl.protocol.verdicts import of_board
from hitl.testing.link_trial import LinkTrial, meet, try_link
from rtsim.cli.common import NO, json_option, reports_errors, show_result, sigterm_interrupts
from rtsim.cli.progress import ProgressLine
from rtsim.core.clock import stopwatch

_EVERY_NS = 200_000_000


@click.command("link-test")
@click.argument("url")
@firmware_option
@controller_option
@click.option(
    "--count", type=click.IntRange(min=1, max=10_000_000), default=200, show_default=True,
    help="Number of messages to send and receive back.",
)  # fmt: skip
@click.option(
    "--paced",
    is_flag=True,
    help="Run the emulated board in real time, behind a serial port, instead of in lockstep.",
)
@json_option
@reports_errors
@names_a_board
def link_test(
    url: str, firmware: Path | None, controller: str | None, count: int, paced: bool, as_json: bool
) -> None:
    """Test the serial line to the board at URL.

    The command prints the board's identity, lost messages, round-trip times, the offset of the
    board's clock, and the time budget of a step. URL is {url}, serial:///dev/ttyACM0?baud=500000
    or serial://COM3. Exit status 0 if the line and the board are good, 1 if a message was lost,
    repeated or damaged or if the board does not run the controller of -c, 2 if the test could not
    be made.

    \b
    Examples:
      rtsim link-test {url} -c motor.toml:float
      rtsim link-test serial:///dev/ttyACM0 -c motor.toml:float --count 1000
    """
    at = parse_url(url)
    image = _expected(at, firmware, controller, paced)
    line = ProgressLine(url, enabled=sys.stderr.isatty() and not as_json)
    with sigterm_interrupts(), closing(line):
        line.say(f"asking the board at {url} for its identity …")
        with _opened(at, image, paced) as (link, baud, server):
            met = meet(link)
            if isinstance(link, EmulatedBoard):
                baud = at.baud or nominal(link.baud)
            trial = try_link(link, met, baud, count, _watch(line))
            status = None if server is None else server.status()
    wrong = _wrong(trial.board, image)
    own_time = at.emulated and not paced
    exit_status = 0 if trial.ok and wrong is None else NO
    why = wrong or "a message was lost, repeated or damaged"
    if as_json:
        pacing = {"pacing": None if status is None else status.to_json()}
        told = _told(trial, image, wrong, own_time, at.description)
        show_result({**told, **pacing}, exit_status, why)
    else:
        _show(trial, image, own_time, at.description)
        if status is not None:
            click.echo(f"pacing      {status.timing.in_words}")
        if wrong is not None:
            click.secho(f"wrong       {wrong}", fg="red")
    sys.exit(exit_status)


def _expected(
    at: BoardUrl, firmware: Path | None, controller: str | None, paced: bool
) -> BoardImage:
    if at.emulated:
        return image_for(at, firmware, controller)
    if paced:
        raise BoardError(
            f"{at.text} is a real board, which always runs in real time; leave out --paced"
        )
    if firmware is not None:
        raise BoardError(
            f"{at.text} is a real board, which runs the firmware that it was flashed with; flash "
            f"it first: rtsim flash {firmware} --port {at.place}"
        )
    return BoardImage(Path(), None if controller is None else load_interface(controller))


@contextmanager
def _opened(
    at: BoardUrl, image: BoardImage, paced: bool
) -> Iterator[tuple[BoardLink, int, PacedBoard | None]]:
    """Yield the link, the bit rate of its line, and the board's server (only if ``paced``)."""
    if paced:
        with PacedBoard(at.text, image.path) as board:
            baud = nominal(board.baud)
            with closing(SerialLink(board.port, baud)) as port:
                yield port, baud, board
        return
    with closing(open_link(at.text, image.path if at.emulated else None)) as link:
        yield link, at.rate, None


def _watch(line: ProgressLine) -> Callable[[int, int], None]:
    told = [0]

    def watch(done: int, of: int) -> None:
        now = stopwatch()
        if now >= told[0]:
            told[0] = now + _EVERY_NS
            line.say(f"round trip {done} / {of}")

    return watch


def _wrong(board: HelloReply, image: BoardImage) -> str | None:
    """Return why ``board`` is not the expected board; ``None`` if it is acceptable."""
    error = None
    if image.interface is not None:
        error = of_board(board, image.interface, image.build)
    return None if error is None else str(error)


def _budget(trial: LinkTrial, image: BoardImage, board: BoardDescription) -> Budget | None:
    if image.interface is None:
        return None
    return Budget.of(image.interface, trial.baud, clock_hz=board.clock_hz, line=board.line)


def _show(trial: LinkTrial, image: BoardImage, own_time: bool, board: BoardDescription) -> None:
    lines = about_board(trial.board, image.interface) + about_trial(trial, own_time, board)
    budget = _budget(trial, image, board)
    if budget is None:
        lines.append("budget      add -c INTERFACE.toml to see the time budget of a step")
    else:
        lines.append(f"budget      {budget}")
    for text in lines:
        click.echo(text)


def _told(
    trial: LinkTrial, image: BoardImage, wrong: str | None, own_time: bool, board: BoardDescription
) -> dict[str, Any]:
    budget = _budget(trial, image, board)
    more = {} if budget is None else {"rate_hz": budget.rate_hz, "holds": budget.holds}
    return {
        "board": board_json(trial.board),
        **trial_json(trial, own_time, board),
        "wrong": wrong,
        "budget": None if budget is None else {**asdict(budget), **more},
    }
