"""Which branches of a reference model in Python a comparison takes."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rtsim as rt
from hitl.comparison import design_branches
from hitl.comparison.design_branches import DesignReach, reach_of

LIMIT = 12.0


def helper(x: float) -> float:
    return abs(x) if x > 2.0 else math.copysign(1.0, x - 1.0)


class Law(rt.Controller):
    raw = rt.input()
    out = rt.output()
    count = rt.memory()

    def step(self) -> None:
        self.out = max(-LIMIT, min(LIMIT, self.raw))
        if self.raw > 3.0 and not self.raw > 100.0:
            self.count += 1.0
        self.out += helper(self.raw) + np.clip(self.raw, -1.0, 1.0)
        self.out += 1.0 if self.count >= 2.0 else 2.0


class Compiled(Law, compile=True):
    pass


def reached(*inputs: float, law: Any = Law) -> DesignReach:
    table = np.array(inputs)[:, None]
    return reach_of(law().controller(), [(table, [(k, 0) for k in range(len(table))])])


def texts(found: DesignReach) -> list[str]:
    return [one.partition(": ")[2].removesuffix(", in Law.step()") for one in found.open]


@pytest.mark.parametrize("law", [Law, Compiled])
def test_each_side_that_no_step_takes_is_named(law: Any) -> None:
    found = reached(0.5, 20.0, law=law)
    assert texts(found) == [
        "abs(x) is -x, in helper()",
        "math.copysign(1.0, x - 1.0) is positive, in helper()",
        "max(-LIMIT, min(LIMIT, self.raw)) is -LIMIT",
        "self.raw > 100.0 is true",
        "np.clip(self.raw, -1.0, 1.0) is -1.0",
        "self.count >= 2.0 is true",
    ]
    assert found.count == 19
    assert found.in_brief == ["6 of 19 branches of the reference model were not reached"]
    assert found.open[0].startswith("test_design_branches.py:")
    every = reached(0.5, 20.0, -20.0, 101.0, 1.5, 20.0, law=law)
    assert texts(every) == ["abs(x) is -x, in helper()"]  # x > 2 there


def test_operands_that_are_equal_take_neither_side() -> None:
    assert "min(LIMIT, self.raw) is self.raw" in texts(reached(LIMIT))
    assert "min(LIMIT, self.raw) is LIMIT" in texts(reached(LIMIT))
    assert "min(LIMIT, self.raw) is LIMIT" not in texts(reached(LIMIT + 1.0))


def test_the_law_answers_as_before_and_keeps_its_memory() -> None:
    law = Law().controller()
    reach_of(law, [(np.array([[20.0], [20.0]]), [(0, 0), (1, 0)])])
    assert law.s.tolist() == [0.0]
    assert max(1, 2) == 2
    assert type(max).__name__ == "builtin_function_or_method"


def test_a_measurement_that_takes_too_long_says_for_which_steps_it_holds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(design_branches, "MOST_INSTRUCTIONS", 100)
    found = reached(*[0.5] * 50)
    assert 0 < found.steps < 50
    (clause,) = found.in_brief
    assert clause.endswith(f"were not reached in the first {found.steps} of 50 steps")


def test_a_model_that_is_no_function_of_python_is_not_measured() -> None:
    other: Any = object()
    found = reach_of(other, [])
    assert found.in_brief == []
    (sentence,) = found.in_words
    assert "reference model ran was not measured: it is not a function of Python" in sentence
    assert found.to_json()["not_measured"] == [found.why]


def test_functions_of_vectors_are_measured_too() -> None:
    def law(u: Any, y: Any) -> None:
        y[0] = np.maximum(u[0], 0.0)
        while u[0] > 5.0:
            u[0] -= 5.0

    design = rt.PythonController(law, inputs=rt.Signals("a"), outputs=rt.Signals("b"))
    found = reach_of(design, [(np.array([[1.0]]), [(0, 0)])])
    assert [one.split(": ")[1].split(", in")[0] for one in found.open] == [
        "np.maximum(u[0], 0.0) is 0.0",
        "u[0] > 5.0 is true",
    ]
    assert Path(__file__).name in found.open[0]
