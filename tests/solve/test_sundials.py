"""SUNDIALS's solvers: answers, guards, errors of the model, and a missing package."""

from __future__ import annotations

import math
import sys
from dataclasses import replace
from typing import Any

import pytest
from constraint_parts import TANK, last

from rtsim import Model, Signals
from rtsim.core.errors import ModelError, ScenarioError
from rtsim.equations.model import bind
from rtsim.solve import CVODE, DP54, IDA, Sundials
from tools.bench.constraint_problems import AKZO, AKZO_END, ROBERTSON, ROBERTSON_END


@pytest.mark.parametrize("solver", [CVODE, IDA], ids=lambda s: s.name)
def test_published_answers(solver: Sundials) -> None:
    close = replace(solver, rtol=1e-9, atol=1e-12)
    assert last(AKZO, "180", close, 180, compile=False) == pytest.approx(AKZO_END, rel=1e-6)
    close = replace(solver, rtol=1e-8, atol=1e-16)
    found = last(ROBERTSON, "1e9", close, 1e9, compile=False)
    assert found == pytest.approx(ROBERTSON_END, rel=1e-6)


def test_ida_solves_between_guards_and_resets() -> None:
    plant = {"update_period": 0.5, "inputs": {"head": 0.1}}
    wanted = last(TANK, "0.5", replace(DP54, rtol=1e-9, atol=1e-12), 6, plant, compile=False)
    found = last(TANK, "0.5", replace(IDA, rtol=1e-9, atol=1e-12), 6, plant, compile=False)
    assert found == pytest.approx(wanted, rel=1e-6)


def test_the_search_at_a_tag_begins_where_ida_ended() -> None:
    """``sin(x - y) = 0`` has many solutions: over a long step, IDA follows the one with y = x."""

    def rises(t: float, x: Any, y: Any, z: Any, u: Any, p: Any, dx: Any) -> None:  # noqa: ARG001
        dx[0] = 1.0

    def angles(t: float, x: Any, y: Any, z: Any, u: Any, p: Any, r: Any) -> None:  # noqa: ARG001
        r[0] = math.sin(x[0] - y[0])

    model = Model("m", Signals("x"), rises, algebraic=Signals("y"), residual=angles)
    assert last(model, "5", IDA, 5, compile=False) == pytest.approx([5.0, 5.0], rel=1e-6)


@pytest.mark.parametrize("solver", [CVODE, IDA], ids=lambda s: s.name)
def test_an_error_of_the_model_is_not_lost(solver: Sundials) -> None:
    def fails(t: float, x: Any, z: Any, u: Any, p: Any, dx: Any) -> None:  # noqa: ARG001
        if t > 0.5:
            raise ValueError("beyond the table")
        dx[0] = 1.0

    with pytest.raises(ModelError, match="beyond the table"):
        last(Model("m", Signals("x"), fails), "1", solver, 1, compile=False)

    def pole(t: float, x: Any, z: Any, u: Any, p: Any, dx: Any) -> None:  # noqa: ARG001
        dx[0] = x[0] ** 2

    with pytest.raises(ModelError, match=r"no step that is small enough|became (nan|inf)"):
        last(Model("m", Signals("x = 1"), pole), "3", solver, 3, compile=False)


@pytest.mark.parametrize("solver", [CVODE, IDA], ids=["cvode", "ida"])
def test_the_warnings_of_the_library_do_not_hide_the_error(
    solver: Sundials, capfd: pytest.CaptureFixture[str]
) -> None:
    def edge(t: float, x: Any, z: Any, u: Any, p: Any, dx: Any) -> None:  # noqa: ARG001
        dx[0] = math.nan if t > 0.5 else -x[0]

    with pytest.raises(ModelError, match=r"nan beyond 0\.5 s"):
        last(Model("m", Signals("x = 1"), edge), "0.3", solver, 1, compile=False)
    assert "WARNING" not in "".join(capfd.readouterr())


def test_small_steps_after_one_that_failed_far_ahead_are_no_standstill() -> None:
    """Steps grow while nothing happens, and an oscillation of 3e4 rad/s begins at 1 s."""

    def later(t: float, x: Any, z: Any, u: Any, p: Any, dx: Any) -> None:  # noqa: ARG001
        dx[0] = 0.0 if t < 1.0 else 3e4 * math.cos(3e4 * (t - 1.0))

    (x,) = last(Model("m", Signals("x"), later), "1.1", CVODE, 1.1, compile=False)
    assert x == pytest.approx(math.sin(3e4 * 0.1), abs=0.05)


def test_without_the_package_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sksundae", None)
    with pytest.raises(
        ScenarioError, match=r"the solver ida needs the package sksundae.*'rtsim\[sundae\]'"
    ):
        IDA.stepper(bind(ROBERTSON, compile=False))


def test_what_cannot_be_meant() -> None:
    with pytest.raises(ScenarioError, match="method = 'KINSOL' is unknown; give one of CVODE, IDA"):
        Sundials(method="KINSOL")
    with pytest.raises(ScenarioError, match="give a longest step > 0 s"):
        Sundials(most=0.0)
    assert replace(IDA, rtol=1e-8).name == "ida(rtol=1e-08)"
