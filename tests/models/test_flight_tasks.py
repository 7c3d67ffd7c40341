"""Gates, approach and formation are part of the run: they count in the plant ``task``."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rtsim.core.errors import ScenarioError, UnknownName
from rtsim.core.signals import Signals, Vector
from rtsim.equations.compiling import plainly
from rtsim.equations.model import Model
from rtsim.models.piloting import (
    Approach,
    Formation,
    Gates,
    Task,
    Tracking,
    add_task,
    measure,
    task_named,
)
from rtsim.models.piloting.place import along_across, place
from rtsim.models.piloting.task import KINDS, known_tasks, pinned
from rtsim.runs.replay import rerun
from rtsim.runs.simulation import simulate
from rtsim.scenario.loading import load_scenario
from rtsim.scenario.scenario import Scenario
from rtsim.testing.tasks import check_task

ROWS = tuple((100.0 * k, 0.0, 50.0, 0.0) for k in (1, 2, 3))


class Path3:
    """A model that moves along given places (north, east, up), m, at 100 m per second."""

    def __init__(self, model: Model, values: Mapping[str, float]) -> None:
        self.p = model.parameters.initial(dict(values))
        self.z, self.model = model.discrete.initial(), model
        self.t = 0.0

    def fly(self, *places: Sequence[float], more: Sequence[float] = ()) -> Mapping[str, Any]:
        """Call the model's update at each place, and return its discrete signals."""
        assert self.model.update is not None
        for north, east, up in places:
            latitude, longitude = north / 6335439.3, east / 6378137.0  # radii at the equator
            u = np.array([latitude, longitude, up, *more])
            with plainly():
                self.model.update(self.t, np.zeros(0), self.z, u, self.p)
            self.t += 1.0
        signals = self.model.discrete
        return {s.name: self.z[signals.slice(s.name)].tolist() for s in signals}


def test_gates_are_passed_forwards_in_order_and_missed_beside() -> None:
    course = Path3(Gates(ROWS).model(), {})
    seen = course.fly((90, 5, 60), (110, 5, 60))
    assert (seen["next"], seen["missed"], seen["passed"]) == ([1.0], [0.0], [1.0, 0.0, 0.0])
    assert seen["lateral"][0] == pytest.approx(5.0, abs=1e-3)
    assert seen["vertical"][0] == pytest.approx(10.0)
    assert seen["passed_at"][0] == 1.0
    seen = course.fly((190, 60, 50), (210, 60, 50))  # beside the second gate
    assert seen["next"] == [1.0]
    seen = course.fly((310, 0, 50))  # through the third gate; the second one is missed
    assert seen["next"] == [3.0]
    assert seen["missed"] == [1.0]
    assert seen["passed"] == [1.0, 0.0, 1.0]


def test_a_gate_is_not_passed_backwards() -> None:
    backwards = Path3(Gates(ROWS).model(), {}).fly((110, 0, 50), (90, 0, 50))
    assert backwards["next"] == [0.0]


def test_a_turned_gate_and_a_jump() -> None:
    sideways = Path3(Gates(((0.0, 0.0, 50.0, 90.0),)).model(), {})
    assert sideways.fly((0, -10, 50), (0, 10, 50))["next"] == [1.0]
    jumped = Path3(Gates(((0.0, 0.0, 50.0, 0.0),)).model(), {})
    assert jumped.fly((-3000, 0, 50), (10, 0, 50))["next"] == [0.0]


def test_the_reference_frame_is_that_of_the_window() -> None:
    pytest.importorskip("pygame")
    from rtsim.pilot.scenes.hud import Ground

    ground = Ground(36.0, -75.0)
    there = ground.place(math.radians(36.05), math.radians(-74.9), 120.0)
    with plainly():
        mine = place(
            math.radians(36.05), math.radians(-74.9), 120.0, math.radians(36.0), math.radians(-75.0)
        )
        turned = along_across(3.0, 4.0, math.pi / 2)
    assert mine == pytest.approx(there.tolist(), rel=1e-12)
    assert turned == pytest.approx((4.0, -3.0))


def sinking(t: float, x: Vector, z: Vector, u: Vector, p: Vector, dx: Vector) -> None:  # noqa: ARG001
    dx[0] = p[0] / 6335439.3
    dx[1] = 0.0
    dx[2] = -p[1]


def line(speed: float, height: float, sink: float) -> Model:
    """Return an aircraft that flies north from -2000 m, and sinks; figures in m and s."""
    start = -2000.0 / 6335439.3
    return Model(
        "line",
        states=Signals(
            f"latitude [rad] = {start!r}", "longitude [rad]", f"altitude [m] = {height}"
        ),
        parameters=Signals(f"speed [m/s] = {speed}", f"sink [m/s] = {sink}"),
        derivative=sinking,
    )


def flown(task: Approach | Formation, sink: float, until: float, **values: float) -> Any:
    out = Scenario("line", until=until)
    height = 2000.0 * math.tan(math.radians(3.0))
    out.plant("line", line(80.0, height, sink), step=0.05)
    out.external_input("gear", Signals("on"), _Gear())
    out.source("air", Signals("speed [m/s] = 82"))
    signals = {n: f"line.{n}" for n in ("latitude", "longitude", "altitude")}
    add_task(out, task, {**signals, "airspeed": "air.speed"}, values=values, step=0.05)
    return simulate(out, compile=False).recording()


class _Gear:
    """A wheel that carries load from the 20th second on."""

    def __init__(self) -> None:
        self.calls = 0

    def poll(self) -> Vector | None:
        return None


def test_an_approach_measures_deviations_and_touchdown() -> None:
    sink = 80.0 * math.tan(math.radians(3.0))
    task = Approach(aim=0.0, entry=1500.0, exit=100.0, speed=80.0, wheels=1.0)
    found = measure(flown(task, sink, 26.0))
    assert found["rms_glide"] == pytest.approx(0.0, abs=0.01)
    assert found["rms_course"] == pytest.approx(0.0, abs=1e-6)
    assert found["rms_speed"] == pytest.approx(2.0, rel=1e-6)
    assert found["touched_sink"] == pytest.approx(sink, rel=1e-3)
    assert found["touched_at"] == pytest.approx(25.0 - 1.0 / sink, abs=0.06)
    assert found["touched_along"] == pytest.approx(-80.0 / sink, abs=5.0)
    assert found.complete
    high = measure(flown(task, 0.5 * sink, 24.0))
    assert high["rms_glide"] is not None
    assert high["rms_glide"] > 1.0
    assert high["touched_at"] is None
    assert "did not touch down" in " ".join(high.notes)


def test_the_signal_of_the_touchdown_is_named_in_the_data() -> None:
    task = Approach(aim=0.0, entry=1500.0, exit=100.0, speed=80.0, touchdown="gear.on")
    found = measure(flown(task, 4.0, 26.0))
    assert found["touched_at"] is None  # the aircraft is low, but the wheel carries no load


def test_a_formation_measures_the_place_beside_the_lead() -> None:
    task = Formation(weave=0.0, climb=0.0, begin=1.0, measured=5.0)
    values = {"lead_speed": 80.0, "along_start": -2000.0, "height_start": 104.8}
    found = measure(flown(task, 0.0, 7.0, **values))
    assert found.complete
    assert found["rms_along"] == pytest.approx(0.0, abs=0.1)
    assert found["rms_above"] == pytest.approx(0.0, abs=0.1)
    slow = measure(flown(task, 0.0, 7.0, **{**values, "lead_speed": 70.0}))
    expected = 10.0 * math.sqrt((6.0**3 - 1.0) / 3.0 / 5.0)
    assert slow["rms_along"] == pytest.approx(expected, rel=0.05)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('kind = "tracking"\nrms = [0.0]', "give one number > 0 for each axis"),
        ('kind = "tracking"\nrms = "big"', "write a list of numbers"),
        ('kind = "tracking"\ndisplay = "pursuitt"', "did you mean pursuit"),
        (
            'kind = "tracking"\naxes = ["a", "b", "c"]\nrms = [1, 1, 1]',
            "give the same sine to two axes",
        ),
        ('kind = "tracking"\nmeasured = 5.0', "at most 60 rad/s can be measured"),
        ('kind = "tracking"\nmeasured = 60.004', "give multiples of 0.01 s"),
        ('kind = "gates"\ngates = [[1, 2, 3]]', "rows of four numbers"),
        ('kind = "gates"\nhalf = -1.0', "give numbers > 0"),
        ('kind = "approach"\nglide = 90.0', "between 0 and 45 deg"),
        ('kind = "approach"\ntouchdown = 3', "touchdown = 3 is not valid; write a text"),
        ('kind = "formation"\nweaves = 3', "did you mean weave"),
        ('kind = "race"', "unknown kind of task 'race'"),
        ("rms = [0.1]", 'no kind; write, for example, kind = "tracking"'),
        ("kind = ", "is not valid TOML"),
    ],
)
def test_a_wrong_file_is_refused_with_what_to_type(tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(text)
    with pytest.raises((ScenarioError, UnknownName)) as raised:
        task_named(str(path))
    assert says in str(raised.value)
    assert "mine.toml" in str(raised.value)


def test_a_task_that_changed_since_the_run_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text('kind = "tracking"\nrms = [0.03]')
    reference = pinned(str(path))
    task_named(reference)
    path.write_text('kind = "tracking"\nrms = [0.04]')
    with pytest.raises(ScenarioError, match="has changed since the run"):
        task_named(reference)
    with pytest.raises(UnknownName, match="pitch-tracking"):
        task_named("pitch-trackin")


def test_every_known_task_is_made_and_another_kind_can_be_added() -> None:
    assert {"pitch-tracking", "gates", "approach", "formation"} <= set(known_tasks())

    class Silent(Formation):
        kind = "silent"

    KINDS.add("silent", Silent)
    assert task_named("silent").kind == "silent"
    with pytest.raises(ScenarioError, match="must be a class"):
        KINDS.add("broken", Signals)  # type: ignore[arg-type]


@pytest.mark.long
def test_the_gates_of_a_flight_replay_bit_for_bit() -> None:
    scenario = load_scenario("f16-by-hand", {"task": "gates", "until": 20})
    recorded = simulate(scenario).recording()
    assert measure(recorded)["passed"] == 1.0
    assert rerun(recorded).digest() == recorded.digest()


@pytest.mark.sample(2)
@pytest.mark.parametrize("kind", [Tracking, Gates, Approach, Formation])
def test_every_kind_of_rtsim_passes_the_check(kind: type[Task]) -> None:
    short: dict[str, Any] = {"measured": 1.0, "begin": 0.2, "multiples": [1, 2, 3, 5, 8]}
    short = short if kind is Tracking else {}
    check_task(kind, short, seconds=1.3)


def test_the_check_finds_a_kind_that_accepts_anything() -> None:
    class Careless(Formation):
        kind = "formation"

        @classmethod
        def from_data(cls, data: Mapping[str, Any], where: str) -> Careless:  # noqa: ARG003
            return cls()

    with pytest.raises(AssertionError, match="accepts no_such_entry"):
        check_task(Careless)
