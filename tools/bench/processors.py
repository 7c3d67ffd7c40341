"""Ten tasks on one processor, 1000 jobs per second together, on the interpreter.

The three variants are: tasks without controllers, the same tasks of which three are controllers of
servos, and the three loops without a processor, on both engines.  A processor keeps a run on the
interpreter; the last rows are what the processor and this engine cost.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import rtsim as rt
from rtsim.runs.prepared import prepare
from tools.bench.results import Result, Row
from tools.bench.turns import in_turns

PERIODS = (0.005,) * 2 + (0.01,) * 4 + (0.02,) * 4
"""Period of each task, s: 200 + 200 + 4 * 100 + 4 * 50 = 1000 jobs per second."""
CONTROLLERS = 0, 2, 6
"""Tasks that are controllers in the second variant: at 200, 100 and 50 Hz."""
EXECUTION = 0.0007
"""Execution time of each job, s: a load of 0.7."""
BOUND = 100.0
"""Times real time, for tasks without controllers."""


class Servo(rt.Plant):
    """A DC servo."""

    angle = rt.state("rad")
    speed = rt.state("rad/s")
    voltage = rt.input("V")

    def derivative(self, d: Any) -> None:
        d.angle = self.speed
        d.speed = -self.speed + 1000.0 * self.voltage


class Pd(rt.Controller, compile=True):
    """A controller of a servo."""

    angle = rt.input("rad")
    speed = rt.input("rad/s")
    voltage = rt.output("V")

    def step(self) -> None:
        self.voltage = 0.1 * (1.0 - self.angle) - 0.01 * self.speed


def scenario(controllers: bool = True, processor: bool = True) -> rt.Scenario:
    """Return ten tasks; without ``processor``, only the three loops."""
    out = rt.Scenario("processors")
    if processor:
        out.processor("mcu", policy="rm")
    for k, period in enumerate(PERIODS):
        timing: dict[str, Any] = {}
        if processor:
            timing = {"processor": "mcu", "execution": EXECUTION}
        if controllers and k in CONTROLLERS:
            servo = out.plant(f"servo{k}", Servo(), step=0.005)
            pd = out.controller(f"task{k}", Pd(), period=period, **timing)
            out.connect(servo.angle, pd.angle)
            out.connect(servo.speed, pd.speed)
            out.connect(pd.voltage, servo.voltage)
        elif processor:
            out.task(f"task{k}", period=period, **timing)
    return out


TASKS, LOOPS = "ten tasks", "ten tasks, of which three are controllers"
INTERPRETED, COMPILED = (
    f"the three controllers without a processor, {engine}" for engine in ("interpreted", "compiled")
)
KINDS: dict[str, tuple[rt.Scenario, str]] = {
    TASKS: (scenario(controllers=False), "interpreted"),
    LOOPS: (scenario(), "interpreted"),
    INTERPRETED: (scenario(processor=False), "interpreted"),
    COMPILED: (scenario(processor=False), "compiled"),
}
"""Scenario and engine of each variant."""


def _figure(kind: str, seconds: float) -> Callable[[], float]:
    """Return a function that runs the variant, and returns how many times real time it was."""
    made, engine = KINDS[kind]
    prepared = prepare(made, engine=engine)
    return lambda: seconds * 1e9 / prepared.run(until=seconds, record=False).wall_ns


def run(quick: bool = False, seconds: float | None = None) -> Result:
    """Measure; some seconds."""
    length, rounds = seconds or (5.0 if quick else 20.0), 3 if quick else 7
    found = in_turns({kind: _figure(kind, length) for kind in KINDS}, rounds)
    speeds = {kind: sorted(figures)[rounds // 2] for kind, figures in found.items()}
    rows = [
        Row(
            kind, {"times real time [x]": speed}, f">= {BOUND:g} x" if kind == TASKS else "",
            speed >= BOUND if kind == TASKS else None,
        )
        for kind, speed in speeds.items()
    ]  # fmt: skip
    for kind in (INTERPRETED, COMPILED):
        what = f"{kind}, beside the run with the processor"
        rows.append(Row(what, {"times real time [x]": speeds[kind] / speeds[LOOPS]}))
    title = "1000 jobs per second of ten tasks on one processor"
    return Result("processors", title, tuple(rows))
