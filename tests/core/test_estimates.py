"""Estimates from random samples: they hold as often as they say, or are refused."""

from __future__ import annotations

import math

import numpy as np
import pytest

from rtsim.core.errors import ScenarioError
from rtsim.core.estimates import (
    Estimate,
    batch_means,
    interval,
    line_average,
    quantile,
    stratified,
    time_average,
    warm_up,
)
from rtsim.core.signals import Vector


def autoregressive(count: int, seed: int, memory: float = 0.8, start: float = 0.0) -> Vector:
    """x' = memory x + noise: mean 0 in the long run."""
    noise = np.random.Generator(np.random.Philox(seed)).standard_normal(count)
    x, out = start, np.empty(count)
    for k in range(count):
        x = memory * x + noise[k]
        out[k] = x
    return out


@pytest.mark.parametrize("level", [0.5, 0.95])
def test_an_interval_holds_the_mean_as_often_as_it_says(level: float) -> None:
    """4000 intervals: the share is within 4 of its standard deviations (once in 16,000)."""
    samples = np.random.Generator(np.random.Philox(1)).standard_normal((4000, 6)) + 3.0
    held = sum(3.0 in interval(row, level) for row in samples) / 4000
    assert abs(held - level) < 4 * math.sqrt(level * (1 - level) / 4000)


def test_an_interval_is_students() -> None:
    """t(4, 0.975) = 2.776 445."""
    found = interval([1.0, 2.0, 3.0, 4.0, 5.0])
    assert found.mean == 3.0
    assert found.half_width == pytest.approx(2.7764451 * math.sqrt(2.5 / 5), rel=1e-7)
    assert (found.low, found.high) == (3.0 - found.half_width, 3.0 + found.half_width)
    assert str(found) == "3 ± 2 (0.95, n = 5)"


def thrown(hits: int, misses: int) -> Vector:
    return np.repeat([1.0, 0.0], [hits, misses])


PAPER = [thrown(48, 2), thrown(37, 13), thrown(23, 27), thrown(19, 31)]
"""Balls of paper, 50 throws each: as they should be, of odd weight, lop-sided, both."""
OFTEN = [0.98 * 0.95, 0.02 * 0.95, 0.98 * 0.05, 0.02 * 0.05]


def test_strata_weigh_as_often_as_they_occur_and_not_as_often_as_they_were_sampled() -> None:
    """93 %; thrown together, the samples say 63.5 %."""
    assert np.concatenate(PAPER).mean() == 0.635
    found = stratified(PAPER, OFTEN)
    expected = 0.931 * 48 / 50 + 0.019 * 37 / 50 + 0.049 * 23 / 50 + 0.001 * 19 / 50
    assert found.mean == pytest.approx(expected, rel=1e-12)
    assert f"{found.mean:.0%}" == "93%"
    errors = [w**2 * s.mean() * (1 - s.mean()) / 49 for w, s in zip(OFTEN, PAPER, strict=True)]
    freedom = sum(errors) ** 2 / (sum(e**2 for e in errors) / 49)
    assert found.half_width == pytest.approx(
        quantile(freedom, 0.95) * math.sqrt(sum(errors)), rel=1e-12
    )
    assert 49 < freedom < 53, "nearly all is in the first stratum"
    assert found.count == 200


def test_one_stratum_is_a_plain_sample() -> None:
    found, plain = stratified([[1.0, 2.0, 4.0]], [1.0]), interval([1.0, 2.0, 4.0])
    assert (found.mean, found.count) == (plain.mean, plain.count)
    assert found.half_width == pytest.approx(plain.half_width, rel=1e-12)
    assert stratified([[2.0, 2.0], [4.0, 4.0]], [0.5, 0.5]) == Estimate(3.0, 0.0, 0.95, 4)


def test_an_interval_from_strata_holds_the_mean_as_often_as_it_says() -> None:
    """4000 of two strata that differ in all: the share is within 4 standard deviations."""
    random = np.random.Generator(np.random.Philox(6))
    few, many = random.normal(5.0, 4.0, (4000, 4)), random.normal(1.0, 0.5, (4000, 12))
    held = sum(
        0.3 * 5.0 + 0.7 * 1.0 in stratified([a, b], [0.3, 0.7])
        for a, b in zip(few, many, strict=True)
    )
    assert abs(held / 4000 - 0.95) < 4 * math.sqrt(0.95 * 0.05 / 4000)


def test_batch_means_know_that_neighbours_depend_and_a_plain_interval_does_not() -> None:
    """300 series: 95 % hold it, give or take 4 standard deviations; without batches, far fewer."""
    series = [autoregressive(2000, seed)[100:] for seed in range(300)]
    batched = sum(0.0 in batch_means(one) for one in series) / 300
    naive = sum(0.0 in interval(one) for one in series) / 300
    assert batched > 0.95 - 4 * math.sqrt(0.95 * 0.05 / 300)
    assert naive < 0.6


def test_an_average_over_time_weighs_by_how_long_it_held() -> None:
    ns = np.array([10, 30, 60], dtype=np.int64)
    values = np.array([1.0, 5.0, 2.0])
    assert time_average(ns, values, 0, 100, before=4.0) == (40 + 20 + 150 + 80) / 100
    assert time_average(ns, values, 30, 50) == 5.0
    assert time_average(ns, values, 20, 40) == 3.0
    assert time_average(ns[:0], values[:0], 5, 9, before=7.0) == 7.0
    with pytest.raises(ScenarioError, match="give an end after the beginning"):
        time_average(ns, values, 9, 9)


def test_warm_up_is_found_where_there_is_one() -> None:
    series = autoregressive(2000, 3) + 10.0
    cut = warm_up(series - 30.0 * np.exp(-np.arange(2000) / 50))
    assert 100 <= cut <= 500
    assert warm_up(series) < 300


def test_an_average_along_lines_has_the_jumps_in_it() -> None:
    ns = np.array([0, 10, 10, 30], dtype=np.int64)
    values = np.array([0.0, 2.0, 6.0, 4.0])
    assert line_average(ns, values, 0, 30) == (10 * 1.0 + 20 * 5.0) / 30
    assert line_average(ns, values, 10, 30) == 5.0, "from x+ on"
    assert line_average(ns, values, 0, 10) == 1.0, "up to x-"
    assert line_average(ns, values, 5, 20) == (5 * 1.5 + 10 * 5.5) / 15
    for begin, end in ((-1, 10), (0, 31), (10, 10)):
        with pytest.raises(ScenarioError, match=r"the values cover from 0 ns to 30 ns"):
            line_average(ns, values, begin, end)
    with pytest.raises(ScenarioError, match="the values cover no time"):
        line_average(ns[:0], values[:0], 0, 1)


@pytest.mark.parametrize(
    ("act", "said"),
    [
        (lambda: interval([1.0]), "at least 2"),
        (lambda: interval([1.0, 2.0], 1.0), "between 0 and 1"),
        (lambda: batch_means([1.0] * 10, 20), "one value for each batch"),
        (lambda: warm_up([1.0] * 10), "at least 20 values, got 10"),
        (lambda: interval([1.0, math.nan, 2.0]), r"1 of 3 samples are not .* sample 1 \(nan\)"),
        (lambda: batch_means([1.0, math.inf] * 20), r"20 of 40 samples .* sample 1 \(inf\)"),
        (lambda: warm_up([1.0] * 99 + [math.nan]), r"1 of 100 samples"),
        (lambda: stratified([[1.0, 2.0]], [0.5, 0.5]), "1 strata and 2 shares"),
        (lambda: stratified([], []), "give one share per stratum"),
        (lambda: stratified(PAPER, [0.931, 0.019, 0.931, 0.019]), r"sum to 1\.9; .* sum to 1"),
        (lambda: stratified(PAPER[:2], [1.5, -0.5]), "shares >= 0"),
        (lambda: stratified(PAPER[:2], [1.0, math.nan]), "shares >= 0"),
        (lambda: stratified([[1.0, 2.0], [1.0]], [0.5, 0.5]), "at least 2"),
    ],
)
def test_what_says_nothing_is_refused(act: object, said: str) -> None:
    with pytest.raises(ScenarioError, match=said):
        act()  # type: ignore[operator]
