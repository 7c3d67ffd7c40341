"""A page about several runs begins with the settings that differ."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import rtsim as rt
from rtsim.record.comparison import compare
from rtsim.record.reading import Recording
from rtsim.record.reports.comparison_pages import comparison_page, render_overlay
from rtsim.record.reports.run_differences import (
    MOST_DIFFERENCES,
    differences,
    differences_table,
)


class Tank(rt.Plant):
    level = rt.state("m", 1)
    flow = rt.input("m/s")
    leak = rt.parameter("1/s", 0.1)

    def derivative(self, d: Any) -> None:
        d.level = self.flow - self.leak * self.level


class Valve(rt.Controller):
    level = rt.input("m")
    flow = rt.output("m/s")
    gain = rt.parameter("1/s", 2)

    def step(self) -> None:
        self.flow = -self.gain * self.level


def ran(
    leak: float = 0.1, delay: float = 0.0, wanted: float = 0.0, at: float | None = None,
    seed: int = 0, **how: Any,
) -> Recording:  # fmt: skip
    loop = rt.Scenario("tank", until=0.5)
    tank = loop.plant(Tank(leak=leak), step=how.pop("step", 0.1))
    valve = loop.controller(Valve(), period=0.1, transport=delay)
    loop.source("wanted", rt.Signals("level [m]"), {"level": wanted})
    loop.connect(tank.level, valve.level)
    loop.connect(valve.flow, tank.flow)
    if at is not None:
        loop.at(at, "wanted.level", 5.0)
    return rt.simulate(loop, compile=False, seed=seed, **how).recording()


@pytest.mark.parametrize(
    ("how", "name", "values"),
    [
        ({"leak": 0.3}, "tank.leak", ("0.1", "0.3")),
        ({"leak": np.nextafter(0.1, 1)}, "tank.leak", ("0.1", "0.10000000000000002")),
        ({"wanted": 2.5}, "wanted.level", ("0.0", "2.5")),
        ({"seed": 7}, "seed", ("0", "7")),
        ({"delay": 0.05}, "valve.transport", (f"{rt.Fixed(0.0)!r}", f"{rt.Fixed(0.05)!r}")),
        ({"at": 0.25}, "wanted.level from 0.250000000 s on", ("—", "5.0")),
        ({"until": 0.25}, "until", ("0.5 s", "0.25 s")),
        ({"step": "1/30"}, "tank.step", ("0.1 s", "1/30 s")),
    ],
)
def test_a_setting_that_differs_is_named_with_its_values(
    how: dict[str, Any], name: str, values: tuple[str, ...]
) -> None:
    found = differences([ran(), ran(**how)])
    assert [(one.name, one.values) for one in found] == [(name, values)]


def test_equal_settings_are_said_to_be_equal() -> None:
    assert "the same settings" in differences_table("AB", [ran(), ran()])


def test_the_pages_show_the_differences_first() -> None:
    one, other = ran(), ran(leak=0.3, seed=2)
    pages = [render_overlay([one, other]), comparison_page(compare(one, other), one, other)]
    for page in pages:
        body = page[page.index("<main>") :]
        first, second = (body.index(f"<section id={key}") for key in ('"settings"', '"'))
        assert first == second, "no section stands before the settings"
        section = body[: body.index("</section>")]
        assert section.index("seed") < section.index("tank.leak")
        assert "0.3" in section


def test_texts_of_recordings_are_escaped_and_cut() -> None:
    one, other = ran(), ran()
    spoilt = Recording("x", {**other.header, "pace": "<b>" + "x" * 1000}, None, other.tracks)
    shown = differences_table("AB", [one, spoilt])
    assert "<b>" not in shown
    assert len(shown) < 1000


def test_a_page_shows_a_limited_number_of_differences() -> None:
    one = ran()
    other = Recording(
        "x", {**one.header, "fingerprint": {f"key{k}": k for k in range(3 * MOST_DIFFERENCES)}},
        None, one.tracks,
    )  # fmt: skip
    shown = differences_table("AB", [one, other])
    assert shown.count("<tr>") == MOST_DIFFERENCES + 1
    assert "more settings differ" in shown
