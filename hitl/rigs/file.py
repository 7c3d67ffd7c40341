"""The rig file: a TOML file that describes the signals and devices at the pins of an I/O node.

::

    name = "illumination"
    watchdog = 0.1                     # s of silence until the fail-safe values are set

    [node]
    board = "board:NAME"               # or serial:///dev/ttyACM0
    baud = 500000

    [to_pins]
    light = { pin = "D3", kind = "pwm_out", unit = "lx", per_duty = 1000, high = 1000, safe = 1000 }

    [from_pins]
    lamp = { pin = "D2", kind = "digital_in" }
    lamp_on_at = { pin = "D2", kind = "pulse_in", measure = "rise" }    # s

    [devices.sensor]                   # an emulated board with its own firmware
    firmware = "illumination.hex"

    [[wires]]
    from = "node.D3"
    to = "sensor.A0"
    resistance = 10e3                  # ohm; forms a low pass with the capacitance
    capacitance = 1e-6                 # F

:mod:`hitl.rigs.buses` describes the tables ``[bus_devices.NAME]`` and ``[[bus_faults]]``.

Each signal to a pin has a fail-safe value.  All signals are limited by ``low`` and ``high``.
Errors name the line.
"""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

from hitl.boards import BoardError, parse_url
from hitl.boards.description import IoNode
from hitl.boards.known import DEFAULT_URL
from hitl.interface.fields import number
from hitl.interface.lines import InterfaceError, Lines, Table
from hitl.protocol.line import BaudRate
from hitl.rigs.buses import read_buses
from hitl.rigs.channels import FROM_KEYS, TO_KEYS, read_channel
from hitl.rigs.pins import MOST_PULSES
from hitl.rigs.rig import NODE, Channel, Rig, RigDevice
from hitl.rigs.wires import read_wires
from rtsim.core import toml
from rtsim.core.errors import RtsimError, ScenarioError
from rtsim.core.tag import to_ns

_TOP = (
    "name", "watchdog", "hold", "node", "to_pins", "from_pins", "devices", "wires", "emulation",
    "bus_devices", "bus_faults",
)  # fmt: skip
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,62}\Z")
MOST_BYTES = 1 << 20
WATCHDOG_S = (0.002, 60.0)
SLICE_S = (1e-5, 1e-2)
DEFAULT_SLICE_S = 2e-4
SETTLE_S = (0.0, 60.0)


def load_rig(path: str | Path) -> Rig:
    """Read the rig file ``path``.  Raises :class:`InterfaceError` with file and line."""
    path = Path(path)
    try:
        if path.stat().st_size > MOST_BYTES:
            raise InterfaceError(
                f"{path}: the file has more than {MOST_BYTES} bytes, the limit of a rig file"
            )
        text = path.read_text(encoding="utf-8").replace("\r\n", "\n")
    except OSError as error:
        raise InterfaceError(
            f"{path}: {error.strerror}; give the path of a rig file, such as illumination.toml"
        ) from None
    except UnicodeDecodeError as error:
        raise InterfaceError(
            f"{path}: the file is not UTF-8 text at byte {error.start}; give a rig file"
        ) from None
    try:
        data = toml.loads(text)
    except toml.TOMLDecodeError as error:
        raise InterfaceError(f"{path}: the file is not valid TOML: {error}") from None
    return _Reader(path.resolve(), data, Lines(path, text)).rig()


class _Reader:
    def __init__(self, path: Path, data: dict[str, Any], lines: Lines) -> None:
        self.path, self.lines = path, lines
        self.top = Table(lines, "", data, _TOP)

    def rig(self) -> Rig:
        board, baud, node = self._node()
        to_pins = self._channels("to_pins", TO_KEYS, node)
        from_pins = self._channels("from_pins", FROM_KEYS, node)
        if not to_pins and not from_pins and not self.top.table("bus_devices"):
            text = "[to_pins] and [from_pins] are missing; name at least one signal at a pin"
            raise self.top.error("to_pins", text)
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
        rig = read_wires(self.lines, self.top.data.get("wires", []), rig)
        faults = self.top.data.get("bus_faults", [])
        return read_buses(self.lines, self.top.table("bus_devices"), faults, rig)

    def _name(self) -> str:
        name = self.top.text("name")
        if not _NAME.match(name):
            text = f"name {name!r} is not an identifier of at most 63 letters, digits and _"
            raise self.top.error("name", text)
        return name

    def _flag(self, key: str) -> bool:
        value = self.top.data.get(key, False)
        if not isinstance(value, bool):
            raise self.top.error(key, f"{key} = {value!r} is not valid; write true or false")
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
            what = f"{key} is missing" if value is None else f"{key} = {value!r} is not valid"
            raise table.error(key, f"{what}; give seconds from {low:g} to {high:g}")
        return seconds

    def _node(self) -> tuple[str, int, IoNode]:
        table = Table(self.lines, NODE, self.top.table(NODE), ("board", "baud"))
        url = table.text("board") if "board" in table.data else DEFAULT_URL
        key = "board"
        try:
            at = parse_url(url)
            board = at.description
            baud = table.data.get("baud", board.line.baud)
            node = board.io_node
            if node is None:
                raise ScenarioError(
                    f"the firmware of the I/O node does not run on {board.phrase}; write "
                    f"{DEFAULT_URL}"
                )
            if at.baud is not None:
                raise ScenarioError(
                    f"{url} contains a baud rate; write baud = ... on a line of its own"
                )
            key = "baud"
            if isinstance(baud, bool) or not isinstance(baud, int):
                raise ScenarioError(f"baud = {baud!r} is not a whole number; write baud = 500000")
            rate = BaudRate.of(board, baud)
            if not rate.good:
                raise ScenarioError(str(rate))
        except RtsimError as error:
            raise table.error(key, str(error)) from None
        return url, baud, node

    def _channels(self, name: str, keys: tuple[str, ...], node: IoNode) -> tuple[Channel, ...]:
        return tuple(
            read_channel(self.lines, name, signal, row, keys, node)
            for signal, row in self.top.table(name).items()
        )

    def _apart(self, to_pins: tuple[Channel, ...], from_pins: tuple[Channel, ...]) -> None:
        """Check that no pin is driven by two signals or used as two kinds of input."""
        driven: dict[str, Channel] = {}
        for channel in to_pins:
            if other := driven.get(channel.pin):
                text = f"{channel.name}: {other.name} already drives {channel.pin}; use another pin"
                raise self.lines.error("to_pins", channel.name, text)
            driven[channel.pin] = channel
        read: dict[str, Channel] = {}
        for channel in from_pins:
            other = driven.get(channel.pin) or read.setdefault(channel.pin, channel)
            if other.node_kind is not channel.node_kind:
                text = (
                    f"{channel.name}: {channel.pin} is already used as {other.kind} by "
                    f"{other.name}; use another pin"
                )
                raise self.lines.error("from_pins", channel.name, text)
        stamped = dict.fromkeys(c.pin for c in from_pins if c.kind == "pulse_in")
        if len(stamped) > MOST_PULSES:
            last = next(c.name for c in from_pins if c.pin == list(stamped)[MOST_PULSES])
            text = f"{last}: the I/O node can time the edges of at most {MOST_PULSES} pins"
            raise self.lines.error("from_pins", last, text)
        names = {c.name for c in to_pins} & {c.name for c in from_pins}
        if names:
            name = min(names)
            text = f"{name} is also in [to_pins]; rename one of them"
            raise self.lines.error("from_pins", name, text)

    def _devices(self) -> tuple[RigDevice, ...]:
        out = []
        for name, row in self.top.table("devices").items():
            if not isinstance(row, dict) or not _NAME.match(name) or name == NODE:
                text = (
                    f"{name} is not a device; write a table [devices.NAME] with firmware = '...' "
                    f"(the name {NODE} is reserved for the I/O node)"
                )
                raise self.lines.error("devices", name, text)
            table = Table(self.lines, f"devices.{name}", row, ("firmware", "board"))
            firmware = (self.path.parent / table.text("firmware")).resolve()
            if not firmware.is_file():
                text = f"there is no file {firmware}; paths are relative to {self.path.parent}"
                raise table.error("firmware", text)
            board = table.text("board") if "board" in row else DEFAULT_URL
            try:
                at = parse_url(board)
            except BoardError as error:
                raise table.error("board", str(error)) from None
            if not at.emulated:
                text = (
                    f"{board} is a real board, but a device must be emulated; write {DEFAULT_URL}"
                )
                raise table.error("board", text)
            out.append(RigDevice(name, board, firmware))
        return tuple(out)
