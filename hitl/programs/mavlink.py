"""Autopilots that speak MAVLink HIL: over a link, or PX4 as a program in virtual time.

The simulator sends HIL_SENSOR at each tick, and HIL_GPS, radio channels and HEARTBEAT less often.
The autopilot answers with HIL_ACTUATOR_CONTROLS, whose first four elements are the output
``throttle``; the other twelve are ``controls``. Fields, units and axes are those of MAVLink's
dialect ``common`` (https://mavlink.io/en/messages/common.html), with SI units.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from hitl.buses.mavlink_link import Packets, mavlink_frames
from hitl.buses.traffic import AWAITED, LATEST, FrameController
from hitl.programs.axes import QUAD_X, SENSES, Axes
from hitl.programs.program import Program, ProgramPort
from hitl.programs.started import StartedProgram
from rtsim.components.frames import Frame, FrameCodec, FrameError
from rtsim.core.signals import Vector
from rtsim.core.tag import Tag

SENSOR, GPS, RADIO, HEARTBEAT = "HIL_SENSOR", "HIL_GPS", "RC_CHANNELS_OVERRIDE", "HEARTBEAT"
ACTUATORS = "HIL_ACTUATOR_CONTROLS"
EVERY = {SENSOR: 1, GPS: 50, HEARTBEAT: 250}
"""Ticks between two messages of each kind: 5 Hz and 1 Hz for sensors at 250 Hz."""
_ALL_UPDATED = 0x1FFF
_LOCKSTEP = 1
_ZERO: dict[str, Any] = {"initial": 0.0, "optional": True}
_SECONDS = {"unit": "s", "scale": 1e-6}
DEG = math.pi / 180
_FIELDS: dict[str, dict[str, dict[str, Any]]] = {
    SENSOR: {
        "time_usec": {"name": "sensor_time", **_SECONDS},
        "xacc": {"name": "specific_force", "count": 3},
        "xgyro": {"name": "rates", "count": 3},
        "xmag": {"name": "magnetic_field", "count": 3, **_ZERO},
        "abs_pressure": {"name": "pressure", "initial": 101_325.0, "optional": True},
        "diff_pressure": {"name": "dynamic_pressure", **_ZERO},
        "pressure_alt": {"name": "pressure_altitude", "unit": "m", **_ZERO},
        "temperature": {"unit": "K", "bias": 273.15, "initial": 288.15, "optional": True},
        "fields_updated": {"value": _ALL_UPDATED},
        "id": {"value": 0},
    },
    GPS: {
        "time_usec": {"name": "gps_time", **_SECONDS},
        "lat": {"name": "latitude", "unit": "rad", "scale": 1e-7 * DEG},
        "lon": {"name": "longitude", "unit": "rad", "scale": 1e-7 * DEG},
        "alt": {"name": "altitude"},
        "eph": {"value": 100},
        "epv": {"value": 100},
        "vel": {"name": "ground_speed", **_ZERO},
        "vn": {"name": "velocity_north"},
        "ve": {"name": "velocity_east"},
        "vd": {"name": "velocity_down"},
        "cog": {"name": "course", "unit": "rad", "scale": 0.01 * DEG, **_ZERO},
        "fix_type": {"value": 3},
        "satellites_visible": {"value": 10},
        "id": {"value": 0},
        "yaw": {"value": 0},
    },
    RADIO: {
        "chan1_raw": {"name": "channels", "count": 8},
        "chan9_raw": {"name": "further_channels", "count": 10, **_ZERO},
        "target_system": {"value": 1},
        "target_component": {"value": 1},
    },
    HEARTBEAT: {
        "custom_mode": {"value": 0}, "type": {"value": 6}, "autopilot": {"value": 8},
        "base_mode": {"value": 0}, "system_status": {"value": 4}, "mavlink_version": {"value": 3},
    },
    ACTUATORS: {
        "time_usec": {"name": "actuator_time", **_SECONDS},
        "controls": {"first": {"throttle": 4}},
    },
}  # fmt: skip
CLOCKS = {SENSOR: "sensor_time", GPS: "gps_time"}
AXES = Axes(
    tuple(sense for sense in SENSES if sense.signal != "attitude_ned"),
    tuple(rotor.at("throttle", k) for k, rotor in enumerate(QUAD_X)),
)
"""Axes of the messages, and the order of the motors of PX4's quadcopter (x)."""


def hil_frames(names: Iterable[str]) -> dict[str, FrameCodec]:
    """Return the codecs of MAVLink messages, with the fields of the HIL messages renamed."""
    return mavlink_frames({name: _FIELDS.get(name, {}) for name in names})


class MavlinkHil(FrameController):
    """An autopilot at the other end of a MAVLink link, such as a flight controller at a port.

    With ``answer="awaited"``, each step waits for the HIL_ACTUATOR_CONTROLS that answer its
    HIL_SENSOR. Actuator values that announce lockstep (bit 0 of ``flags``), and whose time is
    before the request, belong to an earlier request and do not end the wait.

    Args:
        url: Link, such as ``mavlink://serial//dev/ttyACM0?baud=921600``,
            ``mavlink://listen/127.0.0.1:4560`` or
            ``mavlink://udp/127.0.0.1:14560?bind=127.0.0.1:14550``.
        send: Sent messages, and the number of ticks between two of each kind.
        receive: Received messages.
        answer: With ``"latest"``, the outputs are the latest received values.
        axes: Directions of inputs and outputs, for the wiring test.

    Example:
        loop.controller("fc", MavlinkHil("mavlink://listen/127.0.0.1:4560"), period=0.004, ...)
    """

    axes = AXES

    def __init__(
        self,
        url: str,
        *,
        send: Mapping[str, int] = EVERY,
        receive: Sequence[str] = (ACTUATORS,),
        answer: str = AWAITED,
        axes: Axes = AXES,
    ) -> None:
        self.axes = axes
        super().__init__(
            url,
            send=list(send),
            receive=receive,
            frames=hil_frames([*send, *receive]),
            answer=answer,
            every=send,
            clock_fields=[CLOCKS[name] for name in send if name in CLOCKS],
        )
        self._time_and_flags = _places(self, receive)
        self._asked = 0.0

    def send(self, tag: Tag, inputs: Vector) -> None:
        self._asked = round(tag.ns / 1000) * 1e-6
        super().send(tag, inputs)

    def answers(self, name: str) -> bool:
        """Return False for actuator values in lockstep that belong to an earlier request."""
        if name != ACTUATORS or self._time_and_flags is None:
            return True
        time, flags = self._open().values[list(self._time_and_flags)]
        return not int(flags) & _LOCKSTEP or time >= self._asked - 0.5e-6


def _places(controller: FrameController, receive: Sequence[str]) -> tuple[int, int] | None:
    if ACTUATORS not in receive:
        return None
    columns = controller.outputs.columns
    return columns.index("actuator_time"), columns.index("flags")


class Px4(Program):
    """PX4's SITL program as a controller in virtual time, with MAVLink HIL over TCP.

    The program connects to the simulator at port 4560, as PX4 does. PX4 itself has not been run
    with this class; the tests use a program that speaks the same messages.

    Args:
        program: PX4's program, or the program and its arguments.
        send: Sent messages, and the number of ticks between two of each kind.
        folder: Folder whose files the program finds in its working folder, such as PX4's ``etc``.
        environment: Environment variables, such as ``PX4_SIM_MODEL``.
        boot: Time that the program gets before the run begins, s.
        log: File for the output of the program.
        opens: Further ports of the program.
        port: Port of the simulator.
    """

    addressed = True
    axes = AXES

    def __init__(
        self,
        program: str | Path | Sequence[str | Path],
        *,
        send: Mapping[str, int] = EVERY,
        folder: str | Path | None = None,
        environment: Mapping[str, str] | None = None,
        boot: float = 2.0,
        log: str | Path | None = None,
        opens: Iterable[int] = (14550, 14540, 14580, 14280, 18570, 13030, 14030),
        port: int = 4560,
    ) -> None:
        super().__init__(
            program,
            frames=hil_frames([*send, ACTUATORS]),
            send={name: ProgramPort(ACTUATORS, every) for name, every in send.items()},
            receive={ACTUATORS: port},
            clock_fields=[CLOCKS[name] for name in send if name in CLOCKS],
            answer=LATEST,
            folder=folder,
            environment=environment,
            boot=boot,
            log=log,
            opens=opens,
        )

    def start(self, folder: Path, log: Path) -> StartedProgram:
        self._packets = Packets()  # its sequence numbers begin again
        return super().start(folder, log)

    def packed(self, frame: Frame) -> bytes:
        return self._packets.pack(frame)

    def unpacked(self, data: bytes) -> Iterable[Frame | FrameError]:
        return self._packets.unpack(data)
