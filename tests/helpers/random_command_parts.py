"""What a live F-16 is told at random: right and wrong commands, and faults for some to start."""

from __future__ import annotations

import random
from typing import Any

import numpy as np

from rtsim.engine.commands.commands import KINDS
from rtsim.scenario.loading import load_scenario
from rtsim.scenario.scenario import Scenario

WRONG: list[tuple[dict[str, Any], str]] = [
    ({"kind": "set", "target": "f16.cg", "value": 1.5}, "outside its range [0, 1]"),
    ({"kind": "set", "target": "f16.mass", "value": -1.0}, "outside its range [1e-09, inf]"),
    ({"kind": "set", "target": "pilot.long_stick", "value": -7.0}, "outside its range [-1, 1]"),
    ({"kind": "set", "target": "f16.cg", "value": [0.2, 0.3]}, "elements"),
    ({"kind": "set", "target": "f16.cg", "value": "aft"}, "expected a number"),
    ({"kind": "set", "target": "f16.cg", "value": True}, "expected a number"),
    ({"kind": "set", "target": "f16.cg", "value": float("nan")}, "expected a finite number"),
    ({"kind": "set", "target": "f16.cgg", "value": 0.3}, "unknown value 'f16.cgg'"),
    ({"kind": "set", "target": "f16.alpha", "value": 0.1}, "f16.alpha is computed"),
    ({"kind": "set", "target": "f16.cg"}, "value is missing"),
    ({"kind": "set", "target": "f16.cg", "value": 0.3, "at": 3}, "unknown argument 'at'"),
    ({"kind": "inject", "topic": "autopilot", "value": 1.0}, "needs 4 values (elevator"),
    ({"kind": "inject", "topic": "autopilott", "value": 1.0}, "unknown topic 'autopilott'"),
    ({"kind": "fault", "name": "gusts", "do": "start"}, "unknown fault 'gusts'"),
    ({"kind": "fault", "name": "gust", "do": "stop"}, "expected start or clear"),
    ({"kind": "rate", "rate": 0}, "expected a number > 0"),
    ({"kind": "rate", "rate": "faster"}, "expected a number"),
    ({"kind": "rate", "rate": 1e-9}, "a number from 0.01 to 1e+06"),
    ({"kind": "rate", "rate": np.ones(2)}, "expected a number"),
    ({"kind": "fault", "name": "gust", "do": np.ones(2)}, "expected start or clear"),
    ({"kind": "fault", "name": np.ones(2), "do": "start"}, "expected a text"),
    ({"kind": "mark", "text": b"here"}, "expected a text"),
    ({"kind": "set", "target": "f16.cg", "value": np.ones(2)}, "expected a number"),
    ({"kind": "step", "task": "pilot"}, "unknown task 'pilot'"),
    ({"kind": "step", "tags": 1, "duration": 1.0}, "takes only one of the arguments tags"),
    ({"kind": "restore", "at": 100.0}, "restore cannot go forward"),
    ({"kind": "mark", "text": "\x1b[2J"}, "cannot be printed"),
    ({"kind": "eject"}, "unknown command 'eject'"),
    ({}, "a command must be a map"),
]
"""And what is said of each."""
NEVER = {"at": 1000000}
FAULTS: list[dict[str, Any]] = [
    {"name": "gust", "where": "pilot.long_stick", "kind": "noise", "deviation": 0.1, **NEVER},
    {"name": "loss", "where": "autopilot", "kind": "drop", **NEVER},
    {"name": "lag", "where": "guidance", "kind": "delay", "delay": 0.03, **NEVER},
]
"""Those that only commands start."""


def scenario() -> Scenario:
    """Guidance and autopilot at 50 Hz."""
    out = load_scenario("f16")
    out.faults(*FAULTS)
    return out


def right(chance: random.Random) -> dict[str, Any]:
    """A command that this run can follow, of any kind but the end."""
    often = [k for k in KINDS if k not in ("quit", "restore")]
    kind = chance.choice(often * 3 + ["set"] * 18 + ["inject"] * 6 + ["restore"])
    if kind == "set":
        target, low, high = chance.choice([
            ("f16.cg", 0.2, 0.35), ("f16.mass", 8000.0, 10000.0), ("pilot.long_stick", -1.0, 1.0),
            ("pilot.altitude_command", 9900.0, 10200.0), ("autopilot.stick_pitch", 2.0, 4.0),
            ("pilot.sas_on", 0.0, 1.0), ("guidance.from_latitude", 36.0, 36.1),
        ])  # fmt: skip
        return {"kind": kind, "target": target, "value": chance.uniform(low, high)}
    if kind == "inject":
        value = [chance.uniform(-5.0, 5.0) for _ in range(3)] + [chance.uniform(0.0, 100.0)]
        return {"kind": kind, "topic": "autopilot", "value": value}
    if kind == "fault":
        name, do = chance.choice(["gust", "loss", "lag"]), chance.choice(["start", "clear"])
        return {"kind": kind, "name": name, "do": do}
    if kind == "step":
        how: list[dict[str, Any]] = [
            {"tags": chance.randrange(1, 30)},
            {"task": "guidance"},
            {"duration": 0.05},
            {},
        ]
        return {"kind": kind, **chance.choice(how)}
    arguments: dict[str, dict[str, Any]] = {
        "rate": {"rate": chance.choice(["max", 0.1, 1.0, 3, 10.0])},
        "mark": {"text": "here"},
        "restore": {"back": chance.uniform(0.2, 0.5)},
    }
    return {"kind": kind, **arguments.get(kind, {})}
