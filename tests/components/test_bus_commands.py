"""``rtsim bus check``, ``load`` and ``listen`` as they are typed."""

from __future__ import annotations

import json
from pathlib import Path
from threading import Timer

import pytest
from click.testing import CliRunner, Result
from frame_parts import frame_files

from hitl.buses import FrameLink, open_frame_link
from rtsim.cli import main
from rtsim.components.can_bus import CanBus, PeriodicFrame, worst_latencies
from rtsim.components.frames import Frame

SCENARIO = """
from rtsim import Scenario, Signals
from rtsim.components.can_bus import CanBus
from rtsim.components.latency import Loss

def scenario(bitrate=500_000, buses=1):
    out = Scenario("car", until=0.1)
    out.source("car", Signals("x [1]"))
    bus = CanBus(int(bitrate), "chassis")
    if buses:
        out.sensor("a", {"x": "car.x"}, period=0.001, transport=bus.frame(0x200))
        out.sensor("b", {"x": "car.x"}, period=0.002, transport=Loss(bus.frame(0x100), 0.1))
    return out
"""


def rtsim(*words: str) -> Result:
    return CliRunner().invoke(main, words)


def test_check_shows_what_a_file_describes(tmp_path: Path) -> None:
    dbc, toml = frame_files(tmp_path)
    done = rtsim("bus", "check", str(dbc))
    assert done.exit_code == 0, done.output
    text = " ".join(done.output.split())
    assert "Engine 0x100 8 135 10 2.70" in text
    assert f"Long 0x{2566844926 - 2**31:08x} 5" in text
    assert "speed rpm 0 16383.75 0.25 0" in text
    assert "temperature degC -40 215 1 -40" in text
    assert "bus with 500000 bit/s: at most 4.0 %, without Long, Pedal, which have no" in text
    done = rtsim("bus", "check", str(toml), "--json")
    told = json.loads(done.output)
    assert (told["outcome"], told["load"]) == ("passed", pytest.approx(0.0075))
    assert [f["name"] for f in told["frames"]] == ["attitude", "pedal"]
    assert told["notes"] == [
        "attitude has 19 bytes and fits into no classical CAN frame; it can be a datagram"
    ]
    done = rtsim("bus", "check", str(tmp_path / "none.dbc"))
    assert (done.exit_code, "none.dbc does not exist" in done.output) == (2, True)


def test_check_fails_if_a_bus_cannot_carry_the_frames(tmp_path: Path) -> None:
    dbc, _ = frame_files(tmp_path)
    done = rtsim("bus", "check", str(dbc), "--bitrate", "20000")
    assert done.exit_code == 1
    assert (
        "FAILED: a bus with 20000 bit/s cannot carry the load of the longest frames; use"
        in done.output
    )
    done = rtsim("bus", "check", str(dbc), "--bitrate", "20000", "--json")
    assert (done.exit_code, json.loads(done.output)["outcome"]) == (1, "failed")


def test_a_run_tells_the_messages_that_waited_for_a_bus_at_its_end(tmp_path: Path) -> None:
    path = tmp_path / "car.py"
    path.write_text(SCENARIO)
    words = ("run", str(path), "--until", "0.1", "--no-record")
    done = rtsim(*words, "--strict")
    assert (
        "chassis: 1 message waited at the end of the run and cannot be recorded: a" in done.output
    )
    assert "did not keep up" not in done.output
    assert "rtsim bus load" not in done.output
    slow = (*words, "--set", "bitrate=20000")
    done = rtsim(*slow)
    assert done.exit_code == 0
    assert "chassis: 133 messages waited at the end of the run and cannot be" in done.output
    assert "; rtsim bus load SCENARIO prints the load of a CAN bus" in done.output
    told = json.loads(rtsim(*slow, "--json").output)
    assert sum(told["waiting"]["chassis"].values()) == 133
    done = rtsim(*slow, "--strict")
    assert done.exit_code == 1
    assert "Error: --strict: senders that chassis did not keep up with: a" in done.output


def test_load_says_who_loads_a_bus_and_fails_if_it_is_too_much(tmp_path: Path) -> None:
    path = tmp_path / "car.py"
    path.write_text(SCENARIO)
    done = rtsim("bus", "load", str(path), "--json")
    assert done.exit_code == 0, done.output
    (bus,) = json.loads(done.output)["buses"].values()
    assert bus["load"] == pytest.approx(0.27 + 0.135)
    assert [(f["sender"], f["worst_latency_ns"]) for f in bus["frames"]] == [
        ("b", (135 + 132) * 2000),
        ("a", (135 + 132) * 2000),
    ]
    done = rtsim("bus", "load", str(path), "--set", "bitrate=150000")
    assert done.exit_code == 1
    assert "FAILED: chassis cannot carry the load; give the bus a higher bit rate" in done.output
    assert "no limit" in done.output
    done = rtsim("bus", "load", str(path), "--set", "buses=0")
    assert done.exit_code == 2
    assert "has no CAN bus; give components transport=CanBus(...).frame(...)" in done.output


def test_the_printed_latencies_are_those_of_the_published_example() -> None:
    """Counter-example of Davis et al. 2007: 2, 3 and 3.5 ms at C = 1 ms."""
    bus = CanBus(135_000)
    periods = (2_500_000, 3_500_000, 3_500_000)
    frames = [PeriodicFrame(f"m{k}", bus.frame(k), ns) for k, ns in enumerate(periods)]
    tail = 1_000_000 - bus.ns(132)  # the paper counts to the end of the intermission
    found = worst_latencies(frames)
    assert found == {"m0": 2_000_000 - tail, "m1": 3_000_000 - tail, "m2": 3_500_000 - tail}
    fourth = PeriodicFrame("m3", bus.frame(9), 1_000_000)
    assert worst_latencies([*frames, fourth])["m3"] is None


def _later(link: FrameLink, *frames: Frame) -> Timer:
    def send() -> None:
        for frame in frames:
            link.send(frame)

    timer = Timer(0.2, send)
    timer.start()
    return timer


@pytest.mark.parametrize(
    ("option", "said"),
    [
        ("db=car.dbc", "unknown option db; did you mean dbc?"),
        ("frame=car.dbc", "unknown option frame; did you mean frames?"),
        ("bits=3", "unknown option 'bits' in can://virtual/b?bits=3; known: dbc, frames, remote"),
    ],
)
def test_listen_refuses_an_option_that_nothing_reads(option: str, said: str) -> None:
    done = rtsim("bus", "listen", f"can://virtual/b?{option}", "--for", "0.01")
    assert done.exit_code == 2
    assert said in done.output


def test_listen_says_that_nothing_was_decoded() -> None:
    done = rtsim("bus", "listen", "can://virtual/b?rx_queue_size=9", "--for", "0.01")
    assert done.output.strip() == (
        "0 frames, 0 malformed; the URL names no file of frames, so none was decoded"
    )


@pytest.mark.live
def test_listen_prints_signals_and_names_malformed_frames(tmp_path: Path) -> None:
    dbc, _ = frame_files(tmp_path)
    sender = open_frame_link("can://virtual/listened")
    url = f"can://virtual/listened?dbc={dbc}"
    frames = [Frame(b"\xd2\x04", 300), Frame(b"\xd2", 300), Frame(b"\1", 0x7FF)]
    try:
        timer = _later(sender, *frames)
        done = rtsim("bus", "listen", url, "--count", "3", "--for", "20")
        timer.join()
        assert done.exit_code == 1, done.output
        assert "0x12c Pedal pedal=12.34" in done.output
        assert "0x12c d2 MALFORMED: frame Pedal has 1 bytes; its description says 2" in done.output
        assert "0x7ff 01" in done.output
        assert "3 frames, 1 malformed" in done.output
        timer = _later(sender, frames[0])
        done = rtsim("bus", "listen", url, "--count", "1", "--json")
        timer.join()
        (row,) = json.loads(done.output)["frames"]
        assert row["signals"] == {"pedal": 12.34}
    finally:
        sender.close()
    done = rtsim("bus", "listen", url, "--json")
    assert (done.exit_code, "give --count or --for too" in done.output) == (2, True)
