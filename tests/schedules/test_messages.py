"""Messages on media in the table of ``rtsim schedule``."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

import rtsim as rt
from rtsim.cli import main
from rtsim.components.can_bus import CanBus
from rtsim.components.processor import Processor
from rtsim.core.errors import RtsimError, ScenarioError
from rtsim.scenario.scenario import Scenario
from rtsim.schedules.messages import message_rows
from rtsim.schedules.response_times import TaskAnalysis, analyse
from rtsim.schedules.table import schedule_table
from rtsim.testing.determinism import trace_of

EXAMPLE = Path(__file__).parents[2] / "docs/examples/11_can_bus.py"
BUS = CanBus(500_000, stuffing="worst")


def sensors(periods_ms: list[int], offsets_ms: list[float]) -> Scenario:
    loop = Scenario("bus", until=1)
    loop.source("car", rt.Signals("x [1]"))
    for k, (period, offset) in enumerate(zip(periods_ms, offsets_ms, strict=True)):
        loop.sensor(
            f"m{k}", {"x": "car.x"}, period=period / 1000, offset=offset / 1000,
            transport=BUS.frame(0x100 + k, length=8),
        )  # fmt: skip
    return loop


@pytest.mark.parametrize("seed", range(10))
def test_no_simulated_latency_exceeds_its_bound(seed: int) -> None:
    rng = random.Random(seed)
    periods = [rng.choice([2, 3, 5, 8]) for _ in range(5)]
    loop = sensors(periods, [round(rng.uniform(0, 2), 3) for _ in periods])
    rows = message_rows(loop, trace_of(loop))
    assert [row.sender for row in rows] == [f"m{k}" for k in range(5)]
    for row in rows:
        assert row.worst is not None
        assert row.longest is not None
        assert 0 < row.longest <= row.worst, row


def test_a_sender_whose_time_varies_leaves_the_medium_without_figures() -> None:
    class Echo(rt.Controller):
        x = rt.input("1")
        y = rt.output("1")

        def step(self) -> None:
            self.y = self.x

    loop = sensors([5], [0])
    loop.processor("mcu")
    loop.controller(
        "echo", Echo(), period=0.005, processor="mcu", execution=0.001, inputs={"x": "m0.x"},
        transport=BUS.frame(0x200, length=8),
    )  # fmt: skip
    rows = message_rows(loop, None)
    assert {row.sender: (row.worst, row.reason) for row in rows} == {
        "m0": (None, "the time at which echo sends varies"),
        "echo": (None, "the time at which echo sends varies"),
    }
    table = schedule_table(loop)
    assert [one.name for one in table.processors] == ["mcu"]
    assert [row.longest is None for row in table.messages] == [False, False]


def test_the_command_prints_the_messages_of_a_bus() -> None:
    found = CliRunner().invoke(main, ["schedule", str(EXAMPLE), "--json"])
    assert found.exit_code == 0, found.output
    rows = {row["sender"]: row for row in json.loads(found.stdout)["messages"]}
    assert rows["driver"]["medium"] == "can"
    assert rows["driver"]["simulated_s"] <= rows["driver"]["worst_latency_s"]
    text = CliRunner().invoke(main, ["schedule", str(EXAMPLE), "--no-run"]).stdout
    assert "driver" in text
    assert "simulated: no run" in text


def test_a_scenario_without_processors_and_buses_is_an_error() -> None:
    with pytest.raises(ScenarioError, match="has no processor and no bus"):
        schedule_table(Scenario("empty"))


def test_a_simulated_time_above_its_bound_is_an_error_of_rtsim(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    loop = Scenario("one", until=0.1)
    loop.processor("mcu")
    loop.task("t", "mcu", period=0.01, execution=0.002)

    def too_small(processor: Processor) -> list[TaskAnalysis]:
        return [replace(one, response=1_999_999) for one in analyse(processor)]

    assert schedule_table(loop).processors[0].rows[0].longest == 2_000_000
    monkeypatch.setattr("rtsim.schedules.table.analyse", too_small)
    with pytest.raises(
        RtsimError, match=r"the response of t is 2000000 ns .* is an error of rtsim"
    ):
        schedule_table(loop)


def test_a_load_above_one_is_named_before_the_run(tmp_path: Path) -> None:
    file = tmp_path / "busy.py"
    file.write_text(
        "import rtsim as rt\n\ndef scenario():\n"
        "    loop = rt.Scenario('busy', until=0.1)\n    loop.processor('mcu')\n"
        "    loop.task('t', 'mcu', period=0.01, execution=0.0125)\n    return loop\n"
    )
    found = CliRunner().invoke(main, ["run", str(file), "--no-record"])
    assert "note: load of mcu: 1.250, which exceeds 1" in found.stderr
    assert found.exit_code == 0
    assert "missed deadlines 10 (t 10)" in found.stdout
