"""The compiled engine on the wall clock: its own waits, and its own overruns."""

from __future__ import annotations

import pytest
from engine_parts import PLANT
from engine_scenarios import GAIN, feedback

from rtsim import Model, PythonController, Scenario, Signal, Signals
from rtsim.engine.commands.commands import Inbox
from rtsim.engine.system import System
from rtsim.engine.trace import Trace
from rtsim.record.reading import Recording
from rtsim.record.recorders import MemoryRecorder
from rtsim.record.replay_comparison import compare_exact
from rtsim.runs.simulation import RunResult, simulate
from rtsim.timing.frames import REST
from rtsim.timing.pacing import Pacer

pytestmark = pytest.mark.realtime


def loop() -> Scenario:
    """A plant at 500 Hz and its controller at 100 Hz, for 1 s."""
    out = Scenario("loop", until=1)
    inputs: dict[str, str | float] = {"first": "law.u", "second": 0.0}
    out.plant("tank", PLANT, inputs=inputs, step="1/500", update_period="1/100")
    law = PythonController(
        feedback, Signals("m", "n"), Signals("u", "v"), parameters=GAIN, memory=Signals("sum"),
        compile=True,
    )  # fmt: skip
    out.controller("law", law, inputs={"m": "tank.a", "n": "tank.y"}, period="1/100")
    return out


def ran(scenario: Scenario, **options: object) -> tuple[RunResult, Recording]:
    recorder = MemoryRecorder()
    return simulate(scenario, recorder=recorder, **options), recorder.recording()  # type: ignore[arg-type]


def test_a_paced_run_keeps_its_rate_and_its_rows() -> None:
    fast, wanted = ran(loop(), engine="interpreted")
    paced, rows = ran(loop(), engine="compiled", pace=1.0)
    certificate = paced.certificate
    assert certificate.engine.startswith("compiled: ")
    assert int(certificate.engine.split()[1]) > 450
    assert compare_exact(wanted, rows) is None
    assert certificate.frames == certificate.compute.count >= 501
    assert certificate.lateness.count + certificate.not_waited == certificate.frames
    assert certificate.lateness.min is not None
    assert certificate.lateness.min >= 0
    assert paced.wall_ns >= 1e9 * 0.99 > fast.wall_ns
    timing = rows.track("timing")
    assert len(timing.ns) == certificate.frames - 1  # the last frame ends after its row
    assert (timing.integer("compute") > 0).all()


class Watched(Inbox):
    """An inbox whose clients want to see the run 25 times per second; it counts the looks."""

    looks = 0

    def attach(self, system: System, pacer: Pacer, trace: Trace) -> None:
        super().attach(system, pacer, trace)
        self.period_ns = 40_000_000

    def after(self, ns: int, standing: bool) -> None:
        super().after(ns, standing)
        self.looks += 1


def test_clients_see_a_compiled_run_as_often_as_they_want() -> None:
    watched = Watched()
    paced, _ = ran(loop(), engine="compiled", pace=1.0, inbox=watched)
    assert int(paced.certificate.engine.split()[1]) > 300
    assert 12 <= watched.looks < 250, "without the period, the loop calls Python five times"


def busy(t, x, z, u, p, dx):  # type: ignore[no-untyped-def]  # noqa: ARG001
    total = x[0]
    for i in range(int(p[0])):
        total = 0.5 * total + 1.0 / (1.0 + i + total * total)
    dx[0] = -total


def test_steps_that_take_too_long_are_overruns_by_computing() -> None:
    out = Scenario("busy", until="0.1")
    turns = Signals(Signal("turns", initial=2_000_000.0))
    out.plant("slow", Model("slow", Signals("x"), derivative=busy, parameters=turns), step="1/500")
    result, rows = ran(out, engine="compiled", pace=1.0)
    certificate = result.certificate
    assert certificate.overruns["compute"] > 40
    # the step of the first frame belongs to no job, and the longest frame so far is blamed
    assert set(certificate.blamed) <= {"propagate", REST}
    assert sum(certificate.blamed.values()) == certificate.overruns["compute"]
    events = [e for e in rows.events if e.kind == "Overrun"]
    assert len(events) == sum(certificate.overruns.values())
    slowest = sorted(certificate.worst, key=lambda f: f.compute_ns)[-1]
    assert slowest.jobs["propagate"] > 0.9 * slowest.compute_ns
