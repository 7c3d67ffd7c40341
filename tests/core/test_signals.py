"""Signals: layout, units, bounds, hash."""

from __future__ import annotations

import json
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from rtsim.core.errors import ScenarioError, ShapeError, UnknownName
from rtsim.core.signals import Signal, Signals, same_unit

LAYOUT = Signals("altitude [m] = 100", Signal("q", shape=(4,), kind="quaternion"), "speed [m/s]")


def test_layout_is_flat_and_named() -> None:
    assert LAYOUT.size == 6
    assert LAYOUT.columns == ("altitude", "q_0", "q_1", "q_2", "q_3", "speed")
    assert LAYOUT.slice("q") == slice(1, 5)
    assert LAYOUT["altitude"].unit == "m"
    assert LAYOUT.initial()[0] == 100.0


def test_values_replace_initial_ones() -> None:
    vector = LAYOUT.initial({"q": (1, 0, 0, 0), "speed": 3})
    assert vector.tolist() == [100.0, 1.0, 0.0, 0.0, 0.0, 3.0]


def test_an_unknown_name_suggests_the_nearest() -> None:
    with pytest.raises(UnknownName, match="did you mean altitude"):
        LAYOUT.initial({"altitud": 1.0})


def test_wrong_length_and_range_are_refused() -> None:
    with pytest.raises(ShapeError, match="q has 4 elements, but got 3"):
        LAYOUT.initial({"q": (1, 0, 0)})
    bounded = Signals(Signal("gain", "1", low=0.0, high=2.0))
    for bad in (3.0, float("nan")):
        with pytest.raises(ScenarioError, match=r"^gain = .* is outside its range \[0, 2\]$"):
            bounded.initial({"gain": bad})
    mass = Signals(Signal("mass", "kg", low=0.0))
    with pytest.raises(ScenarioError, match=r"mass = -1 kg is outside its range \[0, inf\] kg$"):
        mass.initial({"mass": -1})
    with pytest.raises(ShapeError, match="expected a vector of 6"):
        LAYOUT.check(np.zeros(5), "somewhere")


@pytest.mark.parametrize("bad", ["1up [m]", "a [m] = tall", "a b [m", Signal])
def test_unreadable_declarations_are_refused(bad: object) -> None:
    with pytest.raises((ScenarioError, TypeError)):
        Signals(bad)  # type: ignore[arg-type]


@pytest.mark.parametrize("bad", ["a", "1.5", None, ("a", 1.0), [None, 1.0]])
def test_an_initial_value_that_is_no_number_is_refused(bad: Any) -> None:
    with pytest.raises(ScenarioError, match=r"initial value .* of signal gain is not a number"):
        Signal("gain", initial=bad, shape=(2,) if isinstance(bad, tuple | list) else ())


def test_an_unknown_kind_is_refused() -> None:
    """A misspelt angle would be compared without its wrap-around."""
    with pytest.raises(UnknownName, match="unknown kind 'angel' in signal yaw; did you mean angle"):
        Signal("yaw", "rad", kind="angel")  # type: ignore[arg-type]


def test_an_initial_value_can_be_any_number() -> None:
    numbers: list[Any] = [1, True, Fraction(1), np.float64(1), np.int64(1)]
    for good in numbers:
        assert Signals(Signal("gain", initial=good)).initial().tolist() == [1.0]


def test_declared_twice() -> None:
    with pytest.raises(ScenarioError, match="declared twice"):
        Signals("a [m]", "a [s]")


def test_schema_hash_covers_the_layout_and_not_the_values() -> None:
    base = Signals("a [m] = 1", "b [s]")
    assert base.schema_hash == Signals("a [m] = 2", "b [s]").schema_hash
    others = [
        Signals("b [s]", "a [m]"),
        Signals("a [ft]", "b [s]"),
        Signals(Signal("a", "m", type="float32"), "b [s]"),
        Signals(Signal("a", "m", shape=(1,)), "b [s]"),
        Signals("a [m]"),
    ]
    assert len({base.schema_hash, *(o.schema_hash for o in others)}) == 6


def test_json_round_trip_keeps_bounds() -> None:
    signals = Signals(Signal("a", "m", low=-1.0, initial=0.5), Signal("q", shape=(2,)))
    again = Signals.from_json(json.loads(json.dumps(signals.to_json())))
    assert again == signals


@pytest.mark.parametrize(
    ("one", "other"),
    [("N m", "N.m"), ("N*m", "N·m"), ("N m", "m N"), ("N.s/m", "N s/m"), ("m/s^2", "m s^-2"),
     ("m^0.5.s", "s m^0.5"), ("m**2", "m^2"), ("deg C", "degC"), ("N", "1"), ("J/(kg K)",) * 2],
)  # fmt: skip
def test_a_unit_can_be_written_in_several_ways(one: str, other: str) -> None:
    assert same_unit(one, other)
    assert same_unit(other, one)


@pytest.mark.parametrize(
    ("one", "other"),
    [("N m", "J"), ("N m", "N/m"), ("rad/s", "Hz"), ("m^2", "m"), ("m", "mm"), ("J/(kg K)", "J")],
)
def test_other_units_stay_other_units(one: str, other: str) -> None:
    assert not same_unit(one, other)
    assert not same_unit(other, one)
