"""Studies against published and exact answers, from the plan of a study to its summary.

A function takes the place of the simulation where an answer is exact for a function only; the
queue is simulated.  Seeds are fixed, so that a check that has passed goes on passing.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from rtsim.core.estimates import interval
from rtsim.studies.designs import Design, MonteCarlo, Morris, Replications, Saltelli, Strata
from rtsim.studies.folder import Folder
from rtsim.studies.plan import Ordered, Orders, Plan
from rtsim.studies.running import start
from rtsim.studies.study import Study
from rtsim.studies.summary import interactions, sensitivity, summarise

Function = Callable[[dict[str, Any]], float]
PI = math.pi


def computed(
    path: Path, design: Design, factors: dict[str, Any], function: Function, seed: int = 1
) -> Folder:
    """The folder of a study whose result ``y`` is ``function`` of the factors of each run."""
    from rtsim.studies.measures import Row

    study = Study(factors, design, {"y": "last:plant.x"}, ["y<=0"], seed=seed)
    plan = Plan.of(study, "unstable")
    folder, orders = Folder.new(path, plan), Orders(plan)

    def row(order: Ordered) -> Row:
        y = float(function(dict(order.factors)))
        return Row(order, "ok", values={"y": y, "y.margin": -y})

    for k in range(plan.runs):
        folder.add(row(orders[k]))
    folder.write()
    return folder


def ishigami(x: dict[str, Any]) -> float:
    """sin x1 + 7 sin^2 x2 + 0.1 x3^4 sin x1; Ishigami and Homma, ISUMA 1990."""
    x1, x2, x3 = (float(x[name]) for name in ("x1", "x2", "x3"))
    return math.sin(x1) * (1.0 + 0.1 * x3**4) + 7.0 * math.sin(x2) ** 2


@pytest.mark.long
def test_second_order_indices_of_the_ishigami_function(tmp_path: Path) -> None:
    """V = b^2 pi^8 / 18 + b pi^4 / 5 + a^2 / 8 + 1/2, V13 = 8 b^2 pi^8 / 225; all others are 0."""
    a, b = 7.0, 0.1
    variance = b**2 * PI**8 / 18 + b * PI**4 / 5 + a**2 / 8 + 0.5
    exact = {("x1", "x3"): 8 * b**2 * PI**8 / 225 / variance}
    assert exact["x1", "x3"] == pytest.approx(0.2436836640621477, rel=1e-12)
    design = Saltelli(base=1024, second=True)
    factors = {f"x{i}": (-PI, PI) for i in (1, 2, 3)}
    folder = computed(tmp_path / "s", design, factors, ishigami)
    found = interactions(folder, "y")
    assert list(found) == [("x1", "x2"), ("x1", "x3"), ("x2", "x3")]
    for pair, one in found.items():
        assert abs(one["second"] - exact.get(pair, 0.0)) <= one["second_half"] < 0.12, pair
    first = sensitivity(folder, "y")
    for name, index in (("x1", 0.31390519), ("x2", 0.44241114), ("x3", 0.0)):
        assert abs(first[name]["first"] - index) <= first[name]["first_half"], name


def test_a_study_without_second_order_has_no_interactions(tmp_path: Path) -> None:
    factors = {f"x{i}": (-PI, PI) for i in (1, 2, 3)}
    folder = computed(tmp_path / "s", Saltelli(base=4), factors, ishigami)
    assert interactions(folder, "y") == {}


def test_morris_effects_of_a_product(tmp_path: Path) -> None:
    """f = x1 x2 on a symmetric grid: the effect of x1 is x2, with mean 1/2.

    Its levels 0, 1/3, 2/3, 1 are equally likely; their variance is 5/36.
    """
    factors = {"x1": (0.0, 1.0), "x2": (0.0, 1.0), "x3": (0.0, 1.0)}
    folder = computed(tmp_path / "s", Morris(200), factors, lambda x: x["x1"] * x["x2"])
    found = sensitivity(folder, "y")
    for name in ("x1", "x2"):
        one = found[name]
        assert abs(one["mu"] - 0.5) <= one["mu_star_half"] < 0.06
        assert one["mu_star"] == pytest.approx(one["mu"], rel=1e-12)
        assert one["sigma"] == pytest.approx(math.sqrt(5.0 / 36.0), rel=0.1)
    assert found["x3"]["mu_star"] == found["x3"]["sigma"] == 0.0


def fails(x: dict[str, Any]) -> float:
    """1 for a failure: x + z/100 beyond the quantile 0.999 of its normal distribution."""
    limit = float(stats.norm.ppf(0.999)) * math.hypot(1.0, 0.01)
    return float(x["x"] + 0.01 * x["z"] > limit)


@pytest.mark.long
def test_a_failure_once_in_a_thousand_runs_has_one_interval(tmp_path: Path) -> None:
    """The probability is 1e-3, exactly: both designs cover it; 600 runs are as good as 20,000."""
    factors = {"x": stats.norm(), "z": stats.norm()}
    strata = Strata("x", at=(0.99, 0.998), runs=(200, 200, 200))
    plain = computed(tmp_path / "plain", MonteCarlo(20_000), factors, fails, seed=2)
    few = computed(tmp_path / "few", strata, factors, fails, seed=2)
    rates = [1.0 - share for folder in (plain, few) for share in met(folder)]
    (high, p, low), (high_few, p_few, low_few) = rates[:3], rates[3:]
    assert low < 1e-3 < high
    assert low_few < 1e-3 < high_few
    assert max(low, low_few) < min(high, high_few)
    assert high_few - low_few < high - low < 1e-3
    means = [summarise(folder)["results"]["y"] for folder in (plain, few)]
    assert [one["mean"] for one in means] == pytest.approx([p, p_few], rel=1e-9)
    # Without weights, 600 runs would say that one run in six fails.
    assert interval(np.asarray(few.table("y")["y"])).low > 0.1


def met(folder: Folder) -> tuple[float, float, float]:
    one = summarise(folder)["requirements"]["y"]
    return one["low"], one["share"], one["high"]


def queue(path: Path, after: float, until: float, runs: int = 40, **rates: float) -> dict[str, Any]:
    """An M/M/1 queue with arrivals at 0.5/s and service at 1/s, in independent replications."""
    results = {
        "wait": f"mean_of_rows:customers.wait,after={after}",
        "waiting": f"mean:queue.waiting,after={after}",
        "served": f"mean:queue.served,after={after}",
    }
    settings = {"arrival": 0.5, "service": 1.0, **rates}
    study = Study({}, Replications(runs), results, settings=settings, until=until, seed=1)
    found: dict[str, Any] = summarise(start("queue", path, study))["results"]
    return found


EXACT = {"wait": 1.0, "waiting": 0.5, "served": 0.5}
"""Wq = rho / (mu - lambda), Lq = rho^2 / (1 - rho), rho; Kleinrock, Queueing Systems 1, 1975."""


def inside(found: dict[str, Any], widths: float = 1.0) -> list[str]:
    """The results whose exact mean is within ``widths`` half widths of their intervals of 95 %.

    A correct result is outside of one half width once in 20 times, and of two once in 10,000.
    """
    return [
        name
        for name, exact in EXACT.items()
        if abs(2.0 * exact - found[name]["low"] - found[name]["high"])
        <= widths * (found[name]["high"] - found[name]["low"])
    ]


def test_an_mm1_queue_by_replications_without_its_warm_up(tmp_path: Path) -> None:
    found = queue(tmp_path / "s", after=50, until=500)
    assert inside(found, widths=2.0) == list(EXACT)
    assert all(
        found[name]["high"] - found[name]["low"] < 0.35 * exact for name, exact in EXACT.items()
    )


@pytest.mark.long
def test_the_warm_up_of_a_queue_shows_if_it_is_left_in(tmp_path: Path) -> None:
    """Customers of the first 10 s wait less: the queue is empty at the start."""
    cold = queue(tmp_path / "cold", after=0, until=10, runs=200)
    assert inside(cold) == []
    assert cold["wait"]["high"] < EXACT["wait"]


def test_a_server_that_is_too_slow_shows(tmp_path: Path) -> None:
    assert inside(queue(tmp_path / "slow", after=50, until=500, service=0.8)) == []
