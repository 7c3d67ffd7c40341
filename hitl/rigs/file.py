"""The rig file: a TOML that says once what is at the pins of an I/O node.

::

    name = "illumination"
    watchdog = 0.1                     # s of silence, then the safe values

    [node]
    board = "board:uno"                # or serial:///dev/ttyACM0
    baud = 500000

    [to_pins]
    light = { pin = "D3", kind = "pwm_out", unit = "lx", per_duty = 1000, high = 1000, safe = 1000 }

    [from_pins]
    lamp = { pin = "D2", kind = "digital_in" }
    lamp_on_at = { pin = "D2", kind = "pulse_in", measure = "rise" }    # s

    [devices.sensor]                   # emulated, with its own firmware
    firmware = "illumination.hex"

    [[wires]]
    from = "node.D3"
    to = "sensor.A0"
    resistance = 10e3                  # ohm; with a capacitance a low pass
    capacitance = 1e-6                 # F

What goes to a pin has a safe value; all are limited by ``low`` and ``high``.  Errors name the line.
"""

from __future__ import annotations

import math
import re
import tomllib
from pathlib import Path
from typing import Any

from hitl.boards import BoardError, parse_url
from hitl.boards.urls import BAUD
from hitl.interface.fields import number
from hitl.interface.lines import InterfaceError, Lines
from hitl.interface.tables import Table
from hitl.protocol.line import BaudRate
from hitl.rigs.channels import FROM_KEYS, TO_KEYS, read_channel
from hitl.rigs.pins import MOST_PULSES
from hitl.rigs.rig import NODE, Channel, Rig, RigDevice
from hitl.rigs.wires import read_wires
from rtsim.core.errors import RtsimError, ScenarioError
from rtsim.core.tag import to_ns

_TOP = (
    "name", "watchdog", "hold", "node", "to_pins", "from_pins", "devices", "wires", "emulation",
)  # fmt: skip
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,62}\Z")
MOST_BYTES = 1 << 20
WATCHDOG_S = (0.002, 60.0)
SLICE_S = (1e-5, 1e-2)
DEFAULT_SLICE_S = 2e-4
SETTLE_S = (0.0, 60.0)


def load_rig(path: str | Path) -> Rig:
    """Read a rig file; :class:`InterfaceError` names file and line."""
    path = Path(path)
    try:
        if path.stat().st_size > MOST_BYTES:
            raise InterfaceError(f"{path}: more than {MOST_BYTES} bytes; no rig file?")
        text = path.read_text(encoding="utf-8").replace("\r\n", "\n")
    except OSError as error:
        raise InterfaceError(
            f"{path}: {error.strerror}; give the path of a rig file, such as illumination.toml"
        ) from None
    except UnicodeDecodeError as error:
        raise InterfaceError(f"{path}: not UTF-8 text at byte {error.start}") from None
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InterfaceError(f"{path}: not TOML: {error}") from None
    except RecursionError:
        raise InterfaceError(f"{path}: nests too deep to be a rig file") from None
    return _Reader(path.resolve(), data, Lines(path, text)).rig()


class _Reader:
    def __init__(self, path: Path, data: dict[str, Any], lines: Lines) -> None:
        self.path, self.lines = path, lines
        self.top = Table(lines, "", data, _TOP)

    def rig(self) -> Rig:
        board, baud = self._node()
        to_pins = self._channels("to_pins", TO_KEYS)
        from_pins = self._channels("from_pins", FROM_KEYS)
        if not to_pins and not from_pins:
            raise self.top.error("to_pins", "neither [to_pins] nor [from_pins]: nothing is wired")
        self._apart(to_pins, from_pins)
        devices = self._devices()
        emulation = Table(self.lines, "emulation", self.top.table("emulation"), ("slice", "settle"))
        rig = Rig(
            path=self.path,
            name=self._name(),
            board=board,
            baud=baud,
            watchdog_ms=round(1000 * self._seconds(self.top, "watchdog", None, WATCHDOG_S)),
            hold=self._flag("hold"),
            to_pins=to_pins,
            from_pins=from_pins,
            devices=devices,
            wires=(),
            slice_ns=to_ns(self._seconds(emulation, "slice", DEFAULT_SLICE_S, SLICE_S)),
            settle_ns=to_ns(self._seconds(emulation, "settle", 0.0, SETTLE_S)),
            lines=self.lines,
        )
        return read_wires(self.lines, self.top.data.get("wires", []), rig)

    def _name(self) -> str:
        name = self.top.text("name")
        if not _NAME.match(name):
            raise self.top.error("name", f"name {name!r}: letters, digits and _, at most 63")
        return name

    def _flag(self, key: str) -> bool:
        value = self.top.data.get(key, False)
        if not isinstance(value, bool):
            raise self.top.error(key, f"{key} = {value!r}; write true or false")
        return value

    def _seconds(
        self, table: Table, key: str, default: float | None, limits: tuple[float, float]
    ) -> float:
        value = table.data.get(key, default)
        low, high = limits
        try:
            seconds = number(value)
        except (TypeError, ValueError, ZeroDivisionError):
            seconds = math.nan
        if not low <= seconds <= high:
            what = f"no {key}" if value is None else f"{key} = {value!r}"
            raise table.error(key, f"{what}; give seconds from {low:g} to {high:g}")
        return seconds

    def _node(self) -> tuple[str, int]:
        table = Table(self.lines, NODE, self.top.table(NODE), ("board", "baud"))
        url = table.text("board") if "board" in table.data else "board:uno"
        baud = table.data.get("baud", BAUD)
        key = "board"
        try:
            if parse_url(url).baud is not None:
                raise ScenarioError(f"{url} names a rate; write it as baud = ... on its own line")
            key = "baud"
            if isinstance(baud, bool) or not isinstance(baud, int):
                raise ScenarioError(f"baud = {baud!r} is no whole number")
            if not BaudRate(baud).good:
                raise ScenarioError(str(BaudRate(baud)))
        except RtsimError as error:
            raise table.error(key, str(error)) from None
        return url, baud

    def _channels(self, name: str, keys: tuple[str, ...]) -> tuple[Channel, ...]:
        return tuple(
            read_channel(self.lines, name, signal, row, keys)
            for signal, row in self.top.table(name).items()
        )

    def _apart(self, to_pins: tuple[Channel, ...], from_pins: tuple[Channel, ...]) -> None:
        """A pin is driven by one signal, and what is read is read in one way."""
        driven: dict[str, Channel] = {}
        for channel in to_pins:
            if other := driven.get(channel.pin):
                text = f"{channel.name}: {channel.pin} is driven by {other.name} already"
                raise self.lines.error("to_pins", channel.name, text)
            driven[channel.pin] = channel
        read: dict[str, Channel] = {}
        for channel in from_pins:
            other = driven.get(channel.pin) or read.setdefault(channel.pin, channel)
            if other.node_kind is not channel.node_kind:
                text = f"{channel.name}: {channel.pin} is {other.kind} of {other.name} already"
                raise self.lines.error("from_pins", channel.name, text)
        stamped = dict.fromkeys(c.pin for c in from_pins if c.kind == "pulse_in")
        if len(stamped) > MOST_PULSES:
            last = next(c.name for c in from_pins if c.pin == list(stamped)[MOST_PULSES])
            text = f"{last}: the edges of {MOST_PULSES} pins are stamped at most"
            raise self.lines.error("from_pins", last, text)
        names = {c.name for c in to_pins} & {c.name for c in from_pins}
        if names:
            name = min(names)
            raise self.lines.error("from_pins", name, f"{name} is in [to_pins] too; rename one")

    def _devices(self) -> tuple[RigDevice, ...]:
        out = []
        for name, row in self.top.table("devices").items():
            if not isinstance(row, dict) or not _NAME.match(name) or name == NODE:
                text = f"write [devices.{name}] with firmware = '...'; {NODE} is the I/O node"
                raise self.lines.error("devices", name, text)
            table = Table(self.lines, f"devices.{name}", row, ("firmware", "board"))
            firmware = (self.path.parent / table.text("firmware")).resolve()
            if not firmware.is_file():
                text = f"no file {firmware}; paths are relative to {self.path.parent}"
                raise table.error("firmware", text)
            board = table.text("board") if "board" in row else "board:uno"
            try:
                emulated = parse_url(board).emulated
            except BoardError as error:
                raise table.error("board", str(error)) from None
            if not emulated:
                raise table.error("board", f"{board}: only an emulated board can be wired here")
            out.append(RigDevice(name, board, firmware))
        return tuple(out)
