"""Compiled functions do not leave their arrays: the first call is checked, or, if asked, all."""

from __future__ import annotations

import math
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from rtsim import Guard, Model, PythonController, Recording, Scenario, Signals, compiled, simulate
from rtsim.cli import main
from rtsim.core.errors import ControllerError, ModelError, RtsimError
from rtsim.core.tag import Period
from rtsim.equations.model import Timer
from rtsim.record.recorders import MemoryRecorder

Function = Callable[..., None]
ONE = Signals("a")


def falls(t: Any, x: Any, z: Any, u: Any, p: Any, dx: Any) -> None:  # noqa: ARG001
    dx[0] = -1.0


def steered(law: Function, **how: Any) -> Scenario:
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
    y[40] = 2.0


def writes_far(t: Any, u: Any, s: Any, p: Any, y: Any) -> None:  # noqa: ARG001
    y[0] = 1.0
    y[100000000] = 2.0


def writes_before(t: Any, u: Any, s: Any, p: Any, y: Any) -> None:  # noqa: ARG001
    y[0] = 1.0
    y[-2] = 2.0


def reads_7(t: Any, u: Any, s: Any, p: Any, y: Any) -> None:  # noqa: ARG001
    y[0] = u[7]


def remembers_too_much(t: Any, u: Any, s: Any, p: Any, y: Any) -> None:  # noqa: ARG001
    y[0] = s[0]
    s[1] = 1.0


@compiled
def beyond(y: Any) -> None:
    y[3] = 1.0


def by_a_helper(t: Any, u: Any, s: Any, p: Any, y: Any) -> None:  # noqa: ARG001
    y[0] = 1.0
    beyond(y)


LAWS = [writes_40, writes_far, writes_before, reads_7, remembers_too_much, by_a_helper]


@pytest.mark.parametrize("law", LAWS, ids=lambda f: f.__name__)
def test_a_law_that_leaves_its_vectors(law: Function) -> None:
    for compile in (True, False, "checked"):
        with pytest.raises(ControllerError) as raised:
            simulate(steered(law), compile=compile)
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
    out.plant("box", model, step=0.1, **periods)  # type: ignore[arg-type]
    return out


def update(t: Any, x: Any, z: Any, u: Any, p: Any) -> None:  # noqa: ARG001
    z[3] = 1.0


def at_zero(t: Any, x: Any, z: Any, u: Any, p: Any, g: Any) -> None:  # noqa: ARG001
    g[0] = x[0] + 0.35


def reset(i: Any, t: Any, x: Any, z: Any, u: Any, p: Any) -> None:  # noqa: ARG001
    z[3] = 1.0


def tick(due: Any, t: Any, x: Any, z: Any, u: Any, p: Any) -> None:  # noqa: ARG001
    z[0] = 0.0
    if due[1] == 1.0:
        z[3] = 1.0


def project(x: Any) -> None:
    x[1] = 0.0


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
        ({"project": project}, "project of model m uses an element that does not exist"),
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
        y[0] = u[1]


def test_another_way_through_is_checked_where_it_is_asked_for() -> None:
    simulate(steered(later))  # what it reads there is not known
    with pytest.raises(ControllerError, match=r"raised at 0.50+ s: OutOfBounds: .*--plain"):
        simulate(steered(later), compile="checked")
    with pytest.raises(ControllerError, match=r"raised at 0.50+ s: IndexError.*in later\)"):
        simulate(steered(later), compile=False)


def test_checked_code_computes_the_same_bits() -> None:
    runs = []
    for compile in (True, "checked"):
        recorder = MemoryRecorder()
        simulate(steered(wavers), recorder=recorder, compile=compile)
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
            simulate(steered(by_a_helper), compile=compile)


def divides(t: Any, u: Any, s: Any, p: Any, y: Any) -> None:  # noqa: ARG001
    """Python raises where compiled code goes on with inf."""
    y[0] = min(1.0, 1.0 / float(s.size - 1))
    y[0] = max(y[0], math.log(t) if t > 0.0 else 0.0)
    s[0] += 1.0


def divides_and_leaves(t: Any, u: Any, s: Any, p: Any, y: Any) -> None:  # noqa: ARG001
    y[0] = min(1.0, 1.0 / float(s.size - 1))
    y[40] = 1.0


def test_what_only_python_raises_is_no_error_and_hides_none() -> None:
    recorder = MemoryRecorder()
    simulate(steered(divides), recorder=recorder)
    assert recorder.recording().rows("messages/helm").floats[0, 0] == 1.0
    with pytest.raises(ControllerError, match="OutOfBounds"):
        simulate(steered(divides_and_leaves))


def counts(t: Any, u: Any, s: Any, p: Any, y: Any) -> None:  # noqa: ARG001
    s[0] += 1.0
    y[0] = s[0]


def test_the_check_leaves_no_trace(capsys: pytest.CaptureFixture[str]) -> None:
    recorder = MemoryRecorder()
    simulate(steered(counts), recorder=recorder)
    assert recorder.recording().rows("messages/helm").floats[:3, 0].tolist() == [1.0, 2.0, 3.0]
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
    simulate(steered(does_not_compile), compile=False)
    with pytest.raises(
        ModelError, match="function does_not_compile of controller does not compile"
    ):
        simulate(steered(does_not_compile))


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
        FILE.replace("int(100000000 * t)", "100000000").replace("0.45", "-1.0")
    )
    done = subprocess.run(
        [sys.executable, "-m", "rtsim", "run", "far.py"],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert "control function law of controller raised at 0.000000000 s: IndexError" in done.stderr
