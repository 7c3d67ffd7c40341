"""Commands, latency models and solvers of other packages, and packages that are broken."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import EntryPoint
from typing import Any

import click
import numpy as np
import pytest
from click.testing import CliRunner

from rtsim.cli import main
from rtsim.components.allowed_latency import (
    LATENCY_MODELS,
    allowing,
    from_plain,
    latency_in_words,
    read_latency_model,
    to_plain,
)
from rtsim.components.latency import Fixed, Gamma, SerialLine, TruncatedNormal, Uniform
from rtsim.core.errors import LatencyError, ScenarioError, UnknownName
from rtsim.models.ball import scenario as ball
from rtsim.models.unstable import scenario as unstable
from rtsim.record.replay_comparison import compare_exact
from rtsim.runs.replay import rerun
from rtsim.scenario.scenario import Scenario
from rtsim.solve import RK4, SOLVERS, solver_named
from rtsim.testing.commands import check_command
from rtsim.testing.determinism import trace_of
from rtsim.testing.latency import check_latency


@dataclass(frozen=True)
class Two:
    """One of two delays, evenly."""

    one: float
    other: float
    ordered: bool = True

    def delays(self, stream: np.random.Generator, size_bytes: int) -> tuple[int, ...]:  # noqa: ARG002
        chosen = self.one if stream.random() < 0.5 else self.other
        return (round(chosen * 1e9),)


@pytest.fixture
def two(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LATENCY_MODELS, "_added", {})
    LATENCY_MODELS.add("two", Two)


@pytest.mark.parametrize(
    ("text", "model"),
    [
        ("uniform:0.001,0.004", Uniform(0.001, 0.004)),
        ("uniform:low=0.001, high=0.004", Uniform(0.001, 0.004)),
        ("gamma:2,0.001", Gamma(2, 0.001)),
        ("gamma: 2, 0.001, minimum=0.002", Gamma(2, 0.001, 0.002)),
        ("truncated_normal:0.01,0.002,high=0.02", TruncatedNormal(0.01, 0.002, high=0.02)),
        ("serial_line:115200", SerialLine(115200)),
        ("fixed:0.005", Fixed(0.005)),
        ("fixed", Fixed()),
        ("0.005", Fixed("0.005")),
        ("1/50", Fixed("1/50")),
    ],
)
def test_a_model_by_name(text: str, model: object) -> None:
    assert allowing(text) == model


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("gama:1,2", r"unknown latency model 'gama'; did you mean gamma"),
        ("gamma:1", r"missing a required argument: 'scale'; the model gamma takes \(shape"),
        ("gamma:1,2,3,4", r"too many positional arguments; the model gamma takes"),
        ("gamma:1,x", r"latency 'gamma:1,x': 'x' is not a number"),
        ("gamma:1,", r"'' is not a number"),
        ("gamma:1,width=3", r"latency 'gamma:1,width=3': .*the model gamma takes"),
        ("uniform:2,1", r"give 0 <= low <= high"),
    ],
)
def test_wrong_texts_of_latency_models_are_refused(text: str, said: str) -> None:
    with pytest.raises(ScenarioError, match=said):
        allowing(text)


def test_a_model_from_outside_by_name(two: None) -> None:  # noqa: ARG001
    model = read_latency_model("two:0.002,0.03")
    assert model == Two(0.002, 0.03)
    check_latency(model)
    assert from_plain(to_plain("two:0.002,0.03")) == "two:0.002,0.03"
    assert latency_in_words({"a": "two:0.002,0.03"}) == "two:0.002,0.03"
    scenario = unstable(until=2)
    scenario.allow("controller", "two:0.002,0.03")
    recording = trace_of(scenario, compile=False)
    track = recording.track("messages/controller")
    taken = {int(n) for n in track.integer("completed") - track.integer("initiated")}
    assert taken == {2_000_000, 30_000_000}
    again = unstable(until=2)
    again.allow("controller", "two:0.002,0.03")
    assert compare_exact(recording, rerun(recording, again)) is None


def test_a_model_by_name_on_the_command_line(two: None) -> None:  # noqa: ARG001
    def run(latency: str) -> Any:
        given = ["--until", "1", "--plain", "--no-record", "--latency", latency]
        return CliRunner().invoke(main, ["run", "unstable", *given])

    assert run("two:0.001,0.002").exit_code == 0
    assert run("controller=two:one=0.001,other=0.002").exit_code == 0
    told = run("too:1,2")
    assert told.exit_code == 2
    assert "--latency too:1,2: unknown latency model 'too'; did you mean two" in told.output


def test_a_number_is_refused_as_a_latency_model() -> None:
    with pytest.raises(ScenarioError, match="expected a class or a function that makes a model"):
        LATENCY_MODELS.add("number", 3)  # type: ignore[arg-type]


def test_a_repr_that_changes_from_run_to_run_fails_the_check() -> None:
    class Plain:
        ordered = True

        def delays(self, stream: np.random.Generator, size_bytes: int) -> tuple[int, ...]:  # noqa: ARG002
            return (1,)

    with pytest.raises(AssertionError, match="make the class a dataclass, or define __repr__"):
        check_latency(Plain())


def test_a_wrong_delay_is_still_an_error_of_the_run(two: None) -> None:  # noqa: ARG001
    scenario = unstable(until=1)
    scenario.allow("controller", "two:-1,-1")
    with pytest.raises(LatencyError, match="latency model Two"):
        trace_of(scenario, compile=False)


@dataclass(frozen=True)
class Renamed:
    """Runge's method of order 4 by another name."""

    name: str = "mine"
    order: int = 4
    stepper: Callable[..., Any] = RK4.stepper


def test_a_solver_from_outside_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SOLVERS, "_added", {})
    with pytest.raises(UnknownName, match="unknown solver 'mine'"):
        solver_named("mine")
    SOLVERS.add("mine", Renamed())
    assert solver_named("mine") == Renamed()

    def falling(solver: str) -> Scenario:
        known = ball().components["ball"]
        out = Scenario("falling", until=1)
        out.plant("ball", known.model, step=0.01, solver=solver)  # type: ignore[attr-defined]
        return out

    recordings = [trace_of(falling(solver), compile=False) for solver in ("rk4", "mine")]
    assert compare_exact(*recordings) is None
    assert recordings[1].header["scenario"]["parts"]["ball"]["solver"] == "mine"


@pytest.mark.parametrize(
    ("name", "made", "said"),
    [
        ("mine", Renamed, "is the class Renamed; give an object, such as MINE = Renamed()"),
        ("other", Renamed(), "has the attribute name = 'mine'; make both names equal"),
        ("three", 3, "which has no name, order, stepper"),
        ("rk4", Renamed("rk4"), "'rk4' is rtsim's own"),
    ],
)
def test_wrong_solvers_from_outside_are_refused(name: str, made: Any, said: str) -> None:
    with pytest.raises(ScenarioError, match=said):
        SOLVERS.add(name, made)


@pytest.mark.parametrize("name", ["scenarios", "sil", "debug"])
def test_rtsims_own_commands_pass_the_checks(name: str) -> None:
    check_command(name)


def test_an_unknown_command_fails_the_checks() -> None:
    with pytest.raises(AssertionError, match="does not list no-such-command"):
        check_command("no-such-command")


@pytest.mark.parametrize(
    ("target", "said"),
    [
        ("no_such_module:run", "which cannot be imported: ModuleNotFoundError"),
        ("rtsim.cli.main:no_such", "which cannot be imported: AttributeError"),
        ("rtsim.cli.main:known_commands", "which is a function; expected a click command"),
    ],
)
def test_a_broken_command_leaves_other_commands_working(
    monkeypatch: pytest.MonkeyPatch, target: str, said: str
) -> None:
    entry = EntryPoint("broken", target, "rtsim.commands")
    monkeypatch.setattr(sys.modules["rtsim.cli.main"], "entry_points", lambda **_: [entry])
    listed = CliRunner().invoke(main, ["--help"])
    assert listed.exit_code == 0
    assert " scenarios " in listed.output
    assert "broken" in listed.output
    told = CliRunner().invoke(main, ["broken"])
    assert told.exit_code == 2
    assert said in told.output
    assert isinstance(main, click.Group)
    assert CliRunner().invoke(main, ["scenarios"]).exit_code == 0
