"""A small run that uses every kind of track, written to any recorder."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import numpy as np

from rtsim.core.signals import Signal, Signals
from rtsim.core.tag import Tag
from rtsim.record.recorders import Recorder

MS = 1_000_000
PLANT = Signals(
    Signal("altitude", "ft"),
    Signal("heading", "deg", kind="angle", description="true heading"),
    Signal("q", shape=(4,), kind="quaternion"),
    *(f"x{i} [m]" for i in range(20)),
)
COMMAND = Signals("elevator [deg]", "status")
STAMPS = ("sequence", "initiated", "status")
ODD = [math.nan, math.inf, -math.inf, -0.0, 5e-324, 1.7976931348623157e308, 0.1]
SIGNALLING_NAN = np.array([0x7FF0000000000001], np.uint64).view(np.float64)


def ticking(step_ns: int = MS) -> Callable[[], int]:
    """A clock that goes on by ``step_ns`` each time it is read."""
    count = itertools.count()
    return lambda: next(count) * step_ns


def fly(recorder: Recorder, rows: int = 300, wait: bool = True) -> None:
    plant = recorder.track("f16", ("step", "side"), PLANT)
    command = recorder.track("messages/command", STAMPS, COMMAND, {"source": "law"})
    timing = recorder.track("timing", ("margin",), Signals(), {"deterministic": "no"})
    recorder.track("inputs/stick", ("step",), Signals("pitch"))
    recorder.start({"seed": 7, "scenario": {"name": "test", "limits": ["none"]}})
    random = np.random.default_rng(1)
    for i in range(rows):
        state = random.normal(size=PLANT.size - 7)
        plant.append(i * MS, (i % 2, 1), np.array(ODD), state)
        if i % 5 == 0:
            command.append(i * MS, (i, 2**63 - 1 - i, -1), np.array([1.5, i]))
            timing.append(i * MS, (-i,))
        if i % 100 == 50:
            recorder.event(Tag(i * MS, 2), "Late", "law", "too late", {"allowed": 5, "x": 0.5})
        recorder.pump(wait)
    recorder.finish({"certificate": {"overruns": 0}})
