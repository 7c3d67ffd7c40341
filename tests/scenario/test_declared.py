"""An output that is never written and an input without a source are errors when built."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from rtsim import Model, PythonController, Scenario, Signal, Signals, compiled, simulate
from rtsim.core.errors import ControllerError, ScenarioError
from rtsim.discrete import Processes
from rtsim.equations.reading_functions import never_written
from rtsim.record.recorders import MemoryRecorder

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
