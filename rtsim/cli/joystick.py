"""``rtsim joystick``: show joysticks and gamepads with their positions, and calibrate them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from rtsim.cli.common import json_option, reports_errors, show_result, sigterm_interrupts
from rtsim.cli.options import option
from rtsim.cli.terminal import Read, is_terminal, keyboard
from rtsim.core.clock import WallClock
from rtsim.core.errors import RtsimError, ScenarioError
from rtsim.core.extras import installed
from rtsim.core.signals import Signals
from rtsim.pilot.devices.calibration import (
    AGAIN,
    MINUS,
    PLUS,
    REST,
    Calibration,
    calibrated,
    mapping_text,
    own_mapping,
    own_tables,
)
from rtsim.pilot.devices.device import Described, DeviceSample, why_none
from rtsim.pilot.devices.mapping import DeviceMapping, read_mapping, uses
from rtsim.pilot.devices.sources import GAMEPAD_AXES

if TYPE_CHECKING:
    from rtsim.pilot.devices.sdl import Devices


_BAR = 31
_KEYS = (("q", "quit"), ("r", "rumble, if the device can"))
_STEP_KEYS = (("Enter", "done"), ("s", "skip this"), ("b", "start again"), ("q", "cancel"))
_ASKED = {
    REST: "Let go of all controls; put levers (throttle) to their lowest end. Wait a second.",
    AGAIN: "Let go of all controls once more; levers to their lowest end. Wait a second.",
    PLUS: "{name}{about}: move its control fully in the positive direction, and hold it.",
    MINUS: "{name}{about}: now move it fully in the NEGATIVE direction, and hold it.",
}


def bar(position: float, width: int = _BAR) -> str:
    """Return a bar of ``width`` characters that marks ``position`` on a scale from -1 to 1."""
    at = round((max(-1.0, min(1.0, position)) + 1.0) / 2.0 * (width - 1))
    cells = ["─"] * width
    cells[width // 2] = "┼"
    cells[at] = "█"
    return "".join(cells)


def listing(
    found: Sequence[Described],
    news: Sequence[str],
    width: int,
    missing: str = "",
    *,
    live: bool = False,
    mapping: DeviceMapping | None = None,
) -> RenderableType:
    """Return a text screen with all joysticks and gamepads.

    With ``mapping``, the screen shows the use of each control; with ``live``, it also shows the
    keys.
    """
    parts: list[RenderableType] = [
        device(one, width, {} if mapping is None else uses(mapping, one)) for one in found
    ]
    if missing:
        parts.append(Text(missing, style="yellow"))
    if live:
        parts += [Text(line, style="yellow") for line in news]
        parts.append(keys(_KEYS))
    return Group(*parts)


def device(one: Described, width: int, does: Mapping[str, str]) -> RenderableType:
    counts = ", ".join(
        f"{len(things)} {one_of if len(things) == 1 else many}"
        for one_of, many, things in (
            ("axis", "axes", one.axes),
            ("button", "buttons", one.buttons),
            ("hat", "hats", one.hats),
        )
    )
    order = f", number {one.order} of its model" if one.order > 1 else ""
    about = Text(
        f"GUID {one.guid}{order}\n{counts}; {'rumbles' if one.rumble else 'does not rumble'}"
    )
    about.append(f"; {'gamepad' if one.gamepad is not None else 'joystick'}")
    table = Table.grid(padding=(0, 1))
    for k, position in enumerate(one.axes):
        table.add_row(f"axis {k}", bar(position), f"{position:+.3f}")
    held = [str(k) for k, down in enumerate(one.buttons) if down]
    if one.buttons:
        table.add_row("buttons", " ".join(held) or "none pressed", "")
    for k, (right, up) in enumerate(one.hats):
        table.add_row(f"hat {k}", _points(right, up), "")
    used = Table.grid(padding=(0, 1))
    for control, use in does.items():
        used.add_row(Text(control, style="reverse" if control in one.held else ""), Text(use))
    parts: list[RenderableType] = [about, table, *([used] if does else [])]
    if one.gamepad:
        mapped = " ".join(f"{name}:{here}" for name, here in one.gamepad.items() if here)
        parts.append(Text(f"gamepad mapping {mapped}", style="dim"))
    title = Text(f"{one.number}: {one.name}")  # not markup: a device's name may contain brackets
    return Panel(Group(*parts), title=title, title_align="left", width=width)


def _points(right: int, up: int) -> str:
    words = [("left", "", "right")[right + 1], ("down", "", "up")[up + 1]]
    return " ".join(word for word in words if word) or "middle"


def step_screen(calibration: Calibration, look: DeviceSample, said: str) -> RenderableType:
    kind, name = calibration.step
    number, count = calibration.count
    signal = calibration.values[name] if name else None
    about = f" ({signal.description})" if signal is not None and signal.description else ""
    asked = _ASKED[kind].format(name=name, about=about)
    parts: list[RenderableType] = [
        Text(f"step {number} of {count}", style="dim"),
        Text(asked, style="bold"),
        Text(said, style="yellow"),
        Text(),
        axes(look, calibration.moving if kind in (PLUS, MINUS) else None),
        Text(),
        keys(_STEP_KEYS if kind in (PLUS, MINUS) else (_STEP_KEYS[0], *_STEP_KEYS[2:])),
    ]
    return Group(*parts)


def axes(look: DeviceSample, moving: tuple[int, int] | None) -> RenderableType:
    table = Table.grid(padding=(0, 1))
    for number, stick in sorted(look.sticks.items()):
        table.add_row(Text(f"{number}: {stick.name}", style="bold"))
        for k, position in enumerate(stick.axes):
            named = f"{GAMEPAD_AXES[k]}" if stick.kind == "gamepad" else f"axis {k}"
            marked = "<" if (number, k) == moving else ""
            table.add_row(f"  {named}", bar(position), f"{position:+.3f}", marked)
    return table


def keys(known: Sequence[tuple[str, str]]) -> Text:
    return Text("   ".join(f"{key} {does}" for key, does in known), style="dim")


_LOOK_S = 0.005
_DRAWN_EACH = 8
"""Number of samples per screen update, which gives 25 updates per second."""
_SETTLE = 20
"""Number of samples to discard at the start, because SDL reports zeros first."""
_LEAVE = ("q", "Q", "x", "\x1b", "\x03", "\x04")
_SHAKE_MS = 400
_SDL = "pygame", "pilot", "a joystick"


class NoJoystick(RtsimError):
    """Raised if no joystick or gamepad was found, or if no signal was calibrated."""


@click.group(invoke_without_command=True)
@click.option("--once", is_flag=True, help="Print the devices once and exit.")
@click.option(
    "--mapping", "path", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE.toml",
    help="Show the effect of each control in this mapping.  [default: rtsim's own mapping]",
)  # fmt: skip
@click.option(
    "--scenario", default="f16", show_default=True,
    help="Show the effect of each control in this scenario.",
)  # fmt: skip
@json_option
@click.pass_context
@reports_errors
def joystick(
    ctx: click.Context, once: bool, path: Path | None, scenario: str, as_json: bool
) -> None:
    """Show joysticks and gamepads: live positions, and the effect of each axis, button and hat.

    'calibrate' writes a mapping file.

    \b
    Examples:
      rtsim joystick
      rtsim joystick --once --mapping joystick.toml
      rtsim joystick calibrate f16 --mapping joystick.toml
    """
    if ctx.invoked_subcommand is not None:
        given = ctx.get_parameter_source("scenario") is not ParameterSource.DEFAULT
        if once or as_json or path is not None or given:
            raise ScenarioError(
                "--once, --mapping, --scenario and --json do not work with "
                f"{ctx.invoked_subcommand}; leave them out, or write them after "
                f"{ctx.invoked_subcommand}"
            )
        return
    installed(*_SDL)
    screen = not (once or as_json)
    if screen and not is_terminal():
        raise ScenarioError(
            "rtsim joystick needs a terminal; without a terminal, type: rtsim joystick --once"
        )
    stick = stick_of(scenario)
    mapping = own_mapping(stick) if path is None else read_mapping(path, stick)
    with open_devices() as devices:
        if screen:
            with sigterm_interrupts(), keyboard() as read:
                watch(devices, read, Console(highlight=False), mapping)
            return
        clock = WallClock(spin_ns=0)
        for k in range(_SETTLE):
            devices.look()
            clock.wait_until(k * round(_LOOK_S * 1e9))
        found = devices.describe()
        if not found:
            raise NoJoystick(why_none())
        if as_json:
            plain = [{**one.to_plain(), "does": uses(mapping, one)} for one in found]
            show_result({"devices": plain})
        else:
            out = Console(highlight=False)
            out.print(listing(found, devices.news, out.width, mapping=mapping))


@joystick.command()
@click.argument("scenario", default="f16")
@click.option(
    "--mapping", "path", type=click.Path(path_type=Path, dir_okay=False),
    default=Path("joystick.toml"), show_default=True, metavar="FILE.toml",
    help="Mapping file to write.",
)  # fmt: skip
@option("--force", help="Overwrite an existing mapping file.")
@reports_errors
def calibrate(scenario: str, path: Path, force: bool) -> None:
    """Measure the axes of a device and write a mapping file for 'rtsim fly --mapping FILE.toml'.

    The command asks you to move one control for each input signal of the scenario. From these
    movements, the command measures each axis, its end positions, and its noise at rest.

    \b
    Examples:
      rtsim joystick calibrate
      rtsim joystick calibrate f16 --mapping my_stick.toml --force
    """
    installed(*_SDL)
    if path.exists() and not force:
        raise ScenarioError(
            f"{path} exists already; add --force to overwrite it, or --mapping OTHER.toml"
        )
    if not is_terminal():
        raise ScenarioError(
            "rtsim joystick calibrate asks questions and therefore needs a terminal; type the "
            "command in a terminal"
        )
    stick = stick_of(scenario)
    with open_devices() as devices, sigterm_interrupts(), keyboard() as read:
        told = ask(devices, read, Console(highlight=False), stick, path)
    click.echo(told)
    flown = f"rtsim fly {scenario} --mapping {path}"
    click.echo(f"{path} is written; to use it, type: {flown}")


def stick_of(scenario: str) -> Signals:
    """Return the signals of ``scenario`` that a person controls.

    Raises ``ScenarioError`` if a scenario does not have exactly one external input for a joystick.
    """
    from rtsim.cli.fly import external_input_of
    from rtsim.pilot.views import FLYABLES, Flyable
    from rtsim.scenario.loading import load_scenario
    from rtsim.scenario.standard_components import ExternalInputComponent

    flyable = FLYABLES.get(scenario, Flyable(scenario))
    loaded = load_scenario(flyable.scenario, {})
    name = flyable.stick or external_input_of(loaded)
    return loaded.of(ExternalInputComponent)[name].external_input.signals


@contextmanager
def open_devices() -> Iterator[Devices]:
    """Context manager that yields the joysticks and gamepads."""
    from rtsim.pilot.viewer.window import close_window, open_window

    open_window("rtsim joystick", hidden=True, size=(16, 16))
    from rtsim.pilot.devices.sdl import Devices

    devices = Devices()
    try:
        yield devices
    finally:
        devices.close()
        close_window()


def watch(
    devices: Devices, read: Read, console: Console, mapping: DeviceMapping | None = None
) -> None:
    """Show the positions and functions of all controls until a key is pressed."""
    news: list[str] = []

    def frame() -> RenderableType:
        news.extend(devices.news)
        devices.news.clear()
        found = devices.describe()
        missing = "" if found else why_none()
        return listing(found, news[-3:], console.width, missing, live=True, mapping=mapping)

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


def calibrated_values(stick: Signals) -> Signals:
    """Return the input signals that an axis of a joystick can control."""
    tables = own_tables(stick)
    axes = {"joystick", "gamepad"}
    return Signals(*(s for s in stick if s.name not in tables or axes & tables[s.name].keys()))


def ask(devices: Devices, read: Read, console: Console, stick: Signals, path: Path) -> str:
    """Calibrate the axes in a dialog, and write the mapping file ``path``."""
    values = calibrated_values(stick)
    calibration, said, looks = Calibration(values), "", 0
    with Live(console=console, screen=True, auto_refresh=False) as live:
        while not calibration.done:
            look = devices.look()
            calibration.look(look)
            if looks % _DRAWN_EACH == 0:
                missing = "" if look.sticks else why_none()
                live.update(step_screen(calibration, look, said or missing), refresh=True)
            looks += 1
            key = next(iter(read(_LOOK_S)), "")  # only one key may answer a question
            if key in _LEAVE:
                raise KeyboardInterrupt(f"the calibration was cancelled, so {path} was not changed")
            if key in ("\r", "\n"):
                said = calibration.go_on()
            elif key in ("s", "S"):
                said = calibration.skip()
            elif key in ("b", "B"):
                calibration, said = Calibration(values), ""
    return write(calibration, stick, path)


def write(calibration: Calibration, stick: Signals, path: Path) -> str:
    """Write and check the mapping file, and return its contents as lines of text.

    Raises :class:`NoJoystick` if no signal was calibrated.
    """
    found = calibration.found
    if not found:
        raise NoJoystick(f"every signal was skipped, so {path} was not changed")
    lines = []
    for name, one in found.items():
        low, middle, high = one.source.span
        middle_text = f", centre {middle:+.3f}" if one.springs else ", a lever"
        lines.append(
            f"{name}: axis {one.source.axis} of {one.device}, {low:+.3f} to {high:+.3f}"
            f"{middle_text}, noise {one.noise:.4f}, dead zone {one.source.dead_zone:g}"
            + (", inverted" if one.source.invert else "")
        )
    lines += [
        f"several devices have the name {name}: number tells them apart, in the order in which "
        "they are plugged in"
        for name in calibration.twins()
    ]
    remarks = ["Written by 'rtsim joystick calibrate'; you may edit it.", *lines]
    text = mapping_text(calibrated(own_tables(stick), found, stick), remarks, stick)
    before = path.read_text(encoding="utf-8") if path.exists() else None
    path.write_text(text, encoding="utf-8")
    try:
        read_mapping(path, stick)
    except RtsimError:  # an internal error: restore the older file, which is usable
        if before is not None:
            path.write_text(before, encoding="utf-8")
        raise
    return "\n".join(lines)
