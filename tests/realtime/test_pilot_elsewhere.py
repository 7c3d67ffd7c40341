"""Viewers at another machine, and windows opened again: whatever they do, the run is the same."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from rtsim.core.clock import stopwatch
from rtsim.core.net.sockets import keys_of
from rtsim.core.tag import NS_PER_S
from rtsim.engine.commands.commands import Inbox
from rtsim.gateway.registry import VIEWED, runs
from rtsim.pilot.loop import Cockpit
from rtsim.pilot.processes import RelayProcess, ViewerError, ViewerProcess, Window
from rtsim.record.file import FileRecorder
from rtsim.record.reading import Recording
from rtsim.runs.simulation import Pace, Progress, simulate
from rtsim.scenario.loading import load_scenario
from rtsim.timing.policy import CatchUp

pytestmark = [
    pytest.mark.live,
    pytest.mark.skipif(sys.platform == "win32", reason="signals"),
]
SECONDS, MIDDLE_NS = 1.2, 400_000_000
PATIENT = Pace(1.0, policy=CatchUp(max_frames=100_000))
PATIENCE_S = 30.0
HIDDEN = ("--headless", "--size", "320x180")


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("keys") / "view.keys"
    keys_of(path)
    return path


@pytest.fixture
def endpoint() -> str:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return f"tcp://127.0.0.1:{taken.getsockname()[1]}"


@pytest.fixture
def started() -> Iterator[list[subprocess.Popen[str]]]:
    """Whatever a test starts, gone afterwards."""
    processes: list[subprocess.Popen[str]] = []
    yield processes
    for process in processes:
        process.kill()
        process.communicate()


def rtsim(*arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "rtsim", *arguments],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip


def until(true: Callable[[], object], what: str) -> None:
    end = stopwatch() + round(PATIENCE_S * NS_PER_S)
    while not true():
        assert stopwatch() < end, f"{what}: not within {PATIENCE_S:g} s"
        time.sleep(0.01)


def alone(path: Path) -> str:
    simulate(
        load_scenario("f16-by-hand", {"step": "0.01"}), until=SECONDS, inbox=Inbox(),
        recorder=FileRecorder(path, stopwatch),
    )  # fmt: skip
    return Recording.open(path).digest()


def flood(endpoint: str, keys: Path) -> subprocess.Popen[str]:
    """Somebody with the right keys says what nobody would, as fast as can be; and raw bytes."""
    program = (
        "import socket, sys; from pathlib import Path\n"
        "from rtsim.core.net.keys import Keys; from rtsim.core.net.sockets import Caller\n"
        "from rtsim.pilot.remote import Format\n"
        "host, port = sys.argv[1][6:].split(':')\n"
        "raw = socket.create_connection((host, int(port)))\n"
        "raw.sendall(bytes(range(256)) * 40)\n"
        "c = Caller(sys.argv[1], Keys.load(Path(sys.argv[2])))\n"
        "hello = Format(None).hello()\n"
        "print('begun', flush=True)\n"
        "while True: c.send(b'RTPV' + bytes(500)); c.send(b''); c.send(hello); c.receive(0)\n"
    )
    return subprocess.Popen(
        [sys.executable, "-c", program, endpoint, f"{keys}.client"],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip


@pytest.mark.long
@pytest.mark.parametrize(
    "what",
    [
        "viewer killed",
        *(
            pytest.param(w, marks=pytest.mark.full)
            for w in ("nothing", "viewer stopped", "flood", "relay killed", "relay stopped")
        ),
    ],
)
def test_the_trace_is_that_of_a_run_without_one(
    tmp_path: Path, what: str, keys: Path, endpoint: str, started: list[subprocess.Popen[str]]
) -> None:
    scenario = load_scenario("f16-by-hand", {"step": "0.01"})
    recorder = FileRecorder(tmp_path / "run.mcap", stopwatch)
    with (
        Cockpit(scenario, "stick", {"scene": "f16"}) as cockpit,
        RelayProcess(cockpit.shared.path, endpoint, keys) as relay,
    ):
        viewer = rtsim("view", endpoint, "--keys", f"{keys}.client", *HIDDEN)
        started.append(viewer)
        stick = cockpit.shared.reader("stick")
        done: list[str] = []

        def observe(progress: Progress) -> None:
            if done or progress.ns < MIDDLE_NS:
                return
            until(lambda: stick.number > 2, "the viewer says where its stick is")
            done.append(what)
            if what == "flood":
                started.append(flood(endpoint, keys))
                assert started[-1].stdout is not None
                assert started[-1].stdout.readline() == "begun\n"
            elif what != "nothing":
                whom, how = what.split()
                pid = viewer.pid if whom == "viewer" else relay.pid
                os.kill(pid, signal.SIGKILL if how == "killed" else signal.SIGSTOP)

        simulate(
            scenario, until=SECONDS, pace=PATIENT, recorder=recorder, observe=observe,
            publisher=cockpit.pictures, inbox=cockpit.inbox,
        )  # fmt: skip
        assert done
        reached = cockpit.figures.viewer()
    assert not relay.running
    assert Recording.open(tmp_path / "run.mcap").digest() == alone(tmp_path / "alone.mcap")
    if what in ("nothing", "flood"):
        assert viewer.wait(PATIENCE_S) == 0
        assert viewer.stdout is not None
        assert "the run has ended" in viewer.stdout.read()
        assert reached["wall"] >= 0
    assert (relay.skipped > 0) == (what == "flood")


@pytest.mark.long
def test_a_window_is_opened_again_after_the_first_one_was_killed(tmp_path: Path) -> None:
    """And has the stick then; the run notices neither."""
    scenario = load_scenario("f16-by-hand", {"step": "0.01"})
    window = Window(headless=True, size="320x180")
    with Cockpit(scenario, "stick", {"scene": "f16"}) as cockpit:
        stick = cockpit.shared.reader("stick")

        def who() -> int:
            record = stick.read()
            return 0 if record is None else int(record.integers[-1])

        with ViewerProcess(cockpit.shared.path, window) as first:
            opened: list[ViewerProcess] = []

            def observe(progress: Progress) -> None:
                if opened or progress.ns < MIDDLE_NS:
                    return
                until(who, "the first one has the stick")
                before = who()
                os.kill(first.pid, signal.SIGSTOP)
                opened.append(ViewerProcess(cockpit.shared.path, window).__enter__())
                until(lambda: who() != before, "the second one has the stick")
                assert first.running

            simulate(
                scenario, until=SECONDS, pace=PATIENT, observe=observe, inbox=cockpit.inbox,
                publisher=cockpit.pictures, recorder=FileRecorder(tmp_path / "a.mcap", stopwatch),
            )  # fmt: skip
            opened[0].__exit__()
    assert Recording.open(tmp_path / "a.mcap").digest() == alone(tmp_path / "b.mcap")


@pytest.fixture
def runtime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("RTSIM_RUNTIME_DIR", str(tmp_path / "runtime"))
    monkeypatch.chdir(tmp_path)
    return tmp_path / "runtime" / "viewed"


def entered(runtime: Path) -> bool:
    return runtime.is_dir() and any(runtime.glob("*.json"))


def test_a_run_is_found_and_viewed_and_its_windows_end_with_it(
    tmp_path: Path, runtime: Path, started: list[subprocess.Popen[str]]
) -> None:
    """Killed, so that nobody says good-bye."""
    started.append(rtsim("run", "orbit", "--until", "600", "--no-record", "--view", *HIDDEN))
    until(lambda: entered(runtime), "the run is entered")
    pictures = tmp_path / "pictures"
    started.append(rtsim("view", "orbit", *HIDDEN, "--frames", str(pictures), "--every", "0.1"))
    until(lambda: pictures.is_dir() and len(list(pictures.iterdir())) > 2, "it is drawn")
    (shared,) = (Path(line.endpoint) for line in runs(VIEWED))
    started[0].kill()
    started[0].wait()
    out, _ = started[1].communicate(timeout=PATIENCE_S)
    assert started[1].returncode == 0, out
    assert out.endswith(("the run was killed\n", "the run has ended\n"))
    assert runs(VIEWED) == []
    assert not shared.exists()


@pytest.mark.long
def test_a_run_is_served_to_another_machine(
    keys: Path, endpoint: str, runtime: Path, started: list[subprocess.Popen[str]]
) -> None:
    served = ("--view", endpoint, "--view-keys", str(keys))
    started.append(rtsim("run", "orbit", "--until", "5", "-o", "run.mcap", *served))
    until(lambda: entered(runtime), "the run is entered")
    hidden = (*HIDDEN, "--frames", "pictures", "--every", "0.1")
    started.append(rtsim("view", endpoint, "--keys", f"{keys}.client", *hidden))
    out, _ = started[1].communicate(timeout=PATIENCE_S)
    assert started[1].returncode == 0, out
    assert out == "the run has ended\n"
    assert any(Path("pictures").iterdir())
    out, _ = started[0].communicate(timeout=PATIENCE_S)
    assert started[0].returncode == 0, out
    assert "window: " in out
    assert not entered(runtime)


@pytest.mark.long
def test_a_served_run_that_is_killed_leaves_nothing_and_its_windows_end_with_it(
    tmp_path: Path,
    keys: Path,
    endpoint: str,
    runtime: Path,
    started: list[subprocess.Popen[str]],
) -> None:
    served = ("--view", endpoint, "--view-keys", str(keys))
    started.append(rtsim("run", "orbit", "--until", "600", "--no-record", *served))
    until(lambda: entered(runtime), "the run is entered")
    (shared,) = (Path(line.endpoint) for line in runs(VIEWED))
    pictures = tmp_path / "pictures"
    hidden = (*HIDDEN, "--frames", str(pictures), "--every", "0.1")
    started.append(rtsim("view", endpoint, "--keys", f"{keys}.client", *hidden))
    until(lambda: pictures.is_dir() and any(pictures.iterdir()), "it is drawn")
    started[0].kill()
    started[0].wait()
    out, _ = started[1].communicate(timeout=PATIENCE_S)
    assert started[1].returncode == 0, out
    assert out.endswith(("the run was killed\n", "the run has ended\n"))
    until(lambda: not shared.exists(), "its file is removed")


def test_an_address_that_is_taken_is_told(keys: Path, endpoint: str) -> None:
    scenario = load_scenario("orbit", {})
    host, port = endpoint.removeprefix("tcp://").split(":")
    with Cockpit(scenario) as cockpit, socket.socket() as taken:
        taken.bind((host, int(port)))
        taken.listen()
        with pytest.raises(ViewerError, match=r"cannot listen at tcp://127\.0\.0\.1"):
            RelayProcess(cockpit.shared.path, endpoint, keys).__enter__()
