"""A rig: the signals at the pins of an I/O node, and the emulated devices wired to it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from hitl.boards import parse_url
from hitl.boards.description import BoardDescription
from hitl.bus_devices.faults import BusFault
from hitl.interface import Field, Interface
from hitl.interface.lines import Lines
from hitl.rigs.pins import MOST_PULSES, NO_PIN, NUMBER, PINS, NodeKind
from rtsim.core.tag import Period

_NODE_KINDS = {
    "digital_out": NodeKind.DIGITAL_OUT,
    "pwm_out": NodeKind.PWM_OUT,
    "digital_in": NodeKind.DIGITAL_IN,
    "pulse_in": NodeKind.DIGITAL_IN,
    "adc_in": NodeKind.ADC_IN,
}
NODE = "node"
"""Name of the I/O node in wires."""


@dataclass(frozen=True)
class Channel:
    """A signal at a pin; ``field`` has its raw type on the line and its scale."""

    field: Field
    pin: str
    kind: str
    measure: str = ""
    """For ``pulse_in``: rise, fall, width or count; else ""."""
    safe: float = 0.0
    """Fail-safe value of a signal in ``[to_pins]``, as the firmware's raw value."""
    pull_up: bool = False

    @property
    def name(self) -> str:
        """Name of the signal."""
        return self.field.signal.name

    @property
    def node_kind(self) -> NodeKind:
        """Kind of the pin in the firmware."""
        return NodeKind.PULLED_UP if self.pull_up else _NODE_KINDS[self.kind]


@dataclass(frozen=True)
class LowPass:
    """A low pass: a resistor (ohm) in the wire, and a capacitor (F) from its end to ground."""

    resistance: float
    capacitance: float

    @property
    def time_constant(self) -> float:
        """Time constant RC, s."""
        return self.resistance * self.capacitance


@dataclass(frozen=True)
class RigEnd:
    """A pin of a board of the rig."""

    board: str
    pin: str

    def __str__(self) -> str:
        return f"{self.board}.{self.pin}"


@dataclass(frozen=True)
class RigWire:
    """A wire from the pin that drives it to the pin that reads it, possibly with a low pass."""

    source: RigEnd
    target: RigEnd
    low_pass: LowPass | None = None


@dataclass(frozen=True)
class RigDevice:
    """A board with firmware of its own: the device under test."""

    name: str
    board: str
    firmware: Path


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
        """Name of the signal."""
        return self.field.signal.name


@dataclass(frozen=True)
class RigBusDevice:
    """A simulated device at a bus of an emulated board."""

    name: str
    kind: str
    """Name in :data:`hitl.bus_devices.known.DEVICES`."""
    board: str
    bus: str
    address: int
    """Address on an I2C bus."""
    select: str
    """Pin of the board that selects the device on an SPI bus."""
    pins: Mapping[str, str]
    """Pin of the board that each output of the device drives."""
    options: Mapping[str, float]
    signals: tuple[BusSignal, ...]
    constants: tuple[tuple[str, float], ...]

    @property
    def at(self) -> str:
        """Board and bus, as in the file."""
        return f"{self.board}.{self.bus}"


@dataclass(frozen=True)
class RigBusFault:
    """A fault of the bus ``bus``, such as ``"controller.i2c"``."""

    bus: str
    fault: BusFault

    @property
    def in_words(self) -> str:
        """Kind and place, such as ``nack_address at controller.i2c (imu)``."""
        at = f"{self.bus} ({self.fault.device})" if self.fault.device else self.bus
        return f"{self.fault.kind} at {at}"


@dataclass(frozen=True)
class Rig:
    """A rig as its file describes it; ``to_pins`` and ``from_pins`` have the order of the file."""

    path: Path
    name: str
    board: str
    """URL of the I/O node."""
    baud: int
    watchdog_ms: int
    """Silence of the host after which the I/O node sets the fail-safe values, ms."""
    hold: bool
    """True if the devices at the pins can wait while the simulation is paused."""
    to_pins: tuple[Channel, ...]
    from_pins: tuple[Channel, ...]
    devices: tuple[RigDevice, ...]
    wires: tuple[RigWire, ...]
    slice_ns: int
    """Slice of the emulated boards, which is the delay of a wire, ns."""
    settle_ns: int
    """Time that emulated boards run with fail-safe values before the run begins, ns."""
    lines: Lines = field(repr=False, compare=False)
    bus_devices: tuple[RigBusDevice, ...] = ()
    bus_faults: tuple[RigBusFault, ...] = ()

    @property
    def bus_signals(self) -> tuple[BusSignal, ...]:
        """All signals that set quantities of bus devices; as inputs they follow ``to_pins``."""
        return tuple(s for device in self.bus_devices for s in device.signals)

    @property
    def channels(self) -> tuple[Channel, ...]:
        """All channels: first the signals to pins, then the signals from pins."""
        return self.to_pins + self.from_pins

    @property
    def pulse_pins(self) -> tuple[str, ...]:
        """Pins whose edges get time stamps, in the order of the firmware's channels."""
        pins = (c.pin for c in self.from_pins if c.kind == "pulse_in")
        return tuple(dict.fromkeys(pins))

    def interface(self, period: Period) -> Interface:
        """Return the rig as an interface.

        Its inputs go to the pins and to the bus devices.  Its outputs come from the pins.
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
        """Return the parameters of the I/O node's firmware, which are sent at START."""
        kinds, safe = [int(NodeKind.UNUSED)] * len(PINS), [0] * len(PINS)
        for channel in self.channels:
            kinds[NUMBER[channel.pin]] = int(channel.node_kind)
        for channel in self.to_pins:
            safe[NUMBER[channel.pin]] = int(channel.safe)
        pulses = [NUMBER[pin] for pin in self.pulse_pins]
        pulses += [NO_PIN] * (MOST_PULSES - len(pulses))
        return {"kinds": kinds, "safe": safe, "pulses": pulses, "watchdog": self.watchdog_ms}

    def on(self, url: str) -> Rig:
        """Return the same rig with its I/O node at ``url``.

        Raises :class:`hitl.boards.contract.BoardError` for a malformed URL.
        """
        baud = parse_url(url).baud or self.baud
        bare, _, query = url.partition("?")
        rest = "&".join(part for part in query.split("&") if part and not part.startswith("baud="))
        return replace(self, board=f"{bare}?{rest}" if rest else bare, baud=baud)

    @property
    def description(self) -> BoardDescription:
        """The description of the I/O node's board."""
        return parse_url(self.board).description

    @property
    def url(self) -> str:
        """URL of the I/O node with its baud rate."""
        return f"{self.board}{'&' if '?' in self.board else '?'}baud={self.baud}"

    def at(self, pin: str) -> Iterator[Channel]:
        """Return the channels at a pin of the I/O node."""
        return (c for c in self.channels if c.pin == pin)
