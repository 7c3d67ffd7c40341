"""What a notebook shows of each object that a user gets: short, escaped, and without colours.

The notebook of the docs: it is stored without outputs, and nbconvert makes a page of it.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rtsim import Model, Scenario, Signals, StateSpace, simulate, trim
from rtsim.blocks import Diagram, Gain, Integrator
from rtsim.linear import margins
from rtsim.record.comparison import compare
from rtsim.record.markup import MOST_ROWS, shown
from rtsim.scenario.loading import load_scenario
from rtsim.studies import Max, MonteCarlo, Study, start

EVIL = "<script>alert('x')</script>"


def spring() -> Diagram:
    out = Diagram("spring")
    out.add("v", Integrator(1.0), "acceleration")
    out.add("x", Integrator(), "v")
    out.add("acceleration", Gain(-4.0), "x")
    out.output("x")
    return out


def motion(t: float, x: Any, z: Any, u: Any, p: Any, dx: Any) -> None:  # noqa: ARG001
    dx[0] = u[0] - 2.0 * x[0]


def run(**options: Any) -> Any:
    return simulate(load_scenario("unstable"), until=0.5, compile=False, **options)


def comparison() -> Any:
    other = simulate(load_scenario("unstable", {"latency": 0.05}), until=0.5, compile=False)
    return compare(run().recording(), other.recording())


def trimmed() -> Any:
    tank = Model("tank", Signals("level [m]"), motion, inputs=Signals("flow [m/s]"))
    return trim(tank, free={"flow": 0.0}, fixed={"level": 1.0}, compile=False)


SYSTEM = StateSpace([[0.0, 1.0], [-4.0, -0.4]], [0, 1], [1, 0], states=Signals("x [m]", "v [m/s]"))
SHOWN: dict[str, tuple[Callable[[], Any], tuple[str, ...]]] = {
    "scenario": (lambda: load_scenario("f16"), ("<svg", "autopilot", "every 20 ms", "guidance")),
    "diagram": (spring, ("<svg", "acceleration", "× -4")),
    "result": (run, ("RunResult", "end at 0.5", "warnings")),
    "recording": (lambda: run().recording(), ("Recording",)),
    "table": (lambda: run().table(), ("plant.x",)),
    "comparison": (comparison, ("failed", "plant.x", "largest difference")),
    "trim": (trimmed, ("flow", "unique", "yes", "residual")),
    "system": (lambda: SYSTEM, ("2 states", "d v/dt", "damping", "stable")),
    "margins": (lambda: margins(SYSTEM), ("phase [deg]", "stable")),
}


@pytest.mark.parametrize("name", SHOWN)
def test_representations_are_short_and_take_the_colours_of_the_page(name: str) -> None:
    made, wanted = SHOWN[name]
    page = made()._repr_html_()
    assert len(page) < 20_000
    for word in wanted:
        assert word in page, word
    assert not re.search(r"black|white|#[0-9a-f]{3}|background", page)


def test_texts_are_escaped() -> None:
    page = shown(EVIL, {EVIL: EVIL}, [EVIL], [[EVIL]])
    assert "<script" not in page
    assert page.count("&lt;script") == 5
    named = StateSpace([[0.0]], [1.0], [1.0], name=EVIL, notes=[EVIL])
    assert "<script" not in named._repr_html_()
    diagram = Diagram(EVIL)
    diagram.add("g", Gain(1.0), "x")
    assert "<script" not in diagram._repr_html_()
    scenario = Scenario(EVIL)
    scenario.plant("tank", Model(EVIL, Signals("x"), motion, inputs=Signals("u")), step=1)
    assert "<script" not in scenario._repr_html_()


def test_long_tables_are_cut() -> None:
    page = shown("many", {"long": "x" * 10_000}, ["n"], [[i] for i in range(1000)])
    assert len(page) < 2_000
    assert f"{MOST_ROWS} of 1000 rows are shown" in page
    big = StateSpace(-np.eye(50), np.ones((50, 1)), np.ones((1, 50)))
    assert len(big._repr_html_()) < 20_000


def test_a_study_shows_counts_and_ranges(tmp_path: Path) -> None:
    study = Study(
        {"plant.x": (0.5, 1.0)}, MonteCarlo(4), {"top": Max("plant.x")}, ["top < 0.8"], until=0.1
    )
    folder = start("unstable", tmp_path / "study", study)
    page = folder._repr_html_()
    assert "4 of 4" in page
    assert re.search(r"met in [0-4] of 4 runs", page)
    assert "finite values" in page


def test_settings_are_numbers_or_texts() -> None:
    by_number = load_scenario("unstable", {"latency": 0.05, "plant.x": 0.5, "plant.v": [1.0]})
    by_text = load_scenario("unstable", {"latency": "0.05", "plant.x": "0.5", "plant.v": "1.0"})
    assert by_number.describe() == by_text.describe()


def test_a_system_without_states_is_shown() -> None:
    page = StateSpace(np.zeros((0, 0)), np.zeros((0, 1)), np.zeros((1, 0)), 2.0)._repr_html_()
    assert "0 states" in page


NOTEBOOK = Path(__file__).resolve().parents[2] / "docs/notebooks/first_run.ipynb"


def test_the_notebook_is_stored_without_outputs() -> None:
    cells = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
    assert [one["cell_type"] for one in cells].count("code") >= 5
    assert not any(one.get("outputs") or one.get("execution_count") for one in cells)


@pytest.mark.long
def test_nbconvert_runs_the_notebook_and_makes_a_page(tmp_path: Path) -> None:
    own = {f"JUPYTER_{name}_DIR": str(tmp_path / name) for name in ("CONFIG", "DATA", "RUNTIME")}
    told = subprocess.run(
        [sys.executable, "-m", "nbconvert", "--execute", "--to", "html", "--output-dir",
         str(tmp_path), str(NOTEBOOK)],
        capture_output=True, encoding="utf-8", cwd=tmp_path, timeout=300,
        env={**os.environ, **own, "IPYTHONDIR": str(tmp_path), "PYTHONWARNINGS": "default"},
    )  # fmt: skip
    assert told.returncode == 0, told.stderr[-3000:]
    page = (tmp_path / "first_run.html").read_text(encoding="utf-8")
    for text in (
        "<svg", "every 100 ms", "after 30 ms", "end at 5.000000000 s", "largest distance 1.",
        "plotly-graph-div", "largest difference",
    ):  # fmt: skip
        assert text in page, shown
    assert "Traceback" not in page
