"""Which output of a model depends on which input at the same instant, read from its source."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from rtsim.blocks import Diagram, Differential, Gain, Integrator
from rtsim.core.errors import ScenarioError, UnknownName
from rtsim.core.signals import Signal, Signals
from rtsim.equations.compiling import compiled
from rtsim.equations.model import Model
from rtsim.equations.reading_functions import direct_inputs
from rtsim.record.recorders import MemoryRecorder
from rtsim.runs.simulation import simulate
from rtsim.scenario.scenario import Scenario

Output = Callable[..., None]
SECOND = 1
TABLE = np.array([1.0, 2.0, 4.0])


@compiled
def product(a: float, b: float) -> float:
    return a * b


def put(vector: Any, value: float) -> None:
    vector[0] = value


def each_its_own(t: Any, x: Any, z: Any, u: Any, p: Any, y: Any) -> None:  # noqa: ARG001
    y[0], y[1] = 2.0 * u[0], math.sin(x[0])


def by_a_name(t: Any, x: Any, z: Any, u: Any, p: Any, y: Any) -> None:  # noqa: ARG001
    y[0] = product(x[0], u[SECOND])
    y[-1] = product(x[0], 3.0)


def by_a_helper(t: Any, x: Any, z: Any, u: Any, p: Any, y: Any) -> None:
    each_its_own(t, x, z, u, p, y)


def in_a_branch(t: Any, x: Any, z: Any, u: Any, p: Any, y: Any) -> None:  # noqa: ARG001
    y[0] = x[0]
    if u[0] > 0.0:
        y[1] = 1.0
    else:
        y[1] = 2.0


def after_an_early_end(t: Any, x: Any, z: Any, u: Any, p: Any, y: Any) -> None:  # noqa: ARG001
    y[0] = x[0]
    if u[0] > 0.0:
        return
    y[0], y[1] = 2.0, x[0]


def after_a_break(t: Any, x: Any, z: Any, u: Any, p: Any, y: Any) -> None:  # noqa: ARG001
    count = 0.0
    for i in range(3):
        if u[1] > i:
            break
        count += 1.0
    y[1] = count


def in_a_while(t: Any, x: Any, z: Any, u: Any, p: Any, y: Any) -> None:  # noqa: ARG001
    n = 0
    while n < min(u[0], 9.0):
        n += 1
    y[0], y[1] = n, x[0]


def by_an_index(t: Any, x: Any, z: Any, u: Any, p: Any, y: Any) -> None:  # noqa: ARG001
    y[1] = TABLE[int(abs(u[0])) % 3]
    y[0] = x[0]


def at_an_index(t: Any, x: Any, z: Any, u: Any, p: Any, y: Any) -> None:  # noqa: ARG001
    y[int(abs(u[0])) % 2] = 1.0


def through_an_output(t: Any, x: Any, z: Any, u: Any, p: Any, y: Any) -> None:  # noqa: ARG001
    y[1] = u[1]
    y[0] = y[1] + 1.0


def through_another_name(t: Any, x: Any, z: Any, u: Any, p: Any, y: Any) -> None:  # noqa: ARG001
    a = np.zeros(2)
    b = np.asarray(a)
    put(b, u[0])
    y[0], y[1] = a[0], x[0]


def into_a_list(t: Any, x: Any, z: Any, u: Any, p: Any, y: Any) -> None:  # noqa: ARG001
    a = [0.0]
    a.append(u[0])
    y[0], y[1] = a[-1], x[0]


def in_a_comprehension(t: Any, x: Any, z: Any, u: Any, p: Any, y: Any) -> None:  # noqa: ARG001
    a = np.zeros(2)
    b = a
    b[0] = u[0]
    y[0], y[1] = x[0], sum([a[i] for i in range(2)])


def at_once(t: Any, x: Any, z: Any, u: Any, p: Any, y: Any) -> None:  # noqa: ARG001
    y[:] = x[0] * u[0]


def part_by_a_helper(t: Any, x: Any, z: Any, u: Any, p: Any, y: Any) -> None:  # noqa: ARG001
    put(y[1:], u[0])


def by_an_alias(t: Any, x: Any, z: Any, u: Any, p: Any, y: Any) -> None:  # noqa: ARG001
    w = y
    w[0] = u[0]


READ: list[tuple[Output, list[set[int]] | None]] = [
    (each_its_own, [{0}, set()]),
    (by_a_name, [{1}, set()]),
    (by_a_helper, [{0}, set()]),
    (in_a_branch, [set(), {0}]),
    (after_an_early_end, [{0}, {0}]),
    (after_a_break, [set(), {1}]),
    (in_a_while, [{0}, set()]),
    (by_an_index, [set(), {0}]),
    (at_an_index, [{0}, {0}]),
    (through_an_output, [{1}, {1}]),
    (through_another_name, [{0}, set()]),
    (into_a_list, [{0}, set()]),
    (in_a_comprehension, [set(), {0}]),
    (at_once, [{0}, {0}]),
    (part_by_a_helper, None),
    (by_an_alias, None),
    (eval("lambda t, x, z, u, p, y: None"), None),
]


@pytest.mark.parametrize(("output", "expected"), READ, ids=lambda f: getattr(f, "__name__", ""))
def test_the_inputs_that_an_output_reads(output: Output, expected: list[set[int]] | None) -> None:
    found = direct_inputs(output, 2, 2)
    assert found == expected
    draws = np.random.default_rng(1)
    for _ in range(50):  # no dependence is missed: outputs change with the named inputs only
        x, u = draws.standard_normal(1), 3.0 * draws.standard_normal(2)
        for i in range(2):
            moved, before, after = u.copy(), np.zeros(2), np.zeros(2)
            moved[i] = 3.0 * draws.standard_normal()
            output(0.0, x, np.zeros(0), u, np.zeros(0), before)
            output(0.0, x, np.zeros(0), moved, np.zeros(0), after)
            for j in np.flatnonzero(before != after).tolist():
                assert found is None or i in found[j]


# -- diagrams --------------------------------------------------------------------------------------


def integrated(t: Any, x: Any, z: Any, u: Any, p: Any, dx: Any) -> None:  # noqa: ARG001
    dx[0] = u[0]


def direct_and_state(t: Any, x: Any, z: Any, u: Any, p: Any, y: Any) -> None:  # noqa: ARG001
    y[0] = 2.0 * u[0]
    y[1] = x[0]


def hidden(t: Any, x: Any, z: Any, u: Any, p: Any, y: Any) -> None:  # noqa: ARG001
    w = y  # another name of the outputs: the source does not show which output is written
    w[0] = 2.0 * u[0]
    w[1] = x[0]


Feedthrough = bool | Mapping[str, Sequence[str]]


def fed_back(
    output: Output, feedthrough: Feedthrough = True, back: str = "sub.indirect"
) -> Scenario:
    """Return x' = -x with two outputs of one block: ``direct`` is 2 x', ``indirect`` is x."""
    signals = Signals("direct", "indirect")
    sub = Model(
        "sub", Signals("x = 1"), integrated, inputs=Signals("u"), outputs=signals, output=output
    )
    d = Diagram("outer")
    d.add("sub", Differential(sub, feedthrough=feedthrough), "back")
    d.add("back", Gain(-1.0), back)
    d.output("sub.direct", name="direct")
    out = Scenario("fed back", until=1)
    out.plant("p", d.model(), step=0.1)
    return out


@pytest.mark.parametrize("engine", ["interpreted", "compiled"])
def test_a_loop_through_the_indirect_output_is_none(engine: str) -> None:
    recorder = MemoryRecorder()
    simulate(fed_back(direct_and_state), recorder=recorder, engine=engine)
    assert recorder.recording()["p.direct"][-1] == pytest.approx(-2.0 * math.exp(-1.0), abs=1e-6)


def test_a_loop_through_the_direct_output_is_refused() -> None:
    with pytest.raises(ScenarioError, match=r"algebraic loop: .*sub\.direct"):
        fed_back(direct_and_state, back="sub.direct")


def test_without_readable_source_an_output_depends_on_all_inputs_unless_declared() -> None:
    with pytest.raises(ScenarioError, match="algebraic loop"):
        fed_back(hidden)
    recorder = MemoryRecorder()
    simulate(fed_back(hidden, {"indirect": ()}), recorder=recorder, compile=False)
    assert recorder.recording()["p.direct"][-1] == pytest.approx(-0.7358, abs=1e-4)


@pytest.mark.parametrize("output", [direct_and_state, hidden])
@pytest.mark.parametrize("declared", [False, {"direct": (), "indirect": ()}])
def test_a_declaration_that_the_function_contradicts_is_refused(
    output: Output, declared: Feedthrough
) -> None:
    with pytest.raises(ScenarioError, match=r"output direct changes with input u .*'direct': \('u"):
        fed_back(output, declared)


def test_a_declaration_names_signals_of_the_model() -> None:
    with pytest.raises(UnknownName, match=r"'indirekt'.*did you mean indirect"):
        fed_back(hidden, {"indirekt": ()})
    with pytest.raises(UnknownName, match="'v'"):
        fed_back(hidden, {"direct": ("v",)})


def vectors(t: Any, x: Any, z: Any, u: Any, p: Any, y: Any) -> None:  # noqa: ARG001
    y[0] = x[0]
    y[1], y[2] = u[0], u[1] + u[2]


def test_dependences_of_vectors_and_nested_diagrams() -> None:
    u = Signals(Signal("a"), Signal("b", shape=(2,), initial=(1.0, 1.0)))
    y = Signals(Signal("state"), Signal("both", shape=(2,), initial=(0.0, 0.0)))
    block = Differential(
        Model("m", Signals("x = 1"), integrated, inputs=u, outputs=y, output=vectors)
    )
    assert [set(inputs) for inputs in block.direct] == [set(), {0}, {1, 2}]
    inner = Diagram("inner")
    pair = inner.input(Signal("pair", shape=(2,), initial=(0.0, 0.0)))
    inner.add("m", block, "loop", pair)
    inner.add("loop", Gain(-1.0), "m.state")
    inner.output("m.both", name="both")
    outer = Diagram("outer")
    outer.add("inner", inner, "held")
    outer.add("held", Integrator((1.0, 2.0)), "inner.both")
    outer.output("inner.both", name="seen")
    recorder, out = MemoryRecorder(), Scenario("s", until=1)
    out.plant("p", outer.model(), step=0.01)
    simulate(out, recorder=recorder, compile=False)
    assert recorder.recording()["p.seen"][0].tolist() == [-1.0, 3.0]
