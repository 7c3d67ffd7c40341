"""C code and boards have the initial inputs of the design that they replace, as the design has."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from board_parts import Rig

import rtsim as rt
from hitl.controllers.in_process import InProcess
from hitl.controllers.sil import SilController
from rtsim.components.controller import ControllerProtocol
from rtsim.record.recorders import MemoryRecorder
from rtsim.record.replay_comparison import compare_exact
from rtsim.runs.replay import rerun

MOTOR = Path(str(files("hitl"))) / "starter" / "motor.toml"


class Regulator(rt.Controller):
    """The control law of motor.c without its limit and its integrator."""

    setpoint = rt.input("rad/s")
    speed = rt.input("rad/s", 40.0)
    voltage = rt.output("V")
    gain = rt.parameter("V s/rad", 0.2)
    integral_gain = rt.parameter("V/rad", 0)

    def step(self) -> None:
        self.voltage = self.gain * (self.setpoint - self.speed)


class Motor(rt.Plant):
    speed = rt.state("rad/s")
    voltage = rt.input("V", 1.5)

    def derivative(self, d: Any) -> None:
        d.speed = (20.0 * self.voltage - self.speed) / 0.1


def motor() -> rt.Scenario:
    """Return a loop in which the first speed arrives after 0.05 s, the first voltage after 0.02."""
    loop = rt.Scenario("motor", until=0.2)
    body = loop.plant(Motor(), step=0.002)
    law = loop.controller("controller", Regulator(), period=0.01, transport=0.02)
    eye = loop.sensor("eye", {"speed": "motor.speed"}, period=0.01, transport=0.05)
    loop.connect(eye.speed, law.speed)
    loop.connect(law.voltage, body.voltage)
    loop.connect(10.0, law.setpoint)
    return loop


def made(kind: str) -> ControllerProtocol:
    return SilController(MOTOR) if kind == "a process" else InProcess(MOTOR)


@pytest.mark.sample(1)
@pytest.mark.parametrize("kind", ["a process", "this process"])
def test_c_samples_the_initial_value_that_the_design_declares(kind: str) -> None:
    wanted = rt.simulate(motor())
    assert wanted["controller.speed"][0] == 40.0
    assert wanted["motor.voltage"][0] == 1.5
    loop = motor()
    loop.replace_controller("controller", made(kind))
    recorder = MemoryRecorder()
    found = rt.simulate(loop, recorder=recorder)
    assert found["controller.speed"][0] == 40.0
    assert found["motor.voltage"].tolist() == pytest.approx(wanted["motor.voltage"].tolist())
    recording = recorder.recording()
    assert compare_exact(recording, rerun(recording, loop)) is None


def test_a_board_gets_the_initial_value_that_the_design_declares(tmp_path: Path) -> None:
    """It answers its first input, which arrives after 25 ms."""

    class Design(rt.Controller):
        fault = rt.input("1", 4)
        x = rt.input()
        y = rt.output()

        def step(self) -> None:
            self.y = self.fault + self.x

    rig = Rig(tmp_path)
    loop = rt.Scenario("board", until=0.06)
    given = loop.source("given", rt.Signals("fault = 1"))
    eye = loop.sensor("eye", {"fault": str(given.fault)}, period=0.01, transport=0.025)
    law = loop.controller("c", Design(), period=0.01)
    loop.connect(eye.fault, law.fault)
    loop.connect(0.25, law.x)
    loop.replace_controller("c", rig.controller)
    recorder = MemoryRecorder()
    rt.simulate(loop, recorder=recorder)
    recording = recorder.recording()
    assert recording.messages["c.inputs"]["fault"].tolist() == [4, 4, 4, 1, 1, 1, 1]
    assert recording.messages["c"]["y"].tolist() == [4, 4, 4, 1, 1, 1, 1]
    assert compare_exact(recording, rerun(recording, loop)) is None
