"""What a part raises is an error that names the part, the time and the line; never an end."""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command_line import rtsim

from rtsim import Fixed, Model, PythonController, Recording, Scenario, Signals, simulate
from rtsim.core.errors import ControllerError, ModelError, RtsimError, ScenarioError
from rtsim.core.raised import held_back, on_signals
from rtsim.discrete import Processes
from rtsim.equations.model import Guard
from rtsim.record.recorders import MemoryRecorder

ENDS: list[type[BaseException]] = [SystemExit, GeneratorExit, KeyboardInterrupt]
ONE = Signals("a")


def falls(t: Any, x: Any, z: Any, u: Any, p: Any, dx: Any) -> None:  # noqa: ARG001
    dx[0] = -1.0


def after(seconds: float, kind: type[BaseException]) -> Callable[..., None]:
    """An update, a law, a reset ... that raises from that time on."""

    def part(*given: Any) -> None:
        t = next(value for value in given if isinstance(value, float))
        if t >= seconds:
            raise kind(0)
        given[-1][:] = 0.0

    return part


def with_update(kind: type[BaseException]) -> Scenario:
    def update(t: Any, x: Any, z: Any, u: Any, p: Any) -> None:  # noqa: ARG001
        if t >= 0.3:
            raise kind(0)

    out = Scenario("updated", until=1)
    model = Model("m", ONE, falls, discrete=Signals("z"), update=update)
    out.plant("box", model, step=0.1, update_period=0.1)
    return out


def with_derivative(kind: type[BaseException]) -> Scenario:
    def derivative(t: Any, x: Any, z: Any, u: Any, p: Any, dx: Any) -> None:  # noqa: ARG001
        if t >= 0.3:
            raise kind(0)
        dx[0] = -1.0

    out = Scenario("derived", until=1)
    out.plant("box", Model("m", ONE, derivative), step=0.1)
    return out


def with_reset(kind: type[BaseException]) -> Scenario:
    def guard(t: Any, x: Any, z: Any, u: Any, p: Any, g: Any) -> None:  # noqa: ARG001
        g[0] = x[0] + 0.35

    def reset(i: Any, t: Any, x: Any, z: Any, u: Any, p: Any) -> None:  # noqa: ARG001
        raise kind(0)

    out = Scenario("reset", until=1)
    model = Model("m", ONE, falls, guards=(Guard("floor", -1),), guard=guard, reset=reset)
    out.plant("box", model, step=0.1)
    return out


def with_law(kind: type[BaseException]) -> Scenario:
    out = Scenario("steered", until=1)
    out.plant("box", Model("m", ONE, falls), step=0.1)
    law = PythonController(after(0.3, kind), ONE, Signals("y"))
    out.controller("helm", law, period=0.1, inputs={"a": "box.a"})
    return out


class Own:
    """A controller that is an object of the user's."""

    inputs, outputs, outside = ONE, Signals("y"), False

    def __init__(self, kind: type[BaseException]) -> None:
        self.kind = kind
        self.tag: Any = None

    def send(self, tag: Any, inputs: Any) -> None:  # noqa: ARG002
        self.tag = tag

    def receive(self, tag: Any, patience: float) -> Any:  # noqa: ARG002
        if tag.ns >= 300_000_000:
            raise self.kind(0)
        return np.zeros(1)

    def close(self) -> None:
        pass


def with_object(kind: type[BaseException]) -> Scenario:
    out = Scenario("owned", until=1)
    out.plant("box", Model("m", ONE, falls), step=0.1)
    out.controller("helm", Own(kind), period=0.1, inputs={"a": "box.a"}, compute=Fixed(0.01))
    return out


def with_device(kind: type[BaseException]) -> Scenario:
    class Device:
        asked = 0

        def poll(self) -> Any:
            self.asked += 1
            if self.asked > 3:
                raise kind(0)

    out = Scenario("told", until=1)
    out.plant("box", Model("m", ONE, falls), step=0.1)
    out.external_input("helm", Signals("y"), Device())
    return out


def with_process(kind: type[BaseException]) -> Scenario:
    def works(agenda: Any) -> Any:
        yield agenda.timeout(0.3)
        raise kind(0)

    def setup(agenda: Any) -> None:
        agenda.process(works(agenda))

    out = Scenario("processed", until=1)
    out.plant("box", Model("m", ONE, falls), step=0.1)
    out.processes("shop", Processes(setup))
    return out


CASES = {
    "update": (with_update, "box.update", ModelError),
    "derivative": (with_derivative, "box (model m)", ModelError),
    "reset": (with_reset, "reset of box (model m)", ModelError),
    "law": (with_law, "control function part of controller", ControllerError),
    "object": (with_object, "controller helm", ControllerError),
    "device": (with_device, "the device of input helm", ModelError),
    "process": (with_process, "a process of shop", ModelError),
}


@pytest.mark.parametrize("kind", [*ENDS, ValueError], ids=lambda k: k.__name__)
@pytest.mark.parametrize("part", CASES)
def test_what_a_part_raises_names_the_part(part: str, kind: type[BaseException]) -> None:
    make, who, error = CASES[part]
    recorder = MemoryRecorder()
    with pytest.raises(error) as raised:
        simulate(make(kind), recorder=recorder, compile=False)
    text = str(raised.value)
    assert text.startswith(f"{who} raised at 0.")
    assert kind.__name__ in text
    assert f"{__file__}:" in text
    kept = recorder.recording()
    assert kept.footer is not None
    assert kept.footer["reason"] == "error"
    assert kept.footer["error"] == f"{error.__name__}: {text}"
    assert kept.track("box").ns[-1] >= 200_000_000


@pytest.mark.parametrize("kind", ENDS, ids=lambda k: k.__name__)
def test_at_the_start_too(kind: type[BaseException]) -> None:
    def derivative(*_: Any) -> None:
        raise kind(0)

    out = Scenario("bad", until=1)
    out.plant("box", Model("m", ONE, derivative), step=0.1)
    with pytest.raises(
        ModelError, match=f"(?s)raised an error at the initial values: {kind.__name__}"
    ):
        simulate(out, compile=False)

    class Made(Own):
        def fresh(self) -> Any:
            raise kind(0)

    out = Scenario("bad", until=1)
    out.plant("box", Model("m", ONE, falls), step=0.1)
    out.controller("helm", Made(kind), period=0.1, inputs={"a": "box.a"})
    with pytest.raises(ScenarioError, match=f"a component of the scenario.*{kind.__name__}"):
        simulate(out, compile=False)


@pytest.mark.parametrize("kind", ENDS, ids=lambda k: k.__name__)
def test_when_it_is_closed_too(kind: type[BaseException]) -> None:
    class Closes(Own):
        def close(self) -> None:
            raise kind(0)

    out = Scenario("closed", until=0.2)
    out.plant("box", Model("m", ONE, falls), step=0.1)
    out.controller("helm", Closes(kind), period=0.1, inputs={"a": "box.a"})
    with pytest.raises(RtsimError, match=kind.__name__):
        simulate(out, compile=False)


def test_a_real_interrupt_is_still_an_ordinary_end() -> None:
    def law(t: Any, u: Any, s: Any, p: Any, y: Any) -> None:  # noqa: ARG001
        y[0] = 0.0
        if t == 0.3:
            os.kill(os.getpid(), signal.SIGINT)

    out = Scenario("steered", until=1)
    out.plant("box", Model("m", ONE, falls), step=0.1)
    law_of = PythonController(law, ONE, Signals("y"))
    out.controller("helm", law_of, period=0.1, inputs={"a": "box.a"})
    assert simulate(out, compile=False).reason == "interrupted"


def test_in_another_thread_a_keyboard_interrupt_is_the_parts() -> None:
    found: list[str] = []

    def fly() -> None:
        try:
            simulate(with_law(KeyboardInterrupt), compile=False)
        except ControllerError as error:
            found.append(str(error))

    thread = threading.Thread(target=fly)
    thread.start()
    thread.join()
    assert len(found) == 1
    assert "KeyboardInterrupt" in found[0]


FILE = """
import sys
from rtsim import Model, PythonController, Scenario, Signals


def derivative(t, x, z, u, p, dx):
    dx[0] = -1.0


def law(t, u, s, p, y):
    if t >= 0.3:
        {raises}
    y[0] = 0.0


def scenario():
    out = Scenario("quits", until=1)
    out.plant("box", Model("m", Signals("a"), derivative), step=0.1)
    out.controller("helm", PythonController(law, Signals("a"), Signals("y")), period=0.1,
                   inputs={{"a": "box.a"}})
    return out
"""


@pytest.mark.parametrize(
    "raises", ["sys.exit(0)", "raise KeyboardInterrupt", "raise GeneratorExit"]
)
def test_the_command_says_so_and_exits_2(
    raises: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("quits.py").write_text(FILE.format(raises=raises))
    done = rtsim("run", "quits.py", "-o", "run.mcap")
    assert done.exit_code == 2
    assert "control function law of controller raised at 0.300000000 s: " in done.output
    assert "quits.py:12 in law" in done.output
    told = rtsim("run", "quits.py", "-o", "again.mcap", "--strict", "--json")
    assert told.exit_code == 2
    assert json.loads(told.stdout)["error"]["type"] == "ControllerError"
    footer = Recording.open("run.mcap").footer
    assert footer is not None
    assert footer["reason"] == "error"
    assert rtsim("replay", "run.mcap").output.startswith("replayed 0.3 s: all ")


def test_a_scenario_that_raises_while_it_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for raises in ("raise SystemExit(0)", "raise KeyboardInterrupt", "raise GeneratorExit"):
        Path("made.py").write_text(f"def scenario():\n    {raises}\n")
        done = rtsim("run", "made.py")
        assert done.exit_code == 2
        assert "made.py raised " in done.output


def test_a_signal_that_is_held_back_is_handled_after_the_context() -> None:
    seen: list[str] = []

    def handler(number: int, frame: object) -> None:  # noqa: ARG001
        seen.append(f"signal {number}")

    with on_signals(handler):
        with held_back():
            signal.raise_signal(signal.SIGINT)
            seen.append("inside")
        seen.append("after")
    assert seen == ["inside", f"signal {signal.SIGINT}", "after"]
