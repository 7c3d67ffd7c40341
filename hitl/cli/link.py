"""The commands ``rtsim flash``, ``link-test`` and ``board serve``, for boards on a serial line."""

from __future__ import annotations

import json
import shlex
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import click
import numpy as np

from hitl.boards.contract import BoardError, BoardLink
from hitl.boards.description import BoardDescription, Flasher
from hitl.boards.emulated import EmulatedBoard
from hitl.boards.intel_hex import read_image
from hitl.boards.known import DEFAULT_BOARD, DEFAULT_URL
from hitl.boards.paced import PacedBoard, Status
from hitl.boards.serial_port import SerialLink
from hitl.boards.urls import BoardUrl, open_link, parse_url
from hitl.building.toolchain import captured
from hitl.cli.common import board_option, chosen, names_a_board
from hitl.comparison.execution import FEWEST_FOR_P99, p99
from hitl.firmware import firmware as firmware_of
from hitl.firmware.arduino_sketch import image_of_sketch
from hitl.interface import Interface, load_interface
from hitl.interface.file import is_sketch
from hitl.protocol.codec import name_hash
from hitl.protocol.line import BaudRate, Budget, nominal, offered
from hitl.protocol.messages import HelloReply
from hitl.protocol.session import SilentBoard, of_board
from hitl.results.columns import bars
from hitl.testing.link_trial import LinkTrial, meet, try_link
from rtsim.cli.common import NO, json_option, reports_errors, show_result, sigterm_interrupts
from rtsim.core.clock import Wake
from rtsim.core.signals import Vector
from rtsim.runs.progress import ProgressLine

# Texts and JSON about a board and the test of its link.

_USUAL = 115_200
_WIDE = 4.0
"""Ratio of the largest to the smallest value above which a histogram has logarithmic bins."""


def about_board(board: HelloReply, interface: Interface | None) -> list[str]:
    """Return lines of text about the identity of the board.

    ``interface`` is the expected controller.
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
    """Return lines of text about the serial line and the clock.

    ``own_time`` is True if the times were measured with the board's clock. ``at`` describes the
    board.
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
    """Return the lines of a histogram of sorted times (n,) in ms.

    The bars cover the values up to the 99th percentile. The last line counts the larger values.
    """
    high = float(p99(ms))
    few = ms[ms <= high]
    rows = list(bars(1e6 * few, logarithmic=high > _WIDE * few[0], mark="#"))
    if beyond := len(ms) - len(few):
        rows.append(f"beyond {high:.3f} ms: {beyond}")
    return rows


def board_json(board: HelloReply) -> dict[str, Any]:
    return {
        **board._asdict(),
        "schema": f"{board.schema:016x}",
        "build": f"{board.build:08x}",
        "boot_nonce": f"{board.boot_nonce:08x}",
        "name_hash": f"{board.name_hash:08x}",
    }


def trial_json(trial: LinkTrial, own_time: bool, at: BoardDescription) -> dict[str, Any]:
    """Return the result of a link test as plain data; keys that end in ``_ns`` are in ns."""
    delays, clock, rate = trial.delays_ns, trial.clock, _line_rate(trial, at)
    quantiles = {"min": 0.0, "median": 0.5, "p99": 0.99, "max": 1.0}
    return {
        "ok": trial.ok,
        "baud": rate.to_json(),
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


# The image that a board runs: an Intel HEX file, or the firmware of an interface file.

firmware_option = click.option(
    "--firmware", type=click.Path(path_type=Path), metavar="FILE.hex",
    help="Intel HEX image, or Arduino sketch (NAME.ino), that an emulated board runs.",
)  # fmt: skip
controller_option = click.option(
    "-c", "--controller", metavar="INTERFACE",
    help="Interface file of the controller on the board, such as pid.toml:single. An emulated "
    "board runs the firmware of this controller.",
)  # fmt: skip


@dataclass(frozen=True)
class BoardImage:
    """An Intel HEX file, and what is known about its controller."""

    path: Path
    interface: Interface | None = None
    build: int | None = None
    baud: int | None = None


def image_of(
    reference: str, baud: int | None = None, board: BoardDescription = DEFAULT_BOARD
) -> BoardImage:
    """Return the image for a ``FILE.hex``, a sketch or an interface file.

    ``baud`` is the bit rate of the serial line (bit/s); None means the default of ``board``.
    """
    if reference.lower().endswith((".hex", ".ihex")):
        return BoardImage(Path(reference), baud=baud)
    if is_sketch(Path(reference)):
        return BoardImage(image_of_sketch(Path(reference), board).path, baud=baud)
    found = firmware_of(load_interface(reference), baud=baud, board=board)
    return BoardImage(found.path, found.interface, found.build, found.baud)


def image_for(at: BoardUrl, file: Path | None, controller: str | None) -> BoardImage:
    """Return the flash image for an emulated board.

    ``file`` is an Intel HEX file or a sketch, and ``controller`` an interface file. If both are
    given, the board runs ``file``, which must contain the controller. Raises ``BoardError`` if both
    are missing, and for a real board, which keeps its own program.
    """
    if not at.emulated:
        raise BoardError(f"{at.text} is not an emulated board; an emulated board is: {DEFAULT_URL}")
    if file is not None:
        interface = None if controller is None else load_interface(controller)
        path = image_of_sketch(file, at.description).path if is_sketch(file) else file
        return BoardImage(path, interface, baud=at.baud)
    if controller is None:
        raise BoardError(
            f"{at.text} has no firmware; give an image or a controller: "
            "--firmware FILE.hex   or   -c INTERFACE.toml"
        )
    return image_of(controller, at.baud, at.description)


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

    The command prints the identity of the board, lost messages, round-trip times, and the time
    budget of a step. URL is {url}, serial:///dev/ttyACM0?baud=500000 or serial://COM3. Exit status:
    0 if the test passed; 1 if a message was lost or damaged, or if the board runs another
    controller than that of -c; 2 if the test is impossible.

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
            trial = try_link(link, met, baud, count, partial(line.count, "round trip"))
            status = None if server is None else server.status()
    wrong = _wrong(trial.board, image)
    own_time = at.emulated and not paced
    exit_status = 0 if trial.ok and wrong is None else NO
    why = wrong or "a message was lost, repeated or damaged"
    if as_json:
        pacing = {"pacing": None if status is None else status.to_json()}
        report = _to_json(trial, image, wrong, own_time, at.description)
        show_result({**report, **pacing}, exit_status, why)
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
    if paced:
        with PacedBoard(at.text, image.path) as board:
            baud = nominal(board.baud)
            with closing(SerialLink(board.port, baud)) as port:
                yield port, baud, board
        return
    with closing(open_link(at.text, image.path if at.emulated else None)) as link:
        yield link, at.rate, None


def _wrong(board: HelloReply, image: BoardImage) -> str | None:
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


def _to_json(
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


_BOOT_BAUD = DEFAULT_BOARD.flasher.baud if DEFAULT_BOARD.flasher else None
_PATIENCE_S = 120.0
_LAST_LINES = 8


@click.command()
@click.argument("firmware", metavar="FIRMWARE.hex|SKETCH.ino|INTERFACE.toml")
@click.option("--port", required=True, help="Serial port of the board: /dev/ttyACM0 or COM3.")
@click.option(
    "--baud", type=click.IntRange(min=300), default=None,
    help="Bit rate of the firmware's serial line, bit/s.  [default: the rate of the URL in --port, "
    f"or {DEFAULT_BOARD.line.baud}]",
)  # fmt: skip
@click.option(
    "--boot-baud", type=click.IntRange(300, 2_000_000), default=None,
    help="Bit rate of the boot loader, bit/s; older boot loaders need 57600.  "
    f"[default: {_BOOT_BAUD}]",
)  # fmt: skip
@click.option(
    "--no-verify",
    is_flag=True,
    help="Do not check after flashing that the board runs the new firmware.",
)
@click.option(
    "--dry-run", is_flag=True, help="Print the command line of the flasher; flash nothing."
)
@board_option
@json_option
@reports_errors
def flash(
    firmware: str, port: str, baud: int | None, boot_baud: int | None, no_verify: bool,
    dry_run: bool, board_name: str | None, as_json: bool,
) -> None:  # fmt: skip
    """Write firmware to the board at --port.

    FIRMWARE is an Intel HEX image, an Arduino sketch or an interface file. A sketch or an interface
    file is built first, if necessary. Afterwards, the command checks that the board runs the new
    firmware. This check is impossible for a sketch. Exit status: 0 if the board was flashed,
    otherwise 2.

    \b
    Examples:
      rtsim flash motor.toml:float --port /dev/ttyACM0
      rtsim flash blink.hex --port COM3 --no-verify
      rtsim flash thermostat.ino --port /dev/ttyACM0
    """
    place, of_port, board = _place(port, board_name)
    flasher = board.flasher
    if flasher is None:
        raise BoardError(
            f"rtsim cannot flash {board.phrase}: its description names no flasher; use the board's "
            "own tools, and then rtsim link-test"
        )
    if None not in (baud, of_port) and baud != of_port:
        raise BoardError(
            f"--baud {baud} contradicts the rate in --port {port}; leave out one of the two rates"
        )
    most = board.line.most_baud
    if baud is not None and baud > most:
        raise click.BadParameter(f"{baud} is not in the range 300<=x<={most}.", param_hint="--baud")
    rate = BaudRate.of(board, baud or of_port or board.line.baud)
    image, sketch = image_of(firmware, rate.baud, board), is_sketch(Path(firmware))
    if sketch and baud is not None:
        raise BoardError(f"--baud does not apply to {firmware}, which sets its own rate; remove it")
    read_image(image.path, board, boot_loader=True)
    command = flasher.command(image.path, place, boot_baud or flasher.baud)
    if dry_run:
        _show_flash(command, None, image, rate, as_json, sketch)
        return
    line = ProgressLine(firmware, enabled=sys.stderr.isatty() and not as_json)
    with sigterm_interrupts(), closing(line):
        line.say(f"writing {image.path.name} through {place} (some seconds) …")
        _write(command, place, board, flasher)
        line.say("asking the board for its identity …")
        found = None if no_verify or sketch else _asked(place, image, rate.baud)
    _show_flash(command, found, image, rate, as_json, sketch)


def _place(port: str, board_name: str | None) -> tuple[str, int | None, BoardDescription]:
    if not port.startswith(("serial:", "board:")):
        return port, None, chosen(board_name)
    at = parse_url(port)
    if at.emulated:
        raise BoardError(
            f"{port} is an emulated board, which needs no flashing; give the port of a real board, "
            "for example: --port /dev/ttyACM0"
        )
    return at.place, at.baud, _board_at(at, board_name)


def _board_at(at: BoardUrl, board_name: str | None) -> BoardDescription:
    if board_name is None:
        return at.description
    board = chosen(board_name)
    if at.board not in (DEFAULT_BOARD.name, board.name):
        raise BoardError(
            f"--board {board.name} contradicts the board in --port {at.text}; leave out one of "
            "the two boards"
        )
    return board


def _write(command: list[str], port: str, board: BoardDescription, flasher: Flasher) -> None:
    found = shutil.which(command[0])
    if found is None:
        raise BoardError(
            f"flashing needs {flasher.program}, which is not installed; type: {flasher.install}"
        )
    try:
        done = captured([found, *command[1:]], _PATIENCE_S)
    except subprocess.TimeoutExpired:
        raise BoardError(
            f"{flasher.program} did not end within {_PATIENCE_S:g} s; press the board's reset "
            "button and try again"
        ) from None
    except OSError as error:
        raise BoardError(f"cannot run {found}: {error.strerror}") from None
    if done.returncode:
        said = "\n".join((done.stderr + done.stdout).strip().splitlines()[-_LAST_LINES:])
        raise BoardError(
            f"{flasher.program} could not flash the board at {port} (exit status "
            f"{done.returncode}); check that the board is {board.phrase} and that no other program "
            "uses the port. "
            f"{flasher.program} printed:\n{said}"
        )


def _asked(port: str, image: BoardImage, baud: int) -> HelloReply:
    with closing(SerialLink(port, image.baud or baud)) as link:
        try:
            return meet(link, image.interface, image.build)[1]
        except SilentBoard as error:
            raise BoardError(
                f"the firmware was written, but the check of the board failed: {error} (use "
                "--no-verify for firmware that does not use rtsim's protocol)"
            ) from None


def _show_flash(
    command: list[str], board: HelloReply | None, image: BoardImage, rate: BaudRate, as_json: bool,
    sketch: bool,
) -> None:  # fmt: skip
    if as_json:
        report = None if board is None else board_json(board)
        line = rate.to_json()
        show_result({"command": command, "image": str(image.path), "baud": line, "board": report})
        return
    click.echo(shlex.join(command))
    if not sketch:
        click.echo(f"line        {rate}")
    if board is not None:
        for text in about_board(board, image.interface):
            click.echo(text)


# The command ``rtsim board serve``: an emulated board in real time behind a pseudo-terminal.

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
    """Run the emulated board URL in real time.

    The command prints the URL of a serial port, and runs until Ctrl-C. Other programs can open this
    port like that of a real board. Opening the port resets the board.

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
            _show_status(board, at, shown=sys.stderr.isatty() and not as_json)
        _sum_up(board.status(), as_json)


@contextmanager
def _ctrl_c() -> Iterator[None]:
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
        report = {"url": at, "port": board.port, "baud": rate.baud, "emulator": board.emulator}
        click.echo(json.dumps(report))
        return
    click.echo(at)
    click.echo(f"Emulated by {board.emulator}, in real time. Opening the port resets the board.")
    if not rate.good:
        click.echo(str(rate))
    click.echo(f"Next, in another terminal:   rtsim link-test '{at}'")
    click.echo("Ctrl-C stops the board.")


def _show_status(board: PacedBoard, at: str, shown: bool) -> None:
    nothing = Wake()
    with closing(ProgressLine(at, enabled=shown)) as line:
        while True:
            line.say(in_words(board.status()))
            nothing.wait(_EVERY_S)


def in_words(status: Status) -> str:
    """Return a line about a served board: port, timing, and numbers of bytes."""
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
