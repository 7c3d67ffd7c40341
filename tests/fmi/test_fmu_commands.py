"""``rtsim fmu info``, ``check`` and ``run``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from fmu_parts import LINUX, tank

import rtsim as rt
from rtsim.cli.fmu_files import check, info, run
from rtsim.core.errors import UnknownName
from rtsim.fmi import Fmu
from rtsim.fmi.scenario import maker
from rtsim.record.reading import Recording
from rtsim.studies import fit

pytestmark = [
    pytest.mark.system("gcc"),
    pytest.mark.skipif(not LINUX, reason="the tests compile FMUs for Linux"),
]


def test_info_lists_the_variables_without_running_the_fmu() -> None:
    said = CliRunner().invoke(info, [str(tank(2, "CRASH_AT_START")), "--json"])
    assert said.exit_code == 0
    found = json.loads(said.output)
    names = [(v["signal"], v["variable"], v["unit"]) for v in found["variables"]]
    assert ("out_y", "out.y", "m") in names
    assert found["co-simulation"].startswith("returns to an earlier state: yes")


def test_check_runs_each_kind_twice_and_from_a_saved_state() -> None:
    said = CliRunner().invoke(check, [str(tank(3))])
    assert said.exit_code == 0, said.output
    assert said.output.count("passed") == 6


def test_check_says_why_it_failed() -> None:
    said = CliRunner().invoke(check, [str(tank(2, "KEEPS_STATE_IN_RESET"))])
    assert said.exit_code == 1
    assert "FAILED  co-simulation: the same after a reset: the results differ" in said.output
    said = CliRunner().invoke(check, [str(tank(2, "CRASH_AT_START"))])
    assert "FAILED  co-simulation: runs: " in said.output
    assert "SIGSEGV" in said.output


def test_check_names_what_it_cannot_check() -> None:
    said = CliRunner().invoke(check, [str(tank(2, saves=False)), "--json"])
    assert said.exit_code == 0
    found = json.loads(said.output)
    assert len(found["checks"]) == 4
    assert found["not_checked"] == [
        f"{kind}: the same from a saved state: the FMU cannot save its state"
        for kind in ("co-simulation", "model-exchange")
    ]
    said = CliRunner().invoke(check, [str(tank(2, saves=False))])
    assert said.output.count("not checked  ") == 2


def test_check_reports_a_crash_as_failed_and_another_system_as_no_verdict() -> None:
    said = CliRunner().invoke(check, [str(tank(2, "CRASH_AT_START")), "--json"])
    assert said.exit_code == 1
    assert "SIGSEGV" in json.loads(said.output)["why"]
    said = CliRunner().invoke(check, [str(tank(2, system="win64"))])
    assert said.exit_code == 2
    assert "no binary for this computer" in said.output


def test_run_takes_the_options_of_rtsim_run_and_its_recording_replays(tmp_path: Path) -> None:
    out = tmp_path / "tank.mcap"
    arguments = [str(tank(2)), "--set", "kind=model-exchange", "--set", "tank.k=2",
                 "--until", "0.2", "-o", str(out)]  # fmt: skip
    said = CliRunner().invoke(run, arguments)
    assert said.exit_code == 0, said.output
    recording = Recording.open(out)
    assert recording["tank.level"][-1] == pytest.approx(2.718281828 ** (-0.4), rel=1e-6)


def test_a_parameter_of_an_fmu_is_fitted_to_a_recording() -> None:
    path = tank(2)
    made = maker(path)(until=1.0, step=0.05)
    made.set("tank.k", 0.8)
    run = rt.simulate(made)
    found = fit(str(path), run.recording(), ["tank.k"], settings={"until": 1.0, "step": 0.05})
    assert found["tank.k"].value == pytest.approx(0.8, rel=1e-9)
    assert found.determined


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("tank.kk=3", "did you mean k?"),
        ("tank.K=3", "did you mean k?"),
        ("tank.lvel=3", "did you mean level"),
        ("tank.out.y=3", "the variable out.y is called out_y here"),
        ("tank.count=3", "no start value that can be set (output)"),
        ("tank.table=flow.csv", "--set parameters=table=TEXT"),
        ("tank.mode=Doubl", "did you mean Double?"),
        ("parameters=table", "write NAME=VALUE"),
        ("solver=rk4", 'omit solver=, or choose kind="model-exchange"'),
    ],
)
def test_a_wrong_setting_names_its_remedy(setting: str, said: str) -> None:
    found = CliRunner().invoke(run, [str(tank(2)), "--set", setting, "--until", "0.1"])
    assert found.exit_code == 2
    assert said in found.output


def test_an_item_and_a_text_are_set(tmp_path: Path) -> None:
    out = str(tmp_path / "out.mcap")
    arguments = ["--set", "tank.mode=Double", "--set", "parameters=table=flow.csv", "-o", out]
    said = CliRunner().invoke(run, [str(tank(2)), *arguments, "--until", "0.1"])
    assert said.exit_code == 0, said.output
    found = Recording.open(Path(out))
    assert found["tank.out_y"][0] == 2.0
    assert found["tank.from_file"][0] == 1.0


def test_an_error_lists_some_of_ten_thousand_names() -> None:
    with pytest.raises(UnknownName, match=r"known: level, .*, and 99\d\d more") as raised:
        Fmu(tank(2, more=10_000), parameters={"zzz": 1})
    assert len(str(raised.value)) < 1000
