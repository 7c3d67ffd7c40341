"""Nodes beyond the process: frames as a controller and as an external input of a run.

Links that carry frames: CAN by python-can (virtual, and by multicast) and UDP datagrams.
"""

from __future__ import annotations

import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from frame_parts import frame_files

from hitl.buses import (
    FRAME_LINKS,
    FrameController,
    FrameInput,
    FrameLink,
    LinkError,
    open_frame_link,
)
from hitl.buses.traffic import MOST_KEPT, MOST_REASONS, OTHERS, Layout, ReadAhead, Traffic
from hitl.buses.udp_link import UdpLink
from hitl.buses.urls import FrameUrl
from hitl.testing.frame_links import check_frame_link
from rtsim.components.frames import FRAME_FILES, Frame, FrameCodec, FrameError, read_frames
from rtsim.components.frames.struct_codec import read_structs
from rtsim.core.clock import Wake
from rtsim.core.errors import ControllerError, ScenarioError
from rtsim.core.random_streams import RandomStreams
from rtsim.core.signals import Signals
from rtsim.core.tag import Tag
from rtsim.record.reading import Recording
from rtsim.record.replay_comparison import compare_exact
from rtsim.runs.replay import rerun
from rtsim.runs.simulation import simulate
from rtsim.scenario.scenario import Scenario
from rtsim.testing.controllers import check_controller
from rtsim.testing.determinism import trace_of

_NUMBER = count()


class Ecu:
    """A node on a virtual bus: at each frame Pedal it answers Engine with 40 rpm for each %."""

    def __init__(self, url: str, codecs: dict[str, FrameCodec]) -> None:
        self.link, self.codecs = open_frame_link(url), codecs
        self.answered = 0

    def poll(self) -> None:
        pedal = np.zeros(1)
        while (frame := self.link.receive(0.0)) is not None:
            if frame.identifier != self.codecs["Pedal"].identifier:
                continue
            self.codecs["Pedal"].decode(frame.data, pedal)
            values = np.array([40.0 * pedal[0], 0.0, 20.0, 1.0])
            self.link.send(Frame(self.codecs["Engine"].encode(values), 256))
            self.answered += 1
            if self.answered == 3:
                self.link.send(Frame(b"\1\2\3", 256))  # too short
                self.link.send(Frame(b"", 0x7FF))  # for somebody else


@pytest.fixture
def url(tmp_path: Path) -> str:
    dbc, _ = frame_files(tmp_path)
    return f"can://virtual/node-{next(_NUMBER)}?dbc={dbc}"


@pytest.fixture
def ecu(url: str) -> Iterator[Ecu]:
    out = Ecu(url.partition("?")[0], dict(read_frames(url.partition("=")[2])))
    yield out
    out.link.close()


def car(url: str, ecu: Ecu | None, answer: str = "latest") -> Scenario:
    """A scenario whose engine is a node on the bus; ``ecu`` reacts between two tags."""
    out = Scenario("car", until=0.1)
    out.source("driver", Signals("pedal [%]"), {"pedal": 12.34})
    out.at(0.045, "driver.pedal", 56.78)
    engine = FrameController(url, send=["Pedal"], receive=["Engine"], answer=answer)
    out.controller("engine", engine, period=0.01, inputs={"pedal": "driver.pedal"})
    if ecu is not None:
        out.external_input("ecu", Signals("x [1]"), _Polled(ecu))
    return out


class _Polled:
    """Lets the ECU react at each tag; itself it gives no values."""

    def __init__(self, ecu: Ecu) -> None:
        self.ecu = ecu

    def poll(self) -> None:
        self.ecu.poll()


def replayed(recording: Recording, url: str) -> Recording:
    again = car(url, None)
    again.external_input("ecu", Signals("x [1]"), _Never())
    return rerun(recording, again)


class _Never:
    def poll(self) -> None:
        raise AssertionError("a replay must not ask a device")


def test_a_run_over_a_virtual_bus_replays_bit_for_bit(url: str, ecu: Ecu) -> None:
    recording = trace_of(car(url, ecu))
    # 12.34 % and 56.78 % are on the grid of Pedal; 493.6 and 2271.2 rpm go to the grid of Engine
    assert recording.messages["engine"]["speed"].tolist() == [0.0] + [493.5] * 5 + [2271.25] * 5
    assert recording.messages["engine"]["malformed"].tolist()[-1] == 1.0
    ecu.link.close()
    assert compare_exact(recording, replayed(recording, url)) is None


def test_malformed_frames_and_frames_that_never_arrive_are_warnings(url: str, ecu: Ecu) -> None:
    (malformed,) = simulate(car(url, ecu)).warnings
    assert malformed.startswith("engine: malformed frames: 1, ")
    (never,) = simulate(car(url, None)).warnings
    assert never.startswith("engine: no frame Engine has arrived from can://virtual/node-")


@pytest.mark.parametrize(
    ("fault", "check"),
    [
        ({"where": "engine", "kind": "drop", "every": 0.02, "count": 1}, "status"),
        ({"where": "engine.pedal", "kind": "stuck", "value": 0.0, "at": 0.05}, "speed"),
    ],
)
def test_the_bus_is_open_to_faults(url: str, ecu: Ecu, fault: dict[str, Any], check: str) -> None:
    scenario = car(url, ecu)
    scenario.faults({"name": "f", **fault})
    recording = trace_of(scenario)
    if check == "status":
        assert recording.track("messages/engine").integer("status").tolist().count(1) == 5
    else:
        assert recording.messages["engine"]["speed"][-1] == 0.0
    again = car(url, None)
    again.external_input("ecu", Signals("x [1]"), _Never())
    again.faults({"name": "f", **fault})
    assert compare_exact(recording, rerun(recording, again)) is None


def test_an_awaited_answer_is_the_answer_to_the_request(url: str, ecu: Ecu) -> None:
    """A stale frame is no answer; silence is an error that names the controller."""
    controller = FrameController(url, send=["Pedal"], receive=["Engine"], answer="awaited").fresh()
    try:
        ecu.link.send(Frame(ecu.codecs["Engine"].encode(np.array([1.0, 0, 0, 0])), 256))
        controller.send(Tag(0), np.array([10.0]))
        assert controller.receive(Tag(0), 0.0) is None
        ecu.poll()
        answer = controller.receive(Tag(0), 5.0)
        assert answer is not None
        assert answer[0] == 400.0
        with pytest.raises(ControllerError, match=r"Pedal.pedal = -1 does not fit .* 0 to 655.35"):
            controller.send(Tag(5), np.array([-1.0]))
    finally:
        controller.close()
    with pytest.raises(ScenarioError, match="answer='awaited' waits for frames; give receive="):
        FrameController(url, send=["Pedal"], answer="awaited")
    with pytest.raises(ScenarioError, match="names no file of frames; add the option frames="):
        FrameController("can://virtual/x", send=["Pedal"])


def test_datagrams_are_an_external_input(tmp_path: Path) -> None:
    """Values of a datagram reach the run at the next tag; the replay needs no socket."""
    _, toml = frame_files(tmp_path)
    codec = read_frames(toml)["pedal"]
    probe = open_frame_link("udp://127.0.0.1:9")
    free = probe.port  # type: ignore[attr-defined]
    probe.close()
    device = FrameInput(f"udp://127.0.0.1:9?bind=127.0.0.1:{free}&frames={toml}", ["pedal"])
    sender = open_frame_link(f"udp://127.0.0.1:{free}")

    def scenario(driver: Any, other: Any) -> Scenario:
        out = Scenario("car", until=0.05)
        out.external_input("driver", device.signals, driver)
        out.external_input("zero", Signals("x [1]"), other)
        out.sensor("pedal", {"pedal": "driver.pedal"}, period=0.01)
        return out

    class Sender:
        """Sends one datagram after each tag, the third one malformed."""

        sent = 0

        def poll(self) -> None:
            Sender.sent += 1
            data = codec.encode(np.array([Sender.sent + 0.25]))
            sender.send(Frame(data + b"\0" if Sender.sent == 3 else data))
            assert device.traffic is not None

    try:
        recording = trace_of(scenario(device, Sender()))
    finally:
        device.close()
        sender.close()
    assert recording.messages["pedal"]["pedal"].tolist() == [0.0, 1.25, 2.25, 2.25, 4.25, 5.25]
    assert recording.track("inputs/driver").column("malformed").tolist() == [0, 0, 1, 1, 1]
    again = rerun(recording, scenario(_Never(), _Never()))
    assert compare_exact(recording, again) is None
    assert device.traffic is None


@pytest.mark.live
def test_a_frame_sets_the_wake_of_an_event_input(url: str, ecu: Ecu) -> None:
    wake = Wake()
    ahead = ReadAhead(open_frame_link(url), wake)
    try:
        ecu.link.send(Frame(b"\1", 7))
        assert wake.wait(5.0)
        assert ahead.receive(0.0) == Frame(b"\1", 7)
        assert ahead.receive(0.0) is None
    finally:
        ahead.close()


class _Flooding:
    """A link at which frames arrive without a pause until it is closed."""

    addressed, sent, over = False, 0, threading.Event()

    def send(self, frame: Frame) -> None: ...

    def receive(self, timeout: float) -> Frame | None:  # noqa: ARG002
        if self.sent > MOST_KEPT + 100:
            self.over.set()
            return None
        self.sent += 1
        return Frame(b"x")

    def close(self) -> None: ...


def test_frames_that_are_lost_between_two_tags_are_told_once() -> None:
    flooding = _Flooding()
    ahead = ReadAhead(flooding, Wake())
    assert flooding.over.wait(20.0)
    with pytest.raises(FrameError, match="more than 4096 frames arrived between two tags; some"):
        ahead.receive(0.0)
    kept = 0
    while ahead.receive(0.0) is not None:
        kept += 1
    ahead.close()
    assert kept == MOST_KEPT


@pytest.mark.parametrize("answer", ["latest", "awaited"])
def test_a_node_passes_the_checks_of_controllers(tmp_path: Path, answer: str) -> None:
    """With ``awaited`` a thread answers; without an answer, each run has the same values."""
    dbc, _ = frame_files(tmp_path)
    channel = f"can://virtual/checked-{answer}"
    codecs, over, link = read_frames(dbc), threading.Event(), open_frame_link(channel)

    def node() -> None:
        while not over.is_set():
            if link.receive(0.02) is not None and answer == "awaited":
                link.send(Frame(codecs["Engine"].encode(np.zeros(4)), 256))

    thread = threading.Thread(target=node)
    thread.start()
    try:
        frames = read_frames(dbc, overflow="saturate")  # the suite gives any inputs

        def make() -> FrameController:
            return FrameController(
                channel, send=["Pedal"], receive=["Engine"], frames=frames, answer=answer
            )

        check_controller(make)
    finally:
        over.set()
        thread.join()
        link.close()


class _Nowhere:
    """A link without frames of its own."""

    def __init__(self, addressed: bool) -> None:
        self.addressed = addressed

    def send(self, frame: Frame) -> None: ...

    def receive(self, timeout: float) -> Frame | None: ...

    def close(self) -> None: ...


def flood(folder: Path, frames: int) -> tuple[Traffic, Traffic]:
    """Take ``frames`` random frames on a CAN bus and as many datagrams; return both sides."""
    dbc, toml = frame_files(folder)
    nodes = [
        Traffic(_Nowhere(addressed), Layout.of(list(codecs.values()), prefix=True))
        for addressed, codecs in ((True, read_frames(dbc)), (False, read_frames(toml)))
    ]
    stream = RandomStreams(9).stream("flood")
    own = [(c.identifier, c.extended) for c in nodes[0].receives.codecs]
    for _ in range(frames):
        identifier, extended = own[int(stream.integers(4))]
        if stream.random() < 0.3:
            identifier = int(stream.integers(2**11))
        length = 8 if stream.random() < 0.6 else int(stream.integers(0, 24))
        data = stream.integers(0, 256, length, np.uint8).tobytes()
        nodes[0].take(Frame(data, identifier, extended))
        if stream.random() < 0.5:
            data = b"\xca\xfe" + data.ljust(17, b"\0")[:17]
        nodes[1].take(Frame(data))
    return nodes[0], nodes[1]


@pytest.mark.parametrize(
    "frames", [5_000, pytest.param(1_000_000, marks=[pytest.mark.long, pytest.mark.full])]
)
def test_random_frames_do_no_harm(tmp_path: Path, frames: int) -> None:
    """Each one is taken, ignored, or counted as malformed with its reason."""
    for node in flood(tmp_path, frames):
        taken = sum(node.counts.values())
        assert taken + node.ignored + node.malformed_frames == frames
        assert taken > frames / 50
        assert node.malformed_frames > frames / 50
        assert len(node.malformed) <= MOST_REASONS + 1
        assert np.isfinite(node.values).all()
        assert any("bytes" in reason for reason in node.malformed)
    assert OTHERS in flood(tmp_path, 2000)[1].malformed


def test_two_frames_that_cannot_be_told_apart_are_refused(tmp_path: Path) -> None:
    dbc, toml = frame_files(tmp_path)
    codecs = read_frames(dbc)
    (tmp_path / "two.dbc").write_text(dbc.read_text().replace("Pedal:", "Pedal2:"))
    two = [codecs["Pedal"], read_frames(tmp_path / "two.dbc")["Pedal2"]]
    with pytest.raises(ScenarioError, match="frames Pedal and Pedal2 both have a signal pedal"):
        Layout.of(two)
    both = Layout.of(two, prefix=True)
    assert both.signals.names == ("Pedal_pedal", "Pedal2_pedal")
    with pytest.raises(ScenarioError, match="Pedal and Pedal2 both have the identifier 0x12c"):
        Traffic(_Nowhere(True), both)
    assert toml.is_file()


def virtual() -> tuple[FrameLink, FrameLink]:
    url = f"can://virtual/link-{next(_NUMBER)}"
    return open_frame_link(url), open_frame_link(url)


def datagrams() -> tuple[FrameLink, FrameLink]:
    probe = UdpLink("udp", "127.0.0.1:9", {}, False)
    free = probe.port
    probe.close()
    first = UdpLink("udp", f"127.0.0.1:{free}", {}, False)
    return first, open_frame_link(f"udp://127.0.0.1:{first.port}?bind=127.0.0.1:{free}")


@pytest.mark.live
@pytest.mark.parametrize("make", [virtual, datagrams])
def test_every_link_passes_the_checks(make: Callable[[], tuple[FrameLink, FrameLink]]) -> None:
    check_frame_link(make)


@pytest.mark.live
@pytest.mark.skipif(sys.platform != "linux", reason="multicast within a machine: as on Linux")
def test_a_bus_by_multicast_passes_the_checks() -> None:
    """Its socket receives what it sends, which the link leaves out."""
    url = "can://udp_multicast/239.74.163.7?port=43117"
    try:
        ends = open_frame_link(url), open_frame_link(url)
    except LinkError as error:
        pytest.skip(f"this machine has no multicast: {error}")
    check_frame_link(lambda: ends)


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("virtual/car", "is not a URL of a link; expected can://virtual/NAME"),
        ("can:virtual", "is not a URL of a link"),
        (
            "cam://virtual/car",
            "unknown kind of frame link 'cam' in cam://virtual/car; did you mean",
        ),
        ("can://virtal/car", "unknown CAN interface 'virtal' in .*; did you mean virtual"),
        ("can://virtual", "the URL names no channel; write can://virtual/CHANNEL"),
        ("can://virtual/car?frames=a.dbc&dbc=b.dbc", "one of the options frames= and dbc="),
        ("can://virtual/car?remote=1", "remote=1; write remote=yes or leave it out"),
        ("can://virtual/car?a=1&a=2", "an option is given twice"),
        ("can://udp_multicast/239.74.163.2?hop_limit=1", "add remote=yes to the URL"),
        ("can://socketcand/can0?host=192.0.2.1", "socketcand sends frames over a network; add"),
        ("udp://192.0.2.1:5005", "192.0.2.1 is not this machine; add remote=yes"),
        ("udp://127.0.0.1:5005?bind=0.0.0.0:5006", "0.0.0.0 is not this machine; add remote=yes"),
        ("udp://127.0.0.1", "'127.0.0.1' is not an address; write HOST:PORT"),
        ("udp://127.0.0.1:0", "port 0 is not from 1 to 65535"),
        ("udp://127.0.0.1:70000", "port 70000 is not from 1 to 65535"),
        ("udp://127.0.0.1:5005/x", "a UDP address has no path"),
        ("udp://127.0.0.1:5005?port=3", "unknown option 'port'"),
        ("udp://127.0.0.1:5005?bind=[::1]:5006", "one address is IPv4 and the other IPv6"),
    ],
)
def test_a_wrong_url_is_explained(url: str, said: str) -> None:
    with pytest.raises(ScenarioError, match=said):
        open_frame_link(url)


def test_an_adapter_that_is_not_there_is_named() -> None:
    with pytest.raises(LinkError, match=r"cannot open can://s.*; check that the adapter is there"):
        open_frame_link("can://socketcan/none0" if sys.platform == "linux" else "can://slcan/none")


def test_a_port_in_use_is_named() -> None:
    link = UdpLink("udp", "127.0.0.1:9", {}, False)
    try:
        with pytest.raises(LinkError, match=r"cannot listen at .*; another program may use"):
            open_frame_link(f"udp://127.0.0.1:9?bind=127.0.0.1:{link.port}")
    finally:
        link.close()


def test_what_is_no_data_frame_is_malformed_and_not_an_end() -> None:
    can = pytest.importorskip("can")
    link = open_frame_link("can://virtual/odd")
    other = can.Bus(interface="virtual", channel="odd")
    try:
        other.send(can.Message(arbitration_id=0x12, is_extended_id=False, is_remote_frame=True))
        other.send(can.Message(is_error_frame=True))
        with pytest.raises(FrameError, match="0x012 is a remote frame"):
            link.receive(0.0)
        with pytest.raises(FrameError, match="error frame"):
            link.receive(0.0)
        with pytest.raises(LinkError, match="cannot carry frame 0x800"):
            link.send(Frame(b"", 0x800))
    finally:
        other.shutdown()
        link.close()


class _Loop:
    """A link of another package: two ends in memory."""

    addressed = False

    def __init__(self, url: FrameUrl) -> None:
        self._here, self._there = _ENDS.setdefault(url.host, (deque(), deque()))
        _ENDS[url.host] = self._there, self._here
        self._open = True

    def send(self, frame: Frame) -> None:
        self._check()
        self._there.append(frame)

    def receive(self, timeout: float) -> Frame | None:  # noqa: ARG002
        self._check()
        return self._here.popleft() if self._here else None

    def close(self) -> None:
        self._open = False

    def _check(self) -> None:
        if not self._open:
            raise LinkError("closed")


_ENDS: dict[str, tuple[deque[Frame], deque[Frame]]] = {}


def test_a_link_and_a_kind_of_file_from_outside(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(FRAME_LINKS, "_added", {})
    monkeypatch.setattr(FRAME_FILES, "_added", {})
    FRAME_LINKS.add("memory", _Loop)
    ends = open_frame_link("memory://a"), open_frame_link("memory://a")
    check_frame_link(lambda: ends, [Frame(b"x"), Frame(b"")])
    _, toml = frame_files(tmp_path)
    FRAME_FILES.add("arx", lambda _, overflow: read_structs(toml, overflow))
    (tmp_path / "a.arx").touch()
    pedal = read_frames(tmp_path / "a.arx")["pedal"]
    assert pedal == read_frames(toml)["pedal"]
    monkeypatch.setattr(pedal, "period_ns", -1)
    FRAME_FILES.add("bad", lambda *_: {"pedal": pedal})
    (tmp_path / "a.bad").touch()
    with pytest.raises(ScenarioError, match="frame pedal has a period of -1e-06 ms; give a pos"):
        read_frames(tmp_path / "a.bad")
    with pytest.raises(ScenarioError, match=r"is 3; expected a function"):
        FRAME_LINKS.add("bad", 3)  # type: ignore[arg-type]
    with pytest.raises(ScenarioError, match=r"is 3; expected a function"):
        FRAME_FILES.add("worse", 3)  # type: ignore[arg-type]
