"""FlightGear as the outside window: bytes on the wire, what is sent when, and what cannot delay."""

from __future__ import annotations

import json
import math
import socket
import struct
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from rtsim.cli import main
from rtsim.cli.window import OutsideWindow
from rtsim.core.errors import RtsimError, ScenarioError
from rtsim.core.signals import Signals
from rtsim.models.body import drawn
from rtsim.pilot.flightgear import (
    Address,
    Aircraft,
    FlightState,
    Outside,
    Packets,
    Sender,
    euler,
    frames,
    outside_body,
)
from rtsim.pilot.loop import Cockpit
from rtsim.pilot.scenes.scene import Shown
from rtsim.record.reading import Recording
from rtsim.scenario.body import Body
from rtsim.scenario.loading import load_scenario
from rtsim.testing.clock import FakeClock

FLIGHT = FlightState(
    0.6286, -1.3207, 457.2, (0.1, -0.2, 3.0), velocity=(30.48, -3.048, -6.096), turning=(1, 2, 3)
)
FT = 1.0 / 0.3048


def documented(version: int, flight: FlightState) -> bytes:
    """``struct FGNetFDM`` of FlightGear's src/Network/net_fdm.hxx, field by field, big-endian.

    JSBSim's copy of that file says which fields belong to both versions and which to 25 only.

    Only its beginning and its environment are not zero. Offsets are counted here by hand.
    """
    north, east, down = (speed * FT for speed in flight.velocity)
    tanks = struct.pack(">I4f", 0, *[0.0] * 4)
    if version == 25:  # selected; capacity, unusable, density and level, each in doubles
        tanks += struct.pack(">4I16d", *[0] * 4, *[0.0] * 16)
    return b"".join(
        (
            struct.pack(">II", version, 0),  # version, padding
            struct.pack(">3d", flight.longitude, flight.latitude, flight.altitude),
            struct.pack(">f", flight.altitude),  # agl
            struct.pack(">3f", *flight.attitude),  # phi, theta, psi
            struct.pack(">2f", 0, 0),  # alpha, beta
            struct.pack(">3f", *flight.turning),  # phidot, thetadot, psidot
            struct.pack(">2f", 0.0, -down),  # vcas, climb_rate
            struct.pack(">3f", north, east, down),
            struct.pack(">3f", 0, 0, 0),  # v_body_u, v, w
            struct.pack(">3f", 0, 0, 0),  # A_X_pilot, Y, Z
            struct.pack(">2f", 0, 0),  # stall_warning, slip_deg
            struct.pack(">I4I36f", 0, *[0] * 4, *[0.0] * 36),  # engines: count, states, 9 figures
            tanks,
            struct.pack(">I3I9f", 0, *[0] * 3, *[0.0] * 9),  # wheels: count, wow, 3 figures
            struct.pack(">Iif", 0, 0, 30_000.0),  # cur_time, warp, visibility
            struct.pack(">10f", *[0.0] * 10),  # control surfaces
        )
    )


@pytest.mark.parametrize(("version", "size"), [(24, 408), (25, 552)])
def test_a_packet_is_the_documented_structure_byte_for_byte(version: int, size: int) -> None:
    packet = Packets(version).of(FLIGHT)
    assert len(packet) == size
    assert packet == documented(version, FLIGHT)


def shown(signals: Signals, values: list[float], slope: list[float]) -> dict[str, Shown]:
    return {"p": Shown(signals, np.array(values), np.array(slope), 0)}


# Lengths of a degree on WGS-84, km: latitude, then along the meridian and along the parallel.
# Source: Wikipedia, "Geographic coordinate system", table of degree lengths
@pytest.mark.parametrize("degree", [(0.0, 110.574, 111.320), (60.0, 111.412, 55.800)])
def test_a_body_in_any_unit_becomes_radians_and_metres_per_second(
    degree: tuple[float, float, float],
) -> None:
    latitude, along, across = degree
    signals = Signals("lat [deg]", "lon [deg]", "h [ft]", "roll [deg]", "pitch [deg]", "yaw [deg]")
    body = Body("p", geodetic=("p.lat", "p.lon", "p.h"), euler=("p.roll", "p.pitch", "p.yaw"))
    values = [latitude, 90.0, 0.0, 10.0, -5.0, 180.0]
    rates = [0.001, 0.001, -10.0, 0.0, 0.0, 1.0]
    found = Aircraft(body, [("p", signals)]).at(shown(signals, values, rates))
    assert found is not None
    assert (found.latitude, found.longitude) == (math.radians(latitude), math.pi / 2)
    assert found.attitude == pytest.approx([math.radians(a) for a in (10, -5, 180)])
    assert found.velocity == pytest.approx((along, across, 3.048), abs=2e-3)
    assert found.turning == pytest.approx((0, 0, math.radians(1)))
    lost = shown(signals, [math.nan, *values[1:]], [0.0] * 6)
    assert Aircraft(body, [("p", signals)]).at(lost) is None
    high = shown(signals, [latitude, 90.0, 1000.0, 0.0, 0.0, 0.0], [0.0] * 6)
    above = Aircraft(body, [("p", signals)]).at(high)
    assert above is not None
    assert above.altitude == pytest.approx(304.8)


@pytest.mark.parametrize("angles", [(0.3, -0.4, 2.0), (-3.0, 1.2, -0.1)])
def test_a_quaternion_becomes_angles(angles: tuple[float, float, float]) -> None:
    roll, pitch, yaw = (np.array([math.cos(a / 2), math.sin(a / 2)]) for a in angles)
    w = yaw[0] * pitch[0] * roll[0] + yaw[1] * pitch[1] * roll[1]
    x = yaw[0] * pitch[0] * roll[1] - yaw[1] * pitch[1] * roll[0]
    y = yaw[0] * pitch[1] * roll[0] + yaw[1] * pitch[0] * roll[1]
    z = yaw[1] * pitch[0] * roll[0] - yaw[0] * pitch[1] * roll[1]
    assert euler(3.0 * np.array([w, x, y, z])) == pytest.approx(angles)


def test_the_first_aircraft_is_shown_and_a_scenario_without_one_is_refused() -> None:
    box = drawn("box")
    plane = replace(drawn("plane"), shape="aircraft")
    flat = Body("flat", north_east_down=("flat.n", "flat.e", "flat.d"), euler=box.euler)
    plants = {"box": Signals(), "plane": Signals(), "flat": Signals()}
    assert outside_body([flat, box, plane], plants, "s") is plane
    assert outside_body([flat, box], plants, "s") is box
    with pytest.raises(ScenarioError, match=r"s declares no body .* add to the scenario: show"):
        outside_body([flat], plants, "s")
    with pytest.raises(ScenarioError, match="no body"):
        outside_body([plane], {"box": Signals()}, "s")


@pytest.mark.parametrize(
    ("text", "found"),
    [("localhost", "localhost:5500"), ("10.0.0.7:5501", "10.0.0.7:5501")],
)
def test_an_address(text: str, found: str) -> None:
    assert str(Address.of(text)) == found


@pytest.mark.parametrize("text", ["", "host:", "host:0", "host:70000", "udp://host", "a:1:2"])
def test_no_address(text: str) -> None:
    with pytest.raises(ScenarioError, match="write HOST or HOST:PORT"):
        Address.of(text)


@pytest.mark.parametrize(
    ("more", "told"),
    [
        (["--flightgear", "a b"], "write HOST or HOST:PORT"),
        (["--flightgear-version", "25"], "--flightgear-version works only with --flightgear HOST"),
        (["--flightgear", "localhost"], "ball declares no body that FlightGear can show"),
    ],
)
def test_what_the_command_refuses(more: list[str], told: str) -> None:
    result = CliRunner().invoke(main, ["run", "ball", "--no-record", *more])
    assert result.exit_code == 2
    assert told in result.stderr


def test_without_the_package_the_command_says_what_to_type(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "flightgear_python.fdm_v24", None)
    arguments = ["run", "f16-by-hand", "--no-record", "--flightgear", "localhost"]
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 2
    assert "--flightgear needs the package flightgear_python" in result.stderr
    assert "pip install 'rtsim[flightgear]'" in result.stderr


def test_the_summary_says_what_was_sent_or_that_the_process_ended_early() -> None:
    outside = OutsideWindow(Address("sim"), 24)
    assert outside.told() == "FlightGear at sim:5500: the process that sends to it ended early"
    assert outside.to_json() == {"address": "sim:5500", "ended_early": True}
    outside.figures = {"sent": 60, "lost": 2}
    assert outside.told() == "FlightGear at sim:5500: 60 packets sent, 2 could not be sent"


@pytest.fixture
def flightgear() -> Iterator[socket.socket]:
    """What receives at the port of a FlightGear."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as made:
        made.bind(("127.0.0.1", 0))
        made.setblocking(False)
        yield made


def test_a_sender_drops_what_cannot_be_sent(flightgear: socket.socket) -> None:
    sender = Sender(Address("127.0.0.1", flightgear.getsockname()[1]))
    sender.send(b"now")
    assert flightgear.recv(10) == b"now"
    sender.send(b"x" * 100_000)  # longer than any datagram: the system refuses it
    assert (sender.sent, sender.lost) == (1, 1)
    assert sender._socket.getblocking() is False
    for _ in range(500):  # nobody reads: the receiver's buffer is full
        sender.send(bytes(408))
    assert sender.sent + sender.lost == 502
    sender.close()
    with pytest.raises(RtsimError, match=r"none\.invalid.*the host cannot be found"):
        Sender(Address("none.invalid"))


def test_sent_states_are_those_between_two_steps() -> None:
    """The packet of the moment that lies in the middle of a step, against the middle's angles."""
    sent: list[bytes] = []
    scenario = load_scenario("f16-by-hand", {})
    plant = scenario.build(0).plants[0]
    with Cockpit(scenario, "stick") as cockpit:
        clock = FakeClock()
        outside = Outside(cockpit.shared, scenario.bodies[0], sent.append, Packets(), frames(clock))
        assert outside.frame() is False  # no state yet
        writer = cockpit.pictures._writers["f16"]
        begin, end = plant.values.copy(), plant.values.copy()
        names = cockpit.shared.schema.plants[0][1]
        roll = names.slice("roll").start
        begin[roll], end[roll] = 0.1, 0.3
        now = clock.now()
        period = round(1e9 / 60)
        writer.integers[:] = (0, 2 * period, now, now + 2 * period, 0, 0, 0)
        writer.floats[:] = np.concatenate([begin, end])
        writer.publish()
        assert outside.frame()
    phi = struct.unpack_from(">f", sent[-1], 36)[0]
    assert phi == pytest.approx(0.2, abs=0.002)


def test_the_trace_is_the_same_with_flightgear_absent_as_without(tmp_path: Path) -> None:
    """By the real process, to a port at which nobody listens."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as kept:
        kept.bind(("127.0.0.1", 0))
        port = kept.getsockname()[1]
    shown, plain = tmp_path / "shown.mcap", tmp_path / "plain.mcap"
    digests: list[str] = []
    for path, more in ((shown, ["--flightgear", f"127.0.0.1:{port}"]), (plain, ["--pace", "1"])):
        arguments = ["run", "f16-by-hand", "--until", "0.4", "-o", str(path), "--json", *more]
        result = CliRunner().invoke(main, arguments)
        assert result.exit_code == 0, result.output
        told = json.loads(result.stdout)
        digests.append(Recording.open(path).digest())
        if more[0] == "--flightgear":
            assert told["flightgear"]["address"] == f"127.0.0.1:{port}"
            assert told["flightgear"]["sent"] + told["flightgear"]["lost"] > 5
    assert digests[0] == digests[1]
