"""The examples of docs/pitl.md on the host: what only a processor shows does not show here."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from command_line import rtsim

from hitl.contexts import back_to_back
from hitl.plants import plant
from rtsim.scenario.loading import load_scenario


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("examples") / "processor"
    told = rtsim("sil", "init", out, "--example", "processor")
    assert told.exit_code == 0, told.output
    assert "rtsim sil test scenario.py:level -c level.toml" in told.output
    return out


@pytest.mark.sample(2)
@pytest.mark.parametrize("name", ["level", "position", "busy", "deep"])
def test_on_the_host_each_does_what_its_design_does(
    name: str, folder: Path, tmp_path: Path
) -> None:
    scenario = load_scenario(f"{folder / 'scenario.py'}:{name}")
    result = back_to_back(scenario, {name: f"{name}.toml"}, folder=folder, cases=tmp_path)
    result.assert_ok()
    assert result.open[name].steps >= 20


@pytest.mark.parametrize("name", ["level", "position", "position_float", "busy", "deep"])
def test_each_fits_the_board(name: str, folder: Path) -> None:
    told = rtsim("sil", "check", folder / f"{name}.toml", "--target", "avr", "--json")
    assert told.exit_code == 0, told.output
    assert json.loads(told.stdout)


def test_a_latitude_in_float32_moves_in_steps_of_42_cm(folder: Path) -> None:
    with plant(f"{folder / 'scenario.py'}:position") as walker:
        whole = walker.fly({"position": folder / "position.toml"}).messages["position"]["north"]
        coarse = walker.fly({"position": folder / "position_float.toml"})
        exact = walker.fly().messages["position"]["north"]
    steps = np.unique(np.diff(np.unique(coarse.messages["position"]["north"])))
    assert steps == pytest.approx([0.4239], abs=0.0005)
    assert np.abs(coarse.messages["position"]["north"] - exact).max() > 0.2
    assert np.abs(whole - exact).max() < 0.0112


def test_the_coarse_latitude_is_told_by_the_open_loop(folder: Path, tmp_path: Path) -> None:
    scenario = load_scenario(f"{folder / 'scenario.py'}:position")
    result = back_to_back(
        scenario, {"position": "position_float.toml"}, folder=folder, cases=tmp_path
    )
    assert not result.ok
    assert "position.north" in result.in_words


def test_only_what_is_known_can_be_written(tmp_path: Path) -> None:
    told = rtsim("sil", "init", tmp_path / "x", "--example", "proccessor")
    assert told.exit_code == 2
    assert not (tmp_path / "x").exists()
