"""The page about a study: its figures are those of the summary, and it says what is missing.

Figures that the page about a study computes: quantiles, convergence, fans, correlations.
"""

from __future__ import annotations

import html
import json
import math
import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from scipy import stats
from study_commands import rtsim
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
    Morris,
    Saltelli,
    Strata,
    Table,
)
from rtsim.studies.folder import Folder
from rtsim.studies.plan import Ordered
from rtsim.studies.progress import Tally
from rtsim.studies.report import numbers
from rtsim.studies.report.numbers import Runs, convergence, correlation, fans, quantiles_of, ranked
from rtsim.studies.report.page import render
from rtsim.studies.running import start
from rtsim.studies.study import Study
from rtsim.studies.summary import quantiles, sensitivity, summarise

EVIL = "</script><img src=x onerror=alert(1)>"
TWO = {"plant.x": (0.0, 1.0), "plant.v": (0.0, 1.0)}


pytestmark = pytest.mark.usefixtures("empty_project")


def study(design: Design | None = None, **more: Any) -> Study:
    design = design or MonteCarlo(40)
    factors = more.pop("factors", {"plant.x": (0.0, 1.0)})
    required = more.pop("requirements", ["x < 0.6"])
    return Study(factors, design, {"x": "last:plant.x"}, required, **more)


def page_of(folder: Folder) -> str:
    """The page without its scripts."""
    return re.sub(r"<script[^>]*>.*?</script>", "", render(Runs(folder)), flags=re.DOTALL)


def section(page: str, key: str) -> str:
    found = re.search(f'<section id="{key}">(.*?)</section>', page, re.DOTALL)
    return "" if found is None else found[1]


def rows_of(markup: str) -> list[list[str]]:
    """The texts of all rows of all tables."""
    rows = re.findall(r"<tr>(.*?)</tr>", markup, re.DOTALL)
    cells = [re.findall(r"<t[dh][^>]*>(.*?)</t[dh]>", row, re.DOTALL) for row in rows]
    return [[html.unescape(cell) for cell in row] for row in cells]


PLOT = re.compile(r'Plotly\.newPlot\((?=\s*")')
"""The call for a plot of the page, which has an id; plotly's own text can have other calls."""


def traces(folder: Folder, figure: int) -> Any:
    """The traces of one plot of the page."""
    plots = PLOT.split(render(Runs(folder)))[1:]
    rest = plots[-1 - figure] if figure < 0 else plots[figure]
    return json.JSONDecoder().raw_decode(rest[rest.index("[") :])[0]


def g(value: float) -> str:
    return f"{value:.5g}"


def test_the_figures_are_those_of_the_summary() -> None:
    folder = made_up("out", study(), x_of)
    found = summarise(folder)
    one, met = found["results"]["x"], found["requirements"]["x"]
    assert 0 < met["passed"] < 40
    rows = rows_of(section(page_of(folder), "result"))
    assert [
        "x <= 0.6", "40", str(met["passed"]), g(met["share"]),
        f"{g(met['low'])} to {g(met['high'])}", g(met["worst_margin"]), str(met["worst_run"]),
    ] in rows  # fmt: skip
    assert [
        "x", "40", "0", g(one["mean"]), f"{g(one['low'])} to {g(one['high'])}", g(one["min"]),
        g(one["q05"]), g(one["median"]), g(one["q95"]), g(one["max"]),
    ] in rows  # fmt: skip
    page = page_of(folder)
    assert "<div><span>runs ended</span>40 of 40</div><div><span>ok</span>40</div>" in page
    assert "class=warn" not in page


def test_the_page_is_one_file_and_no_text_of_the_study_is_markup() -> None:
    made = study(factors={"plant.x": (0.0, 1.0), "label": ["a", EVIL]}, settings={"note": EVIL})
    name = EVIL.replace("/", "_") if os.name == "posix" else "a&b"
    folder = made_up(name, made, x_of, {3: ("error", EVIL)})
    page = page_of(folder)
    assert EVIL not in page
    assert "<img" not in page
    assert html.escape(EVIL) in section(page, "failed")
    assert not re.findall(r"<(?:link|img|iframe)\b|\b(?:src|href)=[\"']?https?:", page)
    assert EVIL not in render(Runs(folder))


def test_an_incomplete_study_says_so_first_and_has_the_status_of_show() -> None:
    folder = made_up("out", study(), x_of, rows=30)
    done = rtsim("report", "out")
    assert (done.exit_code, rtsim("show", "out").exit_code) == (2, 2)
    report, missing = done.stdout.splitlines()
    assert report == f"report: {Path('out/report.html')}"
    assert missing.startswith("10 of 40 runs are missing: 30 to 39; type rtsim study resume")
    text = Path("out/report.html").read_text(encoding="utf-8")
    warning = "The study is incomplete: 10 of 40 runs are missing (30 to 39)."
    assert text.index(warning) < text.index('<section id="result">')
    assert "30 of 40" in page_of(folder)


@pytest.mark.parametrize("rows", [0, 1, 2])
def test_a_page_about_few_runs(rows: int) -> None:
    folder = made_up("out", study(histories=["plant.x"]), x_of, rows=rows)
    page = page_of(folder)
    assert f"{40 - rows} of 40 runs are missing" in page
    assert ("no estimate" in section(page, "result")) == (rows < 2)
    assert ("No run has a history" in section(page, "histories")) or not rows


def test_runs_without_results_are_counted_by_cause() -> None:
    states = dict.fromkeys((4, 9, 17), ("error", "ValueError: a"))
    states |= {2: ("lost", "killed"), 5: ("timeout", "slow"), 7: ("error", "b")}
    states |= {8: ("nan", "x is not a number")}
    made = made_up(
        "my study", study(), lambda o: {"x": math.nan} if o.run == 8 else x_of(o), states
    )
    page = page_of(made)
    rows = rows_of(section(page, "failed"))
    command = "rtsim study run 'my study' {0} -o run-{0}.mcap"
    assert rows[1] == ["error", "ValueError: a", "3", "4", command.format(4)]
    assert sorted(row[:4] for row in rows[2:]) == [
        ["error", "b", "1", "7"], ["lost", "killed", "1", "2"],
        ["nan", "x is not a number", "1", "8"], ["timeout", "slow", "1", "5"],
    ]  # fmt: skip
    for words in ("4 of 40 runs raised an error", "2 of 40 runs took too long or lost"):
        assert words in page
    assert "1 of 40 runs have a result that is not a number" in page
    assert rtsim("report", "my study").exit_code == rtsim("show", "my study").exit_code == 1
    result = rows_of(section(page, "result"))
    assert result[1][1] == "34"  # those that came to their end
    assert rows_of(section(page, "worst"))[1][:3] == ["8", "x", "NaN"]


def test_the_ten_worst_runs_have_the_commands_that_repeat_them() -> None:
    done = rtsim(
        "start", "unstable", "--workers", "0", "--runs", "15", "--until", "0.1", "-o", "out",
        "--factor", "plant.x=range:0.5,0.9", "--result", "x=max:plant.x", "--require", "x<0.7",
    )  # fmt: skip
    assert done.exit_code == 0
    folder = Folder.open(Path("out"))
    _, *rows = rows_of(section(page_of(folder), "worst"))
    table = folder.table("run", "x").to_pylist()
    wanted = sorted(table, key=lambda row: -row["x"])[:10]
    assert [row[:2] for row in rows] == [[str(one["run"]), "x"] for one in wanted]
    assert [row[2] for row in rows] == [g(0.7 - one["x"]) for one in wanted]
    program, *words = rows[0][-1].split()
    assert (program, words[0]) == ("rtsim", "study")
    again = CliRunner().invoke(main, words)
    assert again.exit_code == 0, again.output
    assert "the digest equals the stored one" in again.stdout
    assert Path(f"run-{wanted[0]['run']}.mcap").exists()


@pytest.mark.long
def test_margins_in_several_units_are_compared_by_their_spread() -> None:
    results = {"a": "last:plant.x", "b": "max:plant.x"}
    made = Study({"plant.x": (0.0, 1.0)}, MonteCarlo(30), results, ["a < 2", "b < 1e5"])
    folder = made_up("out", made, lambda o: {"a": o.run / 10, "b": 1e4 * ((7 * o.run) % 30)})
    margins = {name: folder.table(f"{name}.margin")[0].to_numpy() for name in results}
    scaled = {name: column / column.std() for name, column in margins.items()}
    least = np.minimum(scaled["a"], scaled["b"])
    worst = Runs(folder).worst(30)
    assert [one.run for one in worst] == np.argsort(least, kind="stable").tolist()
    assert {one.requirement for one in worst} == {"a", "b"}
    assert all(one.margin == margins[one.requirement][one.run] for one in worst)
    _, *rows = rows_of(section(page_of(folder), "worst"))
    assert len(rows) == 10
    assert "divided by the standard deviation" in page_of(folder)


@pytest.mark.long
def test_weighted_strata_are_weighted_everywhere() -> None:
    design = Strata("plant.x", at=(0.9,), runs=(200, 200))
    folder = made_up("out", study(design, requirements=["x < 0.9"]), x_of)
    found = summarise(folder)
    page = page_of(folder)
    result = rows_of(section(page, "result"))
    met = found["requirements"]["x"]
    assert met["share"] == pytest.approx(0.9)
    between = f"{g(met['low'])} to {g(met['high'])}"
    assert result[1][:5] == ["x <= 0.9", "400", "200", "0.9", between]
    assert found["results"]["x"]["median"] == pytest.approx(0.5, abs=0.1)
    bars, curve, points = traces(folder, 1)[:3]
    assert sum(data(bars["y"])) == pytest.approx(1.0)
    assert sum(data(bars["y"])[: len(data(bars["y"])) // 2]) == pytest.approx(0.5, abs=0.1)
    x, y = data(curve["x"]), data(curve["y"])
    assert np.interp(0.9, x, y) == pytest.approx(0.9, abs=0.01)
    assert data(points["x"])[1] == pytest.approx(found["results"]["x"]["median"])
    assert set(data(points["error_x"]["array"])) == {0.0}  # no interval of a weighted quantile
    assert ["50 % ", g(found["results"]["x"]["median"]), "n/a"] in rows_of(page)


def data(values: Any) -> Any:
    """The numbers of a trace, which plotly may store as base64."""
    if isinstance(values, dict):
        import base64

        return np.frombuffer(base64.b64decode(values["bdata"]), values["dtype"]).tolist()
    return values


def test_alternatives_stand_side_by_side_and_have_no_common_interval() -> None:
    design = CommonRandomNumbers("gain", MonteCarlo(25))
    made = study(design, factors={"plant.x": (0.0, 1.0), "gain": [2.0, 1.0]})
    folder = made_up(
        "out", made, lambda o: {"x": float(o.factors["plant.x"]) * float(o.factors["gain"])}
    )
    found, page = summarise(folder), page_of(folder)
    rows = rows_of(section(page, "result"))
    assert rows[1][:3] == ["x <= 0.6", "50", str(found["requirements"]["x"]["passed"])]
    assert rows[1][4] == ""
    assert [row[0] for row in rows[2:4]] == ["x <= 0.6 at gain = 2.0", "x <= 0.6 at gain = 1.0"]
    assert int(rows[2][2]) + int(rows[3][2]) == int(rows[1][2])
    first, second = found["alternatives"]["x"]
    difference = second["difference"]
    between = f"{g(difference['low'])} to {g(difference['high'])}"
    own = f"{g(second['low'])} to {g(second['high'])}"
    assert ["x", "1.0", g(second["mean"]), own, g(difference["mean"]), between] in rows
    assert ["x", "2.0", g(first["mean"])] in [row[:3] for row in rows]
    assert "Runs of different alternatives are not independent" in page
    names = {one.get("name") for one in traces(folder, 1)}
    assert {"gain = 2.0", "gain = 1.0"} <= names


def test_plotly_reads_no_text_of_a_study_as_markup() -> None:
    design = CommonRandomNumbers("kind", MonteCarlo(5))
    made = study(design, factors={"plant.x": (0.0, 1.0), "kind": ["<b>x</b>", "y"]})
    names = {one.get("name") for one in traces(made_up("out", made, x_of), 1)}
    assert html.escape("kind = <b>x</b>") in names
    assert "kind = <b>x</b>" not in names


@pytest.mark.long
def test_indices_are_drawn_for_designs_that_have_them() -> None:
    def value(order: Ordered) -> dict[str, float]:
        return {"x": 3.0 * float(order.factors["plant.x"]) + float(order.factors["plant.v"])}

    for design in (Saltelli(base=32), Morris(trajectories=6)):
        folder = made_up(design.name, study(design, factors=TWO), value)
        found = sensitivity(folder, "x")
        heads, *rows = rows_of(section(page_of(folder), "sensitivity"))
        for row in rows:
            assert row[1:] == [g(v) for v in found[row[0]].values()]
        assert heads[1:] == [key.replace("_", " ") for key in found["plant.x"]]
        bars = traces(folder, 3)[0]
        assert bars["y"] == ["plant.x", "plant.v"]
        key = "first" if "first" in found["plant.x"] else "mu_star"
        assert data(bars["x"]) == [found[name][key] for name in bars["y"]]
        assert data(bars["error_x"]["array"]) == [found[n][f"{key}_half"] for n in bars["y"]]
        assert "chooses its runs together" in section(page_of(folder), "convergence")
    few = made_up("few", study(Saltelli(base=32), factors=TWO), value, rows=7)
    assert "No indices: only 1 groups of 4" in section(page_of(few), "sensitivity")
    assert not section(page_of(made_up("none", study(), x_of)), "sensitivity")


@pytest.mark.long
def test_factors_of_all_kinds_are_drawn_and_the_most_important_pairs_first() -> None:
    columns: dict[str, list[Any]] = {
        f"plant.p{k}": [(k * j) % 7 for j in range(9)] for k in range(29)
    }
    columns["plant.x"] = [j / 9 for j in range(9)]
    columns["label"] = ["a", "b", EVIL] * 3
    columns["on"] = [True, False, True] * 3
    made = Study(design=Table(columns), results={"x": "last:plant.x"}, requirements=["x < 0.5"])
    folder = made_up("out", made, x_of)
    text = section(page_of(folder), "factors")
    assert "24 of 32 pairs are drawn" in text
    plot = traces(folder, 2)
    assert data(plot[0]["x"]) == data(plot[0]["y"])  # x over plant.x comes first
    assert len(data(plot[0]["x"])) == 5
    assert len(data(plot[1]["x"])) == 4  # those that miss
    assert plot[1]["marker"]["color"] != plot[0]["marker"]["color"]
    assert plot[1]["text"][0] == "run 5"
    texts = {value for one in plot for value in data(one["x"]) if isinstance(value, str)}
    assert texts >= {"a", "b", html.escape(EVIL)}


def test_infinite_results_have_a_share_but_no_point() -> None:
    made = study(requirements=["x < 0.6"])
    folder = made_up("out", made, lambda o: {"x": math.inf if o.run % 4 == 0 else x_of(o)["x"]})
    curve = traces(folder, 1)[1]
    assert data(curve["y"])[-1] == pytest.approx(0.75)
    result = rows_of(section(page_of(folder), "result"))
    assert result[1][5:7] == ["-inf", "0"]
    assert ["x", "40", "10"] in [row[:3] for row in result]
    assert rows_of(section(page_of(folder), "worst"))[1][2] == "-inf"


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    ("values", "drawn"),
    [
        ([5.0, 5.0], True),
        ([0.0, 0.0], True),
        ([1.0, 1.0 + 2.0**-52], True),
        ([1e-300, 2e-300], True),
        ([-1e308, 1e308], False),
        ([math.inf, math.inf], False),
    ],
)
def test_results_of_any_range_are_drawn_or_said_not_to_be(values: list[float], drawn: bool) -> None:
    folder = made_up("out", study(MonteCarlo(8)), lambda o: {"x": values[o.run % 2]})
    with np.errstate(over="ignore"):
        text = section(page_of(folder), "distributions")
    assert ("No finite range of results" in text) == (not drawn)
    if drawn:
        assert sum(data(traces(folder, 1)[0]["y"])) == pytest.approx(1.0)


@pytest.mark.long
def test_the_command_says_what_it_wrote() -> None:
    start("unstable", "out", study(MonteCarlo(6), until=0.1, histories=["plant.x"]))
    shown = json.loads(rtsim("show", "out", "--json").stdout)
    found = json.loads(rtsim("report", "out", "-o", "page.html", "--json").stdout)
    assert found == {**shown, "report": "page.html"}
    assert Path("page.html").read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
    assert rtsim("report", "out", "-o", "page.html").exit_code == 0
    strict = rtsim("report", "out", "--strict")
    missed = shown["requirements"]["x"]["count"] - shown["requirements"]["x"]["passed"]
    assert strict.exit_code == (1 if missed else 0)


def test_a_mistake_is_explained() -> None:
    Path("empty").mkdir()
    for folder in ("empty", "nothing"):
        done = rtsim("report", folder)
        assert done.exit_code == 2
        assert f"{folder} is not the folder of a study" in done.stderr
    made_up("out", study(MonteCarlo(4)), x_of)
    Path("notes.txt").write_text("mine")
    done = rtsim("report", "out", "-o", "notes.txt")
    assert done.exit_code == 2
    assert "is not an HTML page, so it is not overwritten" in done.stderr
    done = rtsim("report", "out", "-o", "no/where.html")
    assert done.exit_code == 2
    assert "cannot write the report" in done.stderr
    (part,) = Path("out/results").iterdir()
    part.write_bytes(b"no parquet")
    done = rtsim("report", "out")
    assert done.exit_code == 2
    assert "part-000001.parquet cannot be read" in done.stderr


def test_plots_are_imported_when_they_are_needed() -> None:
    program = "import sys, rtsim.studies, rtsim.cli.study\nprint('plotly' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout == "False\n", done.stderr


DESIGNS = (
    MonteCarlo(50),
    Antithetic(50),
    LatinHypercube(50),
    Strata("plant.x", at=(0.5, 0.9), runs=(20, 20, 10)),
)


def numbered(design: Design, **more: Any) -> Study:
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

    folder = made_up("out", numbered(MonteCarlo(10)), result)
    one = summarise(folder)["results"]["x"]
    assert (one["count"], one["finite"], one["not_finite"], one["max"]) == (10, 6, 4, 3.0)
    assert (one["median"], one["q95"], one["mean"]) == (2.5, np.inf, 2.0)
    shown = CliRunner().invoke(main, ["study", "show", "out"]).stdout
    assert re.search(r"x: mean 2 \(.* to .*\) of 6 finite values, from 1 to 3, 4 not finite", shown)


def test_intervals_of_quantiles_are_order_statistics() -> None:
    """For n = 100, the 40th and the 61st value bound the median with 96.5 % (binomial)."""
    made = numbered(MonteCarlo(100))
    runs = Runs(made_up("out", made, lambda o: {"x": float((37 * o.run) % 100 + 1)}))
    low, middle, _ = quantiles_of(runs.series[0], "x")
    assert (middle.value, middle.low, middle.high) == (50.5, 40.0, 61.0)
    assert stats.binom.cdf(60, 100, 0.5) - stats.binom.cdf(39, 100, 0.5) == pytest.approx(
        0.9648, abs=1e-4
    )
    assert low.low < low.value < low.high
    few = Runs(made_up("few", numbered(MonteCarlo(5)), x_of))
    assert all(
        math.isnan(one.low) or math.isnan(one.high) for one in quantiles_of(few.series[0], "x")
    )


@pytest.mark.parametrize("design", DESIGNS, ids=lambda one: one.name)
def test_convergence_ends_with_the_estimates_of_the_summary(design: Design) -> None:
    folder = made_up("out", numbered(design), x_of)
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
    half = made_up("half", numbered(design), x_of, rows=int(mean.runs[k]))
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
    made = numbered(MonteCarlo(60), histories=["plant.x"])
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
    made = numbered(design, histories=["plant.x"])
    runs = Runs(made_up("a", made, x_of, history=lambda o, t: 0 * t + float(o.factors["plant.x"])))
    (fan,), _ = fans(runs, "plant.x", [])
    assert fan.middle[-1] == summarise(runs.folder)["results"]["x"]["median"] < 0.65
    two = CommonRandomNumbers("gain", MonteCarlo(10))
    made = numbered(two, factors={"gain": [3.0, 1.0]}, histories=["plant.x"])
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
    made = numbered(MonteCarlo(40), factors={"plant.v": (0.0, 1.0), "a": ["p", "q"]})
    runs = Runs(made_up("out", made, x_of))
    assert ranked(runs)[0] == ("x", "plant.x")
    assert len(ranked(runs)) == 3


def test_quantiles_of_the_page_count_infinite_results_as_the_table_does() -> None:
    def result(order: Ordered) -> dict[str, float]:
        return {"x": np.inf if order.run % 5 == 0 else float(order.run)}

    runs = Runs(made_up("out", numbered(MonteCarlo(100)), result))
    one = runs.found["results"]["x"]
    found = quantiles_of(runs.series[0], "x")
    assert [q.value for q in found] == [one["q05"], one["median"], one["q95"]]
    assert [math.isinf(q.value) for q in found] == [False, False, True]
    assert (math.isinf(found[1].high), found[2].high) == (False, math.inf)
    page = render(runs)
    assert "20 of 100 results are infinite." in page
    assert "<td class=n>inf</td>" in page
    every = Runs(made_up("all", numbered(MonteCarlo(9)), lambda _: {"x": np.inf}))
    assert "9 of 9 results are infinite." in render(every)
    none = Runs(made_up("none", numbered(MonteCarlo(9)), x_of))
    assert "results are infinite" not in render(none)


def test_intervals_of_a_study_that_may_stop_early_have_the_corrected_level() -> None:
    """Two looks and the end: each interval has the level 1 - 0.05 / 3."""
    made = numbered(MonteCarlo(50), stop="x:1e-9,looks=20 30")
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
    assert "95 % interval" in render(Runs(made_up("plain", numbered(MonteCarlo(50)), x_of)))


def test_alternatives_of_antithetic_pairs_have_the_intervals_of_pair_means() -> None:
    """The result rises with the factor: the mean of each pair is equal, its runs are not."""
    design = CommonRandomNumbers("gain", Antithetic(20))
    made = numbered(design, factors={"gain": [1.0, 3.0]})
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
    two = replace(numbered(MonteCarlo(9)), results={"x": "last:plant.x", "y": "last:plant.v"})
    runs = Runs(made_up("out", two, lambda order: {**x_of(order), "y": np.inf}))
    assert ranked(runs) == [("x", "plant.x")]
    page = render(runs)
    assert "y over plant.x" not in page
    assert "the quantiles also count infinite values" in page
    assert (
        "  y: no estimate, 9 not finite\n"
        in CliRunner().invoke(main, ["study", "show", "out"]).stdout
    )
