"""Processes in a run: their time, their microsteps, what they read, write, send and hear.

What processes cannot do, and what is said then.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import simpy
from discrete_parts import K, Steps, Y, one
from semantics_parts import INTEGRATOR, add_one, copy_input, law_of, rows

from rtsim.components.controller import PythonController
from rtsim.components.latency import Fixed
from rtsim.core.errors import ModelError, ScenarioError, ShapeError, UnknownName, ZenoError
from rtsim.core.signals import Signals, Vector
from rtsim.core.tag import Period
from rtsim.discrete import Agenda, Processes
from rtsim.engine.faults import FaultError
from rtsim.equations.source_hash import source_hash
from rtsim.models.ball import BALL
from rtsim.scenario.scenario import Scenario
from rtsim.testing.determinism import check_determinism
from rtsim.testing.determinism import trace_of as flown

MS = 1_000_000


@pytest.mark.parametrize(
    ("delay", "period"), [(0.1, "1/10"), (1e-9, "1/1000000000"), (0.123456789, 0.123456789)]
)
def test_time_is_whole_nanoseconds_and_does_not_drift(delay: float, period: str | float) -> None:
    seen: list[int] = []

    def body(agenda: Agenda) -> Steps:
        while True:
            seen.append(agenda.ns)
            assert agenda.now == agenda.ns / 1e9
            yield agenda.timeout(delay)

    flown(one(body, until=400 * delay))
    ticks = Period.of(period)
    assert len(seen) == 401
    assert seen == [ticks.tick(k) for k in range(401)]


@pytest.mark.parametrize(
    ("delay", "ns"),
    [
        (3, 3_000_000_000),
        (np.float64(0.3), 300_000_000),
        (999_999.999_999_999, 999_999_999_999_999),
        (30_000_000.000_000_1, 30_000_000_000_000_100),
        (1e-10, 0),
        (0.001_013_633, 1_013_633),
        (29_904_648.210_475_743, 29_904_648_210_475_743),
    ],
)
def test_a_delay_is_the_nearest_ns_of_what_is_written(delay: Any, ns: int) -> None:
    agenda = flown_agenda(lambda agenda: agenda.timeout(delay))
    assert agenda.next_ns == ns


def flown_agenda(setup: Callable[[Agenda], object]) -> Agenda:
    """An agenda that was set up, and stands at 0."""
    from rtsim.core.random_streams import RandomStreams

    def nothing(agenda: Agenda) -> None:
        setup(agenda)

    agenda = Agenda("p", Processes(nothing), (), np.zeros(0), RandomStreams(0))
    agenda.begin()
    return agenda


def test_an_infinite_delay_never_ends() -> None:
    assert flown_agenda(lambda agenda: agenda.timeout(float("inf"))).peek() == float("inf")


@pytest.mark.parametrize("delay", [float("nan"), -1.0, 1e12])
def test_a_delay_that_is_none_is_refused(delay: float) -> None:
    def body(agenda: Agenda) -> Steps:
        yield agenda.timeout(delay)

    with pytest.raises((ModelError, ScenarioError)):
        flown(one(body))


@pytest.mark.rule("processes-at-tags")
def test_all_events_of_an_instant_are_one_reaction_and_one_message() -> None:
    """They see each other in SimPy's order; others hear of what they came to, once."""

    def setup(agenda: Agenda) -> None:
        order: list[int] = []

        def body(k: int) -> Steps:
            yield agenda.timeout(0.1)
            yield agenda.timeout(0)
            order.append(k)
            agenda.write(y=float("".join(map(str, order))))

        for k in (3, 1, 2):
            agenda.process(body(k))

    out = Scenario("several", until=0.2)
    out.processes("p", Processes(setup, outputs=Y))
    out.plant("x", INTEGRATOR, step=1, inputs={"u": "p.y"})
    recording = flown(out)
    assert recording.messages["p"]["y"].tolist() == [312.0]
    message = recording.track("messages/p")
    stamps = ("initiated", "initiated_step", "completed", "arrival", "arrival_step")
    assert [int(message.integer(k)[0]) for k in stamps] == [100 * MS, 0, 100 * MS, 100 * MS, 1]
    assert (100 * MS, 1, 1) in rows(recording, "x"), "x+ in the next microstep"


def rivals(environment: simpy.Environment, log: list[tuple[float, str]]) -> None:
    """All at 1 s: an interrupt, a new process and a pause of 0, against what was planned before."""

    def tell(what: str) -> None:
        log.append((environment.now, what))

    def child() -> Steps:
        tell("born")
        yield environment.timeout(0)
        tell("child goes on")

    def boss() -> Steps:
        yield environment.timeout(1)
        tell("boss")
        worker.interrupt()
        environment.process(child())
        yield environment.timeout(0)
        tell("boss goes on")

    def work() -> Steps:
        try:
            yield environment.timeout(1)
            tell("done")
        except simpy.Interrupt:
            tell("interrupted")

    environment.process(boss())
    worker = environment.process(work())


def test_events_of_one_instant_are_in_the_order_of_simpy_alone() -> None:
    """An interrupt and a process that begins go before what was planned for the instant."""
    alone: list[tuple[float, str]] = []
    environment = simpy.Environment()
    rivals(environment, alone)
    environment.run()
    assert [what for _, what in alone] == [
        "boss", "interrupted", "born", "boss goes on", "child goes on",
    ]  # fmt: skip
    here: list[tuple[float, str]] = []
    out = Scenario("rivals", until=2)
    out.processes("p", Processes(lambda agenda: rivals(agenda, here)))
    flown(out)
    assert here == alone


def test_an_output_that_is_written_and_is_as_it_was_is_no_message() -> None:
    def body(agenda: Agenda) -> Steps:
        for value in (1.0, 1.0, 2.0, 2.0):
            yield agenda.timeout(0.1)
            agenda.write(y=7.0)
            agenda.write(y=value)

    assert flown(one(body)).messages["p"]["y"].tolist() == [1.0, 2.0]


def test_a_transport_delays_messages() -> None:
    def body(agenda: Agenda) -> Steps:
        yield agenda.timeout(0.1)
        agenda.write(y=1.0)

    recording = flown(one(body, transport=Fixed(0.25)))
    assert recording.track("messages/p").integer("arrival").tolist() == [350 * MS]


@pytest.mark.rule("processes-at-tags")
def test_a_process_reads_a_plant_as_it_was_before_the_microstep() -> None:
    seen: list[tuple[float, float]] = []

    def body(agenda: Agenda) -> Steps:
        for _ in range(2):
            yield agenda.timeout(0.5)
            seen.append((agenda.read("u"), agenda.read("k")))

    out = one(body, inputs=Signals("u [1]"), parameters=K, wires={"u": "x.x"})
    out.source("one", Signals("v"), {"v": 1.0})
    out.plant("x", INTEGRATOR, step=0.3, inputs={"u": "one.v"})
    out.at(0.5, "one.v", 3.0)
    out.at(1, "p.k", 5.0)
    out.set("p.k", 4.0)
    flown(out)
    assert [k for _, k in seen] == [4.0, 5.0]
    assert [u for u, _ in seen] == pytest.approx([0.5, 2.0])


def test_a_process_changes_parameters_of_plants_and_values_of_sources() -> None:
    def fall(agenda: Agenda) -> Steps:
        yield agenda.timeout(0.1)
        agenda.change("ball.gravity", 0.0)
        agenda.change("wind.v", 2.0)

    out = one(fall, until=0.2)
    out.plant("ball", BALL, step=0.01, states={"height": 9.0})
    out.source("wind", Signals("v", "w = 3"))
    out.plant("x", INTEGRATOR, step=0.1, inputs={"u": "wind.v"})
    recording = flown(out)
    after = recording.track("ball").rows
    speed = after.floats[after.ns >= 100 * MS, 1]
    assert np.all(speed == speed[0]), "without gravity it goes on as it was"
    assert recording["x.x"][-1] == pytest.approx(0.2)
    assert [(e.kind, e.source) for e in recording.events] == [
        ("Change", "ball.gravity"), ("Change", "wind.v"),
    ]  # fmt: skip


# -- what it hears --------------------------------------------------------------------------------


def two_at_once(hears: Callable[[Agenda], Steps]) -> Scenario:
    """``q`` sends three orders, two of them at one tag; ``p`` has an inbox."""

    def sending(agenda: Agenda) -> None:
        def body() -> Steps:
            yield agenda.timeout(0.25)
            agenda.send("orders", size=[1.0, 2.0], number=1)
            agenda.send("orders", number=2)
            yield agenda.timeout(0.25)
            agenda.send("orders", number=3)

        agenda.process(body())

    from rtsim.core.signals import Signal

    orders = Signals("number", Signal("size", "kg", shape=(2,), initial=(5.0, 6.0)))
    out = one(hears, on=("orders",))
    out.processes("q", Processes(sending, messages={"orders": orders}))
    return out


@pytest.mark.rule("processes-hear")
def test_each_message_of_a_topic_is_an_item_of_its_inbox() -> None:
    seen: list[tuple[int, float, list[float]]] = []

    def body(agenda: Agenda) -> Steps:
        orders = agenda.inbox("orders")
        while True:
            order = yield orders.get()
            seen.append((agenda.ns, order["number"], order["size"].tolist()))

    recording = flown(two_at_once(body))
    assert seen == [
        (250 * MS, 1.0, [1.0, 2.0]), (250 * MS, 2.0, [5.0, 6.0]), (500 * MS, 3.0, [5.0, 6.0]),
    ]  # fmt: skip
    assert recording.track("messages/orders").about["source"] == "q"
    assert recording.track("messages/orders").integer("arrival_step").tolist() == [1, 1, 1]


def test_a_topic_of_processes_is_read_by_others_too() -> None:
    out = two_at_once(lambda agenda: (yield agenda.timeout(1)))
    out.controller("c", law_of(copy_input), on=("orders",), inputs={"u": "orders.number"})
    assert flown(out).messages["c"]["y"].tolist() == [2.0, 3.0]


@pytest.mark.rule("processes-hear")
def test_a_crossing_is_heard_in_the_next_microstep_after_the_reset() -> None:
    seen: list[tuple[int, float, float]] = []

    def body(agenda: Agenda) -> Steps:
        for _ in range(2):
            yield agenda.crossing("ball.floor")
            seen.append((agenda.ns, agenda.read("height"), agenda.read("speed")))
            agenda.write(y=len(seen))

    inputs = Signals("height [m]", "speed [m/s]")
    out = one(body, until=2, on=("ball.floor",), inputs=inputs,
              wires={n: f"ball.{n}" for n in inputs.names})  # fmt: skip
    out.plant("ball", BALL, step=0.1)
    recording = flown(out)
    crossed = [e.tag.ns for e in recording.events if e.kind == "Crossed"][:2]
    assert [ns for ns, _, _ in seen] == crossed
    assert [height for _, height, _ in seen] == [0.0, 0.0]
    fallen = (2 * 9.81) ** 0.5
    assert seen[0][2] == pytest.approx(0.7 * fallen), "x+: it goes up already"
    message = recording.track("messages/p")
    assert message.integer("initiated_step").tolist() == [1, 1]


@pytest.mark.rule("processes-hear")
def test_it_hears_an_answer_of_a_declared_order_when_the_microstep_is_over() -> None:
    seen: list[tuple[int, float]] = []

    def body(agenda: Agenda) -> Steps:
        while True:
            got = yield agenda.inbox("a").get()
            seen.append((agenda.ns, got["y"]))
            agenda.send("heard")

    out = one(body, until=0.1, on=("a",), messages={"heard": Signals()}, priority=9)
    out.controller("a", law_of(add_one), period=0.1, inputs={"u": 1.0})
    out.controller("b", law_of(copy_input), period=0.1, inputs={"u": "a.y"})
    out.order("a", "b")
    recording = flown(out)
    assert seen == [(0, 2.0), (100 * MS, 2.0)]
    assert recording.track("messages/heard").integer("initiated_step").tolist() == [1, 1]


# -- bit for bit -------------------------------------------------------------------------------


def noisy(parts: str = "abc", more: bool = False) -> Scenario:
    """Processes that draw, hear each other, and pre-empt; declared in the order of ``parts``."""

    def setup(agenda: Agenda) -> None:
        tool = simpy.PreemptiveResource(agenda)
        if more:
            agenda.random("another").random()

        def body(k: int) -> Steps:
            while True:
                yield agenda.timeout(agenda.random(f"pause/{k}").exponential(0.05))
                with tool.request(priority=k) as turn:
                    yield turn
                    try:
                        yield agenda.timeout(agenda.random(f"work/{k}").exponential(0.02))
                        agenda.write(y=agenda.read("u") + k)
                    except simpy.Interrupt as away:
                        why: Any = away.cause
                        agenda.record("Away", usage=agenda.now - why.usage_since)

        for k in range(3):
            agenda.process(body(k))

    out = Scenario("noisy", until=2)
    for name in parts:
        source = {"a": "c.y", "b": "a.y", "c": "b.y"}[name]
        processes = Processes(setup, inputs=Signals("u [1]"), outputs=Y)
        out.processes(name, processes, inputs={"u": source})
    return out


def test_runs_are_equal_in_each_order_of_declaration() -> None:
    digest = check_determinism(noisy, seed=3)
    assert check_determinism(lambda: noisy("cab"), seed=3) == digest
    assert check_determinism(noisy, seed=4) != digest


def test_another_stream_moves_no_other() -> None:
    assert flown(noisy(more=True)).digest() == flown(noisy()).digest()


def test_a_set_up_and_a_guard_are_part_of_what_a_recording_was_made_with() -> None:
    def with_law(value: float) -> Scenario:
        def law(agenda: Agenda) -> None:
            agenda.timeout(value)

        out = Scenario("s")
        out.processes("p", Processes(law))
        return out

    hashes = {source_hash(*with_law(v).functions()) for v in (1.0, 1.0, 2.0)}
    assert len(hashes) == 2
    from dataclasses import replace

    def other(t: float, x: Vector, z: Vector, u: Vector, p: Vector, g: Vector) -> None:  # noqa: ARG001
        g[0] = x[0] - 1.0

    def falling(model: Any) -> str:
        out = Scenario("s")
        out.plant("ball", model, step=0.1)
        return source_hash(*out.functions())

    assert falling(BALL) != falling(replace(BALL, guard=other))


@pytest.mark.parametrize(
    ("target", "value", "said"),
    [
        ("c.gain", 1.0, "works for parameters of plants"),
        ("x.u", 1.0, "unknown value"),
        ("ball.gravity", [1.0, 2.0], "1 elements"),
    ],
)
def test_writing_what_cannot_be_changed_is_refused(target: str, value: Any, said: str) -> None:

    def body(agenda: Agenda) -> Steps:
        yield agenda.timeout(0.1)
        agenda.change(target, value)

    out = one(body)
    out.plant("x", INTEGRATOR, step=0.1)
    out.plant("ball", BALL, step=0.1)
    law = PythonController(copy_input, Signals("u"), Y, parameters=Signals("gain"))
    out.controller("c", law, period=0.1, inputs={"u": 0.0})
    with pytest.raises(ScenarioError, match=said):
        flown(out)


# -- what is wrong ------------------------------------------------------------------------------


def test_an_exception_of_a_process_is_reported_with_its_place() -> None:
    def body(agenda: Agenda) -> Steps:
        yield agenda.timeout(0.25)
        raise KeyError("lathe")

    with pytest.raises(ModelError, match=r"process of p raised at 0\.25.*KeyError.*lathe.*in body"):
        flown(one(body))


def test_an_error_of_rtsim_in_a_process_keeps_its_type() -> None:
    def body(agenda: Agenda) -> Steps:
        yield agenda.timeout(0.25)
        agenda.write(z=1.0)

    with pytest.raises(UnknownName, match="unknown signal 'z' in outputs of p"):
        flown(one(body))


@pytest.mark.parametrize(
    ("act", "error", "said"),
    [
        (lambda a: a.write(y=[1.0, 2.0]), ShapeError, "has 1 elements, but got 2 values"),
        (lambda a: a.write(y=float("nan")), ModelError, "was set to nan at"),
        (lambda a: a.send("none"), UnknownName, "unknown topic"),
        (lambda a: a.read("none"), UnknownName, "unknown input"),
        (lambda a: a.inbox("orders"), ScenarioError, r"declare it: on=\('orders',\)"),
        (lambda a: a.crossing("ball.floor"), ScenarioError, "receive the guard"),
        (lambda a: a.run(until=3), ScenarioError, "the run controls the time"),
        (lambda a: a.step(), ScenarioError, "the run controls the time"),
    ],
)
def test_unknown_names_are_reported(
    act: Callable[[Agenda], object], error: type[Exception], said: str
) -> None:
    def body(agenda: Agenda) -> Steps:
        yield agenda.timeout(0.25)
        act(agenda)

    with pytest.raises(error, match=said):
        flown(one(body))


def test_a_process_that_goes_round_without_time_is_zeno(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rtsim.discrete.agenda.MOST_EVENTS", 50)

    def body(agenda: Agenda) -> Steps:
        while True:
            yield agenda.timeout(0)

    with pytest.raises(ZenoError, match="more than 50 events of p at 0"):
        flown(one(body))


@pytest.mark.parametrize("what", ["timeout", "request", "process"])
def test_waiting_for_another_environment_is_an_error(what: str) -> None:
    """Nothing drives the other one: it would wait for ever, and say nothing."""
    other = simpy.Environment()
    tool = simpy.Resource(other)

    def body(agenda: Agenda) -> Steps:
        yield agenda.timeout(0.25)
        if what == "timeout":
            yield other.timeout(0.25)
        elif what == "request":
            yield tool.request()
        else:
            yield other.process(body(agenda))

    with pytest.raises(
        ScenarioError, match=r"process body waits for .* of another .* set-up function receives"
    ):
        flown(one(body))


def test_a_set_up_that_is_a_generator_is_an_error() -> None:
    """Called, it would only make a generator that nobody runs."""

    def body(agenda: Agenda) -> Steps:
        yield agenda.timeout(1)

    out = Scenario("s", until=1)
    out.processes("p", Processes(body))  # type: ignore[arg-type]
    with pytest.raises(
        ScenarioError, match=r"set-up function of p contains yield.* agenda\.process"
    ):
        flown(out)


def nothing(agenda: Agenda) -> None:
    pass


@pytest.mark.parametrize(("on", "said"), [("ball.flor", "unknown guard"), ("c", "unknown topic")])
def test_listening_to_an_unknown_topic_is_an_error(on: str, said: str) -> None:
    out = Scenario("s")
    out.plant("ball", BALL, step=0.1)
    out.processes("p", Processes(nothing), on=(on,))
    with pytest.raises(UnknownName, match=said):
        out.build()


def test_declarations_that_do_not_fit_are_refused() -> None:
    out = Scenario("s")
    with pytest.raises(ScenarioError, match="declared twice"):
        out.processes("p", Processes(nothing, messages={"p": Y}))
    with pytest.raises(ScenarioError, match="an input and a parameter"):
        Processes(nothing, inputs=K, parameters=K)
    with pytest.raises(ScenarioError, match="give a function"):
        Processes(3)  # type: ignore[arg-type]
    out.processes("q", Processes(nothing, parameters=K))
    with pytest.raises(UnknownName, match="did you mean k"):
        out.set("q.kk", 3.0)


def test_its_ticks_cannot_be_lost_by_a_fault() -> None:
    """A tick that never came would leave its events behind the time of the run."""
    out = Scenario("s", until=1)
    out.processes("p", Processes(nothing))
    out.faults({"name": "lost", "where": "loop.p", "kind": "lost_tick", "at": 0.1})
    with pytest.raises(FaultError, match="unknown job 'p'"):
        out.build()


def test_simpy_is_imported_where_there_are_processes_alone() -> None:
    code = (
        "import sys, rtsim.cli.run; from rtsim.models.ball import scenario; scenario().build(); "
        "assert 'simpy' not in sys.modules; from rtsim.scenario.loading import load_scenario; "
        "load_scenario('queue').build(); assert 'simpy' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
