"""A run whose picture follows the stick at once, and how long that takes another process to see."""

from __future__ import annotations

import json
import subprocess
import sys

from rtsim.core.signals import Signal, Signals, Vector
from rtsim.core.tag import NS_PER_S
from rtsim.engine.commands.commands import Inbox, read_command
from rtsim.equations.model import Model
from rtsim.models.piloting.task import Untouched
from rtsim.pilot.loop import Cockpit
from rtsim.pilot.processes import ViewerProcess, Window
from rtsim.runs.simulation import Pace, Progress, simulate
from rtsim.scenario.scenario import Scenario
from rtsim.timing.policy import CatchUp
from rtsim.timing.scheduling import SchedulingRequest
from tools.bench.pilot_witness import ROOT

_LONGEST_S = 300
_POLICY = CatchUp(10**9)


def derivative(t: float, x: Vector, z: Vector, u: Vector, p: Vector, dx: Vector) -> None:  # noqa: ARG001
    """It ages."""
    dx[0] = 1.0


def output(t: float, x: Vector, z: Vector, u: Vector, p: Vector, y: Vector) -> None:  # noqa: ARG001
    """It is where the stick is, at once: no dynamics of its own."""
    y[0] = u[0]
    y[1] = 0.0
    y[2] = 0.0
    y[3] = 0.0


FOLLOWER = Model(
    "follower", Signals("age [s]"), derivative, inputs=Signals("roll"),
    outputs=Signals("x", "y", "vx", "vy"), output=output,
)  # fmt: skip


def follower(hz: int) -> Scenario:
    """Drawn by the orbit's scene: a ball that goes from side to side with the stick."""
    out = Scenario("follower")
    out.external_input("stick", Signals(Signal("roll", low=-1.0, high=1.0)), Untouched())
    out.plant("moon", FOLLOWER, step=str(1.0 / hz), inputs={"roll": "stick.roll"})
    return out


def probed(count: int, hz: int, fps: float) -> list[int]:
    """ns of each move, as :mod:`tools.bench.pilot_probe` beside a run says; ``DISPLAY`` is set."""
    about = {"scenario": "follower", "scene": "orbit", "plant": "moon"}
    command = [sys.executable, "-m", "tools.bench.pilot_probe", "rtsim: follower", str(count)]
    scenario, pace = follower(hz), Pace(1.0, _POLICY, SchedulingRequest.watched())
    with (
        Cockpit(scenario, "stick", about) as cockpit,
        ViewerProcess(cockpit.shared.path, Window(rate=fps, size="640x480")),
        subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as probe,
    ):
        over = _EndsWith(probe, cockpit.inbox)
        try:
            simulate(
                scenario, until=_LONGEST_S, pace=pace, publisher=cockpit.pictures,
                inbox=cockpit.inbox, observe=over.look,
            )  # fmt: skip
        finally:
            probe.kill()
        said, _ = probe.communicate()
    if probe.returncode:
        raise OSError(f"the probe ended with status {probe.returncode}")
    found: list[int] = json.loads(said)["latencies_ns"]
    return found


class _EndsWith:
    """Ends a run when another process has ended."""

    def __init__(self, process: subprocess.Popen[str], inbox: Inbox) -> None:
        self._process, self._inbox, self._next_ns = process, inbox, 0

    def look(self, progress: Progress) -> None:
        if progress.ns < self._next_ns:
            return
        self._next_ns = progress.ns + NS_PER_S // 10
        if self._process.poll() is not None:
            self._inbox.give(read_command({"kind": "quit"}))
            self._next_ns = progress.until_ns
