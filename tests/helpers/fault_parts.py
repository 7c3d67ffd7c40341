"""What the tests of faults are made of: a ramp that a controller samples, and what it was given."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from semantics_parts import INTEGRATOR, U, law_of

from rtsim.components.controller import PythonController
from rtsim.components.latency import ZERO, LatencyModel
from rtsim.core.signals import Signals, Vector
from rtsim.record.events import Event
from rtsim.record.reading import Recording
from rtsim.scenario.scenario import Scenario
from rtsim.testing.determinism import trace_of


def copy_input(t: float, u: Vector, s: Vector, p: Vector, y: Vector) -> None:  # noqa: ARG001
    y[0] = u[0]


def count(t: float, u: Vector, s: Vector, p: Vector, y: Vector) -> None:  # noqa: ARG001
    s[0] += 1.0
    y[0] = s[0]


def ramp(
    law: Callable[..., None] = copy_input,
    transport: LatencyModel = ZERO,
    until: float = 1,
    step: float = 0.05,
) -> Scenario:
    """``ramp.x`` is t; ``controller`` samples it each 0.1 s and drives ``driven``."""
    scenario = Scenario("ramp", until=until)
    scenario.plant("ramp", INTEGRATOR, step=step, inputs={"u": 1.0})
    scenario.controller(
        "controller", law_of(law), period=0.1, inputs={"u": "ramp.x"}, transport=transport
    )
    scenario.plant("driven", INTEGRATOR, step=step, inputs={"u": "controller.y"})
    return scenario


def reader(signals: str = "u [1]") -> PythonController:
    """One that only listens."""
    return PythonController(copy_input, Signals(signals), Signals("y [1]"), memory=U)


def flown(scenario: Scenario, *faults: Any, seed: int = 0) -> Recording:
    """The run with these faults."""
    scenario.faults(*faults)
    return trace_of(scenario, seed=seed)


def sampled(recording: Recording, controller: str = "controller") -> Vector:
    """What the controller was given at its ticks."""
    values: Vector = recording.messages[f"{controller}.inputs"]["u"]
    return values


def told(recording: Recording, *kinds: str) -> list[Event]:
    """The events of faults."""
    wanted = kinds or ("Fault", "FaultEnded", "FaultIdle")
    return [e for e in recording.events if e.kind in wanted]


def in_words(recording: Recording) -> list[str]:
    """Every event, so that NaN is equal to NaN, and order at one tag does not count."""
    return sorted(repr(e) for e in recording.events)


def offset(**entries: Any) -> dict[str, Any]:
    """An offset of 10 at what the controller samples."""
    return {"name": "off", "where": "controller.u", "kind": "offset", "amount": 10.0, **entries}


TIMES = np.arange(11) / 10
"""The ticks of the controller in 1 s."""
