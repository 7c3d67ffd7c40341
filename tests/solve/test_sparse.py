"""Sparse Jacobians: probed, declared, compared with the derivative, and small in memory."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st

from rtsim.core.errors import ModelError
from rtsim.core.signals import Signal, Signals, Vector
from rtsim.equations.model import Model, bind
from rtsim.equations.sparsity import Sparsity, probed
from rtsim.solve import BDF, GOOD, LSODA, RADAU, SciPy, Stepper
from rtsim.solve.jacobians import PROBED_FROM, Jacobian
from rtsim.solve.scipy_solvers import EVALUATIONS

NONE = np.zeros(0)
S = 1_000_000_000
IMPLICIT = pytest.mark.parametrize("solver", [RADAU, BDF, LSODA], ids=lambda s: s.name)


def heat(t: Any, x: Any, z: Any, u: Any, p: Any, dx: Any) -> None:  # noqa: ARG001
    """A rod with both ends at 0, in x.size + 1 parts."""
    n = x.size
    for i in range(n):
        left = x[i - 1] if i > 0 else 0.0
        right = x[i + 1] if i < n - 1 else 0.0
        dx[i] = (n + 1.0) ** 2 * (left - 2.0 * x[i] + right)


def heat_jacobian(t: Any, x: Any, z: Any, u: Any, p: Any, j: Any) -> None:  # noqa: ARG001
    n, k = x.size, 0
    for i in range(n):
        if i > 0:
            j[k] = (n + 1.0) ** 2
            k += 1
        j[k] = -2.0 * (n + 1.0) ** 2
        k += 1
        if i < n - 1:
            j[k] = (n + 1.0) ** 2
            k += 1


def tridiagonal(n: int) -> Any:
    return scipy.sparse.diags_array([1.0, 1.0, 1.0], offsets=[-1, 0, 1], shape=(n, n))


def rod(n: int, **declared: Any) -> Model:
    x = np.sin(np.pi * np.arange(1, n + 1) / (n + 1))
    return Model("rod", Signals(Signal("T", shape=(n,), initial=tuple(x))), heat, **declared)


def exact(n: int, t: float) -> Vector:
    decay = -4.0 * (n + 1) ** 2 * np.sin(np.pi / 2 / (n + 1)) ** 2
    end: Vector = np.sin(np.pi * np.arange(1, n + 1) / (n + 1)) * np.exp(decay * t)
    return end


def run(stepper: Stepper, x: Vector, tags: int, first: int = 0, until: int | None = None) -> Vector:
    """0.1 s in so many equal advances, or those from ``first`` to before ``until``."""
    for k in range(first, tags if until is None else until):
        out = np.empty(x.size)
        a, b = (S // 10 * i // tags for i in (k, k + 1))
        assert stepper.advance(a, b, x, NONE, NONE, NONE, out) == GOOD
        stepper.accept()
        x = out
    return x


# -- the pattern -----------------------------------------------------------------------------------


def of(matrix: Any) -> set[tuple[int, int]]:
    return set(zip(*(map(int, at) for at in np.nonzero(matrix)), strict=True))


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 130), st.integers(0, 3), st.integers(0, 2**32 - 1), st.booleans())
def test_probing_finds_each_element_of_a_sparse_function(
    n: int, each: int, seed: int, arrow: bool
) -> None:
    rng = np.random.default_rng(seed)
    a = np.eye(n)
    for _ in range(each):
        a[rng.permutation(n), np.arange(n)] = rng.normal(size=n)
    if arrow:
        a[0, :] = 1.0
    x = rng.normal(size=n)
    found = probed(lambda y: a @ np.sin(y), x, np.full(n, 1e-3))
    if found is None:  # so full that it is treated as dense
        assert np.count_nonzero(a) > n * 64 // 16
    else:
        assert set(zip(found.rows.tolist(), found.columns.tolist(), strict=True)) == of(a)


def test_a_banded_function_is_probed_with_few_evaluations() -> None:
    n, calls = 4096, 0
    pattern = tridiagonal(n).tocsr()

    def function(x: Vector) -> Vector:
        nonlocal calls
        calls += 1
        return pattern @ x  # type: ignore[no-any-return]

    found = probed(function, np.ones(n), np.full(n, 1e-3))
    assert found is not None
    assert found.count == 3 * n - 2
    assert found.band == (1, 1)
    assert len(found.groups) == 3
    assert calls < 10 * 12


def test_the_columns_of_a_group_have_no_row_in_common() -> None:
    matrix = scipy.sparse.random_array((60, 60), density=0.05, rng=3)
    found = Sparsity.of(matrix, 60, "it")
    assert sorted(np.concatenate(found.groups).tolist()) == list(range(60))
    for group in found.groups:
        assert np.all((matrix.toarray()[:, group] != 0).sum(axis=1) <= 1)
    assert (found.matrix(np.ones(found.count)).toarray() != 0).tolist() == (
        matrix.toarray() != 0
    ).tolist()


def test_another_shape_is_refused() -> None:
    with pytest.raises(ModelError, match=r"sparsity of model rod has shape \(3, 4\); give .*\(5, "):
        rod(5, sparsity=np.ones((3, 4)))


# -- solvers ---------------------------------------------------------------------------------------


@IMPLICIT
@pytest.mark.parametrize("how", ["probed", "sparsity", "jacobian", "plain"])
def test_the_heat_equation_with_few_evaluations(solver: SciPy, how: str) -> None:
    n = 2 * PROBED_FROM
    declared: dict[str, Any] = {} if how in ("probed", "plain") else {"sparsity": tridiagonal(n)}
    if how == "jacobian":
        declared["jacobian"] = heat_jacobian
    model = rod(n, **declared)
    tight = replace(solver, rtol=1e-7, atol=1e-9)
    stepper = tight.stepper(bind(model, compile=how != "plain"))
    end = run(stepper, model.states.initial(), 2)
    assert np.abs(end - exact(n, 0.1)).max() < 1e-6
    dense = {"radau": 2 * n, "bdf": 2 * n, "lsoda": 5 * n}[solver.name]
    assert stepper.save()["memory"][EVALUATIONS] < dense + 700


@IMPLICIT
def test_a_small_model_may_declare_its_jacobian(solver: SciPy) -> None:
    def fast(t: Any, x: Any, z: Any, u: Any, p: Any, dx: Any) -> None:  # noqa: ARG001
        dx[0], dx[1] = -1000.0 * (x[0] - x[1]), -x[1] * x[1]

    def slopes(t: Any, x: Any, z: Any, u: Any, p: Any, j: Any) -> None:  # noqa: ARG001
        j[0], j[1], j[2], j[3] = -1000.0, 1000.0, 0.0, -2.0 * x[1]

    model = Model("fast", Signals("a = 1", "b = 1"), fast, jacobian=slopes)
    end = run(solver.stepper(bind(model)), np.ones(2), 3)
    assert end[1] == pytest.approx(1 / 1.1, rel=1e-4)


@IMPLICIT
def test_a_run_restored_at_a_tag_is_the_same_bit_for_bit(solver: SciPy) -> None:
    bound = bind(rod(PROBED_FROM))
    start = bound.model.states.initial()
    stepper = solver.stepper(bound)
    whole = run(stepper, start, 6)
    half = solver.stepper(bound)
    x = run(half, start, 6, until=3)
    saved = half.save()
    assert saved["sparsity"]["rows"][:3] == [0, 1, 0]
    other = solver.stepper(bound)
    other.restore(saved)
    assert run(other, x, 6, first=3).tolist() == whole.tolist()


def test_sundials_gets_a_band_a_sparse_matrix_or_a_dense_one() -> None:
    n = PROBED_FROM
    ring = np.eye(n) + np.roll(np.eye(n), 3, axis=1) + np.roll(np.eye(n), 50, axis=1)

    def circle(t: Any, x: Any, z: Any, u: Any, p: Any, dx: Any) -> None:  # noqa: ARG001
        dx[:] = -(ring @ x)

    def taken(model: Model) -> tuple[dict[str, Any], Vector]:
        bound, size = bind(model, compile=False), model.states.size
        jacobian, slope = Jacobian(bound, np.full(size, 1e-3)), np.empty(size)

        def at(t: float, x: Vector) -> Vector:
            bound.derivative.call(t, x, NONE, NONE, NONE, slope)
            return slope.copy()

        options = jacobian.options("CVODE", at, 0.0, np.ones(size))
        values = np.empty(options["sparsity"].nnz if "sparsity" in options else (size, size))
        if "jacfn" in options:
            options.pop("jacfn")(0.0, np.ones(size), np.ones(size), values)
        return options, values

    assert taken(rod(n))[0] == {"linsolver": "band", "lband": 1, "uband": 1}
    options, values = taken(Model("ring", Signals(Signal("x", shape=(n,))), circle))
    assert options["linsolver"] == "sparse"
    assert (options["sparsity"].toarray() != 0).tolist() == (ring != 0).tolist()
    assert values == pytest.approx(-1.0, rel=1e-6)
    options, values = taken(rod(4, sparsity=tridiagonal(4)))
    assert options == {"linsolver": "dense"}
    assert values[1] == pytest.approx([25.0, -50.0, 25.0, 0.0], rel=1e-6)


# -- what probing and declarations may lack --------------------------------------------------------


def valve(t: Any, x: Any, z: Any, u: Any, p: Any, dx: Any) -> None:  # noqa: ARG001
    """From 0.05 s on, the last state acts on the first, more strongly than the first itself."""
    for i in range(x.size):
        dx[i] = -(1.0 + i) * x[i]
    if t > 0.05:
        dx[0] += 300.0 * (x[x.size - 1] - x[0])


def valves(n: int, **declared: Any) -> Model:
    return Model("valve", Signals(Signal("h", shape=(n,), initial=(1.0,) * n)), valve, **declared)


@IMPLICIT
def test_an_element_that_probing_missed_is_added(solver: SciPy) -> None:
    n = PROBED_FROM
    bound = bind(valves(n))
    stepper = solver.stepper(bound)
    x = bound.model.states.initial()
    missed: list[bool] = []
    for k in range(10):
        out = np.empty(n)
        when = S // 100 * k, S // 100 * (k + 1)
        for _ in range(2):  # the first is discarded
            assert stepper.advance(*when, x, NONE, NONE, NONE, out) == GOOD
        before = stepper.save().get("sparsity", {"rows": []})["rows"]
        stepper.accept()
        x = out
        missed.append(len(before) == n)
    after = stepper.save()["sparsity"]["rows"]
    assert missed[1:6] == [True] * 5
    assert len(after) == n + 1
    assert after[-2:] == [0, n - 1]


@IMPLICIT
def test_what_a_discarded_step_found_is_discarded(solver: SciPy) -> None:
    n = PROBED_FROM
    stepper = solver.stepper(bind(valves(n)))
    x, out = np.ones(n), np.empty(n)
    for end in (S // 10, S // 50):  # the first ends beyond 0.05 s
        assert stepper.advance(0, end, x, NONE, NONE, NONE, out) == GOOD
    stepper.accept()
    assert len(stepper.save()["sparsity"]["rows"]) == n


@IMPLICIT
def test_an_element_that_the_sparsity_lacks_is_named(solver: SciPy) -> None:
    n = PROBED_FROM
    stepper = solver.stepper(bind(valves(n, sparsity=np.eye(n))))
    x = run(stepper, np.ones(n), 5, until=2)
    with pytest.raises(
        ModelError,
        match=r"sparsity of model valve declares that dh_0/dt does not depend on h_99 "
        r"\(row 0, column 99\), but the difference quotient is (300|299\.999) at 0\.\d+ s; add",
    ):
        run(stepper, x, 5, first=2)


@pytest.mark.parametrize("solver", [RADAU, BDF], ids=lambda s: s.name)
def test_a_jacobian_that_disagrees_with_the_derivative_is_named(solver: SciPy) -> None:
    def wrong(t: Any, x: Any, z: Any, u: Any, p: Any, j: Any) -> None:
        heat_jacobian(t, x, z, u, p, j)
        j[10] = -j[10]

    n = 40
    model = rod(n, sparsity=tridiagonal(n), jacobian=wrong)
    with pytest.raises(
        ModelError,
        match=r"jacobian of model rod gives -1681 for the derivative of dT_3/dt by T_4 \(row 3, "
        r"column 4\), but the difference quotient is 1681 at 0 s; correct the function",
    ):
        run(solver.stepper(bind(model, compile=False)), model.states.initial(), 1)


def test_a_jacobian_that_leaves_an_element_out_is_refused() -> None:
    def none(t: Any, x: Any, z: Any, u: Any, p: Any, j: Any) -> None:  # noqa: ARG001
        j[0] = 1.0

    with pytest.raises(ModelError, match="jacobian of model rod never writes element 1"):
        bind(rod(5, jacobian=none), compile=False)


def test_a_kink_is_no_disagreement() -> None:
    """The derivative of |x| at 0 is none of its difference quotients."""

    def kinks(t: Any, x: Any, z: Any, u: Any, p: Any, dx: Any) -> None:  # noqa: ARG001
        for i in range(x.size):
            dx[i] = 1.0 - 50.0 * abs(x[i])

    n = 40
    model = Model("kinks", Signals(Signal("x", shape=(n,))), kinks, sparsity=np.eye(n))
    end = run(RADAU.stepper(bind(model, compile=False)), np.zeros(n), 1)
    assert end == pytest.approx(np.full(n, 0.01986524), abs=1e-4)


def test_a_full_model_is_left_to_the_solver() -> None:
    n = PROBED_FROM
    mixing = np.random.default_rng(5).normal(size=(n, n))

    def mixed(t: Any, x: Any, z: Any, u: Any, p: Any, dx: Any) -> None:  # noqa: ARG001
        dx[:] = -(mixing @ x)

    bound = bind(Model("mixed", Signals(Signal("x", shape=(n,))), mixed), compile=False)
    jacobian = Jacobian(bound, np.full(n, 1e-3))
    slope = np.empty(n)

    def at(t: float, x: Vector) -> Vector:
        bound.derivative.call(t, x, NONE, NONE, NONE, slope)
        return slope.copy()

    assert not jacobian.begin(at, 0.0, np.ones(n))
    jacobian.accept()
    assert jacobian.save() == {"dense": True}


# -- memory ----------------------------------------------------------------------------------------


@pytest.mark.sample(1)
@pytest.mark.parametrize("solver", [RADAU, BDF], ids=lambda s: s.name)
def test_memory_grows_with_the_non_zeros_and_not_with_the_tags(solver: SciPy) -> None:
    peaks = []
    for n, tags in ((500, 2), (2000, 2), (2000, 12)):
        bound = bind(rod(n))
        stepper, x = solver.stepper(bound), bound.model.states.initial()
        run(stepper, x, 1)
        tracemalloc.start()
        try:
            run(stepper, x, tags)
            peaks.append(tracemalloc.get_traced_memory()[1])
        finally:
            tracemalloc.stop()
    assert peaks[1] < 6 * peaks[0]
    assert peaks[2] < 1.5 * peaks[1]
    assert peaks[1] < 2000 * 2000 * 8 / 4, "no dense matrix"


def test_a_solver_that_is_replaced_frees_its_matrices_at_once() -> None:
    """SciPy's objects refer to themselves; the garbage collector would find them much later."""
    n = PROBED_FROM - 1
    bound = bind(rod(n))
    stepper: Any = BDF.stepper(bound)
    run(stepper, bound.model.states.initial(), 1)
    used = stepper._solver
    assert used.J.shape == (n, n)
    run(stepper, bound.model.states.initial(), 1)
    assert not vars(used)
