"""Models for runs on both engines, and the comparison of their rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import pytest

from rtsim import Guard, Model, Scenario, Signal, Signals
from rtsim.core.errors import RtsimError
from rtsim.engine.executive import Executive
from rtsim.record.reading import Recording
from rtsim.record.recorders import MemoryRecorder
from rtsim.record.replay_comparison import compare_exact
from rtsim.runs.simulation import simulate


def derivative(t, x, z, u, p, dx):  # type: ignore[no-untyped-def]
    dx[0] = -p[0] * x[0] + u[0] + z[0]
    dx[1] = x[0] - 0.3 * x[1] + u[1] * t


def output(t, x, z, u, p, y):  # type: ignore[no-untyped-def]  # noqa: ARG001
    y[0] = x[0] + 0.5 * x[1] + u[1]


def update(t, x, z, u, p):  # type: ignore[no-untyped-def]  # noqa: ARG001
    if x[0] > 0.2:
        z[0] = 0.9 * z[0] - 0.1 * x[0] + 0.05 * u[0]


def level(t, x, z, u, p, g):  # type: ignore[no-untyped-def]  # noqa: ARG001
    g[0] = x[0] - 0.1 * z[0]
    g[1] = x[1] - 0.05


def turned(i, t, x, z, u, p):  # type: ignore[no-untyped-def]  # noqa: ARG001
    z[0] = -z[0]
    if i == 1:
        x[1] = -0.2 * x[1] - 0.3


STATES = Signals(Signal("a", initial=0.4), Signal("b", initial=-0.1))
INPUTS, OUTPUTS = Signals("first", "second"), Signals("y")
PARAMETERS, DISCRETE = Signals(Signal("rate", initial=0.7)), Signals(Signal("held", initial=0.1))
PLANT = Model(
    "tank", states=STATES, inputs=INPUTS, outputs=OUTPUTS, parameters=PARAMETERS,
    derivative=derivative, output=output,
    discrete=DISCRETE, update=update,
)  # fmt: skip

GUARDED = Model(
    "vessel", states=STATES, inputs=INPUTS, outputs=OUTPUTS, parameters=PARAMETERS,
    derivative=derivative, output=output, discrete=DISCRETE, update=update,
    guards=(Guard("level"), Guard("upper", direction=1)), guard=level, reset=turned,
)  # fmt: skip


class Outcome(NamedTuple):
    recording: Recording
    error: str
    """What the run ended with; empty for one that came to its end."""
    tags: int
    """So many ran on the compiled engine."""


def ran(scenario: Scenario, engine: str) -> Outcome:
    recorder, kept, run = MemoryRecorder(), [], Executive.run

    def noted(self: Executive, before_ns: int) -> None:
        kept.append(self)
        run(self, before_ns)

    error = ""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Executive, "run", noted)
        try:
            simulate(scenario, recorder=recorder, engine=engine)
        except RtsimError as raised:
            error = f"{type(raised).__name__}: {raised}"
    found = kept[0].compiled_engine
    return Outcome(recorder.recording(), error, 0 if found is None else found.tags)


def check_equal(make: Callable[[], Scenario]) -> int:
    """Both engines give the same rows, events and error; returns the compiled engine's tags."""
    compiled, interpreted = ran(make(), "compiled"), ran(make(), "interpreted")
    assert compiled.error == interpreted.error
    assert compare_exact(interpreted.recording, compiled.recording) is None
    assert compiled.recording.events == interpreted.recording.events
    assert interpreted.tags == 0
    return compiled.tags
