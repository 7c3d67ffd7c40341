"""Two values side by side, and two states: every bit counts, and is shown."""

from __future__ import annotations

import math
import struct
from typing import Any

import numpy as np
import pytest

from rtsim.core.random_streams import RandomStreams
from rtsim.runs.diverging.first import Value, ValuePair, drawn, first_apart, in_full, parting, same

OTHER_NAN: float = struct.unpack("<d", struct.pack("<Q", 0x7FF8000000000001))[0]


@pytest.mark.parametrize(
    ("a", "b", "equal", "apart"),
    [
        (1.0, 1.0, True, ""),
        (0.0, -0.0, False, "0.0 and -0.0"),
        (1.0, math.nextafter(1.0, 2), False, "1 ulp apart"),
        (-5e-324, 5e-324, False, "2 ulp apart"),
        (1.0, 1.5, False, "0.5 apart"),
        (math.nan, math.nan, True, ""),
        (math.nan, OTHER_NAN, False, ""),
        (math.inf, 1.0, False, ""),
        (1, 1.0, False, ""),
        ("a", "b", False, ""),
        (None, 1.0, False, ""),
    ],
)
def test_a_pair_is_equal_bit_for_bit(a: Value, b: Value, equal: bool, apart: str) -> None:
    pair = ValuePair("x", a, b)
    assert (same(a, b), pair.equal, pair.apart) == (equal, equal, apart)
    told = pair.to_json()
    assert told["equal"] == equal
    assert ("a_bits" in told) == isinstance(a, float)


def test_a_value_in_full_leaves_no_bit_open() -> None:
    assert in_full(0.1) == "0.1 (0x3fb999999999999a)"
    assert in_full(OTHER_NAN) == "nan (0x7ff8000000000001)"
    assert in_full(7) == "7"
    assert in_full(None) == "not known"


def state(**parts: Any) -> dict[str, Any]:
    return {"streams": {"seed": 0, "streams": {}}, "inserted": [1], **parts}


@pytest.mark.parametrize(
    ("a", "b", "names"),
    [
        ({"x": [1.0, 2.0]}, {"x": [1.0, 2.5]}, ["plants.x[1]"]),
        ({"x": [1.0]}, {"x": [1.0, 2.5]}, ["plants.x"]),
        ({"x": 1.0}, {"x": 1}, ["plants.x"]),
        ({"x": None}, {"x": {"y": 1}}, ["plants.x"]),
        ({"x": np.array([1.0, math.nan])}, {"x": [1.0, math.nan]}, []),
        ({"x": {"known": False}}, {"x": {"steps": 3}}, []),
        ({"x": True}, {"x": False}, ["plants.x"]),
        ({"x": b"1"}, {"x": b"2"}, ["plants.x"]),
    ],
)
def test_where_two_states_part(a: Any, b: Any, names: list[str]) -> None:
    found = parting(state(plants=a), {**state(plants=b), "inserted": []})
    assert [pair.name for pair in found] == names
    assert parting(state(plants=a), state(plants=b), ["plants.x"]) == []


def test_what_is_known_to_differ_is_left_out_and_nothing_beside_it() -> None:
    a, b = state(plants={"x": [1.0], "xy": 1.0}), state(plants={"x": [2.0], "xy": 2.0})
    assert [pair.name for pair in parting(a, b, ["plants.x"])] == ["plants.xy"]


def test_how_far_a_stream_was_drawn() -> None:
    streams = RandomStreams(3)
    streams.stream("noise/gust")
    streams.stream("transport/s")
    before = {"streams": streams.save()}
    streams.stream("noise/gust").random(6)
    after = {"streams": streams.save()}
    assert drawn(before, after) == ["noise/gust"]
    [pair] = parting(before, after)
    assert (pair.a, pair.b) == ("0 words drawn", "6 words drawn")
    other = {"streams": RandomStreams(4).save()}
    assert [(p.name, p.a, p.b) for p in parting(before, other)] == [("streams", "seed 3", "seed 4")]


@pytest.mark.parametrize("count", [0, 1, 2, 7, 64])
def test_the_first_that_does_not_agree_is_found_by_bisection(count: int) -> None:
    for first in range(count + 1):
        asked: list[int] = []

        def agree(ns: int, first: int = first, asked: list[int] = asked) -> bool:
            asked.append(ns)
            return ns < 10 * first

        assert first_apart([10 * i for i in range(count)], agree) == first
        assert len(asked) <= math.ceil(math.log2(count + 1))
