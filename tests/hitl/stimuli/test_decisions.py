"""Decisions that are no conditions: calls such as ``fmin``, values, and calls of helpers.

Each expression below occurs twice: as it should be, and with another number on one side of its
decision.  The run takes the other side, so only a stimulus shows the difference.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from hitl.building.build import Build, build
from hitl.controllers.sil import SilController
from hitl.stimuli.decisions import _with_plain_types
from hitl.stimuli.file import Stimuli, Stimulus
from hitl.stimuli.generating import Generated, Limits, Reach, generate
from rtsim.core.tag import Tag

HEAD = """#include <math.h>
#include <stdlib.h>
#include "s.h"
#define MIN(a, b) ((a) < (b) ? (a) : (b))
#define MAX(a, b) ((a) > (b) ? (a) : (b))
#define MOST(a, b) \\
    (__extension__ ({ __typeof__(a) a_ = (a); __typeof__(b) b_ = (b); a_ > b_ ? a_ : b_; }))
#define CLAMP(x, low, high) MAX(low, MIN(x, high))
static double limited(double x, double low, double high)
{
    return x < low ? low : x > high ? high : x;
}
static double both_ways(double x, double most) { return limited(x, -most, most); }
static double least(double a, double b) { return fmin(a, b); }
"""
SIBLINGS = {
    "fmax": ("fmax({}, fmin(10.0, x))", "-10.0", "-15.0"),
    "fmax within fmin": ("fmin(10.0, fmax({}, x))", "-10.0", "-15.0"),
    "fmaxf": ("fmaxf({}, fminf(10.0f, (float)x))", "-10.0f", "-15.0f"),
    "fabs": ("fabs(x + {0}) - {0}", "0.0", "1.0"),
    "fabsf": ("fabsf((float)x + {0}) - {0}", "0.0f", "1.0f"),
    "fdim": ("fdim(x, 3.0) - fdim({}, x)", "-3.0", "-5.0"),
    "abs": ("abs((int)x + {0}) - {0}", "0", "2"),
    "labs": ("labs((long)x + {0}) - {0}", "0L", "2L"),
    "copysign": ("copysign({0}, x) - {0}", "1.0", "2.0"),
    "signbit": ("signbit(x) * {}", "5.0", "7.0"),
    "isless": ("{} * isless(x, 0.0)", "5.0", "7.0"),
    "MIN and MAX": ("MAX({}, MIN(10.0, x))", "-10.0", "-15.0"),
    "typeof": ("MOST({}, MIN(10.0, x))", "-10.0", "-15.0"),
    "CLAMP": ("CLAMP(x, {}, 10.0)", "-10.0", "-15.0"),
    "?:": ("x > 10.0 ? 10.0 : x < {} ? -10.0 : x", "-10.0", "-15.0"),
    "||": ("x > 10.0 || x < {} ? 1.0 : 0.0", "-10.0", "-15.0"),
    "&&": ("x > {} && x < 10.0", "-10.0", "-15.0"),
    "comparison": ("(x > 0.5) - {} * (x < -0.5)", "1.0", "2.0"),
    "|": ("((x > 10.0) | (x < -0.5)) * (x > 0.5 ? 1.0 : {})", "1.0", "2.0"),
    "!": ("{} * !(x > 0.0)", "3.0", "4.0"),
    "function": ("limited(x, {}, 10.0)", "-10.0", "-15.0"),
    "function of a function": ("both_ways(x, x > 0.0 ? 10.0 : {})", "10.0", "15.0"),
    "function with fmin": ("-least(-x, {})", "10.0", "15.0"),
    "other calls": ("limited(x, -0.5, 0.5) + both_ways(x, 7.0) + least(x, 0.5)", "", ""),
}


def siblings(folder: Path, wrong: bool) -> Build:
    """Write one function for each expression, with an input and an output of its own."""
    folder.mkdir()
    count = range(len(SIBLINGS))
    functions = [
        f"static double f{k}(double x) {{ return {text.format(b if wrong else a)}; }}"
        for k, (text, a, b) in enumerate(SIBLINGS.values())
    ]
    steps = [f"    y[{k}] = f{k}(x[{k}]);" for k in count]
    head = "void s_step(const double *x, double *y)"
    source = [HEAD, *functions, head, "{", *steps, "}"]
    inputs = [f'u{k} = {{ c = "x[{k}]", low = -100, high = 100 }}' for k in count]
    outputs = [f'y{k} = {{ c = "y[{k}]" }}' for k in count]
    return controller(
        folder, "\n".join(source), head, "s_step(x, y)", inputs, outputs,
        f'objects = ["double x[{len(count)}], y[{len(count)}]"]\n',
    )  # fmt: skip


def controller(
    folder: Path,
    source: str,
    head: str = "double s_step(double x)",
    step: str = "y = s_step(x)",
    inputs: Sequence[str] = ("x = { low = -100, high = 100 }",),
    outputs: Sequence[str] = ("y = {}",),
    more: str = "",
    suffix: str = "c",
) -> Build:
    header = "s.h" if suffix == "c" else "s.hpp"
    (folder / header).write_text(f"{head};\n")
    (folder / f"s.{suffix}").write_text(source + "\n")
    language = "" if suffix == "c" else 'language = "c++"\n'
    rows = [
        f'name = "s"\nperiod = "1/10"\n{language}sources = ["s.{suffix}"]\nheaders = ["{header}"]',
        f'[code]\n{more}step = "{step}"\n[inputs]', *inputs, "[outputs]", *outputs,
    ]  # fmt: skip
    (folder / "s.toml").write_text("\n".join(rows) + "\n")
    return build(folder / "s.toml")


def answers(made: Build, steps: NDArray[np.float64], folder: Path) -> NDArray[np.float64]:
    out = []
    with closing(SilController(made, {}, cases=folder).fresh()) as running:
        for k, row in enumerate(steps):
            tag = Tag(running.interface.period.tick(k))
            running.send(tag, row)
            answer = running.receive(tag, 10.0)
            assert answer is not None
            out.append(np.array(answer))
    return np.array(out)


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        (b"__typeof__ (0.0) y = (x);", b"int              y = (x);"),
        (b"typeof(f((a), b)) c, __typeof (d) e;", b"int               c, int          e;"),
        (b"typeof_unqual (\n a) b;", b"int            \n    b;"),
        (b"typeofs(a); my_typeof(b);", b"typeofs(a); my_typeof(b);"),
        (b'puts("typeof("); c = \'"\'; f(x);', b'puts("typeof("); c = \'"\'; f(x);'),
        (b"typeof(x int g;", b"typeof(x int g;"),
    ],
)
def test_typeof_is_read_as_a_plain_type(text: bytes, seen: bytes) -> None:
    assert _with_plain_types(text) == seen


@pytest.mark.long
def test_a_wrong_number_on_a_side_that_the_run_does_not_take_is_found(tmp_path: Path) -> None:
    right, wrong = (siblings(tmp_path / name, name == "wrong") for name in ("right", "wrong"))
    run = np.ones((4, len(SIBLINGS)))
    run[1:] *= 20.0
    run[2:, -1] = -20.0  # the other calls of the functions take all sides
    assert np.array_equal(answers(right, run, tmp_path), answers(wrong, run, tmp_path))
    found = generate(wrong, Limits(runs=2500, steps=2), run=run)
    apart = np.zeros(len(SIBLINGS), np.bool_)
    for one in found.stimuli.stimuli:
        gap = answers(right, one.steps, tmp_path) - answers(wrong, one.steps, tmp_path)
        apart |= (np.abs(gap) > 1e-6).any(axis=0)
    names = np.array(list(SIBLINGS))
    assert names[~apart].tolist() == ["other calls"]
    # Some headers write isless with comparisons of __u and __v that only a NaN makes true.
    without = zip(found.branches, found.reached, strict=True)
    assert not [
        one.text
        for one, reached in without
        if not reached and "__u !=" not in one.text and "__v !=" not in one.text
    ]
    assert not found.unmeasured
    (nothing,) = (Reach.of(wrong, {}, [run]),)
    assert len(nothing.open) > len(SIBLINGS)


def branches(found: Generated) -> list[str]:
    return [one.in_words.removeprefix("s.c:").removeprefix("s.cpp:") for one in found.branches]


def test_a_call_names_the_operand_that_decides(tmp_path: Path) -> None:
    source = (
        "#include <math.h>\n#define TOP 9.0\ndouble s_step(double x)\n{\n"
        "    double y = fmin(TOP, fabs(x - 1.0));\n    return fdim(y, x) + copysign(1.0, y);\n}"
    )
    found = generate(controller(tmp_path, source), Limits(runs=600, steps=1))
    assert branches(found) == [
        "5: fmin(TOP, fabs(x - 1.0)) is TOP",
        "5: fmin(TOP, fabs(x - 1.0)) is fabs(x - 1.0)",
        "5: fabs(x - 1.0) is x - 1.0",
        "5: fabs(x - 1.0) is -(x - 1.0)",
        "6: fdim(y, x) is y - x",
        "6: fdim(y, x) is 0",
        "6: copysign(1.0, y) is positive",
        "6: copysign(1.0, y) is negative",
    ]
    (never,) = found.to_json()["open"]  # y is never negative
    assert (never["line"], never["way"], never["function"]) == (6, "negative", "s_step")
    assert never["condition"] == "copysign(1.0, y)"


def test_operands_that_are_equal_take_neither_side(tmp_path: Path) -> None:
    source = "#include <math.h>\ndouble s_step(double x) { return fmax(0.0, x) + fabs(x); }"
    made = controller(tmp_path, source)
    reached = [Reach.of(made, {}, [np.array([[x]])]) for x in (0.0, 1.0, -1.0)]
    assert [len(one.open) for one in reached] == [4, 2, 2]


def test_each_call_of_a_function_counts_by_itself(tmp_path: Path) -> None:
    source = (
        "static double low(double x, double most)\n{ return x < -most ? -most : x; }\n"
        "static double other(double low) { double twice = low; return twice; }\n"
        "static double twice(double x, double most) { return low(2.0 * x, most); }\n"
        "double s_step(double x)\n{\n"
        "    return low(x, 5.0) + twice(x, 7.0)\n        + twice(x, 500.0) + other(x);\n}"
    )
    found = generate(controller(tmp_path, source), Limits(runs=400, steps=1))
    way = "2: x < -most is true in low("
    assert {one for one in branches(found) if "true" in one} == {
        f"{way}x, 5.0) at s.c:7",
        f"{way}2.0 * x, most) at s.c:4 in twice(x, 7.0) at s.c:7",
        f"{way}2.0 * x, most) at s.c:4 in twice(x, 500.0) at s.c:8",
    }
    (never,) = found.open
    assert "twice(x, 500.0)" in never.branch.in_function
    assert found.edges[1] == len(found.branches) == 6


def test_calls_that_fix_a_decision_by_literals_count_together(tmp_path: Path) -> None:
    source = (
        "static double moved(double x, int up)\n{\n    if (up) return x > 9.0 ? 9.0 : x;\n"
        "    return -x;\n}\n"
        "double s_step(double x)\n{ return moved(x, 1) + moved(2.0 * x, 1) + moved(x, 0); }"
    )
    found = generate(controller(tmp_path, source), Limits(runs=400, steps=1))
    assert {"3: up is true", "3: up is false"} < set(branches(found))
    assert "3: x > 9.0 is true in moved(x, 1) at s.c:7" in branches(found)
    never = {one.branch.in_words for one in found.open}  # it returns before
    way = "s.c:3: x > 9.0 is {} in moved(x, 0) at s.c:7"
    assert never == {way.format("true"), way.format("false")}


def test_a_stimulus_that_names_a_branch_without_its_call_reaches_it_in_any_call(
    tmp_path: Path,
) -> None:
    source = (
        "static double low(double x, double most)\n{ return x < -most ? -most : x; }\n"
        "double s_step(double x)\n{ return low(x, 5.0) + low(x, 50.0); }"
    )
    made = controller(tmp_path, source)
    for x, count in ((-9.0, 0), (1.0, 1)):
        table = np.array([[x]])
        named = Stimuli("s", ("x",), (Stimulus(table, ("s.c:2: x < -most is true",)),))
        assert len(list(Reach.of(made, {}, [table]).lacking(named, first=0))) == count


def test_functions_that_call_themselves_or_have_no_name_count_once(tmp_path: Path) -> None:
    source = (
        "static double down(double x)\n{ return x > 9.0 ? down(x - 9.0) : x; }\n"
        "static double half(double x) { return x > 1.0 ? 0.5 * x : x; }\n"
        "static double (*const chosen)(double) = half;\n"
        "double s_step(double x)\n{ return down(x) + down(-x) + chosen(x) + half(x); }"
    )
    found = generate(controller(tmp_path, source), Limits(runs=400, steps=1))
    assert branches(found) == [
        "2: x > 9.0 is true",
        "2: x > 9.0 is false",
        "3: x > 1.0 is true",
        "3: x > 1.0 is false",
        "3: x > 1.0 is true in half(x) at s.c:6",
        "3: x > 1.0 is false in half(x) at s.c:6",
    ]
    assert found.complete


def test_too_many_calls_and_functions_without_text_are_said_to_be_unmeasured(
    tmp_path: Path,
) -> None:
    calls = " + ".join(f"low(x, {k}.0)" for k in range(40))
    source = (
        "static double low(double x, double most) { return x < -most ? -most : x; }\n"
        f"double s_step(double x) {{ return {calls}; }}"
    )
    found = generate(controller(tmp_path, source), Limits(runs=50, steps=1))
    assert not found.complete
    assert "not measured: the calls, one by one, of low at s.c:1" in found.in_words
    assert len(found.branches) == 2


def test_a_function_of_a_library_is_named(tmp_path: Path) -> None:
    source = "double cbrt(double);\ndouble s_step(double x) { return cbrt(x); }"
    found = generate(controller(tmp_path, source), Limits(runs=5, steps=1))
    assert not found.complete
    assert "functions whose text is not there: cbrt(x) at s.c:2" in found.in_words


CPP = """#include <algorithm>
#include <cmath>
#include "s.hpp"
static bool flagged(bool on) { return on; }
static int flagged(int) { return 2; }
static void raise(double &x, double by) { x = std::max(x, by); }
double s_step(double x)
{
    bool up{x > 3.0};
    double y = std::clamp(x, -5.0, 5.0) + std::min<double>(x, 9) + std::fabs(x);
    raise(y, 1.0);
    raise(y, -90.0);
    return flagged(x < 1.0) == 2 ? 7.0 : y + !up;
}
"""


@pytest.mark.long
def test_calls_and_values_of_cpp_keep_their_types(tmp_path: Path) -> None:
    made = controller(tmp_path, CPP, suffix="cpp")
    found = generate(made, Limits(runs=600, steps=1))
    named = {one.partition(": ")[2] for one in branches(found)}
    assert {
        "x > 3.0 is true",
        "std::clamp(x, -5.0, 5.0) is -5.0",
        "std::clamp(x, -5.0, 5.0) is not 5.0",
        "std::min<double>(x, 9) is 9",
        "std::fabs(x) is -x",
        "std::max(x, by) is by in raise(y, 1.0) at s.cpp:11",
        "std::max(x, by) is by in raise(y, -90.0) at s.cpp:12",
        "x < 1.0 is true",
        "up is false",
    } <= named
    left = {one.branch.in_words.partition(": ")[2] for one in found.open}
    assert left == {
        "flagged(x < 1.0) == 2 is true",  # a bool stays one, so the other function is not called
        "std::max(x, by) is by in raise(y, -90.0) at s.cpp:12",
    }
