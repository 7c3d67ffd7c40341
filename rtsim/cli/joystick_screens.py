"""The screens of ``rtsim joystick``: devices with their positions, and a calibration step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from rtsim.pilot.devices.calibration import AGAIN, MINUS, PLUS, REST, Calibration
from rtsim.pilot.devices.device import Described, DeviceSample
from rtsim.pilot.devices.mapping import DeviceMapping, uses
from rtsim.pilot.devices.sources import GAMEPAD_AXES

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
    """Return a line of ``width`` characters with a mark at ``position``, -1 to 1."""
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
    """Return a screen with all devices; with ``live``, it also lists the keys.

    ``mapping`` tells what each control does.
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
    """Return a panel with the name of a device, its controls, their positions and their uses."""
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
    """Return the screen of a calibration step: its question, and all axes with the moving one."""
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
