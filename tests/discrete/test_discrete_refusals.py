"""What processes cannot do, and what is said then."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
import simpy
from discrete_parts import K, Steps, Y, one
from semantics_parts import INTEGRATOR, copy_input

from rtsim.components.controller import PythonController
from rtsim.core.errors import ModelError, ScenarioError, ShapeError, UnknownName, ZenoError
from rtsim.core.signals import Signals
from rtsim.discrete import Agenda, Processes
from rtsim.engine.faults import FaultError
from rtsim.models.ball import BALL
from rtsim.scenario.scenario import Scenario
from rtsim.testing.determinism import trace_of as flown


@pytest.mark.parametrize(
    ("target", "value", "said"),
    [
        ("c.gain", 1.0, "works for parameters of plants"),
        ("x.u", 1.0, "unknown value"),
        ("ball.gravity", [1.0, 2.0], "1 elements"),
    ],
)
def test_what_cannot_be_changed_is_refused(target: str, value: Any, said: str) -> None:

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


def test_what_a_process_raises_is_told_with_its_place() -> None:
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
def test_what_is_not_there_is_named(
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
def test_a_process_that_waits_for_another_environment_is_told(what: str) -> None:
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

    with pytest.raises(ScenarioError, match=r"process body waits for .* of another .* the agenda"):
        flown(one(body))


def test_a_set_up_that_is_a_process_itself_is_told() -> None:
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
def test_who_listens_for_what_is_not_there_is_told(on: str, said: str) -> None:
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
