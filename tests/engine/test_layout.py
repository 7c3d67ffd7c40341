"""Blocks by name: every array is checked before compiled code trusts its address and length."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from rtsim.core.signals import Signal, Signals, Vector
from rtsim.equations.addresses import MATRIX, NUMBER, VECTOR, Layout
from rtsim.equations.compiling import compile_function
from rtsim.equations.model import Guard, Model, bind
from rtsim.solve import SOLVERS, Stepper, solver_named
from rtsim.solve.fixed_step import EXPLICIT_LAYOUT as LAYOUT
from rtsim.solve.fixed_step import RK4, explicit_arrays, explicit_step
from rtsim.solve.guarded import Guarded
from rtsim.solve.internal_steps import Method
from rtsim.solve.resident import stepper

NONE = np.zeros(0)
PAIR = Layout("a pair", ("f",), {"x": ("n",), "k": ("m", "n"), "past": ("1 + 2 * n",)})
AT = PAIR.at


def swing(t: Any, x: Any, z: Any, u: Any, p: Any, dx: Any) -> None:  # noqa: ARG001
    dx[0] = x[1]
    dx[1] = -p[0] * x[0]


def level(t: Any, x: Any, z: Any, u: Any, p: Any, g: Any) -> None:  # noqa: ARG001
    g[0] = x[0]


SWING = Model(
    "swing",
    Signals(Signal("q"), Signal("v", derivative_of="q")),
    swing,
    parameters=Signals(Signal("stiffness", initial=1.0)),
)
WATCHED = Model(
    "watched", SWING.states, swing, parameters=SWING.parameters, guards=(Guard("low"),), guard=level
)


def given() -> dict[str, Vector]:
    return {"x": np.arange(3.0), "k": np.arange(6.0).reshape(2, 3), "past": np.arange(7.0)}


def test_places_follow_from_the_names() -> None:
    assert (AT.f, AT.x, AT.k, AT.past) == (0, 1, 3, 6)
    longer = PAIR.extended("a longer pair", past=("n",), end=("n",))
    assert longer.at[:4] == AT
    assert longer.at.end == 8
    with pytest.raises(ValueError, match="a bent pair declares k with 1 axes; a pair declares 2"):
        PAIR.extended("a bent pair", k=("n",))
    assert PAIR.zeros("past", {"n": 3}).shape == (7,)


def by_name(words: Any, t: float, out: Any, found: Any) -> int:
    x, k = words.x, words.k
    for j in range(x.size):
        out[j] = t * x[j]
    for i in range(k.shape[0]):
        for j in range(k.shape[1]):
            found[i, j] = k[i, j]
    return int(words.f)


def test_a_kernel_reads_the_same_arrays_compiled_and_plain() -> None:
    native = compile_function(by_name, (PAIR.kind, NUMBER, VECTOR, MATRIX), "by name")
    answers = []
    for block, call in (
        (PAIR.block((5,), given(), {}), native.call),
        (PAIR.plain((5,), given(), {}), by_name),
    ):
        out, found = np.zeros(3), np.zeros((2, 3))
        words = block if isinstance(block, list) else block.words
        answers.append((call(words, 2.0, out, found), out.tolist(), found.tolist()))
    assert answers[0] == answers[1] == (5, [0.0, 2.0, 4.0], [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]])


@pytest.mark.parametrize(
    ("name", "array", "said"),
    [
        ("k", np.zeros((2, 4)), r"k of a pair has shape (2, 4); expected (m, n) = (2, 3)"),
        ("k", np.zeros(6), r"k of a pair has shape (6,); expected (m, n) = (6, 3)"),
        ("past", np.zeros(6), r"past of a pair has shape (6,); expected (1 + 2 * n) = (7,)"),
        ("k", np.zeros((3, 2)).T, "k of a pair must be a contiguous float64 array"),
        ("x", np.zeros(3, np.float32), "x of a pair must be a contiguous float64 array; got float"),
        (
            "more",
            np.zeros(3),
            "the arrays of a pair differ from its layout; missing or extra: more",
        ),
    ],
)
def test_an_array_that_does_not_fit_is_refused(name: str, array: Vector, said: str) -> None:
    for make in (PAIR.block, PAIR.plain):
        with pytest.raises((TypeError, ValueError)) as raised:
            make((0,), {**given(), name: array}, {})
        assert said in str(raised.value)


def test_a_size_that_is_not_known_and_a_function_that_is_missing() -> None:
    with pytest.raises(ValueError, match="past of a pair needs a value for the size n"):
        PAIR.zeros("past", {})
    with pytest.raises(ValueError, match="got 0 functions for a pair; expected f"):
        PAIR.plain((), given(), {})


def refused(call: Callable[[], object], said: str) -> None:
    with pytest.raises(ValueError) as raised:
        call()
    assert said in str(raised.value)


@pytest.mark.parametrize("compile", [False, True])
@pytest.mark.parametrize("name", sorted(SOLVERS))
def test_a_stepper_refuses_a_vector_of_another_length(name: str, compile: bool) -> None:
    at_work: Stepper = solver_named(name).stepper(bind(SWING, compile=compile))
    x, p, out = np.array([1.0, 0.0]), np.ones(1), np.full(2, 7.0)
    for wrong, vectors in (
        ("x", (np.zeros(1), NONE, NONE, p, out)),
        ("z", (x, np.zeros(1), NONE, p, out)),
        ("u", (x, NONE, np.zeros(1), p, out)),
        ("p", (x, NONE, NONE, NONE, out)),
        ("out", (x, NONE, NONE, p, np.zeros(1))),
    ):
        refused(lambda v=vectors: at_work.advance(0, 1000, *v), f"{wrong} of ")  # type: ignore[misc]
    assert out.tolist() == [7.0, 7.0], "nothing has run"
    assert at_work.advance(0, 1000, x, NONE, NONE, p, out) == -1
    assert out[0] == pytest.approx(1.0)


@pytest.mark.parametrize("compile", [False, True])
def test_a_method_refuses_an_array_of_another_shape_before_anything_runs(compile: bool) -> None:
    bound = bind(SWING, compile=compile)
    for name, shape in (("k", (4, 3)), ("k", (3, 2)), ("a", (4, 3)), ("c", (3,)), ("y", (1,))):
        own = {**explicit_arrays(RK4.tableau), name: np.zeros(shape)}
        method = Method(explicit_step, LAYOUT, own)
        refused(lambda m=method: stepper(m, bound), f"{name} of an explicit Runge")  # type: ignore[misc]


@pytest.mark.parametrize("name", ["rk4", "dp54", "radau"])
def test_guards_refuse_a_vector_of_another_length(name: str) -> None:
    bound = bind(WATCHED)
    vectors = (np.zeros(2), NONE, NONE, np.ones(1))
    at_work = solver_named(name).stepper(bound)
    refused(lambda: Guarded(bound, at_work, vectors, np.zeros(3)), "out of ")
    refused(lambda: Guarded(bound, at_work, (*vectors[:3], NONE), np.zeros(2)), "p of ")
