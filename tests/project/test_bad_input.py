"""Wrong input: one clear error that names the culprit and says what to do, and nothing hangs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from rtsim.components.controller import PythonController
from rtsim.components.latency import Duplicate, Fixed
from rtsim.core.clock import stopwatch
from rtsim.core.errors import (
    ControllerError,
    LatencyError,
    ModelError,
    RecordingError,
    RtsimError,
    ScenarioError,
    ShapeError,
    UnknownName,
    ZenoError,
)
from rtsim.core.signals import Signal, Signals, Vector
from rtsim.equations.model import Model, bind
from rtsim.models.unstable import UNSTABLE
from rtsim.models.unstable import controller as unstable_controller
from rtsim.models.unstable import scenario as unstable
from rtsim.record.file import FileRecorder
from rtsim.record.reading import Recording
from rtsim.runs.simulation import simulate
from rtsim.scenario.loading import load_scenario
from rtsim.scenario.scenario import Scenario

X2 = Signals("x [m] = 1", "v [m/s]")
Derivative = Callable[[float, Vector, Vector, Vector, Vector, Vector], None]


def fine(t: float, x: Vector, z: Vector, u: Vector, p: Vector, dx: Vector) -> None:  # noqa: ARG001
    dx[0], dx[1] = x[1], -x[0]


def forgets_one(t: float, x: Vector, z: Vector, u: Vector, p: Vector, dx: Vector) -> None:  # noqa: ARG001
    dx[0] = x[1]


def writes_beyond(t: float, x: Vector, z: Vector, u: Vector, p: Vector, dx: Vector) -> None:  # noqa: ARG001
    dx[0], dx[1], dx[2] = 0.0, 0.0, 0.0


def writes_state(t: float, x: Vector, z: Vector, u: Vector, p: Vector, dx: Vector) -> None:  # noqa: ARG001
    dx[0], dx[1] = 0.0, 0.0
    x[2] = 0.0


def nan_at_start(t: float, x: Vector, z: Vector, u: Vector, p: Vector, dx: Vector) -> None:  # noqa: ARG001
    dx[0], dx[1] = 0.0, np.nan


def nan_later(t: float, x: Vector, z: Vector, u: Vector, p: Vector, dx: Vector) -> None:  # noqa: ARG001
    dx[0] = 1.0
    dx[1] = np.nan if t > 0.042 else 0.0


def does_not_compile(t: float, x: Vector, z: Vector, u: Vector, p: Vector, dx: Vector) -> None:  # noqa: ARG001
    dx[0] = open("/etc/hostname").fileno()  # noqa: SIM115


def one_plant(derivative: Derivative, **options: object) -> Scenario:
    scenario = Scenario("one", until=0.1)
    scenario.plant("a", Model("broken", X2, derivative), step=0.01, **options)  # type: ignore[call-overload]
    return scenario


@pytest.mark.parametrize("compile", [True, False], ids=["compiled", "plain"])
@pytest.mark.parametrize(
    ("derivative", "message"),
    [
        (forgets_one, r"derivative of model broken never writes element 1 \(v\)"),
        (nan_at_start, r"derivative of model broken returns nan for v at the initial values"),
    ],
)
def test_a_model_that_breaks_its_contract_at_once(
    derivative: Derivative, message: str, compile: bool
) -> None:
    with pytest.raises(ModelError, match=message):
        one_plant(derivative).build(compile=compile)


def test_writing_outside_a_vector() -> None:
    for wrong in (writes_beyond, writes_state):
        for compile in (True, False):
            with pytest.raises(ModelError, match=r"does not exist: d?x\[2\].*shape \(2,\)"):
                one_plant(wrong).build(compile=compile)


def test_what_does_not_compile_says_so_and_what_to_do() -> None:
    with pytest.raises(ModelError, match=r"(?s)derivative of model broken does not.*compile=False"):
        bind(Model("broken", X2, does_not_compile))


@pytest.mark.parametrize("compile", [True, False], ids=["compiled", "plain"])
def test_nan_while_running_names_the_state_and_the_recording_opens(
    tmp_path: Path, compile: bool
) -> None:
    path = tmp_path / "nan.mcap"
    message = r"state v of a \(model broken\) became nan between 0\.040.* last good value is 0"
    with pytest.raises(ModelError, match=message):
        simulate(one_plant(nan_later), recorder=FileRecorder(path, stopwatch), compile=compile)
    recording = Recording.open(path)
    assert recording.truncated is None
    assert recording.footer is not None
    assert "became nan" in recording.footer["error"]
    assert recording.track("a").ns[-1] == 40_000_000
    assert [e.kind for e in recording.events] == ["Error"]


class Backwards:
    ordered = True

    def delays(self, stream: np.random.Generator, size_bytes: int) -> tuple[int, ...]:  # noqa: ARG002
        return (-5,)


def loop(**options: object) -> Scenario:
    scenario = Scenario("loop", until=1)
    scenario.plant("plant", UNSTABLE, step=0.01, inputs={"force": "controller.force"})
    inputs = {"x": "plant.x", "v": "plant.v"}
    scenario.controller(  # type: ignore[call-overload]
        "controller",
        unstable_controller(),
        period=0.1,
        inputs=inputs,
        **options,
    )
    return scenario


def test_latency_models_that_lie() -> None:
    with pytest.raises(LatencyError, match=r"Backwards on topic controller returned .* -5 ns"):
        simulate(loop(transport=Backwards()))
    with pytest.raises(LatencyError, match="Backwards on the computation of controller"):
        simulate(loop(compute=Backwards()))
    with pytest.raises(ControllerError, match="delays instead of one"):
        simulate(loop(compute=Duplicate(Fixed(0.01), 1.0)))


def infinite(t: float, u: Vector, s: Vector, p: Vector, y: Vector) -> None:  # noqa: ARG001
    y[0] = np.inf if t > 0.05 else 0.0


def test_a_controller_that_answers_nonsense_is_named_with_its_inputs() -> None:
    scenario = Scenario("loop", until=1)
    law = PythonController(infinite, Signals("x [m]"), Signals("force [N]"))
    scenario.controller("control", law, period=0.1, inputs={"x": 3.5})
    with pytest.raises(ControllerError, match=r"control answered inf for force at 0\.1.*x=3\.5"):
        simulate(scenario)


class WrongLength(PythonController):
    def receive(self, tag: object, patience: float) -> Vector:  # noqa: ARG002
        return np.zeros(3)


def test_a_controller_of_the_wrong_length_is_named() -> None:
    scenario = Scenario("loop", until=1)
    law = WrongLength(infinite, Signals("x [m]"), Signals("force [N]"))
    scenario.controller("control", law, period=0.1, inputs={"x": 0.0})
    with pytest.raises(ShapeError, match=r"control answered .* shape \(3,\); expected \(1,\)"):
        simulate(scenario)


def bad_reference(part: str, **inputs: str) -> Scenario:
    scenario = unstable()
    scenario.components[part].inputs.update(inputs)  # type: ignore[attr-defined]
    return scenario


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (
            lambda: bad_reference("controller", x="plant.y").build(),
            UnknownName,
            "signal 'y' in plant",
        ),
        (
            lambda: bad_reference("controller", x="plan.x").build(),
            UnknownName,
            "did you mean plant",
        ),
        (lambda: bad_reference("controller", x="plant").build(), ScenarioError, "component.signal"),
        (
            lambda: bad_reference("plant", forces="plant.x").build(),
            UnknownName,
            "did you mean force",
        ),
        (lambda: one_plant(fine, states={"q": 1}).build(), UnknownName, "signal 'q'"),
        (
            lambda: one_plant(fine, states={"x": [1, 2]}).build(),
            ShapeError,
            "x has 1 elements, but got 2 values",
        ),
        (lambda: one_plant(fine, solver="rk5"), UnknownName, "did you mean rk4"),
        (lambda: unstable(step=0), ScenarioError, "must be > 0 s, got 0"),
        (lambda: unstable(step="1e-12"), ScenarioError, "shorter than the time resolution"),
        (lambda: unstable(step=-0.1), ScenarioError, "must be > 0"),
        (lambda: unstable(until=0), ScenarioError, "longer than 0 s"),
        (lambda: unstable().at(1, "plant.mass", 3), UnknownName, "value 'mass' in plant"),
        (lambda: unstable().at(-1, "plant.stiffness", 3), ScenarioError, "before the start"),
        (lambda: unstable().order("plant", "controller"), ScenarioError, "so it has no order"),
        (lambda: unstable().plant("plant", UNSTABLE, step=1), ScenarioError, "declared twice"),
        (lambda: unstable().plant("a b", UNSTABLE, step=1), ScenarioError, "identifier"),
        (lambda: loop(late="maybe").build(), ScenarioError, "hold, fail, stretch"),
        (lambda: simulate(unstable(), pace="fast"), ScenarioError, "'max' or a rate"),
        (lambda: simulate(unstable(), pace=0.0), ScenarioError, "rate"),
        (lambda: simulate(unstable(), until="soon"), ScenarioError, "until"),
        (lambda: load_scenario("unstabel"), UnknownName, "did you mean unstable"),
        (lambda: load_scenario("no/such.py"), ScenarioError, "file no/such.py does not exist"),
        (lambda: load_scenario("unstable", {"lag": "1"}), UnknownName, "argument 'lag'"),
        (lambda: load_scenario("unstable", {"plant.stiffness": "hard"}), ScenarioError, "number"),
    ],
)
def test_one_clear_error(make: Callable[[], object], error: type[RtsimError], message: str) -> None:
    with pytest.raises(error, match=message):
        make()


def echo(t: float, u: Vector, s: Vector, p: Vector, y: Vector) -> None:  # noqa: ARG001
    y[0] = u[0] + 1.0


def test_a_loop_that_never_ends_ends(tmp_path: Path) -> None:
    scenario = Scenario("ring", until=1)
    u, y = Signals(Signal("u", optional=True)), Signals("y [1]")
    scenario.controller("kick", PythonController(echo, u, y), period=0.5, offset=0.5)
    scenario.controller("a", PythonController(echo, u, y), on=("b", "kick"))
    scenario.controller("b", PythonController(echo, u, y), on=("a",))
    path = tmp_path / "ring.mcap"
    with pytest.raises(ZenoError, match=r"1000 microsteps at 0\.500000000 s"):
        simulate(scenario, recorder=FileRecorder(path, stopwatch))
    assert len(Recording.open(path).track("messages/a")) > 100


def test_a_full_disk_is_named_and_the_recording_opens_up_to_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("no /dev/full here")
    del tmp_path, monkeypatch
    with pytest.raises(RecordingError, match="/dev/full"):
        simulate(unstable(until=60), recorder=FileRecorder("/dev/full", stopwatch))
