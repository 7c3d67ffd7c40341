"""A signal ends a run inside a step of a solver that takes for ever, and other threads run."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

pytestmark = [
    pytest.mark.live,
    pytest.mark.skipif(os.name != "posix", reason="signals to a process are those of POSIX"),
]
HARD = """
import math, signal, sys, threading, time
from rtsim.core.signals import Signals
from rtsim.equations.model import Guard, Model
from rtsim.runs.simulation import simulate
from rtsim.scenario.scenario import Scenario
from rtsim.solve import Adaptive, SciPy

def slide(t, x, z, u, p, dx):
    dx[0] = -1.0 if x[0] > 0 else 1.0

def far(t, x, z, u, p, g):
    g[0] = x[0] - 100.0

def nothing(i, t, x, z, u, p):
    pass

kind, engine, compile = sys.argv[1:]
guards = {"guards": (Guard("far"),), "guard": far, "reset": nothing} if "guard" in kind else {}
scipy = SciPy(method="Radau", most_steps=math.inf)
solver = scipy if kind == "radau" else Adaptive(most_steps=math.inf)
scenario = Scenario("hard", until=2000)
scenario.plant("p", Model("slide", Signals("x = 0.001"), slide, **guards), step=1, solver=solver)

def other():
    while signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        time.sleep(0.01)
    time.sleep(0.3)
    print("inside the step", flush=True)

threading.Thread(target=other, daemon=True).start()
result = simulate(scenario, compile=compile == "True", engine=engine)
print(result.reason, result.ending.reached_ns)
"""


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("kind", "engine", "compile", "number"),
    [
        ("bare", "compiled", True, signal.SIGTERM),
        ("guard", "interpreted", True, signal.SIGINT),
        ("bare", "auto", False, signal.SIGTERM),
        ("radau", "auto", True, signal.SIGINT),
    ],
    ids=["compiled engine", "interpreter", "plain", "scipy"],
)
def test_a_signal_ends_a_run_inside_a_step_that_has_no_end(
    kind: str, engine: str, compile: bool, number: signal.Signals
) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HARD, kind, engine, str(compile)], stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "inside the step\n", "another thread runs"
            process.send_signal(number)
            text, _ = process.communicate(timeout=30)
        except BaseException:
            process.kill()
            raise
    assert text == "interrupted 0\n"
