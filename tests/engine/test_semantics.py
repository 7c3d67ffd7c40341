"""docs/semantics.md, rule by rule.

Corners of docs/semantics.md where parts meet: orders and triggers, wakes, restores, reuse.

docs/semantics.md, **own-time**: controllers that are late by a clock of their own.
"""

from __future__ import annotations

import itertools
import json
import math
import re
import time
from collections.abc import Callable, Sequence
from copy import copy
from pathlib import Path

import numpy as np
import pytest
from semantics_parts import INTEGRATOR, MS, U, X, add_one, copy_input, count, law_of, rows

from rtsim.components.bus import Bus, Topic
from rtsim.components.controller import PythonController
from rtsim.components.latency import Fixed
from rtsim.core.clock import Wake
from rtsim.core.errors import ControllerError, RtsimError, ScenarioError
from rtsim.core.random_streams import RandomStreams
from rtsim.core.signals import Signals, Vector
from rtsim.core.tag import NS_PER_S, Tag
from rtsim.engine.executive import Executive
from rtsim.engine.system import reaction_order
from rtsim.equations.model import Model
from rtsim.models.unstable import scenario as unstable
from rtsim.record.reading import Recording
from rtsim.record.recorders import MemoryRecorder
from rtsim.record.replay_comparison import compare_exact
from rtsim.runs.replay import rerun
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
    force = recording.track("plant").column("force")
    assert force[0] == 0.0
    assert force[1] == -8.0
    assert recording.track("plant").column("x")[3] == recording.track("plant").column("x")[4]
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
    assert alone.track("a").column("x").tolist() == both.track("a").column("x").tolist()
    minus = [
        (ns, u)
        for (ns, _, side), u in zip(rows(both, "b"), both.track("b").column("u"), strict=True)
        if side
    ]
    # b samples a at its own tags: what a had committed by then, held across b's step
    assert [ns // MS for ns, _ in minus] == [30, 45, 60]
    assert [u for _, u in minus] == pytest.approx([0.02, 0.04, 0.06])


@pytest.mark.rule("sample-then-deliver-then-react")
def test_a_reaction_sees_what_arrives_at_its_own_tag() -> None:
    scenario = Scenario("arrival", until=0.03)
    scenario.controller("a", law_of(count), period=0.01, transport=Fixed(0.01))
    scenario.controller("b", law_of(copy_input), period=0.01, inputs={"u": "a.y"})
    assert trace_of(scenario).messages["b"]["y"].tolist() == [0.0, 1.0, 2.0, 3.0]


@pytest.mark.rule("buffered")
def test_simultaneous_reactions_do_not_see_each_other() -> None:
    """Fox and rabbit: each moves after the other as it was, whichever comes first by name."""
    scenario = Scenario("chase", until=0.02)
    scenario.controller("fox", law_of(add_one), period=0.01, inputs={"u": "rabbit.y"})
    scenario.controller("rabbit", law_of(add_one), period=0.01, inputs={"u": "fox.y"})
    recording = trace_of(scenario)
    assert recording.messages["fox"]["y"].tolist() == [1.0, 2.0, 3.0]
    assert recording.messages["rabbit"]["y"].tolist() == [1.0, 2.0, 3.0]
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

    assert trace_of(make("guidance", "autopilot")).messages["autopilot"]["y"].tolist() == [2, 3, 4]
    assert trace_of(make()).messages["autopilot"]["y"].tolist() == [1, 2, 3]
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
    assert trace_of(scenario).messages["b"]["y"].tolist() == [-7.0, -7.0, 1.0, 2.0]


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


Y = Signals("y [1]")

# -- a declared order -----------------------------------------------------------------------------


def test_a_declared_order_wakes_those_who_wait_for_the_answer() -> None:
    scenario = Scenario("on and order", until=0.02)
    scenario.controller("guidance", law_of(count), period=0.01)
    scenario.controller(
        "autopilot", law_of(copy_input), on=("guidance",), inputs={"u": "guidance.y"}
    )
    scenario.controller("logger", law_of(copy_input), on=("guidance",), inputs={"u": "guidance.y"})
    scenario.order("guidance", "autopilot")
    recording = trace_of(scenario)
    assert recording.messages["autopilot"]["y"].tolist() == [1.0, 2.0, 3.0]
    assert recording.messages["logger"]["y"].tolist() == [1.0, 2.0, 3.0]
    steps = {
        n: recording.track(f"messages/{n}.inputs").integer("initiated_step")
        for n in ("autopilot", "logger")
    }
    assert steps["autopilot"].tolist() == [0, 0, 0], "a successor reacts in the same microstep"
    assert steps["logger"].tolist() == [1, 1, 1], "all others in the next"


@pytest.mark.rule("buffered")
@pytest.mark.parametrize("name", ["bystander", "zbystander"])
def test_a_declared_order_does_not_leak_to_others(name: str) -> None:
    scenario = Scenario("leak", until=0.02)
    scenario.controller("guidance", law_of(count), period=0.01)
    scenario.controller("pilot", law_of(copy_input), period=0.01, inputs={"u": "guidance.y"})
    scenario.controller("last", law_of(copy_input), period=0.01, inputs={"u": "guidance.y"})
    scenario.controller(name, law_of(copy_input), period=0.01, inputs={"u": "guidance.y"})
    scenario.order("guidance", "pilot", "last")
    recording = trace_of(scenario)
    assert recording.messages["pilot"]["y"].tolist() == [1.0, 2.0, 3.0]
    assert recording.messages["last"]["y"].tolist() == [1.0, 2.0, 3.0], "the whole chain hears it"
    assert recording.messages[f"{name}"]["y"].tolist() == [0.0, 1.0, 2.0]


def test_priority_comes_before_the_name() -> None:
    scenario = Scenario("priority", until=0.02)
    scenario.controller("a", law_of(count), period=0.01, priority=2)
    scenario.controller("b", law_of(count), period=0.01, priority=1)
    tasks = scenario.build().tasks
    assert [t.name for t in tasks] == ["b", "a"]
    assert [t.name for t in reaction_order(tasks, [("a", "b")])] == ["a", "b"]


# -- plants ---------------------------------------------------------------------------------------


def through(t: float, x: Vector, z: Vector, u: Vector, p: Vector, y: Vector) -> None:  # noqa: ARG001
    y[0] = 2.0 * u[0]


def still(t: float, x: Vector, z: Vector, u: Vector, p: Vector, dx: Vector) -> None:  # noqa: ARG001
    dx[0] = u[0]


THROUGH = Model(
    "through", Signals("x [1]"), still, inputs=U, outputs=Signals("y [1]"), output=through
)


@pytest.mark.parametrize("reader", ["a_reader", "z_reader"])
def test_plants_that_read_a_plant_do_not_depend_on_names(reader: str) -> None:
    scenario = Scenario("names", until=0.03)
    scenario.plant("m", THROUGH, step=0.01, inputs={"u": "tick.y"})
    scenario.plant(reader, INTEGRATOR, step=0.01, inputs={"u": "m.y"})
    scenario.controller("tick", law_of(count), period=0.01)
    recording = trace_of(scenario)
    assert recording[f"{reader}.x"][-1] == pytest.approx(0.06)


@pytest.mark.rule("x-minus-and-plus")
def test_x_plus_holds_the_outputs_after_the_writes() -> None:
    scenario = Scenario("outputs", until=0.02)
    scenario.plant("a", THROUGH, step=0.02, inputs={"u": "set.u"})
    scenario.source("set", Signals("u [1] = 3"))
    scenario.at(0.015, "set.u", 5.0)
    recording = trace_of(scenario)
    assert rows(recording, "a")[0] == (0, 0, 0)
    assert recording.track("a").column("u")[0] == 3.0, "wires are read before the first x-"
    assert recording.track("a").column("y").tolist() == [6.0, 6.0, 10.0, 10.0]
    assert recording["a.x"][-1] == pytest.approx(0.015 * 3 + 0.005 * 5)


def with_parameter(t: float, x: Vector, z: Vector, u: Vector, p: Vector, y: Vector) -> None:  # noqa: ARG001
    y[0] = p[0]


def test_a_changed_parameter_is_an_x_plus() -> None:
    model = Model(
        "gain", Signals("x [1]"), still, inputs=U, outputs=Signals("y [1]"),
        parameters=Signals("k [1] = 1"), output=with_parameter,
    )  # fmt: skip
    scenario = Scenario("parameter", until=0.02)
    scenario.plant("a", model, step=0.02)
    scenario.at(0.01, "a.k", 7.0)
    recording = trace_of(scenario)
    assert rows(recording, "a")[1:3] == [(10 * MS, 0, 0), (10 * MS, 0, 1)]
    assert recording.track("a").column("y").tolist() == [1.0, 1.0, 7.0, 7.0]


def remember(t: float, x: Vector, z: Vector, u: Vector, p: Vector) -> None:  # noqa: ARG001
    z[0] = u[0]


MEMORY = Model(
    "memory", Signals("x [1]"), still, discrete=Signals("z [1]"), inputs=U, update=remember
)


@pytest.mark.rule("sample-then-deliver-then-react")
def test_an_update_sees_what_arrives_at_its_tag_and_writes_buffered() -> None:
    scenario = Scenario("update", until=0.03)
    scenario.plant("a", MEMORY, step=0.01, update_period=0.01, inputs={"u": "c.y"})
    scenario.controller("c", law_of(count), period=0.01, transport=Fixed(0.01))
    scenario.controller("z_reader", law_of(copy_input), period=0.01, inputs={"u": "a.z"})
    recording = trace_of(scenario)
    minus = recording.track("a").integer("side") == 0
    assert recording.track("a").column("z")[minus].tolist() == [0.0, 0.0, 1.0, 2.0]
    plus = [(ns // MS, side) for ns, _, side in rows(recording, "a") if side == 1]
    assert plus == [(10, 1), (20, 1), (30, 1)]
    assert recording.messages["z_reader"]["y"].tolist() == [0.0, 0.0, 1.0, 2.0]


@pytest.mark.rule("noise-is-held")
def test_noise_is_drawn_at_its_ticks_and_written_with_the_others() -> None:
    scenario = Scenario("noise", until=0.03)
    scenario.noise("gust", Signals("w [1]"), deviation=1.0, period=0.01)
    scenario.controller("sees", law_of(copy_input), period=0.01, inputs={"u": "gust.w"})
    seen = trace_of(scenario).messages["sees"]["y"]
    drawn = RandomStreams(0).stream("noise/gust").standard_normal(4) / 0.01**0.5
    assert seen.tolist() == [0.0, *drawn[:3]]


@pytest.mark.rule("to-the-end")
def test_the_end_is_a_tag_of_its_own() -> None:
    scenario = Scenario("end", until=0.0137)
    scenario.plant("a", INTEGRATOR, step=0.01, inputs={"u": 1.0})
    recording = trace_of(scenario)
    assert [ns for ns, *_ in rows(recording, "a")] == [0, 10 * MS, 13_700_000]


# -- messages -------------------------------------------------------------------------------------


@pytest.mark.rule("three-stamps")
def test_an_answer_that_took_time_arrives_at_step_zero() -> None:
    scenario = Scenario("one delay", until=0.02)
    scenario.controller("c", law_of(count), period=0.01, compute=Fixed(0.002))
    track = trace_of(scenario).track("messages/c")
    assert track.integer("arrival_step").tolist() == [0, 0]
    assert (track.integer("arrival") - track.integer("initiated")).tolist() == [2 * MS, 2 * MS]


@pytest.mark.rule("fifo")
def test_the_order_of_a_link_is_saved_with_it() -> None:
    class Slower:
        ordered = True
        delay = 9 * MS

        def delays(self, stream: np.random.Generator, size_bytes: int) -> tuple[int, ...]:  # noqa: ARG002
            return (self.delay,)

    link = Slower()
    bus, again = Bus(RandomStreams(0)), Bus(RandomStreams(0))
    for one in (bus, again):
        one.add(Topic("t", "s", U, link))
    bus.send("t", Tag(0), Tag(0), np.zeros(1))
    again.restore(json.loads(json.dumps(bus.save())))
    link.delay = MS
    again.send("t", Tag(MS), Tag(MS), np.ones(1))
    assert [m.arrival.ns for m in again.due(Tag(20 * MS))] == [9 * MS, 9 * MS]


LATE, MISSED, DISCARDED = "Late", "Missed", "Discarded"
FOREVER = 10**6


class Processor:
    """Takes so many ms of its own time for each request, and answers the request's number."""

    inputs, outputs, outside, own_time, silence = U, Signals("y [1]"), True, True, 5.0

    def __init__(self, takes_ms: Sequence[int]) -> None:
        self.takes_ms = takes_ms
        self.number = 0
        self.now_ns = self.done_ns = self.ahead_ns = 0
        self.calls: list[str] = []

    def fresh(self) -> Processor:
        out = copy(self)
        out.calls = self.calls = []
        return out

    def advance(self, tag: Tag) -> None:
        self.calls.append("advance")
        self.now_ns = max(self.now_ns, tag.ns)

    def anchor(self, tag: Tag) -> None:
        self.calls.append(f"anchor {tag.ns // MS}")
        self.now_ns = tag.ns

    def send(self, tag: Tag, inputs: Vector) -> None:  # noqa: ARG002
        self.calls.append("send")
        assert self.now_ns >= tag.ns, "its time was not brought up to the tag"
        takes = self.takes_ms[self.number] if self.number < len(self.takes_ms) else 1
        self.done_ns = self.now_ns + takes * MS
        self.number += 1

    def receive(self, tag: Tag, patience: float) -> Vector | None:
        until = tag.ns + round(patience * NS_PER_S)
        self.now_ns = max(self.now_ns, min(until, self.done_ns))
        self.ahead_ns = max(self.ahead_ns, self.now_ns - tag.ns)
        return np.array([float(self.number)]) if self.done_ns <= until else None

    def close(self) -> None:
        self.calls.append("close")


def scenario_of(processor: Processor, allowed_ms: int, late: str = "hold") -> Scenario:
    """Asked each 10 ms for 60 ms."""
    scenario = Scenario("own time", until=0.06)
    scenario.source("set", U)
    scenario.controller(
        "c", processor, period=0.01, inputs={"u": "set.u"}, compute=Fixed(allowed_ms / 1000),
        late=late, failure="hold",
    )  # fmt: skip
    return scenario


def flown(scenario: Scenario, paced: bool) -> tuple[Recording, RtsimError | None]:
    recorder, error = MemoryRecorder(), None
    try:
        simulate(
            scenario, clock=FakeClock(late=[7, 0, 3] * 40) if paced else None, recorder=recorder
        )
    except RtsimError as problem:
        error = problem
    recording = recorder.recording()
    assert compare_exact(recording, rerun(recording, scenario)) is None
    return recording, error


def told(recording: Recording) -> list[tuple[int, str]]:
    return [(e.tag.ns // MS, e.kind) for e in recording.events]


RUNS: dict[str, tuple[tuple[int, ...], int, list[tuple[int, str]], list[int]]] = {
    "in time": ((5, 5, 5), 5, [], [0, 10, 20, 30, 40, 50]),
    "in time at the tick itself": ((10, 10), 10, [], [0, 10, 20, 30, 40, 50]),
    "late": ((5, 6), 5, [(15, LATE), (20, DISCARDED)], [0, 20, 30, 40, 50]),
    "late at the tick itself": ((5, 11), 10, [(20, LATE), (20, MISSED), (30, DISCARDED)],
                                [0, 30, 40, 50]),
    "late and busy": ((1, 25), 5, [(15, LATE), (20, MISSED), (30, MISSED), (40, DISCARDED)],
                      [0, 40, 50]),
    "late, there at a tick": ((1, 10), 5, [(15, LATE), (20, DISCARDED)], [0, 20, 30, 40, 50]),
}  # fmt: skip


@pytest.mark.rule("own-time")
@pytest.mark.parametrize("paced", [False, True], ids=["lockstep", "paced"])
@pytest.mark.parametrize("name", RUNS)
def test_late_is_what_its_own_time_says(name: str, paced: bool) -> None:
    """At any pace: this processor takes no time of the wall at all."""
    takes, allowed_ms, wanted, initiated = RUNS[name]
    recording, error = flown(scenario_of(Processor(takes), allowed_ms), paced)
    assert error is None
    assert told(recording) == wanted
    assert [row[0] // MS for row in rows(recording, "messages/c")] == initiated
    late = [e.values for e in recording.events if e.kind == LATE]
    assert late == [{"allowed": allowed_ms * MS, "actual": allowed_ms * MS}] * len(late)


@pytest.mark.rule("own-time")
def test_its_time_is_brought_up_to_each_tick_before_anything_else() -> None:
    processor = Processor((1, 25))
    flown(scenario_of(processor, 5), paced=False)
    busy = ["advance", "advance"]
    assert processor.calls == [*["advance", "send"] * 2, *busy, *["advance", "send"] * 3, "close"]


@pytest.mark.rule("own-time")
@pytest.mark.parametrize("paced", [False, True], ids=["lockstep", "paced"])
def test_with_no_latency_its_time_runs_ahead(paced: bool) -> None:
    """Whatever it costs: nobody is late, and what it is ahead of the tag adds up."""
    processor = Processor((25, 25))
    flying = processor.fresh()
    processor.fresh = lambda: flying  # type: ignore[method-assign]
    recording, error = flown(scenario_of(processor, 0), paced)
    assert error is None
    assert told(recording) == []
    assert [row[0] // MS for row in rows(recording, "messages/c")] == [0, 10, 20, 30, 40, 50, 60]
    assert flying.ahead_ns == 40 * MS, "25 ms of the first, 25 of the second, less one period"


@pytest.mark.rule("own-time")
def test_stretched_its_time_is_the_tags_again() -> None:
    processor = Processor((1, 25, 5))
    recording, error = flown(scenario_of(processor, 5, late="stretch"), paced=False)
    assert error is None
    assert told(recording) == [(15, LATE)]
    assert [row[0] // MS for row in rows(recording, "messages/c")] == [0, 10, 20, 30, 40, 50]
    assert [call for call in processor.calls if call.startswith("anchor")] == ["anchor 15"]


@pytest.mark.rule("own-time")
@pytest.mark.parametrize(("allowed_ms", "late"), [(0, "hold"), (5, "stretch"), (5, "fail")])
def test_one_that_never_answers(allowed_ms: int, late: str) -> None:
    recording, error = flown(scenario_of(Processor((1, FOREVER)), allowed_ms, late), paced=False)
    assert error is None
    failed = next(e for e in recording.events if e.kind == "Failed")
    assert failed.tag.ns == (10 + allowed_ms) * MS
    said = "no answer after 5000000 ns" if late == "fail" else "did not answer the request of"
    assert said in failed.text


def test_a_dead_one_is_not_spoken_to() -> None:
    class Dies(Processor):
        def receive(self, tag: Tag, patience: float) -> Vector | None:  # noqa: ARG002
            raise ControllerError("died")

    processor = Dies(())
    flown(scenario_of(processor, 5), paced=False)
    assert processor.calls[:3] == ["advance", "send", "close"]
    assert "advance" not in processor.calls[3:]
