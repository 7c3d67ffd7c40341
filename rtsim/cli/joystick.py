"""``rtsim joystick``: what is plugged in and what it says; and calibrating it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.console import Console, RenderableType
from rich.live import Live

from rtsim.cli.common import json_option, reports_errors, show_json
from rtsim.cli.interrupts import sigterm_interrupts
from rtsim.cli.joystick_screens import listing, step_screen
from rtsim.cli.keyboard import Read, is_terminal, keyboard
from rtsim.core.clock import WallClock
from rtsim.core.errors import RtsimError, ScenarioError
from rtsim.core.signals import Signals
from rtsim.pilot.devices.calibration import Calibration
from rtsim.pilot.devices.mapping import read_mapping
from rtsim.pilot.devices.missing import why_none
from rtsim.pilot.devices.writing import calibrated, own_tables, to_toml

if TYPE_CHECKING:
    from rtsim.pilot.devices.sdl import Devices

_LOOK_S = 0.005
_DRAWN_EACH = 8
"""Looks for a frame: 25 a second."""
_SETTLE = 20
"""Looks before what a device says is its own: SDL begins with zeros."""
_LEAVE = ("q", "Q", "x", "\x1b", "\x03", "\x04")
_SHAKE_MS = 400


class NoJoystick(RtsimError):
    """None is found."""


@click.group(invoke_without_command=True)
@click.option("--once", is_flag=True, help="Print what there is, and end.")
@json_option
@click.pass_context
@reports_errors
def joystick(ctx: click.Context, once: bool, as_json: bool) -> None:
    """See every joystick and gamepad, and what it says; 'calibrate' writes a mapping for it."""
    if ctx.invoked_subcommand is not None:
        if once or as_json:
            raise ScenarioError("--once and --json go before no subcommand")
        return
    screen = not (once or as_json)
    if screen and not is_terminal():
        raise ScenarioError(
            "rtsim joystick needs a terminal; without one: rtsim joystick --once, or --json"
        )
    with open_devices() as devices:
        if screen:
            with sigterm_interrupts(), keyboard() as read:
                watch(devices, read, Console(highlight=False))
            return
        clock = WallClock(spin_ns=0)
        for k in range(_SETTLE):
            devices.look()
            clock.wait_until(k * round(_LOOK_S * 1e9))
        found = devices.describe()
        if not found:
            raise NoJoystick(why_none())
        if as_json:
            show_json({"devices": [one.to_plain() for one in found]})
        else:
            out = Console(highlight=False)
            out.print(listing(found, devices.news, out.width))


@joystick.command()
@click.argument("scenario", default="f16")
@click.option(
    "--mapping", "path", type=click.Path(path_type=Path, dir_okay=False),
    default=Path("joystick.toml"), show_default=True, metavar="FILE.toml", help="Written here.",
)  # fmt: skip
@click.option("--force", is_flag=True, help="Write over an older file.")
@reports_errors
def calibrate(scenario: str, path: Path, force: bool) -> None:
    """Measure axes and write a mapping that 'rtsim fly SCENARIO --mapping FILE.toml' takes.

    It asks for each value of the scenario's stick which axis moves it, between which ends, and
    measures how still that stands.
    """
    if path.exists() and not force:
        raise ScenarioError(f"{path} exists; add --force to write over it, or --mapping OTHER.toml")
    if not is_terminal():
        raise ScenarioError("rtsim joystick calibrate asks its questions in a terminal")
    stick = stick_of(scenario)
    with open_devices() as devices, sigterm_interrupts(), keyboard() as read:
        told = ask(devices, read, Console(highlight=False), stick, path)
    click.echo(told)
    flown = f"rtsim fly {scenario} --mapping {path}"
    click.echo(f"{path} is written; to fly with it, type: {flown}")


def stick_of(scenario: str) -> Signals:
    """What a person moves there."""
    from rtsim.cli.fly import inlet_of
    from rtsim.pilot.flights import FLOWN_AS, Flyable
    from rtsim.scenario.loading import load_scenario
    from rtsim.scenario.parts import ExternalInputPart

    flyable = FLOWN_AS.get(scenario, Flyable(scenario))
    loaded = load_scenario(flyable.scenario, {})
    return loaded.of(ExternalInputPart)[flyable.stick or inlet_of(loaded)].inlet.signals


@contextmanager
def open_devices() -> Iterator[Devices]:
    """SDL's devices, without a window that anybody sees."""
    from rtsim.pilot.viewer.window import close_window, open_window

    open_window("rtsim joystick", hidden=True, size=(16, 16))
    from rtsim.pilot.devices.sdl import Devices

    devices = Devices()
    try:
        yield devices
    finally:
        devices.close()
        close_window()


def watch(devices: Devices, read: Read, console: Console) -> None:
    """What everything says, live, until a key is pressed."""
    news: list[str] = []

    def frame() -> RenderableType:
        news.extend(devices.news)
        devices.news.clear()
        found = devices.describe()
        return listing(found, news[-3:], console.width, "" if found else why_none(), live=True)

    with Live(console=console, screen=True, auto_refresh=False) as live:
        while True:
            for _ in range(_DRAWN_EACH):
                devices.look()
                for key in read(_LOOK_S):
                    if key in _LEAVE:
                        return
                    if key in ("r", "R"):
                        numbers = {one.number for one in devices.describe()}
                        devices.rumble(1.0, 1.0, _SHAKE_MS, numbers)
            live.update(frame(), refresh=True)


def ask(devices: Devices, read: Read, console: Console, stick: Signals, path: Path) -> str:
    """Step by step until the file is written; what was found, in a few lines."""
    calibration, said, looks = Calibration(stick), "", 0
    with Live(console=console, screen=True, auto_refresh=False) as live:
        while not calibration.done:
            look = devices.look()
            calibration.look(look)
            if looks % _DRAWN_EACH == 0:
                missing = "" if look.sticks else why_none()
                live.update(step_screen(calibration, look, said or missing), refresh=True)
            looks += 1
            key = next(iter(read(_LOOK_S)), "")  # one answer to a question
            if key in _LEAVE:
                raise KeyboardInterrupt(f"left; {path} is as it was")
            if key in ("\r", "\n"):
                said = calibration.go_on()
            elif key in ("s", "S"):
                said = calibration.skip()
            elif key in ("b", "B"):
                calibration, said = Calibration(stick), ""
    return write(calibration, stick, path)


def write(calibration: Calibration, stick: Signals, path: Path) -> str:
    """The file, and what it says in short; read once more, as it will be to fly."""
    found = calibration.found
    if not found:
        raise NoJoystick(f"every value was left out; {path} is as it was")
    lines = []
    for name, one in found.items():
        low, middle, high = one.source.span
        middle_text = f" about {middle:+.3f}" if one.springs else ", a lever"
        lines.append(
            f"{name}: axis {one.source.axis} of {one.device}, {low:+.3f} to {high:+.3f}"
            f"{middle_text}, noise {one.noise:.4f}, dead zone {one.source.dead_zone:g}"
            + (", inverted" if one.source.invert else "")
        )
    lines += [
        f"two are called {name}: the one plugged in first is taken" for name in calibration.twins()
    ]
    remarks = ["Written by 'rtsim joystick calibrate'; change what you like.", *lines]
    text = to_toml(calibrated(own_tables(stick), found, stick), remarks, stick)
    before = path.read_text(encoding="utf-8") if path.exists() else None
    path.write_text(text, encoding="utf-8")
    try:
        read_mapping(path, stick)
    except RtsimError:  # ours to mend: whoever flew with the older one still can
        if before is not None:
            path.write_text(before, encoding="utf-8")
        raise
    return "\n".join(lines)
