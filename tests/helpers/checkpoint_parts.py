"""Whole runs, the same runs cut in two, and the process that flies the second half.

``python checkpoint_parts.py FOLDER NAME...`` goes on from every checkpoint in ``FOLDER/NAME`` and
prints what came of each: the digest of its trace.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from semantics_parts import INTEGRATOR, copy_input, law_of

from rtsim.components.latency import Duplicate, Gamma, Loss, Reorder, SerialLine, Uniform
from rtsim.core.signals import Signals
from rtsim.engine.checkpoint.file import SUFFIX, Checkpoint, Files
from rtsim.engine.checkpoint.schedule import CheckpointSchedule
from rtsim.models.ball import BALL
from rtsim.record.reading import Recording
from rtsim.record.recorders import MemoryRecorder
from rtsim.runs.simulation import simulate
from rtsim.scenario.loading import load_scenario
from rtsim.scenario.scenario import Scenario
from rtsim.solve import RK4, SOLVERS, Adaptive

HERE = Path(__file__).resolve().parent
SEED = 11
SHORT = {
    "f16": 3, "f16-by-hand": 2, "f16-gcas": 3, "f16-processor": 0.5, "nesc": 4, "valves": 58,
    "worker": 3, "library": 3, "job-shop": 40_000, "machine-shop": 200_000, "queue": 1000,
}  # fmt: skip
BOUNCED_S = 1.7
"""Three bounces; the slow solvers are slow."""
"""How long (s) the built-in scenarios fly here, in which something happens; else their own time."""


def summed(t: float, u: object, s: list[float], p: object, y: list[float]) -> None:  # noqa: ARG001
    """Remembers, so that a restored memory shows."""
    s[0] += u[0]  # type: ignore[index]
    y[0] = -0.05 * s[0] - 0.5 * u[0]  # type: ignore[index]


def noisy(folder: Path) -> Scenario:  # noqa: ARG001
    """Noise, late and lost and overtaking messages, a sensor, two grids, changes on the way."""
    out = Scenario("noisy", until=2)
    out.noise("gust", Signals("u [1]"), deviation=0.3, period="1/70")
    out.source("pilot", Signals("u [1]"))
    out.plant("fast", INTEGRATOR, step=0.003, inputs={"u": "c.y"}, states={"x": 1.0})
    out.plant("slow", INTEGRATOR, step="1/30", inputs={"u": "gust.u"})
    link = Reorder(Duplicate(Loss(Gamma(2.0, 0.02), 0.1), 0.2, 0.02), 0.3, 0.05)
    out.sensor("s", {"x": "fast.x"}, period=0.017, transport=link)
    out.controller(
        "c", law_of(summed), period=0.05, inputs={"u": "s.x"},
        compute=Uniform(0.001, 0.09), transport=SerialLine(9600),
    )  # fmt: skip
    out.controller("d", law_of(copy_input), on=("s",), inputs={"u": "slow.x"})
    queue = Uniform(0.001, 0.3)  # none overtakes: the next one waits for those before
    out.sensor("q", {"x": "fast.x"}, period=0.019, transport=queue)
    out.controller("e", law_of(summed), on=("q",), inputs={"u": "q.x"})
    for k in range(1, 8):
        out.at(k * 0.23, "pilot.u", k)
    return out


_C = """
#include "law.h"
static double sum;
void law_initialize(void) { sum = 0.0; }
double law_step(double x, double v)
{
    double force = -(8.0 * x + 4.0 * v) - sum;
    sum += 0.5 * x;
    return force;
}
"""
_H = "void law_initialize(void);\ndouble law_step(double x, double v);\n"
_TOML = """
name = "law"
period = "1/10"
sources = ["law.c"]
headers = ["law.h"]
[code]
initialize = "law_initialize()"
step = "force = law_step(x, v)"
[inputs]
x = { unit = "m" }
v = { unit = "m/s" }
[outputs]
force = { unit = "N/kg" }
"""


def law_in_c(folder: Path) -> Path:
    """The unstable plant's controller; its sum is a static that nobody outside can read."""
    if not (folder / "law.toml").exists():
        for name, text in (("law.c", _C), ("law.h", _H), ("law.toml", _TOML)):
            (folder / name).write_text(text, encoding="utf-8")
    return folder / "law.toml"


def flown_in_c(folder: Path) -> Scenario:
    """The unstable plant held by C in a process of its own, an answer under way a third of it."""
    from hitl.controllers.sil import SilController

    out = load_scenario("unstable", {"latency": "0.013"})
    out.replace_controller("controller", SilController(law_in_c(folder), cases=None), latency=0.03)
    return out


def flown_by_a_library(folder: Path) -> Scenario:
    """The same C in this process."""
    from hitl.controllers.in_process import InProcess

    out = load_scenario("unstable", {"latency": "0.013"})
    out.replace_controller("controller", InProcess(law_in_c(folder)), latency=0.03)
    return out


def motor(folder: Path) -> Scenario:
    """What ``rtsim sil init motor`` writes, flown by its C in a worker."""
    from hitl.controllers.sil import SilController

    files = HERE.parents[1] / "hitl" / "starter"
    out = load_scenario(str(files / "scenario.py"))
    for name in ("motor.c", "motor.h", "motor.toml"):  # what is built lies beside them
        shutil.copy(files / name, folder)
    out.replace_controller("controller", SilController(folder / "motor.toml", cases=None))
    return out


def faulty(folder: Path) -> Scenario:
    """The noisy one, with faults of signals, messages and ticks that come, go and draw."""
    out = noisy(folder)
    out.faults(
        {"name": "drift", "where": "c.u", "kind": "drift", "rate": 0.3, "at": 0.4, "duration": 0.7},
        {"name": "hiss", "where": "fast.u", "kind": "noise", "deviation": 0.2, "every": 0.5,
         "duration": 0.2, "period": 0.007},
        {"name": "dead", "where": "slow.u", "kind": "stuck", "when": "fast.x < 0.5"},
        {"name": "loss", "where": "s", "kind": "drop", "probability": 0.2},
        {"name": "lag", "where": "c", "kind": "delay", "delay": 0.03, "at": 0.9, "count": 4},
        {"name": "burst", "where": "q", "kind": "burst", "length": 3, "probability": 0.05},
        {"name": "tick", "where": "loop.c", "kind": "lost_tick", "probability": 0.1},
    )  # fmt: skip
    return out


def budgeted(folder: Path) -> Scenario:  # noqa: ARG001
    """Cut in the middle of frames whose budget is used up in the middle of them."""
    out = Scenario("budgeted", until=BOUNCED_S)
    out.noise("gust", Signals("u [1]"), deviation=0.3, period="1/70")
    out.plant("ball", BALL, step="1/10", solver=Adaptive(budget=20))
    return out


def _solved(plant: str, solver: str) -> Callable[[Path], Scenario]:
    return lambda _folder: load_scenario(plant, {"solver": solver})


SOLVED = {
    f"{plant}-{solver}": _solved(plant, solver)
    for plant in ("orbit", "ball")
    for solver in SOLVERS
    if solver != RK4.name
}
"""A plant that is smooth, and one with guards, by every solver but the one that all others have."""
OWN = {
    "noisy": noisy, "faulty": faulty, "worker": flown_in_c, "library": flown_by_a_library,
    "motor": motor, "budgeted": budgeted, **SOLVED,
}  # fmt: skip


def scenario(name: str, folder: Path) -> Scenario:
    """A built-in one, or one of this file."""
    return OWN[name](folder) if name in OWN else load_scenario(name)


def until(name: str) -> float | None:
    return BOUNCED_S if name.startswith("ball-") else SHORT.get(name)


def split_tags(name: str, folder: Path, count: int, seed: int = 0) -> list[str]:
    """Times in s, as many different ones as asked for, most of them between any two steps."""
    last = int((until(name) or scenario(name, folder).until_ns / 1e9) * 1e9) - 1
    last -= last // 60  # the last step of some would take us to the end, where nothing is left
    drawn = random.Random(f"{seed}/{name}").sample(range(1, last), count)
    return [f"{ns}/1000000000" for ns in drawn]


def cut(name: str, times: list[str], folder: Path) -> Recording:
    """The whole run; its checkpoints lie in ``folder``."""
    recorder = MemoryRecorder()
    taking = CheckpointSchedule(Files(folder / "run.mcap"), at=times)
    simulate(
        scenario(name, folder), seed=SEED, until=until(name), recorder=recorder, checkpoints=taking
    )
    return recorder.recording()


def gone_on(folder: Path, name: str) -> dict[str, str]:
    """From each checkpoint in ``folder``, in this process: file name to digest."""
    out = {}
    for path in sorted(folder.glob(f"*{SUFFIX}")):
        recorder = MemoryRecorder()
        # Another seed, so that a stream which is not restored shows.
        simulate(
            scenario(name, folder), seed=99, until=until(name), recorder=recorder,
            start=Checkpoint.open(path),
        )  # fmt: skip
        out[path.name] = recorder.recording().digest()
    return out


def gone_on_elsewhere(folder: Path, names: list[str]) -> dict[str, dict[str, str]]:
    """The same in one new process for the folders of all ``names``."""
    root = HERE.parents[1]
    path = os.pathsep.join([str(root), str(HERE), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, __file__, str(folder), *names],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert done.returncode == 0, done.stderr
    out: dict[str, dict[str, str]] = json.loads(done.stdout.splitlines()[-1])
    return out


def rest(whole: Recording, path: Path) -> str:
    """The digest of what the whole run recorded after a checkpoint of it."""
    checkpoint = Checkpoint.open(path)
    return whole.since(checkpoint.rows).digest()


if __name__ == "__main__":
    print(json.dumps({name: gone_on(Path(sys.argv[1]) / name, name) for name in sys.argv[2:]}))
