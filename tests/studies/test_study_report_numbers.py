"""Figures that the page about a study computes: quantiles, convergence, fans, correlations."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from scipy import stats
from study_samples import made_up, x_of

from rtsim.cli.main import main
from rtsim.core.estimates import LEVEL
from rtsim.core.signals import Vector
from rtsim.studies.designs import (
    Antithetic,
    CommonRandomNumbers,
    Design,
    LatinHypercube,
    MonteCarlo,
    Strata,
)
from rtsim.studies.plan import Ordered
from rtsim.studies.progress import Tally
from rtsim.studies.report import numbers
from rtsim.studies.report.numbers import Runs, convergence, correlation, fans, quantiles_of, ranked
from rtsim.studies.report.page import render
from rtsim.studies.study import Study
from rtsim.studies.summary import quantiles, summarise

DESIGNS = (
    MonteCarlo(50),
    Antithetic(50),
    LatinHypercube(50),
    Strata("plant.x", at=(0.5, 0.9), runs=(20, 20, 10)),
)


pytestmark = pytest.mark.usefixtures("empty_project")


def study(design: Design, **more: Any) -> Study:
    factors = {"plant.x": (0.0, 1.0), **more.pop("factors", {})}
    return Study(factors, design, {"x": "last:plant.x"}, ["x < 0.6"], **more)


def test_weighted_quantiles() -> None:
    values, weights = np.array([3.0, 1.0, 2.0]), np.array([0.1, 0.6, 0.3])
    assert quantiles(values, weights, (0.05, 0.6, 0.61, 0.9, 0.95)).tolist() == [1, 1, 2, 2, 3]
    equal = np.full(3, 1.0 / 3.0)
    wanted = np.quantile(values, [0.1, 0.5, 0.9], method="inverted_cdf")
    assert quantiles(values, equal, (0.1, 0.5, 0.9)).tolist() == wanted.tolist()
    assert quantiles(values, None, (0.1,)) == np.quantile(values, 0.1)


def test_quantiles_count_infinite_values() -> None:
    inf = np.inf
    values = np.array([1.0, 2.0, 3.0, inf, inf])
    assert quantiles(values, None, (0.0, 0.5, 0.6, 0.95)).tolist() == [1.0, 3.0, inf, inf]
    assert quantiles(-values, None, (0.05, 0.4, 0.5)).tolist() == [-inf, -inf, -3.0]
    assert quantiles(values, np.full(5, 0.2), (0.5, 0.95)).tolist() == [3.0, inf]
    assert quantiles(np.array([inf, inf]), None, (0.5,)).tolist() == [inf]


def test_a_mean_says_how_many_finite_values_it_has() -> None:
    def result(order: Ordered) -> dict[str, float]:
        return {"x": (1.0, 2.0, 3.0, np.inf, np.nan)[order.run % 5]}

    folder = made_up("out", study(MonteCarlo(10)), result)
    one = summarise(folder)["results"]["x"]
    assert (one["count"], one["finite"], one["not_finite"], one["max"]) == (10, 6, 4, 3.0)
    assert (one["median"], one["q95"], one["mean"]) == (2.5, np.inf, 2.0)
    shown = CliRunner().invoke(main, ["study", "show", "out"]).stdout
    assert re.search(r"x: mean 2 \(.* to .*\) of 6 finite values, from 1 to 3, 4 not finite", shown)


def test_intervals_of_quantiles_are_order_statistics() -> None:
    """For n = 100, the 40th and the 61st value bound the median with 96.5 % (binomial)."""
    made = study(MonteCarlo(100))
    runs = Runs(made_up("out", made, lambda o: {"x": float((37 * o.run) % 100 + 1)}))
    low, middle, _ = quantiles_of(runs.series[0], "x")
    assert (middle.value, middle.low, middle.high) == (50.5, 40.0, 61.0)
    assert stats.binom.cdf(60, 100, 0.5) - stats.binom.cdf(39, 100, 0.5) == pytest.approx(
        0.9648, abs=1e-4
    )
    assert low.low < low.value < low.high
    few = Runs(made_up("few", study(MonteCarlo(5)), x_of))
    assert all(
        math.isnan(one.low) or math.isnan(one.high) for one in quantiles_of(few.series[0], "x")
    )


@pytest.mark.parametrize("design", DESIGNS, ids=lambda one: one.name)
def test_convergence_ends_with_the_estimates_of_the_summary(design: Design) -> None:
    folder = made_up("out", study(design), x_of)
    found = summarise(folder)
    mean, rate = convergence(Runs(folder))
    for one, wanted, key in (
        (mean, found["results"]["x"], "mean"),
        (rate, found["requirements"]["x"], "share"),
    ):
        assert one.runs[-1] == 50
        assert len(one.runs) > 10
        assert np.all(np.diff(one.runs) > 0)
        last = [one.value[-1], one.low[-1], one.high[-1]]
        assert last == pytest.approx([wanted[k] for k in (key, "low", "high")], rel=1e-12)
    k = len(mean.runs) // 2
    half = made_up("half", study(design), x_of, rows=int(mean.runs[k]))
    if "stratum" not in folder.plan.block(0).marks:
        assert mean.value[k] == pytest.approx(summarise(half)["results"]["x"]["mean"])
    assert abs(mean.value[k] - 0.5) < 0.2


def test_strata_are_filled_at_the_same_pace() -> None:
    design = Strata("plant.x", at=(0.5, 0.9), runs=(20, 20, 10))
    strata = np.repeat([0, 1, 2], design.runs)
    order = design.order({"stratum": strata, "run": np.arange(50)})
    assert sorted(order) == list(range(50))
    for count in (10, 25, 40):
        filled = np.bincount(strata[order[:count]], minlength=3) / design.runs
        assert np.ptp(filled) <= 0.1
    weights = design.weights({"stratum": np.array([0, 0, 1, 2, 2, 2])})
    assert weights == pytest.approx([0.25, 0.25, 0.4, 0.1 / 3, 0.1 / 3, 0.1 / 3])


def level(order: Ordered, seconds: Vector) -> Vector:
    """A history that depends on the run; runs above 0.8 end at 0.5 s."""
    x = float(order.factors["plant.x"])
    out = x * (1.0 + seconds)
    return np.where((x > 0.8) & (seconds > 0.5), math.nan, out)


def test_a_fan_has_the_quantiles_of_the_runs_that_have_not_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = study(MonteCarlo(60), histories=["plant.x"])
    states = {3: ("error", "late"), 11: ("lost", "gone")}
    runs = Runs(made_up("out", made, x_of, states, history=level))
    x = runs.ended["plant.x"]
    (fan,), (line,) = fans(runs, "plant.x", [5])
    seconds = runs.plan.job.grid / 1e9
    assert len(x) == 58
    assert len(seconds) == 200
    for k in (0, 60, 150, 199):
        there = x if seconds[k] <= 0.5 else x[x <= 0.8]
        wanted = np.quantile(there * (1.0 + seconds[k]), [0.05, 0.5, 0.95])
        assert [fan.low[k], fan.middle[k], fan.high[k]] == pytest.approx(wanted.tolist())
        assert fan.count[k] == len(there)
    own = level(Ordered(0, 0, {"plant.x": float(x[5])}, {}), seconds)
    assert np.array_equal(line, own, equal_nan=True)
    monkeypatch.setattr(numbers, "_MOST_VALUES", 58 * 7)  # 7 times in each block
    (again,), (same,) = fans(runs, "plant.x", [5])
    assert np.array_equal(again.middle, fan.middle)
    assert np.array_equal(again.high, fan.high)
    assert np.array_equal(same, line, equal_nan=True)


def test_a_fan_of_strata_is_weighted_and_one_of_alternatives_is_divided() -> None:
    design: Design = Strata("plant.x", at=(0.9,), runs=(200, 200))
    made = study(design, histories=["plant.x"])
    runs = Runs(made_up("a", made, x_of, history=lambda o, t: 0 * t + float(o.factors["plant.x"])))
    (fan,), _ = fans(runs, "plant.x", [])
    assert fan.middle[-1] == summarise(runs.folder)["results"]["x"]["median"] < 0.65
    two = CommonRandomNumbers("gain", MonteCarlo(10))
    made = study(two, factors={"gain": [3.0, 1.0]}, histories=["plant.x"])
    runs = Runs(made_up("b", made, x_of, history=lambda o, t: 0 * t + float(o.factors["gain"])))
    found, _ = fans(runs, "plant.x", [])
    assert [(one.label, one.middle[0]) for one in found] == [
        ("gain = 3.0", 3.0),
        ("gain = 1.0", 1.0),
    ]


def test_pairs_are_ranked_by_spearmans_correlation() -> None:
    rng = np.random.default_rng(1)
    x = rng.normal(size=50)
    y = x + rng.normal(size=50)
    wanted = abs(float(stats.spearmanr(x, y).statistic))
    assert correlation(x, y) == pytest.approx(wanted)
    assert correlation(-x, y) == pytest.approx(wanted)
    assert correlation(np.ones(50), y) == 0.0
    y[3] = math.inf
    finite = np.isfinite(y)
    wanted = abs(float(stats.spearmanr(x[finite], y[finite]).statistic))
    assert correlation(x, y) == pytest.approx(wanted)
    texts = np.array(["a", "b"] * 25, dtype=object)
    assert correlation(texts, np.arange(50) % 2) == pytest.approx(1.0)
    made = study(MonteCarlo(40), factors={"plant.v": (0.0, 1.0), "a": ["p", "q"]})
    runs = Runs(made_up("out", made, x_of))
    assert ranked(runs)[0] == ("x", "plant.x")
    assert len(ranked(runs)) == 3


def test_quantiles_of_the_page_count_infinite_results_as_the_table_does() -> None:
    def result(order: Ordered) -> dict[str, float]:
        return {"x": np.inf if order.run % 5 == 0 else float(order.run)}

    runs = Runs(made_up("out", study(MonteCarlo(100)), result))
    one = runs.found["results"]["x"]
    found = quantiles_of(runs.series[0], "x")
    assert [q.value for q in found] == [one["q05"], one["median"], one["q95"]]
    assert [math.isinf(q.value) for q in found] == [False, False, True]
    assert (math.isinf(found[1].high), found[2].high) == (False, math.inf)
    page = render(runs)
    assert "20 of 100 results are infinite." in page
    assert "<td class=n>inf</td>" in page
    every = Runs(made_up("all", study(MonteCarlo(9)), lambda _: {"x": np.inf}))
    assert "9 of 9 results are infinite." in render(every)
    none = Runs(made_up("none", study(MonteCarlo(9)), x_of))
    assert "results are infinite" not in render(none)


def test_intervals_of_a_study_that_may_stop_early_have_the_corrected_level() -> None:
    """Two looks and the end: each interval has the level 1 - 0.05 / 3."""
    made = study(MonteCarlo(50), stop="x:1e-9,looks=20 30")
    folder = made_up("out", made, x_of)
    level = 1.0 - 0.05 / 3.0
    found, runs = summarise(folder), Runs(folder)
    assert found["results"]["x"]["level"] == pytest.approx(level)
    mean, rate = convergence(runs)
    for one, wanted in ((mean, found["results"]["x"]), (rate, found["requirements"]["x"])):
        assert [one.low[-1], one.high[-1]] == pytest.approx([wanted["low"], wanted["high"]])
    (_, tallied), *_ = Tally.of(folder).estimates()
    assert (tallied.low, tallied.level) == pytest.approx((found["results"]["x"]["low"], level))
    passed = Tally.of(folder).rate("x")
    assert passed is not None
    assert passed.low == pytest.approx(found["requirements"]["x"]["low"])
    (wide, *_), (narrow, *_) = (quantiles_of(runs.series[0], "x", one) for one in (0.99, LEVEL))
    assert wide.high > narrow.high
    page = render(runs)
    assert "95 % interval" not in page
    assert "98.33 % interval" in page
    assert "intervals of 98.33 %. This level is corrected for the 3 looks" in page
    assert "95 % interval" in render(Runs(made_up("plain", study(MonteCarlo(50)), x_of)))


def test_alternatives_of_antithetic_pairs_have_the_intervals_of_pair_means() -> None:
    """The result rises with the factor: the mean of each pair is equal, its runs are not."""
    design = CommonRandomNumbers("gain", Antithetic(20))
    made = study(design, factors={"gain": [1.0, 3.0]})
    folder = made_up(
        "out", made, lambda o: {"x": float(o.factors["gain"]) * float(o.factors["plant.x"])}
    )
    first, second = summarise(folder)["alternatives"]["x"]
    assert (first["mean"], second["mean"]) == pytest.approx((0.5, 1.5))
    assert second["difference"]["mean"] == pytest.approx(1.0)
    for one in (first, second, second["difference"]):
        assert one["high"] - one["low"] < 1e-12
    for one in convergence(Runs(folder)):
        if one.title == "mean of x":
            assert one.high[-1] - one.low[-1] < 1e-12


def test_a_result_that_is_finite_in_no_run_has_no_scatter_plot() -> None:
    two = replace(study(MonteCarlo(9)), results={"x": "last:plant.x", "y": "last:plant.v"})
    runs = Runs(made_up("out", two, lambda order: {**x_of(order), "y": np.inf}))
    assert ranked(runs) == [("x", "plant.x")]
    page = render(runs)
    assert "y over plant.x" not in page
    assert "the quantiles also count infinite values" in page
    assert (
        "  y: no estimate, 9 not finite\n"
        in CliRunner().invoke(main, ["study", "show", "out"]).stdout
    )
