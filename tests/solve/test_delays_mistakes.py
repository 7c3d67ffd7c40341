"""Mistakes in models with delays: each has one clear message."""

# ruff: noqa: ARG001

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
from delay_parts import decay, ran, single

from rtsim import Delayed, Model, Signals
from rtsim.core.errors import ModelError, RtsimError, ScenarioError, UnknownName
from rtsim.core.signals import Vector
from rtsim.solve import Adaptive


def model(*delays: Delayed, **other: Any) -> Model:
    return Model("m", states=Signals("x = 1"), derivative=decay, delays=delays, **other)


def sum_of(t: float, x: Vector, z: Vector, u: Vector, p: Vector, v: Vector) -> None:
    v[0] = x[0]


def _past(t: float) -> float:
    return 1.0


def _short(t: float, x: Vector, z: Vector, u: Vector, p: Vector) -> float:
    return 1.0 - t


@pytest.mark.parametrize(
    ("make", "error", "text"),
    [
        (lambda: Delayed("x", -1.0), ModelError, r"lag -1\.0 s; give 0, or a finite lag"),
        (lambda: Delayed("x", math.inf), ModelError, "lag inf s; give 0, or a finite lag"),
        (lambda: Delayed("x", 1e-12), ModelError, "lag 1e-12 s; give 0, or a finite lag >= 1e-09"),
        (lambda: Delayed("x", _short), ModelError, r"bounds least=0\.0 and most=None"),
        (lambda: Delayed("x", _short, least=0.1, most=math.inf), ModelError, "both finite"),
        (lambda: Delayed("x", [1]), ModelError, r"lag \[1\]; give a number in s"),  # type: ignore
        (lambda: Delayed("x", _past, 1, 2), ModelError, "takes the arguments"),  # type: ignore
        (lambda: model(Delayed("v", 1.0)), UnknownName, "no delayed signal 'v'|v.*x"),
        (lambda: model(Delayed("x", "lag")), UnknownName, "lag"),
        (lambda: model(Delayed("x", 1.0, before="past")), UnknownName, "past"),
        (lambda: model(Delayed("x", 1.0, before=(1.0, 2.0))), ModelError, "before= has 2 values"),
        (lambda: model(Delayed("x", 1.0, before=math.nan)), ModelError, "give finite numbers"),
        (
            lambda: model(Delayed("x", 1.0), Delayed("x", 2.0)),
            ScenarioError,
            "signal x_delayed is declared twice",
        ),
        (
            lambda: model(Delayed("y", 1.0), outputs=Signals("y"), output=sum_of),
            ModelError,
            "delays its output y; compute the signal in line",
        ),
        (
            lambda: model(Delayed("v", 1.0), lines=Signals("v"), line=sum_of),
            ModelError,
            "no value before the run; give before=",
        ),
        (
            lambda: model(Delayed("v", 0, before=0.0), lines=Signals("v"), line=sum_of),
            ModelError,
            "has the lag 0; a signal of lines needs",
        ),
        (lambda: model(lines=Signals("v")), ModelError, "both lines and the function line"),
    ],
)
def test_mistakes_in_a_declaration(
    make: Callable[[], Any], error: type[RtsimError], text: str
) -> None:
    with pytest.raises(error, match=text):
        make()


@pytest.mark.parametrize("compile", [False, True])
def test_a_lag_that_leaves_its_bounds(compile: bool) -> None:
    delayed = Delayed("x", _short, least=0.25, most=1.0, before=1.0)
    said = (
        r"a, between .*: delayed signal x_delayed .* has the lag 0\.\d* s at 0\.[78].* outside its "
        r"bounds, from 0\.25 s to 1 s"
    )
    for solver in ("rk4", "dp54"):
        with pytest.raises(ModelError, match=said):
            ran(single(model(delayed), 2, solver), compile=compile)
    late = Delayed("x", _short, least=0.25, most=0.5, before=1.0)
    with pytest.raises(ModelError, match="has the lag 1 s at 0 s, outside its bounds"):
        ran(single(model(late), 2), compile=compile)


def test_a_parameter_that_begins_with_a_lag_that_is_not_valid() -> None:
    given = model(Delayed("x", "lag"), parameters=Signals("lag [s] = -0.5"))
    said = r"has the lag -0\.5 s at 0 s, by the parameter lag; it must be 0, or at least 1e-09 s$"
    with pytest.raises(ModelError, match=said):
        ran(single(given, 2))


@pytest.mark.parametrize("solver", ["lsoda", "radau", "bdf", "dop853", "rodas5p"])
def test_other_solvers_are_refused_by_name(solver: str) -> None:
    with pytest.raises(ScenarioError, match=f"solver {solver} cannot integrate model m, which has"):
        ran(single(model(Delayed("x", 1.0)), 2, solver))


def test_a_budget_with_a_variable_lag_is_refused() -> None:
    with pytest.raises(ScenarioError, match="variable lag, which a solver with a budget"):
        ran(single(model(Delayed("x", _short, 0.1, 1.0)), 2, Adaptive(budget=50)))


def test_an_index_beyond_the_delayed_signals() -> None:
    def beyond(t: float, x: Vector, z: Vector, u: Vector, p: Vector, dx: Vector) -> None:
        dx[0] = u[1]

    wrong = Model("m", Signals("x"), beyond, delays=(Delayed("x", 1.0),))
    with pytest.raises(ModelError, match=r"element that does not exist.*u: 1"):
        ran(single(wrong, 1), compile=True)
