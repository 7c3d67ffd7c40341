"""Show a run in FlightGear: ``python -m rtsim.pilot.flightgear FILE ...``.

This process sends the state of an aircraft to FlightGear over UDP. FILE is the memory that a run
shares with its viewers. The process interpolates the states in FILE to the time of each packet. The
process ends when its standard input closes. A slow or absent FlightGear does not delay this
process.

A packet is the C structure ``FGNetFDM`` in network byte order. Source: FlightGear's file
src/Network/net_fdm.hxx, versions 24 and 25.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import socket
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from rtsim.core.clock import Clock, WallClock
from rtsim.core.errors import RtsimError, ScenarioError
from rtsim.core.extras import extra
from rtsim.core.net import known_host
from rtsim.core.signals import Signals, Vector
from rtsim.equations.earth import EQUATORIAL_RADIUS, FLATTENING
from rtsim.gateway.shapes import PlacedBody
from rtsim.models.units import FT
from rtsim.pilot.pacing import VideoFrames
from rtsim.pilot.processes import FLIGHTGEAR_VERSIONS, READY, input_closed
from rtsim.pilot.scenes.scene import Shown
from rtsim.pilot.shared import Exchange, Shared
from rtsim.pilot.viewer.state import Picture, RunState
from rtsim.scenario.body import Body
from rtsim.timing.scheduling import SchedulingRequest, request

VISIBILITY_M = 30_000.0
OPTION = "--flightgear"


@dataclass(frozen=True)
class FlightState:
    """The state of an aircraft: geodetic position on WGS-84 in m and rad, attitude and rates.

    ``attitude`` contains roll, pitch and heading relative to north, east and down. ``turning``
    contains the rates of roll, pitch and heading.
    """

    latitude: float
    longitude: float
    altitude: float
    attitude: tuple[float, float, float]
    velocity: tuple[float, float, float] = (0.0, 0.0, 0.0)
    """Velocity relative to the Earth, m/s: north, east, down."""
    turning: tuple[float, float, float] = (0.0, 0.0, 0.0)


class Packets:
    """Encode packets for one version of FlightGear's protocol.

    Raises :class:`rtsim.core.errors.ScenarioError` if the package ``flightgear_python`` is missing.
    """

    def __init__(self, version: int = FLIGHTGEAR_VERSIONS[0]) -> None:
        module = extra(f"flightgear_python.fdm_v{version}", "flightgear", OPTION)
        self._struct: Any = module.fdm_struct
        self._fixed = _unused(self._struct)

    def of(self, flight: FlightState) -> bytes:
        return bytes(self._struct.build({**self._fixed, **_fields(flight)}))


def _fields(flight: FlightState) -> Mapping[str, float]:
    north, east, down = (speed / FT for speed in flight.velocity)
    roll, pitch, heading = flight.attitude
    return {
        "lon_rad": flight.longitude, "lat_rad": flight.latitude, "alt_m": flight.altitude,
        "agl_m": flight.altitude,
        "phi_rad": roll, "theta_rad": pitch, "psi_rad": heading,
        "phidot_rad_per_s": flight.turning[0], "thetadot_rad_per_s": flight.turning[1],
        "psidot_rad_per_s": flight.turning[2],
        "climb_rate_ft_per_s": -down,
        "v_north_ft_per_s": north, "v_east_ft_per_s": east, "v_down_ft_per_s": down,
        "visibility_m": VISIBILITY_M,
    }  # fmt: skip


def _unused(struct: Any) -> dict[str, Any]:
    zeros = struct.parse(struct.subcons[0].build(None) + bytes(struct.sizeof() - 4))
    return {name: value for name, value in zeros.items() if not name.startswith("_io")}


# The body that FlightGear shows, and its state.

_SQUARED_ECCENTRICITY = FLATTENING * (2.0 - FLATTENING)


def outside_body(bodies: Sequence[Body], plants: Mapping[str, Signals], scenario: str) -> Body:
    """Return the body to show in FlightGear: the first aircraft, or else the first body.

    Only a body of a plant with latitude and longitude can be shown. Raises :class:`ScenarioError`
    if the scenario has no body that FlightGear can show.
    """
    found = [
        body
        for body in bodies
        if body.geodetic and all(name.partition(".")[0] in plants for name in body.signals)
    ]
    found.sort(key=lambda body: body.shape != "aircraft")
    if not found:
        raise ScenarioError(
            f"{scenario} declares no body that FlightGear can show; add to the scenario: "
            "show(Body(NAME, geodetic=(LATITUDE, LONGITUDE, ALTITUDE), euler=(ROLL, PITCH, YAW)))"
        )
    return found[0]


class Aircraft:
    """Compute the state of a body from the states of the plants."""

    def __init__(self, body: Body, plants: Sequence[tuple[str, Signals]]) -> None:
        self._names = [name for name, _ in plants]
        columns = [
            (f"{name}.{column}", signal.unit)
            for name, signals in plants
            for signal in signals
            for column in signal.columns
        ]
        index = {name: k for k, (name, _) in enumerate(columns)}
        self._placed = PlacedBody(body, index, dict(columns))
        self._euler = bool(body.euler)

    def at(self, plants: Mapping[str, Shown]) -> FlightState | None:
        """Return the state of the body, or ``None`` if a signal is not finite."""
        shown = [plants[name] for name in self._names]
        where, turned = self._placed.numbers(np.concatenate([s.values for s in shown]))
        rates = np.concatenate([s.slope for s in shown])
        begun = self._placed.numbers(np.zeros_like(rates))  # the rate of a constant is 0
        moving, turning = (a - b for a, b in zip(self._placed.numbers(rates), begun, strict=True))
        if not all(np.isfinite(v).all() for v in (where, turned, moving, turning)):
            return None
        latitude, longitude, altitude = map(float, where)
        return FlightState(
            latitude, longitude, altitude,
            _three(turned) if self._euler else euler(turned),
            _velocity(latitude, altitude, moving),
            _three(turning) if self._euler else (0.0, 0.0, 0.0),
        )  # fmt: skip


def _three(values: Vector) -> tuple[float, float, float]:
    return float(values[0]), float(values[1]), float(values[2])


def euler(quaternion: Vector) -> tuple[float, float, float]:
    """Return roll, pitch and heading (rad) of a quaternion (4,), scalar first.

    The quaternion is the rotation from local axes (north, east, down) to body axes. Source:
    Stevens, Lewis and Johnson, *Aircraft Control and Simulation*, section 1.3.
    """
    w, x, y, z = map(float, quaternion / max(float(np.linalg.norm(quaternion)), 1e-12))
    return (
        math.atan2(2.0 * (y * z + w * x), w * w - x * x - y * y + z * z),
        math.asin(max(-1.0, min(1.0, 2.0 * (w * y - x * z)))),
        math.atan2(2.0 * (x * y + w * z), w * w + x * x - y * y - z * z),
    )


def _velocity(latitude: float, altitude: float, rates: Vector) -> tuple[float, float, float]:
    root = math.sqrt(1.0 - _SQUARED_ECCENTRICITY * math.sin(latitude) ** 2)
    across = EQUATORIAL_RADIUS / root
    along = EQUATORIAL_RADIUS * (1.0 - _SQUARED_ECCENTRICITY) / root**3
    return (
        float(rates[0]) * (along + altitude),
        float(rates[1]) * (across + altitude) * math.cos(latitude),
        -float(rates[2]),
    )


# The UDP socket

PORT = 5500
_ADDRESS = re.compile(r"(?P<host>[A-Za-z0-9._-]{1,253})(:(?P<port>[0-9]{1,5}))?")


@dataclass(frozen=True)
class Address:
    """Host and UDP port of FlightGear."""

    host: str
    port: int = PORT

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"

    @classmethod
    def of(cls, text: str) -> Address:
        """Parse ``HOST[:PORT]``; raise :class:`ScenarioError` if ``text`` is malformed."""
        found = _ADDRESS.fullmatch(text)
        port = int(found["port"] or PORT) if found else 0
        if found is None or not 1 <= port <= 65535:
            raise ScenarioError(
                f"--flightgear {text!r} is malformed; write HOST or HOST:PORT, such as "
                f"localhost:{PORT}"
            )
        return cls(found["host"], port)


class Sender:
    """Send packets over UDP; drop a packet that cannot be sent at once.

    Raises :class:`RtsimError` for an unknown host.
    """

    def __init__(self, address: Address) -> None:
        self.sent = self.lost = 0
        """Number of packets that the system accepted (``sent``) and rejected (``lost``)."""
        host = known_host(address.host)
        try:
            found = socket.getaddrinfo(host, address.port, socket.AF_INET, socket.SOCK_DGRAM)
        except OSError as error:
            raise RtsimError(
                f"--flightgear {address}: the host cannot be found ({error.strerror or error}); "
                "give the name or the IPv4 address of the machine on which FlightGear runs"
            ) from error
        self._to = found[0][4]
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.setblocking(False)

    def send(self, packet: bytes) -> None:
        try:
            self._socket.sendto(packet, self._to)
        except OSError:  # no route, a full buffer or a closed port: the next packet is newer
            self.lost += 1
        else:
            self.sent += 1

    def close(self) -> None:
        self._socket.close()


# The process

RATE_HZ = 60.0


class Outside:
    """Send the present state of a body; call ``frame`` once per packet."""

    def __init__(
        self,
        exchange: Exchange,
        body: Body,
        send: Callable[[bytes], None],
        packets: Packets,
        frames: VideoFrames,
    ) -> None:
        self._aircraft = Aircraft(body, exchange.schema.plants)
        self._picture, self._said = Picture(exchange), RunState(exchange)
        self._send, self._packets, self._frames = send, packets, frames

    def frame(self) -> bool:
        """Wait for the next frame and send a packet; return False without a state."""
        due = self._frames.wait(lambda: None)
        self._said.look()
        self._picture.look()
        if not self._picture.complete:
            return False
        standing = bool(self._said["standing"] or self._said["ended"])
        ahead = 0 if standing else int(self._frames.period.ns)
        flight = self._aircraft.at(self._picture.at(due, ahead))
        if flight is None:
            return False
        self._send(self._packets.of(flight))
        return True


def serve(exchange: Exchange, outside: Outside, over: threading.Event) -> None:
    """Send packets until the run ends or the event ``over`` is set."""
    while not (over.is_set() or exchange.over):
        outside.frame()


def frames(clock: Clock | None = None) -> VideoFrames:
    if clock is not None:
        return VideoFrames(RATE_HZ, clock)
    return VideoFrames(RATE_HZ, WallClock(spin_ns=0), WallClock(spin_ns=0))


def main(arguments: Sequence[str] | None = None) -> int:
    """Send packets until the standard input closes, then print the packet counts as JSON."""
    parser = argparse.ArgumentParser(prog="rtsim.pilot.flightgear")
    parser.add_argument("shared", type=Path)
    parser.add_argument("address", type=Address.of)
    parser.add_argument("body", type=lambda text: Body.from_plain(json.loads(text)))
    parser.add_argument(
        "--version", type=int, choices=FLIGHTGEAR_VERSIONS, default=FLIGHTGEAR_VERSIONS[0]
    )
    given = parser.parse_args(arguments)
    over = input_closed()
    with request(SchedulingRequest.window()):
        try:
            shared = Shared.open(given.shared)
            sender = Sender(given.address)
            outside = Outside(shared, given.body, sender.send, Packets(given.version), frames())
        except RtsimError as error:
            print(error, flush=True)
            return 2
        print(READY, flush=True)
        serve(shared, outside, over)
    sender.close()
    if over.is_set():  # a killed simulation has not removed the file
        shared.remove()
    print(json.dumps({"sent": sender.sent, "lost": sender.lost}), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
