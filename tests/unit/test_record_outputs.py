"""What discrete-event parts came to, in the report and behind a run."""

from __future__ import annotations

import json
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from rtsim.cli import main
from rtsim.discrete import Agenda, Processes
from rtsim.latency import Fixed
from rtsim.record.outputs import outputs, said
from rtsim.record.report import render
from rtsim.scenario import Scenario
from rtsim.signals import Signal, Signals
from rtsim.testing.determinism import trace_of


def scenario(calls: int = 4) -> Scenario:
    """y is 6 at the start, 1 from 1 s on, 3 from 2 s to the end at 4 s."""

    def setup(agenda: Agenda) -> None:
        def body() -> Generator[Any, Any, None]:
            for value in (1.0, 3.0):
                yield agenda.timeout(0.75)
                agenda.write(y=value)
                yield agenda.timeout(0.25)
            for k in range(calls):
                agenda.send("calls", length=k)

        agenda.process(body())

    out = Scenario("s", until=4, assumptions=("one", "one"))
    processes = Processes(
        setup, outputs=Signals(Signal("y", "m", initial=6.0)),
        messages={"calls": Signals("length [s]")}, assumptions=("one", "two"),
    )  # fmt: skip
    out.processes("p", processes, transport=Fixed(0.25))
    return out


def test_outputs_are_averaged_over_the_time_that_they_held() -> None:
    (found,) = outputs(trace_of(scenario()))
    assert (found.name, found.unit) == ("p.y", "m")
    assert found.average == pytest.approx((6 * 1 + 1 * 1 + 3 * 2) / 4)
    assert (found.least, found.greatest, found.last) == (1.0, 6.0, 3.0)


def test_messages_have_an_interval_where_there_are_many() -> None:
    (few,) = said(trace_of(scenario()))
    assert (few.name, few.messages, few.mean, few.least, few.greatest) == (
        "calls.length", 4, 1.5, 0.0, 3.0,
    )  # fmt: skip
    assert few.estimate is None
    (many,) = said(trace_of(scenario(400)))
    assert many.estimate is not None
    assert many.mean == pytest.approx(many.estimate.mean) == 199.5


def test_the_report_has_both_tables_and_each_assumption_once() -> None:
    recording = trace_of(scenario())
    page = render(recording)
    assert "Discrete events" in page
    assert "<td>p.y</td>" in page
    assert "<td>calls.length</td>" in page
    assert recording.header["scenario"]["assumptions"] == ["one", "two"]


def test_a_report_of_a_run_without_any_has_no_such_section() -> None:
    assert "Discrete events" not in render(trace_of(Scenario("none", until=1)))


def test_a_run_ends_with_its_outputs(tmp_path: Path) -> None:
    arguments = ["run", "queue", "--set", "until=50", "-o", str(tmp_path / "q.mcap")]
    printed = CliRunner().invoke(main, arguments)
    assert printed.exit_code == 0, printed.output
    assert "Discrete events" in printed.output
    assert "served" in printed.output
    again = CliRunner().invoke(main, [*arguments, "--force", "--json"])
    shown = json.loads(again.stdout)["processes"]["queue"]
    assert set(shown) == {"waiting", "served"}
    assert shown["served"] in (0.0, 1.0)
