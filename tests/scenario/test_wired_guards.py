"""Guards on inputs that read other plants, whose samples come at grid points of the plant alone."""

from __future__ import annotations

from collections.abc import Generator
from functools import partial
from typing import Any

import pytest
from engine_parts import check_equal, ran
from fault_parts import copy_input
from simpy.events import Event

from rtsim.blocks import Constant, Diagram, Integrator, LevelCrossing, Sampler
from rtsim.components.controller import PythonController
from rtsim.core.signals import Signals, Vector
from rtsim.core.tag import Duration
from rtsim.discrete.agenda import Agenda
from rtsim.discrete.declaration import Processes
from rtsim.equations.modal import Mode, Transition, modal
from rtsim.equations.model import Guard, Model
from rtsim.record.reading import Recording
from rtsim.runs.simulation import simulate
from rtsim.scenario.scenario import Scenario

MS = 1_000_000
ENGINES = pytest.mark.parametrize("engine", ["interpreted", "compiled"])
LOGGED = pytest.mark.parametrize("logged", [False, True], ids=["alone", "logged"])


def runs(t: float, x: Vector, z: Vector, u: Vector, p: Vector, dx: Vector) -> None:  # noqa: ARG001
    dx[0] = 1.0


def stands(t: float, x: Vector, z: Vector, u: Vector, p: Vector, dx: Vector) -> None:  # noqa: ARG001
    dx[0] = 0.0
    dx[1] = u[0]


def levels(t: float, x: Vector, z: Vector, u: Vector, p: Vector, g: Vector) -> None:  # noqa: ARG001
    g[0] = u[0] - 0.56
    g[1] = 1.0 if u[0] >= 0.56 else -1.0


def count(i: int, t: float, x: Vector, z: Vector, u: Vector, p: Vector) -> None:  # noqa: ARG001
    x[0] += 10.0**i


RAMP = Model("ramp", Signals("w"), runs)
WATCHES = Model(
    "watches", Signals("n", "area"), stands, inputs=Signals("u"), guard=levels, reset=count,
    guards=(Guard("level", +1), Guard("condition", +1)),
)  # fmt: skip


def wired(
    step: Duration,
    other: Duration,
    solver: str = "rk4",
    logged: bool = False,
    model: Model = WATCHES,
) -> Scenario:
    """``b`` watches ``a.w``, which is the time in s."""
    out = Scenario("wired", until=4)
    out.plant("a", RAMP, step=other)
    out.plant("b", model, step=step, solver=solver, inputs={"u": "a.w"})
    if logged:
        out.sensor("log", {"v": "a.w"}, period=step)
    return out


def crossed(recording: Recording, plant: str = "b") -> list[tuple[int, int, str]]:
    events = [e for e in recording.events if e.kind == "Crossed"]
    return [
        (e.tag.ns, e.tag.step, name)
        for e in events
        for source, _, name in [e.source.partition(".")]
        if source == plant
    ]


@pytest.mark.rule("guards-after-writes")
@ENGINES
@pytest.mark.parametrize(
    ("step", "other", "alone", "logged"),
    [("1/80", "1/80", 562_500_000, 562_500_000), ("1/80", "1/32", 562_500_000, 562_500_000),
     ("1/32", "1/80", 562_500_000, 562_500_000), ("1/80", "1/7", 575_000_000, 562_500_000),
     ("1/64", "1/60", 578_125_000, 562_500_000)],
)  # fmt: skip
def test_a_sample_of_another_plant_moves_a_guard_across_zero(
    step: str, other: str, alone: int, logged: int, engine: str
) -> None:
    """A sensor that ticks with the reader shortens the steps of the other plant."""
    for ns, with_log in ((alone, False), (logged, True)):
        recording = ran(wired(step, other, logged=with_log), engine).recording
        assert crossed(recording) == [(ns, 1, "level"), (ns, 1, "condition")]
        assert recording.at(4)["b.n"] == 11.0


@pytest.mark.sample(2)
@pytest.mark.parametrize("solver", ["rk4", "dp54", "rodas5p", "radau"])
def test_each_solver_fires_a_guard_on_a_wire(solver: str) -> None:
    assert simulate(wired("1/80", "1/80", solver), compile=False)["b.n"][-1] == 11.0


@pytest.mark.parametrize("other", ["1/80", "1/32", "1/100", "1/7"])
def test_engines_agree_on_guards_on_wires(other: str) -> None:
    assert check_equal(partial(wired, "1/80", other)) > 100


def settles(t: float, x: Vector, z: Vector, u: Vector, p: Vector, dx: Vector) -> None:  # noqa: ARG001
    dx[0] = -0.5 * (x[0] - 10.0) + 12.0 * u[0]


def keeps(t: float, x: Vector, z: Vector, u: Vector, p: Vector, dx: Vector) -> None:  # noqa: ARG001
    dx[0] = 0.0


def cold(t: float, x: Vector, z: Vector, u: Vector, p: Vector) -> float:  # noqa: ARG001
    return float(u[0]) - 18.0


def warm(t: float, x: Vector, z: Vector, u: Vector, p: Vector) -> float:  # noqa: ARG001
    return float(u[0]) - 20.0


def off(t: float, x: Vector, z: Vector, u: Vector, p: Vector, y: Vector) -> None:  # noqa: ARG001
    y[0] = 0.0


def on(t: float, x: Vector, z: Vector, u: Vector, p: Vector, y: Vector) -> None:  # noqa: ARG001
    y[0] = 1.0


def thermostat(logged: bool) -> Scenario:
    heater = modal(
        "heater", Signals("x"),
        [Mode("off", keeps, (Transition("cold", cold, "on", -1),), off),
         Mode("on", keeps, (Transition("warm", warm, "off", +1),), on)],
        inputs=Signals("temperature"), outputs=Signals("heat"),
    )  # fmt: skip
    room = Model("room", Signals("temperature=25"), settles, inputs=Signals("heat"))
    out = Scenario("thermostat", until=20)
    out.plant("room", room, step="0.1", inputs={"heat": "heater.heat"})
    out.plant("heater", heater, step="0.1", inputs={"temperature": "room.temperature"})
    if logged:
        out.sensor("log", {"v": "room.temperature"}, period="0.1")
    return out


@ENGINES
def test_a_thermostat_of_two_wired_plants_switches(engine: str) -> None:
    alone, logged = (ran(thermostat(with_log), engine).recording for with_log in (False, True))
    assert crossed(alone, "heater") == crossed(logged, "heater")
    assert len(crossed(alone, "heater")) == 30
    assert 17.0 < alone.at(20)["room.temperature"] < 21.0


def test_engines_agree_on_the_thermostat() -> None:
    assert check_equal(partial(thermostat, logged=False)) > 50


@ENGINES
def test_a_failure_on_a_wire_ends_the_run(engine: str) -> None:
    model = Model(
        "crashes", Signals("n", "area"), stands, inputs=Signals("u"), guard=levels, reset=count,
        guards=(Guard("crash", +1, terminal=True, failure="too far"), Guard("other", +1)),
    )  # fmt: skip
    outcome = simulate(wired("1/80", "1/80", model=model), engine=engine)
    assert not outcome.ok
    assert "b.crash: too far" in outcome.in_words
    assert outcome.ended.ns == 562_500_000


@ENGINES
def test_a_level_crossing_of_a_diagram_reads_a_wire(engine: str) -> None:
    diagram = Diagram("diagram")
    diagram.input("u")
    diagram.add("level", LevelCrossing(0.56, direction=1), "u")
    diagram.add("one", Constant(1.0))
    diagram.add("kick", Sampler(), "one", "level")
    diagram.add("zero", Constant(0.0))
    diagram.add("x", Integrator(), "zero", impulse="kick")
    recording = ran(wired("1/80", "1/80", model=diagram.model()), engine).recording
    assert recording.at(4)["b.x"] == 1.0


def answers(agenda: Agenda, guard: str = "a.early") -> None:
    def once() -> Generator[Event, Any, None]:
        yield agenda.crossing(guard)
        agenda.write(v=1.0)

    agenda.process(once())


def faulty(at: float) -> Scenario:
    """A sample moves a guard at 0.5625 s, which sets off ``p``, which sets off ``c``.

    The fault ``off`` of what ``c`` reads begins at ``at`` s.
    """
    out = wired("1/80", "1/80")
    out.processes("p", Processes(partial(answers, guard="b.level"), outputs=Signals("v")),
                  on=["b.level"])  # fmt: skip
    c = PythonController(copy_input, Signals("u"), Signals("y"), memory=Signals("s"))
    out.controller("c", c, on=["p"], inputs={"u": "a.w"})
    out.faults({"name": "off", "where": "c.u", "kind": "offset", "amount": 10.0, "at": at})
    return out


@pytest.mark.parametrize(("at", "begins"), [(0.5625, True), (0.575, False)])
def test_a_fault_that_begins_at_a_sample_acts_on_who_reads_there(at: float, begins: bool) -> None:
    """Only the interpreter has processes."""
    recording = ran(faulty(at), "interpreted").recording
    (given,) = recording.messages["c.inputs"]["u"]
    assert given == pytest.approx(10.5625 if begins else 0.5625)
    assert [e.tag.ns for e in recording.events if e.kind == "Fault"] == [562_500_000] * begins


# -- messages between two tags of the plant that reads them ----------------------------------------


def early(t: float, x: Vector, z: Vector, u: Vector, p: Vector, g: Vector) -> None:  # noqa: ARG001
    g[0] = x[0] - 0.333


def jumps(i: int, t: float, x: Vector, z: Vector, u: Vector, p: Vector) -> None:  # noqa: ARG001
    z[0] = 1.0


JUMPS = Model("jumps", Signals("w"), runs, discrete=Signals("jump"), guard=early, reset=jumps,
              guards=(Guard("early", +1),))  # fmt: skip


def between(source: str, logged: bool = False) -> Scenario:
    """A guard of ``a`` at 0.333 s changes the input of ``b``, whose next tag is at 0.3375 s."""
    out = Scenario("between", until=4)
    out.plant("a", JUMPS, step="1/80")
    out.processes("p", Processes(answers, outputs=Signals("v")), on=["a.early"])
    out.plant("b", WATCHES, step="1/80", inputs={"u": source})
    if logged:
        out.sensor("log", {"v": "a.w"}, period="1/80")
    return out


@ENGINES
@LOGGED
@pytest.mark.parametrize("source", ["p.v", "a.jump"])
def test_a_plant_reads_at_its_next_tag_what_a_guard_of_another_one_changed(
    source: str, logged: bool, engine: str
) -> None:
    """By a message of a process, or by a wire."""
    recording = ran(between(source, logged), engine).recording
    assert crossed(recording) == [(337_500_000, 1, n) for n in ("level", "condition")]
    assert recording.at(4)["b.area"] == pytest.approx(4 - 0.3375)


@pytest.mark.parametrize("source", ["p.v", "a.jump"])
def test_engines_agree_on_a_change_between_two_tags(source: str) -> None:
    assert check_equal(partial(between, source)) > 100
