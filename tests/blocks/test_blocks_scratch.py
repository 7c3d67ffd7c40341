"""Vectors that equations need for one call: never allocated where they are compiled."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from numba.core.runtime import _nrt_python, rtsys

from rtsim.blocks import Constant, Diagram, Differential, Gain, Integrator, source
from rtsim.core.signals import Signals, Vector
from rtsim.equations import lowering
from rtsim.equations.addresses import scratch
from rtsim.equations.compiling import compiled
from rtsim.equations.model import Model, bind


def lag(t: float, x: Vector, z: Vector, u: Vector, p: Vector, dx: Vector) -> None:  # noqa: ARG001
    dx[0] = u[0] + u[1] - x[0] + z.size


def shown(t: float, x: Vector, z: Vector, u: Vector, p: Vector, y: Vector) -> None:  # noqa: ARG001
    y[0] = u[0] - x[0]
    y[1] = u[1]


LAG = Model(
    "lag", Signals("x = 2"), lag, inputs=Signals("a", "b"), outputs=Signals("c", "d"), output=shown
)


def with_a_system() -> Model:
    d = Diagram("with a system")
    d.add("a", Constant(1.0))
    d.add("b", Constant(3.0))
    d.add("lag", Differential(LAG), "a", "b")
    d.add("first", Integrator(), "lag.c")
    d.add("second", Integrator(), "lag.d")
    return d.model()


def chain() -> Model:
    d = Diagram("chain of pieces")
    d.add("x", Integrator(1.0), "g9")
    for k in range(10):
        d.add(f"g{k}", Gain(2.0), f"g{k - 1}" if k else "x")
    return d.model()


@pytest.fixture
def counted() -> Iterator[None]:
    was = _nrt_python.memsys_stats_enabled()
    _nrt_python.memsys_enable_stats()
    yield
    if not was:
        _nrt_python.memsys_disable_stats()


def allocated(model: Model) -> tuple[int, Vector]:
    """In ten evaluations of the derivative from Python, and what it computes."""
    derivative = bind(model).derivative.call
    x, p, dx = model.states.initial(), model.parameters.initial(), np.zeros(model.states.size)
    u, z = model.inputs.initial(), np.zeros(0)
    before = rtsys.get_allocation_stats().alloc
    for _ in range(10):
        derivative(0.0, x, z, u, p, dx)
    return rtsys.get_allocation_stats().alloc - before, dx


@pytest.mark.usefixtures("counted")
def test_a_compiled_diagram_allocates_nothing_when_it_is_evaluated(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bare, _ = allocated(LAG)  # what the call from Python takes
    system, dx = allocated(with_a_system())
    assert dx.tolist() == [-1.0, 2.0, 3.0]
    monkeypatch.setattr(source, "LINES", 4)
    pieces, dx = allocated(chain())
    assert dx.tolist() == [1024.0]
    assert (system, pieces) == (bare, bare)


@pytest.mark.usefixtures("counted")
@pytest.mark.parametrize(("most", "several"), [(4, 0), (3, 1)])
def test_only_a_long_one_is_allocated(
    most: int, several: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    @compiled
    def filled() -> float:
        out = 0.0
        for k in range(5):
            room = scratch(4)
            for i in range(4):
                out += room[i]  # zeros, every time
                room[i] = k + 1.0
        return out + float(room.sum()) + scratch(0).size

    monkeypatch.setattr(lowering, "MOST", most)
    assert filled() == 20.0
    before = rtsys.get_allocation_stats().alloc
    assert filled() == 20.0
    assert rtsys.get_allocation_stats().alloc - before == 5 * several
    assert filled.py_func() == 20.0  # type: ignore[attr-defined]
