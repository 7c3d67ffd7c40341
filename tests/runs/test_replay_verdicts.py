"""What a replay decides, what it cannot decide, and how a flight that is repeated may end."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command_line import data, rtsim
from diverge_parts import SCENARIO, diverged, fly, lab_in, place

from rtsim.cli import replay as replay_module
from rtsim.core.errors import ControllerError
from rtsim.core.tag import Tag
from rtsim.record.comparison import by_range
from rtsim.record.events import died_of
from rtsim.record.reading import Recording
from rtsim.record.recorders import MemoryRecorder
from rtsim.runs import replay
from rtsim.runs.diverging import narrowing
from rtsim.runs.replay import rerun
from rtsim.runs.request import Connections, Progress, RunRequest
from rtsim.runs.result import RunResult
from rtsim.runs.simulation import run

READER = """
from pathlib import Path

from rtsim import Model, PythonController, Scenario, Signals

SMALL = 5e-10


def fly(t, x, z, u, p, dx):
    dx[0] = u[0] - x[0]
    if t > p[0]:
        raise ValueError("the wing broke")


def law(t, u, s, p, y):
    y[0] = float(Path("gain.txt").read_text()) * u[0]


def scenario(dies=99.0):
    model = Model("p", Signals("x [m]"), fly, inputs=Signals("u [m/s]"), parameters=Signals("dies"))
    out = Scenario("reader", until=1)
    out.plant("p", model, step=0.01, inputs={"u": "c.y"}, states={"x": SMALL},
              parameters={"dies": dies})
    controller = PythonController(law, Signals("x [m]"), Signals("y [m/s]"))
    out.controller("c", controller, period=0.1, inputs={"x": "p.x"})
    return out
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "reader.py").write_text(READER)
    (tmp_path / "gain.txt").write_text("-0.5")
    return tmp_path


def recorded(path: str, *options: str, status: int = 0) -> Recording:
    done = rtsim("run", "reader.py", "--plain", "-o", path, *options)
    assert done.exit_code == status, done.output
    return Recording.open(path)


# -- a file that is not there ---------------------------------------------------------------------


@pytest.mark.parametrize("command", ["replay", "diverge"])
def test_a_missing_file_is_named_and_is_no_difference(folder: Path, command: str) -> None:
    recorded("a.mcap")
    (folder / "gain.txt").unlink()
    done = rtsim(command, "a.mcap")
    assert done.exit_code == 2, done.output
    assert "FileNotFoundError" in done.stderr
    assert "gain.txt" in done.stderr
    assert "a resource that is missing on this machine, so it cannot be repeated" in done.stderr
    assert "differs" not in done.stdout


def test_a_run_that_lacked_the_file_itself_is_repeated_as_it_ended(folder: Path) -> None:
    later = READER.replace("y[0] = float", "y[0] = 0.0 if t < 0.5 else float")
    (folder / "reader.py").write_text(later)
    (folder / "gain.txt").unlink()
    recorded("a.mcap", status=2)
    done = rtsim("replay", "--trust", "a.mcap")
    assert done.exit_code == 0, done.output
    assert "the recorded run ended in an error at" in done.stdout
    (folder / "gain.txt").write_text("-0.5")
    done = rtsim("replay", "--trust", "a.mcap")
    assert done.exit_code == 1, done.output
    assert "no error in the candidate" in done.stdout


@pytest.mark.parametrize("command", ["replay", "diverge"])
def test_a_failure_that_is_borne_and_that_a_lack_made_is_named_too(
    folder: Path, command: str
) -> None:
    (folder / "reader.py").write_text(READER.replace("period=0.1,", 'period=0.1, failure="hold",'))
    recorded("a.mcap")
    assert rtsim(command, "a.mcap").exit_code == 0
    (folder / "gain.txt").unlink()
    done = rtsim(command, "a.mcap")
    assert done.exit_code == 2, done.output
    assert "when the run was repeated, c failed at 0.000000000 s" in done.stderr
    assert "FileNotFoundError" in done.stderr


def test_rerun_raises_what_is_lacking(folder: Path) -> None:
    recording = recorded("a.mcap")
    (folder / "gain.txt").unlink()
    with pytest.raises(ControllerError, match=r"gain\.txt"):
        rerun(recording)


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("command", ["replay", "diverge"])
def test_a_rerun_that_is_interrupted_decides_nothing(
    monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    def stop(_: Progress) -> None:
        raise KeyboardInterrupt

    def interrupted(request: RunRequest) -> RunResult:
        return run(replace(request, live=Connections(observe=stop)))

    recorded("a.mcap")
    monkeypatch.setattr(replay, "run", interrupted)
    monkeypatch.setattr(narrowing, "run", interrupted)
    done = rtsim(command, "a.mcap")
    assert done.exit_code == 130, done.output
    assert "the comparison has no result" in done.stderr


# -- runs that died -------------------------------------------------------------------------------


@pytest.mark.usefixtures("folder")
def test_a_run_that_died_is_repeated_and_dies_alike() -> None:
    recorded("a.mcap", "--set", "dies=0.305", status=2)
    done = rtsim("replay", "a.mcap")
    assert done.exit_code == 0, done.output
    assert "rows equal bit for bit" in done.stdout
    assert "the recorded run ended in an error at 0.3 s of 1 s" in done.stdout
    assert "the wing broke" in done.stdout
    assert data(rtsim("replay", "a.mcap", "--json"))["ended"]["reason"] == "error"
    done = rtsim("diverge", "a.mcap")
    assert done.exit_code == 0, done.output
    lines = done.stdout.splitlines()
    assert lines[0] == "a.mcap and a.mcap (run again) agree bit for bit from 0 to 0.3 s"
    assert lines[1].startswith("a.mcap ended in an error at 0.3 s of 1 s")
    assert lines[2].startswith("a.mcap (run again) ended in an error at 0.3 s of 1 s")


@pytest.mark.parametrize("when", ["0.305", "0.005"])
def test_where_only_the_recorded_run_dies_they_part(folder: Path, when: str) -> None:
    """Once with a message on its way, and once in the first step of all."""
    recorded("a.mcap", "--set", f"dies={when}", status=2)
    (folder / "reader.py").write_text(READER.replace("raise ValueError", "ValueError"))
    told = diverged("--trust", "a.mcap")
    ns = round((float(when) + 0.005) * 1e9)
    assert place(told)[:3] == (ns, 0, "event")
    [pair] = told["first"]["values"]
    assert "the wing broke" in pair["a"]
    assert pair["b"] == "absent"
    done = rtsim("replay", "--trust", "a.mcap")
    assert done.exit_code == 1, done.output
    assert "the wing broke" in done.stdout
    assert "no error in the candidate" in done.stdout


def test_where_only_the_rerun_dies_they_part(folder: Path) -> None:
    recorded("a.mcap")
    (folder / "reader.py").write_text(READER.replace("t > p[0]", "t > 0.305"))
    told = diverged("--trust", "a.mcap")
    assert place(told)[:3] == (310_000_000, 0, "event")
    [pair] = told["first"]["values"]
    assert (pair["a"], "the wing broke" in pair["b"]) == ("absent", True)
    for options in ((), ("--to", "0.8")):
        done = rtsim("replay", "--trust", "a.mcap", *options)
        assert done.exit_code == 1, done.output
        assert "the wing broke" in done.stdout
    assert rtsim("replay", "--trust", "a.mcap", "--to", "0.3").exit_code == 0


@pytest.mark.usefixtures("folder")
def test_two_recordings_that_died_otherwise_part_where_the_first_does() -> None:
    recorded("a.mcap", "--set", "dies=0.305", status=2)
    recorded("b.mcap", "--set", "dies=0.605", status=2)
    told = diverged("a.mcap", "b.mcap")
    assert place(told)[:3] == (310_000_000, 0, "event")
    assert [one["reason"] for one in told["endings"]] == ["error", "error"]


@pytest.mark.parametrize(
    ("kind", "text", "asked"),
    [
        ("ModelError", "the device of input stick raised at 0.3 s: OSError: pulled out", False),
        ("OSError", "pulled out", False),
        ("OverrunError", "overrun at 0.3 s", False),
        (
            "ModelError",
            "control function f of c raised at 0.3 s: FileNotFoundError: gain.txt",
            True,
        ),
    ],
)
def test_an_error_of_a_device_is_not_asked_for_again(kind: str, text: str, asked: bool) -> None:
    """The re-run is fed what the device said; that it was pulled out is no difference."""
    recorder = MemoryRecorder()
    recorder.start({})
    recorder.event(Tag(300_000_000), "Error", kind, text)
    assert (died_of(recorder.recording()) is not None) == asked


# -- another fingerprint --------------------------------------------------------------------------


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with monkeypatch.context() as patched:
        patched.setattr(replay_module, "differences", lambda *_: ["processor: another one"])
        yield


@pytest.mark.usefixtures("elsewhere")
def test_a_tolerance_goes_with_the_range_of_the_signal(folder: Path) -> None:
    """Signals of 5e-10, and a controller of the opposite sign."""
    recorded("a.mcap")
    done = rtsim("replay", "a.mcap")
    assert done.exit_code == 0, done.output
    assert "compared with a tolerance: 1e-09 of each signal's range" in done.stdout
    assert "all compared values are equal" in done.stdout
    (folder / "gain.txt").write_text("0.5")
    done = rtsim("replay", "a.mcap")
    assert done.exit_code == 1, done.output
    assert "the first difference is in messages/c.y at 0.000000000 s" in done.stdout
    assert "a closed loop amplifies differences in the last bits" in done.stdout


@pytest.mark.usefixtures("elsewhere")
def test_how_the_first_difference_grows_is_told(folder: Path) -> None:
    recorded("a.mcap")
    other = READER.replace("dx[0] = u[0] - x[0]", "dx[0] = u[0] - x[0] + 1e-22 * (t > 0.405)")
    (folder / "reader.py").write_text(other)
    done = rtsim("replay", "--trust", "a.mcap")
    assert done.exit_code == 0, done.output
    said = "the first difference is in p.x at 0.410000000 s; largest so far in m:"
    assert said in done.stdout
    assert "signals are within the tolerance; 134 rows" in done.stdout
    told: Any = data(rtsim("replay", "--trust", "a.mcap", "--json"))
    grown = [gap for _, gap in told["first_difference"]["growth"]]
    assert grown == sorted(grown)
    assert 0 < grown[0] < grown[-1]
    assert told["tolerance"].startswith("1e-09 of each signal's range")


@pytest.mark.usefixtures("folder")
def test_tolerances_by_range() -> None:
    recording = recorded("a.mcap")
    x = recording.track("p").column("x")
    allowed = by_range(recording)
    assert allowed["p.x"].absolute == pytest.approx(1e-9 * np.ptp(x), rel=1e-4)
    assert allowed["p.x"].relative == 0.0
    assert set(allowed) == {"p.x", "p.u", "messages/c.y", "messages/c.inputs.x"}


# -- rows that were fed ---------------------------------------------------------------------------


FED = """
import numpy as np

from rtsim import Model, Scenario, Signals


def fly(t, x, z, u, p, dx):
    dx[0] = u[0]


class Stick:
    signals = Signals("u [1]")

    def __init__(self):
        self.asked = 0

    def poll(self):
        self.asked += 1
        return np.array([float(self.asked)])

    def close(self):
        pass


def scenario():
    out = Scenario("fed", until=0.1)
    out.plant("p", Model("p", Signals("x"), fly, inputs=Signals("u")), step=0.01,
              inputs={"u": "stick.u"})
    out.external_input("stick", Signals("u [1]"), Stick())
    return out
"""


def test_rows_that_were_fed_are_counted_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("fed.py").write_text(FED)
    assert rtsim("run", "fed.py", "--plain", "-o", "a.mcap").exit_code == 0
    fed = len(Recording.open("a.mcap").track("inputs/stick"))
    assert fed > 0
    done = rtsim("replay", "a.mcap")
    assert done.exit_code == 0, done.output
    assert f"computed rows equal bit for bit; rows taken from the recording: {fed}" in done.stdout
    assert data(rtsim("replay", "a.mcap", "--json"))["fed_rows"] == fed


def test_a_recording_of_nothing_but_what_was_fed_decides_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    lines = FED.splitlines(keepends=True)
    only = "".join(line for line in lines if "out.plant" not in line and "inputs={" not in line)
    Path("fed.py").write_text(only)
    assert rtsim("run", "fed.py", "--plain", "-o", "a.mcap").exit_code == 0
    for command in (
        ["replay", "a.mcap"],
        ["replay", "a.mcap", "--abs", "1"],
        ["diverge", "a.mcap"],
    ):
        done = rtsim(*command)
        assert done.exit_code == 2, (command, done.output)
        assert "could not be decided: every row was taken from the recording" in done.stdout
        assert data(rtsim(*command, "--json"))["outcome"] == "undecided"


# -- times ----------------------------------------------------------------------------------------


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("options", [("--to", "-1"), ("--to", "0"), ("--from", "-1")])
def test_times_outside_the_recording_are_refused(options: tuple[str, ...]) -> None:
    recorded("a.mcap")
    done = rtsim("replay", "a.mcap", *options)
    assert done.exit_code == 2, done.output
    assert f"give a {options[0]} " in done.stderr


def test_how_the_recorded_run_ended_is_told_where_it_died(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    lab_in(tmp_path)
    fly("a.mcap")
    done = rtsim("replay", "a.mcap")
    assert done.exit_code == 0, done.output
    assert "the recorded run" not in done.stdout
    assert rtsim("run", SCENARIO, "--plain", "--set", "bug=dies", "-o", "b.mcap").exit_code == 2
    done = rtsim("replay", "b.mcap")
    assert (done.exit_code, "no more" in done.stdout) == (0, True), done.output
