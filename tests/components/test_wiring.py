"""Wires: units on both ends, sensors that pass them on, arrays and constants."""

from __future__ import annotations

import pytest

from rtsim.components.controller import PythonController
from rtsim.components.latency import Fixed, Loss
from rtsim.core.errors import ScenarioError, UnknownName
from rtsim.core.signals import Signal, Signals, Vector
from rtsim.equations.model import Model
from rtsim.scenario.scenario import Scenario
from rtsim.testing.determinism import trace_of


def turn(t: float, x: Vector, z: Vector, u: Vector, p: Vector, dx: Vector) -> None:  # noqa: ARG001
    dx[0] = 10.0
    dx[1] = u[0] + u[1]


ARM = Model(
    "arm",
    Signals(Signal("angle", "rad", kind="angle"), "speed [rad/s]"),
    turn,
    inputs=Signals(Signal("torques", "N m", shape=(2,))),
)


def echo(t: float, u: Vector, s: Vector, p: Vector, y: Vector) -> None:  # noqa: ARG001
    y[0] = u[0]
    y[1] = 2.0 * u[0]


def make(unit: str, source: str = "arm.speed") -> Scenario:
    scenario = Scenario("arm", until=0.1)
    scenario.plant("arm", ARM, step=0.01, inputs={"torques": "drive.torques"})
    drive = PythonController(
        echo, Signals(f"speed [{unit}]"), Signals(Signal("torques", "N m", shape=(2,)))
    )
    scenario.controller("drive", drive, period=0.02, inputs={"speed": source})
    return scenario


@pytest.mark.parametrize("unit", ["rad/s", "rad / s", "1"])
def test_the_same_unit_or_none_declared(unit: str) -> None:
    make(unit).build()


@pytest.mark.parametrize("unit", ["deg/s", "rad", "rpmm"])
def test_another_unit_is_refused(unit: str) -> None:
    message = f"arm.speed is in rad/s, but drive.speed is in {unit}; declare the same unit"
    with pytest.raises(ScenarioError, match=message):
        make(unit).build()


def test_a_sensor_passes_units_and_kinds_on() -> None:
    scenario = make("rad/s", "encoder.speed")
    sources = {"angle": "arm.angle", "speed": "arm.speed"}
    scenario.sensor("encoder", sources, period=0.01, transport=Loss(Fixed(0.002), 0.3))
    recording = trace_of(scenario)
    seen = recording.track("messages/encoder").signals
    assert (seen["angle"].unit, seen["angle"].kind) == ("rad", "angle")
    assert seen["speed"].unit == "rad/s"
    statuses = recording.track("messages/encoder").integer("status").tolist()
    assert set(statuses) == {0, 1}
    wrong = make("deg/s", "encoder.speed")
    wrong.sensor("encoder", sources, period=0.01)
    with pytest.raises(ScenarioError, match=r"encoder\.speed is in rad/s"):
        wrong.build()


@pytest.mark.parametrize(
    ("source", "error", "message"),
    [
        ("arm", ScenarioError, "names no signal"),
        ("arms.angle", UnknownName, "did you mean arm"),
        ("arm.angel", UnknownName, "did you mean angle"),
        ("encoder.angle", ScenarioError, "in a cycle"),
    ],
)
def test_a_sensor_of_nothing_is_named(source: str, error: type[Exception], message: str) -> None:
    scenario = make("rad/s")
    scenario.sensor("encoder", {"angle": source}, period=0.01)
    with pytest.raises(error, match=message):
        scenario.build()


def test_arrays_are_wired_whole() -> None:
    recording = trace_of(make("rad/s"))
    torques = recording["arm.torques"]
    assert torques.shape == (len(torques), 2)
    assert (torques[:, 1] == 2.0 * torques[:, 0]).all()
