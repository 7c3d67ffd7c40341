"""The channel to a run in progress: real processes, real sockets, hostile clients.

The pipe between the loop and its gateway: messages whole, bounded, and nobody waits.

What a client may ask a gateway: anything else is refused before it is believed.

A run with more values than a live run can show: those are left out, and it says so.
"""

from __future__ import annotations

import os
import random
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgpack
import numpy as np
import pytest
from click.shell_completion import ShellComplete
from gateway_parts import live

from rtsim.cli.main import main
from rtsim.core.clock import stopwatch
from rtsim.core.errors import RtsimError, ScenarioError
from rtsim.core.net.messagepack import pack
from rtsim.core.net.sockets import Caller
from rtsim.core.signals import Signal, Signals, Vector
from rtsim.equations.model import Model
from rtsim.gateway import publishing as catalogues
from rtsim.gateway.client import (
    NEXT_TAG,
    VERSION,
    ControlError,
    RequestError,
    connect,
    read_request,
)
from rtsim.gateway.loop import Gateway
from rtsim.gateway.pipe import MOST_BYTES, Pipe, PipeError
from rtsim.gateway.publishing import MOST_VALUES, Sampler, StateTable, catalogue, decode_sample
from rtsim.models import unstable
from rtsim.record.comparison import compare, compare_exact
from rtsim.record.reading import Recording
from rtsim.record.recorders import MemoryRecorder
from rtsim.runs.replay import rerun
from rtsim.runs.simulation import Progress, simulate
from rtsim.scenario.scenario import Scenario
from rtsim.timing.frames import Tally


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
def test_a_client_finds_reads_commands_and_ends_a_run() -> None:
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
def test_commands_to_a_live_run_replay_bit_for_bit(going: Going) -> None:
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


def _pair() -> tuple[Pipe, Any]:
    a, b = socket.socketpair()
    b.setblocking(False)
    return Pipe(a, most_waiting=3 * MOST_BYTES), b


def test_a_pipe_takes_messages_in_any_pieces() -> None:
    pipe, far = _pair()
    data = b"".join(len(p := pack({"k": k})).to_bytes(4, "little") + p for k in range(20))
    found = []
    for byte in data:
        far.send(bytes([byte]))
        found += pipe.receive()
    assert found == [{"k": k} for k in range(20)]
    far.close()
    assert pipe.receive() == []
    assert pipe.gone
    pipe.close()


@pytest.mark.parametrize("data", [b"\xff\xff\xff\xff", b"\x01\x00\x00\x00\xc1"])
def test_a_pipe_refuses_bytes_that_are_no_message(data: bytes) -> None:
    pipe, far = _pair()
    far.send(data)
    with pytest.raises(PipeError):
        pipe.receive()
    pipe.close()
    far.close()


def test_a_pipe_never_waits_for_an_end_that_takes_nothing() -> None:
    pipe, far = _pair()
    sent = 0
    while pipe.send({"x": bytes(100_000)}):
        sent += 1
        assert sent < 100
    assert pipe.busy
    pipe.close()
    far.close()


def test_no_more_than_a_tag_takes_is_taken_at_once() -> None:
    """The rest waits its turn, whether more comes or not."""
    ours, theirs = socket.socketpair()
    near, far = Pipe(ours), Pipe(theirs)
    for k in range(10):
        assert far.send({"k": k, "load": "x" * 1000})
    seen: list[int] = []
    while not seen or near.more:
        assert near.wait(0.0)
        took = [message["k"] for message in near.receive(2500)]
        assert len(took) <= 3
        seen += took
    assert seen == list(range(10))
    assert not near.wait(0.0)
    near.close()
    far.close()


BAD: list[object] = [
    None, 3, [], {"id": -1}, {"id": True, "v": VERSION}, {"id": 1, "v": VERSION + 1},
    {"id": 1, "v": VERSION, "do": "eval"},
    {"id": 1, "v": VERSION, "do": "get", "names": "x"},
    {"id": 1, "v": VERSION, "do": "get", "names": [1]},
    {"id": 1, "v": VERSION, "do": "get", "names": ["x"] * 2000},
    {"id": 1, "v": VERSION, "do": "watch", "rate": -1},
    {"id": 1, "v": VERSION, "do": "watch", "rate": 1e9},
    {"id": 1, "v": VERSION, "do": "command", "command": 1},
    {"id": 1, "v": np.ones(2)}, {"id": 1, "v": VERSION, "do": np.ones(2)}, {"id": np.ones(2)},
    {"id": 1, "v": True}, {"id": 1, "v": VERSION, "do": b"get"},
    {"id": 2**63, "v": VERSION}, {"id": 1, "v": VERSION, "do": "get", "names": ["x" * 300]},
    *({"id": 1, "v": VERSION, "do": "get", "jobs_after": x} for x in ("x", True, 1.5, [1])),
]  # fmt: skip


@pytest.mark.parametrize("said", BAD)
def test_requests_that_are_none(said: object) -> None:
    with pytest.raises(RequestError):
        read_request(pack(said) if not _wide(said) else msgpack.packb(said))


def _wide(said: object) -> bool:
    return isinstance(said, dict) and type(said.get("id")) is int and said["id"] >= 2**63


def test_bytes_that_are_no_request() -> None:
    chance = random.Random(3)
    for _ in range(3000):
        with pytest.raises(RequestError):
            read_request(chance.randbytes(chance.randrange(100)))
    deep: Any = 1
    for _ in range(50):
        deep = [deep]
    with pytest.raises(RequestError, match="deeper"):
        read_request(msgpack.packb(deep))
    with pytest.raises(RequestError, match="cut off"):
        read_request(b"\xdd\xff\xff\xff\xff")


MANY = 120_000


def decay(t: float, x: Vector, z: Vector, u: Vector, p: Vector, dx: Vector) -> None:  # noqa: ARG001
    dx[:] = -x


def scenario(*sizes: int) -> Scenario:
    """A plant of three states, and sources of so many values."""
    out = Scenario("large", until=1000)
    states = Signals(Signal("x", shape=(3,), initial=(1.0, 1.0, 1.0)))
    out.plant("plant", Model("plant", states, decay), step=0.05, solver="rk4")
    for k, many in enumerate(sizes):
        out.source(f"s{k}", Signals(Signal("v", shape=(many,))))
    return out


@pytest.mark.live
def test_a_part_of_more_values_than_can_be_shown_is_left_out_and_the_rest_is_there() -> None:
    with live(scenario(MANY)) as run:
        assert run.left_out == {"s0": MANY, "s0.v": MANY}
        assert list(run.signals) == ["plant.x_0", "plant.x_1", "plant.x_2"]
        assert 0 < float(np.sum(run.get("plant.x_0"))) <= 1
        with pytest.raises(ControlError, match="because s0 has too many values"):
            run.get("s0.v_7")
        run.pause()
        assert run.status.standing


@pytest.mark.live
def test_a_run_of_which_nothing_can_be_shown_can_be_held_and_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Pipe, "fits", lambda *_: False)
    with live(scenario()) as run:
        assert run.left_out == {"all of it": 3}
        assert list(run.signals) == []
        run.pause()
        assert run.status.standing


def test_listed_signals_are_those_that_can_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts are left out whole, by their number of values and by the bytes of their names."""
    system = scenario(MOST_VALUES - 2, 2, MOST_VALUES - 4).build(compile=False)
    for k in range(3):
        system.ports[f"s{k}"].value[:] = k
    listed = catalogue(system)
    assert list(listed["left_out"]) == ["s2.v", "s0", "s2"]
    assert [row["name"] for row in listed["signals"]] == [
        "plant.x_0", "plant.x_1", "plant.x_2", "s1.v_0", "s1.v_1"]  # fmt: skip
    values = decode_sample(Sampler(system, Tally([])).take(vars(StateTable())), 0).values
    assert values.tolist() == [1.0, 1.0, 1.0, 1.0, 1.0]
    assert [row["name"] for row in listed["parameters"]] == ["s0.v", "s1.v"]
    monkeypatch.setitem(catalogues._MOST_BYTES, "signals", 150)
    assert list(catalogue(system)["left_out"]) == ["s2.v", "s0", "s1", "s2"]


def test_clients_read_the_states_of_the_tasks_of_a_processor() -> None:
    loop = Scenario("tasks", until=0.0115)
    loop.processor("mcu")
    loop.task("fast", "mcu", period=0.004, execution=0.001)
    loop.task("logger", "mcu", period=0.01, execution=0.004, priority=1)
    run = simulate(loop)
    names = [row["name"] for row in catalogue(run.system)["signals"]]
    values = decode_sample(Sampler(run.system, Tally([])).take(vars(StateTable())), 0).values
    assert dict(zip(names, values, strict=True)) == {"mcu.fast": 0.0, "mcu.logger": 1.0}


def test_a_pipe_counts_the_bytes_that_its_other_end_takes() -> None:
    """Too many bytes, too many values."""
    pipe = Pipe.__new__(Pipe)
    assert pipe.fits({"run": [1] * 1000})
    assert not pipe.fits({"run": [1] * 100_001})
    assert not pipe.fits({"run": "x" * (1 << 20)})
