"""Models with delays: both engines, guards, resets, checkpoints, prepared runs."""

# ruff: noqa: ARG001

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from delay_parts import S, by_steps, decay, ran, single

from rtsim import (
    Delayed,
    Fixed,
    Guard,
    Model,
    PythonController,
    Scenario,
    Signals,
    compiled,
    simulate,
)
from rtsim.core.signals import Vector
from rtsim.engine.checkpoint.file import Ring
from rtsim.engine.checkpoint.schedule import CheckpointSchedule
from rtsim.record.reading import Recording
from rtsim.record.recorders import MemoryRecorder
from rtsim.runs.prepared import prepare
from rtsim.solve import Solver


def loop(t: float, x: Vector, z: Vector, u: Vector, p: Vector, dx: Vector) -> None:
    dx[0] = u[0] - p[1] * u[1]
    dx[1] = x[0]


def shown(t: float, x: Vector, z: Vector, u: Vector, p: Vector, y: Vector) -> None:
    y[0] = u[1]


def low(t: float, x: Vector, z: Vector, u: Vector, p: Vector, g: Vector) -> None:
    g[0] = u[1] - 0.2


def kick(i: int, t: float, x: Vector, z: Vector, u: Vector, p: Vector) -> None:
    x[0] = x[0] + 0.5 * u[1]


def note(t: float, x: Vector, z: Vector, u: Vector, p: Vector) -> None:
    z[0] = u[1]


@compiled
def law(t: float, u: Vector, s: Vector, p: Vector, y: Vector) -> None:
    y[0] = 0.3 - 0.5 * u[0]


LOOP = Model(
    "loop",
    states=Signals("x = 1", "q"),
    discrete=Signals("noted"),
    inputs=Signals("force"),
    outputs=Signals("late"),
    parameters=Signals("tau = 0.35", "k = 2"),
    derivative=loop,
    output=shown,
    update=note,
    guards=(Guard("low", direction=-1),),
    guard=low,
    reset=kick,
    delays=(Delayed("x", "tau"),),
)


def in_the_loop(solver: str | Solver = "dp54") -> Scenario:
    out = Scenario("loop", until=6)
    wires = {"force": "brake.y"}
    out.plant("a", LOOP, step="1/20", solver=solver, inputs=wires, update_period="1/9")
    brake = PythonController(law, inputs=Signals("q"), outputs=Signals("y"), compile=True)
    out.controller("brake", brake, period="1/10", inputs={"q": "a.q"}, transport=Fixed("0.013"))
    return out


@cache
def looped(solver: str) -> Recording:
    return ran(in_the_loop(solver), compile=True, engine="interpreted")


@pytest.mark.sample(1)
@pytest.mark.parametrize("solver", ["rk4", "abm4", "dp54"])
def test_both_engines_and_plain_python(solver: str) -> None:
    interpreted = looped(solver)
    assert sum(event.kind == "Crossed" for event in interpreted.events) >= 1
    recorder = MemoryRecorder()
    run = simulate(in_the_loop(solver), recorder=recorder, engine="compiled")
    assert recorder.recording().digest() == interpreted.digest()
    tags = int(str(run.certificate.engine).split()[1])
    assert tags > 100  # the instants at which a guard fires are the interpreter's
    plain = ran(in_the_loop(solver))
    assert np.allclose(plain["a.x"], interpreted["a.x"], rtol=0, atol=1e-12)


def test_what_resets_and_updates_read() -> None:
    recording = looped("rk4")
    x, t = recording.track("a").column("x"), recording.track("a").ns / S
    crossing = next(e.tag.ns for e in recording.events if e.kind == "Crossed") / S
    before, behind = (recording.at(f"{crossing:.9f}", side)["a.x"] for side in ("-", "+"))
    assert abs(behind - before - 0.1) < 1e-6  # half of the delayed signal, which is 0.2
    late = recording.track("a").column("late")
    assert np.abs(late[t > 3] - np.interp(t[t > 3] - 0.35, t, x)).max() < 0.02


def test_a_run_goes_on_from_each_checkpoint() -> None:
    ring = Ring(5)
    whole = ran(in_the_loop(), compile=True, checkpoints=CheckpointSchedule(ring, every="1/2"))
    assert whole.digest() == looped("dp54").digest()
    for ns in (1 * S, 3 * S, 5 * S):
        kept = ring.before(ns)
        if kept is None:
            continue
        words = ran(in_the_loop(), compile=True, start=kept).tracks["a"].words
        assert np.array_equal(words, whole.tracks["a"].words[-len(words) :])


def test_prepared_runs() -> None:
    prepared = prepare(in_the_loop())
    assert not prepared.rebuilt
    wanted = in_the_loop()
    wanted.set("a.tau", 0.8)
    for _ in range(2):
        assert prepared.run().recording().digest() == looped("dp54").digest()
        late = prepared.run(set={"a.tau": 0.8}).recording().digest()
        assert late == ran(wanted, compile=True).digest()


def test_the_past_gets_as_much_room_as_it_needs() -> None:
    """2,000 steps within one lag, in both engines."""
    model = Model(
        "decay", states=Signals("x = 1"), derivative=decay, delays=(Delayed("x", 1.0, before=1.0),)
    )
    digests = set()
    for engine in ("interpreted", "compiled"):
        recording = ran(single(model, 3, "rk4", "1/2000"), compile=True, engine=engine)
        assert abs(recording["a.x"][-1] - by_steps(3)) < 1e-12
        digests.add(recording.digest())
    assert len(digests) == 1
