"""Measure the execution times of the tasks of ``f16-processor``: ``python -m tools.uno_cycles``.

The tasks run on the emulated Arduino Uno, with inputs from a flight that changes its course.
The script writes ``rtsim/models/f16/uno_cycles.json``. Except for the autopilot, the firmware is
built, which needs avr-gcc.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from hitl.controllers.board import BoardController
from rtsim.core.signals import Vector
from rtsim.core.tag import Tag
from rtsim.models.f16 import one_processor
from rtsim.models.f16.one_processor import PERIODS, scenario
from rtsim.models.f16.scenario import SENSED, case
from rtsim.testing.determinism import trace_of

FILE = Path(one_processor.__file__).with_name("uno_cycles.json")
INTERFACES = {
    "sensors": "hitl/examples/flight/sensors.toml",
    "autopilot": "firmware/core/f16_control.toml:single",
    "guidance": "hitl/examples/flight/guidance.toml",
    "telemetry": "hitl/examples/flight/telemetry.toml",
}
STEPS = 200
"""Number of measured steps of each task."""


def inputs_of(steps: int = STEPS) -> dict[str, Vector]:
    """Return the inputs of each task in ``steps`` steps, spread over a flight of 20 s."""
    flight = scenario(processor=False, until=20)
    flight.at(5.0, "pilot.course_command", 60.0)
    run = trace_of(flight)
    rows: dict[str, Vector] = {}
    for task in ("sensors", "autopilot", "guidance"):
        rows[task] = run.track(f"messages/{task}.inputs").rows.floats
    rows["sensors"] = rows["sensors"][:, : len(SENSED)]
    along = case("13.1").guidance_parameters
    start = [along["from_latitude"], along["from_longitude"]]
    rows["guidance"] = np.hstack([rows["guidance"], np.tile(start, (len(rows["guidance"]), 1))])
    commands = run.track("messages/autopilot").rows.floats
    rows["telemetry"] = np.hstack([rows["sensors"][::2][: len(commands)], commands])
    return {
        task: values[np.linspace(0, len(values) - 1, steps).astype(int)]
        for task, values in rows.items()
    }


def cycles_of(task: str, rows: Sequence[Vector] | Vector) -> list[int]:
    """Return the execution time of ``task`` for each row of inputs, in cycles."""
    board = BoardController(INTERFACES[task]).fresh()
    try:
        for k, row in enumerate(rows):
            tag = Tag(round(k * PERIODS[task] * 1e9))
            board.send(tag, np.array(row, float))
            board.receive(tag, patience=0.1)
        return list(board.cycles)
    finally:
        board.close()


def main() -> None:
    """Measure all tasks, and write the file."""
    rows = inputs_of()
    found = {task: cycles_of(task, rows[task]) for task in PERIODS}
    lines = [f"  {json.dumps(task)}: {json.dumps(cycles)}" for task, cycles in found.items()]
    FILE.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
    for task, cycles in found.items():
        print(f"{task}: {min(cycles)} to {max(cycles)} cycles, mean {np.mean(cycles):.0f}")


if __name__ == "__main__":
    main()
