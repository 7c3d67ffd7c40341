"""A step that takes long pauses, and no bit changes."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np
import pytest

from rtsim.core.signals import Signals, Vector
from rtsim.equations.model import BoundModel, Guard, Model, bind
from rtsim.record.recorders import MemoryRecorder
from rtsim.runs.prepared import prepare
from rtsim.runs.simulation import simulate
from rtsim.scenario.scenario import Scenario
from rtsim.solve import GOOD, Adaptive, SciPy, legs
from rtsim.solve.guarded import Guarded

NONE = np.zeros(0)
TIGHT = Adaptive(rtol=1e-9)


def _swings(t: float, x: Vector, z: Vector, u: Vector, p: Vector, dx: Vector) -> None:  # noqa: ARG001
    dx[0] = x[1]
    dx[1] = -1e6 * x[0]


def _falls(t: float, x: Vector, z: Vector, u: Vector, p: Vector, g: Vector) -> None:  # noqa: ARG001
    g[0] = t - 0.77


def _turned(i: int, t: float, x: Vector, z: Vector, u: Vector, p: Vector) -> None:  # noqa: ARG001
    x[1] = -x[1]


SWINGING = Model("swinging", Signals("x = 1", "v"), _swings)
GUARDED = Model(
    "guarded", SWINGING.states, _swings, guards=(Guard("late"),), guard=_falls, reset=_turned
)


class _GivenUpError(Exception):
    pass


def _advance(bound: BoundModel, guarded: bool, interrupt_check: Any, x: Vector) -> list[float]:
    """The state after 0.1 s, some 5,000 evaluations later."""
    stepper: Any = TIGHT.stepper(bound)
    stepper.interrupt_check = interrupt_check
    out = np.zeros(2)
    if guarded:
        way = Guarded(bound, stepper, (x, NONE, NONE, NONE), out)
        way.here[0] = -1.0
        assert way.advance(0, 10**8) == GOOD
    else:
        assert stepper.advance(0, 10**8, x, NONE, NONE, NONE, out) == GOOD
    return [*out.tolist(), *stepper._after.tolist()]


@pytest.mark.parametrize("guarded", [False, True], ids=["bare", "guarded"])
def test_a_pause_changes_no_bit(guarded: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """The limit is a constant of the compiled code; plain Python has the same source."""
    bound, found = bind(GUARDED, compile=False), []
    for most in (math.inf, 2000, 6):
        monkeypatch.setattr(legs, "MOST_SPENT", most)
        pauses: list[int] = []
        end = _advance(bound, guarded, partial(pauses.append, 1), np.array([1.0, 0.0]))
        found.append((end, len(pauses)))
    assert found[0][0] == found[1][0] == found[2][0]
    assert found[0][1] == 0
    assert found[1][1] >= 2
    assert found[2][1] > 300


@pytest.mark.parametrize("guarded", [False, True], ids=["bare", "guarded"])
@pytest.mark.parametrize("compile", [True, False], ids=["compiled", "plain"])
def test_an_advance_that_was_given_up_leaves_no_trace(guarded: bool, compile: bool) -> None:
    bound = bind(GUARDED, compile=compile)
    stepper: Any = TIGHT.stepper(bound)
    x, out = np.array([1.0, 0.0]), np.zeros(2)
    way = Guarded(bound, stepper, (x, NONE, NONE, NONE), out) if guarded else None

    def refuses() -> None:
        raise _GivenUpError

    def advance() -> int:
        if way is None:
            return int(stepper.advance(0, 10**8, x, NONE, NONE, NONE, out))
        way.here[0] = -1.0
        return way.advance(0, 10**8)

    stepper.interrupt_check = refuses
    with pytest.raises(_GivenUpError):
        advance()
    stepper.interrupt_check = lambda: None
    x[:] = (0.25, 3.0)
    assert advance() == GOOD
    expected = _advance(bound, guarded, lambda: None, x.copy())
    assert [*out.tolist(), *stepper._after.tolist()] == expected


def _scenario(model: Model, solver: Any = TIGHT, step: str = "0.1") -> Scenario:
    scenario = Scenario("long steps", until=2)
    scenario.plant("p", model, step=step, solver=solver)
    return scenario


@pytest.mark.parametrize("model", [SWINGING, GUARDED], ids=lambda m: m.name)
def test_both_engines_pause_and_agree(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    from rtsim.engine.executive import Executive

    pauses = []
    monkeypatch.setattr(Executive, "interrupt_check", lambda _: pauses.append(1))
    found = []
    for engine in ("compiled", "interpreted"):
        pauses.clear()
        recorder = MemoryRecorder()
        simulate(_scenario(model), recorder=recorder, engine=engine)
        recording = recorder.recording()
        found.append((recording["p.x"].tolist(), recording["p.v"].tolist()))
        assert len(pauses) >= 20, engine
    assert found[0] == found[1]
    prepared = prepare(_scenario(model), engine="compiled")
    for _ in range(3):
        result = prepared.run(record=False)
        assert result.final("p.x") == found[0][0][-1]


def test_scipys_solvers_call_between_their_steps() -> None:
    bound = bind(SWINGING)
    for method in ("DOP853", "LSODA"):
        calls: list[int] = []
        stepper: Any = SciPy(method=method).stepper(bound)
        stepper.interrupt_check = lambda calls=calls: calls.append(1)
        x = np.array([1.0, 0.0])
        assert stepper.advance(0, 10**8, x, NONE, NONE, NONE, np.zeros(2)) == GOOD
        assert len(calls) > 20
