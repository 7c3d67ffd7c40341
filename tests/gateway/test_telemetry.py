"""What plotting tools are sent: topics, rates, losses; the frames to a viewer.

Bodies in space, as viewers are shown them: placed by signals, on the Earth's ellipsoid.
"""

from __future__ import annotations

import math
import random
import socket
from collections.abc import Iterator
from typing import Any

import msgpack
import numpy as np
import pytest
import zmq
from click.testing import CliRunner

from rtsim.cli import main
from rtsim.cli.telemetry import telemetry_line
from rtsim.core.errors import ScenarioError, UnknownName
from rtsim.core.tag import NS_PER_S
from rtsim.equations.earth import EARTH_PARAMETERS, geodetic
from rtsim.gateway import publishing
from rtsim.gateway.addresses import check_foxglove, listen, read_address
from rtsim.gateway.foxglove import MessageCounts, OutgoingQueue
from rtsim.gateway.publishing import (
    PlotJuggler,
    SampledTopic,
    SamplePublisher,
    StateTable,
    check_rates,
    read_rates,
    topics_of,
)
from rtsim.gateway.shapes import BodyTrail, World, placed_bodies, to_quaternion, triangles
from rtsim.models.unstable import scenario as unstable
from rtsim.scenario.body import Body

SIGNALS = [
    {"name": "plane.latitude", "unit": "rad"},
    {"name": "plane.longitude", "unit": "deg"},
    {"name": "plane.altitude", "unit": "ft"},
    {"name": "plane.roll", "unit": "rad"},
    {"name": "plane.pitch", "unit": "rad"},
    {"name": "plane.yaw", "unit": "rad"},
    {"name": "pilot.stick", "unit": "1"},
    {"name": "pilot.stick", "unit": "s"},
]
RUN = {"signals": SIGNALS, "scenario": "any"}


class Seen:
    """A viewer that notes what it is shown."""

    name = "seen"
    counts = (7, 2)
    failure = ""

    def __init__(self) -> None:
        self.shown: list[tuple[int, list[str]]] = []
        self.begun = self.agains = 0

    def begin(self, run: Any, topics: Any) -> None:  # noqa: ARG002
        self.begun += 1

    def show(self, due: Any, state: StateTable, values: Any) -> None:  # noqa: ARG002
        self.shown.append((state.ns, [t.name for t in due]))

    def rewound(self) -> None:
        self.agains += 1

    def close(self) -> None:
        pass


class Time:
    """The wall clock of a test."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.ns = 10**15
        monkeypatch.setattr(publishing, "stopwatch", lambda: self.ns)


@pytest.fixture
def wall(monkeypatch: pytest.MonkeyPatch) -> Time:
    return Time(monkeypatch)


def _topics(**rates: float) -> tuple[SamplePublisher, Seen]:
    seen = Seen()
    publisher = SamplePublisher([seen])
    publisher.begin({**RUN, "telemetry": rates})
    return publisher, seen


def test_a_part_is_a_topic_and_no_name_comes_twice() -> None:
    plane, pilot, timing, scene = topics_of(SIGNALS)
    assert plane.names == ("latitude", "longitude", "altitude", "roll", "pitch", "yaw")
    assert pilot == SampledTopic("pilot", ("stick", "stick_parameter"), ("1", "s"), (6, 7))
    assert len(timing.names) == len(timing.units)
    assert scene.names == ()
    state = StateTable(ns=5, overruns_wake=2, overruns_compute=1, rate=2.0, margin_ns=-1_500_000)
    row = dict(zip(timing.names, timing.row(state, np.zeros(0)), strict=True))
    assert (row["ns"], row["overruns"], row["rate"], row["margin"]) == (5.0, 3.0, 2.0, -0.0015)


def test_each_topic_has_its_rate_and_none_is_sent_at_0(wall: Time) -> None:
    publisher, seen = _topics(**{"": 50.0, "plane": 100.0, "pilot": 10.0, "scene": 0.0})
    assert publisher.rate_hz == 100.0
    for k in range(200):  # two seconds of looks that come when they like
        wall.ns += 10_000_000 + (-1) ** k * 3_000_000
        publisher.publish(StateTable(ns=k * 1000), np.zeros(8))
    sent = [name for _, due in seen.shown for name in due]
    assert sent.count("plane") == 200
    assert 98 <= sent.count("timing") <= 102
    assert 19 <= sent.count("pilot") <= 22
    assert sent.count("scene") == 0


def test_while_time_stands_a_look_a_second_is_shown(wall: Time) -> None:
    publisher, seen = _topics()
    for _ in range(200):
        wall.ns += 20_000_000
        publisher.publish(StateTable(ns=77), np.zeros(8))
    assert len(seen.shown) == 4
    assert all(len(due) == 4 for _, due in seen.shown), "all of it, for who comes late"


def test_viewers_begin_once_and_are_rewound_when_time_goes_back(wall: Time) -> None:
    publisher, seen = _topics()
    for ns in (10, 20, 5, 6):
        wall.ns += NS_PER_S
        publisher.publish(StateTable(ns=ns), np.zeros(8))
    publisher.begin(RUN)
    assert (seen.begun, seen.agains) == (1, 1)
    assert publisher.counts == {"seen": {"sent": 7, "lost": 2}}


def test_the_counts_say_why_a_viewer_got_nothing_any_more() -> None:
    seen = Seen()
    seen.failure = "no viewer is served any more: KeyError: 3"
    counts = SamplePublisher([seen]).counts
    assert counts == {"seen": {"sent": 7, "lost": 2, "failure": seen.failure}}
    assert telemetry_line(counts) == f"seen: 7 messages sent, 2 lost, then {seen.failure}"


def test_a_publisher_without_viewers_sends_nothing() -> None:
    publisher = SamplePublisher()
    publisher.begin(RUN)
    publisher.publish(StateTable(ns=1), np.zeros(8))
    assert (publisher.rate_hz, publisher.counts) == (0.0, {})


def test_rates_are_checked() -> None:
    assert read_rates(["10", "f16=100", "pilot=0"]) == {"": 10.0, "f16": 100.0, "pilot": 0.0}
    for text in ("fast", "f16=", "=5", "f16=-1", "nan", "f16=201", "a=b=c"):
        with pytest.raises(ScenarioError, match="write HZ or TOPIC=HZ"):
            read_rates([text])
    check_rates({"": 1.0, "plane": 2.0, "timing": 3.0, "scene": 4.0}, SIGNALS)
    with pytest.raises(UnknownName, match="unknown topic 'plain'"):
        check_rates({"plain": 1.0}, SIGNALS)


# -- PlotJuggler


@pytest.fixture
def subscriber() -> Iterator[tuple[PlotJuggler, zmq.Socket[bytes]]]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        endpoint = f"tcp://127.0.0.1:{free.getsockname()[1]}"
    tool, context = PlotJuggler(endpoint), zmq.Context()
    end: zmq.Socket[bytes] = context.socket(zmq.SUB)
    end.setsockopt(zmq.RCVHWM, 1)
    end.setsockopt(zmq.LINGER, 0)
    end.setsockopt(zmq.SUBSCRIBE, b"")
    end.connect(endpoint)
    yield tool, end
    end.close()
    context.term()
    tool.close()


def test_plotjuggler_gets_topic_and_map_and_lost_messages_are_counted(
    subscriber: tuple[PlotJuggler, zmq.Socket[bytes]],
) -> None:
    tool, end = subscriber
    topics = topics_of(SIGNALS)
    values = np.array([0.5, 10.0, math.nan, 0.1, 0.2, 0.3, math.inf, 8.0])
    tries = 0
    while not end.poll(10) and tries < 500:  # until it has subscribed
        tool.show(topics, StateTable(ns=1_500_000_000), values)
        tries += 1
    name, data = end.recv_multipart()
    assert name == b"rtsim/plane"
    assert msgpack.unpackb(data) == {
        "timestamp": 1.5, "latitude": 0.5, "longitude": 10.0, "roll": 0.1, "pitch": 0.2, "yaw": 0.3,
    }  # fmt: skip
    wide = SampledTopic(
        "wide", tuple(f"signal_{k}" for k in range(3000)), ("1",) * 3000, (0,) * 3000
    )
    before = sum(tool.counts)
    for _ in range(3000):
        tool.show([wide], StateTable(), np.ones(1))
    sent, lost = tool.counts
    got = 0
    while end.poll(200):
        got += end.recv_multipart()[0] == b"rtsim/wide"
    assert 0 < got < 3000
    assert lost == 3000 - got
    assert sent + lost == before + 3000


# -- the server of viewers


def test_a_viewer_that_does_not_read_loses_the_oldest_messages() -> None:
    counts = MessageCounts()
    waiting = OutgoingQueue(counts, most=1000)
    messages = [b"\x01" + bytes((k,)) * 99 for k in range(50)]
    waiting.add("channels")
    for message in messages:
        waiting.add(message)
        waiting.add(b"\x02time")
    got = []
    while waiting:
        got.append(waiting.take())
    assert got[0] == "channels", "a text is not dropped"
    kept = [one for one in got if one in messages]
    assert kept == messages[-len(kept) :], "the newest, in order"
    assert counts == MessageCounts(0, 50 - len(kept))
    assert 5 <= len(kept) <= 10


def test_the_newest_message_is_kept_whatever_its_size() -> None:
    counts = MessageCounts()
    waiting = OutgoingQueue(counts, most=1000)
    big = [b"\x01" + bytes((k,)) * 5000 for k in range(3)]
    for one in big:
        waiting.add(one)
    assert counts.lost == 2
    assert waiting.take() == big[-1]
    waiting.add(big[0])
    waiting.discard()
    assert counts.lost == 3
    assert not waiting


# -- addresses


def test_addresses() -> None:
    assert read_address("8765") == read_address(":8765") == ("127.0.0.1", 8765)
    assert read_address("0.0.0.0:1") == ("0.0.0.0", 1)
    assert read_address("[::1]:80") == ("::1", 80)
    for text in ("f16", "host:", "host:0", "host:65536", "host:x", ""):
        with pytest.raises(ScenarioError, match="write HOST:PORT"):
            read_address(text)


def test_a_taken_port_is_an_error_before_the_run() -> None:
    with listen(_free()) as first:
        port = first.getsockname()[1]
        assert first.getsockname()[0] == "127.0.0.1"
        with pytest.raises(ScenarioError, match=r"cannot serve --foxglove at .* give another"):
            listen(str(port))
    with pytest.raises(ScenarioError, match="cannot serve --foxglove"):
        listen("no.such.host.invalid:8765")


def _free() -> str:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return str(free.getsockname()[1])


def test_a_missing_package_is_an_error_with_the_command_that_installs_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)  # noqa: ARG005
    with pytest.raises(ScenarioError, match=r"type pip install 'rtsim\[foxglove\]'"):
        check_foxglove("8765")


@pytest.mark.parametrize(
    ("typed", "message"),
    [
        (["--foxglove", "unstable"], "'unstable' is the scenario, write it before --foxglove"),
        (["unstable", "--telemetry", "10"], "but no topic is sent; add --foxglove"),
        (["unstable", "--foxglove", "1", "--telemetry", "x"], "write HZ or TOPIC=HZ"),
    ],
)
def test_mistyped_options_of_telemetry_are_usage_errors(typed: list[str], message: str) -> None:
    pytest.importorskip("foxglove")
    told = CliRunner().invoke(main, ["run", *typed, "--no-record"])
    assert told.exit_code == 2
    assert message in told.stderr


PLANE = Body(
    "plane",
    geodetic=("plane.latitude", "plane.longitude", "plane.altitude"),
    euler=("plane.roll", "plane.pitch", "plane.yaw"),
)


def _pose(latitude: float, longitude: float, feet: float, *turn: float, world: World) -> Any:
    (body,) = placed_bodies([PLANE], SIGNALS)
    row = [latitude, math.degrees(longitude), feet, *turn]
    return body.pose(np.array(row), world)


def _turn(q: tuple[float, float, float, float], v: Any) -> Any:
    """v, rotated by (x, y, z, w)."""
    axis, w = np.array(q[:3]), q[3]
    return np.array(v) + 2.0 * np.cross(axis, np.cross(axis, v) + w * np.array(v))


def test_the_first_position_is_the_origin_and_the_axes_are_east_north_up() -> None:
    world = World()
    first = _pose(0.6, -1.3, 10_000.0, 0.0, 0.0, 0.0, world=world)
    assert first.position == pytest.approx([0.0, 0.0, 0.0])
    assert first.location == pytest.approx((0.6, -1.3, 3048.0))
    assert _turn(first.rotation, (1, 0, 0)) == pytest.approx([0, 1, 0]), "its nose to the north"
    assert _turn(first.rotation, (0, 1, 0)) == pytest.approx([1, 0, 0]), "right wing to the east"
    assert _turn(first.rotation, (0, 0, 1)) == pytest.approx([0, 0, -1])
    north = _pose(0.6 + 1e-5, -1.3, 10_000.0, 0, 0, math.pi / 2, world=world)
    assert north.position == pytest.approx([0.0, 63.6, 0.0], abs=0.5)
    assert _turn(north.rotation, (1, 0, 0)) == pytest.approx([1, 0, 0], abs=1e-4), "nose east"
    up = _pose(0.6, -1.3, 10_100.0, 0, 0.3, 0, world=world)
    assert up.position == pytest.approx([0.0, 0.0, 30.48], abs=1e-6)
    assert _turn(up.rotation, (1, 0, 0)) == pytest.approx([0, math.cos(0.3), math.sin(0.3)])
    banked = _pose(0.6, -1.3, 10_000.0, 0.4, 0, 0, world=world)
    assert _turn(banked.rotation, (0, 1, 0))[2] == pytest.approx(-math.sin(0.4)), "right wing down"


def test_places_are_those_of_the_models_earth() -> None:
    chance, world = random.Random(1), World()
    _pose(0.0, 0.0, 0.0, 0.0, 0.0, 0.0, world=world)
    p = dict(zip(EARTH_PARAMETERS.names, EARTH_PARAMETERS.initial(), strict=True))
    for _ in range(50):
        latitude, longitude = chance.uniform(-1.57, 1.57), chance.uniform(-3.1, 3.1)
        pose = _pose(latitude, longitude, 5000.0, 0, 0, 0, world=world)
        east, north, up = pose.position  # seen from latitude 0, longitude 0
        x, y, z = up + p["equatorial_radius"], east, north
        sine, _, altitude = geodetic(x, y, z, p["equatorial_radius"], p["flattening"])
        assert sine == pytest.approx(math.sin(latitude), abs=1e-9)
        assert altitude == pytest.approx(5000.0 * 0.3048, abs=1e-3)
        assert math.atan2(y, x) == pytest.approx(longitude, abs=1e-9)


def test_around_the_pole_the_nose_turns_evenly_though_yaw_jumps() -> None:
    """A ring at 89.95 deg, flown eastwards: a circle of 5.6 km, tangent to it all the way."""
    world, radius = World(), 0.0
    points, noses = [], []
    for k in range(360):
        pose = _pose(math.radians(89.95), math.radians(k - 180), 0.0, 0, 0, math.pi / 2,
                     world=world)  # fmt: skip
        points.append(pose.position)
        noses.append(_turn(pose.rotation, (1, 0, 0)))
    centre = np.mean(points, axis=0)
    radius = float(np.linalg.norm(points[0] - centre))
    assert radius == pytest.approx(5585.0, rel=1e-3)
    for k in range(360):
        assert np.linalg.norm(points[k] - centre) == pytest.approx(radius, rel=1e-3)
        step = points[(k + 1) % 360] - points[k - 1]
        assert float(noses[k] @ step) == pytest.approx(float(np.linalg.norm(step)), rel=1e-6)


def test_north_east_down_and_a_quaternion() -> None:
    names = ("boat.n", "boat.e", "boat.d", "boat.w", "boat.x", "boat.y", "boat.z")
    rows = [{"name": n, "unit": "m" if k < 3 else "1"} for k, n in enumerate(names)]
    body = Body("boat", north_east_down=names[:3], quaternion=names[3:])
    (boat,) = placed_bodies([body], rows)
    half = math.radians(45.0)
    values = np.array([100.0, 20.0, -5.0, math.cos(half), 0.0, 0.0, math.sin(half)])
    pose = boat.pose(values, World())
    assert pose is not None
    assert pose.position.tolist() == [20.0, 100.0, 5.0]
    assert pose.location is None
    assert _turn(pose.rotation, (1, 0, 0)) == pytest.approx([1, 0, 0]), "yaw 90 deg: east"
    values[1] = math.nan
    assert boat.pose(values, World()) is None


def test_every_rotation_comes_back_from_its_quaternion() -> None:
    chance = random.Random(2)
    for _ in range(300):
        q = np.array([chance.gauss(0, 1) * (chance.random() > 0.3) + 1e-9 for _ in range(4)])
        q /= np.linalg.norm(q)
        matrix = np.column_stack([_turn(tuple(q), v) for v in np.eye(3)])
        assert abs(float(np.array(to_quaternion(matrix)) @ q)) == pytest.approx(1.0)


def test_mistakes_in_a_body_are_named() -> None:
    where, turned = PLANE.geodetic, PLANE.euler
    with pytest.raises(
        ScenarioError, match="position is missing or given twice; give geodetic= with 3"
    ):
        Body("plane", euler=turned)
    with pytest.raises(ScenarioError, match="given twice"):
        Body("plane", geodetic=where, north_east_down=where, euler=turned)
    with pytest.raises(ScenarioError, match="attitude is missing or given twice"):
        Body("plane", geodetic=where, euler=turned[:2])
    with pytest.raises(UnknownName, match="unknown shape 'ball'"):
        Body("plane", geodetic=where, euler=turned, shape="ball")
    with pytest.raises(ScenarioError, match="is not an identifier"):
        Body("the plane", geodetic=where, euler=turned)
    with pytest.raises(ScenarioError, match="length"):
        Body("plane", geodetic=where, euler=turned, length=math.nan)
    with pytest.raises(UnknownName, match=r"unknown signal 'plane\.height'"):
        placed_bodies([Body("p", geodetic=(*where[:2], "plane.height"), euler=turned)], SIGNALS)
    with pytest.raises(
        ScenarioError, match=r"plane\.altitude has the unit \[ft\]; expected one of"
    ):
        placed_bodies([Body("p", geodetic=where, euler=(*turned[:2], "plane.altitude"))], SIGNALS)
    assert Body.from_plain(PLANE.to_plain()) == PLANE


def test_a_scenario_shows_bodies_and_copies_show_them_too() -> None:
    scenario = unstable()
    scenario.show(PLANE)
    assert scenario.copy().bodies == (PLANE,)


def test_a_track_keeps_the_whole_flight_in_bounded_points() -> None:
    track = BodyTrail(spacing=1.0, most=100)
    for k in range(100_000):
        track.add(np.array([k * 0.5, 0.0, 0.0]))
    points = track.points(np.array([50_000.0, 0.0, 0.0]))
    assert 50 <= len(points) <= 101
    assert points[0].tolist() == [0.0, 0.0, 0.0]
    assert points[-1][0] == 50_000.0
    gaps = np.diff([p[0] for p in points[:-1]])
    assert gaps.min() == gaps.max(), "evenly spaced"
    track.clear()
    assert len(track.points(points[0])) == 1


@pytest.mark.parametrize("shape", ["aircraft", "box", "car", "quadcopter"])
def test_shapes_are_triangles_of_the_given_length(shape: str) -> None:
    corners, colours = triangles(shape, 15.0)
    assert len(corners) == len(colours)
    corners = corners.reshape(-1, 3)
    assert len(corners) % 3 == 0
    assert np.ptp(corners[:, 0]) == pytest.approx(15.0, rel=0.15)
    assert np.ptp(corners[:, 1]) > 0 < np.ptp(corners[:, 2])
