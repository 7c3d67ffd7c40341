"""Properties of tags and periods."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rtsim.errors import ScenarioError
from rtsim.tag import NS_PER_S, Period, Tag, to_ns

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
    with pytest.raises(ValueError, match="back in time"):
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
