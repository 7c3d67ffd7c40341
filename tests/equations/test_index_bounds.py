"""Indices of arrays: those that surely lie outside are refused, those that may are checked."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any
from unittest.mock import Mock
from weakref import WeakKeyDictionary

import numpy as np
import pytest

import rtsim as rt
from rtsim.core.errors import ControllerError, ModelError
from rtsim.equations import index_bounds
from rtsim.equations.compiling import LATER
from rtsim.equations.index_bounds import Indices
from rtsim.models.atmosphere import standard_atmosphere
from rtsim.scenario.loading import load_scenario

TABLE = np.array([1.0, 2.0, 3.0])
GRID = np.zeros((3, 4))
LAST = 2
LARGE = False


def sure(function: Any, *sizes: int | None) -> bool:
    return Indices().check(function, sizes, "it")


@rt.compiled
def segment(value: float, last: int) -> tuple[int, float]:
    i = max(0, min(int(value), last))
    return i, value - i


def constant(x: Any, y: Any) -> None:
    y[0], y[-2] = x[1], x[-2]


def counted(x: Any, y: Any) -> None:
    for i in range(1, x.size - 1):
        y[i] = x[i + 1] - x[i - 1]
    for j in range(len(x)):
        y[j] += x[j]


def held(x: Any, y: Any) -> None:
    i, part = segment(x[0], LAST - 1)
    y[0] = TABLE[i] + part * TABLE[i + 1]
    y[1] = GRID[max(0, min(int(x[1]), 2)), int(x[0]) % 4]


def pieces(x: Any, y: Any) -> None:
    v = x[0:2] * 2.0
    m = x[0:4].reshape((2, 2))
    w = np.zeros(3)
    w[2] = v[1] + m[1, 0] + m.T[0, 1] + np.cross(w, w)[2] + (m @ v)[1]
    y[0], y[1] = w[2], TABLE[np.argmax(TABLE)]


def found(x: Any, y: Any) -> None:
    layer = 0
    for k in range(1, 3):
        if not x[0] >= TABLE[k]:
            break
        layer = k
    y[0], y[1] = TABLE[layer], (1.0, 2.0)[int(x[0])]


@pytest.mark.parametrize("function", [constant, counted, held, pieces, found])
def test_these_indices_surely_lie_in_their_arrays(function: Any) -> None:
    assert sure(function, 4, 4)


def computed(x: Any, y: Any) -> None:
    y[int(x[0])] = 1.0


def raised(x: Any, y: Any) -> None:
    i = 0
    while x[0] > i:
        i += 1
    y[i] = 1.0


def one_too_far(x: Any, y: Any) -> None:
    for i in range(x.size):
        y[i] = x[i + 1]


def unheld(x: Any, y: Any) -> None:
    i, _ = segment(x[0], LAST)
    y[0] = TABLE[i + 1]


def not_a_number(x: Any, y: Any) -> None:
    y[0] = TABLE[int(min(max(x[0], 0.0), 2.0))]


def unknown_shape(x: Any, y: Any) -> None:
    y[0] = np.linalg.solve(x.reshape((2, 2)), x[:2])[1]


@pytest.mark.parametrize(
    "function", [computed, raised, one_too_far, unheld, not_a_number, unknown_shape]
)
def test_these_indices_may_lie_outside(function: Any) -> None:
    assert not sure(function, 4, 4)


def late(x: Any, y: Any) -> None:
    if x[0] > 0.0:
        y[0] = x[4]


def of_a_table(x: Any, y: Any) -> None:
    y[0] = x[0] if x[0] > 0.0 else TABLE[3]


def of_a_product(x: Any, y: Any) -> None:
    w = x * 2.0
    y[0] = w[-5]


def of_a_helper(x: Any, y: Any) -> None:
    y[0] = nine(x) if x[0] > 0.0 else 0.0


@rt.compiled
def nine(x: Any) -> Any:
    return x[9]


@pytest.mark.parametrize(
    ("function", "said"),
    [(late, r"x\[4\] .*\(4,\)"), (of_a_table, r"TABLE\[3\] .*\(3,\)"),
     (of_a_product, r"w\[-5\]"), (of_a_helper, r"x\[9\]")],
)  # fmt: skip
def test_an_index_that_surely_lies_outside_is_refused(function: Any, said: str) -> None:
    with pytest.raises(ModelError, match=rf"^it uses .*: {said}") as caught:
        sure(function, 4, 4)
    assert "test_index_bounds.py:" in str(caught.value)


def for_any_size(x: Any, y: Any) -> None:
    if x.size > 4:
        y[0] = x[4]
    if LARGE:
        y[0] = x[5]
    if LAST > 2:
        y[0] = x[6]


def test_another_process_reads_the_result_from_the_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RTSIM_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(index_bounds, "_JUDGED", WeakKeyDictionary())
    results = [sure(constant, 4, 4), sure(computed, 4, 4)]
    analysed = Mock(wraps=Indices.of_call)
    monkeypatch.setattr(Indices, "of_call", lambda *all_: analysed(*all_))
    index_bounds._JUDGED.clear()
    assert [sure(constant, 4, 4), sure(computed, 4, 4)] == results == [True, False]
    assert analysed.call_count == 0
    index_bounds._JUDGED.clear()
    assert sure(constant, 5, 4)  # other sizes
    assert analysed.called
    for kept in (tmp_path / "indices").iterdir():
        kept.write_text("not prov")  # a process was killed while it wrote
    index_bounds._JUDGED.clear()
    analysed.reset_mock()
    assert sure(constant, 4, 4)
    assert analysed.called


@rt.compiled
def decorated(x: Any, y: Any) -> None:
    y[0] = x[4]


def test_the_line_of_an_index_in_a_decorated_function() -> None:
    plain: Any = getattr(decorated, "py_func", decorated)
    line = plain.__code__.co_firstlineno + 2
    with pytest.raises(ModelError, match=f"test_index_bounds.py:{line}"):
        sure(decorated, 4, 4)


def test_a_branch_that_no_call_takes_is_not_refused() -> None:
    assert not sure(for_any_size, 4, 4)


class Late(rt.Plant):
    """Its second branch reads beyond the vector."""

    v = rt.state("m/s", (1.0, 2.0))
    k = rt.parameter("1", 7)

    def derivative(self, d: Any) -> None:
        d.v = -self.v
        if self.t > 0.5:
            d.v[0] = self.v[int(self.k)]


class Certain(rt.Plant):
    v = rt.state("m/s", (1.0, 2.0))

    def derivative(self, d: Any) -> None:
        d.v = -self.v
        if self.t > 0.5:
            w = self.v * 2.0
            d.v[0] = w[5]


class Law(rt.Controller, compile=True):
    y = rt.output("1")
    z = rt.memory("1", (1.0, 2.0))
    k = rt.parameter("1", 7)

    def step(self) -> None:
        self.y = self.z[int(self.k)] if self.t > 0.5 else 0.0


def scenario(part: Any) -> rt.Scenario:
    out = rt.Scenario("s", until=1)
    if isinstance(part, rt.Plant):
        out.plant("part", part, step=0.1)
    else:
        out.controller("part", part, period=0.1)
    return out


@pytest.mark.parametrize("compile", [False, True, LATER])
@pytest.mark.parametrize("engine", ["interpreted", "compiled"])
def test_a_later_branch_does_not_read_beyond_its_vector(compile: Any, engine: Any) -> None:
    if engine == "compiled" and not compile:
        pytest.skip("the compiled engine runs machine code")
    with pytest.raises(ModelError, match=r"part .*(index|bounds)"):
        rt.simulate(scenario(Late()), compile=compile, engine=engine)
    with pytest.raises(ModelError, match=r"uses an element that does not exist: w\[5\]"):
        rt.simulate(scenario(Certain()), compile=compile, engine=engine)
    with pytest.raises(ControllerError, match=r"part .*(index|bounds)"):
        rt.simulate(scenario(Law()), compile=compile, engine=engine)


def test_the_first_call_names_the_line() -> None:
    class Now(Late):
        def derivative(self, d: Any) -> None:
            d.v = -self.v
            d.v[0] = self.v[int(self.k)]

    with pytest.raises(ModelError, match=r"index 7 is out of bounds .*bounds\.py:\d+"):
        rt.simulate(scenario(Now()))


@pytest.mark.parametrize("name", ["f16", "f16-by-hand", "nesc", "ball", "orbit", "valves"])
def test_the_shipped_models_need_no_checks(name: str) -> None:
    """Checks would cost the F-16 5 % of its time."""
    for component in load_scenario(name).components.values():
        model = getattr(component, "model", None)
        if model is None:
            continue
        from rtsim.equations import model as module

        for function in module._SIGNATURES:
            if getattr(model, function) is not None:
                sizes = module._sizes(model, function)
                assert Indices().check(getattr(model, function), sizes, function)


def test_the_layers_of_the_atmosphere_are_found() -> None:
    assert [standard_atmosphere(h)[2] for h in (-100.0, 0.0, 12e3, 25e3)] == pytest.approx(
        [288.8, 288.15, 216.65, 221.55], abs=0.1
    )
    assert math.isnan(standard_atmosphere(math.nan)[2])
