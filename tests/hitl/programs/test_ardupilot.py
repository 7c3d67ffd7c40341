"""The adapter of ArduPilot's JSON interface, against a program that speaks the interface."""

from __future__ import annotations

import json
import math
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from program_runs import Compile

import rtsim as rt
from hitl.programs.ardupilot import AIRFRAMES, Airframe, ArduPilot, JsonState
from hitl.programs.axes import rotors
from hitl.programs.library import ProgramError
from rtsim.components.frames import FrameError
from rtsim.core.errors import ScenarioError, UnknownName
from rtsim.models.body import body_states, initial_state
from rtsim.models.quadcopter import STANDS, Quadcopter

HOME = 36.0176, -75.6713, 0.0, 0.0
DEG = math.pi / 180
STATE: dict[str, Any] = {
    "rates": [0.25, 0, 0], "specific_force": [0, 0, -9.8], "attitude_ned": [1, 0, 0, 0],
    "velocity_north": 1, "velocity_east": 2, "velocity_down": 3,
    "latitude": HOME[0] * DEG, "longitude": HOME[1] * DEG, "altitude": 12.5,
}  # fmt: skip


def _flight(controller: ArduPilot, until: float = 0.1) -> rt.Scenario:
    loop = rt.Scenario("flight", until=until)
    loop.source("sticks", rt.Signals(rt.Signal("channels", "us", shape=(16,))))
    loop.at(0, "sticks.channels", [1500] * 16)
    inputs = {**STATE, "channels": "sticks.channels"}
    loop.controller("fc", controller, period=0.0025, inputs=inputs)
    return loop


@pytest.fixture
def program(compiled_program: Compile) -> Path:
    return compiled_program("ardupilot_stand_in.c")


def test_state_radio_servos_and_parameters(program: Path) -> None:
    controller = ArduPilot(program, parameters={"FRAME_CLASS": 7})
    result = rt.simulate(_flight(controller))
    throttle = result.recording().messages["fc"]
    columns = [throttle[f"throttle_{k}"] for k in range(4)]
    assert columns[0][-1] == pytest.approx(0.75, abs=1e-9)  # channel 3, plus the roll rate
    assert columns[1][-1] == pytest.approx(0.01, abs=1e-9)  # the time of the state: 0.1 s
    assert columns[2][-1] == pytest.approx(0.625, abs=1e-9)  # 12.5 m above the home
    assert columns[3][-1] == pytest.approx(0.7, abs=1e-9)  # a parameter
    np.testing.assert_array_equal(np.diff(throttle["frame_count"]), 1)
    assert not throttle["malformed"].any()
    assert not result.warnings
    again = rt.simulate(_flight(controller))
    assert again.recording().digest() == result.recording().digest()


def _position(latitude: float, longitude: float, altitude: float) -> list[float]:
    codec = JsonState(HOME)
    values = codec.signals.initial()
    for name, value in (("latitude", latitude * DEG), ("longitude", longitude * DEG),
                        ("altitude", altitude)):  # fmt: skip
        values[codec.signals.slice(name)] = value
    found = json.loads(codec.encode(values))
    assert sorted(found) == [
        "imu", "no_time_sync", "position", "quaternion", "timestamp", "velocity",
    ]  # fmt: skip
    return list(found["position"])


def test_the_position_is_that_of_ardupilots_location() -> None:
    """The scale is LOCATION_SCALING_FACTOR of ArduPilot's Location.cpp, m for 1e-7 deg."""
    scale = 0.011131884502145034
    assert _position(HOME[0], HOME[1], 0.0) == pytest.approx([0, 0, 0], abs=1e-6)
    assert _position(HOME[0] + 1e-3, HOME[1], 3.0) == pytest.approx([scale * 1e4, 0, -3], abs=1e-5)
    east = scale * 1e4 * math.cos(HOME[0] * DEG)
    assert _position(HOME[0], HOME[1] + 1e-3, 0.0) == pytest.approx([0, east, 0], abs=1e-5)
    assert _position(HOME[0], HOME[1] + 360.0, 0.0) == pytest.approx([0, 0, 0], abs=1e-3)


def test_the_line_of_json_has_a_fixed_length() -> None:
    codec = JsonState(HOME)
    values = codec.signals.initial()
    for value in (0.0, -1e-300, 1e300, 12345.678):
        values[:10] = value
        data = codec.encode(values)
        assert len(data) == codec.length
        assert json.loads(data)["imu"]["gyro"] == [value] * 3
    values[3] = np.nan
    with pytest.raises(FrameError, match="rates_2 is not finite"):
        codec.encode(values)


@pytest.mark.parametrize("frame", list(AIRFRAMES))
def test_every_airframe_has_an_output_for_each_actuator(frame: str) -> None:
    controller = ArduPilot("/bin/true", frame=frame)
    for one in controller.axes.actuators:
        assert one.signal in controller.outputs
        size = controller.outputs[one.signal].shape or (1,)
        assert one.element < size[0]
        assert one.effects


def test_an_airframe_of_ones_own() -> None:
    bearings = ("front", 0, "cw"), ("rear right", 120, "ccw"), ("rear left", 240, "ccw")
    tri = Airframe(
        "arducopter", {"throttle": (3, 0.0, 1.0), "tilt": (1, -1.0, 1.0)},
        tuple(r.at("throttle", k) for k, r in enumerate(rotors(*bearings))), {"FRAME_CLASS": 7},
    )  # fmt: skip
    AIRFRAMES.add("tri", tri)
    controller = ArduPilot("/bin/true", frame="tri")
    assert controller.outputs["throttle"].shape == (3,)
    assert controller.settings["FRAME_CLASS"] == 7
    with pytest.raises(ScenarioError, match="expected an Airframe"):
        AIRFRAMES.add("kite", "tri")  # type: ignore[arg-type]
    with pytest.raises(UnknownName, match="unknown airframe 'quad'"):
        ArduPilot("/bin/true", frame="quad")


def test_wrong_arguments(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ScenarioError, match="is not a parameter of ArduPilot"):
        ArduPilot("/bin/true", parameters={"A NAME": 1.0})
    with pytest.raises(ScenarioError, match="a finite number"):
        ArduPilot("/bin/true", parameters={"FRAME_CLASS": math.inf})
    monkeypatch.setenv("PATH", "")
    plane = ArduPilot(frame="plane")  # a replay needs no ArduPilot
    with pytest.raises(ProgramError, match="arduplane is not on PATH; in ArduPilot's source"):
        plane.fresh()


@pytest.mark.long
def test_ardupilot_flies_the_quadcopter() -> None:
    """With ArduPilot on PATH: the quadcopter takes off, and two flights are equal."""
    if shutil.which("arducopter") is None:
        pytest.skip("arducopter is not on PATH")
    first, second = (rt.simulate(_take_off()) for _ in range(2))
    assert first["quad.height"][-1] > 3.0
    assert np.abs(first["quad.roll"]).max() > 0.1
    assert first.recording().digest() == second.recording().digest()


def _take_off() -> rt.Scenario:
    def channels(roll: int = 1500, throttle: int = 1000, arm: int = 1900) -> list[int]:
        return [roll, 1500, throttle, 1500, 1000, 1000, arm, *[1000] * 9]

    loop = rt.Scenario("flight", until=12)
    state = initial_state(latitude=HOME[0] * DEG, longitude=HOME[1] * DEG, altitude=STANDS)
    loop.plant("quad", Quadcopter(**body_states(state)), step=0.0025)
    loop.source("radio", rt.Signals(rt.Signal("channels", "us", shape=(16,))))
    sticks = channels(arm=1000), channels(), channels(throttle=1600), channels(1700, 1550)
    for at, moved in zip((0, 6, 8, 11), sticks, strict=True):
        loop.at(at, "radio.channels", moved)
    inputs = {"channels": "radio.channels"}
    loop.controller("fc", ArduPilot(home=HOME), period=0.0025, inputs=inputs)
    loop.connect("quad", "fc")
    return loop
