"""Tasks by themselves: their ticks, what one reaction reads and writes, what a checkpoint holds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from rtsim.components.plant import RunningPlant
from rtsim.components.ports import SignalPort, Wiring
from rtsim.components.tasks import (
    FAR,
    CompiledReaction,
    NoiseTask,
    SensorTask,
    Ticking,
    TimerTask,
    UpdateTask,
)
from rtsim.core.errors import ModelError, ScenarioError
from rtsim.core.random_streams import RandomStreams
from rtsim.core.signals import Signals, Vector
from rtsim.core.tag import Period, Tag
from rtsim.engine.system import System
from rtsim.equations.compiling import Compilation
from rtsim.equations.model import Model, Timer
from rtsim.scenario.scenario import Scenario

MS = 1_000_000


@dataclass
class Surroundings:
    """Keeps what reactions send and write."""

    paced: bool = False
    streams: RandomStreams = field(default_factory=lambda: RandomStreams(5))
    sent: list[tuple[str, Tag, Tag, list[float]]] = field(default_factory=list)
    written: list[tuple[Vector, list[float], object]] = field(default_factory=list)

    def now(self) -> int:
        raise NotImplementedError

    def wall(self, ns: int) -> int:
        raise NotImplementedError

    def stretch(self, ns: int) -> None:
        raise NotImplementedError

    def send(self, topic: str, initiated: Tag, completed: Tag, payload: Vector) -> None:
        self.sent.append((topic, initiated, completed, payload.tolist()))

    def write(self, vector: Vector, new: Vector, owner: RunningPlant | SignalPort) -> None:
        self.written.append((vector, new.tolist(), owner))

    def event(
        self, tag: Tag, kind: str, source: str, text: str, values: Mapping[str, float]
    ) -> None:
        raise NotImplementedError

    def sampled(self, controller: str, tag: Tag, inputs: Vector, sequence: int) -> None:
        raise NotImplementedError

    def measured(self, controller: str, tag: Tag, stamps: tuple[int, ...]) -> None:
        raise NotImplementedError


# -- ticks ----------------------------------------------------------------------------------------


def test_ticks_are_multiples_of_the_period_after_the_offset() -> None:
    task = Ticking("t", Period(Fraction(10, 3)), 5, 2)
    seen = []
    for _ in range(4):
        seen.append(task.next_ns)
        task.ticked()
    assert seen == [5, 8, 12, 15]
    assert (task.name, task.priority, task.offset_ns) == ("t", 2, 5)
    assert task.save() == {"k": 4}
    again = Ticking("t", Period(Fraction(10, 3)), 5, 2)
    again.restore({"k": 3})
    assert (again.k, again.next_ns) == (3, 15)


def test_without_a_period_there_is_no_tick() -> None:
    assert FAR == 2**63 - 1
    task = Ticking("t", None, 0, 0)
    task.ticked()
    assert task.next_ns == FAR


def test_an_offset_is_not_negative() -> None:
    assert Ticking("t", Period(Fraction(10)), 0, 0).next_ns == 0
    with pytest.raises(ScenarioError, match="an offset of -1 ns; an offset must be >= 0"):
        Ticking("t", Period(Fraction(10)), -1, 0)


# -- sensors and noise ----------------------------------------------------------------------------


def test_a_sensor_sends_what_its_wires_hold_now() -> None:
    signals = Signals("a [1]", "b [1]")
    source = SignalPort("p", Signals("v [1]"), np.array([1.0]))
    wiring = Wiring(signals.initial(), signals, {"a": "p.v", "b": 7.0}, "s")
    wiring.connect({"p": source})
    task, around = SensorTask("s", wiring, Period(Fraction(10)), 3, 1), Surroundings()
    assert (task.next_ns, task.priority) == (3, 1)
    source.value[:] = 2.0
    task.react(Tag(20, 1), around)
    assert around.sent == [("s", Tag(20, 1), Tag(20, 1), [2.0, 7.0])]
    assert SensorTask("s", wiring, Period(Fraction(10))).save() == {"k": 0}
    assert SensorTask("s", wiring, Period(Fraction(10))).next_ns == 0
    assert SensorTask("s", wiring, Period(Fraction(10))).priority == 0


def test_noise_is_drawn_from_its_own_stream_with_its_mean_and_density() -> None:
    """The deviation of one draw is that of the density over the root of the period."""
    port = SignalPort("gust", Signals("u [1]", "v [1]"), np.zeros(2))
    task, around = NoiseTask(port, 3.0, 0.5, Period.of("0.04")), Surroundings()
    assert (task.name, task.next_ns, task.offset_ns, task.priority) == ("gust", 0, 0, 0)
    task.react(Tag(0), around)
    ((vector, new, owner),) = around.written
    drawn = RandomStreams(5).stream("noise/gust").standard_normal(2)
    assert new == pytest.approx((3.0 + 2.5 * drawn).tolist())
    assert (vector is port.value, owner is port) == (True, True)


@pytest.mark.parametrize(
    ("mean", "deviation"),
    [(np.nan, 1.0), (np.inf, 1.0), (0.0, np.nan), (0.0, np.inf), (0.0, -1e-9)],
)
def test_a_noise_has_a_finite_mean_and_a_deviation(mean: float, deviation: float) -> None:
    port = SignalPort("gust", Signals("u [1]"), np.zeros(1))
    with pytest.raises(ScenarioError, match="both must be finite, and the deviation >= 0"):
        NoiseTask(port, mean, deviation, Period.of(1))
    assert NoiseTask(port, 0.0, 0.0, Period.of(1))


# -- updates --------------------------------------------------------------------------------------


def stands(t: float, x: Vector, z: Vector, u: Vector, p: Vector, dx: Vector) -> None:  # noqa: ARG001
    dx[0] = 0.0


def counts(t: float, x: Vector, z: Vector, u: Vector, p: Vector) -> None:
    z[0] += x[0] + p[0]
    z[1] = t
    z[2] = u[0]
    if t >= 1.0:
        z[1:] = np.nan


def built(model: Model, compile: Compilation = False, **how: Any) -> System:
    scenario = Scenario("s", until=10)
    scenario.source("set", Signals("v [1]"), {"v": 4.0})
    scenario.plant("plant", model, step=1, inputs={"u": "set.v"}, **how)
    return scenario.build(compile=compile)


UPDATED = Model(
    "counting", Signals("x = 2"), stands, discrete=Signals("n", "at", "seen"),
    inputs=Signals("u"), parameters=Signals("by = 5"), update=counts,
)  # fmt: skip


def test_an_update_writes_new_discrete_values_and_changes_nothing_itself() -> None:
    system = built(UPDATED, update_period="0.25", update_offset="0.125", priority=3)
    (task,), (plant,), around = system.tasks, system.plants, Surroundings()
    assert isinstance(task, UpdateTask)
    assert (task.name, task.next_ns, task.priority) == ("plant.update", 125 * MS, 3)
    for _ in range(2):
        task.react(Tag(125 * MS), around)
    expected = (plant.z, [7.0, 0.125, 4.0], plant)
    assert [new for _, new, _ in around.written] == [expected[1]] * 2
    assert all(v is plant.z and owner is plant for v, _, owner in around.written)
    assert plant.z.tolist() == [0.0, 0.0, 0.0]


def test_an_update_begins_at_once_and_without_a_priority() -> None:
    (plant,) = built(UPDATED, update_period="0.25").plants
    task = UpdateTask(plant, Period.of("0.25"))
    assert (task.next_ns, task.priority) == (0, 0)


def test_an_update_that_makes_a_value_not_finite_names_it() -> None:
    system = built(UPDATED, update_period=1)
    around = Surroundings()
    with pytest.raises(ModelError, match=r"update of plant \(model counting\) made at not fin"):
        system.tasks[0].react(Tag(1000 * MS), around)
    assert around.written == []


# -- timers ---------------------------------------------------------------------------------------


def note(due: Vector, t: float, x: Vector, z: Vector, u: Vector, p: Vector) -> None:
    z[0] = due[0] + 2.0 * due[1] + 4.0 * due[2]
    z[1] += 1.0
    z[2] = u[0] + p[0]
    x[0] = t


def stays(due: Vector, t: float, x: Vector, z: Vector, u: Vector, p: Vector) -> None:
    """Change nothing."""


TIMED = Model(
    "timed", Signals("x"), stands, discrete=Signals("who", "calls", "in", "one", "r"),
    inputs=Signals("u"), parameters=Signals("by = 5"), tick=note,
    timers=(
        Timer(Period.of("0.010"), 0, ("one",)),
        Timer(Period.of("0.015"), 5 * MS, ("r",)),
        Timer(None, 20 * MS),
    ),
)  # fmt: skip


def timers(compile: Compilation = False, **how: Any) -> tuple[TimerTask, RunningPlant]:
    system = built(TIMED, compile, **how)
    (task,), (plant,) = system.tasks, system.plants
    assert isinstance(task, TimerTask)
    return task, plant


def at_tick(task: TimerTask, around: Surroundings) -> dict[str, Any]:
    """Serve the coming tick; returns when it was, and what was written."""
    ns = task.next_ns
    task.ticked()
    around.written.clear()
    task.react(Tag(ns), around)
    (_, x, _), (_, z, _) = around.written
    return {"ms": ns // MS, "x": x[0], "who": z[0], "calls": z[1], "in": z[2], "drawn": z[3:]}


TICKS = [(0, 1), (5, 2), (10, 1), (20, 1 + 2 + 4), (30, 1), (35, 2), (40, 1), (50, 1 + 2), (60, 1)]


@pytest.mark.parametrize("compile", [False, True])
def test_timers_that_tick_at_one_time_are_due_in_one_reaction(compile: Compilation) -> None:
    (task, _), around = timers(compile), Surroundings()
    seen = [at_tick(task, around) for _ in TICKS]
    assert [(one["ms"], one["who"]) for one in seen] == TICKS
    assert [one["x"] for one in seen] == [ms / 1000 for ms, _ in TICKS]
    assert {one["in"] for one in seen} == {9.0}
    assert {one["calls"] for one in seen} == {1.0}, "the plant's own values have not changed"


def test_draws_are_of_the_timers_that_tick() -> None:
    (task, plant), around = timers(), Surroundings()
    plant.z[:] = -1.0
    one, r = (RandomStreams(5).stream(f"noise/plant.{name}") for name in ("one", "r"))
    expected = [
        [one.standard_normal() if who & 1 else -1.0, r.standard_normal() if who & 2 else -1.0]
        for _, who in TICKS
    ]
    assert [at_tick(task, around)["drawn"] for _ in TICKS] == expected


def test_a_tick_writes_states_and_discrete_values_of_its_plant() -> None:
    (task, plant), around = timers(priority=2), Surroundings()
    assert (task.name, task.period, task.priority) == ("plant.timers", None, 2)
    assert TimerTask(plant).priority == 0
    at_tick(task, around)
    at_tick(task, around)
    (x, _, owner), (z, _, other) = around.written
    assert (x is plant.x, z is plant.z, owner is plant is other) == (True, True, True)
    assert (plant.x.tolist(), plant.z.tolist()) == ([0.0], [0.0] * 5)


def test_ticks_go_on_from_what_was_saved() -> None:
    (task, _), (again, _), around = timers(), timers(), Surroundings()
    for _ in range(4):
        at_tick(task, around)
    assert task.save() == {"ticks": [3, 2, 1]}
    again.restore(task.save())
    assert [at_tick(again, around)["ms"] for _ in range(5)] == [30, 35, 40, 50, 60]
    assert task.save() == {"ticks": [3, 2, 1]}, "what was saved is of its own"
    at_tick(task, around)
    assert task.next_ns == 35 * MS


def astray(due: Vector, t: float, x: Vector, z: Vector, u: Vector, p: Vector) -> None:  # noqa: ARG001
    z[2 if due[1] == 0.0 else 40] += 1.0


def test_the_first_tick_of_each_timer_is_checked_before_machine_code_runs_it() -> None:
    """The second timer ticks first in the second reaction; its element does not exist."""
    (task,), around = built(replace(TIMED, name="astray", tick=astray), True).tasks, Surroundings()
    assert isinstance(task, TimerTask)
    assert at_tick(task, around)["in"] == 1.0
    with pytest.raises(IndexError):
        at_tick(task, around)


def astray_at_once(due: Vector, t: float, x: Vector, z: Vector, u: Vector, p: Vector) -> None:  # noqa: ARG001
    z[40 if due[0] == 1.0 else 0] += 1.0


def test_the_first_tick_of_a_single_timer_is_checked_too() -> None:
    model = replace(TIMED, name="at_once", tick=astray_at_once, timers=TIMED.timers[:1])
    (task,), around = built(model, True).tasks, Surroundings()
    assert isinstance(task, TimerTask)
    with pytest.raises(IndexError):
        at_tick(task, around)


@pytest.mark.parametrize(("where", "name"), [("x", "x"), ("z", "calls")])
def test_a_tick_that_makes_a_value_not_finite_names_it(where: str, name: str) -> None:
    def breaks(due: Vector, t: float, x: Vector, z: Vector, u: Vector, p: Vector) -> None:  # noqa: ARG001
        (x if where == "x" else z[1:])[:] = np.inf

    model = Model(
        "timed", Signals("x"), stands, discrete=Signals("who", "calls", "r"), inputs=Signals("u"),
        timers=(Timer(Period.of(1)),), tick=breaks,
    )  # fmt: skip
    task, around = built(model).tasks[0], Surroundings()
    with pytest.raises(ModelError, match=rf"tick of plant \(model timed\) made {name} not finite"):
        task.react(Tag(0), around)
    assert around.written == []


@pytest.mark.parametrize(
    ("count", "reason"),
    [(1, ""), (2, "plant.timers draws random numbers for several timers or signals")],
)
def test_machine_code_draws_for_one_signal_of_one_timer(count: int, reason: str) -> None:
    model = replace(TIMED, name=f"draws_{count}", timers=TIMED.timers[:count], tick=stays)
    (task,) = built(model, True).tasks
    assert isinstance(task, TimerTask)
    found = task.compiled()
    assert (found if isinstance(found, str) else "") == reason


def test_machine_code_runs_several_timers_that_draw_nothing() -> None:
    plain = tuple(replace(timer, draws=()) for timer in TIMED.timers)
    (task,) = built(replace(TIMED, name="plain", timers=plain), True).tasks
    assert isinstance(task, TimerTask)
    found = task.compiled()
    assert isinstance(found, CompiledReaction)
    assert len(found.timers) == 3
