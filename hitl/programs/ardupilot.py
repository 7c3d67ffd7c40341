"""ArduPilot's SITL programs as a controller, over their JSON interface.

ArduPilot sends the widths of its servo pulses to UDP port 9002, and waits for the state of the
vehicle as a line of JSON. The time in this line is ArduPilot's clock. The interface is described in
``libraries/SITL/examples/JSON/readme.md`` of ArduPilot's source.
"""

from __future__ import annotations

import math
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from hitl.buses.traffic import AWAITED
from hitl.programs.axes import HEXA_X, QUAD_PLUS, QUAD_X, SENSES, Actuator, Axes
from hitl.programs.library import ProgramError
from hitl.programs.program import Program, ProgramPort
from rtsim.components.frames import FrameCodec, FrameError
from rtsim.components.frames.struct_codec import described_structs
from rtsim.core.errors import ScenarioError
from rtsim.core.extension_point import ExtensionPoint
from rtsim.core.signals import Signal, Signals, Undeclared, Vector

_JSON, _RADIO, _SERIAL = 9002, 5501, range(5760, 5770)
_MAGIC = 18458
_CHANNELS = 16
_WIDTH = 25
_COMMON = {
    "ARMING_CHECK": 0, "LOG_BACKEND_TYPE": 0, "RC7_OPTION": 153, "FS_THR_ENABLE": 0,
    "BRD_SAFETY_DEFLT": 0,
}  # fmt: skip
"""Parameters of all airframes: no checks before arming, no log, arming by channel 7."""


@dataclass(frozen=True)
class Airframe:
    """An airframe of ArduPilot: its program, its parameters, and what its servo outputs drive.

    Args:
        program: Name of ArduPilot's program, such as ``arducopter``.
        outputs: Names of the outputs in the order of the channels, with the number of channels, and
            the values at 1000 us and 2000 us.
        actuators: The actuators of the vehicle, each at an output and an element.
        parameters: ArduPilot's parameters, such as ``FRAME_CLASS``.
    """

    program: str
    outputs: Mapping[str, tuple[int, float, float]]
    actuators: tuple[Actuator, ...]
    parameters: Mapping[str, float] = field(default_factory=dict)


def multicopter(rotors: tuple[Actuator, ...], frame_class: int, frame_type: int) -> Airframe:
    """Return a multicopter with the output ``throttle``, 0 to 1 for each rotor."""
    return Airframe(
        "arducopter",
        {"throttle": (len(rotors), 0.0, 1.0)},
        tuple(rotor.at("throttle", k) for k, rotor in enumerate(rotors)),
        {
            "FRAME_CLASS": frame_class,
            "FRAME_TYPE": frame_type,
            "MOT_PWM_MIN": 1000,
            "MOT_PWM_MAX": 2000,
        },
    )


_WIDTHS = {"MIN": 1000, "MAX": 2000}


def _surface(name: str, motion: str) -> Actuator:
    return Actuator(name, name, 0, -1.0, 1.0, {motion: 1}, rest=0.0)


PLANE = Airframe(
    "arduplane",
    {"aileron": (1, -1.0, 1.0), "elevator": (1, -1.0, 1.0), "throttle": (1, 0.0, 1.0),
     "rudder": (1, -1.0, 1.0)},
    (_surface("aileron", "roll"), _surface("elevator", "pitch"), _surface("rudder", "yaw"),
     Actuator("throttle", "throttle", effects={"surge": 1}, rest=0.5)),
    {f"SERVO{k}_{end}": width for k in range(1, 5) for end, width in _WIDTHS.items()},
)  # fmt: skip
"""ArduPlane: a larger value rolls to the right, pitches the nose up and yaws to the right."""


def _checked(name: str, made: object) -> Airframe:
    if not isinstance(made, Airframe):
        raise ScenarioError(f"airframe {name!r} is {made!r}; expected an Airframe")
    return made


AIRFRAMES: ExtensionPoint[Airframe] = ExtensionPoint(
    "rtsim.airframes",
    "airframe",
    {
        "quad_x": multicopter(QUAD_X, 1, 1),
        "quad_plus": multicopter(QUAD_PLUS, 1, 0),
        "hexa_x": multicopter(HEXA_X, 2, 1),
        "plane": PLANE,
    },
    _checked,
)
"""Airframes of :class:`ArduPilot` by name."""


_M_PER_DEG = 111_318.84502145034
"""Length of a degree of latitude in ArduPilot's ``Location``, m."""


class JsonState:
    """The codec of the state of a vehicle, a line of JSON, which is only sent.

    ArduPilot needs a position relative to its home; the codec computes it from latitude, longitude
    and altitude.
    """

    name, identifier, extended, period_ns = "state", 0, False, 0

    def __init__(self, home: tuple[float, float, float, float]) -> None:
        self._home = home
        self.signals = Signals(
            Signal("time", "s"),
            *(Signal(name, unit, shape=(count,), initial=(Undeclared(0.0),) * count)
              for name, unit, count in (("rates", "rad/s", 3), ("specific_force", "m/s2", 3),
                                        ("attitude_ned", "1", 4))),
            *(Signal(f"velocity_{name}", "m/s") for name in ("north", "east", "down")),
            Signal("latitude", "rad"), Signal("longitude", "rad"), Signal("altitude", "m"),
        )  # fmt: skip
        self.length = len(self.encode(self.signals.initial()))

    def encode(self, values: Vector) -> bytes:
        if not np.isfinite(values).all():
            name = self.signals.columns[int(np.argmin(np.isfinite(values)))]
            raise FrameError(f"frame {self.name}: {name} is not finite")
        time, *rest = values.tolist()
        latitude, longitude, altitude, _ = self._home
        north, east = math.degrees(rest[13]) - latitude, math.degrees(rest[14]) - longitude
        east = (east + 180.0) % 360.0 - 180.0
        east *= max(0.01, math.cos(math.radians(latitude + north / 2)))
        position = _M_PER_DEG * north, _M_PER_DEG * east, altitude - rest[15]
        line = (
            f'{{"timestamp":{_text(time)},"imu":{{"gyro":{_texts(rest[0:3])},'
            f'"accel_body":{_texts(rest[3:6])}}},"position":{_texts(position)},'
            f'"quaternion":{_texts(rest[6:10])},"velocity":{_texts(rest[10:13])},"no_time_sync":1}}'
        )
        return f"\n{line}\n".encode()

    def decode(self, data: bytes, into: Vector) -> None:  # noqa: ARG002
        raise FrameError(f"frame {self.name} is never received")

    def __repr__(self) -> str:
        return f"JsonState({self._home})"


def _text(value: float) -> str:
    return f"{value: .16e}".rjust(_WIDTH)


def _texts(values: Sequence[float]) -> str:
    return f"[{','.join(map(_text, values))}]"


def _frames(airframe: Airframe, home: tuple[float, float, float, float]) -> dict[str, FrameCodec]:
    fields: dict[str, dict[str, Any]] = {
        "magic": {"type": "uint16", "value": _MAGIC},
        "frame_rate": {"type": "uint16", "unit": "Hz"},
        "frame_count": {"type": "uint32"},
    }
    left = _CHANNELS
    for name, (count, low, high) in airframe.outputs.items():
        scale = (high - low) / 1000
        fields[name] = {"type": "uint16", "scale": scale, "bias": low - 1000 * scale}
        if count > 1:
            fields[name]["count"] = count
        left -= count
    if left:
        fields["pulses"] = {"type": "uint16", "count": left, "unit": "us"}
    radio = {"channels": {"type": "uint16", "count": _CHANNELS, "unit": "us"}}
    structs = described_structs(
        {"servos": {"fields": fields}, "radio": {"fields": radio}}, "ArduPilot JSON"
    )
    return {**structs, "state": JsonState(home)}


class ArduPilot(Program):
    """ArduPilot (Copter or Plane) as a controller of a vehicle, in lockstep and in virtual time.

    Each step sends the state of the vehicle, and ArduPilot answers with its servo outputs.
    Channel 7 of the radio above 1800 us arms the motors. ArduPilot starts with the run, and can be
    armed some 20 s later. ArduPilot computes the magnetic field from attitude and position.

    Args:
        program: Path of ArduPilot's program; by default, the program of the airframe on ``PATH``.
        frame: Name of the airframe, such as ``quad_x``, ``hexa_x`` or ``plane``.
        parameters: ArduPilot's parameters, such as ``{"ATC_RAT_RLL_P": 0.1}``.
        home: Latitude and longitude (deg), altitude (m) and heading (deg) at the start.
        radio_every: The radio sends at every so many ticks.
        log: File for the output of ArduPilot.

    Example:
        loop.controller("fc", ArduPilot(frame="quad_x"), period=0.0025, inputs={...})
    """

    axes = Axes(SENSES, AIRFRAMES["quad_x"].actuators)

    def __init__(
        self,
        program: str | Path | None = None,
        *,
        frame: str = "quad_x",
        parameters: Mapping[str, float] | None = None,
        home: tuple[float, float, float, float] = (36.0176, -75.6713, 0.0, 0.0),
        radio_every: int = 8,
        log: str | Path | None = None,
    ) -> None:
        airframe = AIRFRAMES.get_or_raise(frame, type(self).__name__)
        self.axes = Axes(SENSES, airframe.actuators)
        self.settings = {**_COMMON, **airframe.parameters, **(parameters or {})}
        for name, value in self.settings.items():
            if not math.isfinite(value) or len(name) > 16 or not name.isascii() or " " in name:
                raise ScenarioError(
                    f"{name} = {value} is not a parameter of ArduPilot; give a name of up to 16 "
                    "letters, and a finite number"
                )
        place = ",".join(f"{value:.9g}" for value in home)
        super().__init__(
            [program or airframe.program, "--model", "JSON", "--home", place, "--speedup", "1",
             "--defaults", _DEFAULTS, "--serial0", "tcp:0"],
            frames=_frames(airframe, home),
            send={"state": "servos", "radio": ProgramPort(_RADIO, radio_every, opens_late=True)},
            receive={"servos": _JSON},
            clock_fields=("time",),
            answer=AWAITED,
            opens=_SERIAL,
            boot=0.5,
            log=log,
        )  # fmt: skip

    def found(self) -> Sequence[str | Path]:
        """Return the command with the path of the program, which can be on ``PATH``."""
        program, *rest = self.command
        if Path(program).is_file():
            return self.command
        found = shutil.which(program)
        if found is None:
            raise ProgramError(
                f"{program} is not on PATH; in ArduPilot's source, type ./waf configure --board "
                f"sitl && ./waf --targets bin/{Path(program).name}   and add build/sitl/bin to "
                "PATH, or give the path of the program: ArduPilot('.../arducopter')"
            )
        return [found, *rest]

    def prepare(self, folder: Path) -> None:
        """Write the parameters to a file, which ArduPilot reads at its start."""
        lines = [f"{name} {value:.9g}\n" for name, value in self.settings.items()]
        (folder / _DEFAULTS).write_text("".join(lines), encoding="ascii")

    def describe(self) -> dict[str, object]:
        return {**super().describe(), "parameters": self.settings}


_DEFAULTS = "rtsim.parm"
