"""Machine code: read once in a process, another where what it reaches is, and called rightly."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
import pytest

from rtsim.core.raised import Interrupted, interrupt
from rtsim.core.signals import Signals
from rtsim.equations import compiling
from rtsim.equations.addresses import EQUATION
from rtsim.equations.compiling import compile_function
from rtsim.equations.model import Model, bind
from rtsim.solve import GOOD, solver_named

FACTORS = np.array([2.0])


def by_table(t: Any, x: Any, z: Any, u: Any, p: Any, out: Any) -> None:  # noqa: ARG001
    out[0] = FACTORS[0] * x[0]


def lengths(t: Any, x: Any, z: Any, u: Any, p: Any, out: Any) -> None:
    out[0], out[1] = 1000 * x.size + 100 * z.size + 10 * u.size + p.size, z[0] + u[1] + p[2] + t


def times(factor: float) -> Callable[..., None]:
    def law(t: Any, x: Any, z: Any, u: Any, p: Any, out: Any) -> None:  # noqa: ARG001
        out[0] = factor * x[0]

    return law


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is read or compiled meanwhile; nothing was before."""
    names: list[str] = []
    really = compiling._native

    def noted(wanted: Any, code: Any) -> compiling.Native:
        names.append(wanted.plain.__name__)
        return really(wanted, code)

    monkeypatch.setattr(compiling, "_native", noted)
    compiling._ready.cache_clear()
    return names


def doubled(law: Callable[..., None]) -> float:
    out, none = np.zeros(1), np.zeros(0)
    compile_function(law, EQUATION, "law").call(0.0, np.ones(1), none, none, none, out)
    return float(out[0])


def test_a_function_is_read_once_in_a_process(compiled: list[str]) -> None:
    first, second = (compile_function(by_table, EQUATION, "law") for _ in range(2))
    assert first is second
    assert compiled == ["by_table"]


def test_what_it_reaches_is_what_counts(
    compiled: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert [doubled(by_table), doubled(times(3.0)), doubled(times(4.0))] == [2.0, 3.0, 4.0]
    monkeypatch.setitem(globals(), "FACTORS", np.array([5.0]))
    assert doubled(by_table) == 5.0
    assert len(compiled) == 4


def test_the_ones_used_last_are_kept(compiled: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiling, "_ready", lru_cache(2)(compiling._ready.__wrapped__))
    for factor in (1.0, 2.0, 1.0, 3.0, 1.0, 2.0):
        assert doubled(times(factor)) == factor
    assert len(compiled) == 4, "1, 2, 3, and 2 again"


def test_a_solver_hands_each_vector_over_with_its_length() -> None:
    model = Model("lengths", Signals("a", "b"), lengths, discrete=Signals("z"),
                  inputs=Signals("u", "v"), parameters=Signals("p", "q", "r"))  # fmt: skip
    x, out = np.zeros(2), np.zeros(2)
    stepper = solver_named("euler").stepper(bind(model, x=x))
    vectors = np.array([1.0]), np.array([0.0, 2.0]), np.array([0.0, 0.0, 4.0])
    assert stepper.advance(8 * 10**9, 9 * 10**9, x, *vectors, out) == GOOD
    assert list(out) == [2123.0, 15.0]


def test_what_an_equation_raises_comes_through_the_solver() -> None:
    def refuses(t: Any, x: Any, z: Any, u: Any, p: Any, out: Any) -> None:  # noqa: ARG001
        out[0] = 0.0
        if t > 1.0:
            raise ValueError("beyond its table")

    x, none, out = np.zeros(1), np.zeros(0), np.zeros(1)
    stepper = solver_named("rk4").stepper(bind(Model("refuses", Signals("a"), refuses)))
    assert stepper.advance(0, 10**9, x, none, none, none, out) == GOOD
    with pytest.raises(ValueError, match="beyond its table"):
        stepper.advance(2 * 10**9, 3 * 10**9, x, none, none, none, out)


def test_an_interrupted_compilation_is_no_error_of_the_model(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A compiler can turn the interrupt into an error of its own."""

    def killed(_: object) -> object:
        try:
            interrupt()
        except KeyboardInterrupt as error:
            raise SystemError("a built-in function returned with an exception set") from error

    monkeypatch.setattr(compiling, "_ready", killed)
    with pytest.raises(Interrupted):
        compile_function(print, EQUATION, "derivative of model mine")
