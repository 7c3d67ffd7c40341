"""docs/semantics.md, rule by rule."""

from __future__ import annotations

import itertools
import math
import re
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from semantics_parts import INTEGRATOR, MS, U, X, add_one, copy_input, count, law_of, rows

from rtsim.components.controller import PythonController
from rtsim.components.latency import Fixed
from rtsim.core.clock import Wake
from rtsim.core.errors import ScenarioError
from rtsim.core.signals import Signals, Vector
from rtsim.engine.executive import Executive
from rtsim.equations.model import Model
from rtsim.models.unstable import scenario as unstable
from rtsim.record.recorders import MemoryRecorder
from rtsim.runs.simulation import simulate
from rtsim.scenario.scenario import Scenario
from rtsim.testing import FakeClock
from rtsim.testing.determinism import check_determinism, trace_of
from rtsim.timing.pacing import Pacer


def test_every_rule_is_tested() -> None:
    """Each name in bold in docs/semantics.md is the mark of a test."""
    root = Path(__file__).resolve().parents[2]
    rules = set(re.findall(r"^\*\*([a-z-]+)\*\*", (root / "docs/semantics.md").read_text(), re.M))
    marked: set[str] = set()
    for path in (root / "tests").rglob("test_*.py"):
        marked |= set(re.findall(r'mark\.rule\("([a-z-]+)"\)', path.read_text()))
    assert rules == marked


# -- time ------------------------------------------------------------------------------------------


@pytest.mark.rule("order-of-adding")
def test_the_order_of_adding_never_shows() -> None:
    def add_a(s: Scenario) -> None:
        s.plant("a", INTEGRATOR, step=0.01, inputs={"u": "north.y"})

    def add_b(s: Scenario) -> None:
        s.plant("b", INTEGRATOR, step=0.015, inputs={"u": "south.y"})

    def add_north(s: Scenario) -> None:
        s.controller("north", law_of(count), period=0.03, inputs={"u": "south.y"})

    def add_south(s: Scenario) -> None:
        s.controller("south", law_of(add_one), period=0.03, inputs={"u": "north.y"})

    digests = set()
    for order in itertools.permutations((add_a, add_b, add_north, add_south)):
        scenario = Scenario("any order", until=0.3)
        for add in order:
            add(scenario)
        digests.add(trace_of(scenario).digest())
    assert len(digests) == 1


@pytest.mark.rule("pace-changes-nothing")
def test_pace_and_recorder_change_nothing() -> None:
    fast = trace_of(unstable(latency=0.03))
    for rate in (0.5, 1.0, 10.0):
        paced = trace_of(unstable(latency=0.03), clock=FakeClock(rate))
        assert paced.digest() == fast.digest()
    outcome = simulate(unstable(latency=0.03))
    assert outcome.system.plants[0].x.tolist() == [fast["plant.x"][-1], fast["plant.v"][-1]]


# -- the step --------------------------------------------------------------------------------------


@pytest.mark.rule("x-minus-and-plus")
def test_x_minus_always_x_plus_where_it_differs() -> None:
    recording = trace_of(unstable(step=0.05, until=0.2))
    assert rows(recording, "plant") == [
        (0, 0, 0),
        (0, 1, 1),
        (50 * MS, 0, 0),
        (100 * MS, 0, 0),
        (100 * MS, 1, 1),
        (150 * MS, 0, 0),
        (200 * MS, 0, 0),
        (200 * MS, 1, 1),
    ]
    force = recording["plant.force"]
    assert force[0] == 0.0
    assert force[1] == -8.0
    assert recording["plant.x"][3] == recording["plant.x"][4]
    assert force[3] != force[4]


@pytest.mark.rule("grid-stays")
def test_a_tag_between_grid_points_cuts_the_step_and_the_grid_stays() -> None:
    scenario = Scenario("cut", until=0.06)
    scenario.plant("a", INTEGRATOR, step=0.02, inputs={"u": "c.y"})
    scenario.controller("c", law_of(count), period=0.03, transport=Fixed(0.005))
    times = [ns // MS for ns, *_ in rows(trace_of(scenario), "a")]
    assert times == [0, 5, 5, 20, 30, 35, 35, 40, 60]


@pytest.mark.rule("own-grid")
def test_another_plants_grid_does_not_cut() -> None:
    def make(with_other: bool) -> Scenario:
        scenario = Scenario("grids", until=0.06)
        scenario.plant("a", INTEGRATOR, step=0.02, inputs={"u": 1.0})
        if with_other:
            scenario.plant("b", INTEGRATOR, step=0.015, inputs={"u": "a.x"})
        return scenario

    alone, both = trace_of(make(False)), trace_of(make(True))
    assert rows(alone, "a") == rows(both, "a")
    assert alone["a.x"].tolist() == both["a.x"].tolist()
    minus = [(ns, u) for (ns, _, side), u in zip(rows(both, "b"), both["b.u"], strict=True) if side]
    # b samples a at its own tags: what a had committed by then, held across b's step
    assert [ns // MS for ns, _ in minus] == [30, 45, 60]
    assert [u for _, u in minus] == pytest.approx([0.02, 0.04, 0.06])


@pytest.mark.rule("sample-then-deliver-then-react")
def test_a_reaction_sees_what_arrives_at_its_own_tag() -> None:
    scenario = Scenario("arrival", until=0.03)
    scenario.controller("a", law_of(count), period=0.01, transport=Fixed(0.01))
    scenario.controller("b", law_of(copy_input), period=0.01, inputs={"u": "a.y"})
    assert trace_of(scenario)["messages/b.y"].tolist() == [0.0, 1.0, 2.0, 3.0]


@pytest.mark.rule("buffered")
def test_simultaneous_reactions_do_not_see_each_other() -> None:
    """Fox and rabbit: each moves after the other as it was, whichever comes first by name."""
    scenario = Scenario("chase", until=0.02)
    scenario.controller("fox", law_of(add_one), period=0.01, inputs={"u": "rabbit.y"})
    scenario.controller("rabbit", law_of(add_one), period=0.01, inputs={"u": "fox.y"})
    recording = trace_of(scenario)
    assert recording["messages/fox.y"].tolist() == [1.0, 2.0, 3.0]
    assert recording["messages/rabbit.y"].tolist() == [1.0, 2.0, 3.0]
    steps = recording.track("messages/fox").integer("arrival_step")
    assert steps.tolist() == [1, 1, 1]


@pytest.mark.rule("declared-order")
def test_a_declared_order_is_followed_within_the_microstep() -> None:
    def make(*order: str) -> Scenario:
        scenario = Scenario("ordered", until=0.02)
        scenario.controller("autopilot", law_of(add_one), period=0.01, inputs={"u": "guidance.y"})
        scenario.controller("guidance", law_of(count), period=0.01)
        if order:
            scenario.order(*order)
        return scenario

    assert trace_of(make("guidance", "autopilot"))["messages/autopilot.y"].tolist() == [2, 3, 4]
    assert trace_of(make())["messages/autopilot.y"].tolist() == [1, 2, 3]
    with pytest.raises(
        ScenarioError, match="order of controllers has a cycle through autopilot, guidance"
    ):
        make("guidance", "autopilot", "guidance").build()


class Stick:
    """A device that moves at the third look."""

    def __init__(self) -> None:
        self.looks = 0

    def poll(self) -> Vector | None:
        self.looks += 1
        return np.array([0.5]) if self.looks == 3 else None


@pytest.mark.rule("outside-inputs-latch")
def test_outside_inputs_latch_to_a_tag_that_exists_anyway() -> None:
    def make(device: Stick | None) -> Scenario:
        scenario = Scenario("stick", until=0.05)
        scenario.plant("a", INTEGRATOR, step=0.01, inputs={"u": "stick.u"})
        scenario.external_input("stick", U, device or Stick())
        return scenario

    recording = trace_of(make(None))
    assert rows(recording, "inputs/stick") == [(20 * MS, 0)]
    minus = [ns // MS for ns, _, side in rows(recording, "a") if side == 0]
    assert minus == [0, 10, 20, 30, 40, 50]
    assert recording["a.x"][-1] == pytest.approx(0.015)


@pytest.mark.rule("outside-inputs-latch")
def test_only_an_event_input_inserts_a_tag() -> None:
    """The provisional step is discarded, the published pair withdrawn, and the grid stays."""
    wake = Wake()
    clock = FakeClock()

    class Edge:
        def poll(self) -> Vector | None:
            return np.array([1.0]) if clock.fired else None  # type: ignore[attr-defined]

    class Pin(FakeClock):
        fired = False

        def wait_until(self, ns: int, wake: Wake | None = None) -> bool:
            if ns == 20 * MS and not self.fired:
                self.fired = True
                self.advance(3 * MS)
                assert wake is not None
                wake.set()
            return super().wait_until(ns, wake)

    clock = Pin()
    pairs: list[tuple[str, int, int]] = []

    class Viewer:
        def publish(self, plant: str, ns: int, x: Vector, next_ns: int, next_x: Vector) -> None:  # noqa: ARG002
            pairs.append(("pair", ns // MS, next_ns // MS))

        def withdraw(self, plant: str) -> None:  # noqa: ARG002
            pairs.append(("withdrawn", 0, 0))

    scenario = Scenario("edge", until=0.03)
    scenario.plant("a", INTEGRATOR, step=0.01, inputs={"u": "pin.u"})
    scenario.external_input("pin", U, Edge(), wake=wake)
    recorder = MemoryRecorder()
    simulate(scenario, clock=clock, recorder=recorder, publisher=Viewer())
    times = [ns // MS for ns, _, side in rows(recorder.recording(), "a") if side == 0]
    assert times == [0, 10, 13, 20, 30]
    assert pairs[1:4] == [("pair", 10, 20), ("withdrawn", 0, 0), ("pair", 10, 13)]
    assert recorder.recording()["a.x"][-1] == pytest.approx(0.017)


@pytest.mark.rule("held-before-arrival")
def test_what_has_not_arrived_holds_its_declared_initial_value() -> None:
    scenario = Scenario("initial", until=0.03)
    out = PythonController(count, U, Signals("y [1] = -7"), memory=Signals("s [1]"))
    scenario.controller("a", out, period=0.01, transport=Fixed(0.015))
    scenario.controller("b", law_of(copy_input), period=0.01, inputs={"u": "a.y"})
    assert trace_of(scenario)["messages/b.y"].tolist() == [-7.0, -7.0, 1.0, 2.0]


def draws(t: float, x: Vector, z: Vector, u: Vector, p: Vector, dx: Vector) -> None:  # noqa: ARG001
    dx[0] = np.random.normal()  # noqa: NPY002


def reads_clock(t: float, x: Vector, z: Vector, u: Vector, p: Vector, dx: Vector) -> None:  # noqa: ARG001
    dx[0] = math.sin(time.perf_counter_ns())


@pytest.mark.rule("pure")
@pytest.mark.parametrize(
    ("broken", "compile"), [(draws, True), (draws, False), (reads_clock, False)]
)
def test_an_impure_model_fails_the_check(broken: Callable[..., None], compile: bool) -> None:
    def make(derivative: Callable[..., None]) -> Scenario:
        scenario = Scenario("impure", until=0.05)
        scenario.plant("a", Model("broken", X, derivative), step=0.01)
        return scenario

    with pytest.raises(AssertionError, match=r"first in a\.x at 0\.010000000 s"):
        check_determinism(lambda: make(broken), compile=compile)
    check_determinism(unstable)


@pytest.mark.rule("noise-is-held")
def test_noise_does_not_depend_on_how_steps_are_cut() -> None:
    def make(step: float, period: float = 0.01, until: float = 2.0) -> Scenario:
        scenario = Scenario("noise", until=until)
        scenario.plant("a", INTEGRATOR, step=step, inputs={"u": "gust.w"})
        scenario.noise("gust", Signals("w [1]"), deviation=0.3, period=period)
        return scenario

    ends = [trace_of(make(step))["a.x"][-1] for step in (0.01, 0.004, 0.0007)]
    assert ends == pytest.approx([ends[0]] * 3, rel=1e-9)
    # The integral of white noise over T has the variance sigma^2 T, whatever dt is.
    for period in (0.01, 0.04):
        walk = [trace_of(make(0.04, period), seed=s)["a.x"][-1] for s in range(60)]
        assert 0.6 < float(np.std(walk)) / (0.3 * 2.0**0.5) < 1.4


@pytest.mark.rule("writes-drop-memory")
def test_a_written_input_or_parameter_drops_solver_memory() -> None:
    scenario = unstable(until=1.0)
    scenario.at(0.45, "plant.stiffness", 2.5)
    system = scenario.build()
    forgotten: list[int] = []
    plant = system.plants[0]
    plant.stepper.forget = lambda: forgotten.append(plant.ns // MS)  # type: ignore[method-assign]
    clock = FakeClock()
    Executive(system, Pacer(clock), MemoryRecorder(), 1000 * MS).run()
    assert forgotten == [0, 100, 200, 300, 400, 450, 500, 600, 700, 800, 900, 1000]
