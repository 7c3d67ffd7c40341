"""A real viewer beside a real run: closed, killed, stopped, flooding, it changes nothing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from rtsim.core.clock import stopwatch
from rtsim.core.errors import RtsimError
from rtsim.engine.commands.commands import Inbox
from rtsim.pilot.loop import Cockpit
from rtsim.pilot.processes import ViewerError, ViewerProcess, Window
from rtsim.pilot.shared import Shared
from rtsim.record.file import FileRecorder
from rtsim.record.reading import Recording
from rtsim.runs.simulation import Pace, Progress, simulate
from rtsim.scenario.loading import load_scenario
from rtsim.timing.policy import CatchUp

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals")
SECONDS = 2.0
HIDDEN = Window(headless=True, size="320x180")
PATIENT = Pace(1.0, policy=CatchUp(max_frames=100_000))


def fly(path: Path, meanwhile: Callable[[int], object] | None = None) -> Recording:
    """With a viewer, to whom something happens in the middle; without one where nothing does."""
    scenario = load_scenario("f16-by-hand", {"step": "0.01"})
    recorder = FileRecorder(path, stopwatch)
    if meanwhile is None:
        simulate(scenario, until=SECONDS, pace=PATIENT, recorder=recorder, inbox=Inbox())
        return Recording.open(path)
    with (
        Cockpit(scenario, "stick", {"scene": "f16"}) as cockpit,
        ViewerProcess(cockpit.shared.path, HIDDEN) as viewer,
    ):
        done: list[int] = []

        def observe(progress: Progress) -> None:
            if progress.ns > 500_000_000 and not done:
                done.append(viewer.pid)
                meanwhile(viewer.pid)

        simulate(
            scenario,
            until=SECONDS,
            pace=PATIENT,
            recorder=recorder,
            publisher=cockpit.pictures,
            inbox=cockpit.inbox,
            observe=observe,
        )
        assert done
    return Recording.open(path)


def flood(pid: int) -> None:  # noqa: ARG001
    """Somebody writes the viewer's records, as fast as can be, and what nobody would write."""
    program = (
        "import sys, random; from pathlib import Path; from rtsim.pilot.shared import Shared\n"
        "s = Shared.open(Path(sys.argv[1])); n = 0\n"
        "w = [s.writer('viewer'), s.writer('orders')]\n"
        "while n < 200000:\n"
        "    n += 1\n"
        "    for x in w: x.integers[1:] = -n; x.floats[:] = float('nan'); x.publish()\n"
    )
    newest = max(Path("/dev/shm").glob("rtsim-pilot-*"), key=lambda p: p.stat().st_mtime)
    FLOODS.append(subprocess.Popen([sys.executable, "-c", program, str(newest)]))


FLOODS: list[subprocess.Popen[bytes]] = []


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> str:
    return fly(tmp_path_factory.mktemp("alone") / "run.mcap").digest()


@pytest.mark.live
@pytest.mark.long
@pytest.mark.parametrize(
    "meanwhile",
    [
        pytest.param(lambda pid: os.kill(pid, 0), id="nothing"),
        pytest.param(lambda pid: os.kill(pid, signal.SIGKILL), id="killed"),
        pytest.param(lambda pid: os.kill(pid, signal.SIGSTOP), id="stopped"),
        pytest.param(flood, id="flooded"),
    ],
)
def test_the_trace_is_that_of_a_run_without_one(
    tmp_path: Path, alone: str, meanwhile: Callable[[int], object]
) -> None:
    if meanwhile is flood and not Path("/dev/shm").is_dir():
        pytest.skip("where shared files lie is not known here")
    try:
        assert fly(tmp_path / "run.mcap", meanwhile).digest() == alone
    finally:
        for process in FLOODS:
            process.kill()
            process.wait()
        FLOODS.clear()


@pytest.mark.realtime  # it draws at a rate
def test_it_draws_and_says_how_it_does(tmp_path: Path) -> None:
    """Pictures are saved, none of them black, and frames are counted."""
    scenario = load_scenario("f16-by-hand", {"step": "0.01"})
    window = Window(True, tmp_path / "pictures", 0.5, size="320x180")
    with Cockpit(scenario, "stick", {"scene": "f16", "plant": "f16"}) as cockpit:
        with ViewerProcess(cockpit.shared.path, window):
            simulate(
                scenario, until=SECONDS, pace=PATIENT, publisher=cockpit.pictures,
                inbox=cockpit.inbox,
            )  # fmt: skip
        figures = cockpit.latencies()
    assert figures["frames"] > 10
    pictures = sorted((tmp_path / "pictures").iterdir())
    assert len(pictures) >= 2
    import pygame

    for path in pictures:
        pixels = pygame.surfarray.array3d(pygame.image.load(path))
        assert pixels.std() > 20


@pytest.mark.live
def test_it_does_not_outlive_a_simulation_that_was_killed(tmp_path: Path) -> None:
    program = (
        "from rtsim.scenario.loading import load_scenario; from rtsim.pilot.loop import Cockpit\n"
        "from rtsim.pilot.processes import ViewerProcess, Window; import sys\n"
        "with Cockpit(load_scenario('f16-by-hand'), 'stick') as c:\n"
        "    with ViewerProcess(c.shared.path, Window(True)) as v:\n"
        "        print(v.pid, c.shared.path, flush=True); sys.stdin.read()\n"
    )
    child = subprocess.Popen(
        [sys.executable, "-c", program],
        cwd=tmp_path, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert child.stdout is not None
    pid, path = child.stdout.readline().split()
    child.kill()
    child.communicate()
    assert gone(int(pid))
    until = stopwatch() + 10**10
    while Path(path).exists() and stopwatch() < until:
        pass
    assert not Path(path).exists()  # its memory is not kept either


def gone(pid: int) -> bool:
    until = stopwatch() + 10**10
    while stopwatch() < until:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        state = Path(f"/proc/{pid}/stat")
        if state.exists() and state.read_text().rpartition(")")[2].split()[0] == "Z":
            return True
    return False


@pytest.mark.live
@pytest.mark.parametrize(
    ("window", "told"),
    [
        (Window(), "there is no display.*--headless --frames"),
        (Window(headless=True, mapping=Path("none.toml")), r"none\.toml"),
    ],
)
def test_a_viewer_that_cannot_open_says_why(
    monkeypatch: pytest.MonkeyPatch, window: Window, told: str
) -> None:
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "SDL_VIDEODRIVER"):
        monkeypatch.delenv(name, raising=False)
    if sys.platform != "linux" and not window.headless:
        pytest.skip("there is always a display")
    scenario = load_scenario("f16-by-hand", {})
    with Cockpit(scenario, "stick") as cockpit:
        with pytest.raises(ViewerError, match=told):
            ViewerProcess(cockpit.shared.path, window).__enter__()
        cockpit.shared.close()
        with pytest.raises(RtsimError, match="perhaps the run has ended"):
            Shared.open(cockpit.shared.path)
