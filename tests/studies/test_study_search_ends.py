"""What ``rtsim study search`` says about its end if runs have no margin."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from search_parts import BROKEN
from study_commands import parsed, rtsim

pytestmark = pytest.mark.usefixtures("empty_project")


@pytest.mark.parametrize(
    ("broken", "says"),
    [
        (BROKEN.replace("x > 0.8", "x > 2"), r"\(nan: rest, rest.margin is not a number\)"),
        (BROKEN.replace("x > 0.8", "x > 0.6"), r"\(error: .*too far "),
        (BROKEN.replace("return math.nan if x > 0.6 else 1.0 - x", "return math.nan"), "nan: rest"),
    ],
    ids=["nan", "error", "all"],
)
def test_a_search_that_ends_at_a_run_without_a_margin_says_so(broken: str, says: str) -> None:
    Path("broken.py").write_text(broken)
    words = ("broken.py", "--runs", "30", "--workers", "0", "-o", "out", "--stop-at-failure")
    found = parsed(rtsim("search", *words, "--json"))
    one, text = found["search"], rtsim("show", "out").stdout
    assert (found["ended"], one["misses"], one["first_miss"]) == ("no margin", 0, None)
    assert (found["outcome"], found["rows"]) == ("failed", 20)
    ended = f"run {one['worst_run']} has no margin "
    assert re.search(f"search of rest: {ended}.*{says}", text)
    assert re.search(f"  worst: {ended}.*{says}.*:\n    plant.x = ", text)
    assert "does not meet" not in text
    assert ("no miss found in" in text) == (one["without_margin"] < 20)
    assert "worst margin none (not a number) in run" in text or not found["states"]["nan"]


@pytest.mark.parametrize("broken", [False, True], ids=["miss", "no margin"])
def test_the_page_has_the_factors_of_the_worst_run_and_the_command_that_repeats_it(
    broken: bool,
) -> None:
    text = BROKEN if broken else BROKEN.replace("x > 0.6", "x > 2").replace("x > 0.8", "x > 2")
    Path("broken.py").write_text(text)
    rtsim("search", "broken.py", "--runs", "30", "--workers", "0", "-o", "out")
    one = parsed(rtsim("report", "out", "--json"))["search"]
    page = Path("out/report.html").read_text()
    (section,) = re.findall('<section id="search">(.*?)</section>', page, re.DOTALL)
    assert f">{one['factors']['plant.x']:.6g}</td>" in section
    (command,) = re.findall("<code>rtsim study (.*?)</code>", section)
    again = rtsim(*command.split())
    assert f"run {one['worst_run']}: " in again.stdout
    assert ("has no margin" in section) == (one["worst_margin"] is None) == broken
    shown = rtsim("show", "out").stdout
    for line in re.findall("<p>(.*?)\\.</p>", section):
        assert line[1:] in shown  # the page and the command say the same
