"""Rosenbrock methods: coefficients, factors of bands, Jacobians, stiff order, what is refused."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st

from rtsim.core.errors import ModelError, ScenarioError
from rtsim.core.signals import Signal, Signals, Vector
from rtsim.equations.delays import Delayed
from rtsim.equations.model import Guard, Model, bind
from rtsim.record.recorders import MemoryRecorder
from rtsim.runs.simulation import simulate
from rtsim.scenario.scenario import Scenario
from rtsim.solve import GOOD, RODAS5P, TOO_MANY, Rosenbrock, Stepper, jacobians
from rtsim.solve.adaptive import EVALUATIONS, REJECTED, STEPS
from rtsim.solve.base import lower_triangle
from rtsim.solve.linear_algebra import factor, height, substitute
from rtsim.solve.rosenbrock import FACTORS, JACOBIANS, RODAS5P_TABLEAU, RosenbrockTableau
from rtsim.testing.solvers import FORCED, NONE, check_pair

S = 1_000_000_000


# -- coefficients ----------------------------------------------------------------------------------


def conditions(table: RosenbrockTableau, stages: Vector) -> Vector:
    """How far the weights ``stages`` (s,) are from each condition up to order 4, and one of 5.

    Source: Hairer, Wanner, Solving Ordinary Differential Equations II, table IV.7.1.
    """
    inverse = np.linalg.inv(np.eye(len(table.b)) / table.gamma - lower_triangle(table.e))
    alpha = lower_triangle(table.a) @ inverse
    b, beta = stages @ inverse, alpha + inverse
    c, r = alpha.sum(axis=1), beta.sum(axis=1)
    return np.array([
        b.sum() - 1, b @ r - 1 / 2, b @ c**2 - 1 / 3, b @ beta @ r - 1 / 6, b @ c**3 - 1 / 4,
        b @ (c * (alpha @ r)) - 1 / 8, b @ beta @ c**2 - 1 / 12, b @ beta @ beta @ r - 1 / 24,
        b @ c**4 - 1 / 5,
    ])  # fmt: skip


def test_the_coefficients_satisfy_the_conditions_of_their_orders() -> None:
    table = RODAS5P_TABLEAU
    assert np.abs(conditions(table, np.array(table.b))).max() < 2e-14
    lower = conditions(table, np.array(table.b) - table.error_weights)
    assert np.abs(lower[:8]).max() < 2e-14
    assert abs(lower[8]) > 1e-3, "the embedded method has order 4, not 5"
    assert table.a[-1] == table.b[:-1], "the last stage is at the end of the step"


def test_a_changed_coefficient_is_found() -> None:
    """Each coefficient in turn is off in its sixth digit."""
    table, unseen = RODAS5P_TABLEAU, []
    for field in ("a", "e", "c", "d", "b"):
        rows = getattr(table, field)
        places = [(i, j) for i, row in enumerate(rows) for j in range(np.size(row))]
        for i, j in places:
            row = list(np.atleast_1d(rows[i]))
            if row[j] == 0.0:
                continue
            row[j] *= 1 + 1e-6
            changed = tuple(row) if field in "ae" else row[0]
            given: dict[str, Any] = {field: (*rows[:i], changed, *rows[i + 1 :])}
            try:
                bad = replace(table, **given)
            except ScenarioError:
                continue
            last = bad.a[-1] == bad.b[:-1]
            if last and np.abs(conditions(bad, np.array(bad.b))).max() < 1e-9:
                unseen.append((field, i, j))
    assert not unseen


def test_a_broken_estimate_and_a_broken_dense_output_are_found() -> None:
    table = RODAS5P_TABLEAU
    estimate = replace(table, error=(0.0,) * 6 + (1.0, 0.0))
    with pytest.raises(AssertionError, match="error estimate falls with"):
        check_pair(Rosenbrock(tableau=estimate))
    first = (table.dense[0][0] * 1.001, *table.dense[0][1:])
    dense = replace(table, dense=(first, *table.dense[1:]))
    with pytest.raises(AssertionError, match="the error of the dense output falls with"):
        check_pair(Rosenbrock(tableau=dense))


def test_stiffness_makes_no_step_less_accurate() -> None:
    """Prothero and Robinson's problem, whose solution sin t is slow: the error falls with 1/rate.

    Source: Hairer, Wanner, Solving Ordinary Differential Equations II, section IV.15.
    """

    def fast(t: float, x: Vector, z: Vector, u: Vector, p: Vector, dx: Vector) -> None:  # noqa: ARG001
        dx[0] = -p[0] * (x[0] - math.sin(t)) + math.cos(t)

    bound = bind(Model("fast", Signals("x"), fast, parameters=Signals("rate")), compile=False)
    errors = []
    for rate in (1e3, 1e4, 1e6, 1e8):
        p, x, out = np.array([rate]), np.zeros(1), np.zeros(1)
        stepper = replace(RODAS5P, rtol=1e9, atol=1e9, first=1e9).stepper(bound)
        for k in range(4):
            ends = S * k // 4, S * (k + 1) // 4
            assert stepper.advance(*ends, x, NONE, NONE, p, out) == GOOD
            x, out = out, x
        errors.append(abs(x[0] - math.sin(1.0)) * rate)
    assert max(errors) < 1e-4


def test_a_coefficient_that_does_not_fit_is_named() -> None:
    nodes = (0.0, 0.63, *RODAS5P_TABLEAU.c[2:])
    with pytest.raises(
        ScenarioError, match=r"tableau rodas5p: c\[1\] differs by .* from the value"
    ):
        replace(RODAS5P_TABLEAU, c=nodes)
    with pytest.raises(ScenarioError, match="row i of the matrices a and e must have i entries"):
        replace(RODAS5P_TABLEAU, a=((1.0,), *RODAS5P_TABLEAU.a[1:]))
    with pytest.raises(ScenarioError, match="all coefficients must have 8 entries"):
        replace(RODAS5P_TABLEAU, a=RODAS5P_TABLEAU.a[:-1])


# -- factors ---------------------------------------------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 12), st.integers(0, 12), st.integers(0, 12), st.integers(0, 2**32 - 1))
def test_factors_of_any_band_solve_its_system(n: int, below: int, above: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    below, above = min(below, n - 1), min(above, n - 1)
    matrix = np.triu(np.tril(rng.normal(size=(n, n)), above), -below)
    matrix[np.diag_indices(n)] *= rng.choice([1.0, 1e-3, 30.0])  # rows are exchanged, or not
    kept = height(n, below, above)
    lu, pivots = np.zeros((n, kept)), np.zeros(n + 1)
    for k in range(n):
        first = min(max(0, k - above - below), n - kept)
        lu[k] = matrix[first : first + kept, k]
    wanted = rng.normal(size=n)
    b = matrix @ wanted
    assert factor(lu, pivots, below, above) == -1
    substitute(lu, pivots, b, below, above)
    assert np.abs(b - wanted).max() < 1e-12 * np.linalg.cond(matrix) * max(1, np.abs(wanted).max())


def test_a_matrix_without_a_pivot_is_told_by_its_column() -> None:
    for value in (0.0, math.nan, math.inf):
        lu, pivots = np.eye(3), np.zeros(4)
        lu[1, 1] = value
        assert factor(lu, pivots, 2, 2) == 1


# -- Jacobians -------------------------------------------------------------------------------------


def chain(t: Any, x: Any, z: Any, u: Any, p: Any, dx: Any) -> None:  # noqa: ARG001
    """A rod whose parts are numbered 0, 37, 74, ... modulo x.size: no narrow band."""
    n = x.size
    for i in range(n):
        here = (37 * i) % n
        left = x[(37 * (i - 1)) % n] if i > 0 else 0.0
        right = x[(37 * (i + 1)) % n] if i < n - 1 else 0.0
        dx[here] = 1e4 * (left - 2.0 * x[here] + right)


def chained(n: int = 100) -> Model:
    start = np.empty(n)
    start[(37 * np.arange(n)) % n] = np.sin(np.pi * np.arange(1, n + 1) / (n + 1))
    return Model("chain", Signals(Signal("x", shape=(n,), initial=tuple(start))), chain)


def advanced(solver: Rosenbrock, model: Model, end: int, compile: bool = True) -> tuple[Any, ...]:
    """The state at ``end`` (ns) after one advance, and the memory."""
    stepper = solver.stepper(bind(model, compile=compile))
    x = model.states.initial()
    out = np.empty(x.size)
    p = model.parameters.initial()
    assert stepper.advance(0, end, x, model.discrete.initial(), NONE, p, out) == GOOD
    stepper.accept()
    return out, stepper.save()["memory"]


def test_states_are_ordered_so_that_the_band_is_narrow() -> None:
    model, n = chained(), 100
    matrix = jacobians.matrix_arrays(bind(model, compile=False), np.ones(n))
    assert matrix["matrix"][[jacobians.BELOW, jacobians.ABOVE]].tolist() == [1, 1]
    assert matrix["lu"].shape == (n, 4)
    assert matrix["groups"].size < 6, "few groups of columns"
    end, memory = advanced(RODAS5P, model, S // 1000)
    decay = -4e4 * math.sin(math.pi / 2 / (n + 1)) ** 2
    assert end == pytest.approx(model.states.initial() * math.exp(decay * 1e-3), rel=1e-5)
    assert memory[EVALUATIONS] < 16 * memory[FACTORS]
    assert memory[STEPS] == memory[JACOBIANS] == memory[FACTORS] - memory[REJECTED]


def test_compiled_and_plain_steps_agree() -> None:
    for model in (FORCED, chained()):
        (fast, counts), (plain, others) = (
            advanced(RODAS5P, model, S // 100, compile) for compile in (True, False)
        )
        assert fast == pytest.approx(plain, rel=1e-9, abs=1e-12)
        assert counts[EVALUATIONS] == others[EVALUATIONS]


def branch(t: Any, x: Any, z: Any, u: Any, p: Any, dx: Any) -> None:  # noqa: ARG001
    """From 0.05 s on, the last state acts on the first."""
    for i in range(x.size):
        dx[i] = -(1.0 + i) * x[i]
    if t > 0.05:
        dx[0] += 300.0 * (x[x.size - 1] - x[0])


def run_of(model: Model) -> str:
    """The error of a run of 0.1 s."""
    scenario = Scenario("it", until="1/10")
    scenario.plant("plant", model, step="1/50", solver="rodas5p")
    with pytest.raises(ModelError) as told:
        simulate(scenario)
    return str(told.value)


def test_an_element_that_probing_or_a_declaration_lacks_ends_the_run() -> None:
    n = 100
    states = Signals(Signal("h", shape=(n,), initial=(1.0,) * n))
    assert "depend at 0.0" in (said := run_of(Model("branch", states, branch)))
    assert "declare the sparsity of the model (docs/sparse.md), or use radau or bdf" in said
    assert "declares that dh_0/dt does not depend on h_99 (row 0, column 99)" in run_of(
        Model("branch", states, branch, sparsity=np.eye(n))
    )


def test_a_wrong_jacobian_is_named() -> None:
    def fast(t: Any, x: Any, z: Any, u: Any, p: Any, dx: Any) -> None:  # noqa: ARG001
        dx[0], dx[1] = -1000.0 * (x[0] - x[1]), -x[1] * x[1]

    def slopes(t: Any, x: Any, z: Any, u: Any, p: Any, j: Any) -> None:  # noqa: ARG001
        j[0], j[1], j[2], j[3] = -1000.0, 1000.0, 0.0, -2.0 * x[1]

    def wrong(t: Any, x: Any, z: Any, u: Any, p: Any, j: Any) -> None:  # noqa: ARG001
        j[0], j[1], j[2], j[3] = -1000.0, -1000.0, 0.0, -2.0 * x[1]

    def model(jacobian: Any) -> Model:
        return Model("fast", Signals("a = 1", "b = 1"), fast, jacobian=jacobian)

    end, memory = advanced(RODAS5P, model(slopes), S // 10)
    assert end[1] == pytest.approx(1 / 1.1, rel=1e-6)
    assert memory[EVALUATIONS] < 11 * memory[FACTORS]
    assert "jacobian of model fast gives -1000 for the derivative of da/dt by b" in run_of(
        model(wrong)
    )


def test_a_kink_is_no_disagreement() -> None:
    """The derivative of |x| at 0 is none of its difference quotients."""

    def kinks(t: Any, x: Any, z: Any, u: Any, p: Any, dx: Any) -> None:  # noqa: ARG001
        for i in range(x.size):
            dx[i] = 1.0 - 50.0 * abs(x[i])

    n = 40
    model = Model("kinks", Signals(Signal("x", shape=(n,))), kinks, sparsity=np.eye(n))
    assert advanced(RODAS5P, model, S // 10)[0] == pytest.approx(np.full(n, 0.01986524), abs=1e-6)


# -- runs ------------------------------------------------------------------------------------------


def bounces(t: float, x: Vector, z: Vector, u: Vector, p: Vector, dx: Vector) -> None:  # noqa: ARG001
    """A mass in a viscous liquid, faster than 1e5/s, that a guard throws up again."""
    dx[0] = x[1]
    dx[1] = -1e5 * (x[1] + 1.0)


def floor(t: float, x: Vector, z: Vector, u: Vector, p: Vector, g: Vector) -> None:  # noqa: ARG001
    g[0] = x[0]


def thrown(i: int, t: float, x: Vector, z: Vector, u: Vector, p: Vector) -> None:  # noqa: ARG001
    x[0] = 1.0


SINKS = Model("sinks", Signals("h = 1", Signal("v", derivative_of="h", initial=-1.0)), bounces,
              guards=(Guard("floor", -1),), guard=floor, reset=thrown)  # fmt: skip


def test_both_engines_record_equal_rows() -> None:
    found = []
    for engine in ("compiled", "interpreted"):
        scenario, recorder = Scenario("sinks", until=4), MemoryRecorder()
        scenario.plant("mass", SINKS, step="1/3", solver="rodas5p")
        done = simulate(scenario, recorder=recorder, engine=engine)
        recording = recorder.recording()
        events = [(e.tag.ns, e.kind) for e in recording.events]
        found.append((events, done.system.plants[0].x.tolist()))
    assert found[0] == found[1]
    crossed = [ns for ns, kind in found[0][0] if kind == "Crossed"]
    assert crossed == pytest.approx([1e9, 2e9, 3e9, 4e9][: len(crossed)], abs=2)
    assert len(crossed) >= 3


def test_many_tags_cost_a_step_each() -> None:
    """The length of the next step is remembered, and no step is taken to begin anew."""

    def van_der_pol(t: float, x: Vector, z: Vector, u: Vector, p: Vector, dx: Vector) -> None:  # noqa: ARG001
        dx[0] = x[1]
        dx[1] = 1000.0 * (1.0 - x[0] * x[0]) * x[1] - x[0]

    oscillator = Signals(Signal("x", initial=2.0), "v")
    bound, taken = bind(Model("van der Pol", oscillator, van_der_pol)), []
    for tags in (2, 200):
        stepper, x, out = RODAS5P.stepper(bound), np.array([2.0, 0.0]), np.zeros(2)
        for k in range(tags):
            ends = 2000 * S * k // tags, 2000 * S * (k + 1) // tags
            assert stepper.advance(*ends, x, NONE, NONE, NONE, out) == GOOD
            stepper.accept()
            x, out = out, x
        assert x[0] == pytest.approx(1.706167732170469, rel=1e-5)
        taken.append(stepper.save()["memory"][STEPS])
    assert taken[1] < taken[0] + 200


def test_what_cannot_be_solved_is_named() -> None:
    def late(t: Any, x: Any, z: Any, u: Any, p: Any, dx: Any) -> None:  # noqa: ARG001
        dx[0] = -u[0]

    delayed = Model("late", Signals("x = 1"), late, delays=(Delayed("x", 0.1),))
    with pytest.raises(ScenarioError, match="rodas5p cannot integrate model late, which has del"):
        RODAS5P.stepper(bind(delayed, compile=False))
    n = 8000
    wide = scipy.sparse.eye_array(n).tolil()
    wide[0, :] = 1.0
    wide[:, 0] = 1.0
    many = Model("many", Signals(Signal("x", shape=(n,))), chain, sparsity=wide)
    with pytest.raises(ScenarioError, match=r"band of \d+ diagonals.* MB; use radau or bdf"):
        RODAS5P.stepper(bind(many))


@pytest.mark.parametrize(
    ("option", "value"),
    [*product(("least", "first"), (-1.0, math.nan)), ("safety", 1.5), ("most", 0.0), ("rtol", 0.0)],
)
def test_an_option_outside_its_range_is_refused(option: str, value: float) -> None:
    given: dict[str, Any] = {option: value}
    with pytest.raises(ScenarioError, match=option):
        Rosenbrock(**given)


def test_too_many_steps_and_a_derivative_that_is_not_finite() -> None:
    stepper: Any = replace(RODAS5P, most_steps=5).stepper(bind(FORCED, compile=False))
    p, out = FORCED.parameters.initial(), np.zeros(2)
    assert stepper.advance(0, 10 * S, np.zeros(2), NONE, NONE, p, out) == TOO_MANY
    assert stepper.stall().tried == 5

    def root(t: float, x: Vector, z: Vector, u: Vector, p: Vector, dx: Vector) -> None:  # noqa: ARG001
        dx[0] = -np.sqrt(x[0])

    tank: Stepper = RODAS5P.stepper(bind(Model("tank", Signals("x = 1"), root)))
    assert tank.advance(0, 10 * S, np.array([-1.0]), NONE, NONE, NONE, out[:1]) == 0
