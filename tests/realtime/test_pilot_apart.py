"""Where there are two CPUs, the loop has one; its window and who writes for it, the other."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

import rtsim.cli.window
import rtsim.pilot.viewer.process
from rtsim.cli import main
from rtsim.pilot.loop import Cockpit
from rtsim.pilot.processes import ViewerProcess, Window
from rtsim.record.file import FileRecorder
from rtsim.runs.simulation import Pace, Progress, simulate
from rtsim.scenario.loading import load_scenario
from rtsim.timing.policy import CatchUp
from rtsim.timing.scheduling import SchedulingRequest

pytestmark = [
    pytest.mark.live,
    pytest.mark.skipif(sys.platform != "linux", reason="where a thread may run"),
]
HIDDEN = Window(headless=True, size="320x180")


@pytest.fixture
def two() -> Iterator[list[int]]:
    """Of this machine's CPUs, for this thread and what it starts."""
    before = os.sched_getaffinity(0)
    if len(before) < 2:
        pytest.skip("one CPU")
    chosen = sorted(before)[:2]
    os.sched_setaffinity(0, chosen)
    yield chosen
    os.sched_setaffinity(0, before)


def allowed(pid: int) -> list[set[int]]:
    """Of each thread of a process."""
    return [os.sched_getaffinity(int(task.name)) for task in Path(f"/proc/{pid}/task").iterdir()]


def test_neither_the_window_nor_who_writes_is_where_the_loop_is(
    two: list[int], tmp_path: Path
) -> None:
    scenario = load_scenario("f16-by-hand", {"step": "0.01"})
    pace = Pace(1.0, CatchUp(max_frames=100_000), SchedulingRequest.watched())
    found: list[list[set[int]]] = []
    with (
        Cockpit(scenario, "stick", {"scene": "f16"}) as cockpit,
        ViewerProcess(cockpit.shared.path, HIDDEN) as viewer,
    ):
        recorder = FileRecorder(tmp_path / "run.mcap")

        def observe(progress: Progress) -> None:
            if progress.ns > 500_000_000 and not found:
                writer = os.sched_getaffinity(*recorder.beside)
                found.append([os.sched_getaffinity(0), writer, *allowed(viewer.pid)])

        simulate(
            scenario, until=1.0, pace=pace, recorder=recorder, publisher=cockpit.pictures,
            inbox=cockpit.inbox, observe=observe,
        )  # fmt: skip
    loop, writer, *window = found[0]
    assert (loop, writer) == ({two[1]}, {two[0]})
    assert window
    assert all(cpus == {two[0]} for cpus in window)
    assert os.sched_getaffinity(0) == set(two)


@pytest.mark.parametrize(("run", "apart"), [("f16", True), ("tcp://host:5555", False)])
def test_a_window_that_is_opened_again_is_not_there_either(
    two: list[int], monkeypatch: pytest.MonkeyPatch, run: str, apart: bool
) -> None:
    """One for a run at another machine may be anywhere."""
    found: list[set[int]] = []

    def opened(*_: object) -> str:
        found.append(os.sched_getaffinity(0))
        return "closed"

    monkeypatch.setattr(rtsim.pilot.viewer.process, "watch", opened)
    monkeypatch.setattr(
        rtsim.cli.window, "_exchange", lambda *_: io.BytesIO()
    )  # something to close
    done = CliRunner().invoke(main, ["view", run])
    assert done.exit_code == 0, done.output
    assert found == [{two[0]} if apart else set(two)]


@pytest.mark.long
@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("command", "where"),
    [
        (["fly", "f16", "--headless"], "its own"),
        (["run", "orbit", "--view", "--headless", "--quiet"], "its own"),
        (["run", "orbit", "--pace", "1"], "any"),
    ],
)
def test_commands_with_a_window_ask_for_it(
    two: list[int], tmp_path: Path, command: list[str], where: str
) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "rtsim", *command, "--until", "0.2", "--json", "--no-record"],
        cwd=tmp_path, check=True, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    items = json.loads(done.stdout)["certificate"]["scheduling"]
    granted = {item["name"]: item["granted"] for item in items}
    assert granted["CPUs"] == (str(two[1]) if where == "its own" else f"{two[0]}, {two[1]}")
