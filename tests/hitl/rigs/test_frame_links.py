"""Links that carry frames: CAN by python-can (virtual, and by multicast) and UDP datagrams."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable
from itertools import count
from pathlib import Path

import pytest
from frame_parts import frame_files

from hitl.buses import FRAME_LINKS, FrameLink, LinkError, open_frame_link
from hitl.buses.udp_link import UdpLink
from hitl.buses.urls import FrameUrl
from hitl.testing.frame_links import check_frame_link
from rtsim.components.frames import FRAME_FILES, Frame, FrameError, read_frames
from rtsim.components.frames.struct_codec import read_structs
from rtsim.core.errors import ScenarioError

_NUMBER = count()


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
