"""The page of a recording: values, messages and stamps at any time, forwards and backwards."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rtsim import Fixed, Model, PythonController, Scenario, Signals
from rtsim.core.errors import RecordingError, ScenarioError
from rtsim.gateway.web.source import RecordedRun
from rtsim.record.file import FileRecorder
from rtsim.record.reading import Recording
from rtsim.runs.simulation import simulate


def _motion(t: float, x: Any, z: Any, u: Any, p: Any, dx: Any) -> None:  # noqa: ARG001
    dx[0] = u[0]


def _law(t: float, u: Any, s: Any, p: Any, y: Any) -> None:  # noqa: ARG001
    y[0] = t


def _scenario() -> Scenario:
    out = Scenario("cart", until=2.0)
    cart = Model(
        name="cart", states=Signals("x [m]"), inputs=Signals("force [N]"), derivative=_motion
    )
    out.plant("cart", cart, step=0.01, inputs={"force": "brake.force"})
    brake = PythonController(_law, inputs=Signals("x [m]"), outputs=Signals("force [N]"))
    out.controller("brake", brake, period=0.1, inputs={"x": "cart.x"}, transport=Fixed(0.25))
    return out


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Recording:
    path: Path = tmp_path_factory.mktemp("web") / "cart.mcap"
    with FileRecorder(path) as recorder:
        simulate(_scenario(), recorder=recorder, compile=False)
    return Recording.open(path)


class Wall:
    """A wall clock that a test moves."""

    ns = 0

    def __call__(self) -> int:
        return self.ns


def test_it_is_described_as_a_live_run_is(recording: Recording) -> None:
    about = RecordedRun(recording).about
    assert about.signals["cart.x"] == "m"
    assert about.topics["brake"] == ("force",)
    assert about.ends == (0, 2_000_000_000)
    assert {name for view in about.views for name in view["signals"]} >= {"cart.x", "brake.force"}


def test_a_message_shows_once_it_has_arrived(recording: Recording) -> None:
    wall = Wall()
    run = RecordedRun(recording, now=wall)
    names = ["brake.force", "cart.x", "unknown.x"]
    look = run.look(names)
    assert look.stamps == {}
    assert "brake.force" not in look.values
    wall.ns = 1_000_000_000
    look = run.look(names)
    began, done, arrival = look.stamps["brake"]
    assert (began, done, arrival) == (700_000_000, 700_000_000, 950_000_000)
    assert look.values["brake.force"] == pytest.approx(0.7)
    row = recording.at(1.0)
    assert look.values["cart.x"] == row["cart.x"]


def test_time_is_paused_moved_and_scaled(recording: Recording) -> None:
    wall = Wall()
    run = RecordedRun(recording, now=wall)
    wall.ns = 500_000_000
    run.tell("rate", rate=0.5)
    wall.ns = 900_000_000
    assert run.ns == 700_000_000
    run.tell("pause")
    wall.ns = 5_000_000_000
    assert run.look([]).state.standing
    assert run.ns == 700_000_000
    assert run.tell("seek", ns=100_000_000) == "at 0.100 s"
    assert run.tell("step") == "at 0.200 s"
    run.tell("resume")
    wall.ns = 99_000_000_000
    assert run.look([]).state.standing, "the end"
    assert run.ns == 2_000_000_000
    run.tell("resume")
    assert run.ns == 0, "from the beginning"
    assert run.tell("seek", ns=-5) == "at 0.000 s"
    for kind, what in (("rate", {"rate": 1e9}), ("set", {"target": "a", "value": 1})):
        with pytest.raises(ScenarioError):
            run.tell(kind, **what)


def test_the_past_is_that_of_the_recording(recording: Recording) -> None:
    wall = Wall()
    run = RecordedRun(recording, now=wall)
    wall.ns = 1_500_000_000
    past = run.past(["cart.x", "brake.force", "unknown.x"], 1.0)
    assert past.seconds[0] == pytest.approx(0.5)
    assert past.seconds[-1] == pytest.approx(1.5)
    times, x = recording.track("cart").ns, recording.track("cart").column("x")
    at = np.searchsorted(times, (past.seconds * 1e9).round().astype(int), "right") - 1
    assert past.values["cart.x"].tolist() == x[at].tolist()
    force = past.values["brake.force"]
    assert force[-1] == pytest.approx(1.2)
    assert force[0] == pytest.approx(0.2)
    assert np.isnan(past.values["unknown.x"]).all()
    run.tell("seek", ns=0)
    assert np.isnan(run.past(["brake.force"], 1.0).values["brake.force"]).all()


def test_a_recording_without_signals_is_refused(recording: Recording) -> None:
    from dataclasses import replace

    with pytest.raises(RecordingError, match="no signals"):
        RecordedRun(replace(recording, tracks={}))
