"""The process that writes the recording dies: it is told at once, and no such run exits 0."""

from __future__ import annotations

import json
import os
import re
from itertools import count
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from rtsim import Model, Scenario, Signals, simulate
from rtsim.cli import main
from rtsim.core.clock import stopwatch
from rtsim.core.errors import ScenarioError
from rtsim.core.tag import NS_PER_S
from rtsim.gateway.client import connect
from rtsim.gateway.loop import Gateway
from rtsim.record.file import FileRecorder
from rtsim.record.reading import Recording
from rtsim.runs.result import RecordingLost
from rtsim.runs.simulation import Pace, Progress
from rtsim.timing.policy import Slip


def falls(t: Any, x: Any, z: Any, u: Any, p: Any, dx: Any) -> None:  # noqa: ARG001
    dx[0] = -1.0


def scenario(until: float = 1.0) -> Scenario:
    out = Scenario("fall", until=until)
    out.plant("box", Model("m", Signals("a"), falls), step=0.1)
    return out


def dies(recorder: FileRecorder) -> None:
    recorder._process.kill()
    recorder._process.wait()


def recording_to(path: Path) -> FileRecorder:
    """By a clock on which each look is due."""
    ticks = count(0, 200_000_000)
    return FileRecorder(path, lambda: next(ticks))


@pytest.mark.parametrize(("how", "ended"), [("continue", 1.0), ("end", 0.5)])
def test_the_loss_is_told_at_once(how: str, ended: float, tmp_path: Path) -> None:
    recorder, told = recording_to(tmp_path / "run.mcap"), list[tuple[int, str]]()
    now = [0]

    def observe(progress: Progress) -> None:
        now[0] = progress.ns
        if progress.ns == 400_000_000:
            dies(recorder)

    with pytest.raises(RecordingLost, match=r"cannot record .*run.mcap.*killed by signal 9") as e:
        simulate(
            scenario(), recorder=recorder, compile=False, observe=observe,
            on_recorder_death=how, tell=lambda text: told.append((now[0], text)),
        )  # fmt: skip
    outcome = e.value.outcome
    since = outcome.certificate.unrecorded
    found = re.match(
        r"(?:after (0\.[0-4]0{8}) s|perhaps from the start on): the writing process ended", since
    )
    assert found is not None
    assert since.endswith(" (killed by signal 9)")
    kept = np.arange(0.0, float(found[1] or -1) + 0.05, 0.1)  # the latest that the writer told
    read = Recording.open(tmp_path / "run.mcap")
    assert set(np.rint(kept * 1e9)) <= set(read.time("box"))
    then = "the run continues without it" if how == "continue" else "the run ends"
    assert told == [(400_000_000, f"the recording failed: it is lost {since}; {then}")]
    assert outcome.ended.seconds == ended
    assert outcome.reason == ("end" if how == "continue" else "recording lost")


def test_another_word_is_refused() -> None:
    with pytest.raises(ScenarioError, match="give one of continue, end"):
        simulate(scenario(), compile=False, on_recorder_death="stop")


def test_a_run_that_keeps_its_recording_says_nothing_of_it(tmp_path: Path) -> None:
    outcome = simulate(scenario(), compile=False, recorder=recording_to(tmp_path / "run.mcap"))
    assert outcome.certificate.unrecorded == ""


class Dying(FileRecorder):
    """Loses its writer at the start."""

    def start(self, header: Any) -> None:
        super().start(header)
        dies(self)
        ticks = count(stopwatch(), 200_000_000)
        self._now = lambda: next(ticks)


@pytest.mark.parametrize(("how", "ended"), [("continue", 10.0), ("end", 0.01)])
def test_the_command_tells_and_exits_2(
    how: str, ended: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rtsim.cli.running.FileRecorder", Dying)
    monkeypatch.chdir(tmp_path)
    run = ["run", "unstable", "--plain", "-o", "a.mcap", "--force", "--on-recorder-death", how]
    done = CliRunner().invoke(main, run)
    assert done.exit_code == 2
    lines = done.stderr.splitlines()
    lost = r"the recording failed: it is lost (after 0\.|perhaps from the start on: )"
    assert re.match(lost, lines[0])
    assert lines[1].startswith("Error: cannot record to a.mcap: the writing process ended")
    assert f"unstable: {ended:g} s in" in done.stdout
    told = CliRunner().invoke(main, [*run, "--json", "--strict"])
    summary = json.loads(told.stdout)
    assert told.exit_code == 2
    assert summary["error"]["type"] == "RecordingLost"
    assert summary["simulated_s"] == ended
    assert re.match(r"after 0\.|perhaps from the start on: ", summary["certificate"]["unrecorded"])


def test_rows_of_which_nothing_is_known_are_not_said_to_be_lost(tmp_path: Path) -> None:
    """The writer ended before it told of a row, but it may have written some."""
    with pytest.raises(RecordingLost, match="it is not known whether the file has rows of the run"):
        simulate(scenario(), compile=False, recorder=Dying(tmp_path / "run.mcap"))


def test_who_looks_at_the_run_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RTSIM_RUNTIME_DIR", str(tmp_path))
    recorder = FileRecorder(tmp_path / "run.mcap", stopwatch)
    lost: list[RecordingLost] = []
    with Gateway({"scenario": "fall"}) as inbox:

        def fly() -> None:
            try:
                simulate(
                    scenario(1e6), pace=Pace(1.0, Slip(10**6)), inbox=inbox, compile=False,
                    recorder=recorder,
                )  # fmt: skip
            except RecordingLost as error:
                lost.append(error)

        thread = Thread(target=fly)
        thread.start()
        try:
            with connect(os.getpid(), wait=60) as run:
                assert run.unrecorded == ""
                dies(recorder)
                until = stopwatch() + 20 * NS_PER_S
                while not run.unrecorded and stopwatch() < until:
                    pass  # each question waits for a look at the run
                assert run.unrecorded.endswith("(killed by signal 9)")
                shown = CliRunner().invoke(main, ["ctl", "status"])
                assert f"NOT RECORDED {run.unrecorded}" in shown.stdout
                run.quit()
        finally:
            thread.join(60)
    assert [error.outcome.reason for error in lost] == ["quit"]
    assert re.match(r"after \d|perhaps from the start on: ", inbox.unrecorded)
