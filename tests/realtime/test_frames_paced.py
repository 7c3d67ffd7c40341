"""A paced run with a node on a virtual CAN bus that sends by the wall clock."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from frame_parts import frame_files

from hitl.buses import FrameController, FrameInput, open_frame_link
from rtsim.components.frames import Frame, read_frames
from rtsim.core.signals import Signals
from rtsim.engine.trace import INSERTED
from rtsim.record.replay_comparison import compare_exact
from rtsim.runs.replay import rerun
from rtsim.runs.simulation import Pace
from rtsim.scenario.scenario import Scenario
from rtsim.testing.determinism import trace_of

pytestmark = pytest.mark.live
CHANNEL = "can://virtual/paced"


@pytest.fixture
def dbc(tmp_path: Path) -> Iterator[Path]:
    """A DBC file, while a node answers each frame Pedal with a frame Engine, 3 ms later."""
    path, _ = frame_files(tmp_path)
    codecs, over, link = read_frames(path), threading.Event(), open_frame_link(CHANNEL)

    def node() -> None:
        pedal = np.zeros(1)
        while not over.is_set():
            frame = link.receive(0.02)
            if frame is None:
                continue
            codecs["Pedal"].decode(frame.data, pedal)
            over.wait(0.003)
            values = np.array([pedal[0] * 100, 0.0, 20.0, 1.0])
            link.send(Frame(codecs["Engine"].encode(values), 256))

    thread = threading.Thread(target=node)
    thread.start()
    yield path
    over.set()
    thread.join()
    link.close()


def car(dbc: Path) -> tuple[Scenario, FrameInput]:
    out = Scenario("car", until=0.3)
    url = f"{CHANNEL}?dbc={dbc}"
    heard = FrameInput(url, ["Engine"], event=True)
    out.source("driver", Signals("pedal [%]"), {"pedal": 12.0})
    out.at(0.15, "driver.pedal", 34.0)
    node = FrameController(url, send=["Pedal"])
    out.controller("pedal", node, period=0.02, inputs={"pedal": "driver.pedal"})
    out.external_input("engine", heard.signals, heard, wake=heard.wake)
    out.sensor("seen", {"speed": "engine.speed"}, period=0.02)
    return out, heard


def test_frames_insert_tags_and_the_run_replays_bit_for_bit(dbc: Path) -> None:
    scenario, heard = car(dbc)
    try:
        recording = trace_of(scenario, pace=Pace(1.0))
    finally:
        heard.close()
    inserted = [e for e in recording.events if e.kind == INSERTED]
    assert len(inserted) >= 5, "the frames of the node inserted no tags"
    speed = recording.track("inputs/engine").column("speed").tolist()
    assert {1200.0, 3400.0} <= set(speed)
    assert recording.messages["seen"]["speed"][-1] == 3400.0
    again, other = car(dbc)
    assert compare_exact(recording, rerun(recording, again)) is None
    assert other.traffic is None, "the replay opened the bus"
