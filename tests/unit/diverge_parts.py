"""A scenario in a file with one seeded nondeterminism at a time, and how the finder is asked."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from checkpoint_parts import HERE
from test_cli import data, rtsim

from rtsim import replay
from rtsim.checkpoint.file import Checkpoint
from rtsim.diverging import flying

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
            y[0] += 1e-12 * sum(TAPS[name] for name in set(TAPS))
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
    refly = replay.refly

    def watched(*given: Any, start: Checkpoint | None, stop_ns: int, **how: Any) -> None:
        flown.append((0 if start is None else start.ns, stop_ns))
        refly(*given, start=start, stop_ns=stop_ns, **how)

    with monkeypatch.context() as patched:
        patched.setattr(flying, "refly", watched)
        yield flown


def lab_in(folder: Path) -> None:
    (folder / "lab.py").write_text(LAB, encoding="utf-8")
