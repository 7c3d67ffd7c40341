"""Rigs as data: signals at the pins of an I/O node, and emulated devices."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum
from pathlib import Path

from hitl.boards import parse_url
from hitl.boards.description import BoardDescription, IoNode, ranges
from hitl.boards.known import DEFAULT_BOARD
from hitl.bus_devices.device import BusFault
from hitl.firmware.arduino_sketch import image_of_sketch
from hitl.interface import Field, Interface, InterfaceError
from hitl.interface.file import is_sketch
from rtsim.core.errors import RtsimError, ScenarioError
from rtsim.core.tag import NS_PER_S, Period
from rtsim.core.toml import Lines

# The order of the pins gives the pin numbers of firmware/io_node/io_node.h.

PINS = (*(f"D{n}" for n in range(2, 14)), *(f"A{n}" for n in range(6)))
"""Usable pins, as printed on the board; D0 and D1 are the serial line."""
NUMBER = {name: number for number, name in enumerate(PINS)}
ADC_PINS = PINS[12:]
MOST_PULSES = 4
"""Greatest number of pins with time-stamped edges."""
NO_PIN = 255
CLOCK_HZ = DEFAULT_BOARD.clock_hz
SUPPLY_V = DEFAULT_BOARD.require_pins().volts
ADC_STEPS = 1024
DUTY_STEPS = 255
assert DEFAULT_BOARD.io_node is not None
INTERFACE = DEFAULT_BOARD.io_node.interface
"""Interface file of the I/O node's firmware on the default board. All boards have the same signals.
"""


class NodeKind(IntEnum):
    """Kinds of pins, with their numbers in the firmware."""

    UNUSED, DIGITAL_OUT, PWM_OUT, DIGITAL_IN, PULLED_UP, ADC_IN = range(6)


TO_PINS = ("digital_out", "pwm_out")
FROM_PINS = ("digital_in", "adc_in", "pulse_in")
MEASURES = ("rise", "fall", "width", "count")

_UNFIT = {
    "D0": "D0 and D1 are the serial line to the host",
    "D1": "D0 and D1 are the serial line to the host",
}


def unfit(pin: str, kind: str, node: IoNode) -> str:
    """Return why ``pin`` of ``node`` cannot have ``kind``, or "".

    The text also proposes other pins.
    """
    if pin not in NUMBER:
        if pin in _UNFIT:
            return f"{_UNFIT[pin]}; choose D2 to D13 or A0 to A5"
        near = difflib.get_close_matches(str(pin).upper(), PINS, n=1)
        hint = f"did you mean {near[0]}?" if near else "choose D2 to D13 or A0 to A5"
        return f"the I/O node has no pin {pin!r}; {hint}"
    if kind == "pwm_out" and pin not in node.pwm:
        why = f": {node.no_pwm[pin]}" if pin in node.no_pwm else ""
        return f"{pin} cannot make PWM{why}; choose {' or '.join(node.pwm)}"
    if kind == "pulse_in" and pin not in node.stamped:
        return f"{pin} gets no time stamps on this board; choose {ranges(node.stamped)}"
    if kind == "adc_in" and pin not in ADC_PINS:
        return f"{pin} has no ADC channel; choose A0 to A5"
    return ""


_NODE_KINDS = {
    "digital_out": NodeKind.DIGITAL_OUT,
    "pwm_out": NodeKind.PWM_OUT,
    "digital_in": NodeKind.DIGITAL_IN,
    "pulse_in": NodeKind.DIGITAL_IN,
    "adc_in": NodeKind.ADC_IN,
}
NODE = "node"
"""Name of the I/O node in the descriptions of wires."""
MAX_PACE, _REAL_TIME = "max", "1"
_HOLD = "or set hold = true in the rig file if all devices at its pins can wait"


@dataclass(frozen=True)
class Channel:
    """A signal at a pin; ``field`` contains its raw type and its scale."""

    field: Field
    pin: str
    kind: str
    measure: str = ""
    """Measure of a ``pulse_in`` signal: rise, fall, width or count; otherwise ""."""
    safe: float = 0.0
    """Fail-safe value of a signal in ``[to_pins]``, as a raw value of the firmware."""
    pull_up: bool = False

    @property
    def name(self) -> str:
        return self.field.signal.name

    @property
    def node_kind(self) -> NodeKind:
        return NodeKind.PULLED_UP if self.pull_up else _NODE_KINDS[self.kind]


@dataclass(frozen=True)
class LowPass:
    """A low pass in a wire: a resistor (ohm) and a capacitor (F)."""

    resistance: float
    capacitance: float

    @property
    def time_constant(self) -> float:
        return self.resistance * self.capacitance


@dataclass(frozen=True)
class RigEnd:
    """A pin of a board in the rig."""

    board: str
    pin: str

    def __str__(self) -> str:
        return f"{self.board}.{self.pin}"


@dataclass(frozen=True)
class RigWire:
    """A wire from an output pin to an input pin, if desired with a low pass."""

    source: RigEnd
    target: RigEnd
    low_pass: LowPass | None = None


@dataclass(frozen=True)
class RigDevice:
    """A device under test: an emulated board with its firmware."""

    name: str
    board: str
    firmware: Path
    """An Intel HEX file, or an Arduino sketch."""

    @property
    def table(self) -> str:
        return f"devices.{self.name}"


@dataclass(frozen=True)
class BusSignal:
    """A signal that sets a quantity of a bus device: quantity = signal * scale + offset."""

    field: Field
    device: str
    quantity: str
    scale: float
    offset: float

    @property
    def name(self) -> str:
        return self.field.signal.name


@dataclass(frozen=True)
class RigBusDevice:
    """A simulated device on a bus of an emulated board."""

    name: str
    kind: str
    """Name in :data:`hitl.bus_devices.DEVICES`."""
    board: str
    bus: str
    address: int
    """Address of an I2C device, or 0."""
    select: str
    """Pin of the board that selects an SPI device, or ""."""
    pins: Mapping[str, str]
    """Pins of the board that the outputs of the device drive, by output."""
    options: Mapping[str, float]
    signals: tuple[BusSignal, ...]
    constants: tuple[tuple[str, float], ...]

    @property
    def at(self) -> str:
        """Names of the board and the bus, such as ``controller.i2c``."""
        return f"{self.board}.{self.bus}"


@dataclass(frozen=True)
class RigBusFault:
    """A fault on a bus such as ``"controller.i2c"``."""

    bus: str
    fault: BusFault

    @property
    def in_words(self) -> str:
        """Kind and place of the fault, such as ``nack_address at controller.i2c (imu)``."""
        at = f"{self.bus} ({self.fault.device})" if self.fault.device else self.bus
        return f"{self.fault.kind} at {at}"


@dataclass(frozen=True)
class Rig:
    """The contents of a rig file."""

    path: Path
    name: str
    board: str
    """URL of the I/O node."""
    baud: int
    watchdog_ms: int
    """Silence of the host (ms) after which the I/O node sets the fail-safe values."""
    hold: bool
    """True if the devices at the pins can wait while the simulation is paused."""
    to_pins: tuple[Channel, ...]
    from_pins: tuple[Channel, ...]
    devices: tuple[RigDevice, ...]
    wires: tuple[RigWire, ...]
    slice_ns: int
    """Slice of the emulated boards (ns), which is also the delay of a wire."""
    settle_ns: int
    """Time (ns) that emulated boards run with fail-safe values before the run begins."""
    lines: Lines = field(repr=False, compare=False)
    bus_devices: tuple[RigBusDevice, ...] = ()
    bus_faults: tuple[RigBusFault, ...] = ()

    @property
    def bus_signals(self) -> tuple[BusSignal, ...]:
        """All signals for quantities of bus devices. As inputs, they follow ``to_pins``."""
        return tuple(s for device in self.bus_devices for s in device.signals)

    @property
    def channels(self) -> tuple[Channel, ...]:
        """All channels: signals to pins, then signals from pins."""
        return self.to_pins + self.from_pins

    @property
    def pulse_pins(self) -> tuple[str, ...]:
        """The pins whose edges get time stamps."""
        pins = (c.pin for c in self.from_pins if c.kind == "pulse_in")
        return tuple(dict.fromkeys(pins))

    def interface(self, period: Period) -> Interface:
        """Return the rig as the interface of a controller.

        The inputs are the signals to pins and to bus devices. The outputs are the signals from the
        pins.
        """
        return Interface(
            path=self.path, variant="", name=self.name, period=period, sources=(), headers=(),
            include=(), flags=(), libraries=(), objects=(), initialize=(), steps=(), terminate=(),
            parameters_first=False,
            input_fields=(
                *(c.field for c in self.to_pins), *(s.field for s in self.bus_signals)
            ),
            output_fields=tuple(c.field for c in self.from_pins),
            parameter_fields=(), tolerances={}, lines=self.lines,
        )  # fmt: skip

    def parameters(self) -> dict[str, list[int] | int]:
        """Return the parameters of the I/O node's firmware."""
        kinds, safe = [int(NodeKind.UNUSED)] * len(PINS), [0] * len(PINS)
        for channel in self.channels:
            kinds[NUMBER[channel.pin]] = int(channel.node_kind)
        for channel in self.to_pins:
            safe[NUMBER[channel.pin]] = int(channel.safe)
        pulses = [NUMBER[pin] for pin in self.pulse_pins]
        pulses += [NO_PIN] * (MOST_PULSES - len(pulses))
        return {"kinds": kinds, "safe": safe, "pulses": pulses, "watchdog": self.watchdog_ms}

    def on(self, url: str) -> Rig:
        """Return the same rig with the I/O node at ``url``.

        Raises :class:`hitl.boards.contract.BoardError` for a malformed URL.
        """
        baud = parse_url(url).baud or self.baud
        bare, _, query = url.partition("?")
        rest = "&".join(part for part in query.split("&") if part and not part.startswith("baud="))
        return replace(self, board=f"{bare}?{rest}" if rest else bare, baud=baud)

    def images(self) -> dict[str, Path]:
        """Compile the sketches; return the Intel HEX file of each device by name.

        Raises ``InterfaceError`` for a sketch with errors.
        """
        return {device.name: self._image(device) for device in self.devices}

    def _image(self, device: RigDevice) -> Path:
        if not is_sketch(device.firmware):
            return device.firmware
        try:
            board = parse_url(device.board).description
            return image_of_sketch(device.firmware, board).path
        except RtsimError as error:
            raise self.error(device, str(error)) from error

    def error(self, device: RigDevice, text: str) -> InterfaceError:
        """Return an error about the firmware of a device, with file and line."""
        line = self.lines.of(device.table, "firmware")
        return InterfaceError(f"{self.lines.path}:{line}: {device.table}: {text}")

    @property
    def description(self) -> BoardDescription:
        """The description of the I/O node's board."""
        return parse_url(self.board).description

    @property
    def url(self) -> str:
        """URL of the I/O node, with its bit rate."""
        return f"{self.board}{'&' if '?' in self.board else '?'}baud={self.baud}"

    def at(self, pin: str) -> Iterator[Channel]:
        return (c for c in self.channels if c.pin == pin)

    @property
    def free_running(self) -> bool:
        """True for a real board, which cannot be paused."""
        return not parse_url(self.board).emulated

    def pace_for(self, asked: str | None) -> str:
        """Return the pace ``asked``, or the default pace of the rig.

        Raises ``ScenarioError`` if the rig cannot follow the pace.
        """
        if not self.free_running:
            if asked not in (None, MAX_PACE):
                raise ScenarioError(
                    f"--pace {asked}: {self.name} is emulated and runs in lockstep with the "
                    "simulation; remove --pace"
                )
            return MAX_PACE
        if self.hold:
            return _REAL_TIME if asked is None else asked
        if asked is None:
            return _REAL_TIME
        if asked == MAX_PACE:
            raise ScenarioError(
                f"--pace max: {self.name} at {self.board} runs by its own clock and can neither "
                f"run faster nor wait; use --pace 1, {_HOLD}"
            )
        if _rate(asked) != 1.0:
            raise ScenarioError(
                f"--pace {asked}: {self.name} at {self.board} runs by its own clock, at rate 1; "
                f"use --pace 1, {_HOLD}"
            )
        return asked

    def check_watchdog(self, period: Period) -> None:
        """Raise ``InterfaceError`` if the watchdog of the rig is not longer than the period."""
        if self.watchdog_ms * NS_PER_S // 1000 <= period.ns:
            raise InterfaceError(
                f"{self.lines.path}:{self.lines.of('', 'watchdog')}: "
                f"watchdog = {self.watchdog_ms / 1000:g} s is not longer than the controller's "
                f"period of {float(period.ns) / NS_PER_S:g} s; give, for example, twice the period",
            )


def _rate(asked: str) -> float:
    try:
        return float(asked)
    except ValueError:
        raise ScenarioError(
            f"--pace {asked!r} is not a pace; give 'max' or a rate such as 1"
        ) from None
