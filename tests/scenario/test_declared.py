"""An output that is never written and an input without a source are errors when built."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from rtsim import Model, PythonController, Scenario, Signal, Signals, compiled, simulate
from rtsim.cli.main import main
from rtsim.core.errors import ControllerError, ScenarioError
from rtsim.discrete import Processes
from rtsim.equations.reading_functions import never_written
from rtsim.record.file import FileRecorder
from rtsim.record.recorders import MemoryRecorder
from rtsim.scenario.loading import load_scenario

SECOND = 1
TWO = Signals("torque [N m]", "valve")


def falls(t: Any, x: Any, z: Any, u: Any, p: Any, dx: Any) -> None:  # noqa: ARG001
    dx[0] = -1.0


def steered(law: Callable[..., None], outputs: Signals = TWO) -> Scenario:
    out = Scenario("steered", until=0.2)
    out.plant("box", Model("m", Signals("a"), falls), step=0.1)
    controller = PythonController(law, Signals("a"), outputs)
    out.controller("helm", controller, period=0.1, inputs={"a": "box.a"})
    return out


def one_only(t: Any, u: Any, s: Any, p: Any, y: Any) -> None:  # noqa: ARG001
    y[0] = 1.0


def twice(t: Any, u: Any, s: Any, p: Any, y: Any) -> None:  # noqa: ARG001
    y[0] = y[1]
    y[0] += 1.0


@compiled
def helper(a: float, y: Any) -> None:
    y[0] = a


def one_by_a_helper(t: Any, u: Any, s: Any, p: Any, y: Any) -> None:  # noqa: ARG001
    helper(1.0, y)


@pytest.mark.parametrize("law", [one_only, twice, one_by_a_helper], ids=lambda f: f.__name__)
def test_an_output_that_is_never_written(law: Callable[..., None]) -> None:
    with pytest.raises(ControllerError, match=r"never writes its output valve; write y\[1\]"):
        steered(law).build(compile=False)


def sometimes(t: Any, u: Any, s: Any, p: Any, y: Any) -> None:  # noqa: ARG001
    y[0] = 1.0
    if t > 100.0:
        y[-1] = 2.0


def by_name(t: Any, u: Any, s: Any, p: Any, y: Any) -> None:  # noqa: ARG001
    y[0], y[SECOND] = 1.0, 2.0


def in_a_loop(t: Any, u: Any, s: Any, p: Any, y: Any) -> None:  # noqa: ARG001
    for i in range(y.size):
        y[i] = 1.0


def at_once(t: Any, u: Any, s: Any, p: Any, y: Any) -> None:  # noqa: ARG001
    y[:] = 1.0


def handed_on(t: Any, u: Any, s: Any, p: Any, y: Any) -> None:  # noqa: ARG001
    np.copyto(y, 1.0)


def renamed(t: Any, u: Any, s: Any, p: Any, y: Any) -> None:  # noqa: ARG001
    out = y
    out[1] = 1.0


@compiled
def second(y: Any) -> None:
    y[1] = 2.0


def both(t: Any, u: Any, s: Any, p: Any, y: Any) -> None:  # noqa: ARG001
    helper(1.0, y)
    second(y)


@pytest.mark.parametrize(
    "law", [sometimes, by_name, in_a_loop, at_once, handed_on, renamed, both],
    ids=lambda f: f.__name__,
)  # fmt: skip
def test_one_that_may_be_written_is_no_error(law: Callable[..., None]) -> None:
    assert never_written(law, 4, 2) == []
    steered(law).build(compile=False)


def test_an_optional_output_holds_its_initial_value() -> None:
    recorder = MemoryRecorder()
    outputs = Signals("torque [N m]", Signal("valve", initial=0.25, optional=True))
    simulate(steered(one_only, outputs), recorder=recorder, compile=False)
    assert recorder.recording().rows("messages/helm").floats[-1].tolist() == [1.0, 0.25]


def unread(t: Any, x: Any, z: Any, u: Any, p: Any, dx: Any) -> None:  # noqa: ARG001
    dx[0] = u[0]


WIND = Signals("gust [N]", "trim [N]")


def test_an_input_that_nothing_is_wired_to() -> None:
    out = Scenario("blown")
    out.plant("boat", Model("m", Signals("a"), unread, inputs=WIND), step=0.1, inputs={"gust": 1})
    with pytest.raises(ScenarioError, match=r"no source is wired to trim of boat; .*'trim': 'comp"):
        out.build(compile=False)
    out.set("boat.trim", 0.5)
    assert out.build(compile=False).plants[0].u.tolist() == [1.0, 0.5]

    out = Scenario("blown")
    out.plant("box", Model("m", Signals("a"), falls), step=0.1)
    out.controller("helm", PythonController(by_name, Signals("a"), TWO), period=0.1)
    with pytest.raises(ScenarioError, match="no source is wired to a of helm"):
        out.build(compile=False)

    out = Scenario("shop")
    out.processes("shop", Processes(lambda _: None, inputs=Signals("a")))
    with pytest.raises(ScenarioError, match="no source is wired to a of shop"):
        out.build(compile=False)


def test_an_optional_input_holds_its_initial_value() -> None:
    inputs = Signals("gust [N]", Signal("trim", "N", initial=0.5, optional=True))
    out = Scenario("blown")
    out.plant("boat", Model("m", Signals("a"), unread, inputs=inputs), step=0.1, inputs={"gust": 1})
    assert out.build(compile=False).plants[0].u.tolist() == [1.0, 0.5]
    assert "optional" not in str(inputs.to_json())


# -- ``rtsim export`` with wrong times, rates and names: one message that says what to type --------


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("export") / "run.mcap"
    simulate(load_scenario("unstable"), until=2, compile=False, recorder=FileRecorder(path))
    return path


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--from 5", "--from 5: run.mcap ends at 2 s; give an earlier time"),
        ("--from 1 --to 0.5", "no time lies from 1 to 0.5 s; give the earlier one first"),
        ("--from abc", "'abc' is not a number of seconds"),
        ("--to nan", "'nan' is not a number of seconds"),
        ("--from 0.001 --to 0.0015", "give --rate for values between the rows"),
        ("--rate 0", "a rate of 0 Hz is impossible; give more than 0"),
        ("--rate nan", "a rate of nan Hz is impossible"),
        ("--rate 1e9", "2000000001 rows; choose a lower rate"),
        ("-s plant.y", "unknown signal 'plant.y' in run.mcap; did you mean plant.x"),
        ("--messages nobody", "known: controller, controller.inputs"),
        ("--messages controller --rate 3", "leave --signals, --rate, --side and --own out"),
        ("--messages controller --side minus", "leave --signals, --rate, --side and --own out"),
    ],
)
def test_wrong_arguments(
    recording: Path, monkeypatch: pytest.MonkeyPatch, words: str, message: str
) -> None:
    monkeypatch.chdir(recording.parent)
    told = CliRunner().invoke(main, ["export", "run.mcap", "-o", "x.csv", *words.split()])
    assert told.exit_code == 2
    assert message in told.output
    assert not Path("x.csv").exists()
    assert told.output.count("\n") == 1


def test_a_span_a_rate_and_signals_together(recording: Path) -> None:
    out = recording.parent / "some.csv"
    words = ["-s", "plant.x", "--from", "1/3", "--to", "0.5", "--rate", "100", "--side", "minus"]
    told = CliRunner().invoke(main, ["export", str(recording), "-o", str(out), *words])
    assert told.exit_code == 0, told.output
    lines = out.read_text(encoding="utf-8").splitlines()
    assert lines[0] == "time [s],time_ns,plant.x [m]"
    assert [line.split(",")[1] for line in lines[1:3]] == ["333333333", "343333333"]
    assert len(lines) == 18
