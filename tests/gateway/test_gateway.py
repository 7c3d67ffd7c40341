"""The channel to a run in progress: real processes, real sockets, hostile clients."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.shell_completion import ShellComplete
from gateway_parts import live

from rtsim.cli.main import main
from rtsim.core.clock import stopwatch
from rtsim.core.errors import RtsimError, ScenarioError
from rtsim.core.net.messagepack import pack
from rtsim.core.net.sockets import Caller
from rtsim.gateway.client import NEXT_TAG, VERSION, ControlError, connect
from rtsim.gateway.loop import Gateway
from rtsim.models import unstable
from rtsim.record.comparison import compare, compare_exact
from rtsim.record.reading import Recording
from rtsim.record.recorders import MemoryRecorder
from rtsim.runs.replay import rerun
from rtsim.runs.simulation import Progress, simulate


@pytest.fixture(autouse=True)
def _apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RTSIM_RUNTIME_DIR", str(tmp_path))


class Going:
    """A run in a process of its own, until it is told to quit."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "live.mcap"
        command = [
            sys.executable, "-m", "rtsim", "run", "unstable", "--plain", "--control",
            "--pace", "1.0", "--until", "100000", "--overrun", "slip:1000000", "-o", str(self.path),
        ]  # fmt: skip
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL)

    def ended(self) -> int:
        return self.process.wait(30)


@pytest.fixture
def going(tmp_path: Path) -> Iterator[Going]:
    run = Going(tmp_path)
    try:
        yield run
        if run.process.poll() is None:
            with connect("unstable") as known:
                known.quit()
        assert run.ended() == 130, "it was to fly on"
    finally:
        run.process.kill()


def _connected() -> Any:
    for _ in range(1200):
        try:
            return connect("unstable")
        except (ScenarioError, ControlError):
            time.sleep(0.05)
    raise AssertionError("the run cannot be reached")


@pytest.mark.live
@pytest.mark.usefixtures("going")
def test_a_run_is_found_looked_at_told_and_ended() -> None:
    with _connected() as run:
        assert run.scenario == "unstable"
        assert run.signals["plant.x"] == "m"
        assert {p["name"] for p in run.parameters} >= {"plant.stiffness", "controller.integral"}
        before = run.status
        assert run.status.ns >= before.ns
        run.pause()
        standing = run.status
        assert standing.standing
        assert run.status.ns == standing.ns, "time stands"
        x, v = run.get("plant.x", "plant.v")
        assert isinstance(x, float) and isinstance(v, float)  # noqa: PT018
        assert run.set("plant.stiffness", 2.5) == NEXT_TAG
        with pytest.raises(ControlError, match="unknown value"):
            run.set("plant.stiffnes", 2.5)
        with pytest.raises(ControlError, match="unknown signal"):
            run.get("plant.y")
        run.step(duration=0.5)
        run.rate("max")
        run.resume()
        samples = run.watch("plant.x", rate=50)
        taken = [next(samples) for _ in range(3)]
        samples.close()
        assert taken[0].state.ns < taken[2].state.ns
        run.rate(1.0)
        run.mark("seen")
        assert "plant.stiffness" in run._repr_html_()
        assert run.get("plant.stiffness") == 2.5


@pytest.mark.live
def test_what_a_live_run_was_told_replays_bit_for_bit(going: Going) -> None:
    before = stopwatch()
    with _connected() as run:
        chance = random.Random(1)
        for _ in range(60):
            choice = chance.randrange(4)
            if choice == 0:
                run.set("plant.stiffness", chance.uniform(1.0, 3.0))
            elif choice == 1:
                run.inject("controller", chance.uniform(-1.0, 1.0))
            elif choice == 2:
                run.rate(chance.choice(["max", 1.0, 50.0]))
            else:
                run.mark("here")
        run.quit()
    after = stopwatch()
    assert going.ended() == 130, "it was to fly on"
    recording = Recording.open(going.path)
    assert recording.footer is not None
    assert recording.footer["reason"] == "quit"
    told = [e for e in recording.events if e.kind == "Command"]
    assert len(told) == 61
    stamps = [(int(e.values["initiated"]), int(e.values["completed"])) for e in told]
    assert all(before < initiated <= completed < after for initiated, completed in stamps)
    assert sorted(stamps) == stamps, "they act in the order in which they were told"
    assert compare_exact(recording, rerun(recording)) is None


@pytest.mark.live
def test_a_command_is_initiated_completed_and_arrives_in_that_order() -> None:
    """A tag is its arrival: done after it was completed, and what the client is told."""
    done: dict[int, int] = {}
    recorder = MemoryRecorder()
    told: list[tuple[int, int, int]] = []

    def observe(progress: Progress) -> None:
        done[progress.ns] = stopwatch()

    flown = unstable.scenario(until=1000)
    with live(flown, recorder=recorder, observe=observe) as run:
        for k in range(20):
            before = stopwatch()
            told.append((before, run.mark(f"{k}"), stopwatch()))
    marks = [e for e in recorder.recording().events if e.source == "mark"]
    assert len(marks) == 20
    for event, (before, ns, after) in zip(marks, told, strict=True):
        initiated, completed = int(event.values["initiated"]), int(event.values["completed"])
        assert event.tag.ns == ns
        assert before <= initiated <= completed
        assert completed <= (done[ns] if ns else after)  # tag 0 is over before any is observed
        assert completed <= after


@pytest.mark.live
def test_a_live_run_goes_back_over_the_channel_and_each_leg_replays(going: Going) -> None:
    with _connected() as run:
        with pytest.raises(ControlError, match="--rewind SECONDS"):
            run.restore()
        kept = run.checkpoint()
        run.set("plant.stiffness", 2.5)
        run.pause()
        left = run.restore()
        assert run.status.leg == 2
        assert run.status.standing, "it stood, and stands"
        assert run.status.ns == kept
        assert run.get("plant.stiffness") == 2.0, "what was set is undone"
        assert str(run.about["recording"]).endswith("live.2.mcap")
        run.resume()
        run.step(duration=0.3)
        run.quit()
    assert going.ended() == 130, "it was to fly on"
    first, second = (Recording.open(going.path.with_name(n)) for n in ("live.mcap", "live.2.mcap"))
    assert first.footer is not None
    assert (first.footer["reason"], first.footer["restored"], first.end_ns) == (
        "restored", kept, left)  # fmt: skip
    assert second.header["continues"]["ns"] == kept
    for recording in (first, second):
        assert compare_exact(recording, rerun(recording)) is None


@pytest.mark.live
@pytest.mark.usefixtures("going")
def test_names_are_completed_from_the_run() -> None:
    _connected().close()
    for words, names in (
        ("ctl get plant.", {"plant.x", "plant.v"}), ("ctl set plant.st", {"plant.stiffness"}),
        ("ctl inject contr", {"controller"}), ("ctl get nothing", set()),
    ):  # fmt: skip
        typed = words.split()
        found = ShellComplete(main, {}, "rtsim", "").get_completions(typed[:-1], typed[-1])
        assert names <= {c.value for c in found}
        assert all(c.value.startswith(typed[-1]) for c in found)


@pytest.mark.live
@pytest.mark.usefixtures("going")
def test_hostile_clients_do_not_reach_the_run() -> None:
    with _connected() as run:
        endpoint = run._caller.endpoint
        chance = random.Random(2)
        hostile = [Caller(endpoint) for _ in range(4)]
        for k in range(2000):
            hostile[k % 4].send(chance.randbytes(chance.randrange(1200)))
            hostile[k % 4].send(
                pack({"v": VERSION, "id": k, "do": "get", "names": ["plant.x"] * 50})
            )
        for caller in hostile[:2]:
            caller.close()  # in the midst of it
        assert run.status.ns > 0
        run.mark("still there")
        for caller in hostile[2:]:
            caller.close()


@pytest.mark.live
def test_a_gateway_that_dies_leaves_the_run_alone() -> None:
    recorder, gateway = MemoryRecorder(), Gateway({"scenario": "unstable"})
    with gateway as inbox:
        os.kill(gateway.pid, 9)
        outcome = simulate(unstable.scenario(until=1), recorder=recorder, inbox=inbox)
    plain = MemoryRecorder()
    simulate(unstable.scenario(until=1), recorder=plain)
    assert outcome.reason == "end"
    assert inbox.trouble == "the gateway process has ended"
    (event,) = [e for e in recorder.recording().events if e.kind == "Unreachable"]
    assert event.text == inbox.trouble
    assert compare(plain.recording(), recorder.recording()).ok


def test_only_loopback_without_keys() -> None:
    with pytest.raises(RtsimError, match="rtsim keys"):
        Caller("tcp://192.0.2.1:5555")
