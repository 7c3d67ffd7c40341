"""A run live in Foxglove: a viewer that reads, one that hangs, a trace that knows of neither.

A page of somebody else, open in a browser of this machine, does not watch the run.
"""

from __future__ import annotations

import base64
import json
import math
import socket
import struct
import subprocess
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from websockets.exceptions import InvalidStatus
from websockets.sync import client as websocket
from websockets.typing import Origin, Subprotocol

from rtsim.cli.main import main
from rtsim.core.errors import ScenarioError
from rtsim.equations.earth import EARTH_RATE
from rtsim.gateway.addresses import OriginCheck, listen, read_origins
from rtsim.gateway.client import ControlError, connect
from rtsim.gateway.foxglove import MOST_VIEWERS, PROTOCOL, Described, ViewerServer
from rtsim.gateway.loop import Gateway
from rtsim.models import unstable
from rtsim.record.reading import Recording
from rtsim.record.recorders import MemoryRecorder
from rtsim.record.replay_comparison import compare_exact
from rtsim.runs.simulation import Pace, simulate
from rtsim.timing.policy import parse_policy

pytest.importorskip("foxglove")
foxglove_parts = pytest.importorskip("foxglove_parts")

PARTS = ("f16", "autopilot", "guidance", "pilot", "timing")
LAYOUT = Path(__file__).parents[2] / "docs" / "layouts" / "foxglove_f16.json"
SCENE = ("scene/frames", "scene/bodies", "scene/f16/location")


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


@dataclass
class Evidence:
    """What a viewer saw of one flight of the F-16, and what the flight said of itself."""

    channels: dict[str, dict[str, Any]] = field(default_factory=dict)
    messages: dict[str, list[Any]] = field(default_factory=lambda: defaultdict(list))
    times: list[int] = field(default_factory=list)
    live: dict[str, Any] = field(default_factory=dict)
    summary: dict[str, Any] = field(default_factory=dict)
    recording: Recording | None = None
    listeners: set[str] = field(default_factory=set)
    port: int = 0
    seconds: tuple[float, float] = (0.0, 0.0)

    @property
    def started_ns(self) -> int:
        return int(self.channels["f16"]["metadata"]["started_ns"])

    def place(self, log_ns: int) -> Any:
        """Inertial position (3,) m that was recorded then, turned back by the Earth's rotation."""
        assert self.recording is not None
        ns, _, _ = self.recording.track("f16").rows
        at = int(np.searchsorted(ns, log_ns - self.started_ns, side="right")) - 1
        angle = EARTH_RATE * float(ns[at]) / 1e9
        x, y, z = self.recording.track("f16").column("position")[at]
        c, s = math.cos(angle), math.sin(angle)
        return np.array([c * x + s * y, c * y - s * x, z])


@pytest.fixture(scope="module")
def evidence(tmp_path_factory: pytest.TempPathFactory) -> Evidence:
    """Flown once: until the viewer has seen enough, and the one that hangs has lost something."""
    folder, seen = tmp_path_factory.mktemp("live"), Evidence()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RTSIM_RUNTIME_DIR", str(folder))
        path, port = folder / "live.mcap", free_port()
        seen.port = port
        command = [
            sys.executable, "-m", "rtsim", "run", "f16", "--pace", "1.0", "--until", "100000",
            "--overrun", "slip:1000000", "--foxglove", str(port), "--telemetry", "200",
            "-o", str(path), "--json",
        ]  # fmt: skip
        before = time.time()
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        try:
            fly(seen, process, port)
            seen.seconds = (before, time.time())
            seen.summary = json.loads(process.communicate(timeout=60)[0])
        finally:
            process.kill()
            process.communicate()
        assert process.returncode == 130, "it was to fly on"
        seen.recording = Recording.open(path)
    return seen


def fly(seen: Evidence, process: subprocess.Popen[str], port: int) -> None:
    while True:
        try:
            watching = foxglove_parts.watching(port)
            watcher = watching.__enter__()
            break
        except OSError:  # it does not listen yet
            alive(process)
    try:
        watcher.wait_for(*PARTS, *SCENE)
        seen.channels = watcher.channels
        watcher.subscribe(*PARTS, *SCENE)
        with foxglove_parts.frozen(port, len(watcher.channels)), told(process) as run:
            for message in watcher.messages():
                seen.messages[message.topic].append(message)
                if len(seen.messages["timing"]) % 100 == 99:
                    seen.live = run.telemetry["foxglove"]
                    if seen.live["lost"] or len(seen.messages["timing"]) > 5000:
                        break
            seen.listeners = listening(run.pid)
            run.quit()
            for message in watcher.messages():
                seen.messages[message.topic].append(message)
        seen.times = watcher.times
    finally:
        watching.__exit__(None, None, None)


def alive(process: subprocess.Popen[str]) -> None:
    """It goes on for another moment."""
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(0.1)


def told(process: subprocess.Popen[str]) -> Any:
    for _ in range(600):
        try:
            return connect()
        except (ScenarioError, ControlError):
            alive(process)
    raise AssertionError("the run cannot be reached")


def listening(pid: int) -> set[str]:
    """Addresses with ports that a run and its gateway listen at, in hexadecimal."""
    children = subprocess.run(["pgrep", "-P", str(pid)], capture_output=True, text=True).stdout
    held = set()
    for process in (str(pid), *children.split()):
        for link in Path("/proc", process, "fd").glob("*"):
            try:
                held.add(str(link.readlink()))
            except OSError:
                continue
    found = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        for line in Path(table).read_text().splitlines()[1:]:
            row = line.split()
            if row[3] == "0A" and f"socket:[{row[9]}]" in held:
                found.add(row[1])
    return found


@pytest.mark.realtime
def test_channels_are_advertised_with_schemas_and_units(evidence: Evidence) -> None:
    assert set(evidence.channels) == {*PARTS, *SCENE}
    f16 = evidence.channels["f16"]
    assert (f16["encoding"], f16["schemaEncoding"]) == ("protobuf", "protobuf")
    assert f16["schemaName"] == "rtsim.f16"
    assert json.loads(f16["metadata"]["units"])["altitude"] == "m"
    assert evidence.channels["scene/frames"]["schemaName"] == "foxglove.FrameTransforms"
    assert evidence.channels["scene/bodies"]["schemaName"] == "foxglove.SceneUpdate"
    assert all(base64.b64decode(c["schema"]) for c in evidence.channels.values())


@pytest.mark.realtime
def test_messages_come_in_the_order_of_simulated_time_on_top_of_the_wall_clock(
    evidence: Evidence,
) -> None:
    for topic in (*PARTS, *SCENE):
        stamps = [m.ns for m in evidence.messages[topic]]
        assert len(stamps) >= 2, topic
        assert all(a < b for a, b in pairwise(stamps)), topic
    assert evidence.times == sorted(evidence.times), "the time of the server"
    before, after = evidence.seconds
    assert before * 1e9 <= evidence.started_ns <= after * 1e9
    for message in evidence.messages["timing"]:
        assert message.ns == evidence.started_ns + message.fields["ns"]


@pytest.mark.realtime
def test_values_are_those_of_the_recording_at_that_tag(evidence: Evidence) -> None:
    recording = evidence.recording
    assert recording is not None
    track = recording.track("f16")
    ns, _, rows = track.rows
    compared = 0
    for message in evidence.messages["f16"]:
        at = int(np.searchsorted(ns, message.ns - evidence.started_ns, side="right")) - 1
        assert ns[at] == message.ns - evidence.started_ns
        for column, name in enumerate(track.signals.columns):
            assert message.fields[name] == rows[at, column], (name, message.ns)
            compared += 1
    assert compared >= 1000


@pytest.mark.realtime
def test_the_body_moves_in_the_scene_and_leaves_a_track(evidence: Evidence) -> None:
    places = []
    for message in evidence.messages["scene/frames"]:
        (moved,) = message.fields["transforms"]
        assert (moved.parent_frame_id, moved.child_frame_id) == ("world", "f16")
        stamp = moved.timestamp.seconds * 10**9 + moved.timestamp.nanos
        assert stamp == message.ns
        at, q = moved.translation, moved.rotation
        assert q.x**2 + q.y**2 + q.z**2 + q.w**2 == pytest.approx(1.0)
        places.append((at.x, at.y, at.z))
    flown = np.linalg.norm(np.subtract(places[-1], places[0]))
    first, last = (evidence.place(evidence.messages["scene/frames"][k].ns) for k in (0, -1))
    assert flown == pytest.approx(np.linalg.norm(last - first), abs=0.01)
    assert flown > 50.0, "some 170 m/s to the north-east"
    assert places[-1][0] > 0 < places[-1][1]
    shape, track = evidence.messages["scene/bodies"][-1].fields["entities"]
    assert (shape.frame_id, track.frame_id) == ("f16", "world")
    assert len(shape.triangles[0].points) % 3 == 0
    assert len(track.lines[0].points) > 2
    fix = evidence.messages["scene/f16/location"][0].fields
    assert fix["latitude"] == pytest.approx(36.019, abs=0.05)
    assert fix["altitude"] == pytest.approx(3052.0, abs=20.0)


@pytest.mark.realtime
def test_a_hanging_viewer_loses_counted_messages_and_delays_no_other(
    evidence: Evidence,
) -> None:
    assert evidence.live["lost"] > 0, "said while it runs"
    said = evidence.summary["telemetry"]["foxglove"]
    assert said["lost"] >= evidence.live["lost"], "and at the end"
    assert said["sent"] >= sum(map(len, evidence.messages.values()))
    assert evidence.summary["reason"] == "quit"


@pytest.mark.realtime
def test_a_run_with_foxglove_listens_at_its_port_alone(evidence: Evidence) -> None:
    """The server of foxglove-sdk had a second port, which did not check who connects."""
    assert evidence.listeners == {f"0100007F:{evidence.port:04X}"}


@pytest.mark.realtime
def test_the_trace_is_bit_for_bit_that_of_a_run_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def flown(served: bool) -> Any:
        recorder = MemoryRecorder()
        scenario, pace = unstable.scenario(until=4), Pace(1.0, parse_policy("slip:1000000"))
        if not served:
            simulate(scenario, recorder=recorder, pace=Pace(None), compile=False)
            return recorder.recording()
        port = free_port()
        ends: list[Any] = []
        hang = threading.Thread(target=lambda: ends.append(foxglove_parts.frozen(port, 3)))
        about = {"scenario": "unstable", "telemetry": {"": 200.0}}
        with Gateway(about, foxglove=listen(str(port))) as inbox:
            hang.start()
            simulate(scenario, recorder=recorder, pace=pace, compile=False, inbox=inbox)
        hang.join()
        ends[0].close()
        assert inbox.telemetry["foxglove"]["sent"] + inbox.telemetry["foxglove"]["lost"] > 0
        return recorder.recording()

    monkeypatch.setenv("RTSIM_RUNTIME_DIR", str(tmp_path))
    with_it, without = flown(True), flown(False)
    assert compare_exact(without, with_it) is None
    assert with_it.digest() == without.digest()


def test_a_run_without_foxglove_does_not_import_the_package() -> None:
    code = (
        "import sys; import rtsim.gateway.process, rtsim.cli.main, rtsim.gateway.loop; "
        "import rtsim.cli.run; sys.exit('foxglove' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


@pytest.mark.realtime
def test_every_path_of_the_layout_was_sent(evidence: Evidence) -> None:
    for panel in json.loads(LAYOUT.read_text())["configById"].values():
        for series in panel.get("paths", ()):
            topic, _, name = series["value"].partition(".")
            assert math.isfinite(evidence.messages[topic][-1].fields[name])
        for topic in (*panel.get("topics", ()), *filter(None, [panel.get("followTopic")])):
            assert evidence.messages[topic]
        if "followTf" in panel:
            moved = evidence.messages["scene/frames"][-1].fields["transforms"]
            assert panel["followTf"] in [transform.child_frame_id for transform in moved]


def asked(*lines: str) -> bytes:
    head = ["GET / HTTP/1.1", "Host: 127.0.0.1:8765", "Upgrade: websocket", *lines]
    return "\r\n".join([*head, "", ""]).encode()


@pytest.mark.parametrize(
    ("origins", "let_in"),
    [
        ([], True),
        (["https://app.foxglove.dev"], True),
        (["https://APP.foxglove.dev  "], True),
        (["file://"], True),
        (["http://localhost:8080"], True),
        (["http://127.0.0.1:3000"], True),
        (["http://[::1]:3000"], True),
        (["https://viewer.example.org"], True),
        (["https://evil.example"], False),
        (["null"], False),
        (["https://app.foxglove.dev.evil.example"], False),
        (["http://localhost.evil.example"], False),
        (["http://shop.localhost:8080"], False),
        (["http://app.foxglove.dev"], False),
        (["https://localhost@evil.example"], False),
        (["https://app.foxglove.dev", "https://evil.example"], False),
        (["http://[::1"], False),
        ([""], False),
    ],
)
def test_foxglove_refuses_pages_of_other_origins(origins: list[str], let_in: bool) -> None:
    why = OriginCheck(["https://viewer.example.org"]).objection(origins)
    assert (not why) is let_in
    if not let_in:
        assert "--foxglove-origin" in why


@contextmanager
def served() -> Iterator[tuple[int, ViewerServer]]:
    listener = socket.create_server(("127.0.0.1", 0))
    server = ViewerServer(listener, "test")
    server.add(Described("t", "S", b"descriptor", {"a": "b"}))
    port = listener.getsockname()[1]
    server.start()
    try:
        yield port, server
    finally:
        server.close()


def answer(port: int, *parts: bytes) -> bytes:
    with socket.create_connection(("127.0.0.1", port), 10) as viewer:
        for part in parts:
            viewer.sendall(part)
        out = b""
        while data := viewer.recv(4096):
            out += data
        return out


def viewer(port: int, **how: Any) -> websocket.ClientConnection:
    return websocket.connect(f"ws://127.0.0.1:{port}", subprotocols=[Subprotocol(PROTOCOL)], **how)


def test_a_foreign_page_reaches_nothing() -> None:
    with served() as (port, _):
        evil = asked("Origin: https://evil.example")
        said = answer(port, evil[:30], evil[30:])
        assert said.startswith(b"HTTP/1.1 403 Forbidden\r\n")
        assert b"a page of https://evil.example may not watch" in said
        both = asked("Origin: https://app.foxglove.dev", "origin: https://evil.example")
        assert answer(port, both).startswith(b"HTTP/1.1 403 Forbidden\r\n")
        for origin in ("http://evil.example", "null"):
            with pytest.raises(InvalidStatus, match="403"):
                viewer(port, origin=Origin(origin))
        with viewer(port, origin=Origin("https://app.foxglove.dev")) as one:
            assert json.loads(one.recv(10))["op"] == "serverInfo"
        assert answer(port, asked()).startswith(b"HTTP/1.1 426 "), "it does not speak the protocol"


def test_viewers_get_the_topics_that_they_subscribe_to() -> None:
    with served() as (port, server), viewer(port) as one:
        assert json.loads(one.recv(10))["capabilities"] == ["time"]
        (channel,) = json.loads(one.recv(10))["channels"]
        assert channel == {
            "id": 1, "topic": "t", "encoding": "protobuf", "schemaName": "S",
            "schemaEncoding": "protobuf", "schema": "ZGVzY3JpcHRvcg==", "metadata": {"a": "b"},
        }  # fmt: skip
        assert not server.wanted(1)
        one.send(json.dumps({"op": "subscribe", "subscriptions": [{"id": 7, "channelId": 1}]}))
        while not server.wanted(1):
            pass
        server.log(1, b"hello", 123)
        server.broadcast_time(5)
        server.clear_session()
        assert one.recv(10) == struct.pack("<BIQ", 1, 7, 123) + b"hello"
        assert one.recv(10) == struct.pack("<BQ", 2, 5)
        assert json.loads(one.recv(10))["op"] == "serverInfo"
        unknown = {"op": "subscribe", "subscriptions": [{"id": 1, "channelId": 9}]}
        for wrong in ("{", "[]", '{"op": "publish"}', json.dumps(unknown)):
            one.send(wrong)
            assert json.loads(one.recv(10))["level"] == 2
        one.send(json.dumps({"op": "unsubscribe", "subscriptionIds": [7]}))
        while server.wanted(1):
            pass
        assert server.counts.sent == 1


def test_programs_that_only_connect_keep_no_viewer_out() -> None:
    with served() as (port, _), ExitStack() as stack:
        for _ in range(2 * MOST_VIEWERS):
            stack.enter_context(socket.create_connection(("127.0.0.1", port), 10))
        for _ in range(MOST_VIEWERS):
            assert stack.enter_context(viewer(port)).recv(10)
        with pytest.raises(InvalidStatus, match="503"):
            viewer(port)


def test_origins_are_written_as_browsers_do() -> None:
    assert read_origins(["https://Viewer.example.org/"]) == ("https://viewer.example.org",)
    for text in ("viewer.example.org", "https://", "https://a/b", "*"):
        with pytest.raises(ScenarioError, match="is not an origin"):
            read_origins([text])


def test_the_option_goes_with_foxglove() -> None:
    done = CliRunner().invoke(main, ["run", "ball", "--foxglove-origin", "https://a"])
    assert done.exit_code == 2
    assert "works only with --foxglove" in done.output
