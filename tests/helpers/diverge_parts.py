"""A scenario in a file with one seeded nondeterminism at a time, and how the finder is asked."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from checkpoint_parts import HERE
from command_line import data, rtsim
from semantics_parts import INTEGRATOR, U, X, law_of

from rtsim.core.tag import Tag
from rtsim.equations.model import Model
from rtsim.record.reading import Recording
from rtsim.runs import simulation
from rtsim.runs.diverging import Verdict, diverge, narrowing
from rtsim.runs.request import RunRequest
from rtsim.runs.result import RunResult
from rtsim.scenario.scenario import Scenario
from rtsim.testing.determinism import trace_of

LAB = """
import random
import time

import numpy as np

from rtsim import Loss, Model, PythonController, Scenario, Signals, Uniform

ROLLED = random.Random()
TAPS = {f"tap{i}": (-1) ** i * 10.0**i / 3.0 for i in range(12)}


def model(bug):
    def fly(t, x, z, u, p, dx):
        dx[0] = u[0] - x[0] + u[1]
        if bug == "draw" and t > 0.502:
            dx[0] += 1e-9 * (1.0 + ROLLED.random())
        if bug == "single" and t > 0.302:
            dx[0] = float(np.float32(dx[0]))

    return Model("plant", Signals("x [1]"), fly, inputs=Signals("u [1]", "g [1]"))


def law(bug):
    def step(t, u, s, p, y):
        s[0] += u[0]
        y[0] = -0.3 * u[0] - 0.01 * s[0]
        if bug == "clock" and t > 0.39:
            y[0] += 1e-18 * time.monotonic_ns()
        if bug == "set" and t > 0.34:
            total = 0.0
            for name in set(TAPS):  # sum() corrects its rounding from Python 3.12 on
                total += TAPS[name]
            y[0] += 1e-12 * total
        if bug == "memory" and t > 0.24:
            s[1] = ROLLED.random()
        if bug == "dies" and t > 0.49:
            raise ValueError("no more")
        if t > 0.64:
            y[0] += 1e-3 * s[1]

    signals = Signals("x [1]"), Signals("y [1]")
    return PythonController(step, *signals, memory=Signals("sum [1]", "spare [1]"))


def lab(bug="none"):
    out = Scenario("lab", until=1)
    out.noise("gust", Signals("u [1]"), deviation=0.1, period=0.03)
    plant = {"step": 0.01, "inputs": {"u": "c.y", "g": "gust.u"}, "states": {"x": 1.0}}
    out.plant("plant", model(bug), **plant)
    out.sensor("s", {"x": "plant.x"}, period=0.02, transport=Loss(Uniform(0.001, 0.009), 0.1))
    out.controller("c", law(bug), period=0.05, inputs={"x": "s.x"})
    return out
"""
SCENARIO = "lab.py:lab"


def fly(path: str, *options: str, bug: str = "none") -> None:
    """Record the scenario into ``path``."""
    flown = rtsim("run", SCENARIO, "--plain", "--set", f"bug={bug}", "-o", path, *options)
    assert flown.exit_code == 0, flown.output


def fly_elsewhere(path: str, bug: str, hash_seed: int) -> None:
    """The same in a process whose sets have an order of their own."""
    how = ("--plain", "--set", f"bug={bug}", "-o", path)
    subprocess.run(
        [sys.executable, "-m", "rtsim", "run", SCENARIO, *how],
        env={**os.environ, "PYTHONHASHSEED": str(hash_seed), "PYTHONPATH": str(HERE.parents[1])},
        check=True, capture_output=True, timeout=120,
    )  # fmt: skip


def diverged(*arguments: str) -> dict[str, Any]:
    """What ``rtsim diverge --json`` says of runs that part."""
    result = rtsim("diverge", *arguments, "--json")
    assert result.exit_code == 1, result.output
    out: dict[str, Any] = data(result)
    return out


def place(told: dict[str, Any], key: str = "first") -> tuple[int, int, str, str, str]:
    """Tag (ns, step), what, name and moment of a place."""
    found = told[key]
    tag = found["tag"]
    return tag["ns"], tag["step"], found["what"], found["name"], found["moment"]


@contextmanager
def flights(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[tuple[int, int]]]:
    """From where to where (ns) it is flown again."""
    flown: list[tuple[int, int]] = []
    run = simulation.run

    def watched(request: RunRequest) -> RunResult:
        assert request.stop_ns is not None
        flown.append((0 if request.start is None else request.start.ns, request.stop_ns))
        return run(request)

    with monkeypatch.context() as patched:
        patched.setattr(narrowing, "run", watched)
        yield flown


def lab_in(folder: Path) -> None:
    (folder / "lab.py").write_text(LAB, encoding="utf-8")


def parted(a: Scenario, b: Scenario, change: Callable[[Recording], Recording] | None = None) -> Any:
    """The verdict on a run of each; ``change`` is done to both recordings."""
    done = change or (lambda recording: recording)
    runs = [done(trace_of(one, compile=False, seed=3)) for one in (a, b)]
    return diverge(*runs, scenarios=(a, b))


def named(verdict: Verdict) -> tuple[Tag, str, str, str]:
    place = verdict.place
    assert place is not None
    return place.tag, place.what, place.name, place.moment


def shaken(at: float, amount: float) -> Scenario:
    """Two plants, one of which is pushed in the step that begins after ``at`` s."""

    def push(t: float, x: Any, z: Any, u: Any, p: Any, dx: Any) -> None:  # noqa: ARG001
        dx[0] = u[0] - x[0] + (amount if t > at else 0.0)

    out = Scenario("shaken", until=1)
    out.plant("calm", INTEGRATOR, step=0.005, inputs={"u": 0.5})
    out.plant("p", Model("p", X, push, inputs=U), step=0.01, inputs={"u": "calm.x"})
    return out


def sensed(link: Any) -> Scenario:
    out = Scenario("sensed", until="0.1")
    out.plant("p", INTEGRATOR, step=0.004, inputs={"u": 1.0})
    out.sensor("s", {"x": "p.x"}, period=0.01, offset=0.002, transport=link)
    out.controller("c", law_of(copied), on=("s",), inputs={"u": "s.x"})
    return out


def copied(t: float, u: Any, s: Any, p: Any, y: Any) -> None:  # noqa: ARG001
    y[0] = u[0]
