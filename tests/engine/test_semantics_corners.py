"""Corners of docs/semantics.md where parts meet: orders and triggers, wakes, restores, reuse."""

from __future__ import annotations

import json

import numpy as np
import pytest
from semantics_parts import INTEGRATOR, MS, U, copy_input, count, law_of, rows

from rtsim.components.bus import Bus, Topic
from rtsim.components.latency import Fixed
from rtsim.core.random_streams import RandomStreams
from rtsim.core.signals import Signals, Vector
from rtsim.core.tag import Tag
from rtsim.engine.system import reaction_order
from rtsim.equations.model import Model
from rtsim.scenario.scenario import Scenario
from rtsim.testing.determinism import trace_of

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
    assert recording["messages/autopilot.y"].tolist() == [1.0, 2.0, 3.0]
    assert recording["messages/logger.y"].tolist() == [1.0, 2.0, 3.0]
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
    assert recording["messages/pilot.y"].tolist() == [1.0, 2.0, 3.0]
    assert recording["messages/last.y"].tolist() == [1.0, 2.0, 3.0], "the whole chain hears it"
    assert recording[f"messages/{name}.y"].tolist() == [0.0, 1.0, 2.0]


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
    assert recording["a.u"][0] == 3.0, "wires are read before the first x-"
    assert recording["a.y"].tolist() == [6.0, 6.0, 10.0, 10.0]
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
    assert recording["a.y"].tolist() == [1.0, 1.0, 7.0, 7.0]


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
    assert recording["a.z"][minus].tolist() == [0.0, 0.0, 1.0, 2.0]
    plus = [(ns // MS, side) for ns, _, side in rows(recording, "a") if side == 1]
    assert plus == [(10, 1), (20, 1), (30, 1)]
    assert recording["messages/z_reader.y"].tolist() == [0.0, 0.0, 1.0, 2.0]


@pytest.mark.rule("noise-is-held")
def test_noise_is_drawn_at_its_ticks_and_written_with_the_others() -> None:
    scenario = Scenario("noise", until=0.03)
    scenario.noise("gust", Signals("w [1]"), deviation=1.0, period=0.01)
    scenario.controller("sees", law_of(copy_input), period=0.01, inputs={"u": "gust.w"})
    seen = trace_of(scenario)["messages/sees.y"]
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
