"""What ``rtsim study search`` says about its end if runs have no margin."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from rtsim.cli.main import main

BROKEN = """
import math
from rtsim.models.unstable import scenario
from rtsim.studies import Search, Study


def result(recording):
    x = recording["plant.x"][0]
    if x > 0.8:
        raise ValueError("too far")
    return math.nan if x > 0.6 else 1.0 - x


def study():
    factors = {"plant.x": (0.0, 1.0)}
    design = Search("rest", runs=60)
    return Study(factors, design, {"rest": result}, ["rest > 0.3"], until=0.1)
"""


def rtsim(*words: str) -> Result:
    return CliRunner().invoke(main, ["study", *words])


@pytest.mark.parametrize(
    ("broken", "says"),
    [
        (BROKEN.replace("x > 0.8", "x > 2"), r"\(nan: rest, rest.margin is not a number\)"),
        (BROKEN.replace("x > 0.8", "x > 0.6"), r"\(error: .*too far "),
        (BROKEN.replace("return math.nan if x > 0.6 else 1.0 - x", "return math.nan"), "nan: rest"),
    ],
    ids=["nan", "error", "all"],
)
def test_a_search_that_ends_at_a_run_without_a_margin_says_so(
    broken: str, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pyproject.toml").touch()
    Path("broken.py").write_text(broken)
    words = ("broken.py", "--runs", "30", "--workers", "0", "-o", "out", "--stop-at-failure")
    found = json.loads(rtsim("search", *words, "--json").stdout)
    one, text = found["search"], rtsim("show", "out").stdout
    assert (found["ended"], one["misses"], one["first_miss"]) == ("no margin", 0, None)
    assert (found["outcome"], found["rows"]) == ("failed", 20)
    ended = f"run {one['worst_run']} has no margin "
    assert re.search(f"search of rest: {ended}.*{says}", text)
    assert re.search(f"  worst: {ended}.*{says}.*:\n    plant.x = ", text)
    assert "does not meet" not in text
    assert ("no miss found in" in text) == (one["without_margin"] < 20)
    assert "worst margin none (not a number) in run" in text or not found["states"]["nan"]
