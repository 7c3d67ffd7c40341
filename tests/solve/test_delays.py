"""Models with delays: accuracy, breaks, and lags that vary.

Mistakes in models with delays: each has one clear message.
"""

# ruff: noqa: ARG001

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from delay_parts import DECAY, S, by_steps, decay, ran, single

from rtsim import Delayed, Guard, Model, Scenario, Signal, Signals, simulate
from rtsim.core.errors import ModelError, RtsimError, ScenarioError, UnknownName
from rtsim.core.signals import Vector
from rtsim.equations.history import ORDER, History
from rtsim.record.recorders import MemoryRecorder
from rtsim.solve import Adaptive, Solver

FIXED = ("euler", "midpoint", "rk4", "abm4")
ORDERS = {"euler": 1, "midpoint": 2, "rk4": 4, "abm4": 4}

# -- x' = -x(t - 1), x = 1 before ------------------------------------------------------------------


def order(solver: str) -> float:
    """The order of convergence on steps that do not end at the breaks by themselves.

    The break at 1 s is in the middle between two points of each grid.
    """

    def off(step: str) -> float:
        recording = ran(single(DECAY, 6, solver, step))
        exact = [by_steps(t) for t in recording.track("a").ns / S]
        return float(np.abs(recording.track("a").column("x") - exact).max())

    return math.log(off("2/31") / off("2/63")) / math.log(63 / 31)


@pytest.mark.parametrize("solver", FIXED)
def test_each_method_keeps_its_order_across_breaks(solver: str) -> None:
    assert abs(order(solver) - ORDERS[solver]) < 0.2


def test_without_breaks_the_order_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same runs, but the solver keeps no break: order 2 in place of 4."""
    attach = History.attach

    def without(self: History, functions: Any, arrays: Any, width: int, alive: object) -> None:
        arrays["live"][ORDER] = -1.0
        attach(self, functions, arrays, width, alive)

    monkeypatch.setattr(History, "attach", without)
    assert order("rk4") < 2.2
    assert order("abm4") < 2.2


def test_an_adaptive_solver_ends_its_steps_at_the_breaks() -> None:
    """The solution is a polynomial of degree 5 up to 4 s: dp54 gives it but for rounding."""
    recording = ran(single(DECAY, 4, "dp54", "1/3"))
    exact = np.array([by_steps(t) for t in recording.track("a").ns / S])
    assert np.abs(recording.track("a").column("x") - exact).max() < 1e-14


@pytest.mark.parametrize("rtol", [1e-5, 1e-8])
def test_an_adaptive_solver_keeps_its_tolerance(rtol: float) -> None:
    recording = ran(single(DECAY, 9, Adaptive(rtol=rtol, atol=rtol), "1/2"))
    exact = np.array([by_steps(t) for t in recording.track("a").ns / S])
    assert np.abs(recording.track("a").column("x") - exact).max() < 20 * rtol


# -- lags that vary --------------------------------------------------------------------------------


def feldstein_neves(t: float, x: Vector, z: Vector, u: Vector, p: Vector, dx: Vector) -> None:
    dx[0] = x[0] * u[0] / (t + 1.0)


def their_lag(t: float, x: Vector, z: Vector, u: Vector, p: Vector) -> float:
    return t + 1.0 - math.log(x[0])


FELDSTEIN_NEVES = Model(
    "feldstein_neves",
    states=Signals("x = 1"),
    derivative=feldstein_neves,
    delays=(Delayed("x", their_lag, least=0.9, most=8.0, before=1.0),),
)
"""y'(t) = y(t) y(ln y(t)) / t from t = 1 on, y = 1 before; t here begins at 0.

A problem of A. Feldstein and K. W. Neves, SIAM J. Numer. Anal. 21, 1984, p. 844.  The lag depends
on the state, and breaks arrive at e and e^2.  Insertion shows that the solution is correct."""


def their_solution(t: float) -> float:
    t += 1.0
    if t <= math.e:
        return t
    return math.exp(t / math.e) if t <= math.e**2 else (math.e / (3 - math.log(t))) ** math.e


def off_by(solver: str | Solver, step: str, **how: Any) -> float:
    recording = ran(single(FELDSTEIN_NEVES, 10, solver, step), **how)
    exact = np.array([their_solution(t) for t in recording.track("a").ns / S])
    return float(np.abs(recording.track("a").column("x") / exact - 1).max())


def test_a_lag_that_depends_on_the_state() -> None:
    assert math.log2(off_by("rk4", "1/4") / off_by("rk4", "1/8")) > 3.7
    assert off_by(Adaptive(rtol=1e-8, atol=1e-10), "1/4") < 1e-7
    recorder = MemoryRecorder()
    run = simulate(single(FELDSTEIN_NEVES, 10, "dp54"), compile=False, recorder=recorder)
    past = run.system.plants[0].bound.history
    assert past is not None
    breaks = [row[0] for row in past._arrays["breaks"][1:3]]
    assert np.allclose(breaks, (math.e - 1, math.e**2 - 1), atol=1e-9)


def swing(t: float, x: Vector, z: Vector, u: Vector, p: Vector, dx: Vector) -> None:
    dx[0] = math.cos(t) - math.sin(t - 1.0 - 0.5 * math.sin(3.0 * t)) + u[0]


def swinging(t: float, x: Vector, z: Vector, u: Vector, p: Vector) -> float:
    return 1.0 + 0.5 * math.sin(3.0 * t)


def sine(t: float) -> float:
    return math.sin(t)


def test_a_lag_that_takes_a_signal_back_over_a_break() -> None:
    """x = sin(t); the argument of the delay moves back and forth, as its slope is negative."""
    model = Model(
        "swing",
        states=Signals("x"),
        derivative=swing,
        delays=(Delayed("x", swinging, least=0.5, most=1.5, before=sine),),
    )
    for solver, error in (("rk4", 2e-6), (Adaptive(rtol=1e-9, atol=1e-9), 1e-8)):
        recording = ran(single(model, 6, solver, "1/20"))
        assert (
            np.abs(recording.track("a").column("x") - np.sin(recording.track("a").ns / S)).max()
            < error
        )


# -- two lags, vectors, inputs, discrete signals, lines --------------------------------------------


def several(t: float, x: Vector, z: Vector, u: Vector, p: Vector, dx: Vector) -> None:
    dx[0], dx[1], dx[2], dx[3] = u[1], 1.0, u[2], u[3]


def test_states_inputs_and_several_lags() -> None:
    model = Model(
        "several",
        states=Signals("a", "ramp", "c", "d"),
        inputs=Signals("force"),
        derivative=several,
        delays=(
            Delayed("ramp", 0.3, before=0.0),
            Delayed("force", "lag"),
            Delayed("ramp", 0, name="now"),
        ),
        parameters=Signals("lag = 0.25"),
    )
    out = Scenario("several", until=1)
    out.plant("a", model, step="1/7", inputs={"force": "knob.force"})
    out.source("knob", Signals("force = 2"))
    out.at("0.4", "knob.force", 5.0)
    recording = ran(out)
    assert abs(recording["a.a"][-1] - 0.7**2 / 2) < 1e-14
    assert abs(recording["a.c"][-1] - (2 * 0.65 + 5 * 0.35)) < 1e-14
    assert abs(recording["a.d"][-1] - 1 / 2) < 1e-14


def comb(t: float, x: Vector, z: Vector, u: Vector, p: Vector, v: Vector) -> None:
    v[0] = u[0] + 0.5 * u[1]  # the input, plus half of what went in 0.3 s ago


def take(t: float, x: Vector, z: Vector, u: Vector, p: Vector, dx: Vector) -> None:
    dx[0] = u[1]


def test_a_jump_that_no_integrator_smooths_arrives_again_and_again() -> None:
    model = Model(
        "comb",
        states=Signals("x"),
        inputs=Signals("in"),
        derivative=take,
        lines=Signals("sum"),
        line=comb,
        delays=(Delayed("sum", 0.3, before=0.0),),
    )
    out = Scenario("comb", until=3)
    out.plant("a", model, step="1/7", inputs={"in": "knob.in"})
    out.source("knob", Signals("in"))
    out.at("0.1", "knob.in", 1.0)
    wanted = sum(max(0.0, 2.9 - 0.3 * k) * 0.5 ** (k - 1) for k in range(1, 20))
    assert abs(ran(out)["a.x"][-1] - wanted) < 1e-13


# -- a lag that changes, and room for the past -----------------------------------------------------


def test_a_parameter_that_changes_the_lag() -> None:
    def scenario(most: float | None, lag: float) -> Scenario:
        delayed = Delayed("x", "lag", most=most, before=0.0)
        model = Model(
            "ramp",
            states=Signals("x", "sum"),
            parameters=Signals("lag = 0.25"),
            derivative=ramp,
            delays=(delayed,),
        )
        out = single(model, 3, "rk4", "1/10")
        out.at("1.5", "a.lag", lag)
        return out

    wanted = 1.25**2 / 2 + (2.5**2 - 1.0**2) / 2
    assert abs(ran(scenario(0.6, 0.5))["a.sum"][-1] - wanted) < 1e-13
    wanted = 1.25**2 / 2 + (3.0**2 - 1.5**2) / 2
    assert abs(ran(scenario(None, 0.0))["a.sum"][-1] - wanted) < 1e-13
    with pytest.raises(ModelError, match=r"lag 0\.5 s at 1\.5 s, by the parameter lag.* most="):
        ran(scenario(None, 0.5))
    with pytest.raises(ModelError, match=r"lag -0\.1 s at 1\.5 s, by the parameter lag"):
        ran(scenario(None, -0.1))


def ramp(t: float, x: Vector, z: Vector, u: Vector, p: Vector, dx: Vector) -> None:
    dx[0] = 1.0
    dx[1] = u[0]


def test_a_lag_shorter_than_a_step() -> None:
    """The solver takes shorter steps: the plant has a grid of 1 s, and the lag is 0.1 s."""
    model = Model(
        "decay", states=Signals("x = 1"), derivative=decay, delays=(Delayed("x", 0.1, before=1.0),)
    )
    fine = ran(single(model, 2, Adaptive(rtol=1e-10, atol=1e-12), "1"))
    assert len(fine.track("a").column("x")) == 3
    assert abs(ran(single(model, 2, "rk4", "1"))["a.x"][-1] - fine["a.x"][-1]) < 1e-6


def test_a_budget_with_a_constant_lag() -> None:
    recording = ran(single(DECAY, 4, Adaptive(budget=40), "1/2"))
    assert abs(recording["a.x"][-1] - by_steps(4)) < 1e-6


def test_a_signal_with_a_unit_and_a_shape() -> None:
    def turn(t: float, x: Vector, z: Vector, u: Vector, p: Vector, dx: Vector) -> None:
        dx[0], dx[1] = -u[1], u[0]

    spin = Model(
        "spin",
        Signals(Signal("r", "m", shape=(2,), initial=(1.0, 0.0))),
        turn,
        delays=(Delayed("r", 0.5, before=(1.0, 0.0)),),
    )
    recording = ran(single(spin, 0.5, "rk4", "1/10"))
    assert abs(recording["a.r_1"][-1] - 0.5) < 1e-14


def stamp(t: float, x: Vector, z: Vector, u: Vector, p: Vector) -> None:
    z[0] = t


def test_a_discrete_signal_arrives_late() -> None:
    """The update writes 0, 0.5, 1 and 1.5, each of which arrives 0.25 s later."""
    sampled = Model(
        "sampled",
        states=Signals("x"),
        discrete=Signals("stamp"),
        derivative=take_first,
        update=stamp,
        delays=(Delayed("stamp", 0.25, before=0.0),),
    )
    out = Scenario("sampled", until=2)
    out.plant("a", sampled, step="1/7", update_period="1/2")
    assert abs(ran(out)["a.x"][-1] - 1.125) < 1e-14


def take_first(t: float, x: Vector, z: Vector, u: Vector, p: Vector, dx: Vector) -> None:
    dx[0] = u[0]


def top(t: float, x: Vector, z: Vector, u: Vector, p: Vector, g: Vector) -> None:
    g[0] = x[0] - 1.0


def to_zero(i: int, t: float, x: Vector, z: Vector, u: Vector, p: Vector) -> None:
    x[0] = 0.0


def test_the_jump_of_a_reset_arrives_late() -> None:
    """A sawtooth that falls at 1 s, 0.3 s late; 1.3 s is no point of the grid."""
    saw = Model(
        "saw",
        states=Signals("x", "sum"),
        derivative=ramp,
        guards=(Guard("top", 1),),
        guard=top,
        reset=to_zero,
        delays=(Delayed("x", 0.3, before=0.0),),
    )
    for solver in ("rk4", "dp54"):
        assert abs(ran(single(saw, 2, solver, "1/7"))["a.sum"][-1] - 0.745) < 1e-8


# ruff: noqa: ARG001


def model(*delays: Delayed, **other: Any) -> Model:
    return Model("m", states=Signals("x = 1"), derivative=decay, delays=delays, **other)


def sum_of(t: float, x: Vector, z: Vector, u: Vector, p: Vector, v: Vector) -> None:
    v[0] = x[0]


def all_of(t: float, x: Vector, z: Vector, u: Vector, p: Vector, y: Vector) -> None:
    y[0] = x[0]


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
        (
            lambda: Delayed("x", _short, least=0.1, most=math.inf),
            ModelError,
            "give finite bounds with 1e-09 s <= least <= most",
        ),
        (lambda: Delayed("x", [1]), ModelError, r"lag \[1\]; give a number in s"),  # type: ignore
        (lambda: Delayed("x", sum_of, 1, 2), ModelError, "but v is not a possible argument"),  # type: ignore[arg-type]
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
            lambda: model(Delayed("y", 1.0), outputs=Signals("y"), output=all_of),
            ModelError,
            "delays its output y, but outputs cannot be delayed",
        ),
        (
            lambda: model(Delayed("v", 1.0), lines=Signals("v"), line=sum_of),
            ModelError,
            "no value before the run; give before=",
        ),
        (
            lambda: model(Delayed("v", 0, before=0.0), lines=Signals("v"), line=sum_of),
            ModelError,
            "has the lag 0 s, but delays a line; give a lag",
        ),
        (
            lambda: model(lines=Signals("v")),
            ModelError,
            "model .* has lines= but no line=; give both",
        ),
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
    with pytest.raises(ModelError, match=r"element that does not exist: u\[1\].*shape \(1,\)"):
        ran(single(wrong, 1), compile=True)
