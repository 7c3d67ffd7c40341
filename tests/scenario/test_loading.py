"""A scenario in a file is the one that stands there now.

An output that is never written and an input without a source are errors when built.

Compiled functions do not leave their arrays: the first call is checked, or, if asked, all.
"""

from __future__ import annotations

import math
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from rtsim import (
    Guard,
    Model,
    PythonController,
    Recording,
    Scenario,
    Signal,
    Signals,
    compiled,
    simulate,
)
from rtsim.cli.main import main
from rtsim.core.errors import ControllerError, ModelError, RtsimError, ScenarioError
from rtsim.core.tag import Period
from rtsim.discrete import Processes
from rtsim.equations.model import Timer
from rtsim.equations.reading_functions import never_written
from rtsim.record.file import FileRecorder
from rtsim.record.recorders import MemoryRecorder
from rtsim.scenario.loading import load_scenario
from rtsim.scenario.standard_components import PlantComponent

TEXT = """from rtsim import Scenario
from rtsim.models.unstable import UNSTABLE

def scenario():
    out = Scenario("mine")
    out.plant("plant", UNSTABLE, step=0.01, inputs={"force": 1.0})
    return out
"""


def step_of(file: Path) -> int:
    part = load_scenario(str(file)).component("plant")
    assert isinstance(part, PlantComponent)
    return part.step.tick(1)


def test_a_module_beside_the_file_is_found_and_only_by_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also by an import in the function; as for a script that Python runs."""
    for name in ("rtsim_beside_one", "rtsim_beside_two"):
        monkeypatch.delitem(sys.modules, name, raising=False)
        (tmp_path / f"{name}.py").write_text("STEP = 0.03\n")
    text = TEXT.replace("\ndef", "\nimport rtsim_beside_one\n\ndef").replace(
        "0.01", "rtsim_beside_two.STEP"
    )
    text = text.replace("    out = ", "    import rtsim_beside_two\n    out = ", 1)
    (tmp_path / "mine.py").write_text(text)
    before = list(sys.path)
    assert step_of(tmp_path / "mine.py") == 30_000_000
    assert sys.path == before


def test_modules_of_one_name_beside_two_files_are_two(tmp_path: Path) -> None:
    """And an edited one is read again; modules that are installed stay as they are."""
    text = TEXT.replace("\ndef", "\nimport rtsim_beside\nimport wave\n\ndef")
    found: list[int] = []
    known = set()
    for folder, step in (("a", 0.01), ("b", 0.02), ("a", 0.03)):
        place = tmp_path / folder
        place.mkdir(exist_ok=True)
        (place / "rtsim_beside.py").write_text(f"STEP = {step}  # {len(found) * folder}\n")
        (place / "mine.py").write_text(text.replace("0.01", "rtsim_beside.STEP"))
        found.append(step_of(place / "mine.py"))
        known.add(sys.modules["wave"])
    assert found == [10_000_000, 20_000_000, 30_000_000]
    assert len(known) == 1


def test_an_edit_that_changes_neither_size_nor_second_is_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By these Python tells whether its bytecode is of this text."""
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    file = tmp_path / "mine.py"
    found = []
    for step in ("0.01", "0.02"):
        file.write_text(TEXT.replace("0.01", step))
        os.utime(file, (1e9, 1e9))
        found.append(step_of(file))
    assert found == [10_000_000, 20_000_000]
    assert not (tmp_path / "__pycache__").exists()


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


def through_a_part(t: Any, u: Any, s: Any, p: Any, y: Any) -> None:  # noqa: ARG001
    y[0:2][:] = 1.0


@compiled
def second(y: Any) -> None:
    y[1] = 2.0


def both(t: Any, u: Any, s: Any, p: Any, y: Any) -> None:  # noqa: ARG001
    helper(1.0, y)
    second(y)


@pytest.mark.parametrize(
    "law", [sometimes, by_name, in_a_loop, at_once, handed_on, renamed, through_a_part, both],
    ids=lambda f: f.__name__,
)  # fmt: skip
def test_one_that_may_be_written_is_no_error(law: Callable[..., None]) -> None:
    assert never_written(law, 4, 2) == []
    steered(law).build(compile=False)


def test_an_optional_output_holds_its_initial_value() -> None:
    recorder = MemoryRecorder()
    outputs = Signals("torque [N m]", Signal("valve", initial=0.25, optional=True))
    simulate(steered(one_only, outputs), recorder=recorder, compile=False)
    assert recorder.recording().track("messages/helm").rows.floats[-1].tolist() == [1.0, 0.25]


def unread(t: Any, x: Any, z: Any, u: Any, p: Any, dx: Any) -> None:  # noqa: ARG001
    dx[0] = u[0]


WIND = Signals("gust [N]", "trim [N]")


def test_an_input_that_nothing_is_wired_to() -> None:
    out = Scenario("blown")
    out.plant("boat", Model("m", Signals("a"), unread, inputs=WIND), step=0.1, inputs={"gust": 1})
    with pytest.raises(ScenarioError, match=r"connected to trim of boat; .*'boat\.trim'"):
        out.build(compile=False)
    out.set("boat.trim", 0.5)
    assert out.build(compile=False).plants[0].u.tolist() == [1.0, 0.5]

    out = Scenario("blown")
    out.plant("box", Model("m", Signals("a"), falls), step=0.1)
    out.controller("helm", PythonController(by_name, Signals("a"), TWO), period=0.1)
    with pytest.raises(ScenarioError, match="no source is connected to a of helm"):
        out.build(compile=False)

    out = Scenario("shop")
    out.processes("shop", Processes(lambda _: None, inputs=Signals("a")))
    with pytest.raises(ScenarioError, match="no source is connected to a of shop"):
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
        ("--rate 1e9", "2000000001 rows, but a table can have at most 500000000"),
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


Function = Callable[..., None]
ONE = Signals("a")


def steered_late(law: Function, **how: Any) -> Scenario:
    out = Scenario("steered", until=1)
    out.plant("box", Model("m", ONE, falls), step=0.1)
    out.controller(
        "helm",
        PythonController(law, ONE, Signals("y"), memory=Signals("s"), compile=True, **how),
        period=0.1,
        inputs={"a": "box.a"},
    )
    return out


def writes_40(t: Any, u: Any, s: Any, p: Any, y: Any) -> None:  # noqa: ARG001
    y[0] = 1.0
    y[int(t) + 40] = 2.0


def writes_far(t: Any, u: Any, s: Any, p: Any, y: Any) -> None:  # noqa: ARG001
    y[0] = 1.0
    y[int(t) + 100000000] = 2.0


def writes_before(t: Any, u: Any, s: Any, p: Any, y: Any) -> None:  # noqa: ARG001
    y[0] = 1.0
    y[int(t) - 2] = 2.0


def reads_7(t: Any, u: Any, s: Any, p: Any, y: Any) -> None:  # noqa: ARG001
    y[0] = u[int(t) + 7]


def remembers_too_much(t: Any, u: Any, s: Any, p: Any, y: Any) -> None:  # noqa: ARG001
    y[0] = s[0]
    s[int(t) + 1] = 1.0


@compiled
def beyond(y: Any) -> None:
    y[int(y[0]) + 2] = 1.0


def by_a_helper(t: Any, u: Any, s: Any, p: Any, y: Any) -> None:  # noqa: ARG001
    y[0] = 1.0
    beyond(y)


LAWS = [writes_40, writes_far, writes_before, reads_7, remembers_too_much, by_a_helper]


@pytest.mark.parametrize("law", LAWS, ids=lambda f: f.__name__)
def test_a_law_that_leaves_its_vectors(law: Function) -> None:
    for compile in (True, False, "checked"):
        with pytest.raises(ControllerError) as raised:
            simulate(steered_late(law), compile=compile)
        text = str(raised.value)
        assert text.startswith(
            f"control function {law.__name__} of controller raised at 0.000000000 s: "
        )
        where = "OutOfBounds: " if compile == "checked" else f"({__file__}:"
        assert where in text
        assert text.endswith("the sizes of its vectors are u: 1, s: 1, p: 0, y: 1")


def of(**functions: Any) -> Scenario:
    model = Model("m", ONE, **{"derivative": falls, "discrete": Signals("z"), **functions})
    out = Scenario("one", until=1)
    periods = {"update_period": 0.1} if "update" in functions else {}
    out.plant("box", model, step=0.1, **periods)  # type: ignore[call-overload]
    return out


def update(t: Any, x: Any, z: Any, u: Any, p: Any) -> None:  # noqa: ARG001
    z[int(t) + 3] = 1.0


def at_zero(t: Any, x: Any, z: Any, u: Any, p: Any, g: Any) -> None:  # noqa: ARG001
    g[0] = x[0] + 0.35


def reset(i: Any, t: Any, x: Any, z: Any, u: Any, p: Any) -> None:  # noqa: ARG001
    z[int(t) + 3] = 1.0


def tick(due: Any, t: Any, x: Any, z: Any, u: Any, p: Any) -> None:  # noqa: ARG001
    z[0] = 0.0
    if due[1] == 1.0:
        z[int(t) + 3] = 1.0


def project(x: Any) -> None:
    x[int(x.size > 0)] = 0.0


def guard(t: Any, x: Any, z: Any, u: Any, p: Any, g: Any) -> None:  # noqa: ARG001
    g[0] = u[2]


TIMERS = (Timer(Period.of(0.1)), Timer(Period.of(0.3), offset_ns=300_000_000))
FLOOR = (Guard("floor", -1),)


@pytest.mark.parametrize("compile", [True, "checked", False], ids=str)
@pytest.mark.parametrize(
    ("functions", "message"),
    [
        ({"update": update}, r"box.update raised at 0.0+ s: (IndexError|OutOfBounds)"),
        (
            {"tick": tick, "timers": TIMERS},
            r"box.timers raised at 0.30+ s: (IndexError|OutOfBounds)",
        ),
        ({"guards": FLOOR, "guard": at_zero, "reset": reset},
         r"reset of box \(model m\) raised at 0.35.* s: (IndexError|OutOfBounds)"),
        ({"guards": FLOOR, "guard": guard, "reset": reset},
         "guard of model m uses an element that does not exist"),
        ({"project": project}, "the function project of model m uses an element that does not"),
    ],
    ids=["update", "tick", "reset", "guard", "project"],
)  # fmt: skip
def test_a_models_function_that_leaves_its_vectors(
    functions: dict[str, Any], message: str, compile: Any
) -> None:
    if compile is not True and "project" in functions:
        message = "IndexError|OutOfBounds"
    with pytest.raises(RtsimError, match=message):
        simulate(of(**functions), compile=compile)


def later(t: Any, u: Any, s: Any, p: Any, y: Any) -> None:  # noqa: ARG001
    y[0] = 1.0
    if t > 0.45:
        y[0] = u[int(t) + 1]


def test_another_way_through_is_checked_too() -> None:
    for compile in (True, "checked"):
        with pytest.raises(ControllerError, match=r"raised at 0.50+ s: OutOfBounds: .*--plain"):
            simulate(steered_late(later), compile=compile)
    with pytest.raises(ControllerError, match=r"raised at 0.50+ s: IndexError.*in later\)"):
        simulate(steered_late(later), compile=False)


def test_checked_code_computes_the_same_bits() -> None:
    runs = []
    for compile in (True, "checked"):
        recorder = MemoryRecorder()
        simulate(steered_late(wavers), recorder=recorder, compile=compile)
        runs.append(recorder.recording())
    assert runs[0].digest() == runs[1].digest()
    assert "checked" not in runs[0].header
    assert runs[1].header["checked"] is True


@compiled
def third(a: float) -> float:
    return math.sin(a) / 3.0


def wavers(t: Any, u: Any, s: Any, p: Any, y: Any) -> None:  # noqa: ARG001
    s[0] += third(u[0] + t)
    y[0] = math.exp(s[0]) * 0.1


def test_a_helper_is_compiled_for_each_of_them() -> None:
    """By one process, in both orders: unchecked code must not find the checked helper."""
    for compile in ("checked", True, "checked"):
        with pytest.raises(ControllerError, match=r"IndexError|OutOfBounds"):
            simulate(steered_late(by_a_helper), compile=compile)


def divides(t: Any, u: Any, s: Any, p: Any, y: Any) -> None:  # noqa: ARG001
    """Python raises where compiled code goes on with inf."""
    y[0] = min(1.0, 1.0 / float(s.size - 1))
    y[0] = max(y[0], math.log(t) if t > 0.0 else 0.0)
    s[0] += 1.0


def divides_and_leaves(t: Any, u: Any, s: Any, p: Any, y: Any) -> None:  # noqa: ARG001
    y[0] = min(1.0, 1.0 / float(s.size - 1))
    y[int(t) + 40] = 1.0


def test_what_only_python_raises_is_no_error_and_hides_none() -> None:
    recorder = MemoryRecorder()
    simulate(steered_late(divides), recorder=recorder)
    assert recorder.recording().track("messages/helm").rows.floats[0, 0] == 1.0
    with pytest.raises(ControllerError, match="OutOfBounds"):
        simulate(steered_late(divides_and_leaves))


def counts(t: Any, u: Any, s: Any, p: Any, y: Any) -> None:  # noqa: ARG001
    s[0] += 1.0
    y[0] = s[0]


def test_the_check_leaves_no_trace(capsys: pytest.CaptureFixture[str]) -> None:
    recorder = MemoryRecorder()
    simulate(steered_late(counts), recorder=recorder)
    assert recorder.recording().track("messages/helm").rows.floats[:3, 0].tolist() == [
        1.0,
        2.0,
        3.0,
    ]
    assert capsys.readouterr().out == ""


def test_only_the_first_call_is_checked() -> None:
    calls = []
    controller = PythonController(counts, ONE, Signals("y"), memory=Signals("s"), compile=True)
    law = controller._native.py_func

    def counted(*arguments: Any) -> None:
        calls.append(1)
        law(*arguments)

    object.__setattr__(controller._native, "py_func", counted)
    try:
        from rtsim.core.tag import Tag

        for k in range(3):
            controller.send(Tag(k), np.zeros(1))
    finally:
        object.__setattr__(controller._native, "py_func", law)
    assert len(calls) == 1


# -- plain -----------------------------------------------------------------------------------------


def does_not_compile(t: Any, u: Any, s: Any, p: Any, y: Any) -> None:  # noqa: ARG001
    y[0] = float(str(1))


def test_a_plain_run_compiles_no_controller() -> None:
    simulate(steered_late(does_not_compile), compile=False)
    with pytest.raises(
        ModelError, match="function does_not_compile of controller does not compile"
    ):
        simulate(steered_late(does_not_compile))


FILE = """
from rtsim import Model, PythonController, Scenario, Signals


def derivative(t, x, z, u, p, dx):
    dx[0] = -1.0


def law(t, u, s, p, y):
    y[0] = 1.0
    if t > 0.45:
        y[int(100000000 * t)] = 2.0


def scenario():
    out = Scenario("far", until=1)
    out.plant("box", Model("m", Signals("a"), derivative), step=0.1)
    out.controller("helm", PythonController(law, Signals("a"), Signals("y"), compile=True),
                   period=0.1, inputs={"a": "box.a"})
    return out
"""


def test_the_command_checks_throughout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("far.py").write_text(FILE)
    for how in ("--checked", "--plain"):
        done = CliRunner().invoke(main, ["run", "far.py", how, "-o", f"{how[2:]}.mcap"])
        assert done.exit_code == 2
        assert "control function law of controller raised at 0.500000000 s: " in done.output
        again = CliRunner().invoke(main, ["replay", f"{how[2:]}.mcap"])
        assert again.output.startswith("replayed 0.5 s: all ")
    assert Recording.open("checked.mcap").header["checked"] is True
    both = CliRunner().invoke(main, ["run", "far.py", "--checked", "--plain"])
    assert both.exit_code == 2
    assert "--checked and --plain exclude each other" in both.output


def test_a_far_write_ends_with_a_message_and_not_with_a_signal(tmp_path: Path) -> None:
    (tmp_path / "far.py").write_text(
        FILE.replace("int(100000000 * t)", "int(t) + 100000000").replace("0.45", "-1.0")
    )
    done = subprocess.run(
        [sys.executable, "-m", "rtsim", "run", "far.py"],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert "control function law of controller raised at 0.000000000 s: IndexError" in done.stderr
