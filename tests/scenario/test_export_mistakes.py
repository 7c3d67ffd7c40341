"""``rtsim export`` with wrong times, rates and names: one message that says what to type."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from rtsim import simulate
from rtsim.cli.main import main
from rtsim.record.file import FileRecorder
from rtsim.scenario.loading import load_scenario


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("export") / "run.mcap"
    simulate(load_scenario("unstable"), until=2, compile=False, recorder=FileRecorder(path))
    return path


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--from 5", "--from 5: run.mcap ends at 2 s; give an earlier time"),
        ("--from 1 --to 0.5", "no time lies from 1 to 0.5 s; give the earlier one first"),
        ("--from abc", "'abc' is not a number of seconds"),
        ("--to nan", "'nan' is not a number of seconds"),
        ("--from 0.001 --to 0.0015", "give --rate for values between the rows"),
        ("--rate 0", "a rate of 0 Hz is impossible; give more than 0"),
        ("--rate nan", "a rate of nan Hz is impossible"),
        ("--rate 1e9", "2000000001 rows; choose a lower rate"),
        ("-s plant.y", "unknown signal 'plant.y' in run.mcap; did you mean plant.x"),
        ("--messages nobody", "known: controller, controller.inputs"),
        ("--messages controller --rate 3", "leave --signals, --rate, --side and --own out"),
        ("--messages controller --side minus", "leave --signals, --rate, --side and --own out"),
    ],
)
def test_wrong_arguments(
    recording: Path, monkeypatch: pytest.MonkeyPatch, words: str, message: str
) -> None:
    monkeypatch.chdir(recording.parent)
    told = CliRunner().invoke(main, ["export", "run.mcap", "-o", "x.csv", *words.split()])
    assert told.exit_code == 2
    assert message in told.output
    assert not Path("x.csv").exists()
    assert told.output.count("\n") == 1


def test_a_span_a_rate_and_signals_together(recording: Path) -> None:
    out = recording.parent / "some.csv"
    words = ["-s", "plant.x", "--from", "1/3", "--to", "0.5", "--rate", "100", "--side", "minus"]
    told = CliRunner().invoke(main, ["export", str(recording), "-o", str(out), *words])
    assert told.exit_code == 0, told.output
    lines = out.read_text(encoding="utf-8").splitlines()
    assert lines[0] == "time [s],time_ns,plant.x [m]"
    assert [line.split(",")[1] for line in lines[1:3]] == ["333333333", "343333333"]
    assert len(lines) == 18
