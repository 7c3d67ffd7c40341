"""ROS 2 messages and their link over Zenoh, without an installation of ROS 2."""

from __future__ import annotations

import random
import socket
import struct
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rtsim as rt
from hitl.buses import FrameController, FrameInput, LinkError, open_frame_link
from hitl.buses.ros2 import MOST_BYTES, RosCodec, read_messages
from hitl.testing import check_frame_link
from rtsim.components.frames import Frame, FrameError, read_frames
from rtsim.core.errors import RtsimError, ScenarioError
from rtsim.record.comparison import compare_exact
from rtsim.runs.replay import rerun
from rtsim.testing.frames import check_frame_codec

rosbags = pytest.importorskip("rosbags.typesys")
zenoh = pytest.importorskip("zenoh")
TYPES = rosbags.get_typestore(rosbags.Stores.ROS2_JAZZY)
ROBOT = """
[odometry]
topic = "/robot/odom"
type = "nav_msgs/msg/Odometry"
[odometry.fields]
x = { path = "pose.pose.position.x", unit = "m" }
speed = { path = "twist.twist.linear.x", unit = "m/s" }
covariance = { path = "pose.covariance", unit = "m^2" }
frame = { path = "header.frame_id", value = "odom" }

[imu]
topic = "imu"
type = "sensor_msgs/msg/Imu"
[imu.fields]
rate = { path = "angular_velocity.z", unit = "rad/s" }

[joints]
topic = "/joint_states"
type = "sensor_msgs/msg/JointState"
[joints.fields]
name = { path = "name", value = ["left", "right"] }
angle = { path = "position", count = 2, unit = "rad" }

[battery]
topic = "/battery"
type = "sensor_msgs/msg/BatteryState"
[battery.fields]
voltage = { path = "voltage", unit = "V" }
status = { path = "power_supply_status" }
present = { path = "present" }

[time]
topic = "/clock"
type = "rosgraph_msgs/msg/Clock"
[time.fields]

[command]
topic = "/cmd_vel"
type = "geometry_msgs/msg/TwistStamped"
[command.fields]
sec = { path = "header.stamp.sec", unit = "s" }
nanosec = { path = "header.stamp.nanosec", unit = "ns" }
speed = { path = "twist.linear.x", unit = "m/s" }
"""
STRING_HASH = "RIHS01_df668c740482bbd48fb39d76a70dfd4bd59db1288021743503259e948f6b1a18"
"""Hash of std_msgs/msg/String in the key of docs/design.md of rmw_zenoh."""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "robot.ros2"
    path.write_text(ROBOT)
    return path


@pytest.fixture
def port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        number: int = free.getsockname()[1]
    return number


@pytest.fixture
def codecs(file: Path) -> dict[str, RosCodec]:
    return dict(read_messages(file))


@pytest.mark.parametrize("name", ["odometry", "imu", "joints", "battery", "time", "command"])
def test_each_codec_keeps_the_contract(name: str, codecs: dict[str, RosCodec]) -> None:
    check_frame_codec(codecs[name], samples=50)


def test_rosbags_reads_the_messages(codecs: dict[str, RosCodec]) -> None:
    data = codecs["odometry"].encode_at(3_000_000_007, np.arange(38.0))
    message: Any = TYPES.deserialize_cdr(data, "nav_msgs/msg/Odometry")
    assert (message.header.stamp.sec, message.header.stamp.nanosec) == (3, 7)
    assert message.header.frame_id == "odom"
    assert message.pose.pose.position.x == 0.0
    assert message.twist.twist.linear.x == 1.0
    assert message.pose.covariance.tolist() == list(range(2, 38))
    assert message.pose.pose.orientation.w == 1.0
    message = TYPES.deserialize_cdr(
        codecs["joints"].encode(np.array([0.5, -0.5])), "sensor_msgs/msg/JointState"
    )
    assert message.name == ["left", "right"]
    assert message.position.tolist() == [0.5, -0.5]
    assert message.effort.size == 0


def test_the_bytes_of_a_float_are_those_of_the_cdr_standard(tmp_path: Path) -> None:
    path = tmp_path / "one.ros2"
    path.write_text(
        '[a]\ntopic="/a"\ntype="std_msgs/msg/Float64"\n[a.fields]\ndata={path="data"}\n'
    )
    codec = read_messages(path)["a"]
    assert codec.encode(np.array([1.5])) == b"\0\1\0\0" + struct.pack("<d", 1.5)
    into = np.zeros(1)
    codec.decode(b"\0\0\0\0" + struct.pack(">d", 2.5), into)  # big-endian
    assert into[0] == 2.5


def test_malformed_messages_change_nothing(codecs: dict[str, RosCodec]) -> None:
    numbers = random.Random(43)
    refused = 0
    for codec in codecs.values():
        good = codec.encode(codec.signals.initial())
        for _ in range(300):
            data = bytearray(good)
            for _ in range(numbers.randrange(1, 4)):
                data[numbers.randrange(len(data))] = numbers.randrange(256)
            data = data[: numbers.randrange(len(data))] if numbers.random() < 0.5 else data
            into = codec.signals.initial() + 7.0
            try:
                codec.decode(bytes(data), into)
            except FrameError:
                refused += 1
                assert np.array_equal(into, codec.signals.initial() + 7.0)
            assert np.isfinite(into).all()
    assert refused > 800


@pytest.mark.parametrize(
    "wrong", [b"", b"\0\1", bytes(MOST_BYTES + 1), b"\0\1\0\0\xff\xff\xff\xff"]
)
def test_lengths_are_checked_before_use(wrong: bytes, codecs: dict[str, RosCodec]) -> None:
    for codec in codecs.values():
        with pytest.raises(FrameError, match=codec.name):
            codec.decode(wrong, codec.signals.initial())


def test_values_that_do_not_fit_are_errors(codecs: dict[str, RosCodec]) -> None:
    for values, text in (
        ([np.nan, 0, 0], "finite"), ([1e39, 0, 0], "float32"),
        ([0, 256, 0], "does not fit"), ([0, 0, 2], "does not fit"),
    ):  # fmt: skip
        with pytest.raises(FrameError, match=text):
            codecs["battery"].encode(np.array(values, float))


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ('type = "nav_msgs/msg/Odometri"', "unknown message type"),
        ('topic = "/a b"', "is not a name such as /robot/odom"),
        ('x = { path = "pose.pose.position.u" }', "unknown field 'u' in geometry_msgs/msg/Point"),
        ('x = { path = "pose.pose" }', "give one of its fields: position, orientation"),
        ('x = { path = "header.frame_id" }', 'give value = "..." for a constant text'),
        ('x = { path = "header.frame_id", value = 3 }', "header.frame_id is a string"),
        ('x = { path = "pose.covariance", count = 3 }', "has 36 values; write count = 36"),
        ('x = { path = "pose.pose.position.x", count = 2 }', "is one number; leave out count"),
        ('x = { path = "pose.pose.position.x.y" }', "x of geometry_msgs/msg/Point has no fields"),
    ],
)
def test_a_wrong_file_is_an_error_with_its_line(line: str, text: str, tmp_path: Path) -> None:
    rows = {"topic": 'topic = "/odom"', "type": 'type = "nav_msgs/msg/Odometry"', "x": ""}
    rows[line.split(" ")[0]] = line
    path = tmp_path / "wrong.ros2"
    path.write_text(f"[o]\n{rows['topic']}\n{rows['type']}\n[o.fields]\n{rows['x']}\n")
    with pytest.raises(RtsimError) as raised:
        read_messages(path)
    assert text in str(raised.value)
    assert "wrong.ros2" in str(raised.value)


def test_a_sequence_needs_a_count(tmp_path: Path) -> None:
    path = tmp_path / "wrong.ros2"
    path.write_text(
        '[o]\ntopic = "/o"\ntype = "sensor_msgs/msg/JointState"\n[o.fields]\n'
        'x = { path = "position" }\n'
    )
    with pytest.raises(RtsimError, match="sequence of any length; write count = 3"):
        read_messages(path)


@pytest.mark.live
def test_the_link_keeps_the_contract(file: Path, port: int, codecs: dict[str, RosCodec]) -> None:
    url = f"zenoh://127.0.0.1:{port}?frames={file}"
    codec = codecs["imu"]
    frames = [Frame(codec.encode(np.array([rate])), codec.identifier) for rate in (0.0, 1.0, -2.5)]

    def make() -> Any:
        ends = open_frame_link(f"{url}&listen=yes"), open_frame_link(url)
        _meet(ends, frames)
        return ends

    check_frame_link(make, frames)


@pytest.mark.live
def test_a_router_that_ends_during_a_run_is_an_error(file: Path, port: int) -> None:
    url = f"zenoh://127.0.0.1:{port}?frames={file}"
    router, link = open_frame_link(f"{url}&listen=yes"), open_frame_link(url)
    assert link.receive(0.0) is None
    router.close()

    def wait() -> None:
        for _ in range(200):
            link.receive(0.05)

    with pytest.raises(LinkError, match="is lost: the router has ended; start it again"):
        wait()
    with pytest.raises(LinkError, match="is lost"):
        link.send(Frame(b"", 0))
    link.close()


def _meet(ends: Any, frames: list[Frame]) -> None:
    """Send until both ends know each other's topics, then read what has arrived."""
    for one, other in (ends, ends[::-1]):
        missing = {frame.identifier for frame in frames}
        while missing:
            for frame in frames:
                one.send(frame)
            while (got := other.receive(0.1)) is not None:
                missing.discard(got.identifier)


class Robot(rt.Plant):
    """A robot that moves with the commanded speed."""

    x = rt.state("m")
    v = rt.input("m/s")

    def derivative(self, d: Any) -> None:
        d.x = self.v


def _scenario(url: str) -> tuple[rt.Scenario, FrameInput]:
    out = rt.Scenario("robot", until=0.1)
    robot = out.plant("robot", Robot(), step=0.01)
    drive = FrameInput(url, ["command"], prefix=True)
    out.external_input("drive", drive.signals, drive)
    out.connect("drive.command_speed", robot.v)
    ros = FrameController(url, send=["odometry", "time"], prefix=True)
    wires = {"odometry_x": "robot.x", "odometry_speed": "drive.command_speed"}
    wires["odometry_covariance"] = [0.0] * 36  # type: ignore[assignment]
    out.controller("ros", ros, period=0.02, compute=rt.Fixed(0.001), inputs=wires)
    return out, drive


@pytest.fixture
def session(port: int) -> Iterator[Any]:
    """A program of somebody else, which knows nothing of rtsim."""
    config = zenoh.Config()
    for key, value in (
        ("mode", '"peer"'), ("listen/endpoints", f'["tcp/127.0.0.1:{port}"]'),
        ("scouting/multicast/enabled", "false"),
    ):  # fmt: skip
        config.insert_json5(key, value)
    with zenoh.open(config) as opened:
        yield opened


@pytest.mark.live
def test_a_subscriber_without_ros_receives_a_run_and_rosbags_reads_it(
    file: Path, port: int, session: Any, tmp_path: Path, codecs: dict[str, RosCodec]
) -> None:
    samples: list[Any] = []
    tokens: list[str] = []
    enough = threading.Event()

    def take(sample: Any) -> None:
        samples.append(sample)
        if len(samples) >= 12:  # two topics at six ticks
            enough.set()

    hears = session.declare_subscriber("0/**", take, allowed_origin=zenoh.Locality.REMOTE)
    found = session.liveliness().declare_subscriber(
        "@ros2_lv/0/**", lambda sample: tokens.append(str(sample.key_expr))
    )
    url = f"zenoh://127.0.0.1:{port}?frames={file}"
    out, drive = _scenario(url)
    command = codecs["command"]
    key = f"0/cmd_vel/geometry_msgs::msg::dds_::TwistStamped_/{command.type_hash}"
    drive.poll()  # opens the link
    assert drive.traffic is not None
    good, wrong = command.encode(np.array([12.0, 7.0, 2.0])), b"\0\1\0\0 not a message"

    def put() -> None:
        session.put(key, wrong, attachment=b"")
        session.put(key, good, attachment=b"")

    put()
    while drive.traffic.link.receive(0.05) is None:  # until the sides know each other's topics
        put()
    for _ in range(20):
        put()
    assert drive.traffic.link.receive(20.0) is not None
    result = rt.simulate(out, compile=False)
    recording = result.recording()
    drive.close()
    assert drive.malformed
    read = recording.track("inputs/drive")
    assert read.column("command_speed")[0] == 2.0
    assert (read.column("command_sec")[0], read.column("command_nanosec")[0]) == (12.0, 7.0)
    assert read.column("malformed")[-1] >= 1.0
    stamps = recording.track("stamps/drive")
    assert 0 < stamps.integer("initiated")[0] <= stamps.integer("completed")[0]
    again = rerun(recording, _scenario(url)[0])
    assert compare_exact(recording, again) is None

    enough.wait(20)
    hears.undeclare()
    found.undeclare()
    bag = _written(tmp_path / "bag", samples)
    x = [message.pose.pose.position.x for _, message in bag["/robot/odom"]]
    at = [m.header.stamp.sec * 10**9 + m.header.stamp.nanosec for _, m in bag["/robot/odom"]]
    assert at == [k * 20_000_000 for k in range(6)]
    assert x == pytest.approx([2.0 * ns / 1e9 for ns in at], abs=1e-12)
    clocks = [m.clock.sec * 10**9 + m.clock.nanosec for _, m in bag["/clock"]]
    assert clocks == at
    kinds = {token.split("/")[5] for token in tokens}
    assert kinds == {"NN", "MP", "MS"}
    assert any("/%robot%odom/nav_msgs::msg::dds_::Odometry_/RIHS01_" in token for token in tokens)


def _written(path: Path, samples: list[Any]) -> dict[str, list[Any]]:
    """Write the samples into a bag, and return what rosbags reads from it, by topic."""
    from rosbags.highlevel import AnyReader
    from rosbags.rosbag2 import StoragePlugin, Writer

    known = {}
    with Writer(path, version=9, storage_plugin=StoragePlugin.MCAP) as writer:
        for sample in samples:
            _, *topic, kind, _ = str(sample.key_expr).split("/")
            name, typename = "/" + "/".join(topic), kind.replace("::dds_", "").replace("::", "/")
            if name not in known:
                known[name] = writer.add_connection(name, typename.rstrip("_"), typestore=TYPES)
            number, ns, length, _ = struct.unpack("<qqB16s", sample.attachment.to_bytes())
            assert (number >= 1, length) == (True, 16)
            writer.write(known[name], ns, sample.payload.to_bytes())
    found: dict[str, list[Any]] = {}
    with AnyReader([path], default_typestore=TYPES) as reader:
        for connection, ns, data in reader.messages():
            message = reader.deserialize(data, connection.msgtype)
            found.setdefault(connection.topic, []).append((ns, message))
    return found


def test_the_hash_of_a_type_is_that_of_ros() -> None:
    assert TYPES.hash_rihs01("std_msgs/msg/String") == STRING_HASH


@pytest.mark.parametrize(
    ("url", "text"),
    [
        ("zenoh://10.0.0.1:7447?frames={file}", "not this machine; add remote=yes"),
        ("zenoh://localhost?frames={file}", "write zenoh://127.0.0.1:7447"),
        ("zenoh://127.0.0.1:7447", "add the option frames=FILE.ros2"),
        ("zenoh://127.0.0.1:7447/a?frames={file}", "has no path"),
        ("zenoh://127.0.0.1:7447?frames={file}&domain=x", "is not a number from 0 to 999"),
        ("zenoh://127.0.0.1:7447?frames={file}&node=a/b", "is not a name such as rtsim"),
        ("zenoh://127.0.0.1:7447?frames={file}&listn=yes", "unknown option 'listn'"),
        ("zenoh://127.0.0.1:7447?frames={file}&listen=1", "write listen=yes"),
    ],
)
def test_a_wrong_url_is_an_error(url: str, text: str, file: Path) -> None:
    with pytest.raises(ScenarioError, match=text):
        open_frame_link(url.format(file=file))


def test_a_missing_router_is_an_error_that_says_how_to_start_one(file: Path, port: int) -> None:
    with pytest.raises(LinkError, match="rmw_zenohd"):
        open_frame_link(f"zenoh://127.0.0.1:{port}?frames={file}")


def test_the_suffix_ros2_is_registered(file: Path) -> None:
    assert list(read_frames(file)) == ["odometry", "imu", "joints", "battery", "time", "command"]
