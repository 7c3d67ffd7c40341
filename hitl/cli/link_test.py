"""The command ``rtsim link-test``, its figures and sentences."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click
import numpy as np

from hitl.boards.contract import BoardError, BoardLink
from hitl.boards.description import BoardDescription
from hitl.boards.emulated import EmulatedBoard
from hitl.boards.paced import PacedBoard
from hitl.boards.serial_port import SerialLink
from hitl.boards.urls import BoardUrl, open_link, parse_url
from hitl.cli.common import names_a_board
from hitl.cli.flash import BoardImage, controller_option, firmware_option, image_for
from hitl.comparison.execution import FEWEST_FOR_P99, p99
from hitl.interface import Interface, load_interface
from hitl.protocol.codec import name_hash
from hitl.protocol.line import BaudRate, Budget, nominal, offered
from hitl.protocol.messages import HelloReply
from hitl.protocol.verdicts import of_board
from hitl.results.columns import bars
from hitl.testing.link_trial import LinkTrial, meet, try_link
from rtsim.cli.common import NO, json_option, reports_errors, show_result
from rtsim.cli.interrupts import sigterm_interrupts
from rtsim.cli.progress import ProgressLine
from rtsim.core.clock import stopwatch
from rtsim.core.signals import Vector

# Texts and JSON about a board and the test of its link.

_USUAL = 115_200
"""The usual bit rate of a serial line, bit/s."""
_WIDE = 4.0
"""A histogram has logarithmic bins if its largest / smallest value exceeds this number."""


def about_board(board: HelloReply, interface: Interface | None) -> list[str]:
    """Return lines of text about the board's identity, from its reply to HELLO.

    ``interface`` is the expected controller; its name is printed if the board runs it.
    """
    if interface is not None and board.name_hash == name_hash(interface.name):
        carries = f"{interface.name}, name hash {board.name_hash:08x}"
    else:
        carries = f"name hash {board.name_hash:08x}"
    return [
        f"board       protocol {board.version}, double of {board.double_bytes} bytes, payload up "
        f"to {board.max_payload} bytes, {board.clock_hz / 1e6:g} MHz",
        f"            build {board.build:08x}, schema {board.schema:016x}, "
        f"boot nonce {board.boot_nonce:08x}",
        f"controller  {carries}",
    ]


def about_trial(trial: LinkTrial, own_time: bool, at: BoardDescription) -> list[str]:
    """Return lines of text about the serial line, the round trips and the clock.

    If ``own_time`` is true, the board's clock measured the times, otherwise the host's clock.
    ``at`` describes the board.
    """
    lines = [
        f"line        {_rate(trial, at)}",
        f"echo        {trial.sent} sent, {len(trial.trips)} answered, {trial.lost} lost, "
        f"{trial.repeated} repeated, {trial.garbage} damaged",
    ]
    if not trial.trips:
        return lines
    ms = trial.delays_ns / 1e6
    low, middle, high = (f"{np.quantile(ms, q):.3f}" for q in (0.0, 0.5, 1.0))
    high99 = f", p99 {p99(ms):.3f}" if len(ms) >= FEWEST_FOR_P99 else ""
    whose = "in the board's own time" if own_time else "by the wall clock"
    lines.append(
        f"round trip  min {low}, median {middle}{high99}, max {high} ms {whose}; "
        f"{trial.wire_ns / 1e6:.3f} ms of it on the wire"
    )
    lines += [f"            {row}" for row in histogram(ms)]
    if (clock := trial.clock) is not None:
        lines.append(
            f"clock       offset {clock.offset_ns / 1e9:.6f} s +- {clock.offset_sigma_ns / 1e3:.1f}"
            f" us, drift {clock.drift_ppm:+.1f} +- {1e6 * clock.drift_sigma:.1f} ppm; unequal "
            "delays of request and reply add an offset error of at most "
            f"{clock.asymmetry_ns / 1e3:.0f} us"
        )
    return lines


def _line_rate(trial: LinkTrial, at: BoardDescription) -> BaudRate:
    return BaudRate(trial.baud, trial.board.clock_hz, at.line)


def _rate(trial: LinkTrial, at: BoardDescription) -> str:
    rate = _line_rate(trial, at)
    if not rate.good:
        return str(rate)
    listed = ", ".join(map(str, offered(trial.board.clock_hz, at.line)))
    text = f"{rate}; {trial.board.clock_hz / 1e6:g} MHz divides well to {listed}"
    usual = BaudRate(_USUAL, at.clock_hz, at.line)
    if trial.board.clock_hz == at.clock_hz and not usual.good:
        text += f", and not to {_USUAL} ({usual.error_percent:+.1f} %)"
    return text


def histogram(ms: Vector) -> list[str]:
    """Return the lines of a histogram of the sorted times ``ms`` (n,), in ms.

    Bars show the values up to the 99th percentile; the last line counts the values beyond it.
    """
    high = float(p99(ms))
    few = ms[ms <= high]
    rows = list(bars(1e6 * few, logarithmic=high > _WIDE * few[0], mark="#"))
    if beyond := len(ms) - len(few):
        rows.append(f"beyond {high:.3f} ms: {beyond}")
    return rows


def board_json(board: HelloReply) -> dict[str, Any]:
    """Return the board's reply to HELLO as plain data, with hashes and nonce as hex text."""
    return {
        **board._asdict(),
        "schema": f"{board.schema:016x}",
        "build": f"{board.build:08x}",
        "boot_nonce": f"{board.boot_nonce:08x}",
        "name_hash": f"{board.name_hash:08x}",
    }


def trial_json(trial: LinkTrial, own_time: bool, at: BoardDescription) -> dict[str, Any]:
    """Return the result of a link test as plain data; keys ending in ``_ns`` are times in ns."""
    delays, clock, rate = trial.delays_ns, trial.clock, _line_rate(trial, at)
    quantiles = {"min": 0.0, "median": 0.5, "p99": 0.99, "max": 1.0}
    return {
        "ok": trial.ok,
        "baud": {"rate": trial.baud, "error_percent": rate.error_percent, "good": rate.good},
        "offered_baud": offered(trial.board.clock_hz, at.line),
        "sent": trial.sent,
        "answered": len(trial.trips),
        "lost": trial.lost,
        "repeated": trial.repeated,
        "garbage": trial.garbage,
        "time": "board" if own_time else "wall",
        "wire_ns": trial.wire_ns,
        "round_trip_ns": {
            name: float(np.quantile(delays, q, method="inverted_cdf"))
            for name, q in quantiles.items()
        }
        if len(delays)
        else None,
        "clock": None
        if clock is None
        else {
            "offset_ns": clock.offset_ns, "offset_sigma_ns": clock.offset_sigma_ns,
            "drift_ppm": clock.drift_ppm, "drift_sigma_ppm": 1e6 * clock.drift_sigma,
            "asymmetry_ns": clock.asymmetry_ns,
        },
    }  # fmt: skip


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
