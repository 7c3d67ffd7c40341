"""The page about a study: its figures are those of the summary, and it says what is missing."""

from __future__ import annotations

import html
import json
import math
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from study_commands import rtsim
from study_samples import made_up, x_of

from rtsim.cli.main import main
from rtsim.studies.designs import (
    CommonRandomNumbers,
    Design,
    MonteCarlo,
    Morris,
    Saltelli,
    Strata,
    Table,
)
from rtsim.studies.folder import Folder
from rtsim.studies.plan import Ordered
from rtsim.studies.report.numbers import Runs
from rtsim.studies.report.page import render
from rtsim.studies.running import start
from rtsim.studies.study import Study
from rtsim.studies.summary import sensitivity, summarise

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
