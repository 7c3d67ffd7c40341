"""What is asked of a translation beside its answers: its period, and its own values."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from hitl.comparison.tolerances import OWN_VALUES, PERIOD, another_period, of_interface
from hitl.interface import Field
from rtsim.core.signals import Signal, Signals
from rtsim.core.tag import Period

TENTH, FIFTH = Period.of("0.1"), Period.of("0.2")


def interface(*fields: Field, any_period: bool = False) -> Any:
    """As much of one as is asked."""
    parameters = Signals(*(f.signal for f in fields))
    return SimpleNamespace(
        path=Path("law.toml"), period=TENTH, any_period=any_period, parameter_fields=fields,
        parameters=parameters,
    )  # fmt: skip


def field(name: str = "gain", type: str = "float64", **more: Any) -> Field:
    shape = more.pop("shape", ())
    return Field(Signal(name, type=type, shape=shape), name, True, 1, **more)


def design(values: dict[str, Any] | None = None, **declared: Any) -> Any:
    """One with parameters of these values, and those that a scenario sets."""
    signals = Signals(
        *(Signal(n, shape=np.shape(v), initial=np.asarray(v).tolist()) for n, v in declared.items())
    )
    return SimpleNamespace(parameters=signals, values=values or {})


def checks(
    one: Field | tuple[Field, ...],
    own: list[float] | None,
    of: Any,
    period: Period | None = None,
) -> list[tuple[str, str]]:
    fields = one if isinstance(one, tuple) else (one,)
    values = None if own is None else np.array(own)
    translation: Any = SimpleNamespace(interface=interface(*fields), own=values)
    return [(c.what, c.problem) for c in of_interface("law", of, translation, period)]


def problem(one: Field | tuple[Field, ...], own: list[float], of: Any) -> str:
    ((what, told),) = checks(one, own, of)
    assert what == OWN_VALUES
    return told


def test_a_period_has_to_be_that_of_the_scenario_or_declared_to_be_any() -> None:
    assert another_period("law", interface(), Period.of(Fraction(1, 10))) == ""
    assert another_period("law", interface(any_period=True), FIFTH) == ""
    told = another_period("law", interface(), FIFTH)
    assert "period of 0.1 s, but the scenario samples the controller every 0.2 s" in told
    assert "any_period = true in law.toml" in told


def test_what_is_asked_goes_by_what_there_is() -> None:
    gain, of = field(), design(gain=2.0)
    assert checks(gain, [2.0], of, TENTH) == [(PERIOD, ""), (OWN_VALUES, "")]
    assert [what for what, _ in checks(gain, [2.0], of)] == [OWN_VALUES]
    assert [what for what, _ in checks(gain, None, of, TENTH)] == [PERIOD]
    assert checks(gain, [2.0], design(other=2.0)) == [], "the design has no such parameter"
    assert checks(gain, [2.0], SimpleNamespace()) == []
    bare: Any = SimpleNamespace()
    assert list(of_interface("law", of, bare, TENTH)) == [], "without an interface file"


def test_another_value_is_named_with_both() -> None:
    told = problem(field(), [3.0], design(gain=2.0))
    assert told.startswith("law: parameter gain is 3.0 in the C code and 2.0 in the reference")
    assert "set_by_caller = true for gain in law.toml" in told


def test_a_value_that_the_scenario_sets_is_as_good_as_the_declared() -> None:
    of = design({"gain": 5.0}, gain=2.0)
    assert problem(field(), [5.0], of) == ""
    assert problem(field(), [2.0], of) == ""
    assert "and 2.0 in the reference model" in problem(field(), [3.0], of)


def test_zeros_and_what_its_caller_sets_are_left_to_the_caller() -> None:
    of = design(gain=2.0)
    assert problem(field(), [0.0], of) == ""
    assert problem(field(set_by_caller=True), [9.0], of) == ""
    table = field("table", shape=(2,))
    assert problem(table, [0.0, 0.0], design(table=[1.0, 2.0])) == ""
    assert "table_0 is 0.0" in problem(table, [0.0, 2.0], design(table=[1.0, 2.0]))


def test_the_first_element_that_differs_is_named() -> None:
    table = field("table", shape=(3,))
    told = problem(table, [1.0, 7.0, 9.0], design(table=[1.0, 2.0, 3.0]))
    assert "table_1 is 7.0 in the C code and 2.0 in the reference model" in told


def test_those_behind_one_that_is_not_asked_are() -> None:
    of = design(a=1.0, c=3.0)
    fields = field("b"), field("a", set_by_caller=True), field("c")
    assert "c is 4.0" in problem(fields, [9.0, 9.0, 4.0], of)


@pytest.mark.parametrize(
    ("one", "here", "same"),
    [
        (field(), 2.0 * (1 + 0.9e-9), True),
        (field(), 2.0 * (1 + 1.1e-9), False),
        (field(type="float32"), 2.0 * (1 + 0.9e-5), True),
        (field(type="float32"), 2.0 * (1 + 1.1e-5), False),
        (field(type="int16"), 3.0, False),
        (field(type="int16"), 2.0, True),
        (field(type="int16", scale=0.5), 2.5, True),
        (field(type="int16", scale=0.5), 1.5, True),
        (field(type="int16", scale=-0.5), 2.5, True),
        (field(type="int16", scale=0.5), 2.6, False),
        (field(type="float64", scale=0.5), 2.4, True),
        (field(type="uint8", bias=1.0), 3.0, True),
        (field(type="uint8", bias=1.0), 3.1, False),
        (field(type="bool"), 1.0, True),
    ],
)
def test_what_the_type_of_the_c_cannot_hold_is_no_difference(
    one: Field, here: float, same: bool
) -> None:
    assert (problem(one, [here], design(gain=2.0)) == "") is same


def test_a_bool_is_true_or_false() -> None:
    assert problem(field(type="bool"), [1.0], design(gain=0.0))
    two = field("two", type="bool", shape=(2,))
    assert problem(two, [1.0, 0.0], design(two=[5.0, 0.0])) == ""
    assert problem(two, [1.0, 0.0], design(two=[0.0, 5.0]))
    assert problem(two, [1.0, 1.0], design(two=[1.0, 0.0]))


def test_what_is_not_finite_is_the_same_only_as_itself() -> None:
    """A limit that the design does not have is one that the C does not have."""
    infinite, none = design(gain=float("inf")), design(gain=float("nan"))
    for type in ("float32", "float64"):
        assert problem(field(type=type), [float("inf")], infinite) == ""
        assert "gain is -inf in the C code" in problem(field(type=type), [float("-inf")], infinite)
        assert "gain is 5.0 in the C code and inf" in problem(field(), [5.0], infinite)
        assert problem(field(), [float("inf")], design(gain=5.0))
        assert problem(field(), [float("nan")], none) == ""
        assert problem(field(), [float("nan")], infinite)
