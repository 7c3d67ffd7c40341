"""The section of a report about requirements."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

import rtsim as rt
from rtsim.requirements.section import requirement_section


class Ramp(rt.Plant):
    """``x`` rises by 1 m/s."""

    x = rt.state("m")

    def derivative(self, d: Any) -> None:
        d.x = 1.0


def section(*required: str) -> str:
    loop = rt.Scenario("ramp", until=4)
    loop.plant(Ramp(), step=0.1)
    loop.require_all(*required)
    found = requirement_section([rt.simulate(loop).recording()])
    return "" if found is None else found[2]


def test_the_section_has_verdicts_and_margins_over_time() -> None:
    pytest.importorskip("uplot")
    page = section(
        "LOW: always ramp.x < 3 m",
        "HIGH: always[1, 2] ramp.x < 9 m",
        "END: eventually ramp.x > 1 m",
    )
    text = re.sub(r"<[^>]+>", " ", page)
    assert re.search(r"LOW\s+always ramp.x &lt; 3 m\s+violated\s+ramp.x &lt; 3 m\s+4\s+-1", text)
    assert re.search(r"HIGH\s.*?holds\s+ramp.x &lt; 9 m\s+2\s+7", text)
    charts = [json.loads(one) for one in re.findall(r"json\">(.*?)</script>", page)]
    for chart in charts:
        assert [line["name"] for line in chart["lines"]] == ["robustness", "limit"]
    assert [chart["shaded"] for chart in charts] == [[[3.0, 4.0, 1]], []]
    assert "LOW: margin of ramp.x &lt; 3 m" in page


def test_a_run_without_requirements_has_no_section() -> None:
    assert section() == ""
