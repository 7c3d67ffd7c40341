"""Designs: the factors and the seed of run k depend on the study's seed and on k alone."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from scipy import stats

from rtsim.core.errors import ScenarioError, UnknownName
from rtsim.studies.designs import (
    DESIGNS,
    Antithetic,
    CommonRandomNumbers,
    Design,
    Grid,
    LatinHypercube,
    MonteCarlo,
    Morris,
    OneAtATime,
    Replications,
    Saltelli,
    Search,
    SobolSequence,
    Strata,
    Table,
    UnitDesign,
    design_of,
    design_of_text,
)
from rtsim.studies.designs.base import rate
from rtsim.studies.factors import normals
from rtsim.studies.plan import Orders, Plan
from rtsim.studies.reductions import Last
from rtsim.studies.study import Study

RESULTS = {"last": Last("plant.x")}
FACTORS: dict[str, Any] = {"plant.x": stats.norm(2.0, 0.5), "plant.v": (0.0, 1.0)}
SAMPLED: list[Design] = [
    MonteCarlo(600),
    Antithetic(600),
    LatinHypercube(600, size=200),
    SobolSequence(512),
    Strata("plant.x", at=(0.5, 0.9), runs=(200, 200, 200)),
    Morris(trajectories=100),
    Saltelli(base=128),
    Grid(levels=20),
    OneAtATime(levels=4),
]


def plan_of(design: Design | str, seed: int = 1, **more: Any) -> Plan:
    factors = more.pop("factors", FACTORS)
    study = Study(factors=factors, design=design, results=RESULTS, seed=seed, **more)
    return Plan.of(study, "unstable")


@pytest.mark.parametrize("design", SAMPLED, ids=lambda d: d.name)
def test_a_run_does_not_depend_on_the_order_in_which_runs_are_made(design: Design) -> None:
    plan = plan_of(design)
    orders = Orders(plan)
    forward = [orders[k] for k in range(plan.runs)]
    few = sorted(range(0, plan.runs, 7), reverse=True)
    anew = Orders(plan)
    assert [anew[k] for k in few] == [forward[k] for k in few]
    other = Orders(plan_of(design, seed=2))
    assert all(other[k].seed != forward[k].seed for k in few)
    if design.name not in ("grid", "one_at_a_time"):
        assert any(other[k].factors != forward[k].factors for k in few[:3])


@pytest.mark.parametrize("design", SAMPLED, ids=lambda d: d.name)
def test_samples_are_the_values_of_a_study(design: Design) -> None:
    orders, samples = Orders(plan_of(design)), design.samples(FACTORS, seed=1)
    assert samples == [dict(orders[k].factors) for k in range(len(samples))]
    assert len(samples) == plan_of(design).runs
    assert all(type(value) is float for value in samples[0].values())


def test_samples_of_wrong_factors_are_refused() -> None:
    assert Grid().samples({"a": [1, 2], "b": ["x", "y"]})[1] == {"a": 1, "b": "y"}
    pairs = {("a", "b"): 0.9}
    wrong: list[tuple[Design, dict[str, Any], Any, str]] = [
        (MonteCarlo(9), {"a": (2, 1)}, {}, "factor a"),
        (Grid(), {"a": (0, 1), "b": (0, 1)}, pairs, "cannot be correlated"),
        (Replications(9), {"a": (0, 1)}, {}, "changes only the seed"),
        (Search("low"), {"a": (0, 1)}, {}, "the design search chooses the factors"),
    ]
    for design, factors, correlation, message in wrong:
        with pytest.raises(ScenarioError, match=message):
            design.samples(factors, correlation=correlation)
    both = MonteCarlo(400).samples({"a": (0, 1), "b": (0, 1)}, correlation=pairs)
    assert np.corrcoef([one["a"] for one in both], [one["b"] for one in both])[0, 1] > 0.8


@pytest.mark.parametrize("design", SAMPLED, ids=lambda d: d.name)
def test_a_plan_that_was_stored_as_json_has_the_same_runs(design: Design) -> None:
    plan = plan_of(design)
    read = Plan.of_text(plan.to_text(), "plan.json")
    assert "pickle" not in plan.to_text()
    stored, made = Orders(read), Orders(plan)
    assert [stored[k] for k in range(plan.runs)] == [made[k] for k in range(plan.runs)]


@pytest.mark.parametrize(
    ("few", "many"),
    [
        (MonteCarlo(300), MonteCarlo(900)),
        (Antithetic(300), Antithetic(900)),
        (LatinHypercube(200, size=100), LatinHypercube(500, size=100)),
        (SobolSequence(512), SobolSequence(1024)),
        (Morris(trajectories=90), Morris(trajectories=300)),
        (Saltelli(base=64), Saltelli(base=256)),
    ],
    ids=lambda d: d.name,
)
def test_later_runs_change_no_earlier_run(few: Design, many: Design) -> None:
    before, after = Orders(plan_of(few)), Orders(plan_of(many))
    count = plan_of(few).runs
    assert [before[k] for k in range(count)] == [after[k] for k in range(count)]


def test_another_factor_changes_no_value_of_the_first() -> None:
    one = Orders(plan_of(MonteCarlo(50), factors={"plant.x": FACTORS["plant.x"]}))
    two = Orders(plan_of(MonteCarlo(50)))
    assert [one[k].factors["plant.x"] for k in range(50)] == [
        two[k].factors["plant.x"] for k in range(50)
    ]
    assert [one[k].seed for k in range(50)] == [two[k].seed for k in range(50)]
    assert len({one[k].seed for k in range(50)}) == 50


def column(plan: Plan, name: str) -> Any:
    orders = Orders(plan)
    return np.array([orders[k].factors[name] for k in range(plan.runs)])


def test_monte_carlo_has_the_distribution_of_each_factor() -> None:
    plan = plan_of(MonteCarlo(4000))
    assert stats.kstest(column(plan, "plant.x"), stats.norm(2.0, 0.5).cdf).pvalue > 0.001
    assert stats.kstest(column(plan, "plant.v"), stats.uniform(0, 1).cdf).pvalue > 0.001
    assert abs(np.corrcoef(column(plan, "plant.x"), column(plan, "plant.v"))[0, 1]) < 0.05


def test_each_latin_hypercube_has_one_run_in_each_interval() -> None:
    values = column(plan_of(LatinHypercube(300, size=100)), "plant.v")
    for block in np.split(values, 3):
        assert sorted((block * 100).astype(int)) == list(range(100))


def test_a_sobol_sequence_is_balanced() -> None:
    values = column(plan_of(SobolSequence(512)), "plant.v")
    assert np.bincount((values * 16).astype(int)).tolist() == [32] * 16
    with pytest.raises(ScenarioError, match="give 64 or 128 runs instead of 100"):
        SobolSequence(100)


def test_antithetic_runs_mirror_each_other() -> None:
    plan = plan_of(Antithetic(20))
    values = column(plan, "plant.v")
    assert np.allclose(values[::2] + values[1::2], 1.0)
    assert Orders(plan)[5].marks == {"pair": 2}
    with pytest.raises(ScenarioError, match="even"):
        Antithetic(3)


def test_the_grid_has_each_combination_once() -> None:
    factors = {"plant.x": [1.0, 2.0], "plant.v": (0.0, 1.0)}
    plan = plan_of(Grid(levels=3), factors=factors)
    orders = Orders(plan)
    rows = [tuple(orders[k].factors[n] for n in ("plant.v", "plant.x")) for k in range(plan.runs)]
    assert rows == [(v, x) for v in (0.0, 0.5, 1.0) for x in (1.0, 2.0)]


def test_one_at_a_time_changes_one_factor_in_each_run() -> None:
    plan = plan_of(OneAtATime(levels=2), factors={"plant.x": [1.0, 2.0], "plant.v": (0.0, 1.0)})
    orders = Orders(plan)
    found = [(orders[k].marks["factor"], dict(orders[k].factors)) for k in range(plan.runs)]
    assert found == [
        ("", {"plant.v": 0.5, "plant.x": 1.0}),
        ("plant.v", {"plant.v": 0.0, "plant.x": 1.0}),
        ("plant.v", {"plant.v": 1.0, "plant.x": 1.0}),
        ("plant.x", {"plant.v": 0.5, "plant.x": 2.0}),
    ]
    assert len({orders[k].seed for k in range(plan.runs)}) == 1


def test_alternatives_share_seeds_and_factors() -> None:
    factors = {"plant.x": FACTORS["plant.x"], "plant.v": [0.0, 1.0, 2.0]}
    plan = plan_of(CommonRandomNumbers("plant.v", MonteCarlo(200)), factors=factors)
    orders = Orders(plan)
    assert plan.runs == 600
    for k in range(0, 600, 3):
        runs = [orders[k + i] for i in range(3)]
        assert [run.factors["plant.v"] for run in runs] == [0.0, 1.0, 2.0]
        assert len({run.seed for run in runs}) == len({run.factors["plant.x"] for run in runs}) == 1
        assert {run.marks["replication"] for run in runs} == {k // 3}
    assert len({orders[k].seed for k in range(600)}) == 200


def test_strata_divide_the_distribution_and_state_their_weights() -> None:
    plan = plan_of(Strata("plant.x", at=(0.9, 0.99), runs=(10, 20, 30)))
    orders = Orders(plan)
    rows = [orders[k] for k in range(60)]
    edges = stats.norm(2.0, 0.5).ppf([0.0, 0.9, 0.99, 1.0])
    for row in rows:
        stratum = int(row.marks["stratum"])
        assert edges[stratum] <= float(row.factors["plant.x"]) <= edges[stratum + 1]
    assert [int(r.marks["stratum"]) for r in rows] == [0] * 10 + [1] * 20 + [2] * 30
    assert sum(float(row.marks["weight"]) for row in rows) == pytest.approx(1.0)


def test_a_copula_gives_the_correlation_and_keeps_the_distributions() -> None:
    factors, correlation = normals(["plant.x", "plant.v"], [1.0, 0.0], [[4.0, 1.5], [1.5, 1.0]])
    plan = plan_of(MonteCarlo(4000), factors=factors, correlation=correlation)
    x, v = column(plan, "plant.x"), column(plan, "plant.v")
    assert np.cov(x, v) == pytest.approx(np.array([[4.0, 1.5], [1.5, 1.0]]), abs=0.15)
    assert stats.kstest(x, stats.norm(1.0, 2.0).cdf).pvalue > 0.001
    skewed = {"plant.x": stats.expon(), "plant.v": stats.gamma(2.0)}
    plan = plan_of(MonteCarlo(2000), factors=skewed, correlation={("plant.x", "plant.v"): -0.8})
    x, v = column(plan, "plant.x"), column(plan, "plant.v")
    spearman = 6.0 / np.pi * np.arcsin(-0.8 / 2.0)  # of a Gaussian copula
    assert stats.spearmanr(x, v).statistic == pytest.approx(spearman, abs=0.05)
    assert stats.kstest(x, stats.expon().cdf).pvalue > 0.001


def test_a_table_gives_its_rows(tmp_path: Path) -> None:
    import pyarrow
    from pyarrow import parquet

    columns = {"plant.x": [1.0, 2.0, 3.0], "plant.v": [0.5, 0.0, 0.25]}
    table = pyarrow.table(columns)
    parquet.write_table(table, tmp_path / "t.parquet")
    (tmp_path / "t.csv").write_text("plant.x,plant.v\n1.0,0.5\n2.0,0.0\n3.0,0.25\n")
    for given in (columns, table.to_pandas(), tmp_path / "t.parquet", str(tmp_path / "t.csv")):
        plan = plan_of(Table(given), factors={})
        assert column(plan, "plant.x").tolist() == columns["plant.x"]
        assert column(plan, "plant.v").tolist() == columns["plant.v"]
    with pytest.raises(ScenarioError, match="same length"):
        Table({"a": [1.0], "b": []})
    with pytest.raises(ScenarioError, match="cannot be read"):
        Table(str(tmp_path / "none.csv"))


@pytest.mark.parametrize(
    ("design", "more", "problem"),
    [
        (Replications(5), {}, "changes only the seed"),
        (Grid(), {"correlation": {("plant.x", "plant.v"): 0.5}}, "independently"),
        (Morris(), {"factors": {"plant.x": (0, 1)}}, "at least 2 factors"),
        (Table({"plant.x": [1.0]}), {}, "leave plant.v, plant.x out"),
        (CommonRandomNumbers("plant.x"), {}, "no list of values"),
        (CommonRandomNumbers("plant.y"), {}, "unknown factor 'plant.y'"),
        (Strata("plant.y", (0.5,), (1, 1)), {}, "unknown factor 'plant.y'"),
        (
            Strata("plant.x", (0.5,), (1, 1)),
            {"correlation": {("plant.x", "plant.v"): 0.5}},
            "is correlated",
        ),
        (MonteCarlo(5), {"correlation": {("plant.x", "y"): 0.5}}, "unknown factor 'y'"),
        (MonteCarlo(5), {"correlation": {("plant.x", "plant.v"): 1.5}}, "between -1 and 1"),
        (MonteCarlo(5), {"factors": {"plant.x": (1, 0)}}, "factor plant.x: .*empty"),
        (MonteCarlo(5), {"factors": {"plant.x": "norn:1,2"}}, "did you mean norm"),
        (MonteCarlo(5), {"factors": {"plant.x": "norm:1,-2"}}, "not defined"),
        (MonteCarlo(5), {"factors": {"plant.x": 3.0}}, "give a frozen distribution"),
        (MonteCarlo(5), {"factors": {"last": (0, 1)}}, "more than one column"),
        (MonteCarlo(5), {"settings": {"plant.x": 1.0}}, "also has a fixed value"),
    ],
)
def test_what_does_not_fit_is_refused(design: Design, more: dict[str, Any], problem: str) -> None:
    with pytest.raises(ScenarioError, match=problem):
        plan_of(design, **more)


@pytest.mark.parametrize(
    ("text", "design"),
    [
        ("monte_carlo", MonteCarlo()),
        ("latin_hypercube:runs=20", LatinHypercube(20)),
        ("saltelli:256,second=true", Saltelli(256, True)),
        ("strata:plant.x,at=0.9 0.99,runs=1 2 3", Strata("plant.x", (0.9, 0.99), (1, 2, 3))),
        ("strata:plant.x,at=0.9,runs=1 2", Strata("plant.x", (0.9,), (1, 2))),
        (
            "common_random_numbers:plant.v,runs=9",
            CommonRandomNumbers("plant.v", MonteCarlo(9)),
        ),
    ],
)
def test_a_design_is_read_from_a_text(text: str, design: Design) -> None:
    assert design_of_text(text) == design
    assert design_of(json.loads(json.dumps(design.to_plain()))) == design


def test_a_wrong_text_says_what_the_design_takes() -> None:
    with pytest.raises(UnknownName, match="did you mean saltelli"):
        design_of_text("saltelly")
    with pytest.raises(ScenarioError, match=r"takes \(runs=100, size=0\)"):
        design_of_text("latin_hypercube:levels=3")
    with pytest.raises(ScenarioError, match="whole number >= 1"):
        design_of_text("monte_carlo:runs=0")


@pytest.fixture
def own_design() -> Iterator[type[Design]]:
    @dataclass(frozen=True)
    class Corners(UnitDesign):
        name: ClassVar[str] = "corners"

        runs: int = 4

        def count(self, space: Any) -> int:  # noqa: ARG002
            return self.runs

        def unit(self, space: Any, first: int, count: int) -> list[Any]:
            run = np.arange(first, first + count)
            return [0.25 + 0.5 * ((run >> i) % 2) for i in range(len(space.names))]

    DESIGNS.add("corners", Corners)
    yield Corners
    DESIGNS._added.pop("corners")


def test_a_design_of_your_own_is_one_class_and_one_registration(own_design: type[Design]) -> None:
    plan = plan_of("corners:runs=4", factors={"plant.x": (0, 1), "plant.v": (0, 1)})
    assert column(plan, "plant.v").tolist() == [0.25, 0.75, 0.25, 0.75]
    assert column(plan, "plant.x").tolist() == [0.25, 0.25, 0.75, 0.75]
    assert isinstance(Plan.of_text(plan.to_text(), "p").sampled, own_design)
    with pytest.raises(ScenarioError, match="subclass"):
        DESIGNS.add("other", own_design)


def test_a_plan_of_another_format_is_refused() -> None:
    plan = plan_of(MonteCarlo(5))
    with pytest.raises(ScenarioError, match="has the format 1"):
        Plan.of_text(replace(plan, format=1).to_text(), "plan.json")
    with pytest.raises(ScenarioError, match="is not the plan of a study"):
        Plan.of_text("{", "plan.json")
    with pytest.raises(ScenarioError, match="has no run 5"):
        Orders(plan)[5]


def test_the_share_of_antithetic_pairs_takes_half_as_many_runs() -> None:
    columns = {"pair": np.repeat(np.arange(50), 2)}
    for passed, halves in ((100, (50, 50)), (0, (0, 0)), (37, (18, 19))):
        met = np.arange(100) < passed
        found = Antithetic(100).share(columns, met)
        assert found is not None
        assert found.share == passed / 100
        assert (found.low, found.high) == (rate(halves[0], 50).low, rate(halves[1], 50).high)
    assert Antithetic(2).share({"pair": np.zeros(1)}, np.ones(1, np.bool_)) is None
