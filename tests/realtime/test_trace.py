"""The trace in real time is the trace as fast as possible: live, on the wall clock."""

from __future__ import annotations

from pathlib import Path

import pytest

from rtsim.core.clock import stopwatch
from rtsim.record.file import FileRecorder
from rtsim.record.reading import Recording
from rtsim.runs.replay import rerun
from rtsim.runs.simulation import simulate
from rtsim.scenario.loading import load_scenario
from rtsim.testing.determinism import trace_of

pytestmark = pytest.mark.realtime


@pytest.mark.parametrize(
    ("name", "rate"),
    [
        ("f16", "10"),
        ("unstable", "1.0"),
        pytest.param("f16", "1.0", marks=pytest.mark.full),
        pytest.param("unstable", "10", marks=pytest.mark.full),
    ],
)
def test_the_pace_does_not_show(name: str, rate: str, tmp_path: Path) -> None:
    until = float(rate) * 1.5
    fast = trace_of(load_scenario(name), until=until)
    path = tmp_path / "live.mcap"
    outcome = simulate(
        load_scenario(name), pace=rate, until=until, recorder=FileRecorder(path, stopwatch)
    )
    live = Recording.open(path)
    assert live.digest() == fast.digest()
    assert rerun(live, load_scenario(name)).digest() == live.digest()
    assert outcome.wall_ns >= 1.5e9, "a paced run is never ahead of the wall"
    timing = live.track("timing")
    assert len(timing) == outcome.certificate.frames - 1
    assert (timing.integer("compute") > 0).all()
