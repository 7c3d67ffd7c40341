"""One signal of an interface file by itself: what its C type holds, its limits, its numbers."""

from __future__ import annotations

import math
from typing import Any

import pytest

from hitl.interface.fields import FIELD, Field, exact_number, read_field
from rtsim.core.errors import ScenarioError
from rtsim.core.signals import Signal
from rtsim.core.toml import Place, read


def field(table: str = "inputs", real: str = "float64", **row: Any) -> Field:
    entries = read(row, FIELD, Place())
    with entries.checking():
        return read_field(table, "x", entries, real)


def test_what_is_left_out_has_its_default() -> None:
    plain = field()
    assert plain == Field(Signal("x", "1", type="float64"), "x", True, 0, given=False)
    assert (plain.signal.low, plain.signal.high) == (-math.inf, math.inf)
    assert field(
        type="int8", scale=0.5, bias=-1, overflow="saturate", c=" a.b ", unit="m"
    ) == Field(Signal("x", "m", type="int8"), "a.b", False, 0, 0.5, -1.0, "saturate", given=False)
    assert field(real="float32").signal.type == "float32"
    assert field(kind="angle", description="of attack").signal.description == "of attack"


@pytest.mark.parametrize("low", [1.0, 1.25])
def test_a_range_of_one_value_has_that_value(low: float) -> None:
    assert field(low=low, high=1.25, initial=1.25).signal.low == low
    with pytest.raises(ScenarioError, match=r"low = 1\.26 and high = 1\.25"):
        field(low=1.26, high=1.25)


@pytest.mark.parametrize("value", [0.4, 3.6, math.nan, -math.inf, math.inf])
def test_an_initial_value_outside_of_the_range_is_refused(value: float) -> None:
    with pytest.raises(ScenarioError, match=r"is outside the signal's range \[0\.5, 3\.5\]$"):
        field(low=0.5, high=3.5, initial=value)
    with pytest.raises(ScenarioError, match=r"outside the signal's range \[0\.5, 3\.5\]$"):
        field(low=0.5, high=3.5, shape=3, initial=[1.0, 2.0, value])
    for inside in (0.5, 1.0, 3.5):
        assert field(low=0.5, high=3.5, initial=inside).signal.initial == inside


def test_only_a_parameter_has_to_have_an_initial_value_that_fits() -> None:
    assert field(low=0.5).signal.initial == 0.0
    with pytest.raises(
        ScenarioError, match=r"outside the signal's range \[0\.5, inf\]; give initial = "
    ):
        field("parameters", low=0.5)
    with pytest.raises(
        ScenarioError, match="does not fit int8 with scale 1 and bias 300; give initial"
    ):
        field("parameters", type="int8", bias=300)
    with pytest.raises(ScenarioError, match=r"^initial = 128\.0 does not fit int8$"):
        field(type="int8", initial=128)


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ({"scale": 1.0}, "scale and bias apply only to integers, not to float64"),
        ({"bias": 0.0}, "scale and bias apply only to integers, not to float64"),
        ({"type": "bool", "scale": 1.0}, "scale and bias apply only to integers, not to bool"),
        (
            {"type": "int8", "scale": 0},
            "scale = 0 is not valid; write a finite number other than 0",
        ),
        ({"type": "int8", "scale": math.nan}, "scale = nan is not valid; write a finite number"),
        ({"type": "int8", "bias": math.inf}, "bias = inf is not valid; write a finite number"),
        (
            {"type": "int8", "overflow": "wrap"},
            "unknown overflow 'wrap'; known: error, saturate",
        ),
        ({"overflow": "error"}, "not to a float64; remove it"),
        ({"c": ""}, "c = '' is not valid; write a C lvalue"),
        ({"c": "  "}, "write a C lvalue"),
        ({"c": 3}, "write a C lvalue"),
        ({"shape": True}, "shape = True is not valid"),
        ({"shape": [0]}, "shape: element 1, 0 is not valid; write a whole number >= 1"),
        ({"shape": 0}, "shape = 0 is not valid; write a whole number >= 1"),
        ({"shape": [2**31]}, "shape: element 1, 2147483648 is not valid"),
        ({"kind": "angel"}, "unknown kind 'angel'; did you mean angle"),
    ],
)
def test_what_no_field_can_be(row: dict[str, Any], said: str) -> None:
    with pytest.raises(ScenarioError, match=said):
        field(**row)


def test_overflow_is_not_for_an_output() -> None:
    with pytest.raises(
        ScenarioError, match="integer inputs and parameters, not to an output; remove it"
    ):
        field("outputs", type="int8", overflow="error")
    assert field("outputs", type="int8", scale=2).scale == 2.0


@pytest.mark.parametrize(
    ("row", "value", "held"),
    [
        ({"type": "bool"}, 7.0, True),
        ({"type": "bool"}, math.nan, False),
        ({"type": "float64"}, math.nan, True),
        ({"type": "float32"}, 3.4e38, True),
        ({"type": "float32"}, 3.5e38, False),
        ({"type": "float32"}, -3.5e38, False),
        ({"type": "float32"}, math.inf, True),
        ({"type": "float32"}, math.nan, True),
        ({"type": "int8"}, 127.4, True),
        ({"type": "int8"}, 127.6, False),
        ({"type": "int8"}, -128.0, True),
        ({"type": "int8"}, -129.0, False),
        ({"type": "int8"}, math.inf, False),
        ({"type": "int8"}, math.nan, False),
        ({"type": "uint8"}, -0.4, True),
        ({"type": "uint8"}, -1.0, False),
        ({"type": "int8", "scale": 0.5, "bias": 10.0}, 73.5, True),
        ({"type": "int8", "scale": 0.5, "bias": 10.0}, 74.0, False),
        ({"type": "int8", "scale": 0.5, "bias": 10.0}, -54.0, True),
        ({"type": "int8", "scale": 0.5, "bias": 10.0}, -54.5, False),
        ({"type": "int8", "overflow": "saturate"}, 1e9, True),
        ({"type": "int8", "overflow": "saturate"}, -math.inf, True),
        ({"type": "int8", "overflow": "saturate"}, math.nan, False),
    ],
)
def test_what_a_type_holds(row: dict[str, Any], value: float, held: bool) -> None:
    type, more = row["type"], {k: v for k, v in row.items() if k != "type"}
    assert Field(Signal("x", type=type), "x", True, 1, **more).holds(value) is held


def test_a_field_is_plain_where_nothing_else_is_said() -> None:
    plain = Field(Signal("x", type="int8"), "x", True, 1)
    assert (plain.scale, plain.bias, plain.overflow, plain.scaled) == (1.0, 0.0, "error", False)
    assert Field(Signal("x", type="int8"), "x", True, 1, scale=0.5).scaled
    assert Field(Signal("x", type="int8"), "x", True, 1, bias=0.5).scaled


@pytest.mark.parametrize(
    ("shape", "given", "values"),
    [
        (3, [1, 2, 3], (1, 2, 3)),
        ([2, 3], [1, 2, 3, 4, 5, 6], (1, 2, 3, 4, 5, 6)),
        ([2, 3], [[1, 2, 3], [4, 5, 6]], (1, 2, 3, 4, 5, 6)),
        ([3, 2], [[1, 2], [3, 4], [5, 6]], (1, 2, 3, 4, 5, 6)),
        ([2, 1, 2], [[[1, 2]], [[3, 4]]], (1, 2, 3, 4)),
        ([2], ["1/4", "2**-1"], (0.25, 0.5)),
    ],
)
def test_initial_values_of_an_array(shape: Any, given: list[Any], values: Any) -> None:
    assert field(shape=shape, initial=given).signal.initial == values


@pytest.mark.parametrize(
    ("shape", "given"),
    [
        ([2, 3], [[1, 2], [3, 4]]), ([2, 3], [[1, 2, 3], 4]), ([2], [[1], [2]]),
        ([2, 1, 2], [[1, 2], [3, 4], [5, 6]]), ([3, 2], [[1, 2], [3, 4]]),
    ],
)  # fmt: skip
def test_initial_values_that_are_nested_otherwise(shape: list[int], given: list[Any]) -> None:
    with pytest.raises(ScenarioError, match="the lists in initial are not nested as in shape"):
        field(shape=shape, initial=given)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1/256", 1 / 256), ("-1.5e3", -1500.0), ("+2", 2.0), ("2**-8", 2**-8), ("3**2", 9.0),
        ("10**+2", 100.0), (" 1 / 4 ", 0.25), (True, 1.0), (2**53, 2.0**53),
        (-(2**54), -(2.0**54)), (0.1, 0.1),
    ],
)  # fmt: skip
def test_numbers(text: object, value: float) -> None:
    assert exact_number(text) == value


@pytest.mark.parametrize("text", ["", "x", "1/", "1//2", "2**", "1e1234", "2**12345", "1_0", "."])
def test_texts_that_are_no_number(text: str) -> None:
    with pytest.raises(ValueError, match="the text is not a number"):
        exact_number(text)


@pytest.mark.parametrize(
    ("table", "type"), [("outputs", "float64"), ("parameters", "float32"), ("inputs", "int16")]
)
def test_nan_is_for_inputs_of_a_floating_point_type(table: str, type: str) -> None:
    assert field(type="float32", nan=True, low=-math.inf).specials[0] == -math.inf
    with pytest.raises(ScenarioError, match=rf"not to {table} of type {type}; remove it"):
        field(table, type=type, nan=True)
