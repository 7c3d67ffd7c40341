"""Properties of tags and periods."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rtsim.components.latency import Fixed
from rtsim.core.errors import ScenarioError
from rtsim.core.tag import (
    LONGEST_NS,
    NEVER,
    NS_PER_S,
    START,
    Period,
    Tag,
    declared_ns,
    exact_seconds,
    to_ns,
)
from rtsim.scenario.scenario import Scenario

tags = st.builds(Tag, st.integers(0, 10**18), st.integers(0, 1000))
periods = st.fractions(min_value=1, max_value=10**12, max_denominator=10**6).map(Period)
MONTH_NS = 30 * 86_400 * NS_PER_S


@pytest.mark.rule("tags-order")
@given(tags, tags)
def test_tags_compare_as_tuples(a: Tag, b: Tag) -> None:
    assert (a < b) == ((a.ns, a.step) < (b.ns, b.step))


@pytest.mark.rule("zero-delay")
@given(tags, st.integers(0, 10**15))
def test_a_delay_always_goes_forward(tag: Tag, delay: int) -> None:
    later = tag.after(delay)
    assert later > tag
    assert later == (Tag(tag.ns, tag.step + 1) if delay == 0 else Tag(tag.ns + delay, 0))


@pytest.mark.rule("zero-delay")
@given(tags, st.integers(-(10**15), -1))
def test_a_negative_delay_is_an_error(tag: Tag, delay: int) -> None:
    with pytest.raises(ValueError, match="negative"):
        tag.after(delay)


@pytest.mark.rule("ticks-do-not-drift")
@given(periods, st.integers(0, 10**9), st.integers(0, 10**12))
def test_each_tick_is_within_half_a_nanosecond(period: Period, k: int, offset: int) -> None:
    assert abs(period.tick(k, offset) - offset - k * period.ns) <= Fraction(1, 2)


@given(periods, st.integers(0, 10**9))
def test_ticks_advance(period: Period, k: int) -> None:
    assert period.tick(k + 1) > period.tick(k)


@given(periods, st.integers(0, 10**15), st.integers(0, 10**12))
def test_index_after_is_the_first_later_tick(period: Period, ns: int, offset: int) -> None:
    k = period.index_after(ns, offset)
    assert period.tick(k, offset) > ns
    assert k == 0 or period.tick(k - 1, offset) <= ns


@pytest.mark.rule("ticks-do-not-drift")
def test_a_sixtieth_does_not_drift_in_a_month_and_rates_meet() -> None:
    sixtieth = Period.of("1/60")
    assert sixtieth.tick(60 * 86_400 * 30) == MONTH_NS
    ten, fifteen = Period.of(0.010), Period.of(0.015)
    assert ten.tick(3) == fifteen.tick(2) == 30_000_000


@pytest.mark.parametrize("value", [0, -1, "0", 1e-12, "1/0", "fast", float("nan"), float("inf")])
def test_a_period_that_cannot_be_is_refused(value: object) -> None:
    with pytest.raises(ScenarioError):
        Period.of(value)  # type: ignore[arg-type]


def test_a_float_means_its_shortest_decimal() -> None:
    assert Period.of(0.1).ns == 100_000_000
    assert to_ns(53.1) == 53_100_000_000


@given(periods, st.integers(0, 10**6), st.integers(-5, 200), st.integers(0, 64))
def test_ticks_before_a_limit_are_the_ticks_one_by_one(
    period: Period, k: int, ahead: int, most: int
) -> None:
    limit = period.tick(k) + math.floor(ahead * period.ns)
    found = period.ticks_before(limit, k, most)
    assert found == [at for i in range(most) if (at := period.tick(k + i)) < limit]


def test_a_tag_begins_at_microstep_0_and_says_what_it_is() -> None:
    assert Tag(5) == (5, 0)
    assert START == (0, 0)
    assert (NEVER, LONGEST_NS) == ((2**63 - 1, 0), 2**62)
    assert NS_PER_S == 10**9
    assert str(Tag(1_002_000_003)) == "1.002000003 s"
    assert str(Tag(60 * NS_PER_S, 2)) == "60.000000000 s +2"
    assert str(Tag(999_999_999, 1)) == "0.999999999 s +1"
    assert str(Tag(-500_000_000)) == "-0.500000000 s", "as in messages about what was typed"
    assert Tag(2_500_000_000, 7).seconds == 2.5


@pytest.mark.parametrize(
    ("value", "ns"),
    [
        (0, 0), (1, NS_PER_S), ("1/3", 333_333_333), ("2/3", 666_666_667), (0.1, 100_000_000),
        ("0.5e-9", 1), ("-0.5e-9", 0), ("1.4999e-9", 1), ("1.5e-9", 2), ("2.5e-9", 3),
        ("-1.5e-9", -1), ("-1.6e-9", -2), (Fraction(1, 7), 142_857_143),
    ],
)  # fmt: skip
def test_the_nearest_nanosecond_and_halves_go_up(value: object, ns: int) -> None:
    assert to_ns(value) == ns  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (1.5e-9, r"until 1.5e-09 s is 1.5 ns, but the time resolution is 1 ns; give 1e-9 or 2e-9"),
        (1.6e-13, "is 0.00016 ns, .*; give 0 or 1e-9"),
        ("1/30000000", r"is 33\.3333 ns, .*; give 33e-9 or 34e-9"),
        (-0.4e-9, "give -1e-9 or 0"),
    ],
)
def test_a_declared_time_that_is_no_whole_nanosecond_is_refused(value: object, said: str) -> None:
    with pytest.raises(ScenarioError, match=said):
        declared_ns(value, "until")  # type: ignore[arg-type]


def test_a_declared_time_is_rounded_by_less_than_a_thousandth() -> None:
    assert [declared_ns(v) for v in (0, "1/3", 3e-7, 0.1 + 0.2, 1.0005e-6)] == [
        0, 333_333_333, 300, 300_000_000, 1001,
    ]  # fmt: skip
    for make in (lambda: Scenario("s", until=1.5e-9), lambda: Fixed(0.3e-9)):
        with pytest.raises(ScenarioError, match="time resolution is 1 ns"):
            make()


@given(st.fractions(-(10**6), 10**6, max_denominator=10**12))
def test_no_number_of_seconds_is_further_off_than_half_a_nanosecond(seconds: Fraction) -> None:
    assert abs(to_ns(seconds) - seconds * NS_PER_S) <= Fraction(1, 2)


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("1" * 41, "duration '1{40}' is not a number of seconds; write 0.02, '1/50' or"),
        ("1e1234", "is not a number of seconds"),
        ("1e0001234", "is not a number of seconds"),
        ("1E-9999", "is not a number of seconds"),
        ("fast", "duration 'fast' is not a number"),
        (None, "duration 'None' is not a number"),
        ("1/0", "duration '1/0' is not a number"),
        (math.nan, "duration 'nan' is not a number"),
        (
            Fraction(LONGEST_NS, NS_PER_S),
            r"exceeds the largest time of 4,611,686,018 s \(146 years\)",
        ),
        (
            -Fraction(LONGEST_NS, NS_PER_S),
            r"-4.61169e\+09 s exceeds the largest time of 4,611,686,018 s",
        ),
        ("1e999", "duration 1e999 s exceeds the largest"),  # a float cannot hold it
        ("-1e309", "duration -1e309 s exceeds the largest"),
        ("1e290", r"duration 1e\+290 s exceeds the largest"),
        (f"1.{'0' * 34}e309", f"duration 1.{'0' * 34}e309 s exceeds the largest"),
    ],
)
def test_what_is_no_time_says_so(value: object, said: str) -> None:
    with pytest.raises(ScenarioError, match=said):
        to_ns(value)  # type: ignore[arg-type]


def test_the_longest_time_and_the_longest_text() -> None:
    longest = Fraction(LONGEST_NS - 1, NS_PER_S)
    assert exact_seconds(longest) == longest
    assert exact_seconds(-longest) == -longest
    assert exact_seconds("0." + "0" * 37 + "1") == Fraction(1, 10**38)
    assert exact_seconds("1e0") == exact_seconds("1e000") == 1
    assert exact_seconds("0e999") == 0
    with pytest.raises(ScenarioError, match=r"^interval 'x'"):
        exact_seconds("x", "interval")


def test_a_period_is_a_nanosecond_at_least_and_knows_itself() -> None:
    assert Period.of(1e-9).ns == 1
    assert Period.of("1e-9").tick(5) == 5
    sixtieth = Period.of("1/60")
    assert Period.of(sixtieth) is sixtieth
    assert (sixtieth.seconds, str(sixtieth), str(Period.of(0.5))) == (
        1 / 60,
        "0.0166667 s",
        "0.5 s",
    )
    with pytest.raises(
        ScenarioError, match=r"a period of 0.9 ns is shorter than the time resolution of 1 ns"
    ):
        Period.of("0.9e-9")
    with pytest.raises(ScenarioError, match="a period must be > 0 s, got 0"):
        Period.of(0)
    with pytest.raises(ScenarioError, match=r"a period must be > 0 s, got '-1/2'"):
        Period.of("-1/2")
    with pytest.raises(ScenarioError, match=r"^period 'x' is not"):
        Period.of("x")


def test_ticks_are_rounded_with_halves_up_and_shifted() -> None:
    third, half = Period(Fraction(10, 3)), Period(Fraction(5, 2))
    assert [third.tick(k) for k in range(5)] == [0, 3, 7, 10, 13]
    assert [half.tick(k, 100) for k in range(5)] == [100, 103, 105, 108, 110]
    assert [half.tick(k) for k in range(-2, 1)] == [-5, -2, 0]


@pytest.mark.parametrize("period", [Period(Fraction(10)), Period(Fraction(10, 3))])
def test_ticks_before_a_limit_that_is_a_tick_leave_it_out(period: Period) -> None:
    for k in (0, 1, 3):
        for most in (0, 1, 2, 5):
            for last in range(k, k + 7):
                limit = period.tick(last)
                expected = [period.tick(i) for i in range(k, min(last, k + most))]
                assert period.ticks_before(limit, k, most) == expected
                more = [period.tick(i) for i in range(k, min(last + 1, k + most))]
                assert period.ticks_before(limit + 1, k, most) == more


def test_the_first_tick_after_a_time_is_never_one_before_the_first() -> None:
    ten = Period(Fraction(10))
    assert [ten.index_after(ns) for ns in (-100, -1, 0, 9, 10, 11, 100)] == [0, 0, 1, 1, 2, 2, 11]
    assert [ten.index_after(ns, 105) for ns in (0, 104, 105, 114, 115)] == [0, 0, 1, 1, 2]
