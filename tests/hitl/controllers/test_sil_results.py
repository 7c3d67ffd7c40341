"""Results of a back-to-back run: on a terminal, as JUnit XML, as a page, and by exit status."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import numpy as np
import pytest
from back_to_back_parts import (
    Stand,
    built,
    dies_at,
    from_step,
)
from junit_schema import valid
from rich.console import Console

from hitl.comparison.back_to_back import back_to_back
from hitl.comparison.execution import Execution
from hitl.comparison.verdict import BackToBack
from hitl.controllers.sil import SilController
from hitl.results.junit import junit_xml, write_junit
from hitl.results.page import Traces, render, traces_html, write_page
from hitl.results.table import Tables
from rtsim.core.errors import RecordingError
from rtsim.core.signals import Vector
from rtsim.core.tag import Period
from rtsim.models.unstable import controller, scenario

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")
EVIL = "</script><script>alert(1)</script>"


class Fresh(Stand):
    """A stand-in that a scenario can start."""

    def fresh(self) -> Fresh:
        return Fresh(self.law, self.change, self.outputs)


def held(change: Callable[[int, Vector], Vector], **how: Any) -> BackToBack:
    options: dict[str, Any] = {"until": 3, **how}
    return back_to_back(scenario(), {"controller": Fresh(controller(), change)}, **options)


@pytest.fixture(scope="module")
def equal() -> BackToBack:
    return held(lambda step, y: y)  # noqa: ARG005


@pytest.fixture(scope="module")
def wrong() -> BackToBack:
    return held(from_step(7, lambda y: y + 1e-3))


@pytest.fixture(scope="module")
def dead() -> BackToBack:
    return held(dies_at(7))


# -- execution times


def test_execution_figures_are_those_of_the_samples() -> None:
    took = np.arange(1, 201)[::-1].copy()
    took[57] = 5000
    one = Execution.of(took, Period.of("1e-5"))
    assert one is not None
    assert (one.steps, one.min, one.max, one.max_step) == (200, 1, 5000, 57)
    assert one.mean == took.mean()
    assert one.p99 == sorted(took)[197]
    assert one.share == 0.5
    assert "host time" in one.in_words
    assert "maximum observed 5 us at step 57, 50 % of the period" in one.in_words
    assert "WCET" not in one.in_words
    few = Execution.of([3, 1, 2])
    assert few is not None
    assert (few.p99, few.share) == (None, None)
    assert "p99" not in few.in_words
    assert Execution.of([]) is None


# -- terminal


def shown(result: BackToBack, width: int) -> str:
    out = io.StringIO()
    Console(file=out, width=width).print(Tables(result), crop=False)
    return out.getvalue()


@pytest.mark.parametrize("width", [20, 80, 120])
def test_the_table_cuts_no_name(wrong: BackToBack, width: int) -> None:
    text = shown(wrong, width)
    for name in ("force", "messages/controller.force", "plant.x", "step 7"):
        assert name in text, name
    assert "The open loop already fails" in " ".join(text.split())
    assert "24/31" in text.partition("Closed loop")[0], "the verdict of the table"
    assert "…" not in text
    assert re.search(r"^messages/controller\.force .*", text, re.M), "in one line"
    if width >= 80:
        lines = text.splitlines()
        assert max(map(len, lines)) <= width
        assert any("of tolerance" in line for line in lines)


def test_the_table_of_what_agrees_is_short(equal: BackToBack) -> None:
    text = shown(equal, 120)
    assert "signals agree" in text
    assert "initiated" not in text
    assert "fail" not in text


def test_the_table_shows_share_of_period_at_80_columns(tmp_path: Path) -> None:
    law = SilController(built(tmp_path))
    text = shown(back_to_back(scenario(), {"controller": law}, until=11), 80)
    (heads,) = [line for line in text.splitlines() if "max observed" in line]
    for head in ("mean", "p99", "at step", "of period"):
        assert head in heads
    assert len(re.findall(r"^controller +(open|closed)", text, re.M)) == 2
    assert "host time" in text


# -- JSON


def test_json_is_strict_and_says_where(wrong: BackToBack, dead: BackToBack) -> None:
    data = json.loads(json.dumps(wrong.to_json(), allow_nan=False))
    assert data["ok"] is False
    assert data["open"]["controller"]["first"] == {"signal": "force", "step": 7}
    (force,) = data["open"]["controller"]["signals"]
    assert force["first_failure"] == [700_000_000, 0]
    assert force["first_failed_step"] == 7
    span = np.ptp(wrong.open["controller"].design[:, 0])
    assert force["tolerance"] == [1e-12 * span, 1e-9], "scaled with what the signal spans"
    worst = data["open"]["controller"]["worst"][0]
    assert set(worst["inputs"]) == {"x", "v"}
    assert data["closed"]["ok"] is False
    assert "SIGFPE" in json.loads(json.dumps(dead.to_json(), allow_nan=False))["closed"]["error"]


# -- JUnit


def cases(root: ET.Element, kind: str) -> dict[str, ET.Element]:
    return {
        c.attrib["name"]: c for c in root.iter("testcase") if f".{kind}" in c.attrib["classname"]
    }


def test_junit_has_a_case_for_each_signal(equal: BackToBack) -> None:
    root = valid(ET.fromstring(junit_xml(equal)))
    assert root.attrib["failures"] == root.attrib["errors"] == "0"
    assert "force" in cases(root, "open_loop.controller")
    closed = cases(root, "closed_loop")
    assert equal.closed is not None
    assert {r.name for r in equal.closed.results} <= closed.keys()
    assert int(root.attrib["tests"]) == len(list(root.iter("testcase")))


def test_a_junit_failure_names_signal_step_tag_and_values(wrong: BackToBack) -> None:
    root = valid(ET.fromstring(junit_xml(wrong)))
    failure = cases(root, "open_loop.controller")["force"].find("failure")
    assert failure is not None
    moment = wrong.open["controller"].first_moment
    assert moment is not None
    for part in (
        "controller.force", "step: 7", "tag: 0.7", repr(moment.design), repr(moment.translation),
        "x=", "1e-09 of the reference's value",
    ):  # fmt: skip
        assert part in (failure.text or ""), part
    failure = cases(root, "closed_loop")["plant.x"].find("failure")
    assert failure is not None
    for part in ("tag: 0.", "reference model: ", "C: ", "The open loop already fails"):
        assert part in (failure.text or ""), part
    assert failure.attrib["type"] == "difference"


def test_a_junit_error_holds_what_xml_cannot(dead: BackToBack) -> None:
    root = valid(ET.fromstring(junit_xml(dead)))
    assert root.attrib["errors"] == "2"
    error = cases(root, "open_loop")["(every step is answered)"].find("error")
    assert error is not None
    assert "SIGFPE" in (error.text or "")
    coloured = held(lambda step, y: raising("\x1b[1m\0red \ud800") if step == 2 else y)
    root = valid(ET.fromstring(junit_xml(coloured)))
    error = cases(root, "open_loop")["(every step is answered)"].find("error")
    assert error is not None
    assert "\ufffd[1m\ufffdred \ufffd" in (error.text or "")


def raising(text: str) -> Vector:
    from rtsim.core.errors import ControllerError

    raise ControllerError(text)


# -- the page


def outside_scripts(page: str) -> str:
    return re.sub(r"<script[^>]*>.*?</script>", "", page, flags=re.DOTALL)


def plots(page: str) -> list[dict[str, Any]]:
    """Data and layout of every plot, drawn at once or when opened."""
    folded = re.findall(r'class="plot-data">(.*?)</script>', page, re.DOTALL)
    out = [json.loads(data) for data in folded]
    decode = json.JSONDecoder()
    for match in re.finditer(r"Plotly\.newPlot\(\s*\"[^\"]+\",\s*(?=\[)", page):
        data, end = decode.raw_decode(page, match.end())
        rest = re.compile(r"\s*,\s*").match(page, end)
        assert rest is not None
        layout, _ = decode.raw_decode(page, rest.end())
        out.append({"data": data, "layout": layout})
    return out


def test_the_page_needs_nothing_else_and_says_it_all(wrong: BackToBack) -> None:
    page = outside_scripts(render(wrong))
    assert not re.search(r"""(src|href)\s*=\s*["'](?!#)""", page)
    assert "url(" not in page
    for part in (
        "does not do what its reference model does", "controller.force at step 7", "max observed",
        "The open loop already fails", "Worst step of each output", "plant.x",
    ):  # fmt: skip
        assert part in page, part
    moment = wrong.open["controller"].first_moment
    assert moment is not None
    worst = wrong.open["controller"].signals[0].worst_step
    assert worst is not None
    inputs = wrong.open["controller"].moment(wrong.open["controller"].signals[0], worst)
    assert inputs.inputs_in_words in page


def test_each_output_is_drawn_with_its_difference_and_first_divergence(wrong: BackToBack) -> None:
    drawn = plots(render(wrong))
    (force, *_) = [p for p in drawn if "force [N/kg]" in p["layout"]["yaxis"]["title"]["text"]]
    assert [t["name"] for t in force["data"]] == ["reference model", "C", "difference", "allowed"]
    assert force["layout"]["yaxis2"]["type"] == "log"
    lines = [s["x0"] for s in force["layout"]["shapes"]]
    assert lines == [0.7, 0.7]
    texts = [a["text"] for a in force["layout"]["annotations"]]
    assert texts == ["first failure, 0.7 s"]
    assert "<figcaption>controller, open loop</figcaption>" in render(wrong)


def test_what_is_equal_is_drawn_as_that(equal: BackToBack) -> None:
    page = render(equal)
    (force, *_) = [
        p for p in plots(page) if "force [N/kg]" in p["layout"]["yaxis"]["title"]["text"]
    ]
    assert [a["text"] for a in force["layout"]["annotations"]] == ["no difference"]
    assert "shapes" not in force["layout"]
    assert "class=ok" in page


def test_infinite_differences_are_not_called_none() -> None:
    nan, one = np.array([1.0, np.nan]), np.ones(2)
    gap = np.array([0.0, np.inf])
    page = traces_html(Traces("a", "m", one.cumsum(), one, nan, gap, 0 * one, 2.0))
    (drawn,) = plots(page)
    assert "no difference" not in str(drawn["layout"]["annotations"])


def test_a_spike_between_many_steps_is_drawn() -> None:
    n = 100_000
    gap = np.zeros(n)
    gap[54_321] = 7.0
    t = np.arange(n) / 1000
    page = traces_html(Traces("a", "1", t, gap, gap, gap, gap + 1.0))
    assert len(page) < 1_000_000
    assert "54.321" in page.replace("\\u002f", "/") or _holds(page, 54.321)


def _holds(page: str, value: float) -> bool:
    """In the difference's binary x."""
    import base64

    (drawn,) = plots(page)
    x = drawn["data"][2]["x"]
    if isinstance(x, dict):
        return value in np.frombuffer(base64.b64decode(x["bdata"]), x["dtype"]).tolist()
    return value in x


def test_text_of_others_is_escaped() -> None:
    result = held(lambda step, y: raising(EVIL) if step == 2 else y)
    page = render(result)
    assert EVIL not in page
    assert "&lt;/script&gt;&lt;script&gt;alert(1)" in page


def test_files_that_cannot_be_written_are_told(equal: BackToBack, tmp_path: Path) -> None:
    for write in (write_page, write_junit):
        with pytest.raises(RecordingError, match="cannot write"):
            write(equal, tmp_path / "no" / "file")
        write(equal, tmp_path / "file")
