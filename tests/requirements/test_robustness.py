"""Robustness of formulas: equal to its definition, and to rtamt where rtamt can decide."""

from __future__ import annotations

import math
import random
import sys
from functools import partial

import numpy as np
import pytest
from logic_parts import ByDefinition, pieces, random_formula, random_rows

from rtsim.requirements.language import parse
from rtsim.requirements.robustness import Evaluation

_NAMES = ("a.x", "b.y")


def check_by_definition(seed: int) -> None:
    chance = random.Random(seed)
    end = chance.randint(0, 10)
    signals = {name: random_rows(chance, end) for name in _NAMES}
    text = random_formula(chance, chance.randint(1, 3), _NAMES)
    node = parse(text)
    evaluation = Evaluation(lambda one: pieces(signals[one.name], end), 0, end)
    found = evaluation(node)[node].at(0)
    expected = ByDefinition(signals, end).truth(node)
    assert np.array_equal(found, expected), f"{text}\n{signals}\nuntil {end}"


def test_robustness_equals_its_definition() -> None:
    for seed in range(1200):
        check_by_definition(seed)


@pytest.mark.long
def test_robustness_of_10000_formulas_equals_its_definition() -> None:
    for seed in range(1200, 11_200):
        check_by_definition(seed)


def check_against_rtamt(seed: int) -> None:
    import rtamt

    chance, count = random.Random(seed), 60  # samples; no window ends after the last one
    binary = ("and", "or", "implies")
    text = random_formula(chance, chance.randint(1, 3), ("a", "b"), "s", False, binary)
    if chance.random() < 0.3:
        other = random_formula(chance, 2, ("a", "b"), "s", False, binary)
        text = f"{text} until[{chance.randint(0, 2)}s,{chance.randint(2, 5)}s] {other}"
    values = {name: [chance.uniform(-3.0, 3.0) for _ in range(count)] for name in ("a", "b")}
    theirs = rtamt.StlDiscreteTimeSpecification()
    for name in values:
        theirs.declare_var(name, "float")
    theirs.spec = text.replace("!=", "!==")
    theirs.parse()
    (_, expected), *_ = theirs.evaluate({"time": list(range(count)), **values})
    second = 1_000_000_000
    node, end = parse(text), (count - 1) * second
    rows = {n: [(k * second, 0, v) for k, v in enumerate(some)] for n, some in values.items()}
    evaluation = Evaluation(lambda one: pieces(rows[one.name], end), 0, end)
    low, high, sure, possible = evaluation(node)[node].at(0)
    assert low == high == expected, text
    if low:
        assert sure == possible == math.copysign(1.0, low), text


@pytest.mark.skipif(sys.version_info >= (3, 13), reason="rtamt has no release for this Python")
@pytest.mark.filterwarnings("ignore:typing.io is deprecated")
@pytest.mark.parametrize("count", [200, pytest.param(10_000, marks=pytest.mark.long)])
def test_robustness_equals_that_of_rtamt(count: int) -> None:
    """Not compared: ``iff`` and ``xor``, whose robustness rtamt defines by a difference, ``since``,
    and ``until`` within other operators.

    Between the samples of a discrete signal there is no time at which the left side must hold.
    """
    for seed in range(count):
        check_against_rtamt(seed)


def test_a_window_that_ends_after_the_run_leaves_the_robustness_open() -> None:
    rows = {"a.x": [(0, 0, 1.0), (5, 0, 3.0)]}

    def bounds(text: str) -> tuple[float, float]:
        node = parse(text)
        evaluation = Evaluation(lambda one: pieces(rows[one.name], 9), 0, 9)
        low, high, *_ = evaluation(node)[node].at(0)
        return low, high

    assert bounds("always[0ns,9ns] a.x < 4") == (1.0, 1.0)
    assert bounds("always[0ns,10ns] a.x < 4") == (-math.inf, 1.0)
    assert bounds("always[0ns,10ns] a.x < 2") == (-math.inf, -1.0)
    assert bounds("eventually[0ns,10ns] a.x > 2") == (1.0, math.inf)
    assert bounds("always a.x < 4") == (1.0, 1.0)
    assert bounds("always[10ns,end] a.x < 4") == (-math.inf, math.inf)


def test_a_window_to_the_end_is_unknown_until_the_run_reaches_it() -> None:
    """The run may end before the window begins; then the window has no value."""
    rows = [(0, 0, 0.0), (2, 0, 7.0)]
    node = parse("always[5ns,end] historically a.x < 1")
    for end, high in ((4, math.inf), (5, -6.0)):
        signal = pieces(rows, end)
        found = Evaluation(partial(lambda one, _: one, signal), 0, end, complete=False)(node)
        assert found[node].at(0).tolist()[:2] == [-math.inf, high]


def test_both_values_of_an_instant_count() -> None:
    """A value that holds for one microstep only violates a requirement."""
    rows = [(0, 0, 0.0), (5, 0, 0.0), (5, 1, 7.0), (5, 3, 0.0)]
    node = parse("always[0ns,9ns] a.x < 1")
    found = Evaluation(lambda _: pieces(rows, 9), 0, 9)(node)[node].at(0)
    assert found.tolist() == [-6.0, -6.0, -1.0, -1.0]


def test_a_value_that_is_not_a_number_is_unknown() -> None:
    rows = [(0, 0, 0.0), (5, 0, math.nan), (6, 0, 0.0)]
    node = parse("always[0ns,9ns] a.x < 1")
    found = Evaluation(lambda _: pieces(rows, 9), 0, 9)(node)[node].at(0)
    assert found.tolist() == [-math.inf, 1.0, -1.0, 1.0]


def test_a_limit_that_is_met_exactly_depends_on_the_sign() -> None:
    for sign, holds in {"<": -1.0, "<=": 1.0, ">": -1.0, ">=": 1.0, "==": 1.0, "!=": -1.0}.items():
        node = parse(f"always[0ns,4ns] a.x {sign} 1")
        found = Evaluation(lambda _: pieces([(0, 0, 1.0)], 9), 0, 9)(node)[node].at(0)
        assert found.tolist() == [0.0, 0.0, holds, holds]
