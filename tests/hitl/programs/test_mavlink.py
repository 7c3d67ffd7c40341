"""MAVLink HIL: messages, links, lockstep, and bytes that are no packets."""

from __future__ import annotations

import os
import socket
import sys
import sysconfig
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rtsim as rt
from hitl.buses.contract import LinkError
from hitl.buses.mavlink_link import BAUD, MavlinkLink, Packets, mavlink_frames
from hitl.buses.urls import open_frame_link
from hitl.programs.mavlink import (
    ACTUATORS,
    EVERY,
    GPS,
    HEARTBEAT,
    RADIO,
    SENSOR,
    MavlinkHil,
    Px4,
    hil_frames,
)
from hitl.testing import check_frame_link
from rtsim.components.frames import Frame, FrameError
from rtsim.core.errors import ScenarioError, UnknownName
from rtsim.testing import check_frame_codec

pytest.importorskip("pymavlink", reason="needs rtsim[mavlink]")
from mavlink_peers import GAIN, Autopilot, over_file, over_socket
from pymavlink.dialects.v20 import common

pytestmark = pytest.mark.live


class Roll(rt.Plant):
    """A body that turns about its axis forward."""

    rate = rt.state("rad/s", 0.5)
    throttle = rt.input("1", shape=(4,))
    rates = rt.output("rad/s", shape=(3,))
    specific_force = rt.output("m/s2", shape=(3,))

    def derivative(self, d: Any) -> None:
        d.rate = self.throttle[0]

    def outputs(self) -> None:
        self.rates[0] = self.rate
        self.rates[1] = 0.0
        self.rates[2] = 0.0
        self.specific_force[0] = 0.0
        self.specific_force[1] = 0.0
        self.specific_force[2] = -9.80665


PLACE: dict[str, Any] = {
    "magnetic_field": [20_000.0, 0.0, 43_000.0],
    "latitude": 0.8, "longitude": 0.15, "altitude": 400.0, "velocity_north": 1.0,
    "velocity_east": -2.0, "velocity_down": 0.25,
}  # fmt: skip


def flight(controller: Any, steps: int = 40, compute: float = 0.0) -> rt.Scenario:
    loop = rt.Scenario("roll", until=0.004 * steps)
    loop.plant("roll", Roll(), step=0.004)
    given: dict[str, Any] = {k: v for k, v in PLACE.items() if k in controller.inputs}
    if "channels" in controller.inputs:
        given["channels"] = [1500.0, 1500.0, 1000.0, 1500.0, 1800.0, 1000.0, 1000.0, 1000.0]
    loop.controller("fc", controller, period=0.004, inputs=given, compute=rt.Fixed(compute))
    loop.connect("fc", "roll")
    return loop


@contextmanager
def udp(**wrong: Any) -> Iterator[tuple[str, Autopilot]]:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as end, \
            socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:  # fmt: skip
        end.bind(("127.0.0.1", 0))
        probe.bind(("127.0.0.1", 0))
        ours = probe.getsockname()
        probe.close()
        url = f"mavlink://udp/127.0.0.1:{end.getsockname()[1]}?bind=127.0.0.1:{ours[1]}"
        with closing(Autopilot(over_socket(end, ours), **wrong)) as autopilot:
            yield url, autopilot


@contextmanager
def tcp(**wrong: Any) -> Iterator[tuple[str, Autopilot]]:
    """The autopilot is the server."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        accepted: list[socket.socket] = []
        server.settimeout(0.05)

        def receive(timeout: float) -> bytes:
            if not accepted:
                accepted.append(server.accept()[0])
            return over_socket(accepted[0])[0](timeout)

        def send(data: bytes) -> None:
            accepted[0].sendall(data)

        port = server.getsockname()[1]
        with closing(Autopilot((receive, send), **wrong)) as autopilot:
            yield f"mavlink://tcp/127.0.0.1:{port}", autopilot
        for one in accepted:
            one.close()


@contextmanager
def serial(**wrong: Any) -> Iterator[tuple[str, Autopilot]]:
    if sys.platform == "win32":
        pytest.skip("Windows has no pseudo-terminals")
    pytest.importorskip("serial", reason="needs rtsim[mavlink]")
    ours, theirs = os.openpty()
    try:
        with closing(Autopilot(over_file(ours), **wrong)) as autopilot:
            yield f"mavlink://serial/{os.ttyname(theirs)}?baud={BAUD}", autopilot
    finally:
        os.close(ours)
        os.close(theirs)


def reference() -> rt.PythonController:
    def law(u: Any, y: Any) -> None:
        y[:] = 0.0
        y[0] = np.float32(GAIN * float(np.float32(u[0])))

    inputs = rt.Signals(rt.Signal("rates", "rad/s", shape=(3,)),
                        rt.Signal("specific_force", "m/s2", shape=(3,)))  # fmt: skip
    outputs = rt.Signals(rt.Signal("throttle", shape=(4,)))
    return rt.PythonController(law, inputs, outputs)


@pytest.mark.parametrize("link", [udp, tcp, serial])
def test_the_loop_over_each_transport_equals_a_law_in_python(
    link: Callable[..., Any],
) -> None:
    expected = rt.simulate(flight(reference()))["roll.rate"]
    with link() as (url, autopilot):
        result = rt.simulate(flight(MavlinkHil(url)))
    np.testing.assert_array_equal(result["roll.rate"], expected)
    assert not result.recording().messages["fc"]["malformed"].any()
    assert {name: len(got) for name, got in autopilot.got.items()} == {
        SENSOR: 41, GPS: 1, HEARTBEAT: 1,
    }  # fmt: skip
    assert autopilot.bad == 0
    numbers = [m.get_seq() for got in autopilot.got.values() for m in got]
    assert sorted(numbers) == list(range(43))


def test_units_and_constants_of_the_messages_that_are_sent() -> None:
    with udp() as (url, autopilot):
        controller = MavlinkHil(url, send={**EVERY, RADIO: 8})
        rt.simulate(flight(controller, steps=9))
        got = autopilot.got
    sensor, gps, radio = got[SENSOR][1], got[GPS][0], got[RADIO][1]
    assert (sensor.time_usec, sensor.zacc) == (4000, np.float32(-9.80665))
    assert (sensor.abs_pressure, sensor.temperature) == (np.float32(1013.25), 15.0)
    assert (sensor.xmag, sensor.zmag) == (np.float32(0.2), np.float32(0.43))  # gauss
    assert (sensor.fields_updated, sensor.id) == (0x1FFF, 0)
    assert (gps.lat, gps.lon, gps.alt) == (458366236, 85943669, 400_000)
    assert (gps.vn, gps.ve, gps.vd, gps.fix_type) == (100, -200, 25, 3)
    assert (radio.chan3_raw, radio.chan5_raw, radio.target_system) == (1000, 1800, 1)
    assert [m.get_type() for m in got[HEARTBEAT]] == ["HEARTBEAT"]
    assert got[HEARTBEAT][0].autopilot == common.MAV_AUTOPILOT_INVALID


def test_an_answer_to_an_earlier_request_does_not_end_the_wait() -> None:
    expected = rt.simulate(flight(reference()))["roll.rate"]
    with udp(stale=4000) as (url, _):
        result = rt.simulate(flight(MavlinkHil(url)))
    np.testing.assert_array_equal(result["roll.rate"], expected)
    with udp(stale=4000, flags=0) as (url, _):  # a clock of its own: times cannot be compared
        result = rt.simulate(flight(MavlinkHil(url)))
    assert result["roll.rate"][-1] > 0.5


def test_bytes_between_the_packets_are_counted_and_change_nothing() -> None:
    expected = rt.simulate(flight(reference()))["roll.rate"]
    with tcp(garbage=True) as (url, _):
        controller = MavlinkHil(url)
        result = rt.simulate(flight(controller))
    np.testing.assert_array_equal(result["roll.rate"], expected)
    assert any("not a MAVLink packet" in reason for reason in controller.malformed)
    assert result.recording().messages["fc"]["malformed"][-1] >= 40


def test_a_gap_in_the_sequence_numbers_is_counted() -> None:
    with udp(steps=2) as (url, _):
        controller = MavlinkHil(url)
        rt.simulate(flight(controller, steps=10))
    assert list(controller.malformed) == [
        "packets are missing or out of order: a gap in the sequence numbers"
    ]


class _Bytes:
    """A stream of given bytes, in parts."""

    def __init__(self, *parts: bytes) -> None:
        self._parts = list(parts)

    def send(self, data: bytes) -> None:  # noqa: ARG002
        raise AssertionError("nothing is sent")

    def receive(self, timeout: float) -> bytes:  # noqa: ARG002
        return self._parts.pop(0) if self._parts else b""

    def close(self) -> None: ...


def _read(link: MavlinkLink) -> tuple[list[Frame], int]:
    frames: list[Frame] = []
    bad = 0
    while True:
        try:
            frame = link.receive(0.0)
        except FrameError:
            bad += 1
            continue
        if frame is None:
            return frames, bad
        frames.append(frame)


def test_a_million_random_bytes_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    noise = np.random.default_rng(43).integers(0, 256, 1_000_000, np.uint8).tobytes()
    parts = [noise[k : k + 997] for k in range(0, len(noise), 997)]
    controller = MavlinkHil("mavlink://udp/127.0.0.1:9", answer="latest")
    link = MavlinkLink("noise", _Bytes(*parts))
    monkeypatch.setattr("hitl.buses.traffic.open_frame_link", lambda _: link)
    running = controller.fresh()
    assert running.traffic is not None
    before = running.traffic.values.tobytes()
    while running.traffic.drain() or link._stream._parts:  # type: ignore[union-attr]
        pass
    running.traffic.drain()
    assert running.traffic.values.tobytes() == before
    assert running.traffic.counts == {ACTUATORS: 0}
    assert running.traffic.malformed_frames > 1000
    assert len(running.traffic.malformed) < 10


def test_a_packet_within_rejected_bytes_is_found() -> None:
    codec = hil_frames([HEARTBEAT])[HEARTBEAT]
    sent = Frame(codec.encode(np.zeros(0)), 0, True)
    cut_off = common.MAVLink_statustext_message(6, b"x" * 50).pack(common.MAVLink(None))[:20]
    data = cut_off + Packets().pack(sent) + bytes(300)
    frames, bad = _read(MavlinkLink("cut off", _Bytes(data)))
    assert frames == [sent]
    assert bad >= 1


@pytest.mark.parametrize("size", [1, 7, 10_000])
def test_packets_are_found_in_parts_of_any_size(size: int) -> None:
    codec = hil_frames([ACTUATORS])[ACTUATORS]
    values = codec.signals.initial()
    values[1:4] = 1.0, 0.5, -0.25
    sent = [Frame(codec.encode(values), codec.identifier, True) for _ in range(5)]
    packets = Packets()
    data = b"noise" + b"".join(packets.pack(frame) for frame in sent)
    frames, bad = _read(
        MavlinkLink("parts", _Bytes(*(data[k : k + size] for k in range(0, len(data), size))))
    )
    assert frames == sent
    assert 1 <= bad <= 5


def test_a_damaged_packet_is_no_packet() -> None:
    codec = hil_frames([HEARTBEAT])[HEARTBEAT]
    data = bytearray(Packets().pack(Frame(codec.encode(np.zeros(0)), 0, True)))
    for k in range(len(data)):
        damaged = bytearray(data)
        damaged[k] ^= 0x10
        frames, _ = _read(MavlinkLink("damaged", _Bytes(bytes(damaged) + bytes(300))))
        assert frames == [], f"byte {k} was changed, and the packet was accepted"


@pytest.mark.parametrize("name", [SENSOR, GPS, RADIO, HEARTBEAT, ACTUATORS, "ATTITUDE"])
def test_the_codecs(name: str) -> None:
    codec = hil_frames([name])[name]
    check_frame_codec(codec, samples=50)
    kind = next(c for c in common.mavlink_map.values() if c.msgname == name)
    assert (codec.identifier, codec.length) == (kind.id, kind.unpacker.size)


def test_the_link_carries_frames_like_any_other() -> None:
    known = [Frame(bytes(c.length), c.identifier, True) for c in hil_frames([SENSOR, GPS]).values()]
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    server = open_frame_link(f"mavlink://listen/127.0.0.1:{port}")
    client = open_frame_link(f"mavlink://tcp/127.0.0.1:{port}")
    assert server.receive(1.0) is None  # accepts the client
    check_frame_link(lambda: (server, client), known)


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("mavlink://carrier/pigeon", "MAVLink has no transport 'carrier'; write mavlink://udp/"),
        ("mavlink://udp/192.0.2.1:14560", "is not this machine; add remote=yes"),
        ("mavlink://tcp/127.0.0.1:0", "port 0 is not from 1 to 65535"),
        ("mavlink://serial//dev/null?baud=fast", "baud=fast; give a number of bit/s"),
        ("mavlink://serial//dev/null?speed=9600", "unknown option 'speed'"),
        ("mavlink://tcp/127.0.0.1:5760?bind=127.0.0.1:1", "unknown option 'bind'"),
    ],
)
def test_wrong_urls(url: str, said: str) -> None:
    with pytest.raises(ScenarioError) as error:
        open_frame_link(url)
    assert said in str(error.value)


def test_an_autopilot_that_is_not_there(tmp_path: Any) -> None:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    with pytest.raises(LinkError, match="start the autopilot first"):
        MavlinkHil(f"mavlink://tcp/127.0.0.1:{port}").fresh()
    pytest.importorskip("serial", reason="needs rtsim[mavlink]")
    with pytest.raises(LinkError, match="cannot open serial port"):
        MavlinkHil(f"mavlink://serial/{tmp_path}/none").fresh()


def test_messages_that_do_not_exist() -> None:
    with pytest.raises(UnknownName, match="HIL_SENSOR"):
        mavlink_frames({"HIL_SENSORS": {}})
    with pytest.raises(UnknownName, match="xacc"):
        mavlink_frames({SENSOR: {"acc": {}}})


SITE = sysconfig.get_paths()["purelib"]
STAND_IN = Path(__file__).with_name("mavlink_stand_in.py")


@pytest.fixture
def px4(compiled_program: Callable[..., Path]) -> Px4:
    compiled_program("answers.c")  # skips without virtual time
    return Px4([sys.executable, "-S", STAND_IN], environment={"PYTHONPATH": SITE})


def test_a_program_that_connects_as_px4_does(px4: Px4) -> None:
    """The program of this test is not PX4: it answers each HIL_SENSOR by a law of one line."""
    expected = rt.simulate(flight(reference(), compute=0.001))["roll.rate"]
    result = rt.simulate(flight(px4, compute=0.001))
    np.testing.assert_array_equal(result["roll.rate"], expected)
    again = rt.simulate(flight(px4, compute=0.001))
    assert again.recording().digest() == result.recording().digest()
    assert not result.recording().messages["fc"]["malformed"].any()


def test_the_packets_of_a_program_that_is_started_again_begin_anew(px4: Px4) -> None:
    loop = flight(px4, steps=100, compute=0.001)
    loop.controller_component("fc", "").failure = "restart"
    loop.faults({"name": "killed", "where": "fc.program", "kind": "kill", "at": 0.1})
    messages = rt.simulate(loop).recording().messages["fc"]
    assert messages["actuator_time"][-1] > 0.3  # the program answers again
    assert not messages["malformed"].any()
