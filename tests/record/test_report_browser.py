"""The report of an F-16 run: its size, and what a browser makes of it at three widths."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from browser import CHROMIUM, Browser, browser

from rtsim.record.reports.run_page import write_report
from rtsim.runs.simulation import simulate
from rtsim.scenario.loading import load_scenario

MOST_BYTES = 1_500_000
PAPER_PX = 720
DRAWING_PX = "document.querySelector('#setup svg').getBoundingClientRect().width"


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("report") / "f16.html"
    write_report(simulate(load_scenario("f16"), until=20).recording(), path)
    return path


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    if CHROMIUM is None:
        pytest.skip("this machine has no Chromium")
    with browser() as found:
        yield found


@pytest.mark.long
def test_twenty_seconds_of_the_f16_are_a_small_page(page: Path) -> None:
    assert page.stat().st_size < MOST_BYTES


INK = """(() => {
  const {width, height} = document.querySelector("figure.chart canvas");
  const at = document.querySelector("figure.chart canvas").getContext("2d");
  const {data} = at.getImageData(0, 0, width, height);
  let drawn = 0;
  for (let i = 3; i < data.length; i += 4) drawn += data[i] > 0;
  return drawn / (width * height);
})()"""


@pytest.mark.full
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [380, 1000, 1920])
def test_it_is_drawn_at_every_width(page: Path, chromium: Browser, width: int, dark: bool) -> None:
    chromium.errors.clear()
    chromium.open(page, width, dark=dark)
    assert chromium.errors == []
    assert chromium.run("document.documentElement.scrollWidth") <= width
    assert chromium.run("document.querySelectorAll('figure.chart canvas').length") >= 2
    assert 0.01 < chromium.run(INK) < 0.9, "lines and axes, and not a filled area"
    back = "getComputedStyle(document.querySelector('section')).backgroundColor"
    assert (chromium.run(back) == "rgb(255, 255, 255)") is not dark


@pytest.mark.full
def test_folds_zoom_and_print(page: Path, chromium: Browser) -> None:
    chromium.errors.clear()
    chromium.open(page, 1000)
    count = "document.querySelectorAll('figure.chart canvas').length"
    before = chromium.run(count)
    chromium.run("document.querySelectorAll('details').forEach(d => d.open = true)")
    chromium.run("scrollTo(0, 2500); new Promise(done => setTimeout(done, 500))")
    assert chromium.run(count) > before
    for kind, x in (("mousePressed", 200), ("mouseMoved", 300), ("mouseReleased", 300)):
        chromium.run("scrollTo(0, 0)")
        at = json.loads(
            chromium.run(
                "JSON.stringify(document.querySelector('.u-over').getBoundingClientRect())"
            )
        )
        chromium.tell(
            "Input.dispatchMouseEvent", type=kind, x=x, y=at["y"] + 20, button="left",
            clickCount=1,
        )  # fmt: skip
    pdf = chromium.tell("Page.printToPDF")["data"]
    assert len(pdf) > 20_000
    chromium.open(page, PAPER_PX)
    assert chromium.run(DRAWING_PX) > PAPER_PX, "wider than paper: its reader scrolls"
    chromium.tell("Emulation.setEmulatedMedia", media="print")
    assert chromium.run(DRAWING_PX) <= PAPER_PX, "nobody scrolls paper"
    chromium.tell("Emulation.setEmulatedMedia", media="")
    assert chromium.errors == []
