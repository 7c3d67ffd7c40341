"""The commands: what they print for people and machines, and their exit status."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from command_line import data, rtsim

from rtsim.record.reading import Recording
from rtsim.scenario.loading import BUILT_IN

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    path = tmp_path / "run.mcap"
    result = rtsim("run", "unstable", "--until", "2", "-o", path, "--set", "latency=0.03")
    assert result.exit_code == 0, result.output
    assert f"recording: {path}" in result.stdout
    return path


def test_run_as_json(tmp_path: Path) -> None:
    path = tmp_path / "run.mcap"
    result = rtsim("run", "orbit", "--json", "-o", path, "--seed", 4)
    assert result.exit_code == 0, result.output
    told = data(result)
    assert told["simulated_s"] == 30.0
    assert (told["reason"], told["overruns"], told["recording"]) == ("end", 0, str(path))
    assert len(Recording.open(path).track("moon")) == 301


def test_run_numbers_its_recordings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for _ in range(2):
        assert rtsim("run", "orbit").exit_code == 0
    assert rtsim("run", "orbit", "--no-record").exit_code == 0
    assert sorted(p.name for p in (tmp_path / "runs").iterdir()) == [
        "orbit-001.mcap",
        "orbit-002.mcap",
    ]


def test_a_file_of_the_users_own_runs_and_replays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # what lies elsewhere is trusted by name alone: docs/trust.md
    source = tmp_path / "mine.py"
    source.write_text(
        "from rtsim.models.orbit import ORBIT\n"
        "from rtsim.scenario.scenario import Scenario\n"
        "def slow(step=0.5):\n"
        "    scenario = Scenario('mine', until=5)\n"
        "    scenario.plant('moon', ORBIT, step=step)\n"
        "    return scenario\n"
    )
    path = tmp_path / "mine.mcap"
    assert rtsim("run", f"{source}:slow", "-o", path, "--set", "step=0.25").exit_code == 0
    assert len(Recording.open(path).track("moon")) == 21
    assert rtsim("replay", path).exit_code == 0


def test_replay(recording: Path) -> None:
    result = rtsim("replay", recording)
    assert result.exit_code == 0, result.output
    assert "equal bit for bit" in result.stdout
    told = data(rtsim("replay", recording, "--json"))
    assert (told["ok"], told["by"], told["fingerprint_differs"]) == (True, "bits", [])


def test_replay_of_a_cut_off_recording(recording: Path, tmp_path: Path) -> None:
    cut = tmp_path / "cut.mcap"
    cut.write_bytes(recording.read_bytes()[:-700])
    result = rtsim("replay", cut)
    assert result.exit_code == 0, result.output
    assert "the recording was cut off" in result.stdout


def test_replay_notices_another_law(recording: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The sources differ, which is said, and the values differ, which fails."""
    from rtsim.models import unstable

    def other(t: float, u: Any, s: Any, p: Any, y: Any) -> None:  # noqa: ARG001
        y[0] = -1.001 * (p[0] * u[0] + p[1] * u[1]) - s[0]
        s[0] += p[2] * u[0]

    monkeypatch.setattr(unstable, "control", other)
    result = rtsim("replay", recording)
    assert result.exit_code == 1
    assert "sources of the scenario's functions have changed" in result.stdout
    assert "FAILED" in result.stdout


def test_compare(recording: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.mcap"
    rtsim(
        "run",
        "unstable",
        "--until",
        "2",
        "-o",
        other,
        "--set",
        "latency=0.03",
        "--set",
        "plant.x=1.0001",
    )
    assert rtsim("compare", recording, recording).exit_code == 0
    result = rtsim("compare", recording, other)
    assert result.exit_code == 1
    assert "FAILED" in result.stdout
    assert "microstep" not in result.stdout
    at_once = tmp_path / "at_once.mcap"
    rtsim("run", "unstable", "--until", "2", "-o", at_once)
    shown = rtsim("compare", at_once, recording).stdout
    table, explained, _ = shown.partition("s +1: the first microstep of that instant")
    assert explained
    assert " s +1" in table
    told = data(rtsim("compare", recording, other, "--json"))
    first = {s["signal"] if "signal" in s else s["name"]: s for s in told["signals"]}
    assert not told["ok"]
    assert "plant.x" in first
    assert rtsim("compare", recording, other, "--abs", "0.01").exit_code == 0
    assert rtsim("compare", recording, other, "--tol", "plant.*=0.01").exit_code == 1
    result = rtsim("compare", recording, other, "--tol", "plant.*=much")
    assert (result.exit_code, "write --tol" in result.stderr) == (2, True)


def test_messages(recording: Path) -> None:
    result = rtsim("messages", recording, "--limit", 2)
    assert result.exit_code == 0
    assert "0.100          0.100        0.130" in result.stdout
    assert "19 more" in result.stdout
    rows = data(rtsim("messages", recording, "--inputs", "--json"))["messages"]
    assert len(rows) == 42
    assert rows[0]["payload"] == {"x": 1.0, "v": 0.0}
    result = rtsim("messages", recording, "--topic", "radio")
    assert (result.exit_code, "unknown topic" in result.stderr) == (2, True)


@pytest.mark.parametrize(("name", "typed"), [("a.mcap", "a.mcap"), ("a b.mcap", '"a b.mcap"')])
def test_the_next_command_can_be_typed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, typed: str
) -> None:
    monkeypatch.chdir(tmp_path)
    done = rtsim("run", "ball", "--plain", "--until", "0.01", "-o", name)
    assert done.exit_code == 0, done.output
    assert done.stdout.splitlines()[-1] == f"next: rtsim report {typed}"


def test_scenarios() -> None:
    names = [row["name"] for row in data(rtsim("scenarios", "--json"))]
    assert names == sorted(BUILT_IN)
    assert {"ball", "f16", "machine-shop"} <= set(names)
    assert "latency=0" in rtsim("scenarios").stdout
    assert "`" not in rtsim("scenarios").stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("run", "orbitt"), "did you mean orbit"),
        (("run", "orbit", "--pace", "fast"), "'max' or a rate"),
        (("run", "orbit", "--set", "step"), "write --set NAME=VALUE"),
        (("run", "orbit", "--set", "moon.z=1"), "unknown value 'z' in moon"),
        (("run", "orbit", "--overrun", "never"), "catch_up"),
        (("run", "orbit", "-o", "/no/such/folder/x.mcap"), "/no/such/folder"),
        (("run", "orbit", "--until", "0"), "longer than 0 s"),
        (("replay", "/no/such.mcap"), "/no/such.mcap"),
        (("messages", "/no/such.mcap"), "/no/such.mcap"),
        (("report", "/no/such.mcap"), "/no/such.mcap"),
    ],
)
def test_errors_are_dry_and_exit_2(arguments: tuple[str, ...], message: str) -> None:
    result = rtsim(*arguments)
    assert result.exit_code == 2
    assert result.stderr.startswith("Error: ")
    assert message in result.stderr
    assert "Traceback" not in result.output
    told = data(rtsim(*arguments, "--json"))
    assert message in told["error"]["message"]


def test_usage_errors_come_from_the_command_line_library() -> None:
    assert rtsim("fly-away").exit_code == 2
    assert rtsim("run").exit_code == 2
    assert "Real-time" in rtsim("--help").stdout
    for command in ("run", "replay", "compare", "messages", "report", "scenarios", "doctor"):
        assert rtsim(command, "--help").exit_code == 0
